//! Checking a store from end to end, and making what derives from the journal again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_core::store_port::Store as _;
use cairn_types::event::{ArtifactEvent, Event, NewRecord};
use cairn_types::ids::ChannelId;
use cairn_types::ports::{ChannelRow, StoreError};
use serde::{Deserialize, Serialize};

use super::opened::OpenedStore;
use super::read_only::ReadOnlyState;
use super::view_state::{check_closed, view_state};
use crate::cluster::marker;
use crate::files::artifacts::Wrong;
use crate::files::disk::{
    Layout, VERIFIED, blocking, io_error, make_dir, move_aside, put, remove_dir, remove_file,
};
use crate::files::progress::Progress;
use crate::journal::line::last_n;
use crate::journal::mark::Mark;
use crate::journal::open::{Checkpoint, Tail, holds, lost_message, named, refuse_lost_end};
use crate::journal::segment::{Lines, Piece, Position};
use crate::journal::{line, quarantine, segment};
use crate::open::take_lock;
use crate::options::StoreOptions;
use crate::ports;
use crate::store::{Inner, Store};
use crate::upkeep::backup::restore;
use crate::views::archive::Reads;
use crate::views::db::Check;

/// Threads that check a state which nobody uses.
const THREADS: usize = 2;

/// Names the work in the error when it panics.
const CHECKING: &str = "checking it";

/// The result of a check, as `cairn store verify` shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    pub ok: bool,
    pub journal: JournalReport,
    pub views: ViewsReport,
    pub channels: u64,
    pub memories: u64,
    /// Only what was journalled behind that record was checked, with the channels that it is of; a check of all had found
    /// nothing wrong up to there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// All that is wrong, with what was done about it, for people.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    pub segments: u64,
    pub events: u64,
    pub last: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ViewsReport {
    pub applied: u64,
    pub records: u64,
    pub bad: u64,
}

/// Channels in which something was wrong at the first look, with what.
type Doubtful = Vec<(ChannelId, Vec<Finding>)>;

impl Store {
    /// Checks the open store: every row of the views, every line of the journal up to what they showed then, every channel
    /// restored, every artifact's file. Takes as long as it takes to read all of it; nothing waits for it.
    ///
    /// # Errors
    /// Something cannot be read at all.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        self.verify_watched(false, &Progress::default()).await
    }

    /// Checks the open store, with progress and a way to stop. `quick`: checks only what was journalled since the last full
    /// check that found nothing, and the channels of those records; everything, if there was no such check.
    ///
    /// # Errors
    /// Something cannot be read at all; [`StoreError::Stopped`].
    pub async fn verify_watched(&self, quick: bool, progress: &Progress) -> Result<VerifyReport, StoreError> {
        self.verify_beyond(None, quick, progress).await
    }

    /// Checks the open store beyond what is known of a store that was just opened.
    async fn verify_beyond(
        &self,
        known: Option<Known>,
        quick: bool,
        progress: &Progress,
    ) -> Result<VerifyReport, StoreError> {
        let watched = progress.clone();
        let checked =
            self.read(CHECKING, move |inner, reads| check_open(inner, reads, known, quick, &watched));
        let (mut report, doubtful, end) = checked.await?;
        let mut found = Vec::new();
        for (channel, wrong) in doubtful {
            // What was on its way while it was looked at is there now.
            let still = self.read(CHECKING, move |inner, reads| Ok(wrong_in(inner, reads, &channel))).await?;
            found.extend(still.into_iter().filter(|one| wrong.contains(one)));
        }
        tell(found, self.inner.database.is_some(), &mut report.problems);
        report.ok = report.problems.is_empty();
        if report.since.is_none() || !report.ok {
            self.inner.damage.lock().clone_from(&report.problems);
            keep_outcome(self.inner.options.dir.clone(), report.problems.clone(), Some(end)).await;
        }
        Ok(report)
    }

    /// Journals of every artifact whose file is missing or damaged that it is lost, and moves what is there of it to
    /// `quarantine/`. Returns what was done, for people.
    async fn accept_lost(&self) -> Result<Vec<String>, StoreError> {
        let mut done = Vec::new();
        for ChannelRow { channel, last_at, .. } in self.channels().await? {
            let of = channel.clone();
            let wrong = self.read(CHECKING, move |inner, reads| Ok(wrong_in(inner, reads, &of))).await?;
            let lost: Vec<Wrong> = wrong
                .into_iter()
                .filter_map(|one| match one {
                    Finding::Artifact(wrong) if wrong.is_lost => Some(wrong),
                    Finding::Artifact(_) | Finding::Channel(..) => None,
                })
                .collect();
            if lost.is_empty() {
                continue;
            }
            let ids = lost.iter().map(|wrong| wrong.id.clone()).collect();
            let event = Event::Artifact(ArtifactEvent::Expired { ids, lost: true });
            self.append(vec![NewRecord { channel: Some(channel.clone()), at: last_at, event }]).await?;
            let inner = self.inner.clone();
            done.extend(lost.iter().map(|wrong| format!("{}; the journal says so from here on", wrong.what)));
            blocking(CHECKING, move || {
                let aside = Layout::of(&inner.options.dir).quarantine;
                lost.iter().try_for_each(|wrong| inner.artifacts.set_aside(&channel, &wrong.id, &aside))
            })
            .await?;
        }
        for line in &done {
            tracing::warn!(what = line, "continued without an artifact");
        }
        Ok(done)
    }
}

