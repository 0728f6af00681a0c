//! Checking a store from end to end, and making what derives from the journal anew.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_core::ports::{Archive, StoreError};
use serde::{Deserialize, Serialize};

use crate::backup::swap;
use crate::disk::{io_error, remove_dir};
use crate::journal::open::gone;
use crate::journal::quarantine;
use crate::lock::StateLock;
use crate::options::StoreOptions;
use crate::store::{Layout, Store};
use crate::views::db::Db;
use crate::views::threads;

/// What `cairn store verify` shows (CONTRACT.md).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Nothing is wrong.
    pub ok: bool,
    /// The journal.
    pub journal: JournalReport,
    /// The views.
    pub views: ViewsReport,
    /// Channels in the journal.
    pub channels: u64,
    /// Memories in the views.
    pub memories: u64,
    /// All that is wrong, with what was done about it, for people.
    pub problems: Vec<String>,
}

/// The journal's part of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    /// Segments.
    pub segments: u64,
    /// Good lines.
    pub events: u64,
    /// Number of the last record.
    pub last: u64,
}

/// The views' part of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ViewsReport {
    /// The last record applied.
    pub applied: u64,
    /// Good rows.
    pub records: u64,
    /// Bad rows.
    pub bad: u64,
}

impl Store {
    /// Checks the open store: every line of the journal, every row of the views, every channel restored, every
    /// artifact's file. Blocks for
    /// as long as it takes to read all of it.
    ///
    /// # Errors
    /// Something cannot be read at all.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut report = self
            .read(|inner| {
                let tail = inner.appender.durable().borrow().tail;
                let limit = |first| (first == tail.segment).then_some(tail.len);
                let dir = Layout::of(&inner.options.dir).journal;
                let mut report = walk_journal(&dir, limit)?;
                report.views.applied = inner.views.applied().borrow().n;
                check_views(&*inner.views.db()?, &mut report)?;
                Ok(report)
            })
            .await?;
        for row in self.channels().await? {
            match self.restore(&row.channel).await {
                Ok(conversation) => {
                    let artifacts =
                        conversation.map(|conversation| conversation.artifacts).unwrap_or_default();
                    let found =
                        self.artifacts().missing(&row.channel, artifacts.into_values().collect()).await;
                    report.problems.extend(found?);
                }
                Err(error) => report.problems.push(format!("channel {}: {error}", row.channel)),
            }
        }
        report.ok = report.problems.is_empty();
        Ok(report)
    }
}

/// Checks the store in a folder that no daemon has open. With `quarantine`, damaged journal lines are set aside first
/// and said to be lost; the views are then made anew.
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

/// Deletes views and search index, and makes them anew from the journal.
///
/// # Errors
/// [`StoreError::InUse`], or the journal cannot be read.
pub async fn rebuild_dir(options: StoreOptions) -> Result<VerifyReport, StoreError> {
    let worker = move || {
        let lock = StateLock::take(&options.dir)?;
        let layout = Layout::of(&options.dir);
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
        done = quarantine::quarantine(&layout.journal, &layout.quarantine)?;
        if !done.is_empty() {
            remove_dir(&layout.views)?;
            remove_dir(&layout.index)?;
        }
    }
    let mut report = walk_journal(&layout.journal, |_| None)?;
    if layout.views.exists() {
        check_closed_views(&layout.views, &options, &mut report)?;
    }
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

fn walk_journal(dir: &Path, limit: impl Fn(u64) -> Option<u64>) -> Result<VerifyReport, StoreError> {
    let mut channels = BTreeSet::new();
    let walk = quarantine::walk(dir, limit, |record| {
        if let Some(channel) = &record.channel
            && !channels.contains(channel)
        {
            channels.insert(channel.clone());
        }
    })?;
    let journal = JournalReport { segments: walk.segments, events: walk.events, last: walk.last };
    let channels = channels.len() as u64;
    Ok(VerifyReport { journal, channels, problems: walk.problems, ..VerifyReport::default() })
}

fn check_views(db: &Db, report: &mut VerifyReport) -> Result<(), StoreError> {
    let meta = db.meta()?.unwrap_or_default();
    let check = db.check(&meta);
    report.views.records = check.records;
    report.views.bad = check.bad;
    report.memories = meta.rows.get(&'m').copied().unwrap_or(0);
    report.problems.extend(check.problems);
    Ok(())
}

fn check_closed_views(
    dir: &Path,
    options: &StoreOptions,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    threads::can_start(dir)?;
    match Db::open(dir, options.sled_cache_bytes) {
        Ok(db) => {
            let meta = db.meta().ok().flatten().unwrap_or_default();
            report.views.applied = meta.n;
            let journal = Layout::of(&options.dir).journal;
            report.problems.extend(gone(&journal, &meta.checkpoint()).map(|error| error.to_string()));
            if let Err(error) = check_views(&db, report) {
                report.problems.push(format!("{error}; the next start makes the views anew"));
            }
        }
        Err(error) => report.problems.push(format!("{error}; the next start makes the views anew")),
    }
    Ok(())
}
