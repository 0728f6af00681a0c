//! Setting damaged lines aside, with a record in their place that says what is lost.

use std::fs;
use std::io::Write;
use std::path::Path;

use cairn_types::event::{Event, MaintenanceEvent, Record};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::line::{self, last_n};
use super::open::{KnownChannel, Tail, ViewState, end_of_loss, lost_message};
use super::segment::{self, Lines, Piece};
use crate::files::disk::{io_error, make_dir, put};

/// A stretch of a segment that is not as it was written.
struct Bad {
    /// Its bytes, with their line feeds.
    bytes: Vec<u8>,
    /// Its first line, from 1.
    line: u64,
    message: String,
}

/// Moves damaged lines to `aside` and puts a record into each gap that says which numbers are lost, also behind the last
/// line when more was `shown`. Returns what was quarantined, for people. The store must not be open.
///
/// # Errors
/// A file cannot be read or written; then the journal is as before, segment by segment.
pub(crate) fn quarantine(dir: &Path, aside: &Path, views: &ViewState) -> Result<Vec<String>, StoreError> {
    let mut done = Vec::new();
    let mut last = 0;
    let mut at = Timestamp::UNIX_EPOCH;
    let mut segments = segment::list(dir)?;
    if segments.is_empty() && views.behind(&Tail::default()).is_some() {
        write(&segment::path(dir, 1), &[])?;
        segments.push(1);
    }
    for (idx, first) in segments.iter().enumerate() {
        let path = segment::path(dir, *first);
        if last + 1 < *first {
            // The first segments are gone: a segment of its own stands in for them, since names say where numbers begin.
            done.push(stand_in(dir, last + 1, *first - 1, at)?);
            last = *first - 1;
        }
        let mut mender = Mender {
            path: &path,
            aside,
            out: Vec::new(),
            end: Tail { n: last, segment: *first, len: 0 },
            at,
            done: &mut done,
            changed: false,
        };
        mender.mend(segments.get(idx + 1).map(|next| next - 1), views)?;
        let Mender { out, changed, end, at: new_at, .. } = mender;
        (last, at) = (end.n, new_at);
        if changed {
            write(&path, &out)?;
            set_packed_aside(&path, aside)?;
        }
    }
    Ok(done)
}

/// The line of a record that says that those numbers are lost.
fn stand_in_line(
    from_n: u64,
    to_n: u64,
    channel: Option<ChannelId>,
    at: Timestamp,
    next_seq: Option<Seq>,
) -> Result<Vec<u8>, StoreError> {
    let event = Event::Maintenance(MaintenanceEvent::LinesQuarantined { from_n, to_n, next_seq });
    let mut line = line::of(Record { n: from_n, at, channel, event })?;
    line.push(b'\n');
    Ok(line)
}

/// A segment that says that the records of those numbers are lost. Returns it, for people.
fn stand_in(dir: &Path, from_n: u64, to_n: u64, at: Timestamp) -> Result<String, StoreError> {
    let path = segment::path(dir, from_n);
    write(&path, &stand_in_line(from_n, to_n, None, at, None)?)?;
    Ok(format!("{}: records {from_n} to {to_n} are lost", path.display()))
}

/// Writes a segment again without its bad lines.
struct Mender<'a> {
    path: &'a Path,
    aside: &'a Path,
    out: Vec<u8>,
    /// The last good line as it was before.
    end: Tail,
    at: Timestamp,
    done: &'a mut Vec<String>,
    changed: bool,
}

