//! The views: sled rows that are looked up by key, derived from the journal.

mod applier;
mod apply;
pub(crate) mod archive;
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

use cairn_core::ports::StoreError;
use parking_lot::RwLock;
use tokio::sync::watch;

#[cfg(test)]
pub(crate) use applier::STILL_READ;
pub(crate) use applier::{Applier, Command};
use codec::view_error;
use db::Db;
pub(crate) use rows::Meta;

use crate::disk::{make_dir, move_aside, remove_dir};
use crate::journal::open::{holds, refuse_lost_end};

/// How far the journal is applied, for those who wait for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Applied {
    /// The last record applied.
    pub(crate) n: u64,
    /// Journal lines were set aside.
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
}

impl Views {
    /// Opens the views; what is damaged, of another version, or not of this journal is put out of the way, to be made
    /// anew from the journal.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]: they are ahead of the journal, whose end is lost; they stay. Or even fresh views do not
    /// open.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, journal: &Path) -> Result<(Self, Meta), StoreError> {
        let (db, meta) = open_checked(dir, cache_bytes, journal)?;
        let (applied, _) =
            watch::channel(Applied { n: meta.n, quarantined: meta.quarantined, ..Applied::default() });
        let views = Self {
            dir: dir.to_owned(),
            cache_bytes,
            db: RwLock::new(Some(Arc::new(db))),
            applied,
            suspect: AtomicBool::new(false),
            memory_version: AtomicU64::new(0),
            openings: AtomicU64::new(1),
        };
        Ok((views, meta))
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

fn open_checked(dir: &Path, cache_bytes: u64, journal: &Path) -> Result<(Db, Meta), StoreError> {
    make_dir(dir)?;
    threads::can_start(dir)?;
    let found = match Db::open(dir, cache_bytes) {
        Ok(db) => match sound(&db) {
            Ok(Some(meta)) if holds(journal, &meta.checkpoint()) => return Ok((db, meta)),
            found => {
                // Views that show more than the journal has are all that is left to tell of it: they stay.
                refuse_lost_end(journal, &shown::of(&db))?;
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
        // There is nothing wrong with them, and no room to make them anew.
        Err(error @ StoreError::DiskFull { .. }) => return Err(error),
        Err(error) => {
            let to = move_aside(dir)?;
            tracing::error!(%error, moved_to = %to.display(), "the views are damaged; making them anew from the journal");
        }
    }
    make_dir(dir)?;
    Ok((Db::open(dir, cache_bytes)?, Meta::default()))
}

/// How far sound views are, unless they are of another version.
fn sound(db: &Db) -> Result<Option<Meta>, StoreError> {
    if db.is_of_another_version() {
        return Ok(None);
    }
    let check = db.check();
    if check.problems.is_empty() { Ok(Some(check.meta)) } else { Err(view_error(check.problems.join("; "))) }
}
