//! Checking the whole journal, and setting damaged lines aside.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_core::event::{Event, NewRecord, Record};
use cairn_core::ports::StoreError;
use jiff::Timestamp;

use super::line;
use super::open::last_n;
use super::segment::{self, Lines, Piece};
use crate::disk::{io_error, make_dir, sync_dir};

/// What a walk over the whole journal found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Segments.
    pub(crate) segments: u64,
    /// Good lines.
    pub(crate) events: u64,
    /// Number of the last good line.
    pub(crate) last: u64,
    /// What is wrong, each with file and line; a torn end, which is cut off at the next start, is not.
    pub(crate) problems: Vec<String>,
}

/// A stretch of a segment that is not as it was written.
struct Bad {
    /// Its bytes, with their line feeds.
    bytes: Vec<u8>,
    /// Its first line, from 1.
    line: u64,
    /// What is wrong with that.
    message: String,
}

/// Reads every line of every segment and hands good records to `each`.
///
/// # Errors
/// A segment cannot be read, or `each` failed.
pub(crate) fn walk(
    dir: &Path,
    durable_len: impl Fn(u64) -> Option<u64>,
    mut each: impl FnMut(&Record),
) -> Result<Walk, StoreError> {
    let segments = segment::list(dir)?;
    let mut walk = Walk { segments: segments.len() as u64, ..Walk::default() };
    for (idx, first) in segments.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = idx + 1 == segments.len();
        let mut lines = Lines::open(&path, 0, durable_len(*first))?;
        let mut torn: Vec<String> = Vec::new();
        let mut number = 0;
        loop {
            number += 1;
            let parsed = match lines.next()? {
                Piece::End => break,
                Piece::Torn { .. } => {
                    torn.push(problem(&path, number, "it has no end"));
                    break;
                }
                Piece::Line { bytes, .. } => line::parse(bytes),
            };
            match parsed {
                Ok(record) => {
                    walk.problems.append(&mut torn);
                    let expected = walk.last + 1;
                    if record.n != expected {
                        let message = format!("it has number {}, expected {expected}", record.n);
                        walk.problems.push(problem(&path, number, &message));
                    }
                    walk.events += 1;
                    walk.last = last_n(&record.event, record.n);
                    each(&record);
                }
                Err(message) => torn.push(problem(&path, number, &message)),
            }
        }
        if !is_last {
            walk.problems.append(&mut torn);
        }
    }
    Ok(walk)
}

fn problem(path: &Path, line: u64, message: &str) -> String {
    format!("{}, line {line}: {message}", path.display())
}

/// Moves damaged lines to `aside` and puts a record into each gap that says which numbers are lost. Returns what was
/// set aside, for people. The store must not be open.
///
/// # Errors
/// A file cannot be read or written; then the journal is as before, segment by segment.
pub(crate) fn quarantine(dir: &Path, aside: &Path) -> Result<Vec<String>, StoreError> {
    let mut done = Vec::new();
    let mut last = 0;
    let mut at = Timestamp::UNIX_EPOCH;
    let segments = segment::list(dir)?;
    for (idx, first) in segments.iter().enumerate() {
        let path = segment::path(dir, *first);
        if last + 1 < *first {
            // The first segments are gone: a segment of its own stands in for them, since names say where numbers begin.
            done.push(stand_in(dir, last + 1, *first - 1, at)?);
            last = *first - 1;
        }
        let mut mender =
            Mender { path: &path, aside, out: Vec::new(), last, at, done: &mut done, changed: false };
        let end = segments.get(idx + 1).map(|next| next - 1);
        mender.mend(end)?;
        let Mender { out, changed, last: new_last, at: new_at, .. } = mender;
        (last, at) = (new_last, new_at);
        if changed {
            replace(dir, &path, &out)?;
            set_packed_aside(&path, aside)?;
        }
    }
    Ok(done)
}

/// A segment that says that the records of those numbers are lost. Returns it, for people.
fn stand_in(dir: &Path, from_n: u64, to_n: u64, at: Timestamp) -> Result<String, StoreError> {
    let path = segment::path(dir, from_n);
    let event = Event::LinesQuarantined { from_n, to_n };
    let mut out = Vec::new();
    line::frame(&mut out, from_n, 0, &line::body(&NewRecord { channel: None, at, event })?);
    replace(dir, &path, &out)?;
    Ok(format!("{}: records {from_n} to {to_n} are lost", path.display()))
}

