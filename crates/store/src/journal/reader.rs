//! Reading the journal while it is written: by position, and from a checkpoint on.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::event::Record;
use cairn_types::ports::StoreError;
use parking_lot::Mutex;

use super::line::{self, last_n};
use super::open::{Checkpoint, Tail};
use super::segment::{self, Lines, Piece, Position, SegmentFile};
use crate::files::disk::io_error;

/// Most files that stay open.
const OPEN_FILES: usize = 16;

/// Most of them that keep what was inflated last, 128 KB or more.
const INFLATED_FILES: usize = 4;

/// Most bytes of lines that are read at once; a longer line is read by itself.
const READ_AT_ONCE: u64 = 64 << 10;

/// Reads records by their positions.
pub(crate) struct Reader {
    dir: PathBuf,
    /// By the first number of each, the one that was read last at the end.
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
        self.parse(&self.bytes(position, position)?, position)
    }

    /// Hands over the records at those positions, in their order. Lines that follow each other are read at once.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a record is not as it was written; errors of `positions` and of `take`.
    pub(crate) fn read_each(
        &self,
        positions: impl Iterator<Item = Result<Position, StoreError>>,
        mut take: impl FnMut(Record, Position) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut positions = positions.peekable();
        while let Some(first) = positions.next().transpose()? {
            let (mut lines, mut last) = (vec![first], first);
            let follows = |last: Position, next: &Position| {
                next.segment == last.segment
                    && next.offset == last.end()
                    && next.end() - first.offset <= READ_AT_ONCE
            };
            while let Some(Ok(next)) =
                positions.next_if(|next| next.as_ref().is_ok_and(|next| follows(last, next)))
            {
                lines.push(next);
                last = next;
            }
            let bytes = self.bytes(first, last)?;
            for position in lines {
                let at = (position.offset - first.offset) as usize;
                take(self.parse(&bytes[at..at + position.len as usize], position)?, position)?;
            }
        }
        Ok(())
    }

    /// From the beginning of one line to the end of another.
    fn bytes(&self, first: Position, last: Position) -> Result<Vec<u8>, StoreError> {
        let path = segment::path(&self.dir, first.segment);
        let file = self.file(first.segment, &path)?;
        let mut bytes = vec![0; (last.end() - 1 - first.offset) as usize];
        let read = file.read_exact_at(&mut bytes, first.offset);
        read.map_err(|error| io_error("read", &segment::file_of(&path))(error))?;
        Ok(bytes)
    }

    fn parse(&self, line: &[u8], position: Position) -> Result<Record, StoreError> {
        line::parse(line).map_err(|why| self.misfit(position, why))
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
        let known = files.iter().position(|(first, _)| *first == segment).and_then(|idx| files.remove(idx));
        let file = match known {
            Some((_, file)) => file,
            None => {
                let opened = SegmentFile::open(path);
                Arc::new(opened.map_err(|error| io_error("open", &segment::file_of(path))(error))?)
            }
        };
        files.push_back((segment, file.clone()));
        if files.len() > OPEN_FILES {
            files.pop_front();
        }
        files.iter().rev().skip(INFLATED_FILES).for_each(|(_, file)| file.forget_inflated());
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use cairn_types::event::{Event, MaintenanceEvent};
    use jiff::Timestamp;

    use super::super::packed::Packer;
    use super::*;

    #[test]
    fn lines_that_follow_each_other_are_handed_over_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut positions = Vec::new();
        for segment in [1, 11] {
            let mut lines = Vec::new();
            for n in segment..segment + 5 {
                // The one in the middle is more than what is read at once.
                let version = "v".repeat(if n % 5 == 3 { READ_AT_ONCE as usize } else { 10 });
                let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version });
                let line = line::of(Record { n, at: Timestamp::UNIX_EPOCH, channel: None, event }).unwrap();
                positions.push(Position { segment, offset: lines.len() as u64, len: line.len() as u32 });
                lines.extend([line, b"\n".to_vec()].concat());
            }
            std::fs::write(segment::path(dir.path(), segment), lines).unwrap();
        }
        let reader = Reader::new(dir.path());
        let read = |positions: &[Position]| {
            let mut numbers = Vec::new();
            let all = positions.iter().copied().map(Ok);
            let read = reader.read_each(all, |record, position| {
                assert_eq!(reader.read(position).unwrap(), record);
                numbers.push(record.n);
                Ok(())
            });
            (numbers, read)
        };
        assert_eq!(read(&positions), (vec![1, 2, 3, 4, 5, 11, 12, 13, 14, 15], Ok(())));
        let some = [positions[0], positions[2], positions[3], positions[8], positions[9], positions[1]];
        assert_eq!(read(&some), (vec![1, 3, 4, 14, 15, 2], Ok(())));
        // One of which the end is cut off.
        positions[6].len -= 1;
        let (numbers, error) = read(&positions);
        assert_eq!(numbers, [1, 2, 3, 4, 5, 11]);
        assert_eq!(error, Err(reader.read(positions[6]).unwrap_err()));
    }

    #[test]
    fn of_many_compressed_segments_only_those_read_last_keep_what_was_inflated() {
        let dir = tempfile::tempdir().unwrap();
        let mut positions = Vec::new();
        for n in 1..=2 * INFLATED_FILES as u64 {
            let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() });
            let line = line::of(Record { n, at: Timestamp::UNIX_EPOCH, channel: None, event }).unwrap();
            let path = segment::packed_path(&segment::path(dir.path(), n));
            let mut packer = Packer::new(File::create(path).unwrap());
            packer.line(&[line.as_slice(), b"\n"].concat()).unwrap();
            packer.finish().unwrap();
            positions.push(Position { segment: n, offset: 0, len: line.len() as u32 });
        }
        let reader = Reader::new(dir.path());
        let inflated = || {
            let files = reader.files.lock();
            let inflated = files
                .iter()
                .filter(|(_, file)| matches!(&**file, SegmentFile::Packed(packed) if packed.is_inflated()));
            inflated.map(|(first, _)| *first).collect::<Vec<_>>()
        };
        for position in &positions {
            assert_eq!(reader.read(*position).unwrap().n, position.segment);
        }
        assert_eq!(inflated(), [5, 6, 7, 8]);
        // One that is read again has become the newest.
        reader.read(positions[4]).unwrap();
        reader.read(positions[0]).unwrap();
        assert_eq!(inflated(), [7, 8, 5, 1]);
    }
}
