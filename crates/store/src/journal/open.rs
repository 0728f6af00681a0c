//! Opens the journal: checks what was written since the views were last written, reports a lost end, and cuts off a torn one.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use cairn_types::ids::{ChannelId, Seq};
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::line::{self, last_n, read_number};
use super::mark::{Mark, Sealed};
use super::rewrite::{Fate, Rewriter};
use super::segment::{self, Lines, Piece, Position};
use crate::files::disk::{Disk, Layout, RealDisk, io_error, make_dir, put, remove_file, replace, sync_dir};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tail {
    /// Number of its last record; 0 when it is empty.
    pub(crate) n: u64,
    /// First number of its last segment; 0 when there is none.
    pub(crate) segment: u64,
    /// Length of that segment in bytes.
    pub(crate) len: u64,
}

/// A record that is known to be good. Reading starts behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checkpoint {
    /// Its number, or that of the last record that it stands for; 0: the beginning.
    pub(crate) n: u64,
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

/// How much of the journal views and index show. They only get synced records, so a record that they show and the journal does
/// not have was durable and is lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewState {
    pub(crate) last: Vec<Checkpoint>,
    /// The channels that the views know.
    pub(crate) channels: Vec<KnownChannel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownChannel {
    pub(crate) channel: ChannelId,
    pub(crate) n: u64,
    pub(crate) at: Timestamp,
    /// The first number of an entry that was not given yet.
    pub(crate) next_seq: Seq,
}

/// Channels that an error names.
const NAMED: usize = 5;

/// The first few of some channels by name, the others by their number.
pub(crate) fn named(channels: &[&ChannelId]) -> String {
    let mut names: Vec<&str> = channels.iter().take(NAMED).map(|channel| channel.as_str()).collect();
    let more = format!("{} more", channels.len().saturating_sub(NAMED));
    if channels.len() > NAMED {
        names.push(&more);
    }
    names.join(", ")
}

impl ViewState {
    /// The last record that is shown and lies behind that end of the journal. Number and place must both say so: one of
    /// them alone is damage of whoever shows it.
    pub(crate) fn behind(&self, end: &Tail) -> Option<&Checkpoint> {
        let is_behind = |at: &&Checkpoint| {
            let Position { segment, .. } = at.position;
            at.n > end.n && (segment > end.segment || (segment == end.segment && at.position.end() > end.len))
        };
        self.last.iter().filter(is_behind).max_by_key(|at| at.n)
    }

    /// The channels that have lost something when everything from a record on is lost, in the order of their last records.
    pub(crate) fn since(&self, from_n: u64) -> Vec<&KnownChannel> {
        let mut lost: Vec<_> = self.channels.iter().filter(|channel| channel.n >= from_n).collect();
        lost.sort_by_key(|channel| channel.n);
        lost
    }
}

/// Checks that the journal has everything that views and index show.
///
/// # Errors
/// [`StoreError::Damaged`], with the range of the records that are lost; or the journal is damaged elsewhere, or cannot be read.
pub(crate) fn refuse_lost_end(dir: &Path, views: &ViewState) -> Result<(), StoreError> {
    if views.last.iter().all(|at| holds(dir, at)) {
        return Ok(());
    }
    make_dir(dir)?;
    find_end(dir, &Start::default(), &Mark::default())?.0.refuse_lost(dir, views)
}

/// Where a start begins to read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start {
    /// What the views show: all before it was checked when it was written.
    pub(crate) from: Checkpoint,
    /// The checkpoint's segment is read whole when no more bytes of it come before.
    pub(crate) most_bytes: u64,
}

impl Start {
    /// The place in the checkpoint's segment; 0: its beginning.
    fn offset(&self) -> u64 {
        let Position { offset, .. } = self.from.position;
        if offset > self.most_bytes { offset } else { 0 }
    }
}

/// What is wrong at the end of the last segment: everything from `offset` on goes.
struct Torn {
    offset: u64,
    message: String,
    /// The last whole line before it, of an append that is not all there.
    whole: Tail,
    /// How many records of that append should follow.
    left: u32,
    /// The bad line was written to its end: no write that was cut short leaves it so.
    is_damaged: bool,
}

/// Where the journal ends, and the torn end to be cut off.
struct End {
    tail: Tail,
    torn: Option<Torn>,
}

impl End {
    /// # Errors
    /// [`StoreError::Damaged`]: records behind this end are shown, so they were durable.
    fn refuse_lost(&self, dir: &Path, views: &ViewState) -> Result<(), StoreError> {
        let Some(last) = views.behind(&self.tail) else { return Ok(()) };
        let (whole, left) = self.torn.as_ref().map_or((self.tail, 0), |torn| (torn.whole, torn.left));
        let since = Lines::open(&segment::path(dir, whole.segment), 0, Some(whole.len)).and_then(Lines::last);
        let since = since.ok().flatten().and_then(|line| line::parse(&line).ok()).map(|record| record.at);
        let message = lost_message(whole.n + 1, end_of_loss(last.n, whole.n, left), since, views);
        let message = format!("{message}; a backup may have them");
        let path = segment::path(dir, last.position.segment);
        if last.position.segment == whole.segment {
            return Err(segment::damaged(&path, whole.len, message));
        }
        let message = format!("the segment is missing: {message}");
        Err(StoreError::Damaged { file: path.display().to_string(), line: 1, message })
    }
}

