//! Opening a state: takes its lock, finishes what was cut short (a restore, a new format, an erasure), then opens the store.

use std::path::Path;
use std::sync::Arc;

use cairn_types::ports::StoreError;

use crate::cluster::{Standby, follow, marker};
use crate::files::disk::{Disk, RealDisk, make_dir};
use crate::files::format;
use crate::files::lock::StateLock;
use crate::options::StoreOptions;
use crate::store::Store;
use crate::upkeep::backup::restore;
use crate::upkeep::erasure::resume;
use crate::upkeep::upgrade;

/// Checks that no process has the state in that folder open.
///
/// # Errors
/// [`StoreError::InUse`], or the lock cannot be read.
pub fn check_free(dir: &Path) -> Result<(), StoreError> {
    if dir.join("lock").exists() { StateLock::take(dir).map(drop) } else { Ok(()) }
}

/// Takes the lock of a state that this program may use. A restore that was cut short is finished.
///
/// # Errors
/// [`StoreError::Newer`], with nothing touched; [`StoreError::InUse`] with the owner's process id, or
/// [`StoreError::Io`].
pub(crate) fn take_lock(dir: &Path) -> Result<StateLock, StoreError> {
    format::refuse_newer(dir)?;
    let lock = StateLock::take(dir)?;
    restore::finish(dir)?;
    Ok(lock)
}

/// Creates or upgrades a state folder, and takes its lock. Every thread that writes holds the lock, too: it is free when the
/// last of them has ended, however it ends.
pub(crate) fn lock(dir: &Path) -> Result<Arc<StateLock>, StoreError> {
    make_dir(dir)?;
    let lock = Arc::new(take_lock(dir)?);
    upgrade::upgrade(dir)?;
    Ok(lock)
}

impl Store {
    /// Opens the store, and brings the views up to the journal. With a database this node leads at once. Blocks; call it
    /// outside of async code.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Damaged`] with file and line, or [`StoreError::Io`]; with a database
    /// [`StoreError::Led`] and [`StoreError::Database`], too.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        if options.database.is_some() {
            let lock = lock(&options.dir)?;
            return follow::open_leading(options, lock);
        }
        Self::open_on(options, Arc::new(RealDisk))
    }

    /// Opens the store as a standby: it copies what the leader appends, until this node leads. Blocks for the first connection;
    /// [`Standby::status`] shows the progress of copying.
    ///
    /// # Errors
    /// The database or the state folder cannot be used.
    pub fn stand_by(options: StoreOptions) -> Result<Standby, StoreError> {
        let lock = lock(&options.dir)?;
        Standby::begin(options, lock)
    }

    pub(crate) fn open_on(options: StoreOptions, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let lock = lock(&options.dir)?;
        marker::refuse(&options.dir)?;
        resume::resume_or_wait(&options.dir, &options.progress)?;
        Self::open_locked(options, disk, lock, None)
    }
}
