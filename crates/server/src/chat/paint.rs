//! How blocks look in a chat: in Markdown, for a narrow screen.

use cairn_api::show::{Block, Cell, Column, Span};
use cairn_api::text::{day, one_line, quoted};
use cairn_types::texts::Texts;

/// Rows of a table that a chat shows.
pub(super) const ROWS: usize = 10;

/// Blocks, with `rows` rows of each table at most.
pub(super) fn paint(blocks: &[Block], rows: usize, texts: &Texts) -> String {
    let block = |block: &Block| match block {
        Block::Head(name) => format!("**{name}**"),
        Block::Facts(facts) => {
            lines(facts.iter().map(|(name, fact)| format!("- {}: {}", texts.label(name), cell(fact))))
        }
        Block::Table { columns, rows: all, .. } => {
            lines(all.iter().take(rows).map(|one| row(columns, one, texts)))
        }
        Block::Text(text) => quoted(text),
        Block::Diff(all) => lines(all.iter().map(|line| format!("{}{}", line.mark(), quoted(&line.text)))),
        Block::Note(note) => cell(note),
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

/// The last cell, then the other narrow ones that say something, by name.
fn row(columns: &[Column], cells: &[Cell], texts: &Texts) -> String {
    let named = columns.iter().zip(cells).filter(|(column, _)| column.narrow);
    let mut named: Vec<_> = named.map(|(column, one)| (texts.label(column.name), cell(one))).collect();
    let (_, text) = named.pop().unwrap_or_default();
    named.retain(|(_, cell)| !cell.is_empty());
    let others: Vec<_> = named.iter().map(|(name, cell)| format!("{name} {cell}")).collect();
    format!("- {} ({})", text.trim_end(), others.join(", "))
}

fn cell(spans: &Cell) -> String {
    spans.iter().map(span).collect()
}

fn span(span: &Span) -> String {
    match span {
        Span::Words(text) | Span::Bad(text) => {
            // A space at either end parts it from the span beside it.
            let gap = |at: Option<char>| if at.is_some_and(char::is_whitespace) { " " } else { "" };
            format!("{}{}{}", gap(text.chars().next()), quoted(text), gap(text.chars().next_back()))
        }
        Span::Code(text) | Span::Link(_, text) => format!("`{}`", one_line(text).replace('`', "'")),
        Span::Time(at) => day(*at),
    }
}

#[cfg(test)]
mod tests {
    use cairn_api::show::testing::{hostile_samples, samples};

    use super::*;

    #[test]
    fn records_in_a_chat() {
        for sample in samples().iter().filter(|sample| ["memories", "window"].contains(&sample.name)) {
            insta::assert_snapshot!(sample.name, paint(&sample.blocks, ROWS, Texts::english()));
        }
    }

    #[test]
    fn hostile_text_is_no_markdown_and_mentions_nobody() {
        for sample in hostile_samples() {
            let text = paint(&sample.hostile, ROWS, Texts::english());
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{}: {text:?}", sample.name);
            // What is escaped is no markup, nor what is between backticks.
            let parts = text.split('\\').enumerate();
            let bare: String =
                parts.map(|(n, part)| if n == 0 { part } else { part.get(1..).unwrap_or("") }).collect();
            for outside in bare.split('`').step_by(2) {
                for markup in ["<", "[", "@", "**b", "#", "|"] {
                    assert!(!outside.contains(markup), "{}: {markup} in {text}", sample.name);
                }
            }
        }
    }
}