/// The last lost record, when records up to `shown_n` are shown and the last whole line is `last`, `left` records before the
/// end of its append: an append is durable as a whole.
pub(crate) fn end_of_loss(shown_n: u64, last: u64, left: u32) -> u64 {
    shown_n.max(last + u64::from(left))
}

/// What is told of records that are missing at the end; `since`: when the record before them was written, where known.
pub(crate) fn lost_message(from_n: u64, to_n: u64, since: Option<Timestamp>, views: &ViewState) -> String {
    let channels = views.since(from_n);
    let time = |word: &str, at: Option<Timestamp>| {
        at.map(|at| format!(" {word} {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"))).unwrap_or_default()
    };
    let until = time("until", channels.iter().map(|channel| channel.at).max());
    let since = time("after", since);
    let ids: Vec<&ChannelId> = channels.iter().rev().map(|one| &one.channel).collect();
    let of = if ids.is_empty() { String::new() } else { format!(", in {}", named(&ids)) };
    let records = match from_n == to_n {
        true => format!("record {from_n} is"),
        false => format!("records {from_n} to {to_n} are"),
    };
    format!(
        "{records} missing at the end of the journal, and perhaps later ones; what views or index show was \
         acknowledged: it was written{since}{until}{of}"
    )
}

/// Walks from the checkpoint to the end. Every line must be whole and its number the next one; what is torn at the very end
/// is cut off, and kept in `quarantine/`, unless views or index show it. Of the segments before only those are looked at
/// that are not as `checked` says; their lines are left to the background check. What is there is durable when it returns,
/// as everything must be that views are given.
///
/// # Errors
/// [`StoreError::Damaged`] for a bad line that is not at the end, a segment that is missing or too short, and an end that is
/// lost; [`StoreError::Io`].
pub(crate) fn open(
    dir: &Path,
    layout: &Layout,
    start: &Start,
    views: &ViewState,
) -> Result<Tail, StoreError> {
    make_dir(dir)?;
    let known = Mark::read(&layout.checked);
    let (end, segments) = find_end(dir, start, &known)?;
    end.refuse_lost(dir, views)?;
    if start.from.n > 0 && segments != known.segments {
        let mark = Mark { segments, ..known };
        mark.keep(&layout.checked).unwrap_or_else(|error| {
            tracing::warn!(%error,
                "cannot save which journal segments were checked; the next start checks all of them again")
        });
    }
    let Some(first) = segment::list(dir)?.pop() else { return Ok(end.tail) };
    unpack(dir, first)?;
    let last = segment::path(dir, first);
    match end.torn {
        Some(torn) => {
            let shown_n = views.last.iter().chain([&start.from]).map(|at| at.n).max();
            cut(&last, &layout.quarantine, &torn, shown_n.unwrap_or_default())?;
        }
        // Opened to be read, so that a journal on a read-only file system can be.
        None => fs::File::open(&last).and_then(|file| file.sync_data()).map_err(io_error("sync", &last))?,
    }
    sync_dir(dir).map_err(io_error("sync", dir))?;
    Ok(end.tail)
}

/// Walks from the start to the end, and changes nothing. Returns what is known of the segments before, too.
fn find_end(dir: &Path, start: &Start, known: &Mark) -> Result<(End, Vec<Sealed>), StoreError> {
    let segments = segment::list(dir)?;
    let begin = start.from.position.segment;
    let sealed = check_sealed(dir, &segments, begin, known)?;
    let mut tail = Tail { n: begin.saturating_sub(1), segment: begin, len: 0 };
    let mut torn = None;
    let after: Vec<u64> = segments.into_iter().filter(|first| *first >= begin).collect();
    for (idx, first) in after.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = idx + 1 == after.len();
        let next = tail.n.saturating_add(1);
        if *first != next {
            let message = format!("records {next} to {} are missing before it", first.saturating_sub(1));
            return Err(segment::damaged(&path, 0, message));
        }
        (tail.segment, tail.len) = (*first, if idx == 0 { start.offset() } else { 0 });
        torn = walk(&path, &mut tail, is_last)?;
    }
    Ok((End { tail, torn }, sealed))
}

