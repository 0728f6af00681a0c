//! An erasure made ready while everything goes on: beside the state one without the person, whose journal, views and index
//! take the place of those that are there when the store is closed. What was journalled meanwhile is copied in rounds, each
//! shorter than the one before; the last one is left to the close.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use cairn_core::erasure::Eraser;
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};

use super::{Request, Step, add_closing, artifacts, decide, end, fate, free, surveyed, walk};
use crate::files::artifacts::{Named, note_named};
use crate::files::disk::{Layout, io_error, make_dir, remove_dir, sync_dir};
use crate::files::format;
use crate::files::progress::Progress;
use crate::journal::open::{Checkpoint, Tail};
use crate::journal::rewrite::{self, Rewriter};
use crate::journal::segment;
use crate::store::{Inner, Store, StoreOptions};

/// The folder of the state without the person.
const BESIDE: &str = "erasing";

/// Fewer records that were journalled meanwhile are left to the close.
const FEW: u64 = 200;

/// Rounds at the most; and so often it is begun again because the person has done something that changes what came before.
const ROUNDS: usize = 6;
const ATTEMPTS: usize = 3;

/// One part in so many of the cache that the state beside has: the other one keeps its own meanwhile.
const CACHE_SHARE: u64 = 4;

/// How often it looks whether the store is being closed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What fails when it panics.
const PREPARING: &str = "an erasure";

/// An erasure that an open store was asked for.
#[derive(Default)]
pub(crate) struct Order {
    pub(super) asked: Notify,
    pub(super) progress: Progress,
    ready: Mutex<Option<Prepared>>,
    /// Why one that was asked for before the store was opened could not be done.
    put_off: Mutex<Option<StoreError>>,
}

impl Order {
    /// It failed, and the store is open nevertheless.
    pub(crate) fn put_off_for(&self, error: StoreError) {
        *self.put_off.lock() = Some(error);
    }

    pub(crate) fn put_off(&self) -> Option<StoreError> {
        self.put_off.lock().clone()
    }
}

/// A state without the person, up to some record.
pub(super) struct Prepared {
    dir: PathBuf,
    eraser: Eraser,
    named: BTreeSet<Named>,
    /// Up to where the journal is rewritten.
    at: Checkpoint,
    /// Segments that say something else there.
    changed: BTreeSet<u64>,
    asked_at: Timestamp,
    began: Instant,
}

#[cfg(test)]
impl Order {
    pub(super) fn take_ready(&self) -> Option<Prepared> {
        self.ready.lock().take()
    }

    pub(super) fn put_ready(&self, prepared: Prepared) {
        *self.ready.lock() = Some(prepared);
    }
}

impl Store {
    /// Waits until somebody has a person erased.
    pub async fn erasure_asked(&self) {
        self.inner.erasure.asked.notified().await;
    }

    /// How far the erasure is that is being made ready.
    pub fn erasure_progress(&self) -> Progress {
        self.inner.erasure.progress.clone()
    }

    /// Makes the erasure that is asked for ready, beside everything that goes on. Closing the store then takes it to its end
    /// in a moment. When it fails nothing is changed, and the next opening does all of it.
    ///
    /// # Errors
    /// Something cannot be read or written; [`StoreError::Closed`].
    pub async fn prepare_erasure(&self) -> Result<(), StoreError> {
        let maintenance = self.maintenance().await?;
        let store = self.clone();
        // A task of its own, so that it ends in order when nobody waits for it any more. The close waits for the
        // guard.
        let made = tokio::spawn(async move { store.make_ready(maintenance).await });
        made.await.unwrap_or_else(|_| {
            let message = format!("{PREPARING} failed: it panicked; the log says where");
            Err(StoreError::View { view: "store", message })
        })
    }

    async fn make_ready(&self, _maintenance: OwnedMutexGuard<()>) -> Result<(), StoreError> {
        let Some(_lock) = self.inner.state_lock() else { return Err(StoreError::Closed) };
        for _ in 0..ATTEMPTS {
            let (inner, tail) = (self.inner.clone(), self.inner.durable().tail);
            let begin = move || Prepared::begin(&inner, &tail);
            let Some(prepared) = self.inner.background.run(PREPARING, begin).await? else { return Ok(()) };
            if let Some(prepared) = self.catch_up(prepared).await? {
                *self.inner.erasure.ready.lock() = Some(prepared);
                return Ok(());
            }
        }
        tracing::warn!(
            "the person who is to be erased goes on writing where they did not before; it is done at a start"
        );
        Ok(())
    }

