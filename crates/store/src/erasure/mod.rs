//! Erasing a person from a state folder: asked for while everything runs, carried out when the store is closed or opened.
//!
//! What is asked for is durable first. An open store is made ready for it while everything goes on ([`prepare`]), and closing
//! it is left with what was journalled since. Otherwise, before views and index are opened, the journal is rewritten beside
//! itself. Then files of artifacts and all that derives from the journal or was quarantined goes, and the new segments are
//! renamed over the old ones. Until the first rename everything is begun again after a crash, from then on only ended.

mod artifacts;
mod prepare;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use cairn_core::erasure::{Eraser, Survey};
use cairn_core::registry::Erasure;
use cairn_core::store_port::Store as _;
use cairn_types::event::{ErasureFigures, NewRecord, Record};
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use crate::artifacts::{Named, note_named};
use crate::database::copy;
use crate::disk::{Layout, blocking, io_error, make_dir, put, remove_dir, remove_file, sync_dir};
use crate::journal::open::{self, Checkpoint, Start, Tail};
use crate::journal::reader::Follower;
use crate::journal::rewrite::{self, Fate, Rewriter};
use crate::journal::{line, segment};
use crate::lock::StateLock;
use crate::progress::Progress;
use crate::store::{Store, StoreOptions};
use crate::verify::{Opened, VERIFIED, shown};

pub(crate) use prepare::{Order, finish};

/// What is asked for, until it is done.
const FILE: &str = "erasure.json";

/// Beside the journal, what an erasure writes.
const MARGIN_BYTES: u64 = 1024 * 1024;

/// What is asked for, on disk until it is done: so that an erasure that was begun is ended, whatever comes between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum Request {
    /// Nothing has been changed yet, as far as anybody knows.
    Asked {
        /// Who, `PLATFORM/USER`.
        person: String,
        at: Timestamp,
    },
    /// The journal without them is whole beside the one with them, and only has to take its place. Who it was stands
    /// here no more.
    Staged {
        /// Views and index of it, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        prepared: bool,
    },
}

impl Request {
    /// What is asked for there.
    ///
    /// # Errors
    /// It cannot be read: then nobody knows, and the store stays closed.
    fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Io {
                action: "read",
                path: path.display().to_string(),
                message: format!("{error}; remove the file, start the daemon, and ask for the erasure again"),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    fn write(&self, dir: &Path) -> Result<(), StoreError> {
        make_dir(dir)?;
        let path = dir.join(FILE);
        put(&path, |file| file.write_all(&serde_json::to_vec(self)?)).map_err(io_error("write", &path))
    }

    fn remove(dir: &Path) -> Result<(), StoreError> {
        remove_file(&dir.join(FILE))?;
        remove_file(&dir.join("erasure.json.new"))?;
        sync_dir(dir).map_err(io_error("sync", dir))
    }
}

impl Store {
    /// Has a person erased: whoever waits for [`Store::prepare_erasure`] is to close the store, and to open it again. Durable
    /// when it returns; no backup begins from then on. `maintenance`: nobody else asks meanwhile. False: another is asked for
    /// already, and this one is not.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] when there is no room for the journal to be rewritten, or it cannot be written.
    pub async fn ask_erasure(
        &self,
        maintenance: OwnedMutexGuard<()>,
        person: &str,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (inner, person) = (self.inner.clone(), person.to_owned());
        blocking("an erasure", move || {
            let _maintenance = maintenance;
            let dir = &inner.options.dir;
            if Request::read(dir)?.is_some() || inner.erasing.load(Ordering::Acquire) {
                return Ok(false);
            }
            room_for_another(dir, free(dir))?;
            match inner.leading() {
                // Whoever leads after this store is closed does it.
                Some((database, lease)) => database.order_erasure(lease, &person, at)?,
                None => Request::Asked { person, at }.write(dir)?,
            }
            inner.erasing.store(true, Ordering::Release);
            inner.erasure.asked.notify_one();
            Ok(true)
        })
        .await
    }

