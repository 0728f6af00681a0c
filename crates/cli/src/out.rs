//! Output: data on stdout, as JSON, text or tables. A reader that closes its end early is no error.

use std::io::{IsTerminal as _, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets};
use console::Term;
use serde::Serialize;

use crate::failure::Failure;
use crate::paint::paint;
use cairn_api::show::Show;
use cairn_api::text::{painted, plain_json};

/// Width of text that goes to a pipe or a file, in columns.
const PIPED_WIDTH: usize = 100;

/// Prints a record: as JSON with `--json`, else as `text` shows it.
pub fn record<T: Serialize>(json: bool, record: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    if json { self::json(record) } else { self::text(&text(record)) }
}

/// Prints a record: as JSON with `--json`, else as it shows itself.
pub fn shown<T: Serialize + Show>(json: bool, record: &T) -> Result<(), Failure> {
    self::record(json, record, of)
}

/// A record as it shows itself.
pub fn of(record: &impl Show) -> String {
    paint(&record.show(), width())
}

/// Prints a list; `nothing`: the line for people when it is empty.
pub fn listed<T: Serialize>(json: bool, records: &Vec<T>, nothing: &str) -> Result<(), Failure>
where
    [T]: Show,
{
    self::record(json, records, |records| list(records, true, nothing))
}

/// A page of a list as text; only the first has a heading. A pipe gets every column, and nothing is cut.
pub fn list<T>(records: &[T], first: bool, nothing: &str) -> String
where
    [T]: Show,
{
    let text = paint(&records.show(), room());
    match text.split_once('\n') {
        _ if first && records.is_empty() => format!("{nothing}\n"),
        Some((_heading, rows)) if !first => rows.to_owned(),
        _ => text,
    }
}

/// Prints text for people. Every command of theirs ends here or in [`note`]: what others wrote is escaped in one place.
pub fn text(text: &str) -> Result<(), Failure> {
    raw(painted(text).as_bytes())
}

pub fn json(record: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(record).map_err(std::io::Error::from)?;
    raw(format!("{}\n", plain_json(&text)).as_bytes())
}

/// Prints a record as one line of JSON.
pub fn json_line(record: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(record).map_err(std::io::Error::from)?;
    raw(format!("{}\n", plain_json(&text)).as_bytes())
}

/// Prints a line: on a terminal with what is hidden escaped, else as it is, for whoever reads on.
pub fn line(text: &str) -> Result<(), Failure> {
    let shown = if Term::stdout().is_term() { painted(text) } else { text.to_owned() };
    raw(format!("{shown}\n").as_bytes())
}

/// Prints bytes as they are, at once.
pub fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Prints what a model was sent: on a terminal with what is hidden escaped, else as it is, to the last byte.
pub fn body(text: &str) -> Result<(), Failure> {
    if Term::stdout().is_term() {
        raw(format!("{}\n", painted(text)).as_bytes())
    } else {
        raw(text.as_bytes())
    }
}

pub fn note(text: &str) {
    // When stderr is closed there is nobody left to tell.
    let _closed = writeln!(std::io::stderr().lock(), "{}", painted(text));
}

/// Asks a question on the terminal, on stderr.
pub fn ask(question: &str) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("cannot ask: standard input is not a terminal", "add --yes to go ahead"));
    }
    let mut err = std::io::stderr().lock();
    err.write_all(painted(question).as_bytes())?;
    err.flush()?;
    // Whoever stops waiting for the answer has something to say there.
    drop(err);
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}"), ""))?;
    Ok(answer.trim().to_owned())
}

/// Columns that a line may take which can go on below: the terminal's; when piped, for `grep` and its like, no end.
pub fn room() -> usize {
    if Term::stdout().is_term() { width() } else { usize::MAX }
}

/// Columns that a line may take: the terminal's, or a fixed number when piped.
pub fn width() -> usize {
    let term = Term::stdout();
    if term.is_term() { usize::from(term.size().1).clamp(40, 200) } else { PIPED_WIDTH }
}

/// A table without lines, two spaces between its columns. Where a line has no room, its last cell is cut, or continues on
/// the next line.
pub struct Table {
    inner: comfy_table::Table,
    right: Vec<usize>,
    is_wrapped: bool,
}

/// Columns that the last cell keeps in any case.
const LAST_MIN: u16 = 24;

impl Table {
    /// A table with that heading; columns in `right` are set flush right.
    pub fn new(heading: &[&str], right: &[usize]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_truncation_indicator("…").add_row(heading);
        Self { inner, right: right.to_vec(), is_wrapped: false }
    }

    /// The last cells continue on the next line instead of being cut.
    pub fn wrapped(mut self) -> Self {
        self.is_wrapped = true;
        self
    }

    /// Adds a row with as many cells as the heading.
    pub fn row(&mut self, cells: Vec<String>) {
        let mut row = Row::from(cells);
        if !self.is_wrapped {
            row.max_height(1);
        }
        self.inner.add_row(row);
    }

    /// The table as text; `usize::MAX`: nothing is cut.
    pub fn render(mut self, width: usize) -> String {
        match u16::try_from(width) {
            Ok(width) => {
                self.inner.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            }
            Err(_) => {
                self.inner.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        let last = self.inner.column_count().saturating_sub(1);
        for (idx, column) in self.inner.column_iter_mut().enumerate() {
            let is_last = idx == last;
            column.set_padding((0, if is_last { 0 } else { 2 }));
            column.set_constraint(match is_last && width < usize::MAX {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(LAST_MIN)),
                false => ColumnConstraint::ContentWidth,
            });
            if self.right.contains(&idx) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.inner.trim_fmt() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["name", "n", "text"], &[1]);
        table.row(vec!["a".into(), "1".into(), "short".into()]);
        table.row(vec!["longer".into(), "100".into(), "a text that is too long for the line".into()]);
        table
    }

    #[test]
    fn columns_align_and_the_last_cell_is_cut() {
        let head = "name      n  text\na         1  short\nlonger  100  ";
        assert_eq!(table().render(40), format!("{head}a text that is too long fo…\n"));
        let whole = format!("{head}a text that is too long for the line\n");
        assert_eq!(table().render(100), whole);
        assert_eq!(table().render(usize::MAX), whole);
    }

    #[test]
    fn a_wrapped_cell_goes_on_below() {
        let mut table = Table::new(&["n", "text"], &[0]).wrapped();
        table.row(vec!["1".into(), "a text that is too long for the line".into()]);
        assert_eq!(table.render(30), "n  text\n1  a text that is too long for\n   the line\n");
    }
}