/// What is wrong in a channel.
#[derive(PartialEq)]
enum Finding {
    /// It cannot be restored.
    Channel(ChannelId, StoreError),
    Artifact(Wrong),
}

impl Finding {
    /// For people. `is_copy`: of a journal in a database, which does not have it either.
    fn told(self, is_copy: bool) -> String {
        match self {
            Self::Channel(channel, error) => format!("channel {channel}: {error}"),
            Self::Artifact(wrong) if wrong.is_lost => {
                let instead = if wrong.is_message {
                    "the history has the whole message"
                } else {
                    "its tool must be called again"
                };
                let on =
                    if is_copy { "" } else { ", and `cairn store verify --quarantine` goes on without it" };
                format!("{}; {instead}{on}", wrong.what)
            }
            Self::Artifact(wrong) => wrong.what,
        }
    }
}

/// Adds to the problems what is wrong in channels, for people. A damaged line is told once, with all channels that cannot be
/// restored because of it.
fn tell(found: Vec<Finding>, is_copy: bool, problems: &mut Vec<String>) {
    let mut lines: BTreeMap<String, (String, Vec<ChannelId>)> = BTreeMap::new();
    for one in found {
        match one {
            Finding::Channel(channel, StoreError::Damaged { file, line, message }) => {
                let place = place(&file, line);
                let told = StoreError::Damaged { file, line, message }.to_string();
                lines.entry(place).or_insert((told, Vec::new())).1.push(channel);
            }
            other => problems.push(other.told(is_copy)),
        }
    }
    for (place, (told, channels)) in lines {
        let channels = named(&channels.iter().collect::<Vec<_>>());
        let follows = format!("; channels that cannot be restored because of it: {channels}");
        match problems.iter_mut().find(|problem| problem.starts_with(&place)) {
            Some(problem) => problem.push_str(&follows),
            None => problems.push(told + &follows),
        }
    }
}

/// What is wrong with a channel and the files of its artifacts.
fn wrong_in(inner: &Inner, reads: &Reads<'_>, channel: &ChannelId) -> Vec<Finding> {
    match ports::restore(inner, reads, channel) {
        Ok(_) => wrong_files(inner, reads, channel),
        Err(error) => vec![Finding::Channel(channel.clone(), error)],
    }
}

/// What is wrong with the files of a channel's artifacts.
fn wrong_files(inner: &Inner, reads: &Reads<'_>, channel: &ChannelId) -> Vec<Finding> {
    match reads.artifacts(channel, false) {
        Ok(artifacts) => {
            let wrong = artifacts.iter().filter_map(|artifact| inner.artifacts.wrong(channel, artifact));
            wrong.map(Finding::Artifact).collect()
        }
        Err(error) => vec![Finding::Channel(channel.clone(), error)],
    }
}

/// What is wrong with the files of a channel's artifacts, for people.
pub(crate) fn told_wrong_files(inner: &Inner, reads: &Reads<'_>, channel: &ChannelId) -> Vec<String> {
    let is_copy = inner.database.is_some();
    wrong_files(inner, reads, channel).into_iter().map(|one| one.told(is_copy)).collect()
}

/// What was found right about a store before it was opened: nobody uses it meanwhile, and nothing has to be read twice.
struct Known {
    journal: JournalReport,
    /// The rows, when they show the whole journal.
    rows: Option<Check>,
}

