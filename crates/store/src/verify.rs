//! Checking a store from end to end, and making what derives from the journal again.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_core::ids::ChannelId;
use cairn_core::ports::{Store as _, StoreError};
use serde::{Deserialize, Serialize};

use crate::backup::restore;
use crate::disk::{Layout, blocking, io_error, move_aside, remove_dir};
use crate::index;
use crate::journal::open::{Shown, Tail, last_n, lost_message, refuse_lost_end};
use crate::journal::segment::{Lines, Piece};
use crate::journal::{line, quarantine, segment};
use crate::lock::StateLock;
use crate::store::{Store, StoreOptions};
use crate::views::db::Check;
use crate::views::opening;

/// Of sled, for a look at closed views.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// What fails when a check panics.
const CHECKING: &str = "checking it";

/// What `cairn store verify` shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    pub ok: bool,
    pub journal: JournalReport,
    pub views: ViewsReport,
    pub channels: u64,
    pub memories: u64,
    /// All that is wrong, with what was done about it, for people.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    pub segments: u64,
    pub events: u64,
    pub last: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ViewsReport {
    pub applied: u64,
    pub records: u64,
    pub bad: u64,
}

impl Store {
    /// Checks the open store: every row of the views, every line of the journal up to what they showed then, every channel
    /// restored, every artifact's file. Takes as long as it takes to read all of it; nothing waits for it.
    ///
    /// # Errors
    /// Something cannot be read at all.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut report = self
            .read(|inner, reads| {
                let check = reads.db.check();
                // What the views show is durable, and written on behind it meanwhile.
                let position = check.meta.checkpoint().position;
                let len = if check.meta.n == 0 { 0 } else { position.end() };
                let end = Tail { n: check.meta.n, segment: position.segment, len };
                let mut report = check_journal(&Layout::of(&inner.options.dir).journal, Some(end))?.0;
                add(check, &mut report);
                Ok(report)
            })
            .await?;
        for row in self.channels().await? {
            let wrong = self.wrong_in(&row.channel).await;
            if !wrong.is_empty() {
                // What was on its way while it was looked at is there now.
                let still = self.wrong_in(&row.channel).await;
                report.problems.extend(still.into_iter().filter(|one| wrong.contains(one)));
            }
        }
        report.ok = report.problems.is_empty();
        Ok(report)
    }

    /// What is wrong with a channel and the files of its artifacts, for people.
    async fn wrong_in(&self, channel: &ChannelId) -> Vec<String> {
        let look = async {
            let conversation = self.restore(channel).await?;
            let artifacts = conversation.map(|conversation| conversation.artifacts).unwrap_or_default();
            self.inner.artifacts.missing(channel, artifacts.into_values().collect()).await
        };
        look.await.unwrap_or_else(|error: StoreError| vec![format!("channel {channel}: {error}")])
    }
}

/// Checks the store in a folder that no daemon has open. With `quarantine`, damaged journal lines are quarantined first, and
/// they and what is missing are said to be lost; the views are then moved aside and made again.
///
/// # Errors
/// [`StoreError::InUse`], or something cannot be read or written at all.
pub async fn verify_dir(options: StoreOptions, quarantine: bool) -> Result<VerifyReport, StoreError> {
    let (report, store) = blocking(CHECKING, move || verify_blocking(options, quarantine)).await?;
    let Some(store) = store else { return Ok(report) };
    let mut found = store.verify().await;
    store.close().await;
    if let Ok(found) = &mut found {
        found.problems.splice(0..0, report.problems);
        found.views.bad += report.views.bad;
    }
    found
}

/// Deletes views and search index, and makes them again from the journal.
///
/// # Errors
/// [`StoreError::InUse`]; [`StoreError::Damaged`]: what is there is all that tells of what the journal has lost, and stays.
/// Or the journal cannot be read.
pub async fn rebuild_dir(options: StoreOptions) -> Result<VerifyReport, StoreError> {
    let store = blocking(CHECKING, move || {
        let lock = StateLock::take(&options.dir)?;
        let layout = Layout::of(&options.dir);
        refuse_lost_end(&layout.journal, &shown(&layout)?)?;
        remove_dir(&layout.views)?;
        remove_dir(&layout.index)?;
        drop(lock);
        Store::open(options)
    })
    .await?;
    let report = store.verify().await;
    store.close().await;
    report
}

/// What views and index show of the journal, both closed. The lock is held.
pub(crate) fn shown(layout: &Layout) -> Result<Shown, StoreError> {
    let mut report = VerifyReport::default();
    let shown = check_closed(layout, &mut report)?;
    for problem in report.problems {
        tracing::warn!(problem, "the views are not sound; what they show of the journal may not be told");
    }
    Ok(shown)
}

