//! Checking a store from end to end, and making what derives from the journal again.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_core::ids::ChannelId;
use cairn_core::ports::{Store as _, StoreError};
use serde::{Deserialize, Serialize};

use crate::backup::swap;
use crate::disk::{io_error, move_aside, remove_dir};
use crate::index;
use crate::journal::open::{Shown, Tail, lost_message, refuse_lost_end};
use crate::journal::quarantine;
use crate::lock::StateLock;
use crate::options::StoreOptions;
use crate::store::{Layout, Store};
use crate::views::db::Check;
use crate::views::door::{self, Found};

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
                let mut report = walk_journal(&Layout::of(&inner.options.dir).journal, Some(end))?.0;
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
    let worker = move || verify_blocking(options, quarantine);
    let (report, store) = tokio::task::spawn_blocking(worker).await.map_err(died)??;
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
    let worker = move || {
        let lock = StateLock::take(&options.dir)?;
        let layout = Layout::of(&options.dir);
        refuse_lost_end(&layout.journal, &layout.shown()?)?;
        remove_dir(&layout.views)?;
        remove_dir(&layout.index)?;
        drop(lock);
        Store::open(options)
    };
    let store = tokio::task::spawn_blocking(worker).await.map_err(died)??;
    let report = store.verify().await;
    store.close().await;
    report
}

fn died(error: tokio::task::JoinError) -> StoreError {
    StoreError::View { view: "store", message: format!("checking it failed: {error}") }
}

/// The check that comes before opening: opening would mend views in silence, and refuses a damaged journal.
fn verify_blocking(
    options: StoreOptions,
    quarantine: bool,
) -> Result<(VerifyReport, Option<Store>), StoreError> {
    let layout = Layout::of(&options.dir);
    let there = layout.journal.try_exists().map_err(io_error("look into", &options.dir))?;
    if !there && !swap::is_pending(&options.dir) {
        return Ok((VerifyReport { ok: true, ..VerifyReport::default() }, None));
    }
    let lock = StateLock::take(&options.dir)?;
    let mut done = Vec::new();
    if quarantine {
        done = quarantine::quarantine(&layout.journal, &layout.quarantine, &layout.shown()?)?;
        if !done.is_empty() {
            // What they show of the lost records stays until the next time.
            move_aside(&layout.views)?;
            remove_dir(&layout.index)?;
        }
    }
    let (mut report, end) = walk_journal(&layout.journal, None)?;
    let is_whole = report.problems.is_empty();
    let mut shown = check_closed_views(&layout.views, &options, &mut report)?;
    shown.last.push(index::reach(&layout.index));
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

fn walk_journal(dir: &Path, end: Option<Tail>) -> Result<(VerifyReport, Tail), StoreError> {
    let mut channels = BTreeSet::new();
    let walk = quarantine::walk(dir, end, |record| {
        if let Some(channel) = &record.channel
            && !channels.contains(channel)
        {
            channels.insert(channel.clone());
        }
    })?;
    let journal = JournalReport { segments: walk.segments, events: walk.events, last: walk.last.n };
    let channels = channels.len() as u64;
    let report = VerifyReport { journal, channels, problems: walk.problems, ..VerifyReport::default() };
    Ok((report, walk.last))
}

fn add(check: Check, report: &mut VerifyReport) {
    report.views = ViewsReport { applied: check.meta.n, records: check.rows.values().sum(), bad: check.bad };
    report.memories = check.rows.get(&'m').copied().unwrap_or(0);
    report.problems.extend(check.problems);
}

/// With what the views show of the journal; nothing, when there are none.
fn check_closed_views(
    dir: &Path,
    options: &StoreOptions,
    report: &mut VerifyReport,
) -> Result<Shown, StoreError> {
    let Some(Found { shown, rows }) = door::look_into_closed(dir, options.sled_cache_bytes)? else {
        return Ok(Shown::default());
    };
    let unsound = match rows {
        Ok((_, check)) if check.is_old => Some("the views are of another version of this program".to_owned()),
        Ok((_, check)) => {
            add(check, report);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    report.problems.extend(unsound.map(|why| format!("{why}; the next start rebuilds the views")));
    Ok(shown)
}