fn check_open(
    inner: &Inner,
    reads: &Reads<'_>,
    known: Option<Known>,
    quick: bool,
    progress: &Progress,
) -> Result<(VerifyReport, Doubtful, Checkpoint), StoreError> {
    let layout = Layout::of(&inner.options.dir);
    let since = if quick { Verified::read(&inner.options.dir, &layout.journal) } else { None };
    let goes_on = |n| inner.goes_on().and_then(|()| progress.reach(n));
    // In a running daemon turns come first.
    let threads = if known.is_some() { THREADS } else { 1 };
    let (journal, rows) = known.map_or((None, None), |known| (Some(known.journal), known.rows));
    let check = match (since, rows) {
        (Some(_), _) => Check { meta: reads.db.meta()?.unwrap_or_default(), ..Check::default() },
        (None, Some(rows)) => rows,
        (None, None) => {
            let rows = reads.db.meta()?.map(|meta| meta.rows.values().sum()).unwrap_or_default();
            progress.begin("rows", rows);
            let mut left = Ok(());
            let check = reads.db.check_until(&mut |n| {
                left = goes_on(n);
                left.is_ok()
            });
            left.map(|()| check)?
        }
    };
    // What the views show is durable, and written on behind it meanwhile.
    let end = check.meta.checkpoint();
    let len = if end.n == 0 { 0 } else { end.position.end() };
    let tail = Tail { n: end.n, segment: end.position.segment, len };
    let mut walk = JournalWalk::default();
    match journal.filter(|journal| journal.last == end.n) {
        Some(journal) => walk.report.journal = journal,
        None => {
            progress.begin("journal", end.n);
            walk = check_journal(&layout.journal, since.unwrap_or_default(), Some(tail), goes_on)?;
            if !walk.report.problems.is_empty() {
                marker::doubt(&inner.options.dir)?;
            }
        }
    }
    let mut report = walk.report;
    report.since = since.map(|since| since.n);
    add(check, &mut report);
    let channels: Vec<ChannelId> = match since {
        Some(_) => walk.channels.into_iter().collect(),
        None => reads.channels()?.into_iter().map(|row| row.channel).collect(),
    };
    report.channels = channels.len() as u64;
    progress.begin("channels", channels.len() as u64);
    Ok((report, doubtful(inner, reads, &channels, threads, &goes_on)?, end))
}

/// Restores every channel, by so many threads.
fn doubtful(
    inner: &Inner,
    reads: &Reads<'_>,
    channels: &[ChannelId],
    threads: usize,
    goes_on: &(impl Fn(u64) -> Result<(), StoreError> + Sync),
) -> Result<Doubtful, StoreError> {
    let n_done = AtomicU64::new(0);
    let some = |channels: &[ChannelId]| {
        let mut doubtful = Vec::new();
        for channel in channels {
            goes_on(n_done.fetch_add(1, Ordering::Relaxed) + 1)?;
            let wrong = wrong_in(inner, reads, channel);
            if !wrong.is_empty() {
                doubtful.push((channel.clone(), wrong));
            }
        }
        Ok(doubtful)
    };
    let (mine, others) = channels.split_at(channels.len().div_ceil(threads));
    std::thread::scope(|scope| {
        let other = (!others.is_empty()).then(|| scope.spawn(|| some(others)));
        let mut doubtful = some(mine)?;
        if let Some(other) = other {
            doubtful.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(doubtful)
    })
}

/// Up to where everything was checked, and nothing was wrong: a file of the state folder.
#[derive(Debug, Serialize, Deserialize)]
struct Verified {
    n: u64,
    segment: u64,
    offset: u64,
    len: u32,
}

impl Verified {
    fn of(end: &Checkpoint) -> Self {
        let Position { segment, offset, len } = end.position;
        Self { n: end.n, segment, offset, len }
    }

    /// Where checking goes on; `None`: at the beginning.
    fn read(dir: &Path, journal: &Path) -> Option<Checkpoint> {
        let Self { n, segment, offset, len } =
            serde_json::from_slice(&fs::read(dir.join(VERIFIED)).ok()?).ok()?;
        let since = Checkpoint { n, position: Position { segment, offset, len } };
        (n > 0 && holds(journal, &since)).then_some(since)
    }

    fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(VERIFIED);
        put(&path, |file| file.write_all(&serde_json::to_vec(self)?)).map_err(io_error("write", &path))
    }
}

