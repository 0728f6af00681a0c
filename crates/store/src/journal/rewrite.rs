//! Rewrites a segment into a new file beside it. Compression, retention and erasure each decide the fate of every record; then
//! the new file replaces the old one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_types::event::{Event, MaintenanceEvent, Record, Removal};
use cairn_types::ports::StoreError;

use super::line::{self, last_n};
use super::packed::Packer;
use super::segment::{self, Lines, Piece, SegmentFile};
use crate::files::disk::{io_error, remove_file, replace, sync_dir};

/// What happens to a record when its segment is rewritten.
pub(crate) enum Fate {
    Stays,
    /// This line, without its line feed, stands in its place.
    Becomes(Vec<u8>),
    /// The record is removed. One record replaces all that are removed in a row.
    Goes,
}

/// Decides the fate of a record, given with its line.
pub(crate) type Fates<'a> = &'a mut dyn FnMut(Record, &[u8]) -> Result<Fate, StoreError>;

/// A segment on its way into a new file.
pub(crate) struct Rewriter {
    path: PathBuf,
    out: Sink,
    buffer: Vec<u8>,
    /// Stands for the records that have gone since the last line.
    gone: Option<Record>,
    changed: bool,
}

enum Sink {
    Plain(BufWriter<File>),
    Packed(Packer<BufWriter<File>>),
}

impl Rewriter {
    /// Into a new file (0600), compressed or not.
    pub(crate) fn create(path: &Path, is_packed: bool) -> Result<Self, StoreError> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = BufWriter::new(file.map_err(io_error("write", path))?);
        let out = if is_packed { Sink::Packed(Packer::new(file)) } else { Sink::Plain(file) };
        Ok(Self { path: path.to_owned(), out, buffer: Vec::new(), gone: None, changed: false })
    }

    /// Behind what was written to a file, which is not compressed.
    pub(crate) fn append(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new().append(true).open(path).map_err(io_error("write", path))?;
        let out = Sink::Plain(BufWriter::new(file));
        Ok(Self { path: path.to_owned(), out, buffer: Vec::new(), gone: None, changed: true })
    }

    /// Copies a segment, as `fates` says; returns the number of its last record. `end`: where its lines end.
    pub(crate) fn copy(
        &mut self,
        path: &Path,
        first: u64,
        end: Option<u64>,
        fates: Fates<'_>,
    ) -> Result<u64, StoreError> {
        self.copy_from(path, (first, 0), end, fates)
    }

    /// Copies a segment from a record on, given with its place.
    pub(crate) fn copy_from(
        &mut self,
        path: &Path,
        from: (u64, u64),
        end: Option<u64>,
        fates: Fates<'_>,
    ) -> Result<u64, StoreError> {
        let last = records(path, from, end, |record, bytes| {
            let (n, to_n, at) = (record.n, last_n(&record.event, record.n), record.at);
            match fates(record, bytes)? {
                Fate::Stays => self.line(bytes),
                Fate::Becomes(line) => {
                    self.changed = true;
                    self.line(&line)
                }
                Fate::Goes => {
                    let from_n = self.gone.as_ref().map_or(n, |gone| gone.n);
                    let event = Event::Maintenance(MaintenanceEvent::RecordsRemoved {
                        from_n,
                        to_n,
                        by: Removal::Erasure,
                    });
                    self.gone = Some(Record { n: from_n, at, channel: None, event });
                    Ok(())
                }
            }
        })?;
        self.close_gap()?;
        Ok(last)
    }

    /// Adds a record behind what was copied.
    pub(crate) fn add(&mut self, record: Record) -> Result<(), StoreError> {
        self.changed = true;
        self.line(&line::of(record)?)
    }

    /// Makes the file durable. True: it says something else than the segment that was copied.
    pub(crate) fn finish(self) -> Result<bool, StoreError> {
        let finish = || {
            let file = match self.out {
                Sink::Plain(file) => file,
                Sink::Packed(packer) => packer.finish()?,
            };
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        finish().map_err(io_error("write", &self.path))?;
        Ok(self.changed)
    }

    fn close_gap(&mut self) -> Result<(), StoreError> {
        let Some(gone) = self.gone.take() else { return Ok(()) };
        self.add(gone)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        self.close_gap()?;
        self.buffer.clear();
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        let written = match &mut self.out {
            Sink::Plain(file) => file.write_all(&self.buffer),
            Sink::Packed(packer) => packer.line(&self.buffer),
        };
        written.map_err(io_error("write", &self.path))
    }
}

/// A segment behind which another one begins.
pub(crate) struct Closed {
    path: PathBuf,
    /// Numbers of its first and last record.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Closed {
    pub(crate) fn of(dir: &Path, first: u64) -> Result<Self, StoreError> {
        let path = segment::path(dir, first);
        let next = segment::list(dir)?.into_iter().find(|next| *next > first);
        let next = next.ok_or_else(|| StoreError::Io {
            action: "rewrite",
            path: path.display().to_string(),
            message: "it is not closed".to_owned(),
        })?;
        Ok(Self { path, first, last: next - 1 })
    }

    pub(crate) fn is_packed(&self) -> bool {
        !self.path.exists()
    }

