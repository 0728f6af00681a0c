//! Backups: made while everything runs, checked before they are put back.
//!
//! A backup is a prefix of the journal up to one durable record, with every artifact that this prefix names, the state's
//! format and a manifest. What derives from the journal is not in it: it is made again. It is written to a folder beside its
//! place (`NAME.partial`) and renamed when all of it is durable, so that one that was broken off never looks like a whole one. The
//! next backup beside it removes it.

mod error;
mod manifest;
pub(crate) mod restore;
mod target;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cairn_types::event::{ArtifactEvent, Event, Record};
use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::disk::{Layout, io_error, make_dir, put_by, remove_file};
use crate::files::format;
use crate::files::progress::Progress;
use crate::journal::open::Tail;
use crate::journal::rewrite::records;
use crate::journal::segment;
use crate::store::{Inner, Store};
pub use error::BackupError;
use manifest::{Item, Manifest};
use target::Target;

/// Artifacts that are named and not expired, by channel, with their checksums.
type NamedArtifacts = BTreeMap<ChannelId, BTreeMap<ArtifactId, Option<String>>>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    pub dir: PathBuf,
    pub created_at: Timestamp,
    /// The version of the program that made it.
    pub version: String,
    /// Number of the last journal record in it; 0: none.
    pub last_record: u64,
    pub records: u64,
    pub segments: u64,
    pub artifacts: u64,
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Artifacts that the journal names and whose files are gone or damaged, for people.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    pub dir: PathBuf,
    pub state: PathBuf,
    pub created_at: Timestamp,
    /// The version of the program that made it.
    pub version: String,
    /// Number of the last journal record; 0: none.
    pub last_record: u64,
    pub records: u64,
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where the state that was there before is now; none: there was none.
    pub moved_to: Option<PathBuf>,
}

impl Store {
    /// Copies the state as it is now to `dir`, an absolute path of a folder that is empty or not there yet. Replies go on
    /// meanwhile; erasures and retention wait, and files of artifacts that expire go when it is done. It goes on to its end
    /// when nobody waits for it any more. `at`: now.
    ///
    /// # Errors
    /// The folder is refused, its disk is full, the state cannot be read, or the store is closed. What was copied is removed.
    pub async fn backup(&self, dir: PathBuf, at: Timestamp) -> Result<BackupReport, BackupError> {
        self.backup_watched(dir, at, &Progress::default()).await
    }

    /// Copies the state to `dir`, with progress and a way to stop.
    ///
    /// # Errors
    /// The folder is refused, its disk is full, the state cannot be read, the store is closed, or [`StoreError::Stopped`]. What
    /// was copied is removed.
    pub async fn backup_watched(
        &self,
        dir: PathBuf,
        at: Timestamp,
        progress: &Progress,
    ) -> Result<BackupReport, BackupError> {
        let maintenance = self.maintenance().await?;
        if self.inner.erasing.load(Ordering::Acquire) {
            let message = "a person is about to be erased, who would be in the backup";
            return Err(BackupError::refused("busy", message, "try again when the daemon has restarted"));
        }
        let (inner, watched) = (self.inner.clone(), progress.clone());
        let work = move || {
            let _maintenance = maintenance;
            let outcome = back_up(&inner, &dir, at, &watched);
            tell(&outcome);
            outcome
        };
        self.inner.background.run("a backup", work).await
    }
}

fn tell(outcome: &Result<BackupReport, BackupError>) {
    let told = match outcome {
        Ok(report) => {
            tracing::info!(
                dir = %report.dir.display(), records = report.records, files = report.files,
                bytes = report.bytes, "a backup was made"
            );
            "done"
        }
        Err(BackupError::Store(StoreError::Stopped)) => {
            tracing::info!("a backup was stopped; what was copied so far is removed");
            "stopped"
        }
        Err(error) => {
            tracing::error!(%error, "a backup failed");
            "failed"
        }
    };
    metrics::counter!("cairn_backups_total", "outcome" => told).increment(1);
}

/// Copies the state of an open store to `dir`. The caller holds the guard of [`Store::maintenance`].
fn back_up(
    inner: &Inner,
    dir: &Path,
    at: Timestamp,
    progress: &Progress,
) -> Result<BackupReport, BackupError> {
    let state = &inner.options.dir;
    let target = Target::prepare(dir, state)?;
    // From here on no artifact's file goes: all that the durable prefix names are there until they are copied.
    let _held = inner.artifacts.hold();
    let tail = inner.appender.durable().borrow().tail;
    let mut copy = BackupWriter {
        state,
        to: &target.partial,
        progress,
        items: Vec::new(),
        named: NamedArtifacts::new(),
        records: 0,
    };
    let made = copy.all(inner, &tail, at).and_then(|report| target.finish().map(|()| report));
    match made {
        Ok(report) => Ok(BackupReport { dir: dir.to_owned(), ..report }),
        Err(error) => {
            target.give_up();
            Err(error)
        }
    }
}

struct BackupWriter<'a> {
    state: &'a Path,
    to: &'a Path,
    progress: &'a Progress,
    items: Vec<Item>,
    named: NamedArtifacts,
    records: u64,
}

