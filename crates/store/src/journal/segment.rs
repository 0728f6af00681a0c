//! Segments on disk: their names, and reading their lines. A segment is `N.jsonl`, or `N.jsonl.gz` when it is compressed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cairn_types::ports::StoreError;

use super::packed::Packed;
use crate::files::disk::io_error;

/// Bytes read at a time; a longer line makes the buffer grow.
const CHUNK: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
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

/// The file of the segment that begins with record `first_n`, as long as it is not compressed. All that reads segments
/// takes this name, and finds the compressed file where that is what there is; [`file_of`] is for messages.
pub(crate) fn path(dir: &Path, first_n: u64) -> PathBuf {
    dir.join(format!("{first_n:020}.jsonl"))
}

/// The compressed file of the segment of that name.
pub(crate) fn packed_path(path: &Path) -> PathBuf {
    path.with_extension("jsonl.gz")
}

/// The file that a segment is in, compressed or not.
pub(crate) fn file_of(path: &Path) -> PathBuf {
    let packed = packed_path(path);
    if !path.exists() && packed.exists() { packed } else { path.to_owned() }
}

/// Bytes of the file that a segment is in, whichever it is at that moment.
pub(crate) fn bytes(path: &Path) -> Result<u64, StoreError> {
    let of = |path: &Path| path.metadata().map(|metadata| metadata.len());
    let plain = of(path).or_else(|_| of(&packed_path(path)));
    // Compressed in between.
    plain.or_else(|_| of(path)).map_err(io_error("read", path))
}

/// A segment, read by places of its lines.
pub(crate) enum SegmentFile {
    Plain(File),
    Packed(Box<Packed>),
}

impl SegmentFile {
    /// Opens the segment of that name, compressed or not.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => Ok(Self::Plain(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::open_packed(&packed_path(path)),
            Err(error) => Err(error),
        }
    }

    /// Opens a compressed file of any name.
    pub(crate) fn open_packed(file: &Path) -> io::Result<Self> {
        Ok(Self::Packed(Box::new(Packed::open(File::open(file)?)?)))
    }

    /// Bytes of its lines.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Packed(packed) => Ok(packed.len()),
        }
    }

    /// Gives back the memory of what was inflated last.
    pub(crate) fn forget_inflated(&self) {
        if let Self::Packed(packed) = self {
            packed.forget_inflated();
        }
    }

    /// Reads from a place on; 0 at the end.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read_at(out, offset),
            Self::Packed(packed) => packed.read_at(out, offset),
        }
    }

    /// Fills `out` from a place on.
    pub(crate) fn read_exact_at(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !out.is_empty() {
            let n = self.read_at(out, offset)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out = &mut out[n..];
            offset += n as u64;
        }
        Ok(())
    }
}

/// First numbers of all segments, in order.
pub(crate) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let fail = io_error("list", dir);
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir).map_err(&fail)? {
        let name = entry.map_err(&fail)?.file_name();
        let name = name.to_str().map(|name| name.strip_suffix(".gz").unwrap_or(name));
        let number = name.and_then(|name| name.strip_suffix(".jsonl"));
        segments.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    segments.sort_unstable();
    // While one is being compressed both files are there for a moment.
    segments.dedup();
    Ok(segments)
}

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
    End,
}

/// Reads a segment line by line, never beyond a given end.
pub(crate) struct Lines {
    file: SegmentFile,
    /// For errors.
    path: PathBuf,
    next: u64,
    end: u64,
    buf: Vec<u8>,
    buf_at: u64,
}

impl Lines {
    /// Opens the segment to read from `offset` up to `end`; no end: to the end of the file as it is now.
    pub(crate) fn open(path: &Path, offset: u64, end: Option<u64>) -> Result<Self, StoreError> {
        let shown = file_of(path);
        let fail = io_error("open", &shown);
        let file = SegmentFile::open(path).map_err(&fail)?;
        let end = match end {
            Some(end) => end,
            None => file.len().map_err(&fail)?,
        };
        Ok(Self { file, path: shown, next: offset, end, buf: Vec::new(), buf_at: offset })
    }

    /// Reads a file that is open from its beginning; `path` is for errors.
    pub(crate) fn of(file: SegmentFile, path: &Path) -> Result<Self, StoreError> {
        let end = file.len().map_err(io_error("read", path))?;
        Ok(Self { file, path: path.to_owned(), next: 0, end, buf: Vec::new(), buf_at: 0 })
    }

    pub(crate) fn extend(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Moves the end to that of the file as it is now, but only when everything up to the old end has been read.
    pub(crate) fn extend_to_end(&mut self) -> Result<(), StoreError> {
        if self.next < self.end {
            return Ok(());
        }
        let len = self.file.len().map_err(io_error("read", &self.path))?;
        self.extend(len);
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<Piece<'_>, StoreError> {
        let offset = self.next;
        let mut searched = 0;
        loop {
            let from = (offset - self.buf_at) as usize;
            let found = memchr::memchr(b'\n', &self.buf[from + searched..]);
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

    /// The last whole line up to the end, found from there backwards. `None`: there is none.
    pub(crate) fn last(mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut window = CHUNK as u64;
        loop {
            let from = self.end.saturating_sub(window);
            (self.next, self.buf_at) = (from, from);
            self.buf.clear();
            let (mut last, mut n_lines) = (None, 0);
            while let Piece::Line { bytes, .. } = self.next()? {
                last = Some(bytes.to_vec());
                n_lines += 1;
            }
            // The first may be the rest of one that begins before.
            if n_lines > 1 || from == 0 {
                return Ok(last);
            }
            window *= 4;
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
        Ok(line) => {
            let file = file_of(path).display().to_string();
            StoreError::Damaged { file, line, message: message.into() }
        }
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
        let last = |text: &str| {
            fs::write(&file, text).unwrap();
            Lines::open(&file, 0, None).unwrap().last().unwrap()
        };
        assert_eq!(last(&format!("a\n{long}\n")).unwrap(), long.as_bytes());
        assert_eq!(last(&format!("{long}\nb\nrest")).unwrap(), b"b");
        assert_eq!((last("rest"), last("")), (None, None));
        fs::write(&file, format!("a\n{long}\n\nrest")).unwrap();
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