impl Mender<'_> {
    /// `to_n`: the number that it must reach, when another segment follows. When none does, it must reach what was `shown`;
    /// a torn end that was not is left to the start.
    fn mend(&mut self, to_n: Option<u64>, views: &ViewState) -> Result<(), StoreError> {
        let mut lines = Lines::open(self.path, 0, None)?;
        let mut bad: Option<Bad> = None;
        // The end of the last whole append, and how many records of the last one are not there.
        let (mut whole, mut left) = (self.end, 0);
        let mut number = 0;
        loop {
            number += 1;
            let (bytes, offset, parsed) = match lines.next()? {
                Piece::End => break,
                Piece::Torn { offset } => {
                    let all = fs::read(self.path).map_err(io_error("read", self.path))?;
                    (all[offset as usize..].to_vec(), offset, Err("it has no end".to_owned()))
                }
                Piece::Line { bytes, offset } => {
                    let mut line = bytes.to_vec();
                    line.push(b'\n');
                    (line, offset, line::parse(bytes).and_then(|record| Ok((record, line::number(bytes)?.1))))
                }
            };
            let is_torn = !bytes.ends_with(b"\n");
            match parsed {
                // A line that was written twice, or out of its place, is as bad as one that cannot be read.
                Ok((record, more)) if record.n > self.end.n => {
                    self.close_gap(bad.take(), record.n - 1)?;
                    self.out.extend_from_slice(&bytes);
                    self.end.n = last_n(&record.event, record.n);
                    self.end.len = offset + bytes.len() as u64;
                    self.at = record.at;
                    left = more;
                    if left == 0 {
                        whole = self.end;
                    }
                }
                Ok((record, _)) => {
                    self.note(&mut bad, &bytes, number, format!("number {} came before", record.n));
                }
                Err(message) => self.note(&mut bad, &bytes, number, message),
            }
            if is_torn {
                break;
            }
        }
        match (to_n, views.behind(&whole)) {
            (Some(to_n), _) => self.close_gap(bad, to_n),
            (None, Some(last)) => self.stand_in_for_end(bad, end_of_loss(last.n, self.end.n, left), views),
            (None, None) => {
                self.out.extend_from_slice(&bad.map(|bad| bad.bytes).unwrap_or_default());
                Ok(())
            }
        }
    }

    /// The numbers up to `to_n` are lost behind the last line. In each channel that had some of them a record says so.
    fn stand_in_for_end(&mut self, bad: Option<Bad>, to_n: u64, views: &ViewState) -> Result<(), StoreError> {
        let from_n = self.end.n + 1;
        let since = (self.end.n > 0).then_some(self.at);
        let moved = self.set_aside(bad)?;
        for KnownChannel { channel, n, at, next_seq } in views.since(from_n) {
            self.stand_in(*n, Some(channel.clone()), *at, Some(*next_seq))?;
        }
        if self.end.n < to_n {
            self.stand_in(to_n, None, self.at, None)?;
        }
        let lost = lost_message(from_n, to_n, since, views);
        self.done.push(format!("{}: {moved}{lost}; history says so from here on", self.path.display()));
        Ok(())
    }

    fn note(&self, bad: &mut Option<Bad>, bytes: &[u8], line: u64, message: String) {
        match bad {
            Some(bad) => bad.bytes.extend_from_slice(bytes),
            None => *bad = Some(Bad { bytes: bytes.to_vec(), line, message }),
        }
    }

    /// Sets bad lines aside, and stands a record in for the numbers up to `to_n` that are missing.
    fn close_gap(&mut self, bad: Option<Bad>, to_n: u64) -> Result<(), StoreError> {
        let from_n = self.end.n + 1;
        if bad.is_none() && to_n < from_n {
            return Ok(());
        }
        let moved = self.set_aside(bad)?;
        let told = if to_n >= from_n {
            self.stand_in(to_n, None, self.at, None)?;
            format!("records {from_n} to {to_n} are lost")
        } else {
            "no record is lost".to_owned()
        };
        self.done.push(format!("{}: {moved}{told}", self.path.display()));
        Ok(())
    }

    /// Adds the record that stands for the numbers from the next one up to `to_n`.
    fn stand_in(
        &mut self,
        to_n: u64,
        channel: Option<ChannelId>,
        at: Timestamp,
        next_seq: Option<Seq>,
    ) -> Result<(), StoreError> {
        let from_n = self.end.n + 1;
        self.out.extend(stand_in_line(from_n, to_n, channel, at, next_seq)?);
        self.end.n = to_n;
        self.changed = true;
        Ok(())
    }

    /// Moves bad lines aside. Returns what was moved where, for people; nothing, when nothing is bad.
    fn set_aside(&mut self, bad: Option<Bad>) -> Result<String, StoreError> {
        let Some(Bad { bytes, line, message }) = bad else { return Ok(String::new()) };
        self.changed = true;
        make_dir(self.aside)?;
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let kept = self.aside.join(format!("{name}-line-{line}.jsonl"));
        write(&kept, &bytes)?;
        Ok(format!("line {line} and what follows ({message}) moved to {}; ", kept.display()))
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    put(path, |file| file.write_all(bytes)).map_err(io_error("write", path))
}
