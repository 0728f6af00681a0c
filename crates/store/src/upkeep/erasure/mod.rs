//! Erasing a person from a state folder: asked for while everything runs, carried out when the store is closed or opened.
//!
//! What is asked for is durable first. An open store is made ready for it while everything goes on ([`prepare`]), and closing
//! it is left with what was journalled since. Otherwise, before views and index are opened, the journal is rewritten beside
//! itself. Then files of artifacts and all that derives from the journal or was quarantined goes, and the new segments are
//! renamed over the old ones. Until the first rename everything is begun again after a crash, from then on only ended.

mod artifacts;
mod prepare;
pub(crate) mod ready;
mod records;
mod request;
pub(crate) mod resume;
mod room;
pub(crate) mod swap;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::Ordering;

use cairn_core::registry::Erasure;
use cairn_core::store_port::Store as _;
use cairn_types::event::ErasureFigures;
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;

use crate::cluster::marker;
use crate::files::disk::{Layout, blocking};
use crate::files::progress::Progress;
use crate::journal::open::{self, Start};
use crate::open::take_lock;
use crate::options::StoreOptions;
use crate::store::Store;
use crate::upkeep::opened::OpenedStore;
use crate::upkeep::view_state::view_state;
use records::survey;
use request::ErasureRequest;
use resume::resume_or_clear;
use room::{free, room_for_another};

/// Whether an erasure is asked for in a state folder and not done.
pub(crate) fn is_asked(dir: &Path) -> Result<bool, StoreError> {
    ErasureRequest::read(dir).map(|request| request.is_some())
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
            if ErasureRequest::read(dir)?.is_some() || inner.erasing.load(Ordering::Acquire) {
                return Ok(false);
            }
            room_for_another(dir, free(dir))?;
            match inner.leading() {
                // Whoever leads after this store is closed does it.
                Some((database, lease)) => database.order_erasure(lease, &person, at)?,
                None => ErasureRequest::Asked { person, at }.write(dir)?,
            }
            inner.erasing.store(true, Ordering::Release);
            inner.erasure.asked.notify_one();
            Ok(true)
        })
        .await
    }

    /// Whether an erasure is asked for and not done.
    pub fn is_erasure_pending(&self) -> bool {
        self.inner.erasing.load(Ordering::Acquire)
            || self.inner.erasure.put_off().is_some()
            || ErasureRequest::read(&self.inner.options.dir).map_or(true, |request| request.is_some())
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

/// Erases a person from a state that no daemon has open. `None`: the person is unknown. `dry_run`: returns what would be
/// erased, and changes nothing.
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
        let lock = take_lock(&options.dir)?;
        marker::refuse(&options.dir)?;
        // What was asked for before is done first.
        resume_or_clear(&options.dir, &progress)?;
        let layout = Layout::of(&options.dir);
        let (journal, state) = (&layout.journal, view_state(&layout)?);
        let tail = open::open(journal, &layout, &Start::default(), &state)?;
        let found = survey(&options.dir, &tail, &person, &progress)?;
        if dry_run || found.is_none() {
            return Ok(Err(found.map(|figures| Erasure { pseudonym: String::new(), figures, at })));
        }
        room_for_another(&options.dir, free(&options.dir))?;
        ErasureRequest::Asked { person, at }.write(&options.dir)?;
        let carried_out = resume_or_clear(&options.dir, &progress);
        if matches!(carried_out, Err(StoreError::Stopped)) {
            ErasureRequest::remove(&options.dir)?;
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
        let opened = blocking("an erasure", move || OpenedStore::open(of)).await?;
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
