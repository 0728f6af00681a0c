//! The one thread that writes the views: applies the journal in its order, behind the appends and never in their way.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cairn_types::ports::StoreError;
use tokio::sync::watch;

use super::apply::apply;
use super::changed::ChangedMemory;
use super::changes::Changes;
use super::codec::{Key, view_error};
use super::db::Db;
use super::rows::{ChannelState, Meta};
use super::shared::{Command, KeptSnapshot, KeptVectors, Views};
use super::{opening, shrink, vectors};
use crate::files::disk::remove_dir;
use crate::journal::Durable;
use crate::journal::open::Tail;
use crate::journal::reader::Follower;

/// Rows written together at most, so that readers see progress.
const BATCH_ROWS: usize = 1000;

/// Rows of a copy that are written together, and the rest between two times: whoever waits for the views is not held up.
const COPIED_AT_ONCE: usize = 200;
const COPY_PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked how large sled's files are.
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// After a failure sled is tried again this often.
const RETRY: Duration = Duration::from_millis(500);

/// Why closed views are not opened again yet.
pub(crate) const STILL_READ: &str = "it is closed, to be opened again once the last reader is done";

/// Snapshots that are written together.
const SNAPSHOTS_TOGETHER: usize = 64;

pub(crate) struct Applier {
    views: Arc<Views>,
    journal: PathBuf,
    durable: watch::Receiver<Durable>,
    on_applied: Box<dyn Fn() + Send>,
    follower: Follower,
    meta: Meta,
    is_broken: bool,
    /// What was closed last; readers may hold it a little longer.
    closing: Weak<Db>,
    /// The views whose copy is in use since; readers may hold them a little longer, then their files go.
    copied: Option<Weak<Db>>,
    /// When it is seen next how large sled's files are.
    looks_at: Instant,
}

impl Applier {
    /// An applier of the journal in that folder, behind the applied position of the views.
    pub(crate) fn new(
        views: Arc<Views>,
        meta: Meta,
        journal: PathBuf,
        durable: watch::Receiver<Durable>,
        on_applied: Box<dyn Fn() + Send>,
    ) -> Self {
        let follower = Follower::new(&journal, meta.checkpoint());
        let is_broken = !views.are_open();
        let (closing, copied, looks_at) = (Weak::new(), None, Instant::now());
        Self { views, journal, durable, on_applied, follower, meta, is_broken, closing, copied, looks_at }
    }