/// Keeps what a check has found, for the next quick one and the next start. `end`: up to where all was checked.
async fn keep_outcome(dir: PathBuf, problems: Vec<String>, end: Option<Checkpoint>) {
    let keep = move || match end {
        Some(end) if problems.is_empty() => {
            Verified::of(&end).write(&dir)?;
            note(&dir, &problems)
        }
        _ => note(&dir, &problems),
    };
    // Without it the next check begins at the beginning, or the next start says nothing before its own check.
    if let Err(error) = blocking(CHECKING, keep).await {
        tracing::warn!(%error, "cannot save the result of a check");
    }
}

/// Keeps what is damaged. The next quick check is one of all then.
pub(crate) fn note(dir: &Path, damage: &[String]) -> Result<(), StoreError> {
    if !damage.is_empty() {
        remove_file(&dir.join(VERIFIED))?;
    }
    Mark::note(&Layout::of(dir).checked, damage)
}

/// Checks the store in a folder that no daemon has open. With `quarantine`, damaged journal lines are quarantined first, and
/// they and what is missing are said to be lost; the views are then moved aside and made again.
///
/// # Errors
/// [`StoreError::InUse`], or something cannot be read or written at all.
pub async fn verify_dir(options: StoreOptions, quarantine: bool) -> Result<VerifyReport, StoreError> {
    if quarantine && options.database.is_some() {
        let message = "a copy of a database cannot be quarantined: one that is damaged is copied again from the database when the node starts";
        return Err(StoreError::Elsewhere { message: message.to_owned() });
    }
    // It is removed when the store is closed.
    let (options, _read_only) = if quarantine { (options, None) } else { ReadOnlyState::stand_in(options)? };
    let (dir, progress) = (options.dir.clone(), options.progress.clone());
    let (report, opened) = blocking(CHECKING, move || verify_blocking(options, quarantine)).await?;
    let Some((opened, known)) = opened else {
        if !report.ok {
            keep_outcome(dir, report.problems.clone(), None).await;
        }
        return Ok(report);
    };
    let opened = unless_stopped(opened, &progress).await?;
    let store = &opened.store;
    let accepted = if quarantine { store.accept_lost().await } else { Ok(Vec::new()) };
    let mut found = match &accepted {
        Ok(_) => store.verify_beyond(known, false, &progress).await,
        Err(error) => Err(error.clone()),
    };
    opened.close().await;
    if let Ok(found) = &mut found {
        found.problems.splice(0..0, report.problems.into_iter().chain(accepted.unwrap_or_default()));
        found.views.bad += report.views.bad;
    }
    found
}

/// Opens the store in a folder that no daemon has open, and checks what was journalled since the last check of all.
///
/// # Errors
/// [`StoreError::InUse`], [`StoreError::Damaged`], or something cannot be read or written at all.
pub async fn verify_dir_quick(options: StoreOptions) -> Result<VerifyReport, StoreError> {
    let progress = options.progress.clone();
    let opened = blocking(CHECKING, move || OpenedStore::open(options)).await?;
    let opened = unless_stopped(opened, &progress).await?;
    let report = opened.store.verify_watched(true, &progress).await;
    opened.close().await;
    report
}

/// A store whose opening was stopped is closed: views that were given up half made are waited for in vain.
async fn unless_stopped(opened: OpenedStore, progress: &Progress) -> Result<OpenedStore, StoreError> {
    if !progress.is_stopped() {
        return Ok(opened);
    }
    opened.close().await;
    Err(StoreError::Stopped)
}