/// Writes a segment anew without its bad lines.
struct Mender<'a> {
    path: &'a Path,
    aside: &'a Path,
    out: Vec<u8>,
    last: u64,
    at: Timestamp,
    done: &'a mut Vec<String>,
    changed: bool,
}

impl Mender<'_> {
    /// `end`: the number that the segment must reach; none for the last segment, whose torn end is left to the start.
    fn mend(&mut self, end: Option<u64>) -> Result<(), StoreError> {
        let mut lines = Lines::open(self.path, 0, None)?;
        let mut bad: Option<Bad> = None;
        let mut number = 0;
        loop {
            number += 1;
            let (bytes, parsed) = match lines.next()? {
                Piece::End => break,
                Piece::Torn { offset } => {
                    let all = fs::read(self.path).map_err(io_error("read", self.path))?;
                    (all[offset as usize..].to_vec(), Err("it has no end".to_owned()))
                }
                Piece::Line { bytes, .. } => {
                    let mut whole = bytes.to_vec();
                    whole.push(b'\n');
                    (whole, line::parse(bytes))
                }
            };
            let is_torn = !bytes.ends_with(b"\n");
            match parsed {
                // A line that was written twice, or out of its place, is as bad as one that cannot be read.
                Ok(record) if record.n > self.last => {
                    self.close_gap(bad.take(), record.n - 1)?;
                    self.out.extend_from_slice(&bytes);
                    self.last = last_n(&record.event, record.n);
                    self.at = record.at;
                }
                Ok(record) => self.note(&mut bad, &bytes, number, format!("number {} came before", record.n)),
                Err(message) => self.note(&mut bad, &bytes, number, message),
            }
            if is_torn {
                break;
            }
        }
        match (end, bad) {
            (Some(end), bad) => self.close_gap(bad, end),
            (None, Some(bad)) => {
                self.out.extend_from_slice(&bad.bytes);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn note(&self, bad: &mut Option<Bad>, bytes: &[u8], line: u64, message: String) {
        match bad {
            Some(bad) => bad.bytes.extend_from_slice(bytes),
            None => *bad = Some(Bad { bytes: bytes.to_vec(), line, message }),
        }
    }

    /// Sets bad lines aside, and stands a record in for the numbers up to `to_n` that are missing.
    fn close_gap(&mut self, bad: Option<Bad>, to_n: u64) -> Result<(), StoreError> {
        let from_n = self.last + 1;
        if bad.is_none() && to_n < from_n {
            return Ok(());
        }
        self.changed = true;
        let mut told = format!("{}: ", self.path.display());
        if let Some(bad) = bad {
            let kept = self.set_aside(&bad)?;
            told.push_str(&format!(
                "line {} and what follows ({}) moved to {}; ",
                bad.line,
                bad.message,
                kept.display()
            ));
        }
        if to_n >= from_n {
            let event = Event::LinesQuarantined { from_n, to_n };
            let body = line::body(&NewRecord { channel: None, at: self.at, event })?;
            line::frame(&mut self.out, from_n, 0, &body);
            self.last = to_n;
            told.push_str(&format!("records {from_n} to {to_n} are lost"));
        } else {
            told.push_str("no record is lost");
        }
        self.done.push(told);
        Ok(())
    }

    fn set_aside(&self, bad: &Bad) -> Result<PathBuf, StoreError> {
        make_dir(self.aside)?;
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let kept = self.aside.join(format!("{name}-line-{}.jsonl", bad.line));
        fs::write(&kept, &bad.bytes).map_err(io_error("write", &kept))?;
        Ok(kept)
    }
}

/// A compressed segment that was mended is one that is not; what was compressed is kept whole.
fn set_packed_aside(path: &Path, aside: &Path) -> Result<(), StoreError> {
    let packed = segment::packed_path(path);
    if !packed.exists() {
        return Ok(());
    }
    make_dir(aside)?;
    let kept = aside.join(packed.file_name().unwrap_or_default());
    fs::rename(&packed, &kept).map_err(io_error("move aside", &packed))
}

/// Puts a segment in the place of the one of that name, durably.
fn replace(dir: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let beside = path.with_extension("jsonl.new");
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_dir(dir)
    };
    write().map_err(io_error("write", path))
}
