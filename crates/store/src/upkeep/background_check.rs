//! The check of what a start leaves unread: every line of the journal, every file of an artifact, every row of the views,
//! every file of the index, a little at a time while the daemon runs.
//!
//! What is wrong with views or index is mended at once from the journal. What is wrong with journal or artifacts is told
//! until somebody mends it, by each start, too. The time of the last pass that found nothing is in `checked`, so that a
//! start after a clean stop need not begin again.

use std::time::{Duration, Instant};

use cairn_core::store_port::Store as _;
use cairn_types::ids::ChannelId;
use cairn_types::ports::{Clock, StoreError};
use jiff::{SignedDuration, Timestamp};

use crate::cluster::marker;
use crate::files::disk::Layout;
use crate::index::Task;
use crate::journal::line::read_number;
use crate::journal::mark::{DAMAGE_MAX, Mark};
use crate::journal::open::Tail;
use crate::journal::segment::{self, Lines, Piece};
use crate::store::{Inner, Store};
use crate::upkeep::verify::{note, told_wrong_files};
use crate::views::archive::Reads;

/// Read without a pause.
const STEP_BYTES: u64 = 256 * 1024;
const STEP_ROWS: usize = 500;

/// A pause is so many times as long as what came before it: the check takes a twentieth of one processor.
const PAUSES: u32 = 19;

/// A start has other things to do first.
const FIRST_AFTER: Duration = Duration::from_secs(60);

/// What was read whole is read again after so long.
const EVERY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The pause after a pass that found something, or was broken off by an error.
const AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);

/// Checks the store in the background, again and again, until it is closed. After a crash, and with new views, it first
/// restores the channels that lists and first turns need.
pub async fn keep_checked(store: Store, clock: std::sync::Arc<dyn Clock>) {
    if (store.inner.views_are_new || !store.stopped_cleanly())
        && let Err(error) = store.restore_beforehand(0, PAUSES, || store.inner.goes_on()).await
    {
        tracing::warn!(%error,
            "some channels could not be restored in advance; their first list or turn takes longer");
    }
    let mut wait = first_wait(store.checked_at(), store.stopped_cleanly(), clock.now());
    loop {
        tokio::time::sleep(wait).await;
        wait = match store.check(clock.now()).await {
            Ok(problems) if problems.is_empty() => EVERY,
            Ok(_) => AGAIN_AFTER,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "the background check of the store was interrupted; it starts again later");
                AGAIN_AFTER
            }
        };
    }
}

/// How long after a start the first check begins: at once unless everything was read lately and the last stop was clean.
fn first_wait(checked_at: Option<Timestamp>, stopped_cleanly: bool, now: Timestamp) -> Duration {
    let Some(at) = checked_at.filter(|_| stopped_cleanly) else { return FIRST_AFTER };
    let every = SignedDuration::try_from(EVERY).unwrap_or(SignedDuration::ZERO);
    let left = every.saturating_sub(now.duration_since(at)).min(every);
    Duration::try_from(left).unwrap_or_default().max(FIRST_AFTER)
}

impl Store {
    /// When the last full check that found nothing ended; `None`: there was none.
    fn checked_at(&self) -> Option<Timestamp> {
        Mark::read(&Layout::of(&self.inner.options.dir).checked).checked_at
    }

    /// Reads everything that was there when it began, slowly. What is wrong is logged, counted and kept for
    /// [`crate::StoreStats`]; views and index that are damaged are made again. Returns what is wrong, for people.
    ///
    /// # Errors
    /// Something cannot be read at all, or the store is closed.
    pub async fn check(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let began = Instant::now();
        let mut found = Found::default();
        self.check_journal_slowly(&mut found).await?;
        self.check_artifacts_slowly(&mut found).await?;
        self.inner.damage.lock().clone_from(&found.told);
        let damage = found.told.clone();
        self.step(move |inner| note(&inner.options.dir, &damage)).await?;
        self.check_views_slowly(&mut found).await?;
        self.check_index_slowly(&mut found).await?;
        let seconds = began.elapsed().as_secs_f64();
        if found.n > 0 {
            tracing::error!(problems = found.n, seconds, "the background check of the store found damage");
            return Ok(found.told);
        }
        tracing::info!(seconds, "the background check of the store found no problems");
        let path = Layout::of(&self.inner.options.dir).checked;
        self.step(move |_| Mark { checked_at: Some(now), ..Mark::read(&path) }.keep(&path)).await?;
        Ok(found.told)
    }

