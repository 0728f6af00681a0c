//! Carries out an erasure while no store is open on the folder: one that was asked for, or one that was cut short.

use std::path::Path;
use std::time::Instant;

use cairn_core::erasure::Eraser;
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::records::{add_closing, decide, fate, surveyed};
use super::request::{ErasureRequest, Step};
use super::room::{free, room_for_another};
use super::{artifacts, swap};
use crate::files::disk::{Layout, io_error, remove_file, sync_dir};
use crate::files::progress::Progress;
use crate::journal::open::{self, Start};
use crate::journal::rewrite::{self, Rewriter};
use crate::journal::segment;
use crate::upkeep::view_state::view_state;

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
    ErasureRequest::Asked { person: person.to_owned(), at }.write(dir)?;
    resume_or_clear(dir, progress)
}

/// Nothing is asked for any more: the folder's journal is given up.
pub(crate) fn forget(dir: &Path) -> Result<(), StoreError> {
    ErasureRequest::remove(dir)?;
    swap::clear(dir)
}

/// Carries out what is asked for at a start, which nothing but a rename that has begun may keep from coming up: as long as
/// nothing is decided, what could not be done is told and tried again at the next start.
///
/// # Errors
/// It is decided, and cannot be ended: the journal is neither the one before nor the one after.
pub(crate) fn resume_or_wait(dir: &Path, progress: &Progress) -> Result<(), StoreError> {
    let Err(error) = resume_or_clear(dir, progress) else { return Ok(()) };
    if !matches!(ErasureRequest::read(dir), Ok(Some(ErasureRequest::Asked { .. }))) {
        return Err(error);
    }
    tell_failed(&error);
    Ok(())
}

/// Tells of an erasure that keeps nobody from starting though it failed.
pub(crate) fn tell_failed(error: &StoreError) {
    metrics::counter!("cairn_erasures_failed_total").increment(1);
    tracing::error!(%error, "a person could not be erased; their data is still there; the next start tries again");
}

/// Goes on with an erasure, with nothing left beside the journal when it fails before it is decided.
///
/// # Errors
/// Something cannot be read or written; it is begun again, or ended, at the next call.
pub(crate) fn resume_or_clear(dir: &Path, progress: &Progress) -> Result<(), StoreError> {
    let outcome = run(dir, progress, &mut |_| Ok(()));
    if outcome.is_err() && matches!(ErasureRequest::read(dir), Ok(Some(ErasureRequest::Asked { .. }))) {
        let cleared = rewrite::clear(&Layout::of(dir).journal).and_then(|()| artifacts::clear_staged(dir));
        cleared.unwrap_or_else(
            |error| tracing::warn!(%error, "temporary files beside the journal could not be removed"),
        );
    }
    outcome
}

/// Carries out what is asked for in a state folder, or ends what was begun. The lock is held, views and index are closed.
pub(super) fn run(dir: &Path, progress: &Progress, step: Step<'_>) -> Result<(), StoreError> {
    let prepared = match ErasureRequest::read(dir)? {
        None => return swap::clear(dir),
        Some(ErasureRequest::Asked { person, at }) => {
            swap::clear(dir)?;
            room_for_another(dir, free(dir))?;
            tracing::info!("erasing a person: the journal is rewritten");
            if !stage(dir, &person, at, progress, step)? {
                tracing::warn!("the person to be erased is unknown; nothing was changed");
                return ErasureRequest::remove(dir);
            }
            false
        }
        Some(ErasureRequest::Staged { prepared }) => {
            tracing::info!("an erasure was interrupted; completing it now");
            prepared
        }
    };
    swap::end(dir, prepared, step)
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
    let state = view_state(&layout)?;
    let tail = open::open(&layout.journal, &layout, &Start::default(), &state)?;
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
