//! Output: data on stdout, as JSON or as text. A reader that leaves early is no error.

use std::io::Write;

use console::Term;
use serde::Serialize;

use super::failure::Failure;

/// Width of text that goes to a pipe or a file, in columns.
const PIPED_WIDTH: usize = 100;

pub(crate) fn json(record: &impl Serialize) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, record).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Prints a record as one line of JSON.
pub(crate) fn json_line(record: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(record).map_err(std::io::Error::from)?;
    line.push(b'\n');
    raw(&line)
}

pub(crate) fn line(text: &str) -> Result<(), Failure> {
    raw(format!("{text}\n").as_bytes())
}

/// Prints bytes as they are, at once.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

pub(crate) fn note(text: &str) {
    // When stderr is closed there is nobody left to tell.
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

/// Columns that a line may take which can go on below: the terminal's; when piped, for `grep` and its like, no end.
pub(crate) fn room() -> usize {
    if Term::stdout().is_term() { width() } else { usize::MAX }
}

/// Columns that a line may take: the terminal's, or a fixed number when piped.
pub(crate) fn width() -> usize {
    let term = Term::stdout();
    if term.is_term() { usize::from(term.size().1).clamp(40, 200) } else { PIPED_WIDTH }
}
