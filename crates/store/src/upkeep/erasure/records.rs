//! What is a person's in the journal, and what happens to each record.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use cairn_core::erasure::{Eraser, Survey};
use cairn_types::event::{ErasureFigures, NewRecord, Record};
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::artifacts;
use super::request::{ErasureRequest, Step};
use crate::files::artifacts::{Named, note_named};
use crate::files::disk::Layout;
use crate::files::progress::Progress;
use crate::journal::line;
use crate::journal::open::{Checkpoint, Tail};
use crate::journal::reader::Follower;
use crate::journal::rewrite::{Fate, Rewriter};

/// Removes artifacts and marks the erasure as decided: from here on it runs to its end, also after a crash.
pub(super) fn decide(
    dir: &Path,
    eraser: &Eraser,
    named: &BTreeSet<Named>,
    prepared: bool,
    step: Step<'_>,
) -> Result<(), StoreError> {
    artifacts::remove(dir, eraser, named)?;
    step("artifacts removed")?;
    tracing::info!(figures = ?eraser.figures(), "erased");
    ErasureRequest::Staged { prepared }.write(dir)?;
    step("decided")
}

/// The fate of a record. The file of an artifact that stays is rewritten beside it.
pub(super) fn fate(dir: &Path, eraser: &mut Eraser, before: Record) -> Result<Fate, StoreError> {
    Ok(match eraser.erase(before.clone()) {
        None => Fate::Goes,
        Some(mut after) => {
            artifacts::stage_blanked(dir, eraser, &mut after)?;
            if after == before { Fate::Stays } else { Fate::Becomes(line::of(after)?) }
        }
    })
}

/// Adds what closes the erasure behind the last record.
pub(super) fn add_closing(
    out: &mut Rewriter,
    last: u64,
    eraser: &Eraser,
    at: Timestamp,
    began: Instant,
) -> Result<(), StoreError> {
    let closing = eraser.closing(at, began.elapsed().as_secs_f64());
    for (n, NewRecord { channel, at, event }) in (last + 1..).zip(closing) {
        out.add(Record { n, at, channel, event })?;
    }
    Ok(())
}

/// Hands every record behind a checkpoint to `each`, up to the end; returns where that is.
pub(super) fn walk(
    journal: &Path,
    from: Checkpoint,
    tail: &Tail,
    mut each: impl FnMut(Record) -> Result<(), StoreError>,
) -> Result<Checkpoint, StoreError> {
    let mut follower = Follower::new(journal, from);
    while let Some((record, _)) = follower.next(tail)? {
        each(record)?;
    }
    Ok(follower.checkpoint())
}

/// What there is of a person, with the artifacts that have not expired and where the journal ends; `None`: nobody knows the person.
pub(super) fn surveyed(
    journal: &Path,
    tail: &Tail,
    person: &str,
    reach: &dyn Fn(u64) -> Result<(), StoreError>,
) -> Result<Option<(Survey, BTreeSet<Named>, Checkpoint)>, StoreError> {
    let mut survey = Survey::new(person);
    let mut named = BTreeSet::new();
    let end = walk(journal, Checkpoint::default(), tail, |record| {
        survey.hear(&record);
        note_named(&mut named, &record);
        reach(record.n)
    })?;
    Ok(survey.is_known().then_some((survey, named, end)))
}

/// What erasing a person would do; `None`: nobody knows them. Changes nothing.
pub(super) fn survey(
    dir: &Path,
    tail: &Tail,
    person: &str,
    progress: &Progress,
) -> Result<Option<ErasureFigures>, StoreError> {
    let began = Instant::now();
    let journal = Layout::of(dir).journal;
    // Both walks read the same.
    progress.begin("survey", 2 * tail.n);
    let found = surveyed(&journal, tail, person, &|n| progress.reach(n))?;
    let Some((survey, ..)) = found else { return Ok(None) };
    let mut eraser = Eraser::new(survey);
    walk(&journal, Checkpoint::default(), tail, |record| {
        progress.reach(tail.n + record.n)?;
        let _erased = eraser.erase(record);
        Ok(())
    })?;
    Ok(Some(ErasureFigures { seconds: began.elapsed().as_secs_f64(), ..eraser.figures() }))
}