    /// Runs until it is closed or nobody is left who could wake it.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let mut left = None;
        loop {
            self.step();
            let next = if let Some(command) = left.take() {
                Ok(command)
            } else if self.is_broken {
                commands.recv_timeout(RETRY)
            } else if self.shrink() {
                commands.recv_timeout(COPY_PAUSE)
            } else {
                commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match next {
                Ok(Command::Wake) => self.views.woken.store(false, Ordering::Release),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Command::KeepVectors(kept)) => self.keep_vectors(*kept),
                Ok(Command::KeepSnapshot(kept)) => left = self.keep_snapshots(*kept, commands),
                #[cfg(test)]
                Ok(Command::Shrink) => self.begin_copy().unwrap(),
                Ok(Command::Close) | Err(RecvTimeoutError::Disconnected) => {
                    self.finish();
                    return;
                }
            }
        }
    }

    /// Applies what is durable; a failure closes sled, to be opened again at the next step.
    fn step(&mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.views.db().is_ok_and(|db| db.is_doubted()) {
                return Err(view_error("something that was read of it is wrong"));
            }
            if self.is_broken {
                self.reopen()?;
            }
            self.catch_up()
        }));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => view_error("it panicked while it was written"),
        };
        if !self.is_broken {
            tracing::error!(%error, applied = self.meta.n,
                "the views failed; reopening them; the journal is not affected");
        }
        self.is_broken = true;
        // Told first: sled may not come back from being closed.
        if let Some(db) = self.views.take(Some(error), false) {
            self.closing = Arc::downgrade(&db);
            self.views.release(db);
        }
    }

    /// Has sled's files be no larger than they need be, a little at a time. True: there is more to do.
    fn shrink(&mut self) -> bool {
        let more = catch_unwind(AssertUnwindSafe(|| self.shrink_on()));
        let error = match more {
            Ok(Ok(more)) => return more,
            Ok(Err(error)) => error,
            Err(_) => view_error("it panicked while it was copied"),
        };
        tracing::warn!(%error, "the views' files are larger than needed and could not be copied; trying again later");
        if let Ok(db) = self.views.db() {
            db.give_up_copy();
            self.views.release(db);
        }
        self.looks_at = Instant::now() + LOOK_EVERY;
        false
    }

    fn shrink_on(&mut self) -> Result<bool, StoreError> {
        if self.copied.as_ref().is_some_and(|copied| copied.strong_count() == 0) {
            self.copied = None;
            shrink::clean(&self.views.dir)?;
        }
        let db = self.views.db()?;
        if db.is_copied() {
            let more = db.copy_next(COPIED_AT_ONCE)?;
            if !more {
                self.take_copy(&db)?;
            }
        } else if self.copied.is_none() && Instant::now() >= self.looks_at {
            self.looks_at = Instant::now() + LOOK_EVERY;
            if shrink::is_due(db.bytes_on_disk()?, self.meta.bytes) {
                self.begin_copy()?;
            }
        }
        let more = self.copied.is_some() || db.is_copied();
        self.views.release(db);
        Ok(more)
    }

    fn begin_copy(&self) -> Result<(), StoreError> {
        let db = self.views.db()?;
        let (bytes, live) = (db.bytes_on_disk()?, self.meta.bytes);
        tracing::info!(bytes, live, "the views' files are mostly empty; their rows are copied into new ones");
        let place = shrink::next_copy(&self.views.dir)?;
        remove_dir(&place)?;
        db.begin_copy(&place, self.views.cache_bytes)
    }

    /// Has a copy that is whole take the place of the rows.
    fn take_copy(&mut self, db: &Db) -> Result<(), StoreError> {
        let place = shrink::next_copy(&self.views.dir)?;
        let before = db.bytes_on_disk()?;
        let Some(copy) = db.end_copy()? else { return Ok(()) };
        let bytes = copy.bytes_on_disk()?;
        shrink::take_over(&self.views.dir, &place)?;
        if let Some(old) = self.views.replace(copy) {
            self.copied = Some(Arc::downgrade(&old));
            self.views.release(old);
        }
        metrics::counter!("cairn_views_copied_total").increment(1);
        tracing::info!(before, bytes, "the views have new files; the old ones are removed");
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        // sled holds a lock until the last reader is done: what cannot be opened now is not damaged.
        if self.closing.strong_count() > 0 {
            return Err(view_error(STILL_READ));
        }
        let views = &self.views;
        let (db, meta) = opening::open(&views.dir, views.cache_bytes, u64::MAX, &self.journal, &views.calls)?;
        self.follower = Follower::new(&self.journal, meta.checkpoint());
        self.meta = meta;
        self.views.show(db, &self.meta);
        self.is_broken = false;
        tracing::info!(applied = self.meta.n, "the views are open again");
        (self.on_applied)();
        Ok(())
    }

    /// Applies all that is durable.
    pub(crate) fn catch_up(&mut self) -> Result<(), StoreError> {
        let db = self.views.db()?;
        loop {
            let tail = self.durable.borrow().tail;
            if self.follower.checkpoint().n >= tail.n || self.views.ending.load(Ordering::Acquire) {
                return Ok(());
            }
            let changed = apply_next(&db, &mut self.follower, &mut self.meta, &tail)?;
            self.views.publish(&self.meta, changed);
            (self.on_applied)();
        }
    }

    /// Whether the daemon before this one stopped, as far as it is known. To be asked before anything is appended.
    pub(crate) fn stopped_cleanly(&self) -> bool {
        self.meta.stopped.unwrap_or(true)
    }

    /// Keeps a snapshot, with those that wait behind it: at a stop there are many. Returns what else waits.
    fn keep_snapshots(&mut self, first: KeptSnapshot, commands: &Receiver<Command>) -> Option<Command> {
        let (mut kept, mut left) = (vec![first], None);
        while left.is_none()
            && kept.len() < SNAPSHOTS_TOGETHER
            && let Ok(command) = commands.try_recv()
        {
            match command {
                Command::KeepSnapshot(next) => kept.push(*next),
                other => left = Some(other),
            }
        }
        let outcome = self.write_snapshots(&mut kept);
        for KeptSnapshot { reply, .. } in kept {
            // Nobody waits any more: no error.
            let _ = reply.send(outcome.clone());
        }
        left
    }

    fn write_snapshots(&mut self, kept: &mut [KeptSnapshot]) -> Result<(), StoreError> {
        let db = self.views.db()?;
        let mut changes = Changes::new(&db);
        for KeptSnapshot { channel, snapshot, outline, .. } in kept {
            if let Some(snapshot) = snapshot.take() {
                changes.put_bytes(Key::snapshot(channel), snapshot);
            }
            if let Some(mut state) = changes.get::<ChannelState>(&Key::channel(channel))?
                && outline.n >= state.last_n
            {
                state.outline = Some(mem::take(outline));
                changes.put(Key::channel(channel), &state)?;
            }
        }
        // As it was, should it not be written: its counts must stay those of the rows.
        let mut meta = self.meta.clone();
        changes.write(&mut meta)?;
        self.meta = meta;
        Ok(())
    }

    fn keep_vectors(&mut self, kept: KeptVectors) {
        let KeptVectors { state, vectors, reply } = kept;
        let write = || {
            let db = self.views.db()?;
            let (mut changes, mut meta) = (Changes::new(&db), self.meta.clone());
            vectors::keep(&mut changes, state, vectors)?;
            changes.write(&mut meta)?;
            Ok(meta)
        };
        let outcome = write().map(|meta| self.meta = meta);
        // Nobody waits any more: no error.
        let _ = reply.send(outcome);
    }

    fn finish(&mut self) {
        self.step();
        if let Some(db) = self.views.take(None, true) {
            if let Err(error) = db.flush() {
                tracing::warn!(%error, "the views could not be flushed; the next start applies the journal again");
            }
            self.views.release(db);
        }
        (self.on_applied)();
    }
}

