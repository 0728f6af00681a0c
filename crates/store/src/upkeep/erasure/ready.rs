//! A state without the person, built beside the open one, and how it replaces that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cairn_core::erasure::Eraser;
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::records::{add_closing, decide, fate, walk};
use super::request::Step;
use super::swap::{self, BESIDE};
use crate::files::artifacts::{Named, note_named};
use crate::files::disk::{Layout, io_error, sync_dir};
use crate::files::progress::Progress;
use crate::journal::open::{Checkpoint, Tail};
use crate::journal::rewrite::{self, Rewriter};
use crate::journal::segment;

/// The erasure of an open store: asked for, prepared, or put off.
#[derive(Default)]
pub(crate) struct PendingErasure {
    pub(super) asked: Notify,
    pub(super) progress: Progress,
    pub(super) ready: Mutex<Option<Prepared>>,
    /// Why an earlier erasure failed when the store was opened.
    put_off: Mutex<Option<StoreError>>,
}

impl PendingErasure {
    /// Notes that an erasure failed, and that the store is open without it.
    pub(crate) fn put_off_for(&self, error: StoreError) {
        *self.put_off.lock() = Some(error);
    }

    pub(crate) fn put_off(&self) -> Option<StoreError> {
        self.put_off.lock().clone()
    }

    /// Carries an erasure that is ready to its end. The store is closed, its lock still held. `tail`: where the journal ends.
    pub(crate) fn finish(&self, tail: &Tail) {
        let Some(prepared) = self.ready.lock().take() else { return };
        if let Err(error) = prepared.finish(tail, &mut |_| Ok(())) {
            tracing::error!(%error, "an erasure could not be completed; the next start completes it");
        }
    }
}

/// A state without the person, up to some record.
pub(super) struct Prepared {
    pub(super) dir: PathBuf,
    pub(super) eraser: Eraser,
    pub(super) named: BTreeSet<Named>,
    /// Up to where the journal is rewritten.
    pub(super) at: Checkpoint,
    /// Segments that say something else there.
    pub(super) changed: BTreeSet<u64>,
    pub(super) asked_at: Timestamp,
    pub(super) began: Instant,
}

impl Prepared {
    /// Copies what was journalled since, up to the end. False: it changes what stands in the place of earlier records.
    pub(super) fn copy_on(
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
    pub(super) fn rewrite(
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
                "the person's last messages change what is erased; the whole erasure runs at the next start"
            );
            return swap::clear(&self.dir);
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
        swap::end(&self.dir, true, step)
    }
}
