//! How blocks look in a browser.

use cairn_api::show::{Block, Cell, Column, Span, Target};
use cairn_api::text::{cut, one_line, plain};
use maud::{Markup, html};

use crate::links::{channel_path, entry_path, memory_path, prompt_path, run_path, summary_path, turn_path};
use crate::pieces::{differing, facts, said, table, time};
use crate::servers::server_path;

/// Columns of a text in a table; its own view has all of it.
const CUT: usize = 300;

/// Blocks, with a section for each heading.
pub(super) fn paint(blocks: &[Block]) -> Markup {
    html! {
        @for part in blocks.chunk_by(|_, next| !matches!(next, Block::Head(_))) {
            @if let [Block::Head(name), below @ ..] = part {
                @let id = name.to_lowercase().replace(' ', "-");
                section aria-labelledby=(id) { h2 id=(id) { (name) } @for block in below { (one(block)) } }
            } @else { @for block in part { (one(block)) } }
        }
    }
}

fn one(block: &Block) -> Markup {
    match block {
        Block::Head(name) => html! { h2 { (name) } },
        Block::Facts(rows) => {
            let rows: Vec<_> = rows.iter().map(|(name, fact)| (*name, cell(fact, plain))).collect();
            facts(&rows)
        }
        Block::Table { caption, .. } => list(caption, std::slice::from_ref(block), |_| html! {}),
        Block::Text(text) => said(text),
        Block::Diff(lines) => differing(lines),
        Block::Note(note) => html! { p.note { (cell(note, plain)) } },
    }
}

/// The tables among blocks, captioned with the order of their rows; `before`: what the first cell of the nth row begins with.
pub(super) fn list(caption: &str, blocks: &[Block], before: impl Fn(usize) -> Markup) -> Markup {
    let drawn = |columns: &[Column], rows: &[Vec<Cell>]| {
        let columns: Vec<_> = columns.iter().map(|column| (column.name, class(*column))).collect();
        let rows = rows.iter().enumerate().map(|(n, row)| {
            let mut row: Vec<_> = row.iter().map(in_table).collect();
            row[0] = html! { (before(n)) (row[0]) };
            row
        });
        table(caption, &columns, &rows.collect::<Vec<_>>())
    };
    html! {
        @for block in blocks {
            @if let Block::Table { columns, rows, .. } = block { (drawn(columns, rows)) }
        }
    }
}

fn class(column: Column) -> &'static str {
    match (column.right, column.narrow) {
        (true, true) => "number",
        (true, false) => "number wide",
        (false, true) => "",
        (false, false) => "wide",
    }
}

fn in_table(spans: &Cell) -> Markup {
    cell(spans, |text| cut(&plain(text), CUT))
}

fn cell(spans: &Cell, escaped: impl Fn(&str) -> String) -> Markup {
    html! {
        @for span in spans {
            @match span {
                Span::Words(text) => (escaped(text)),
                Span::Code(text) => code { (escaped(text)) },
                Span::Time(at) => (time(*at)),
                Span::Bad(text) => span.trouble { (escaped(text)) },
                Span::Link(to, text) => a href=(href(to)) { (one_line(text)) },
            }
        }
    }
}

fn href(to: &Target) -> String {
    match to {
        Target::Channel(channel) => channel_path(channel),
        Target::Turn(channel, turn) => turn_path(channel, turn),
        Target::Entry(channel, seq) => entry_path(channel, *seq),
        Target::Summary(channel, summary) => summary_path(channel, summary.as_str()),
        Target::Run(channel, run) => run_path(channel, run),
        Target::Prompt(channel, of, call) => prompt_path(channel, of, *call),
        Target::Memory(memory) => memory_path(memory),
        Target::Server(id) => server_path(id),
    }
}

#[cfg(test)]
mod tests {
    use cairn_api::show::testing::{hostile_samples, samples};

    use super::*;

    #[test]
    fn records_in_a_browser() {
        for sample in samples() {
            // A line for each row, fact and heading.
            let lines = paint(&sample.blocks).into_string();
            let lines = ["<tr>", "<div>", "<h2", "</section>"]
                .iter()
                .fold(lines, |lines, tag| lines.replace(tag, &format!("\n{tag}")));
            insta::assert_snapshot!(sample.name, lines);
        }
    }

    #[test]
    fn hostile_text_is_no_markup() {
        for sample in hostile_samples() {
            let markup = paint(&sample.hostile).into_string();
            assert!(markup.contains("&lt;b class=x&gt;"), "{}: {markup}", sample.name);
            assert!(!markup.contains("<b ") && !markup.contains("\"'"), "{}: {markup}", sample.name);
            assert!(!markup.contains(['\u{1b}', '\u{202e}']), "{}: {markup}", sample.name);
        }
    }
}