/// Applies what follows, up to some number of rows. Returns the memories that changed.
pub(crate) fn apply_next(
    db: &Db,
    follower: &mut Follower,
    meta: &mut Meta,
    tail: &Tail,
) -> Result<Vec<ChangedMemory>, StoreError> {
    let mut changes = Changes::new(db);
    let mut next = meta.clone();
    while changes.len() < BATCH_ROWS {
        let Some((record, position)) = follower.next(tail)? else { break };
        apply(&mut changes, &mut next, &record, position)?;
    }
    let changed = changes.write(&mut next)?;
    *meta = next;
    Ok(changed)
}

/// Rows made in memory from the journal, beside sled, for as long as sled does not answer or lags far behind.
pub(crate) struct JournalRows {
    db: Db,
    meta: Meta,
    follower: Follower,
    /// When they were last asked for.
    pub(crate) used: Instant,
}

impl JournalRows {
    pub(crate) fn new(journal: &Path) -> Self {
        let meta = Meta::default();
        let follower = Follower::new(journal, meta.checkpoint());
        Self { db: Db::in_memory(), meta, follower, used: Instant::now() }
    }

    /// The rows, which show the journal up to that end.
    pub(crate) fn up_to(&mut self, tail: &Tail) -> Result<&Db, StoreError> {
        self.used = Instant::now();
        while self.follower.checkpoint().n < tail.n {
            apply_next(&self.db, &mut self.follower, &mut self.meta, tail)?;
        }
        Ok(&self.db)
    }
}
