//! Lines and segments of the journal, read as a start reads them: for `crates/fuzz`.

use std::path::Path;

use cairn_types::event::Record;
use cairn_types::ports::StoreError;

use crate::files::disk::Layout;
use crate::journal::line;
use crate::journal::open::{self, Checkpoint, Start, ViewState};
use crate::journal::reader::Follower;

/// Reads a line without its line feed.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: &[u8]) -> Result<Record, String> {
    line::parse(line)
}

/// The line of a record, without its line feed.
///
/// # Errors
/// It cannot be written as JSON.
pub fn line_of(record: Record) -> Result<Vec<u8>, StoreError> {
    line::of(record)
}

/// The line of a record in the place of another one. `None`: it is longer.
///
/// # Errors
/// The other one is none.
pub fn in_place_of(line: &[u8], record: Record) -> Result<Option<Vec<u8>>, String> {
    line::in_place_of(line, record)
}

/// All records of the state folder's journal, which is opened as at a start without views.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn records(state: &Path) -> Result<Vec<Record>, StoreError> {
    let layout = Layout::of(state);
    let tail = open::open(&layout.journal, &layout, &Start::default(), &ViewState::default())?;
    let mut follower = Follower::new(&layout.journal, Checkpoint::default());
    let mut records = Vec::new();
    while let Some((record, _)) = follower.next(&tail)? {
        records.push(record);
    }
    Ok(records)
}
