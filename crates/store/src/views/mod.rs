//! The views: sled rows that are looked up by key, derived from the journal.

mod applier;
mod apply;
pub(crate) mod archive;
pub(crate) mod aside;
pub(crate) mod codec;
pub(crate) mod db;
pub(crate) mod memories;
mod outbox;
pub(crate) mod registry;
mod rows;
pub(crate) mod shown;
pub(crate) mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use cairn_core::ports::StoreError;
use parking_lot::RwLock;
use tokio::sync::watch;

#[cfg(test)]
pub(crate) use applier::STILL_READ;
pub(crate) use applier::{Applier, Command};
use codec::view_error;
use db::Db;
pub(crate) use rows::Meta;

use crate::calls::Calls;
use crate::disk::{io_error, make_dir, move_aside, remove_dir};
use crate::journal::open::{holds, refuse_lost_end};

/// A call into sled that lasts longer is not waited for.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

/// Nor is sled at the start, which may have a long log to read.
const OPEN_LIMIT: Duration = Duration::from_secs(60);

/// How far the journal is applied, for those who wait for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Applied {
    pub(crate) n: u64,
    pub(crate) quarantined: bool,
    /// Why nothing more is applied at present.
    pub(crate) error: Option<StoreError>,
    /// Nothing will be applied any more.
    pub(crate) closed: bool,
}

/// The views as readers see them: the applier may close and reopen sled beneath.
pub(crate) struct Views {
    dir: PathBuf,
    cache_bytes: u64,
    db: RwLock<Option<Arc<Db>>>,
    applied: watch::Sender<Applied>,
    suspect: AtomicBool,
    memory_version: AtomicU64,
    openings: AtomicU64,
    /// Nobody waits for the applier any more.
    ending: AtomicBool,
    calls: Arc<Calls>,
}

impl Views {
    /// Opens the views; what is damaged, of another version, or not of this journal is put out of the way, to be made
    /// anew from the journal. When sled itself fails, or does not come back, they are closed for now: the applier goes on
    /// trying.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]: they are ahead of the journal, whose end is lost; they stay. Or the folder cannot be
    /// written, or the machine has no threads left.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, journal: &Path) -> Result<(Self, Meta), StoreError> {
        let calls = Arc::default();
        let opened = match open_in_time(dir, cache_bytes, journal, &calls) {
            Err(error @ StoreError::View { .. }) => {
                tracing::error!(%error, "the views cannot be opened; trying again, the journal goes on");
                Err(error)
            }
            opened => Ok(opened?),
        };
        let (db, meta, error, calls) = match opened {
            Ok((db, meta)) => (Some(Arc::new(db)), meta, None, calls),
            // Whatever does not come back now is not what the process should be ended for: the next one would fare the same.
            Err(error) => (None, Meta::default(), Some(error), Arc::default()),
        };
        let (applied, _) =
            watch::channel(Applied { n: meta.n, quarantined: meta.quarantined, error, closed: false });
        let views = Self {
            dir: dir.to_owned(),
            cache_bytes,
            db: RwLock::new(db),
            applied,
            suspect: AtomicBool::new(false),
            memory_version: AtomicU64::new(0),
            openings: AtomicU64::new(1),
            ending: AtomicBool::new(false),
            calls,
        };
        Ok((views, meta))
    }

    /// Has the applier leave what it is at: the next start goes on from where it is.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// For how long sled has not come back from a call, where that is too long.
    pub(crate) fn stuck(&self) -> Option<Duration> {
        Some(self.calls.longest()).filter(|lasts| *lasts >= PATIENCE)
    }

    /// A call that lasts until the other end is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self, until: &std::sync::mpsc::Receiver<()>) {
        let _dropped = self.calls.within(|| until.recv());
    }

    /// Closes rows, which may take as long as any other call.
    pub(crate) fn release(&self, db: Arc<Db>) {
        self.calls.within(|| drop(db));
    }

    /// The rows.
    ///
    /// # Errors
    /// The store is closed, or sled is about to be reopened.
    pub(crate) fn db(&self) -> Result<Arc<Db>, StoreError> {
        let db = self.db.read().clone();
        db.ok_or_else(|| {
            let applied = self.applied.borrow();
            match &applied.error {
                _ if applied.closed => StoreError::Closed,
                Some(error) => error.clone(),
                None => view_error("it is being opened again"),
            }
        })
    }

    /// How far the journal is applied, now and from now on.
    pub(crate) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.subscribe()
    }

    /// A reader met something wrong: have the applier check all rows.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::SeqCst);
    }

    /// Rises whenever a memory comes, goes, or changes in what it says.
    pub(crate) fn memory_version(&self) -> u64 {
        self.memory_version.load(Ordering::SeqCst)
    }

    /// How often the rows were opened. Whoever waits until they show something, and then reads them, must find the same number
    /// before and after: opened in between, they may be half made.
    pub(crate) fn openings(&self) -> u64 {
        self.openings.load(Ordering::SeqCst)
    }

    /// Lets readers have rows that show the journal up to `meta`. How far they are is known before they can be had.
    fn show(&self, db: Db, meta: &Meta) {
        let mut rows = self.db.write();
        self.publish(meta);
        self.openings.fetch_add(1, Ordering::SeqCst);
        *rows = Some(Arc::new(db));
    }

    fn publish(&self, meta: &Meta) {
        self.applied.send_modify(|applied| {
            applied.n = meta.n;
            applied.quarantined = meta.quarantined;
            applied.error = None;
        });
    }

    fn memories_changed(&self) {
        self.memory_version.fetch_add(1, Ordering::SeqCst);
    }

    fn is_suspect(&self) -> bool {
        self.suspect.swap(false, Ordering::SeqCst)
    }
}

