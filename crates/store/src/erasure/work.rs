//! Carrying an erasure out.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cairn_core::erasure::{Eraser, Survey};
use cairn_core::event::ErasureFigures;
use cairn_core::event::{ArtifactEvent, Event, NewRecord, Record};
use cairn_core::ids::{ArtifactId, ChannelId};
use cairn_core::ports::StoreError;
use jiff::Timestamp;

use super::request::{self, Request};
use crate::artifacts::file_name;
use crate::disk::{io_error, remove_dir, replace, sync_dir};
use crate::journal::open::{self, Checkpoint, Start, Tail};
use crate::journal::reader::Follower;
use crate::journal::rewrite::{self, Rewrite, Sink};
use crate::journal::segment;
use crate::store::Layout;

/// Beside the journal, what an erasure writes.
const MARGIN_BYTES: u64 = 1024 * 1024;

/// Called after each step: a test lets the process die there.
pub(crate) type Step<'a> = &'a mut dyn FnMut(&'static str) -> Result<(), StoreError>;

/// Carries out what is asked for in a state folder, or ends what was begun. The lock is held, views and index are closed.
///
/// # Errors
/// Something cannot be read or written; it is begun again, or ended, at the next call.
pub(crate) fn resume(dir: &Path) -> Result<(), StoreError> {
    resume_by_steps(dir, &mut |_| Ok(()))
}

/// The same for a start, which nothing but a rename that has begun may keep from coming up: as long as nothing is decided,
/// what could not be done is told and tried again at the next start.
///
/// # Errors
/// It is decided, and cannot be ended: the journal is neither the one before nor the one after.
pub(crate) fn resume_or_wait(dir: &Path) -> Result<(), StoreError> {
    let Err(error) = resume_or_clear(dir) else { return Ok(()) };
    if !matches!(request::read(dir), Ok(Some(Request::Asked { .. }))) {
        return Err(error);
    }
    metrics::counter!("cairn_erasures_failed_total").increment(1);
    tracing::error!(%error, "a person could not be erased; they are still there, and it is tried again at the next start");
    Ok(())
}

/// The same, with nothing left beside the journal when it fails before it is decided.
///
/// # Errors
/// As [`resume`].
pub(crate) fn resume_or_clear(dir: &Path) -> Result<(), StoreError> {
    let outcome = room(dir, free(dir)).and_then(|()| resume(dir));
    if outcome.is_err() && matches!(request::read(dir), Ok(Some(Request::Asked { .. }))) {
        let cleared = rewrite::clear(&Layout::of(dir).journal);
        cleared.unwrap_or_else(
            |error| tracing::warn!(%error, "what was written beside the journal is still there"),
        );
    }
    outcome
}

/// Bytes that may be written to the disk of a folder; unknown: as many as one likes.
pub(super) fn free(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether the journal fits a second time into so many free bytes, when an erasure is still to be staged.
///
/// # Errors
/// [`StoreError::DiskFull`].
pub(super) fn room_for_another(dir: &Path, free: u64) -> Result<(), StoreError> {
    let journal = Layout::of(dir).journal;
    let mut bytes = MARGIN_BYTES;
    for first in segment::list(&journal)? {
        bytes += segment::bytes(&segment::path(&journal, first))?;
    }
    if bytes <= free {
        return Ok(());
    }
    tracing::warn!(needed = bytes, free, "there is no room for the journal to be rewritten");
    Err(StoreError::DiskFull { path: journal.display().to_string() })
}

fn room(dir: &Path, free: u64) -> Result<(), StoreError> {
    match request::read(dir)? {
        Some(Request::Asked { .. }) => room_for_another(dir, free),
        Some(Request::Staged) | None => Ok(()),
    }
}

pub(crate) fn resume_by_steps(dir: &Path, step: Step<'_>) -> Result<(), StoreError> {
    match request::read(dir)? {
        None => return Ok(()),
        Some(Request::Asked { person, at }) => {
            tracing::info!("erasing a person: the journal is rewritten");
            if !stage(dir, &person, at, step)? {
                tracing::warn!("nobody knows the person who was to be erased; nothing is changed");
                return request::remove(dir);
            }
        }
        Some(Request::Staged) => tracing::info!("an erasure was cut short; it is ended now"),
    }
    let layout = Layout::of(dir);
    rewrite::swap(&layout.journal, || step("renamed"))?;
    step("swapped")?;
    // Once more: should a process that was cut short have left any.
    remove_derived(dir, &layout)?;
    step("derived removed")?;
    request::remove(dir)?;
    tracing::info!("a person has been erased; views and index are rebuilt");
    metrics::counter!("cairn_erasures_total").increment(1);
    Ok(())
}

/// Writes the journal without the person beside itself, and removes everything else that may hold something of theirs.
/// False: nobody knows them.
fn stage(dir: &Path, person: &str, at: Timestamp, step: Step<'_>) -> Result<bool, StoreError> {
    let began = Instant::now();
    let layout = Layout::of(dir);
    // What proves that the journal has lost something must not be removed.
    let shown = layout.shown()?;
    let tail = open::open(&layout.journal, &layout, &Start::default(), &shown)?;
    rewrite::clear(&layout.journal)?;
    step("cleared")?;
    let Some((survey, stored)) = surveyed(&layout.journal, &tail, person)? else { return Ok(false) };
    let mut erasing = Erasing { eraser: Eraser::new(survey), at, began };
    for first in segment::list(&layout.journal)? {
        let end = (first == tail.segment).then_some(tail.len);
        rewrite::stage(&layout.journal, first, end, &mut erasing)?;
        step("segment staged")?;
    }
    let eraser = erasing.eraser;
    sync_dir(&layout.journal).map_err(io_error("sync", &layout.journal))?;
    step("journal staged")?;
    remove_artifacts(dir, &eraser, &stored)?;
    blank_artifacts(dir, &eraser, &stored)?;
    step("artifacts removed")?;
    remove_derived(dir, &layout)?;
    step("derived removed")?;
    let figures = eraser.figures();
    let ErasureFigures { entries, answers, memories, summaries, artifacts, mentions, conversations, .. } =
        figures;
    let cleaned = figures.memories_cleaned;
    tracing::info!(
        entries,
        answers,
        memories,
        cleaned,
        summaries,
        artifacts,
        mentions,
        conversations,
        "erased"
    );
    request::write(dir, &Request::Staged)?;
    step("decided")?;
    Ok(true)
}

struct Erasing {
    eraser: Eraser,
    at: Timestamp,
    began: Instant,
}

impl Rewrite for Erasing {
    fn fate(&mut self, record: Record) -> Option<Record> {
        self.eraser.erase(record)
    }

    fn closing(&mut self) -> Vec<NewRecord> {
        self.eraser.closing(self.at, self.began.elapsed().as_secs_f64())
    }
}

/// An artifact that the journal names.
type Stored = (ChannelId, ArtifactId);

/// Hands every record up to the end to `each`.
fn walk(journal: &Path, tail: &Tail, mut each: impl FnMut(&Record)) -> Result<(), StoreError> {
    let mut follower = Follower::new(journal, Checkpoint::default());
    while let Some((record, _)) = follower.next(tail)? {
        each(&record);
    }
    Ok(())
}

/// What there is of a person, with the artifacts that the journal names; `None`: nobody knows the person.
fn surveyed(journal: &Path, tail: &Tail, person: &str) -> Result<Option<(Survey, Vec<Stored>)>, StoreError> {
    let mut survey = Survey::new(person);
    let mut stored = Vec::new();
    walk(journal, tail, |record| {
        survey.hear(record);
        if let (Some(channel), Event::Artifact(ArtifactEvent::Stored { artifact })) =
            (&record.channel, &record.event)
        {
            stored.push((channel.clone(), artifact.id.clone()));
        }
    })?;
    Ok(survey.is_known().then_some((survey, stored)))
}

/// What erasing a person would do; `None`: nobody knows them. Changes nothing.
pub(super) fn survey(dir: &Path, tail: &Tail, person: &str) -> Result<Option<ErasureFigures>, StoreError> {
    let began = Instant::now();
    let journal = Layout::of(dir).journal;
    let Some((survey, _)) = surveyed(&journal, tail, person)? else { return Ok(None) };
    let mut eraser = Eraser::new(survey);
    walk(&journal, tail, |record| drop(eraser.erase(record.clone())))?;
    Ok(Some(ErasureFigures { seconds: began.elapsed().as_secs_f64(), ..eraser.figures() }))
}

fn folder(dir: &Path, channel: &ChannelId) -> PathBuf {
    dir.join("artifacts").join(file_name(channel.as_str()))
}

/// Blanks their names out of the files that stay; the record of each says how long it is.
fn blank_artifacts(dir: &Path, eraser: &Eraser, stored: &[Stored]) -> Result<(), StoreError> {
    for (channel, id) in stored {
        let file = folder(dir, channel).join(file_name(id.as_str()));
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error("read", &file)(error)),
        };
        // Damaged bytes become one character each, so that the length stays.
        let chunks = bytes.utf8_chunks();
        let text: String =
            chunks.flat_map(|chunk| [chunk.valid().to_owned(), "?".repeat(chunk.invalid().len())]).collect();
        let Some(text) = eraser.blanked(&text) else { continue };
        let beside = file.with_extension("new");
        let fail = io_error("write", &beside);
        let mut out = Sink::create(&beside, false).map_err(&fail)?;
        out.line(text.as_bytes()).and_then(|()| out.finish()).map_err(&fail)?;
        replace(&file, &beside).map_err(io_error("rename", &beside))?;
    }
    Ok(())
}