    /// Hands every record to `each`, with its line.
    pub(crate) fn records(
        &self,
        each: impl FnMut(Record, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        records(&self.path, (self.first, 0), None, each).and_then(|last| self.ends_with(last))
    }

    fn ends_with(&self, last: u64) -> Result<(), StoreError> {
        if last == self.last {
            return Ok(());
        }
        let missing = format!("records {} to {} are missing", last + 1, self.last);
        Err(segment::damaged(&self.path, 0, missing))
    }

    /// Writes it again, compressed, whether it is already or not, and puts it in its place once it reads back. Every line that
    /// changes must be as long as before, so that places stay. Returns its bytes before and after. `dry_run`: only says
    /// what they would be.
    ///
    /// # Errors
    /// It is damaged, or cannot be read or written; it stays as it was.
    pub(crate) fn pack(&self, dry_run: bool, fates: Fates<'_>) -> Result<(u64, u64), StoreError> {
        let before = segment::bytes(&self.path)?;
        let packed = segment::packed_path(&self.path);
        let beside = packed.with_extension("gz.new");
        let written = self.pack_into(&beside, fates);
        if dry_run || written.is_err() {
            let _ = fs::remove_file(&beside);
            return written.map(|after| (before, after));
        }
        replace(&packed, &beside).map_err(io_error("rename", &beside))?;
        remove_file(&self.path)?;
        let dir = packed.parent().unwrap_or(&packed);
        sync_dir(dir).map_err(io_error("sync", dir))?;
        written.map(|after| (before, after))
    }

    /// Returns its bytes.
    fn pack_into(&self, beside: &Path, fates: Fates<'_>) -> Result<u64, StoreError> {
        let mut out = Rewriter::create(beside, true)?;
        let last = out.copy(&self.path, self.first, None, fates)?;
        self.ends_with(last)?;
        out.finish()?;
        if !reads_alike(&self.path, beside)? {
            return Err(StoreError::Io {
                action: "compress",
                path: segment::file_of(&self.path).display().to_string(),
                message: "what was written does not read back; the segment stays as it is".to_owned(),
            });
        }
        Ok(beside.metadata().map_err(io_error("read", beside))?.len())
    }
}

/// Every line stands where it stood, as it was, or as a whole record of the same number.
fn reads_alike(path: &Path, written: &Path) -> Result<bool, StoreError> {
    let file = SegmentFile::open_packed(written).map_err(io_error("open", written))?;
    let mut after = Lines::of(file, written)?;
    let mut before = Lines::open(path, 0, None)?;
    loop {
        let same = match (before.next()?, after.next()?) {
            (Piece::End, Piece::End) => return Ok(true),
            (Piece::Line { offset, bytes }, Piece::Line { offset: at, bytes: now }) => {
                let number = |line| line::number(line).ok();
                offset == at
                    && bytes.len() == now.len()
                    && (bytes == now || (number(now).is_some() && number(bytes) == number(now)))
            }
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
}

/// Hands every record of a segment to `each`, with its line; returns the number of the last one. `from`: number and place of
/// the first one. `end`: where the lines end.
///
/// # Errors
/// [`StoreError::Damaged`] unless all of it is there, in order, as it was written: what cannot be read must not be replaced
/// by what could.
pub(crate) fn records(
    path: &Path,
    (first, offset): (u64, u64),
    end: Option<u64>,
    mut each: impl FnMut(Record, &[u8]) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut lines = Lines::open(path, offset, end)?;
    let mut next = first;
    loop {
        let (offset, bytes) = match lines.next()? {
            Piece::Line { offset, bytes } => (offset, bytes),
            Piece::Torn { offset } => return Err(segment::damaged(path, offset, "it has no end")),
            Piece::End => return Ok(next - 1),
        };
        let record = line::parse(bytes).map_err(|why| segment::damaged(path, offset, why))?;
        if record.n != next {
            let told = format!("it is number {} where {next} is due", record.n);
            return Err(segment::damaged(path, offset, told));
        }
        next = last_n(&record.event, record.n) + 1;
        each(record, bytes)?;
    }
}

/// What a segment is called beside `file` until [`swap`] puts it in its place.
pub(crate) fn staged(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".staged");
    PathBuf::from(name)
}

/// Files of the journal's folder that end so.
fn ending(dir: &Path, end: &str) -> Result<Vec<PathBuf>, StoreError> {
    let fail = io_error("list", dir);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(&fail)? {
        let path = entry.map_err(&fail)?.path();
        if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what an earlier attempt wrote beside segments.
pub(crate) fn clear(dir: &Path) -> Result<(), StoreError> {
    for end in [".staged", ".new"] {
        ending(dir, end)?.iter().try_for_each(|path| remove_file(path))?;
    }
    // Compressed, and the process died before the other file was gone.
    for first in segment::list(dir)? {
        let (path, packed) = (segment::path(dir, first), segment::packed_path(&segment::path(dir, first)));
        if path.exists() && packed.exists() {
            remove_file(&packed)?;
        }
    }
    Ok(())
}

/// Puts every staged segment in the place of its own, durably. To be called again after a crash in its midst.
pub(crate) fn swap(dir: &Path, mut step: impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
    for path in ending(dir, ".staged")? {
        let to = path.with_extension("");
        fs::rename(&path, &to).map_err(io_error("rename", &path))?;
        step()?;
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}