    async fn check_journal_slowly(&self, found: &mut Found) -> Result<(), StoreError> {
        let end = self.inner.durable().tail;
        let dir = Layout::of(&self.inner.options.dir).journal;
        let mut at = Some(CheckedTo::default());
        while let Some(place) = at {
            let dir = dir.clone();
            let (next, problems) = self.step(move |_| place.read_on(&dir, &end)).await?;
            at = next;
            problems.into_iter().for_each(|problem| found.tell(problem.to_string()));
        }
        if found.n > 0 && self.inner.database.is_some() {
            self.step(|inner| marker::doubt(&inner.options.dir)).await?;
            found.tell("the journal here is a copy: the next start of this node copies it again".to_owned());
        }
        Ok(())
    }

    async fn check_artifacts_slowly(&self, found: &mut Found) -> Result<(), StoreError> {
        for row in self.channels().await? {
            let wrong_in = async |channel: ChannelId| {
                self.step_on_views(move |inner, reads| Ok(told_wrong_files(inner, reads, &channel))).await
            };
            let wrong = wrong_in(row.channel.clone()).await?;
            if wrong.is_empty() {
                continue;
            }
            // What expired while it was looked at is gone from the views now.
            self.settle().await?;
            let still = wrong_in(row.channel).await?;
            still.into_iter().filter(|one| wrong.contains(one)).for_each(|problem| found.tell(problem));
        }
        Ok(())
    }

    async fn check_views_slowly(&self, found: &mut Found) -> Result<(), StoreError> {
        let checked = loop {
            let step = self.step_on_views(|_, Reads { db, .. }| {
                Ok(if db.is_in_memory() { Some(Default::default()) } else { db.check_next(STEP_ROWS) })
            });
            if let Some(checked) = step.await? {
                break checked;
            }
        };
        if !checked.problems.is_empty() {
            // Opened again they are read whole, moved aside, and made again.
            self.inner.views.db()?.doubt().store(true, std::sync::atomic::Ordering::Release);
            self.inner.views.wake(&self.inner.commands);
        }
        for problem in checked.problems {
            found.tell(format!("{problem}; the views are rebuilt from the journal"));
        }
        Ok(())
    }

    async fn check_index_slowly(&self, found: &mut Found) -> Result<(), StoreError> {
        let Ok(files) = self.step(|inner| inner.index.files()).await else {
            // One that cannot be opened is told where it is tried.
            return Ok(());
        };
        let mut n_damaged = 0;
        for file in files {
            let is_sound = self.step(move |inner| inner.index.is_sound(&file)).await?;
            n_damaged += usize::from(!is_sound);
        }
        if n_damaged > 0 {
            self.inner.index.doubt();
            let _ = self.inner.tasks.try_send(Task::Wake);
            found.tell(format!(
                "{n_damaged} files of the search index have a wrong checksum; it is made again from the journal"
            ));
        }
        Ok(())
    }

    /// Reads a little of the views, and rests.
    async fn step_on_views<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner, &Reads<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let read = move |inner: &Inner| {
            let db = inner.views.db()?;
            let read = read(inner, &Reads { db: &db, journal: &inner.journal });
            inner.views.release(db);
            read
        };
        self.step(read).await
    }

    /// Does a little on a background thread, and rests.
    async fn step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.goes_on()?;
        let inner = self.inner.clone();
        let timed = move || {
            let began = Instant::now();
            Ok((work(&inner)?, began.elapsed()))
        };
        let (done, took) = self.inner.background.run("checking it", timed).await?;
        tokio::time::sleep(took * PAUSES).await;
        Ok(done)
    }
}

/// What is wrong, told as it is found.
#[derive(Default)]
struct Found {
    n: usize,
    told: Vec<String>,
}

