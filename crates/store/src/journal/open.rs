//! Opening the journal: checks what was written since the views were last kept, and cuts off a torn end.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_core::event::Event;
use cairn_core::ports::StoreError;

use super::line;
use super::rewrite::Sink;
use super::segment::{self, Lines, Piece, Position};
use crate::disk::{Disk, RealDisk, io_error, make_dir, sync_dir};

/// Where the journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tail {
    /// Number of its last record; 0 when it is empty.
    pub(crate) n: u64,
    /// First number of its last segment; 0 when there is none.
    pub(crate) segment: u64,
    /// Length of that segment in bytes.
    pub(crate) len: u64,
}

/// A record that is known to be good: where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checkpoint {
    /// Its number, or that of the last record that it stands for; 0: the beginning.
    pub(crate) n: u64,
    /// Where it is.
    pub(crate) position: Position,
}

/// Whether the journal still has the record of a checkpoint at its place.
pub(crate) fn holds(dir: &Path, checkpoint: &Checkpoint) -> bool {
    if checkpoint.n == 0 {
        return true;
    }
    let path = segment::path(dir, checkpoint.position.segment);
    let Ok(mut lines) = Lines::open(&path, checkpoint.position.offset, None) else { return false };
    match lines.next() {
        Ok(Piece::Line { bytes, .. }) => {
            line::parse(bytes).is_ok_and(|record| last_n(&record.event, record.n) == checkpoint.n)
        }
        _ => false,
    }
}

/// What is wrong when the segment of a checkpoint is not there: what came after the others is lost. A segment that is
/// shorter than it was is a torn end, which is another thing.
pub(crate) fn gone(dir: &Path, checkpoint: &Checkpoint) -> Option<StoreError> {
    let first = checkpoint.position.segment;
    let is_there = segment::list(dir).map_or(true, |segments| segments.contains(&first));
    let error = || StoreError::Damaged {
        file: segment::path(dir, first).display().to_string(),
        line: 1,
        message: format!(
            "the segment is missing, and the views show records up to {}; put it back, from a backup; \
             `cairn store rebuild` goes on without what was in it",
            checkpoint.n
        ),
    };
    (checkpoint.n > 0 && !is_there).then(error)
}

/// The last number that a record stands for: its own, unless lines were set aside or taken out in its place.
pub(crate) fn last_n(event: &Event, n: u64) -> u64 {
    match event {
        Event::LinesQuarantined { to_n, .. } | Event::RecordsRemoved { to_n, .. } => n.max(*to_n),
        _ => n,
    }
}

/// What is wrong at the end of the last segment: everything from `offset` on goes.
struct Torn {
    offset: u64,
    message: String,
}

/// Walks from the checkpoint to the end. Every line must be whole and its number the next one; what is torn at the
/// very end is cut off, and kept in `quarantine/`. What comes before the checkpoint in its segment must be whole, too, so
/// that damage is told at the start and not when somebody asks for the words; segments before it are left to `verify`.
///
/// # Errors
/// [`StoreError::Damaged`] for a bad line that is not at the end; [`StoreError::Io`].
pub(crate) fn open(dir: &Path, aside: &Path, from: &Checkpoint) -> Result<Tail, StoreError> {
    make_dir(dir)?;
    let segments = segment::list(dir)?;
    if let Some(last) = segments.last() {
        unpack(dir, &segment::path(dir, *last))?;
    }
    check_sealed(dir, &segments, from.position.segment)?;
    let mut tail = Tail { n: from.n, segment: from.position.segment, len: 0 };
    if from.n > 0 {
        tail.len = from.position.end();
        check_until(&segment::path(dir, tail.segment), tail.len)?;
    }
    let after: Vec<u64> = segments.iter().copied().filter(|first| *first >= tail.segment).collect();
    for (idx, first) in after.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = idx + 1 == after.len();
        if *first != tail.segment {
            if *first != tail.n + 1 {
                let message = format!("records {} to {} are missing before it", tail.n + 1, first - 1);
                return Err(segment::damaged(&path, 0, message));
            }
            tail.segment = *first;
            tail.len = 0;
        }
        if let Some(torn) = walk(&path, &mut tail, is_last)? {
            cut(&path, aside, &torn)?;
        }
    }
    Ok(tail)
}

