//! Segments rewritten beside themselves: all that changed first, then each renamed over the one before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_core::event::{Event, MaintenanceEvent, NewRecord, Record, Removal};
use cairn_core::ports::StoreError;

use super::line;
use super::open::last_n;
use super::packed::Packer;
use super::segment::{self, Lines, Piece};
use crate::disk::{io_error, sync_dir};

/// What a segment that is rewritten is called until it takes the place of the one before.
const STAGED: &str = "staged";

/// Says what becomes of the records of a journal, in their order.
pub(crate) trait Rewrite {
    /// What stands in the place of a record; `None`: nothing.
    fn fate(&mut self, record: Record) -> Option<Record>;

    /// What is appended behind the last one.
    fn closing(&mut self) -> Vec<NewRecord>;
}

fn staged(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(STAGED);
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
        for path in ending(dir, end)? {
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
    }
    // Compressed, and the process died before the other file was gone.
    for first in segment::list(dir)? {
        let (path, packed) = (segment::path(dir, first), segment::packed_path(&segment::path(dir, first)));
        if path.exists() && packed.exists() {
            fs::remove_file(&packed).map_err(io_error("remove", &packed))?;
        }
    }
    Ok(())
}

/// Puts every staged segment in the place of its own, durably. To be called again after a crash in its midst.
pub(crate) fn swap(dir: &Path, mut step: impl FnMut() -> Result<(), StoreError>) -> Result<u64, StoreError> {
    let mut n = 0;
    for path in ending(dir, ".staged")? {
        let to = path.with_extension("");
        fs::rename(&path, &to).map_err(io_error("rename", &path))?;
        n += 1;
        step()?;
    }
    sync_dir(dir).map_err(io_error("sync", dir))?;
    Ok(n)
}

/// Lines on their way into a file, compressed or not.
pub(crate) enum Sink {
    Plain(BufWriter<File>),
    Packed(Packer<BufWriter<File>>),
}

impl Sink {
    /// Into a new file (0600).
    pub(crate) fn create(path: &Path, packed: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let file = BufWriter::new(file);
        Ok(if packed { Self::Packed(Packer::new(file)) } else { Self::Plain(file) })
    }

    pub(crate) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(line),
            Self::Packed(packer) => packer.line(line),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Packed(packer) => packer.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Hands every record of a segment to `each`, with its line; returns the number of the last one. `first`: of its first one.
/// `end`: where the lines end.
///
/// # Errors
/// [`StoreError::Damaged`] unless all of it is there, in order, as it was written: what cannot be read must not be replaced
/// by what could.
pub(crate) fn records(
    path: &Path,
    first: u64,
    end: Option<u64>,
    mut each: impl FnMut(Record, &[u8]) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut lines = Lines::open(path, 0, end)?;
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

/// Writes a segment again beside it; a run of records that go is stood for by one that says so. `end`: of the last segment,
/// where it ends; the closing records follow there. A segment that stays as it is, is not written. True: it was.
pub(crate) fn stage(
    dir: &Path,
    first: u64,
    end: Option<u64>,
    rewrite: &mut dyn Rewrite,
) -> Result<bool, StoreError> {
    let path = segment::path(dir, first);
    let file = segment::file_of(&path);
    let beside = staged(&file);
    let fail = io_error("write", &beside);
    let is_packed = file != path;
    let mut out = Sink::create(&beside, is_packed).map_err(&fail)?;
    let mut changed = false;
    let mut gone: Option<Gone> = None;
    let mut buffer = Vec::new();
    let last = records(&path, first, end, |before, bytes| {
        let Some(after) = rewrite.fate(before.clone()) else {
            changed = true;
            let from_n = gone.map_or(before.n, |gone| gone.from_n);
            gone = Some(Gone { from_n, to_n: last_n(&before.event, before.n), at: before.at });
            return Ok(());
        };
        write_gone(&mut out, gone.take()).map_err(&fail)?;
        buffer.clear();
        if after == before {
            buffer.extend_from_slice(bytes);
            buffer.push(b'\n');
        } else {
            changed = true;
            framed(&mut buffer, after)?;
        }
        out.line(&buffer).map_err(&fail)
    })?;
    write_gone(&mut out, gone.take()).map_err(&fail)?;
    let closing = if end.is_some() { rewrite.closing() } else { Vec::new() };
    for (n, NewRecord { channel, at, event }) in (last + 1..).zip(closing) {
        changed = true;
        buffer.clear();
        framed(&mut buffer, Record { n, at, channel, event })?;
        out.line(&buffer).map_err(&fail)?;
    }
    out.finish().map_err(&fail)?;
    if !changed {
        fs::remove_file(&beside).map_err(io_error("remove", &beside))?;
    }
    Ok(changed)
}

#[derive(Clone, Copy)]
struct Gone {
    from_n: u64,
    to_n: u64,
    at: jiff::Timestamp,
}

fn write_gone(out: &mut Sink, gone: Option<Gone>) -> io::Result<()> {
    let Some(Gone { from_n, to_n, at }) = gone else { return Ok(()) };
    let event = Event::Maintenance(MaintenanceEvent::RecordsRemoved { from_n, to_n, by: Removal::Erasure });
    let mut buffer = Vec::new();
    framed(&mut buffer, Record { n: from_n, at, channel: None, event }).map_err(io::Error::other)?;
    out.line(&buffer)
}

fn framed(out: &mut Vec<u8>, record: Record) -> Result<(), StoreError> {
    let Record { n, at, channel, event } = record;
    let body = line::body(&NewRecord { channel, at, event })?;
    line::frame(out, n, 0, &body);
    Ok(())
}
