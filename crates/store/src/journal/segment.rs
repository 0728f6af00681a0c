//! Segments on disk: their names, and reading their lines.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;

use crate::disk::io_error;

/// Bytes read at a time; a longer line makes the buffer grow.
const CHUNK: usize = 256 * 1024;

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// First number of its segment.
    pub(crate) segment: u64,
    /// Its first byte.
    pub(crate) offset: u64,
    /// Its length without the line feed.
    pub(crate) len: u32,
}

impl Position {
    /// The byte after its line feed.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len) + 1
    }
}

/// The file of the segment that begins with record `first_n`.
pub(crate) fn path(dir: &Path, first_n: u64) -> PathBuf {
    dir.join(format!("{first_n:020}.jsonl"))
}

/// First numbers of all segments, in order.
pub(crate) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let fail = io_error("list", dir);
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir).map_err(&fail)? {
        let name = entry.map_err(&fail)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        segments.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    segments.sort_unstable();
    Ok(segments)
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A line that ends with a line feed, which is not part of `bytes`.
    Line {
        /// Its first byte in the file.
        offset: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// What is left at the end, without a line feed.
    Torn {
        /// Its first byte in the file.
        offset: u64,
    },
    /// Nothing is left.
    End,
}

/// Reads a segment line by line, never beyond a given end.
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
    next: u64,
    end: u64,
    buf: Vec<u8>,
    buf_at: u64,
}

impl Lines {
    /// Opens the segment to read from `offset` up to `end`; no end: to the end of the file as it is now.
    pub(crate) fn open(path: &Path, offset: u64, end: Option<u64>) -> Result<Self, StoreError> {
        let fail = io_error("open", path);
        let file = File::open(path).map_err(&fail)?;
        let end = match end {
            Some(end) => end,
            None => file.metadata().map_err(&fail)?.len(),
        };
        Ok(Self { file, path: path.to_owned(), next: offset, end, buf: Vec::new(), buf_at: offset })
    }

    /// Moves the end on.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Result<Piece<'_>, StoreError> {
        let offset = self.next;
        let mut searched = 0;
        loop {
            let from = (offset - self.buf_at) as usize;
            let found = self.buf[from + searched..].iter().position(|b| *b == b'\n');
            if let Some(at) = found {
                let len = searched + at;
                self.next = offset + len as u64 + 1;
                return Ok(Piece::Line { offset, bytes: &self.buf[from..from + len] });
            }
            searched = self.buf.len() - from;
            if !self.more(offset)? {
                return Ok(if searched == 0 { Piece::End } else { Piece::Torn { offset } });
            }
        }
    }

    /// Drops what lies before `offset` from the buffer and reads more. False at the end.
    fn more(&mut self, offset: u64) -> Result<bool, StoreError> {
        let kept = (offset - self.buf_at) as usize;
        self.buf.drain(..kept);
        self.buf_at = offset;
        let at = self.buf_at + self.buf.len() as u64;
        let want = (self.end.saturating_sub(at)).min(CHUNK.max(self.buf.len()) as u64) as usize;
        if want == 0 {
            return Ok(false);
        }
        let old = self.buf.len();
        self.buf.resize(old + want, 0);
        let read = self.file.read_at(&mut self.buf[old..], at).map_err(io_error("read", &self.path))?;
        self.buf.truncate(old + read);
        Ok(read > 0)
    }
}

/// The number of the line at `offset`, from 1, for people.
pub(crate) fn line_number(path: &Path, offset: u64) -> Result<u64, StoreError> {
    let mut lines = Lines::open(path, 0, Some(offset))?;
    let mut number = 1;
    while let Piece::Line { .. } = lines.next()? {
        number += 1;
    }
    Ok(number)
}

/// The error for a line that is damaged.
pub(crate) fn damaged(path: &Path, offset: u64, message: impl Into<String>) -> StoreError {
    match line_number(path, offset) {
        Ok(line) => StoreError::Damaged { file: path.display().to_string(), line, message: message.into() },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_longer_than_a_chunk_and_a_torn_end_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path(), 7);
        let long = "x".repeat(3 * CHUNK + 17);
        fs::write(&file, format!("a\n{long}\n\nrest")).unwrap();
        let mut lines = Lines::open(&file, 0, None).unwrap();
        assert_eq!(lines.next().unwrap(), Piece::Line { offset: 0, bytes: b"a" });
        assert_eq!(lines.next().unwrap(), Piece::Line { offset: 2, bytes: long.as_bytes() });
        let at = long.len() as u64 + 3;
        assert_eq!(lines.next().unwrap(), Piece::Line { offset: at, bytes: b"" });
        assert_eq!(lines.next().unwrap(), Piece::Torn { offset: at + 1 });
        assert_eq!(line_number(&file, at + 1).unwrap(), 4);
        assert_eq!(list(dir.path()).unwrap(), [7]);
    }

    #[test]
    fn nothing_beyond_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path(), 1);
        fs::write(&file, "one\ntwo\nthree\n").unwrap();
        let mut lines = Lines::open(&file, 0, Some(4)).unwrap();
        assert_eq!(lines.next().unwrap(), Piece::Line { offset: 0, bytes: b"one" });
        assert_eq!(lines.next().unwrap(), Piece::End);
        lines.extend(8);
        assert_eq!(lines.next().unwrap(), Piece::Line { offset: 4, bytes: b"two" });
        assert_eq!(lines.next().unwrap(), Piece::End);
    }
}