    /// Copies what was journalled meanwhile, and makes views and index of it. `None`: it must be begun again.
    async fn catch_up(&self, mut prepared: Prepared) -> Result<Option<Prepared>, StoreError> {
        let mut shown = 0;
        for _ in 0..ROUNDS {
            let (inner, tail) = (self.inner.clone(), self.inner.durable().tail);
            let copy = move || Ok(prepared.copy_on(&tail, &|n| inner.reach(n))?.then_some(prepared));
            let Some(copied) = self.inner.background.run(PREPARING, copy).await? else { return Ok(None) };
            prepared = copied;
            self.make_views(&prepared, shown).await?;
            shown = prepared.at.n;
            if self.inner.durable().tail.n.saturating_sub(prepared.at.n) < FEW {
                break;
            }
        }
        Ok(Some(prepared))
    }

    /// Opens the state beside for as long as it takes to bring its views and index up to its journal. Its threads are of as
    /// low a priority as the one that opens it. `shown`: up to where its views are made already.
    async fn make_views(&self, prepared: &Prepared, shown: u64) -> Result<(), StoreError> {
        let progress = &self.inner.erasure.progress;
        let (dir, n) = (prepared.dir.join(BESIDE), prepared.at.n);
        let of = &self.inner.options;
        let sled_cache_bytes = of.sled_cache_bytes / CACHE_SHARE;
        let options =
            StoreOptions { dir, sled_cache_bytes, progress: progress.clone(), database: None, ..of.clone() };
        let open = self.inner.background.run(PREPARING, move || Store::open(options));
        let mut open = pin!(open);
        let beside = loop {
            match tokio::time::timeout(LOOK_EVERY, &mut open).await {
                Ok(opened) => break opened?,
                // It ends soon.
                Err(_) if self.is_ending() => progress.stop(),
                Err(_) => {}
            }
        };
        progress.begin("index", n);
        let mut made = beside.settle_index(n, |n| self.inner.reach(n)).await;
        if made.is_ok() {
            made = beside.restore_beforehand(shown, 0, || self.inner.goes_on()).await;
        }
        let ended = beside.close().await;
        made?;
        if ended { Ok(()) } else { Err(StoreError::Closed) }
    }
}

impl Inner {
    fn reach(&self, n: u64) -> Result<(), StoreError> {
        self.goes_on().and_then(|()| self.erasure.progress.reach(n))
    }
}

impl Prepared {
    /// Surveys the journal, and begins the folder; `None`: nobody knows them, or there is no room for a second state.
    fn begin(inner: &Inner, tail: &Tail) -> Result<Option<Self>, StoreError> {
        let (dir, began) = (inner.options.dir.clone(), Instant::now());
        let Some(Request::Asked { person, at: asked_at }) = Request::read(&dir)? else { return Ok(None) };
        let layout = Layout::of(&dir);
        clear(&dir)?;
        rewrite::clear(&layout.journal)?;
        artifacts::clear_staged(&dir)?;
        if !has_room(&dir)? {
            tracing::warn!(
                "there is no room for a second state; the erasure is done at a start, which takes longer"
            );
            return Ok(None);
        }
        let beside = dir.join(BESIDE);
        make_dir(&Layout::of(&beside).journal)?;
        let marker = beside.join(format::FILE);
        fs::copy(dir.join(format::FILE), &marker).map_err(io_error("write", &marker))?;
        let reach = |n| inner.reach(n);
        inner.erasure.progress.begin("survey", tail.n);
        let found = surveyed(&layout.journal, tail, &person, &reach)?;
        let Some((survey, named, end)) = found else { return Ok(None) };
        inner.erasure.progress.begin("rewrite", tail.n);
        let (eraser, at) = (Eraser::new(survey), Checkpoint::default());
        let mut prepared = Self { dir, eraser, named, at, changed: BTreeSet::new(), asked_at, began };
        prepared.rewrite(tail, end, &reach)?;
        Ok(Some(prepared))
    }

    /// Copies what was journalled since, up to the end. False: it changes what stands in the place of earlier records.
    fn copy_on(
        &mut self,
        tail: &Tail,
        reach: &dyn Fn(u64) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        if tail.n <= self.at.n {
            return Ok(true);
        }
        let journal = Layout::of(&self.dir).journal;
        let end = walk(&journal, self.at, tail, |record| {
            self.eraser.hear(&record);
            note_named(&mut self.named, &record);
            reach(record.n)
        })?;
        if !self.eraser.still_holds() {
            return Ok(false);
        }
        self.rewrite(tail, end, reach)?;
        Ok(true)
    }

