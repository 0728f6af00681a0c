//! Erasing a person from a state folder: asked for while everything runs, carried out when the store is opened.
//!
//! What is asked for is durable first. Then, before views and index are opened, the journal is rewritten beside itself,
//! files of artifacts and all that derives from the journal or was quarantined goes, and the new segments are renamed over
//! the old ones. Until the first rename everything is begun again after a crash, from then on only ended.

mod request;
#[cfg(test)]
mod tests;
mod work;

use std::sync::atomic::Ordering;

use cairn_core::event::ErasureFigures;
use cairn_core::pairing_store::Erasure;
use cairn_core::ports::{Store as _, StoreError};
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;

use crate::lock::StateLock;
use crate::options::StoreOptions;
use crate::store::{Layout, Store};
use crate::views::codec::view_error;
use request::Request;

pub(crate) use work::resume_or_wait;

impl Store {
    /// Has a person erased when the store is opened next. Durable when it returns; no backup begins from then on. `lease`:
    /// nobody else asks meanwhile. False: another is asked for already, and this one is not.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] when there is no room for the journal to be rewritten, or it cannot be written.
    pub async fn ask_erasure(
        &self,
        lease: OwnedMutexGuard<()>,
        person: &str,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (inner, person) = (self.inner.clone(), person.to_owned());
        blocking(move || {
            let _lease = lease;
            let dir = &inner.options.dir;
            if request::read(dir)?.is_some() {
                return Ok(false);
            }
            work::room_for_another(dir, work::free(dir))?;
            request::write(dir, &Request::Asked { person, at })?;
            inner.erasing.store(true, Ordering::Release);
            Ok(true)
        })
        .await
    }

    /// An erasure is asked for and not done.
    pub fn is_erasure_pending(&self) -> bool {
        request::read(&self.inner.options.dir).map_or(true, |request| request.is_some())
    }

    /// What erasing a person would do; `None`: nobody knows them. Reads the whole journal, twice, beside everything
    /// that goes on. `lease`: segments stay meanwhile; it is given back.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn survey_erasure(
        &self,
        lease: OwnedMutexGuard<()>,
        person: &str,
    ) -> Result<(OwnedMutexGuard<()>, Option<ErasureFigures>), StoreError> {
        let tail = self.inner.appender.durable().borrow().tail;
        let (dir, person) = (self.inner.options.dir.clone(), person.to_owned());
        blocking(move || {
            let surveyed = work::survey(&dir, &tail, &person)?;
            Ok((lease, surveyed))
        })
        .await
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
    let person = person.to_owned();
    let store = blocking(move || {
        let lock = StateLock::take(&options.dir)?;
        // What was asked for before is done first.
        work::resume_or_clear(&options.dir)?;
        let layout = Layout::of(&options.dir);
        let (journal, shown) = (&layout.journal, layout.shown()?);
        let tail = crate::journal::open::open(journal, &layout.quarantine, &Default::default(), &shown)?;
        let found = work::survey(&options.dir, &tail, &person)?;
        let Some(figures) = found.filter(|_| !dry_run) else {
            return Ok(Err(found.map(|figures| Erasure { pseudonym: String::new(), figures, at })));
        };
        tracing::debug!(?figures, "a person is erased");
        work::room_for_another(&options.dir, work::free(&options.dir))?;
        request::write(&options.dir, &Request::Asked { person, at })?;
        work::resume_or_clear(&options.dir)?;
        drop(lock);
        Store::open(options).map(Ok)
    })
    .await?;
    let store = match store {
        Ok(store) => store,
        Err(surveyed) => return Ok(surveyed),
    };
    let erasures = store.registry().await.map(|pairing_store| pairing_store.erasures);
    store.close().await;
    Ok(erasures?.into_iter().rfind(|erasure| erasure.at == at))
}

/// The erasures that the state in a folder tells of, after what was asked for has been done. No daemon has it open.
///
/// # Errors
/// [`StoreError::InUse`], or the store cannot be opened.
pub async fn erasures_dir(options: StoreOptions) -> Result<Vec<Erasure>, StoreError> {
    let store = blocking(move || Store::open(options)).await?;
    let erasures = store.registry().await.map(|pairing_store| pairing_store.erasures);
    store.close().await;
    erasures
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(view_error(format!("an erasure failed: {error}"))))
}