impl Found {
    fn tell(&mut self, problem: String) {
        self.n += 1;
        if self.told.len() < DAMAGE_MAX {
            tracing::error!(problem, "the background check found a problem");
            self.told.push(problem);
        }
    }
}

/// How far the journal is checked.
#[derive(Debug, Clone, Copy, Default)]
struct CheckedTo {
    /// 0: none yet.
    segment: u64,
    offset: u64,
    /// The last number; not known behind a line that cannot be read.
    last: Option<u64>,
}

impl CheckedTo {
    /// Checks the lines that follow, up to some bytes or the end of the segment. Returns where to go on, and what is wrong.
    fn read_on(
        mut self,
        dir: &std::path::Path,
        end: &Tail,
    ) -> Result<(Option<Self>, Vec<StoreError>), StoreError> {
        let mut problems = Vec::new();
        if self.segment == 0 {
            return Ok((Self { last: Some(0), ..self }.next(dir, end, &mut problems)?, problems));
        }
        let path = segment::path(dir, self.segment);
        let upto = (self.segment == end.segment).then_some(end.len);
        let mut lines = match Lines::open(&path, self.offset, upto) {
            Ok(lines) => lines,
            Err(error) => {
                problems.push(error);
                self.last = None;
                return Ok((self.next(dir, end, &mut problems)?, problems));
            }
        };
        let until = self.offset + STEP_BYTES;
        while self.offset < until {
            let piece = match lines.next() {
                Ok(piece) => piece,
                // A disk that cannot read it: what follows in the segment is not known.
                Err(error) => {
                    problems.push(error);
                    self.last = None;
                    return Ok((self.next(dir, end, &mut problems)?, problems));
                }
            };
            let (offset, read) = match piece {
                Piece::End => return Ok((self.next(dir, end, &mut problems)?, problems)),
                Piece::Torn { offset } => {
                    problems.push(segment::damaged(&path, offset, "it has no end"));
                    self.last = None;
                    return Ok((self.next(dir, end, &mut problems)?, problems));
                }
                Piece::Line { offset, bytes } => {
                    self.offset = offset + bytes.len() as u64 + 1;
                    (offset, read_number(bytes, offset))
                }
            };
            match (read, self.last) {
                (Ok((n, to_n, ..)), Some(last)) if n != last + 1 => {
                    let message = format!("it has number {n}, expected {}", last + 1);
                    problems.push(segment::damaged(&path, offset, message));
                    self.last = Some(to_n);
                }
                (Ok((_, to_n, ..)), _) => self.last = Some(to_n),
                (Err(message), _) => {
                    problems.push(segment::damaged(&path, offset, message));
                    self.last = None;
                }
            }
        }
        Ok((Some(self), problems))
    }

    /// Goes to the next segment.
    fn next(
        self,
        dir: &std::path::Path,
        end: &Tail,
        problems: &mut Vec<StoreError>,
    ) -> Result<Option<Self>, StoreError> {
        let next =
            segment::list(dir)?.into_iter().find(|first| (self.segment + 1..=end.segment).contains(first));
        let path = segment::path(dir, next.unwrap_or(end.segment));
        let begins = next.unwrap_or(end.n + 1);
        if let Some(last) = self.last.filter(|last| last + 1 != begins) {
            let message =
                format!("records {} to {} are missing before it", last + 1, begins.saturating_sub(1));
            let file = segment::file_of(&path).display().to_string();
            problems.push(StoreError::Damaged { file, line: 1, message });
        }
        Ok(next.map(|segment| Self { segment, offset: 0, last: Some(segment - 1) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_lately_before_a_clean_stop_is_not_read_again_at_once() {
        let now = Timestamp::from_second(100 * 24 * 3600).unwrap();
        let days = |n: i64| Some(now - SignedDuration::from_hours(24 * n));
        assert_eq!(first_wait(None, true, now), FIRST_AFTER, "never read");
        assert_eq!(first_wait(days(1), false, now), FIRST_AFTER, "killed");
        assert_eq!(first_wait(days(1), true, now), EVERY - Duration::from_secs(24 * 3600));
        assert_eq!(first_wait(days(9), true, now), FIRST_AFTER);
        assert_eq!(first_wait(days(-900), true, now), EVERY, "a clock that was ahead");
    }
}
