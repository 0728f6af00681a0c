//! How blocks look in a terminal.

use cairn_api::records::LineDiff;
use cairn_api::show::{Block, Cell, Column, Span};
use cairn_api::text::{columns, minute, one_line, plain};

use crate::out::Table;

/// Columns of a last cell below which it goes on a line of its own.
const LAST_MIN: usize = 40;

/// Blocks as lines. No table is wider than `width`, but for what is to be copied; facts and texts are never cut.
pub fn paint(blocks: &[Block], width: usize) -> String {
    let mut text = String::new();
    let (mut indent, mut after_head) = (0, false);
    for block in blocks {
        // Below a heading, facts begin something of its own.
        if matches!(block, Block::Facts(_)) && indent > 0 && !after_head {
            text.push('\n');
        }
        after_head = matches!(block, Block::Head(_));
        let lines = match block {
            Block::Head(name) => {
                indent = 2;
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{gap}{name}\n"));
                continue;
            }
            Block::Facts(rows) => facts(rows),
            Block::Table { columns, rows, caption: _ } => {
                table(columns, rows, width.saturating_sub(indent), indent == 0)
            }
            Block::Text(said) => plain(said),
            Block::Diff(lines) => diff(lines),
            Block::Note(cell) => line(cell),
        };
        lines.lines().for_each(|line| text.push_str(&format!("{:indent$}{line}\n", "")));
    }
    text
}

fn diff(lines: &[LineDiff]) -> String {
    lines.iter().map(|line| format!("{}{}\n", line.mark(), one_line(&line.text))).collect()
}

fn line(cell: &Cell) -> String {
    let span = |span: &Span| match span {
        Span::Words(text) | Span::Code(text) | Span::Bad(text) | Span::Link(_, text) => text.clone(),
        Span::Time(at) => minute(*at),
    };
    one_line(&cell.iter().map(span).collect::<String>())
}

fn facts(facts: &[(&str, Cell)]) -> String {
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    facts.iter().map(|(name, cell)| format!("  {name:widest$}  {}\n", line(cell))).collect()
}

/// Where it is too wide, a list loses columns that are not narrow, and last cells stand below their rows. Else a last cell is
/// cut; that of a record, whose names are there to be copied, continues on the next line.
fn table(all: &[Column], rows: &[Vec<Cell>], width: usize, is_list: bool) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(line).collect()).collect();
    let taken = |idx: usize| rows.iter().map(|row| columns(&row[idx])).fold(all[idx].name.len(), usize::max);
    let last = all.len() - 1;
    let mut kept: Vec<usize> = (0..last).collect();
    let others = |kept: &[usize]| kept.iter().map(|idx| taken(*idx) + 2).sum::<usize>();
    // What is short stays beside the others.
    let short = Some(taken(last)).filter(|taken| *taken < LAST_MIN).unwrap_or_default();
    while is_list
        && others(&kept) + short > width
        && let Some(at) = kept.iter().rposition(|idx| !all[*idx].narrow)
    {
        kept.remove(at);
    }
    let room = width.saturating_sub(others(&kept));
    let is_below = taken(last) > room && room < LAST_MIN;
    if !is_below {
        kept.push(last);
    }
    let heading: Vec<&str> = kept.iter().map(|idx| all[*idx].name).collect();
    let right: Vec<usize> = (0..kept.len()).filter(|at| all[kept[*at]].right).collect();
    let mut table = Table::new(&heading, &right);
    for row in &rows {
        table.row(kept.iter().map(|idx| row[*idx].clone()).collect());
    }
    if !is_list {
        table = table.wrapped();
    }
    if !is_below {
        return table.render(width);
    }
    let text = table.render(usize::MAX);
    let mut lines = text.lines();
    let heading = format!("{}\n", lines.next().unwrap_or_default());
    let below = |text: &str| Table::new(&["  ", text], &[]).wrapped().render(width);
    heading
        + &lines.zip(&rows).map(|(line, row)| format!("{line}\n{}", below(&row[last]))).collect::<String>()
}

#[cfg(test)]
mod tests {
    use cairn_api::show::testing::{hostile_samples, samples};
    use cairn_core::window::is_hidden;

    use super::*;

    #[test]
    fn records_in_a_terminal() {
        for sample in samples() {
            insta::assert_snapshot!(sample.name, paint(&sample.blocks, 100));
        }
    }

    #[test]
    fn hostile_text_moves_no_cursor_and_begins_no_line() {
        for sample in hostile_samples() {
            let text = paint(&sample.hostile, 100);
            assert!(text.contains("\\u{1b}[2J"), "{}: {text}", sample.name);
            assert!(!text.chars().any(|c| c != '\n' && is_hidden(c)), "{}: {text:?}", sample.name);
            // JSON has no line breaks of others.
            let has_lines = |text: &str| text.contains("\n# ||d||");
            let is_text = |block: &&Block| matches!(block, Block::Text(text) if has_lines(text));
            let texts = sample.hostile.iter().filter(is_text).count();
            // What continues a cell is set further in.
            let begins = |line: &&str| line.strip_prefix("  ").unwrap_or(line).starts_with("# ||d||");
            let begun = text.lines().filter(begins).count();
            assert_eq!(begun, texts, "{}: {text}", sample.name);
        }
    }

    #[test]
    fn what_has_no_room_beside_others_stands_below() {
        let row = |cells: [&str; 3]| cells.map(|text| vec![Span::Words(text.to_owned())]).into();
        let rows = vec![row(["a1", "somewhere far away", &"long ".repeat(20)]), row(["a2", "near", "short"])];
        let columns = vec![Column::narrow("id"), Column::wide("place"), Column::narrow("text")];
        let table = [Block::Table { caption: "", columns, rows }];
        let long = |n| format!("    {}\n", "long ".repeat(n).trim_end());
        let below = [7, 7, 6].map(long).concat();
        assert_eq!(
            paint(&table, 40),
            format!("id  place\na1  somewhere far away\n{below}a2  near\n    short\n")
        );
        let near = [row(["a1", "somewhere far away", "short"])];
        let columns = vec![Column::narrow("id"), Column::wide("place"), Column::narrow("text")];
        let table_of_short = [Block::Table { caption: "", columns, rows: near.into() }];
        assert_eq!(paint(&table_of_short, 24), "id  text\na1  short\n");
        assert!(paint(&table, 22).starts_with("id\na1\n    long"));
        let whole = paint(&table, usize::MAX);
        assert_eq!((whole.lines().count(), whole.matches("long").count()), (3, 20), "{whole}");
    }
}