/// The last segment is written on, so it must not be compressed: it was, when those behind it are gone.
fn unpack(dir: &Path, first: u64) -> Result<(), StoreError> {
    let path = &segment::path(dir, first);
    let packed = segment::packed_path(path);
    if path.exists() || !packed.exists() {
        return Ok(());
    }
    let beside = path.with_extension("jsonl.new");
    let written = Rewriter::create(&beside, false).and_then(|mut out| {
        out.copy(path, first, None, &mut |_, _| Ok(Fate::Stays)).and_then(|_| out.finish())
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    replace(path, &beside).map_err(io_error("rename", &beside))?;
    remove_file(&packed)?;
    sync_dir(dir).map_err(io_error("sync", dir))?;
    tracing::info!(file = %path.display(), "decompressed the last segment, because new records are appended to it");
    Ok(())
}

/// Looks whether all segments before `end` are there, by the last line of each; that of one that is as it was is known. One
/// whose last line cannot be read is left to the background check.
fn check_sealed(dir: &Path, segments: &[u64], end: u64, known: &Mark) -> Result<Vec<Sealed>, StoreError> {
    let (mut next, mut sealed) = (1, Vec::new());
    for first in segments.iter().copied().filter(|first| *first <= end) {
        let path = segment::path(dir, first);
        if next != 0 && first != next {
            let message = format!("records {next} to {} are missing before it", first.saturating_sub(1));
            return Err(segment::damaged(&path, 0, message));
        }
        if first == end {
            break;
        }
        let bytes = segment::bytes(&path)?;
        let found = match known.of(first, bytes) {
            Some(sealed) => Some(sealed),
            None => {
                let last = Lines::open(&path, 0, None)?.last()?;
                let record = last.and_then(|line| line::parse(&line).ok());
                record.map(|record| Sealed { first, last: last_n(&record.event, record.n), bytes })
            }
        };
        next = found.map_or(0, |sealed| sealed.last.saturating_add(1));
        sealed.extend(found);
    }
    Ok(sealed)
}

/// Reads a segment from the tail on, and moves it along. Returns where its torn end begins.
fn walk(path: &Path, tail: &mut Tail, is_last: bool) -> Result<Option<Torn>, StoreError> {
    let mut lines = Lines::open(path, tail.len, None)?;
    // The first line behind the beginning is the checkpoint's, whose number is known to be right.
    let mut is_known = tail.len > 0;
    // Where the append begins whose records are not all there yet, and the record before it; how many are not.
    let mut open_append: Option<Tail> = None;
    let mut left = 0;
    let (message, is_damaged) = loop {
        let (offset, outcome) = match lines.next()? {
            Piece::End if open_append.is_none() || !is_last => return Ok(None),
            Piece::End => break ("the rest of its append is missing".to_owned(), false),
            Piece::Torn { offset } => (offset, Err(("it has no end".to_owned(), false))),
            // A file system may leave zeros of a write that was cut short.
            Piece::Line { offset, bytes } => {
                (offset, read_number(bytes, offset).map_err(|message| (message, !bytes.contains(&0))))
            }
        };
        match outcome {
            Ok((n, to_n, more, end)) => {
                if std::mem::take(&mut is_known) {
                    tail.n = n.saturating_sub(1);
                }
                let next = tail.n.saturating_add(1);
                if n != next {
                    let message = format!("it has number {n}, expected {next}");
                    return Err(segment::damaged(path, offset, message));
                }
                match (more, open_append) {
                    (0, _) => open_append = None,
                    (_, None) => open_append = Some(*tail),
                    (_, Some(_)) => {}
                }
                left = more;
                tail.n = to_n;
                tail.len = end;
            }
            Err((message, _)) if !is_last || any_good_line(&mut lines)? => {
                return Err(segment::damaged(path, offset, message));
            }
            Err(bad) => break bad,
        }
    };
    let whole = *tail;
    if let Some(before) = open_append {
        *tail = before;
    }
    Ok(Some(Torn { offset: tail.len, message, whole, left, is_damaged }))
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

/// Cuts off a torn end, and keeps it. `shown_n`: the last record that views or index show, all of which stay. Nobody can
/// tell whether what they do not show was acknowledged, so nothing is said of that.
fn cut(path: &Path, aside: &Path, torn: &Torn, shown_n: u64) -> Result<(), StoreError> {
    let bytes = fs::read(path).map_err(io_error("read", path))?;
    let rest = bytes.get(torn.offset as usize..).unwrap_or_default();
    make_dir(aside)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let what = if torn.is_damaged { "damaged" } else { "torn" };
    let kept = aside.join(format!("{name}-{what}-at-{}.jsonl", torn.offset));
    put(&kept, |file| file.write_all(rest)).map_err(io_error("write", &kept))?;
    let cut = || RealDisk.open(path)?.cut(torn.offset);
    cut().map_err(io_error("cut", path))?;
    if torn.is_damaged {
        tracing::error!(
            file = %path.display(),
            bytes = rest.len(),
            reason = torn.message,
            kept = %kept.display(),
            shown = shown_n,
            "cut off a damaged line at the end of the journal: it was complete, so its content may have been \
             acknowledged and is lost; a backup made since then may have it"
        );
        return Ok(());
    }
    tracing::warn!(
        file = %path.display(),
        bytes = rest.len(),
        reason = torn.message,
        kept = %kept.display(),
        shown = shown_n,
        "cut off an incomplete line at the end of the journal, as an interrupted write leaves it; views and index \
         have nothing of it"
    );
    Ok(())
}
