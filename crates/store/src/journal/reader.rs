//! Reading the journal while it is written: by position, and from a checkpoint on.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_core::event::Record;
use cairn_core::ports::StoreError;
use parking_lot::Mutex;

use super::line;
use super::open::{Checkpoint, Tail, last_n};
use super::segment::{self, Lines, Piece, Position, SegmentFile};
use crate::disk::io_error;

const OPEN_FILES: usize = 16;

/// Reads records by their positions.
pub(crate) struct Reader {
    dir: PathBuf,
    files: Mutex<VecDeque<(u64, Arc<SegmentFile>)>>,
}

impl Reader {
    /// A reader of the journal in `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), files: Mutex::default() }
    }

    /// The record at a position.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it is not there as it was written.
    pub(crate) fn read(&self, position: Position) -> Result<Record, StoreError> {
        let path = segment::path(&self.dir, position.segment);
        let file = self.file(position.segment, &path)?;
        let mut bytes = vec![0; position.len as usize];
        let read = file.read_exact_at(&mut bytes, position.offset);
        read.map_err(|error| io_error("read", &segment::file_of(&path))(error))?;
        line::parse(&bytes).map_err(|why| segment::damaged(&path, position.offset, why))
    }

    /// A segment was rewritten: what is read from here on is read from the new file.
    pub(crate) fn forget(&self, segment: u64) {
        self.files.lock().retain(|(first, _)| *first != segment);
    }

    /// A record that does not fit the state, as an error that names its place.
    pub(crate) fn misfit(&self, position: Position, message: impl Into<String>) -> StoreError {
        segment::damaged(&segment::path(&self.dir, position.segment), position.offset, message)
    }

    fn file(&self, segment: u64, path: &Path) -> Result<Arc<SegmentFile>, StoreError> {
        let mut files = self.files.lock();
        if let Some((_, file)) = files.iter().find(|(first, _)| *first == segment) {
            return Ok(file.clone());
        }
        let opened = SegmentFile::open(path);
        let file = Arc::new(opened.map_err(|error| io_error("open", &segment::file_of(path))(error))?);
        files.push_back((segment, file.clone()));
        if files.len() > OPEN_FILES {
            files.pop_front();
        }
        Ok(file)
    }
}

/// Reads the journal in order from a checkpoint, never beyond what is durable.
pub(crate) struct Follower {
    dir: PathBuf,
    at: Checkpoint,
    lines: Option<Lines>,
}

impl Follower {
    pub(crate) fn new(dir: &Path, at: Checkpoint) -> Self {
        Self { dir: dir.to_owned(), at, lines: None }
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        self.at
    }

    /// The next record up to the durable end.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the place; the follower stays before it.
    pub(crate) fn next(&mut self, durable: &Tail) -> Result<Option<(Record, Position)>, StoreError> {
        while self.at.n < durable.n {
            let segment = self.at.position.segment;
            let mut lines = match self.lines.take() {
                Some(lines) => lines,
                None if segment == 0 => {
                    self.move_on(segment)?;
                    continue;
                }
                None => {
                    let offset = if self.at.position.len == 0 { 0 } else { self.at.position.end() };
                    Lines::open(&segment::path(&self.dir, segment), offset, Some(0))?
                }
            };
            let path = segment::path(&self.dir, segment);
            match segment == durable.segment {
                true => lines.extend(durable.len),
                false => lines.extend_to_end()?,
            }
            match lines.next()? {
                Piece::Line { offset, bytes } => {
                    let record = line::parse(bytes).map_err(|why| segment::damaged(&path, offset, why))?;
                    let position = Position { segment, offset, len: bytes.len() as u32 };
                    self.at = Checkpoint { n: last_n(&record.event, record.n), position };
                    self.lines = Some(lines);
                    return Ok(Some((record, position)));
                }
                Piece::Torn { offset } => return Err(segment::damaged(&path, offset, "it has no end")),
                Piece::End => self.move_on(segment)?,
            }
        }
        Ok(None)
    }

    /// Goes to the segment after this one.
    fn move_on(&mut self, segment: u64) -> Result<(), StoreError> {
        let next = segment::list(&self.dir)?.into_iter().find(|first| *first > segment);
        let next = next.ok_or_else(|| StoreError::Io {
            action: "find the next segment in",
            path: self.dir.display().to_string(),
            message: format!("nothing follows record {}", self.at.n),
        })?;
        self.at.position = Position { segment: next, offset: 0, len: 0 };
        Ok(())
    }
}