/// Makes views and search index again from the journal. Those that are there give way once the others are whole; when it
/// fails or is stopped they are back in their place.
///
/// # Errors
/// [`StoreError::InUse`]; [`StoreError::Damaged`]: what is there is all that tells of what the journal has lost, and stays.
/// Or the journal cannot be read; [`StoreError::Stopped`].
pub async fn rebuild_dir(options: StoreOptions) -> Result<VerifyReport, StoreError> {
    let (dir, progress) = (options.dir.clone(), options.progress.clone());
    let of = dir.clone();
    blocking(CHECKING, move || {
        let _lock = take_lock(&of)?;
        let layout = Layout::of(&of);
        refuse_lost_end(&layout.journal, &view_state(&layout)?)?;
        // What a rebuild that was killed has left there: the next start went on with what it had made.
        remove_dir(&of.join(BEFORE))
    })
    .await?;
    let opened = blocking(CHECKING, move || {
        let lock = take_lock(&options.dir)?;
        move_before(&options.dir)?;
        drop(lock);
        OpenedStore::open(options)
    })
    .await;
    let outcome = match opened {
        Ok(opened) => {
            let rebuilt = rebuild(&opened.store, &progress).await;
            opened.close().await;
            rebuilt
        }
        Err(error) => Err(error),
    };
    let is_rebuilt = outcome.is_ok();
    blocking(CHECKING, move || {
        let lock = take_lock(&dir)?;
        if !is_rebuilt {
            put_back(&dir)?;
        }
        remove_dir(&dir.join(BEFORE))?;
        drop(lock);
        Ok::<_, StoreError>(())
    })
    .await?;
    outcome
}

/// Waits until an open store's views and index are made, and checks it.
async fn rebuild(store: &Store, progress: &Progress) -> Result<VerifyReport, StoreError> {
    if progress.is_stopped() {
        return Err(StoreError::Stopped);
    }
    let last = store.inner.durable().tail.n;
    progress.begin("index", last);
    store.settle_index(last, |n| progress.reach(n)).await?;
    store.verify_watched(false, progress).await
}

/// Where views and index are while they are made again.
const BEFORE: &str = "before-rebuild";

/// Moves views and index out of the way.
fn move_before(dir: &Path) -> Result<(), StoreError> {
    let (layout, before) = (Layout::of(dir), dir.join(BEFORE));
    make_dir(&before)?;
    move_folder(&layout.views, &before.join("views"))?;
    move_folder(&layout.index, &before.join("index"))
}

/// Moves back what is there, in the place of what was made.
fn put_back(dir: &Path) -> Result<(), StoreError> {
    let (layout, before) = (Layout::of(dir), dir.join(BEFORE));
    for (place, from) in [(&layout.views, before.join("views")), (&layout.index, before.join("index"))] {
        if from.exists() {
            remove_dir(place)?;
            move_folder(&from, place)?;
        }
    }
    Ok(())
}

/// Moves a folder; one that is not there is fine.
fn move_folder(from: &Path, to: &Path) -> Result<(), StoreError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("move", from)(error)),
        _ => Ok(()),
    }
}

/// A store that was checked before it was opened, with what is known of it.
type Checked = (OpenedStore, Option<Known>);

/// The check that comes before opening: opening would mend views in silence, and refuses a damaged journal.
fn verify_blocking(
    options: StoreOptions,
    quarantine: bool,
) -> Result<(VerifyReport, Option<Checked>), StoreError> {
    let layout = Layout::of(&options.dir);
    let there = layout.journal.try_exists().map_err(io_error("look into", &options.dir))?;
    if !there && !restore::is_pending(&options.dir) {
        return Ok((VerifyReport { ok: true, ..VerifyReport::default() }, None));
    }
    let lock = take_lock(&options.dir)?;
    let mut done = Vec::new();
    if quarantine {
        marker::refuse(&options.dir)?;
        done = quarantine::quarantine(&layout.journal, &layout.quarantine, &view_state(&layout)?)?;
        if !done.is_empty() {
            // What they show of the lost records stays until the next time.
            move_aside(&layout.views)?;
            remove_dir(&layout.index)?;
        }
    }
    let progress = &options.progress;
    progress.begin("journal", 0);
    let (walk, closed) = std::thread::scope(|scope| {
        let walk = scope
            .spawn(|| check_journal(&layout.journal, Checkpoint::default(), None, |n| progress.reach(n)));
        let closed = check_closed(&layout);
        (walk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), closed)
    });
    let JournalWalk { mut report, end, .. } = walk?;
    let is_whole = report.problems.is_empty();
    let (state, check) = closed?;
    let known = (!quarantine).then(|| Known {
        journal: report.journal.clone(),
        rows: (check.meta.n == end.n && !check.is_old).then(|| check.clone()),
    });
    add(check, &mut report);
    let lost = match refuse_lost_end(&layout.journal, &state) {
        Ok(()) => None,
        Err(error @ StoreError::Damaged { .. }) if is_whole => Some(error.to_string()),
        // What else is wrong is told already.
        Err(StoreError::Damaged { .. }) => {
            state.behind(&end).map(|last| lost_message(end.n + 1, last.n, None, &state))
        }
        Err(error) => return Err(error),
    };
    report.problems.extend(lost);
    if !is_whole {
        // The next start of a copy's node copies it again.
        marker::doubt(&options.dir)?;
    }
    drop(lock);
    if !report.problems.is_empty() {
        report.problems.splice(0..0, done);
        return Ok((report, None));
    }
    for line in &done {
        tracing::warn!(what = line, "moved damaged journal lines to quarantine");
    }
    report.problems = done;
    Ok((report, Some((OpenedStore::open(options)?, known))))
}