/// Removes the files of artifacts that go, and those that nothing names: what is in them nobody knows.
fn remove_artifacts(dir: &Path, eraser: &Eraser, stored: &[Stored]) -> Result<(), StoreError> {
    let gone: HashSet<&Stored> = eraser.artifacts().collect();
    let mut kept: HashMap<PathBuf, HashSet<String>> = HashMap::new();
    for one in stored.iter().filter(|one| !gone.contains(one)) {
        let (channel, id) = one;
        if !eraser.is_dropped(channel) && !eraser.is_renamed(channel) {
            kept.entry(folder(dir, channel)).or_default().insert(file_name(id.as_str()));
        }
    }
    for folder in entries(&dir.join("artifacts"))? {
        let Some(names) = kept.get(&folder) else {
            remove(&folder)?;
            continue;
        };
        for file in entries(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !names.contains(&name) {
                remove(&file)?;
            }
        }
        sync_dir(&folder).map_err(io_error("sync", &folder))?;
    }
    Ok(())
}

/// Removes views and index, which are made again, and all that was quarantined: damaged views and lines, and what an earlier
/// version or another state left.
fn remove_derived(dir: &Path, layout: &Layout) -> Result<(), StoreError> {
    for folder in [&layout.views, &layout.index, &layout.quarantine] {
        remove_dir(folder)?;
    }
    for path in entries(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".damaged") || name.starts_with("before-") || name.starts_with("restore.") {
            remove(&path)?;
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}

/// What is in a folder; nothing, when it is not there.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = io_error("list", dir);
    match fs::read_dir(dir) {
        Ok(found) => found.map(|entry| entry.map(|entry| entry.path()).map_err(&fail)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return remove_dir(path);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}