    /// Up to the last record, which is at `upto`.
    fn rewrite(
        &mut self,
        tail: &Tail,
        upto: Checkpoint,
        reach: &dyn Fn(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (journal, beside) = (Layout::of(&self.dir).journal, self.journal());
        for first in segment::list(&journal)? {
            if first >= self.at.position.segment && first <= tail.segment {
                let end = (first == tail.segment).then_some(tail.len);
                self.rewrite_segment(&journal, first, end, reach)?;
            }
        }
        self.at = upto;
        sync_dir(&beside).map_err(io_error("sync", &beside))
    }

    /// `end`: of the segment that is written, where it ends. One that stays as it is gets a second name.
    fn rewrite_segment(
        &mut self,
        journal: &Path,
        first: u64,
        end: Option<u64>,
        reach: &dyn Fn(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let path = segment::path(journal, first);
        let file = segment::file_of(&path);
        let copy = self.journal().join(file.file_name().unwrap_or_default());
        let goes_on = self.at.position.segment == first && self.at.n > 0;
        let (mut out, from) = if goes_on {
            (Rewriter::append(&copy)?, (self.at.n + 1, self.at.position.end()))
        } else {
            (Rewriter::create(&copy, file != path)?, (first, 0))
        };
        let (dir, eraser) = (&self.dir, &mut self.eraser);
        out.copy_from(&path, from, end, &mut |before, _| {
            reach(before.n)?;
            fate(dir, eraser, before)
        })?;
        if out.finish()? || end.is_some() {
            self.changed.insert(first);
            return Ok(());
        }
        fs::remove_file(&copy).and_then(|()| fs::hard_link(&file, &copy)).map_err(io_error("write", &copy))
    }

    fn journal(&self) -> PathBuf {
        Layout::of(&self.dir.join(BESIDE)).journal
    }

    /// Carries it to its end: views and index are closed, and nobody writes the journal any more. Nothing is changed when what
    /// was journalled last changes what stands in the place of earlier records.
    pub(super) fn finish(mut self, tail: &Tail, step: Step<'_>) -> Result<(), StoreError> {
        if !self.copy_on(tail, &|_| Ok(()))? {
            tracing::warn!(
                "what the person wrote last changes what is erased; all of it is done at the next start"
            );
            return clear(&self.dir);
        }
        let journal = Layout::of(&self.dir).journal;
        let last = segment::path(&self.journal(), tail.segment);
        let mut out = Rewriter::append(&last)?;
        add_closing(&mut out, tail.n, &self.eraser, self.asked_at, self.began)?;
        out.finish()?;
        step("tail copied")?;
        for first in &self.changed {
            let file = segment::file_of(&segment::path(&journal, *first));
            let copy = self.journal().join(file.file_name().unwrap_or_default());
            fs::rename(&copy, rewrite::staged(&file)).map_err(io_error("rename", &copy))?;
            step("segment staged")?;
        }
        sync_dir(&journal).map_err(io_error("sync", &journal))?;
        step("journal staged")?;
        decide(&self.dir, &self.eraser, &self.named, true, step)?;
        end(&self.dir, true, step)
    }
}

/// Carries an erasure that is ready to its end. The store is closed, its lock still held.
pub(crate) fn finish(inner: &Inner) {
    let Some(prepared) = inner.erasure.ready.lock().take() else { return };
    if let Err(error) = prepared.finish(&inner.durable().tail, &mut |_| Ok(())) {
        tracing::error!(%error, "an erasure could not be ended; the next start does");
    }
}

/// Whether journal, views and index fit a second time.
fn has_room(dir: &Path) -> Result<bool, StoreError> {
    let layout = Layout::of(dir);
    let mut bytes = super::MARGIN_BYTES;
    for folder in [&layout.journal, &layout.views, &layout.index] {
        bytes += bytes_below(folder)?;
    }
    Ok(bytes <= free(dir))
}

fn bytes_below(dir: &Path) -> Result<u64, StoreError> {
    super::entries(dir)?.iter().try_fold(0, |bytes, path| {
        // One that a merge has removed takes nothing.
        let Ok(there) = path.metadata() else { return Ok(bytes) };
        Ok(bytes + if there.is_dir() { bytes_below(path)? } else { there.len() })
    })
}

/// Puts views and index in the place of those that are there. To be called again after a crash in its midst.
pub(super) fn put_in_place(layout: &Layout, step: Step<'_>) -> Result<(), StoreError> {
    let dir = layout.journal.parent().unwrap_or(&layout.journal);
    let beside = Layout::of(&dir.join(BESIDE));
    // What was checked before says nothing of what is put in its place.
    if beside.views.exists() && !beside.checked.exists() {
        super::remove(&layout.checked)?;
    }
    for (made, place) in
        [(&beside.views, &layout.views), (&beside.index, &layout.index), (&beside.checked, &layout.checked)]
    {
        if made.exists() {
            super::remove(place)?;
            step("removed")?;
            fs::rename(made, place).map_err(io_error("rename", made))?;
            step("put in place")?;
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}

/// Removes what is beside the state.
pub(super) fn clear(dir: &Path) -> Result<(), StoreError> {
    remove_dir(&dir.join(BESIDE))
}
