//! An erasure made ready while everything goes on: beside the state one without the person, whose journal, views and index
//! take the place of those that are there when the store is closed. What was journalled meanwhile is copied in rounds, each
//! shorter than the one before; the last one is left to the close.

use std::collections::BTreeSet;
use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use cairn_core::erasure::Eraser;
use cairn_types::ports::StoreError;
use tokio::sync::OwnedMutexGuard;

use super::artifacts;
use super::ready::Prepared;
use super::records::surveyed;
use super::request::ErasureRequest;
use super::room::has_room;
use super::swap::{self, BESIDE};
use crate::files::disk::{Layout, io_error, make_dir};
use crate::files::format;
use crate::files::progress::Progress;
use crate::journal::open::{Checkpoint, Tail};
use crate::journal::rewrite;
use crate::options::StoreOptions;
use crate::store::{Inner, Store};

/// Fewer records that were journalled meanwhile are left to the close.
const FEW: u64 = 200;

/// Rounds at the most; and so often it is begun again because the person has done something that changes what came before.
const ROUNDS: usize = 6;
const ATTEMPTS: usize = 3;

/// One part in so many of the cache that the state beside has: the other one keeps its own meanwhile.
const CACHE_SHARE: u64 = 4;

/// How often it looks whether the store is being closed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Names the work in the error when it panics.
const PREPARING: &str = "an erasure";

impl Store {
    /// Waits until an erasure is asked for.
    pub async fn erasure_asked(&self) {
        self.inner.erasure.asked.notified().await;
    }

    /// The progress of the erasure that is being prepared.
    pub fn erasure_progress(&self) -> Progress {
        self.inner.erasure.progress.clone()
    }

    /// Prepares the erasure that is asked for while the store stays in use. Closing the store then finishes it quickly. If
    /// preparing fails, nothing is changed, and the next opening does the whole erasure.
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
            let begin = move || begin(&inner, &tail);
            let Some(prepared) = self.inner.background.run(PREPARING, begin).await? else { return Ok(()) };
            if let Some(prepared) = self.catch_up(prepared).await? {
                *self.inner.erasure.ready.lock() = Some(prepared);
                return Ok(());
            }
        }
        tracing::warn!(
            "the person to be erased keeps writing in new places; the erasure runs at the next start"
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
        let options = StoreOptions {
            dir,
            sled_cache_bytes,
            progress: progress.clone(),
            database: None,
            embedder: None,
            ..of.clone()
        };
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

/// Surveys the journal, and begins the folder; `None`: nobody knows them, or there is no room for a second state.
fn begin(inner: &Inner, tail: &Tail) -> Result<Option<Prepared>, StoreError> {
    let (dir, began) = (inner.options.dir.clone(), Instant::now());
    let Some(ErasureRequest::Asked { person, at: asked_at }) = ErasureRequest::read(&dir)? else {
        return Ok(None);
    };
    let layout = Layout::of(&dir);
    swap::clear(&dir)?;
    rewrite::clear(&layout.journal)?;
    artifacts::clear_staged(&dir)?;
    if !has_room(&dir)? {
        tracing::warn!(
            "there is no room for a second copy of the state; the erasure runs at the next start, which takes longer"
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
    let mut prepared = Prepared { dir, eraser, named, at, changed: BTreeSet::new(), asked_at, began };
    prepared.rewrite(tail, end, &reach)?;
    Ok(Some(prepared))
}