/// What a walk through the journal found.
#[derive(Default)]
struct JournalWalk {
    report: VerifyReport,
    /// Where it ends.
    end: Tail,
    channels: BTreeSet<ChannelId>,
}

/// Reads every line of every segment behind `from`, up to `end` when one is given. A torn end, which is cut off at the next
/// start, is no problem. `reach` is told each number.
fn check_journal(
    dir: &Path,
    from: Checkpoint,
    end: Option<Tail>,
    reach: impl Fn(u64) -> Result<(), StoreError>,
) -> Result<JournalWalk, StoreError> {
    let JournalWalk { mut report, mut channels, .. } = JournalWalk::default();
    let mut last = Tail { n: from.n, ..Tail::default() };
    // Lines behind it that cannot be read: the number that comes next is not known then.
    let mut n_bad = 0;
    let mut segments = segment::list(dir)?;
    // The writer may have begun another one meanwhile.
    segments.retain(|first| *first >= from.position.segment && end.is_none_or(|end| *first <= end.segment));
    report.journal.segments = segments.len() as u64;
    for (idx, first) in segments.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = idx + 1 == segments.len();
        let upto = end.filter(|end| end.segment == *first).map(|end| end.len);
        let begin = if *first == from.position.segment && from.n > 0 { from.position.end() } else { 0 };
        let mut lines = Lines::open(&path, begin, upto)?;
        let mut torn: Vec<String> = Vec::new();
        let mut number = if begin == 0 { 0 } else { segment::line_number(&path, begin)? - 1 };
        last = Tail { segment: *first, len: 0, ..last };
        loop {
            number += 1;
            let (parsed, line_end) = match lines.next()? {
                Piece::End => break,
                Piece::Torn { .. } => {
                    torn.push(problem(&path, number, "it has no end"));
                    break;
                }
                Piece::Line { bytes, offset } => (line::parse(bytes), offset + bytes.len() as u64 + 1),
            };
            match parsed {
                Ok(record) => {
                    reach(record.n)?;
                    report.problems.append(&mut torn);
                    let expected = last.n + 1;
                    let follows = if n_bad == 0 { record.n == expected } else { record.n >= expected };
                    if !follows {
                        let message = format!("it has number {}, expected {expected}", record.n);
                        report.problems.push(problem(&path, number, &message));
                    }
                    n_bad = 0;
                    report.journal.events += 1;
                    let n = last_n(&record.event, record.n);
                    last = Tail { n, segment: *first, len: line_end };
                    channels.extend(record.channel);
                }
                Err(message) => {
                    n_bad += 1;
                    torn.push(problem(&path, number, &message));
                }
            }
        }
        // Up to an end that is known to be durable there is none that a crash left.
        if !is_last || end.is_some() {
            report.problems.append(&mut torn);
        }
    }
    if let Some(end) = end.filter(|end| last.n + n_bad < end.n) {
        let path = segment::path(dir, end.segment);
        let message = format!("records {} to {} are missing at its end", last.n + 1, end.n);
        report.problems.push(format!("{}: {message}", segment::file_of(&path).display()));
    }
    report.journal.last = last.n;
    report.channels = channels.len() as u64;
    Ok(JournalWalk { report, end: last, channels })
}

fn problem(path: &Path, line: u64, message: &str) -> String {
    place(&segment::file_of(path).display().to_string(), line) + message
}

/// How a problem begins that is of a line, as a [`StoreError::Damaged`] does.
fn place(file: &str, line: u64) -> String {
    format!("{file}, line {line}: ")
}

fn add(check: Check, report: &mut VerifyReport) {
    report.views = ViewsReport { applied: check.meta.n, records: check.rows.values().sum(), bad: check.bad };
    report.memories = check.rows.get(&'m').copied().unwrap_or(0);
    report.problems.extend(check.problems);
}