/// The last segment is written on, so it must not be compressed: it was, when those behind it are gone.
fn unpack(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let packed = segment::packed_path(path);
    if path.exists() || !packed.exists() {
        return Ok(());
    }
    let beside = path.with_extension("jsonl.new");
    let fail = io_error("write", &beside);
    let write = || {
        let mut out = Sink::create(&beside, false).map_err(&fail)?;
        let mut lines = Lines::open(path, 0, None)?;
        loop {
            match lines.next()? {
                Piece::End => return out.finish().map_err(&fail),
                Piece::Torn { offset } => return Err(segment::damaged(path, offset, "it has no end")),
                Piece::Line { offset, bytes } => {
                    line::check(bytes).map_err(|why| segment::damaged(path, offset, why))?;
                    out.line(bytes).and_then(|()| out.line(b"\n")).map_err(&fail)?;
                }
            }
        }
    };
    if let Err(error) = write() {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    fs::rename(&beside, path).map_err(io_error("rename", &beside))?;
    sync_dir(dir).map_err(io_error("sync", dir))?;
    fs::remove_file(&packed).map_err(io_error("remove", &packed))?;
    sync_dir(dir).map_err(io_error("sync", dir))?;
    tracing::info!(file = %path.display(), "unpacked the last segment, which is written on");
    Ok(())
}

/// Looks whether all segments before `end` are there, by the last line of each. One whose last line cannot be read is
/// left to `verify`.
fn check_sealed(dir: &Path, segments: &[u64], end: u64) -> Result<(), StoreError> {
    let mut next = 1;
    for first in segments.iter().copied().filter(|first| *first <= end) {
        let path = segment::path(dir, first);
        if next != 0 && first != next {
            let message = format!("records {next} to {} are missing before it", first.saturating_sub(1));
            return Err(segment::damaged(&path, 0, message));
        }
        if first == end {
            break;
        }
        let last = Lines::open(&path, 0, None)?.last()?;
        let record = last.and_then(|line| line::parse(&line).ok());
        next = record.map_or(0, |record| last_n(&record.event, record.n) + 1);
    }
    Ok(())
}

/// Checks the lines of a segment up to `end`.
fn check_until(path: &Path, end: u64) -> Result<(), StoreError> {
    let mut lines = Lines::open(path, 0, Some(end))?;
    loop {
        match lines.next()? {
            Piece::End => return Ok(()),
            Piece::Torn { offset } => return Err(segment::damaged(path, offset, "it has no end")),
            Piece::Line { offset, bytes } => {
                line::check(bytes).map_err(|why| segment::damaged(path, offset, why))?;
            }
        }
    }
}

/// Reads a segment from `tail.len` on and moves the tail along. Returns where its torn end begins.
fn walk(path: &Path, tail: &mut Tail, is_last: bool) -> Result<Option<Torn>, StoreError> {
    let mut lines = Lines::open(path, tail.len, None)?;
    // Where the append begins whose records are not all there yet, and the record before it.
    let mut open_append: Option<Tail> = None;
    loop {
        let (offset, outcome) = match lines.next()? {
            Piece::End => break,
            Piece::Torn { offset } => (offset, Err("it has no end".to_owned())),
            Piece::Line { offset, bytes } => (offset, read_number(bytes, offset)),
        };
        match outcome {
            Ok((n, to_n, left, end)) => {
                if n != tail.n + 1 {
                    let message = format!("it has number {n}, expected {}", tail.n + 1);
                    return Err(segment::damaged(path, offset, message));
                }
                match (left, open_append) {
                    (0, _) => open_append = None,
                    (_, None) => open_append = Some(*tail),
                    (_, Some(_)) => {}
                }
                tail.n = to_n;
                tail.len = end;
            }
            Err(message) => {
                if !is_last || any_good_line(&mut lines)? {
                    return Err(segment::damaged(path, offset, message));
                }
                if let Some(before) = open_append {
                    *tail = before;
                }
                return Ok(Some(Torn { offset: tail.len, message }));
            }
        }
    }
    match open_append {
        Some(before) if is_last => {
            *tail = before;
            Ok(Some(Torn { offset: tail.len, message: "the rest of its append is missing".to_owned() }))
        }
        _ => Ok(None),
    }
}

/// Number, last number that it stands for, records of its append that follow, and end of a line.
fn read_number(bytes: &[u8], offset: u64) -> Result<(u64, u64, u32, u64), String> {
    let (n, left) = line::number(bytes)?;
    // Rare, and the only events that stand for more than one number; the event's type follows the channel's name.
    let head = &bytes[..bytes.len().min(1024)];
    let names = |event: &[u8]| head.windows(event.len()).any(|window| window == event);
    let to_n = if names(b"lines_quarantined\"") || names(b"records_removed\"") {
        last_n(&line::parse(bytes)?.event, n)
    } else {
        n
    };
    Ok((n, to_n, left, offset + bytes.len() as u64 + 1))
}

/// Whether anything that follows is a journal line: then what came before it is damage, not a torn end.
fn any_good_line(lines: &mut Lines) -> Result<bool, StoreError> {
    while let Piece::Line { bytes, .. } = lines.next()? {
        if line::check(bytes).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn cut(path: &Path, aside: &Path, torn: &Torn) -> Result<PathBuf, StoreError> {
    let bytes = fs::read(path).map_err(io_error("read", path))?;
    let rest = bytes.get(torn.offset as usize..).unwrap_or_default();
    make_dir(aside)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let kept = aside.join(format!("{name}-torn-at-{}.jsonl", torn.offset));
    fs::write(&kept, rest).map_err(io_error("write", &kept))?;
    let cut = || RealDisk.open(path)?.cut(torn.offset);
    cut().map_err(io_error("cut", path))?;
    tracing::warn!(
        file = %path.display(),
        bytes = rest.len(),
        reason = torn.message,
        kept = %kept.display(),
        "cut off the torn end of the journal; nothing that was acknowledged is in it"
    );
    Ok(kept)
}