/// Opens them in a thread of its own, which is left behind when sled does not come back.
fn open_in_time(
    dir: &Path,
    cache_bytes: u64,
    journal: &Path,
    calls: &Arc<Calls>,
) -> Result<(Db, Meta), StoreError> {
    let (tell, opened) = sync_channel(1);
    let (of, journal, calls) = (dir.to_owned(), journal.to_owned(), Arc::clone(calls));
    let open = move || drop(tell.send(open_checked(&of, cache_bytes, &journal, &calls)));
    let spawned = std::thread::Builder::new().name("open views".to_owned()).spawn(open);
    spawned.map_err(io_error("start a thread for", dir))?;
    opened.recv_timeout(OPEN_LIMIT).unwrap_or_else(|error| {
        Err(view_error(match error {
            RecvTimeoutError::Timeout => "it does not open in time",
            RecvTimeoutError::Disconnected => "opening it panicked; the log says where",
        }))
    })
}

fn open_checked(
    dir: &Path,
    cache_bytes: u64,
    journal: &Path,
    calls: &Arc<Calls>,
) -> Result<(Db, Meta), StoreError> {
    make_dir(dir)?;
    threads::can_start(dir)?;
    let found = match Db::open_within(dir, cache_bytes, Arc::clone(calls)) {
        Ok(db) => match sound(&db) {
            Ok(Some(meta)) if holds(journal, &meta.checkpoint()) => return Ok((db, meta)),
            found => {
                // Views that show more than the journal has are all that is left to tell of it: they stay.
                refuse_lost_end(journal, &shown::of(&db))?;
                calls.within(|| drop(db));
                found
            }
        },
        Err(error) => Err(error),
    };
    match found {
        Ok(None) => {
            remove_dir(dir)?;
            tracing::info!(
                "the views are of another version of this program; making them anew from the journal"
            );
        }
        Ok(Some(meta)) => {
            remove_dir(dir)?;
            tracing::warn!(
                applied = meta.n,
                "the journal has something else where the views have stopped; making them anew"
            );
        }
        // There is nothing wrong with them, and nothing to make them anew with.
        Err(error @ (StoreError::DiskFull { .. } | StoreError::Io { .. })) => return Err(error),
        Err(error) => {
            let to = move_aside(dir)?;
            tracing::error!(%error, moved_to = %to.display(), "the views are damaged; making them anew from the journal");
        }
    }
    make_dir(dir)?;
    Ok((Db::open_within(dir, cache_bytes, Arc::clone(calls))?, Meta::default()))
}

/// How far sound views are, unless they are of another version.
fn sound(db: &Db) -> Result<Option<Meta>, StoreError> {
    if db.is_of_another_version() {
        return Ok(None);
    }
    let check = db.check();
    if check.problems.is_empty() { Ok(Some(check.meta)) } else { Err(view_error(check.problems.join("; "))) }
}