impl BackupWriter<'_> {
    fn all(&mut self, inner: &Inner, tail: &Tail, at: Timestamp) -> Result<BackupReport, BackupError> {
        self.journal(inner, tail)?;
        let segments = self.items.len() as u64;
        let missing = self.artifacts(inner)?;
        let artifacts = self.items.len() as u64 - segments;
        self.copy(&self.state.join(format::FILE), None)?;
        let items = std::mem::take(&mut self.items);
        let report = BackupReport {
            dir: PathBuf::new(),
            created_at: at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            last_record: tail.n,
            records: self.records,
            segments,
            artifacts,
            files: items.len() as u64,
            bytes: items.iter().map(|item| item.bytes).sum(),
            missing,
        };
        let path = self.to.join(manifest::FILE);
        let bytes = Manifest::new(at, tail.n, items).encode().map_err(|error| StoreError::Io {
            action: "encode",
            path: path.display().to_string(),
            message: error.to_string(),
        })?;
        let begun = self.to.join(manifest::BEGUN);
        put_by(&path, &begun, |file| file.write_all(&bytes)).map_err(io_error("write", &path))?;
        Ok(report)
    }

    /// The segments up to the tail, each line checked.
    fn journal(&mut self, inner: &Inner, tail: &Tail) -> Result<(), BackupError> {
        let from = Layout::of(self.state).journal;
        make_dir(&self.to.join("journal"))?;
        let mut last = 0;
        self.progress.begin("journal", tail.n);
        for first in segment::list(&from)?.into_iter().filter(|first| tail.n > 0 && *first <= tail.segment) {
            let path = segment::path(&from, first);
            let end = (first == tail.segment).then_some(tail.len);
            last = records_behind(last, &path, first, end, |record| {
                inner.goes_on()?;
                self.progress.reach(record.n)?;
                self.records += 1;
                note(&mut self.named, record);
                Ok(())
            })?;
            self.copy(&segment::file_of(&path), end)?;
        }
        if last != tail.n {
            return Err(StoreError::Io {
                action: "copy",
                path: from.display().to_string(),
                message: format!("it ends with record {last}, and record {} is durable", tail.n),
            }
            .into());
        }
        Ok(())
    }

    /// The artifacts that the copied journal names. Returns those that are gone or damaged.
    fn artifacts(&mut self, inner: &Inner) -> Result<Vec<String>, BackupError> {
        make_dir(&self.to.join("artifacts"))?;
        let named = std::mem::take(&mut self.named);
        let (mut missing, mut done) = (Vec::new(), 0);
        self.progress.begin("artifacts", named.values().map(|ids| ids.len() as u64).sum());
        for (channel, ids) in named {
            for (id, sha256) in ids {
                inner.goes_on()?;
                done += 1;
                self.progress.reach(done)?;
                inner.artifacts.fetch(&channel, &id)?;
                let from = inner.artifacts.file(&channel, &id);
                let mut wrong = |what: &str| {
                    missing.push(format!("channel {channel}: artifact {id} ({}) {what}", from.display()));
                };
                if matches!(fs::metadata(&from), Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
                    wrong("is missing");
                    continue;
                }
                let differs = |copied: &str| sha256.as_deref().is_some_and(|sha256| sha256 != copied);
                let mut is_wrong = differs(self.copy(&from, None)?);
                if is_wrong && inner.artifacts.fetch_again(&channel, &id)? {
                    self.items.pop().map_or(Ok(()), |item| remove_file(&self.to.join(item.path)))?;
                    is_wrong = differs(self.copy(&from, None)?);
                }
                if is_wrong {
                    wrong("is damaged: its checksum does not match");
                }
            }
        }
        Ok(missing)
    }

    /// A file of the state, up to `end`. Returns its checksum.
    fn copy(&mut self, from: &Path, end: Option<u64>) -> Result<&str, BackupError> {
        let within = from.strip_prefix(self.state).unwrap_or(from);
        let to = self.to.join(within);
        to.parent().map_or(Ok(()), make_dir)?;
        self.items.push(Item::copy(within.display().to_string(), from, end, Some(&to))?);
        Ok(self.items.last().map_or("", |item| &item.sha256))
    }
}

/// Hands the records of the segment behind record `last` to `each`; returns the number of its last one.
///
/// # Errors
/// [`StoreError::Damaged`] for a line that is not whole, and for records that are missing.
fn records_behind(
    last: u64,
    path: &Path,
    first: u64,
    end: Option<u64>,
    mut each: impl FnMut(&Record) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    if first != last + 1 {
        let missing = format!(
            "records {} to {} are missing before it; see `cairn store verify`",
            last + 1,
            first.saturating_sub(1)
        );
        return Err(segment::damaged(path, 0, missing));
    }
    records(path, (first, 0), end, |record, _| each(&record))
}

fn note(named: &mut NamedArtifacts, record: &Record) {
    let Some(channel) = &record.channel else { return };
    match &record.event {
        Event::Artifact(ArtifactEvent::Stored { artifact }) => {
            let here = named.entry(channel.clone()).or_default();
            here.insert(artifact.id.clone(), artifact.sha256.clone());
        }
        Event::Artifact(ArtifactEvent::Expired { ids, .. }) => {
            let there = named.entry(channel.clone()).or_default();
            ids.iter().for_each(|id| {
                there.remove(id);
            });
        }
        _ => {}
    }
}