/// The check that comes before opening: opening would mend views in silence, and refuses a damaged journal.
fn verify_blocking(
    options: StoreOptions,
    quarantine: bool,
) -> Result<(VerifyReport, Option<Store>), StoreError> {
    let layout = Layout::of(&options.dir);
    let there = layout.journal.try_exists().map_err(io_error("look into", &options.dir))?;
    if !there && !restore::is_pending(&options.dir) {
        return Ok((VerifyReport { ok: true, ..VerifyReport::default() }, None));
    }
    let lock = StateLock::take(&options.dir)?;
    let mut done = Vec::new();
    if quarantine {
        done = quarantine::quarantine(&layout.journal, &layout.quarantine, &shown(&layout)?)?;
        if !done.is_empty() {
            // What they show of the lost records stays until the next time.
            move_aside(&layout.views)?;
            remove_dir(&layout.index)?;
        }
    }
    let (mut report, end) = check_journal(&layout.journal, None)?;
    let is_whole = report.problems.is_empty();
    let shown = check_closed(&layout, &mut report)?;
    let lost = match refuse_lost_end(&layout.journal, &shown) {
        Ok(()) => None,
        Err(error @ StoreError::Damaged { .. }) if is_whole => Some(error.to_string()),
        // What else is wrong is told already.
        Err(StoreError::Damaged { .. }) => {
            shown.behind(&end).map(|last| lost_message(end.n + 1, last.n, None, &shown))
        }
        Err(error) => return Err(error),
    };
    report.problems.extend(lost);
    drop(lock);
    if !report.problems.is_empty() {
        report.problems.splice(0..0, done);
        return Ok((report, None));
    }
    for line in &done {
        tracing::warn!(what = line, "set damaged journal lines aside");
    }
    report.problems = done;
    Ok((report, Some(Store::open(options)?)))
}

/// Reads every line of every segment, up to `end` when one is given. A torn end, which is cut off at the next start, is no
/// problem. Returns where the journal ends, too.
fn check_journal(dir: &Path, end: Option<Tail>) -> Result<(VerifyReport, Tail), StoreError> {
    let (mut report, mut last, mut channels) = (VerifyReport::default(), Tail::default(), BTreeSet::new());
    let mut segments = segment::list(dir)?;
    // The writer may have begun another one meanwhile.
    segments.retain(|first| end.is_none_or(|end| *first <= end.segment));
    report.journal.segments = segments.len() as u64;
    for (idx, first) in segments.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = idx + 1 == segments.len();
        let upto = end.filter(|end| end.segment == *first).map(|end| end.len);
        let mut lines = Lines::open(&path, 0, upto)?;
        let mut torn: Vec<String> = Vec::new();
        let mut number = 0;
        last = Tail { segment: *first, len: 0, ..last };
        loop {
            number += 1;
            let (parsed, line_end) = match lines.next()? {
                Piece::End => break,
                Piece::Torn { .. } => {
                    torn.push(problem(&path, number, "it has no end"));
                    break;
                }
                Piece::Line { bytes, offset } => (line::parse(bytes), offset + bytes.len() as u64 + 1),
            };
            match parsed {
                Ok(record) => {
                    report.problems.append(&mut torn);
                    let expected = last.n + 1;
                    if record.n != expected {
                        let message = format!("it has number {}, expected {expected}", record.n);
                        report.problems.push(problem(&path, number, &message));
                    }
                    report.journal.events += 1;
                    let n = last_n(&record.event, record.n);
                    last = Tail { n, segment: *first, len: line_end };
                    channels.extend(record.channel);
                }
                Err(message) => torn.push(problem(&path, number, &message)),
            }
        }
        // Up to an end that is known to be durable there is none that a crash left.
        if !is_last || end.is_some() {
            report.problems.append(&mut torn);
        }
    }
    if let Some(end) = end.filter(|end| last.n < end.n) {
        let path = segment::path(dir, end.segment);
        let message = format!("records {} to {} are missing at its end", last.n + 1, end.n);
        report.problems.push(format!("{}: {message}", path.display()));
    }
    report.journal.last = last.n;
    report.channels = channels.len() as u64;
    Ok((report, last))
}

fn problem(path: &Path, line: u64, message: &str) -> String {
    format!("{}, line {line}: {message}", path.display())
}

fn add(check: Check, report: &mut VerifyReport) {
    report.views = ViewsReport { applied: check.meta.n, records: check.rows.values().sum(), bad: check.bad };
    report.memories = check.rows.get(&'m').copied().unwrap_or(0);
    report.problems.extend(check.problems);
}

/// The same, with what is wrong with the views.
fn check_closed(layout: &Layout, report: &mut VerifyReport) -> Result<Shown, StoreError> {
    let mut shown = Shown::default();
    if let Some(views) = opening::look_into_closed(&layout.views, CACHE_BYTES)? {
        shown = views.shown;
        let mut check = views.check;
        // Views of another version are no damage: they are made again when the store is opened.
        for problem in &mut check.problems {
            problem.push_str("; the next start rebuilds the views");
        }
        add(check, report);
    }
    shown.last.push(index::reach(&layout.index));
    Ok(shown)
}