    /// An erasure is asked for and not done.
    pub fn is_erasure_pending(&self) -> bool {
        self.inner.erasing.load(Ordering::Acquire)
            || self.inner.erasure.put_off().is_some()
            || Request::read(&self.inner.options.dir).map_or(true, |request| request.is_some())
    }

    /// What erasing a person would do; `None`: nobody knows them. Reads the whole journal, twice, beside everything
    /// that goes on. `maintenance`: segments stay meanwhile; it is given back.
    ///
    /// # Errors
    /// The journal cannot be read; [`StoreError::Stopped`].
    pub async fn survey_erasure(
        &self,
        maintenance: OwnedMutexGuard<()>,
        person: &str,
        progress: &Progress,
    ) -> Result<(OwnedMutexGuard<()>, Option<ErasureFigures>), StoreError> {
        let tail = self.inner.appender.durable().borrow().tail;
        let (inner, person, progress) = (self.inner.clone(), person.to_owned(), progress.clone());
        let work = move || {
            let surveyed = survey(&inner.options.dir, &tail, &person, &progress)?;
            Ok((maintenance, surveyed))
        };
        self.inner.background.run("an erasure", work).await
    }
}

/// Erases a person from the state in a folder that no daemon has open; `None`: nobody knows them. `dry_run`: says what it
/// would do, and changes nothing.
///
/// # Errors
/// [`StoreError::InUse`], or the journal cannot be read or written; then it is ended at the next start.
pub async fn erase_dir(
    options: StoreOptions,
    person: &str,
    at: Timestamp,
    dry_run: bool,
) -> Result<Option<Erasure>, StoreError> {
    if options.database.is_some() {
        return erase_in_database(options, person, at, dry_run).await;
    }
    let person = person.to_owned();
    let progress = options.progress.clone();
    let store = blocking("an erasure", move || {
        let lock = StateLock::take(&options.dir)?;
        copy::refuse(&options.dir)?;
        // What was asked for before is done first.
        resume_or_clear(&options.dir, &progress)?;
        let layout = Layout::of(&options.dir);
        let (journal, shown) = (&layout.journal, shown(&layout)?);
        let tail = open::open(journal, &layout, &Start::default(), &shown)?;
        let found = survey(&options.dir, &tail, &person, &progress)?;
        if dry_run || found.is_none() {
            return Ok(Err(found.map(|figures| Erasure { pseudonym: String::new(), figures, at })));
        }
        room_for_another(&options.dir, free(&options.dir))?;
        Request::Asked { person, at }.write(&options.dir)?;
        let carried_out = resume_or_clear(&options.dir, &progress);
        if matches!(carried_out, Err(StoreError::Stopped)) {
            Request::remove(&options.dir)?;
        }
        carried_out?;
        drop(lock);
        Store::open(options).map(Ok)
    })
    .await?;
    let store = match store {
        Ok(store) => store,
        Err(surveyed) => return Ok(surveyed),
    };
    let registry = store.registry().await;
    store.close().await;
    Ok(registry?.erasures.into_iter().rfind(|erasure| erasure.at == at))
}

/// Erases a person from a state whose journal is in a database: this node leads meanwhile, but not to say what it would do.
async fn erase_in_database(
    options: StoreOptions,
    person: &str,
    at: Timestamp,
    dry_run: bool,
) -> Result<Option<Erasure>, StoreError> {
    let (of, progress) = (options.clone(), options.progress.clone());
    if dry_run {
        let opened = blocking("an erasure", move || Opened::open(of)).await?;
        let surveyed = async {
            let maintenance = opened.store.maintenance().await?;
            opened.store.survey_erasure(maintenance, person, &progress).await
        };
        let surveyed = surveyed.await;
        opened.close().await;
        return Ok(surveyed?.1.map(|figures| Erasure { pseudonym: String::new(), figures, at }));
    }
    let store = blocking("an erasure", move || Store::open(of)).await?;
    let asked = async {
        let (maintenance, found) =
            store.survey_erasure(store.maintenance().await?, person, &progress).await?;
        if found.is_some() {
            store.ask_erasure(maintenance, person, at).await?;
        }
        Ok(found.is_some())
    };
    let asked = asked.await;
    store.close().await;
    if !asked? {
        return Ok(None);
    }
    let store = blocking("an erasure", move || Store::open(options)).await?;
    let (registry, put_off) = (store.registry().await, store.inner.erasure.put_off());
    store.close().await;
    match put_off {
        Some(error) => Err(error),
        None => Ok(registry?.erasures.into_iter().rfind(|erasure| erasure.at == at)),
    }
}

/// Erases a person from a folder whose lock is held, and on which no store is open.
///
/// # Errors
/// Something cannot be read or written; [`StoreError::Stopped`].
pub(crate) fn carry_out(
    dir: &Path,
    person: &str,
    at: Timestamp,
    progress: &Progress,
) -> Result<(), StoreError> {
    Request::Asked { person: person.to_owned(), at }.write(dir)?;
    resume_or_clear(dir, progress)
}

/// Nothing is asked for any more: the folder's journal is given up.
pub(crate) fn forget(dir: &Path) -> Result<(), StoreError> {
    Request::remove(dir)?;
    prepare::clear(dir)
}

/// Called after each step: a test lets the process die there.
type Step<'a> = &'a mut dyn FnMut(&'static str) -> Result<(), StoreError>;

/// Carries out what is asked for at a start, which nothing but a rename that has begun may keep from coming up: as long as
/// nothing is decided, what could not be done is told and tried again at the next start.
///
/// # Errors
/// It is decided, and cannot be ended: the journal is neither the one before nor the one after.
pub(crate) fn resume_or_wait(dir: &Path, progress: &Progress) -> Result<(), StoreError> {
    let Err(error) = resume_or_clear(dir, progress) else { return Ok(()) };
    if !matches!(Request::read(dir), Ok(Some(Request::Asked { .. }))) {
        return Err(error);
    }
    tell_failed(&error);
    Ok(())
}

/// Tells of an erasure that keeps nobody from starting though it failed.
pub(crate) fn tell_failed(error: &StoreError) {
    metrics::counter!("cairn_erasures_failed_total").increment(1);
    tracing::error!(%error, "a person could not be erased; they are still there, and it is tried again at the next start");
}

/// Goes on with an erasure, with nothing left beside the journal when it fails before it is decided.
///
/// # Errors
/// Something cannot be read or written; it is begun again, or ended, at the next call.
pub(crate) fn resume_or_clear(dir: &Path, progress: &Progress) -> Result<(), StoreError> {
    let outcome = resume(dir, progress, &mut |_| Ok(()));
    if outcome.is_err() && matches!(Request::read(dir), Ok(Some(Request::Asked { .. }))) {
        let cleared = rewrite::clear(&Layout::of(dir).journal).and_then(|()| artifacts::clear_staged(dir));
        cleared.unwrap_or_else(
            |error| tracing::warn!(%error, "what was written beside the journal is still there"),
        );
    }
    outcome
}

/// Bytes that may be written to the disk of a folder; unknown: as many as one likes.
fn free(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether the journal fits a second time into so many free bytes, when an erasure is still to be staged.
fn room_for_another(dir: &Path, free: u64) -> Result<(), StoreError> {
    let journal = Layout::of(dir).journal;
    let mut bytes = MARGIN_BYTES;
    for first in segment::list(&journal)? {
        bytes += segment::bytes(&segment::path(&journal, first))?;
    }
    if bytes <= free {
        return Ok(());
    }
    tracing::warn!(needed = bytes, free, "there is no room for the journal to be rewritten");
    Err(StoreError::DiskFull { path: journal.display().to_string() })
}

/// Carries out what is asked for in a state folder, or ends what was begun. The lock is held, views and index are closed.
fn resume(dir: &Path, progress: &Progress, step: Step<'_>) -> Result<(), StoreError> {
    let prepared = match Request::read(dir)? {
        None => return prepare::clear(dir),
        Some(Request::Asked { person, at }) => {
            prepare::clear(dir)?;
            room_for_another(dir, free(dir))?;
            tracing::info!("erasing a person: the journal is rewritten");
            if !stage(dir, &person, at, progress, step)? {
                tracing::warn!("nobody knows the person who was to be erased; nothing is changed");
                return Request::remove(dir);
            }
            false
        }
        Some(Request::Staged { prepared }) => {
            tracing::info!("an erasure was cut short; it is ended now");
            prepared
        }
    };
    end(dir, prepared, step)
}

/// Puts what is staged in its place. To be called again after a crash in its midst.
fn end(dir: &Path, prepared: bool, step: Step<'_>) -> Result<(), StoreError> {
    let layout = Layout::of(dir);
    rewrite::swap(&layout.journal, || step("renamed"))?;
    artifacts::swap_staged(dir)?;
    step("swapped")?;
    if prepared {
        prepare::put_in_place(&layout, step)?;
    } else {
        remove_views(&layout)?;
    }
    remove_quarantined(dir, &layout)?;
    step("derived removed")?;
    prepare::clear(dir)?;
    step("cleared")?;
    Request::remove(dir)?;
    tracing::info!("a person has been erased");
    metrics::counter!("cairn_erasures_total").increment(1);
    Ok(())
}

/// Writes the journal without the person beside itself, and removes everything else that may hold something of theirs.
/// False: nobody knows them.
fn stage(
    dir: &Path,
    person: &str,
    at: Timestamp,
    progress: &Progress,
    step: Step<'_>,
) -> Result<bool, StoreError> {
    let began = Instant::now();
    let layout = Layout::of(dir);
    // What proves that the journal has lost something must not be removed.
    let shown = shown(&layout)?;
    let tail = open::open(&layout.journal, &layout, &Start::default(), &shown)?;
    rewrite::clear(&layout.journal)?;
    artifacts::clear_staged(dir)?;
    step("cleared")?;
    progress.begin("survey", tail.n);
    let found = surveyed(&layout.journal, &tail, person, &|n| progress.reach(n))?;
    let Some((survey, named, _)) = found else { return Ok(false) };
    let mut rewrite = Rewrite { dir, eraser: Eraser::new(survey), progress, at, began };
    progress.begin("rewrite", tail.n);
    for first in segment::list(&layout.journal)? {
        let end = (first == tail.segment).then_some(tail.len);
        rewrite.segment(&layout.journal, first, end)?;
        step("segment staged")?;
    }
    let eraser = rewrite.eraser;
    sync_dir(&layout.journal).map_err(io_error("sync", &layout.journal))?;
    step("journal staged")?;
    decide(dir, &eraser, &named, false, step)?;
    Ok(true)
}

/// From here on it is carried to its end.
fn decide(
    dir: &Path,
    eraser: &Eraser,
    named: &BTreeSet<Named>,
    prepared: bool,
    step: Step<'_>,
) -> Result<(), StoreError> {
    artifacts::remove(dir, eraser, named)?;
    step("artifacts removed")?;
    tracing::info!(figures = ?eraser.figures(), "erased");
    Request::Staged { prepared }.write(dir)?;
    step("decided")
}

/// The journal on its way into what it is without the person.
struct Rewrite<'a> {
    dir: &'a Path,
    eraser: Eraser,
    progress: &'a Progress,
    at: Timestamp,
    began: Instant,
}

impl Rewrite<'_> {
    /// Writes a segment again beside it, unless it stays as it is. `end`: of the last segment, where it ends; what closes
    /// the erasure follows there.
    fn segment(&mut self, journal: &Path, first: u64, end: Option<u64>) -> Result<(), StoreError> {
        let path = segment::path(journal, first);
        let file = segment::file_of(&path);
        let staged = rewrite::staged(&file);
        let mut out = Rewriter::create(&staged, file != path)?;
        let last = out.copy(&path, first, end, &mut |before, _| {
            self.progress.reach(before.n)?;
            fate(self.dir, &mut self.eraser, before)
        })?;
        if end.is_some() {
            add_closing(&mut out, last, &self.eraser, self.at, self.began)?;
        }
        if out.finish()? { Ok(()) } else { remove_file(&staged) }
    }
}

/// What becomes of a record; the file of an artifact that stays is written again beside it.
fn fate(dir: &Path, eraser: &mut Eraser, before: Record) -> Result<Fate, StoreError> {
    Ok(match eraser.erase(before.clone()) {
        None => Fate::Goes,
        Some(mut after) => {
            artifacts::stage_blanked(dir, eraser, &mut after)?;
            if after == before { Fate::Stays } else { Fate::Becomes(line::of(after)?) }
        }
    })
}

/// Adds what closes the erasure behind the last record.
fn add_closing(
    out: &mut Rewriter,
    last: u64,
    eraser: &Eraser,
    at: Timestamp,
    began: Instant,
) -> Result<(), StoreError> {
    let closing = eraser.closing(at, began.elapsed().as_secs_f64());
    for (n, NewRecord { channel, at, event }) in (last + 1..).zip(closing) {
        out.add(Record { n, at, channel, event })?;
    }
    Ok(())
}

/// Hands every record behind a checkpoint to `each`, up to the end; returns where that is.
fn walk(
    journal: &Path,
    from: Checkpoint,
    tail: &Tail,
    mut each: impl FnMut(Record) -> Result<(), StoreError>,
) -> Result<Checkpoint, StoreError> {
    let mut follower = Follower::new(journal, from);
    while let Some((record, _)) = follower.next(tail)? {
        each(record)?;
    }
    Ok(follower.checkpoint())
}

/// What there is of a person, with the artifacts that have not expired and where the journal ends; `None`: nobody knows the person.
fn surveyed(
    journal: &Path,
    tail: &Tail,
    person: &str,
    reach: &dyn Fn(u64) -> Result<(), StoreError>,
) -> Result<Option<(Survey, BTreeSet<Named>, Checkpoint)>, StoreError> {
    let mut survey = Survey::new(person);
    let mut named = BTreeSet::new();
    let end = walk(journal, Checkpoint::default(), tail, |record| {
        survey.hear(&record);
        note_named(&mut named, &record);
        reach(record.n)
    })?;
    Ok(survey.is_known().then_some((survey, named, end)))
}

/// What erasing a person would do; `None`: nobody knows them. Changes nothing.
fn survey(
    dir: &Path,
    tail: &Tail,
    person: &str,
    progress: &Progress,
) -> Result<Option<ErasureFigures>, StoreError> {
    let began = Instant::now();
    let journal = Layout::of(dir).journal;
    // Both walks read the same.
    progress.begin("survey", 2 * tail.n);
    let found = surveyed(&journal, tail, person, &|n| progress.reach(n))?;
    let Some((survey, ..)) = found else { return Ok(None) };
    let mut eraser = Eraser::new(survey);
    walk(&journal, Checkpoint::default(), tail, |record| {
        progress.reach(tail.n + record.n)?;
        let _erased = eraser.erase(record);
        Ok(())
    })?;
    Ok(Some(ErasureFigures { seconds: began.elapsed().as_secs_f64(), ..eraser.figures() }))
}

/// Removes views and index, which are made again.
fn remove_views(layout: &Layout) -> Result<(), StoreError> {
    remove_dir(&layout.views)?;
    remove_dir(&layout.index)?;
    remove_file(&layout.checked)
}

/// Removes all that was quarantined: damaged views and lines, and what an earlier version or another state left.
pub(crate) fn remove_quarantined(dir: &Path, layout: &Layout) -> Result<(), StoreError> {
    remove_dir(&layout.quarantine)?;
    for path in entries(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_derived = name.ends_with(".damaged") || name == VERIFIED;
        if is_derived || name.starts_with("before-") || name.starts_with("restore.") {
            remove(&path)?;
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}

/// What is in a folder; nothing, when it is not there.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = io_error("list", dir);
    match fs::read_dir(dir) {
        Ok(found) => found.map(|entry| entry.map(|entry| entry.path()).map_err(&fail)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() { remove_dir(path) } else { remove_file(path) }
}
