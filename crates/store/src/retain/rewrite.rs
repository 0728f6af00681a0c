//! A closed segment rewritten and compressed: beside it first, read back, then put in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_core::event::Record;
use cairn_core::ports::StoreError;

use super::{Closed, Shrunk};
use crate::disk::{io_error, replace, sync_dir};
use crate::journal::line;
use crate::journal::packed::Packer;
use crate::journal::segment::{self, Lines, Piece, SegmentFile};

/// Says what stands in the place of a record's line without its line feed, just as long; `None`: it stays.
pub(super) type Change<'a> = &'a mut dyn FnMut(Record, &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

/// Writes a segment again, whether it is compressed already or not. What was written of one that cannot be is removed, and
/// the segment stays; one that is damaged cannot be.
pub(super) fn pack(segment: &Closed, dry_run: bool, change: Change<'_>) -> Result<Shrunk, StoreError> {
    let bytes_before = segment::bytes(&segment.path)?;
    let shrunk = |bytes_after| Shrunk { segments: 1, bytes_before, bytes_after, failed: 0 };
    if dry_run {
        let counted = write(segment, Counter(0), change)?;
        return Ok(shrunk(counted.0));
    }
    let beside = beside(&segment.path);
    let written = put(segment, &beside, change);
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(shrunk)
}

fn beside(path: &Path) -> PathBuf {
    segment::packed_path(path).with_extension("gz.new")
}

/// Bytes that nobody keeps.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write<W: Write>(segment: &Closed, out: W, change: Change<'_>) -> Result<W, StoreError> {
    let fail = io_error("rewrite", &segment.path);
    let mut packer = Packer::new(out);
    let mut buffer = Vec::new();
    segment.records(|record, bytes| {
        buffer.clear();
        match change(record, bytes)? {
            Some(changed) => buffer.extend_from_slice(&changed),
            None => buffer.extend_from_slice(bytes),
        }
        buffer.push(b'\n');
        packer.line(&buffer).map_err(&fail)
    })?;
    packer.finish().map_err(&fail)
}

/// Returns the bytes that it takes now.
fn put(segment: &Closed, beside: &Path, change: Change<'_>) -> Result<u64, StoreError> {
    let Closed { dir, path, .. } = segment;
    let packed = segment::packed_path(path);
    let fail = io_error("write", beside);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside);
    let out = write(segment, BufWriter::new(file.map_err(&fail)?), change)?;
    let out: File = out.into_inner().map_err(io::IntoInnerError::into_error).map_err(&fail)?;
    out.sync_all().map_err(&fail)?;
    if !reads_alike(path, beside)? {
        return Err(StoreError::Io {
            action: "compress",
            path: path.display().to_string(),
            message: "what was written does not read back; the segment stays as it is".to_owned(),
        });
    }
    replace(&packed, beside).map_err(io_error("rename", beside))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error("remove", path)(error)),
        _ => {}
    }
    sync_dir(dir).map_err(io_error("sync", dir))?;
    Ok(packed.metadata().map_err(io_error("read", &packed))?.len())
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
