//! The one thread that writes the index, behind the views.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use cairn_types::event::{
    CompactionEvent, Event, MaintenanceEvent, MemoryEvent, MessageEvent, Record, TurnEvent,
};
use cairn_types::ids::{ChannelId, MemoryId, Seq, SummaryId};
use cairn_types::memory::MemorySave;
use cairn_types::ports::StoreError;
use tantivy::indexer::IndexWriterOptions;
use tantivy::{IndexWriter, Term};
use tokio::sync::{oneshot, watch};

use super::documents::{self, Recent, Write};
use super::recents::Recents;
use super::schema::Subject;
use super::search_index::{FORMAT, Payload, SearchIndex, index_error, index_failure, readable};
use crate::files::disk::lower_priority;
use crate::journal::Durable;
use crate::journal::open::Checkpoint;
use crate::journal::reader::{Follower, Reader};
use crate::journal::segment::Position;
use crate::views::archive::Reads;
use crate::views::{Views, memories};

/// A commit comes at the latest so long after the first document that it holds, or after so many bytes of them: until then
/// they may all wait in memory.
const COMMIT_EVERY: Duration = Duration::from_secs(2);
const COMMIT_BYTES: usize = 16 << 20;

/// tantivy's write buffer: a segment is written whenever it is full. About 13 MB of it are tables of tantivy's own. With the
/// least that tantivy takes, 15 MB, segments are so small that making the index again takes two to four times as long.
const BUFFER_BYTES: usize = 30_000_000;

/// Merges at once: each holds something for every document that it merges.
const MERGES: usize = 1;

/// An index that lacks more records than that is brought up on a thread that gives way to turns, memories first.
const FAR_BEHIND: u64 = 10_000;

/// How nice that thread is, and those that tantivy starts from it: a commit must come to an end while the machine is busy.
const NICE: i32 = 10;

/// Memories whose rows are read together.
const MEMORIES_AT_ONCE: usize = 200;

/// At the end merges get no longer.
const MERGE_LIMIT: Duration = Duration::from_millis(250);

/// After a failure the index is tried again this often.
const RETRY: Duration = Duration::from_secs(2);

/// Entries read back to find the last ones that are indexed.
const LOOK_BACK: u64 = 24;

pub(crate) enum Task {
    Wake,
    Settle {
        /// The record that whoever asks wants to find.
        upto: u64,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Commit what is not yet, unless that takes long, and end.
    Close,
}

pub(crate) struct Indexer {
    index: Arc<SearchIndex>,
    views: Arc<Views>,
    journal: Arc<Reader>,
    durable: watch::Receiver<Durable>,
    follower: Follower,
    writer: Option<IndexWriter>,
    recent: Recents,
    uncommitted_bytes: usize,
    first_uncommitted: Option<Instant>,
    committed: Checkpoint,
    is_broken: bool,
    /// It has been told that it is, and it has not got on since.
    is_told: bool,
}

impl Indexer {
    /// An indexer that reads on from where the index reaches.
    pub(crate) fn new(
        index: Arc<SearchIndex>,
        at: Option<Checkpoint>,
        views: Arc<Views>,
        journal: Arc<Reader>,
        durable: watch::Receiver<Durable>,
    ) -> Self {
        let is_broken = at.is_none();
        let at = at.unwrap_or_default();
        let follower = Follower::new(&index.journal, at);
        Self {
            index,
            views,
            journal,
            durable,
            follower,
            writer: None,
            recent: Recents::new(0),
            uncommitted_bytes: 0,
            first_uncommitted: None,
            committed: at,
            is_broken,
            is_told: is_broken,
        }
    }

    /// The indexer with so many bytes for the last entries of channels.
    #[must_use]
    pub(crate) fn within(mut self, recent_bytes: usize) -> Self {
        self.recent = Recents::new(recent_bytes);
        self
    }

    /// Runs until it is closed or nobody is left who could wake it.
    pub(crate) fn run(mut self, tasks: &Receiver<Task>) {
        while self.index.goes_on().is_ok() {
            let due = self.step(false).is_ok() && self.first_uncommitted.is_none();
            let task = match self.first_uncommitted {
                _ if self.is_broken => tasks.recv_timeout(RETRY),
                Some(first) => tasks.recv_timeout(COMMIT_EVERY.saturating_sub(first.elapsed())),
                None if due => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
                None => tasks.recv_timeout(RETRY),
            };
            match task {
                Ok(Task::Wake) | Err(RecvTimeoutError::Timeout) => {}
                // Those who waited while it caught up are answered by one commit.
                Ok(Task::Settle { upto, reply }) => {
                    let there = self.index.reaches() >= upto;
                    // Nobody waits any more: no error.
                    let _ = reply.send(if there { Ok(()) } else { self.step(true) });
                }
                Ok(Task::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.finish();
    }

    /// Commits when it has caught up: else the next start goes on from the last commit. Nobody waits for an index.
    fn finish(mut self) {
        if self.is_broken || self.step(true).is_err() {
            return;
        }
        let Some(writer) = self.writer.take() else { return };
        let (tell, merged) = sync_channel(1);
        let merge = move || drop(tell.send(writer.wait_merging_threads()));
        if std::thread::Builder::new().name("index merge".to_owned()).spawn(merge).is_ok()
            && let Ok(Err(error)) = merged.recv_timeout(MERGE_LIMIT)
        {
            tracing::warn!(%error, "a merge of the search index failed; the next start continues it");
        }
    }

    /// Indexes what the views show, and commits when it is time or when asked to.
    fn step(&mut self, commit: bool) -> Result<(), StoreError> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let is_doubted = self.index.doubt.swap(false, Ordering::AcqRel);
            if is_doubted || self.is_broken {
                self.is_broken = true;
                self.start_over(is_doubted)?;
            }
            // Nothing can be read from views that are being mended; they wake this thread when they are.
            let mended = self.views.applied().borrow().error.is_none();
            if mended {
                self.know_changes()?;
            }
            if mended && self.writer.is_none() && self.lacks() > FAR_BEHIND {
                self.catch_up()?;
            }
            if mended {
                self.take_records()?;
            }
            let due = self.first_uncommitted.is_some_and(|first| first.elapsed() >= COMMIT_EVERY);
            if commit || due {
                self.commit()?;
            }
            self.note_reach();
            Ok(())
        }));
        let error = match outcome {
            Ok(Ok(())) => {
                self.is_told = false;
                return Ok(());
            }
            Ok(Err(StoreError::Closed)) => return Err(StoreError::Closed),
            Ok(Err(error)) => error,
            Err(_) => index_failure("it panicked while it was written"),
        };
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::error!(%error, "the search index cannot be written; trying again; nothing else is affected");
        }
        self.is_broken = true;
        Err(error)
    }

    /// Reopens or rebuilds the index, and continues behind the last record that it has.
    fn start_over(&mut self, is_damaged: bool) -> Result<(), StoreError> {
        let index = Arc::clone(&self.index);
        index.calls.within(|| self.writer = None);
        let mut at = index.calls.within(|| if is_damaged { index.remake() } else { index.reopen(0) })?;
        // Each file is a call of its own: a disk that is slow with many is not stuck.
        for file in if at.n == 0 { Vec::new() } else { index.files()? } {
            if !index.calls.within(|| index.is_sound(&file))? {
                at = index.calls.within(|| index.remake())?;
                break;
            }
        }
        self.follower = Follower::new(&self.index.journal, at);
        self.committed = at;
        self.recent.clear();
        self.uncommitted_bytes = 0;
        self.first_uncommitted = None;
        self.is_broken = false;
        Ok(())
    }

    /// Records that the views show and the index does not.
    fn lacks(&self) -> u64 {
        self.views.applied().borrow().n.saturating_sub(self.follower.checkpoint().n)
    }

    /// Has recall know which memories changed in what the index lacks: these are read from their rows, all others are found.
    fn know_changes(&self) -> Result<(), StoreError> {
        let (from, upto) = (self.committed, self.views.changes_known_from());
        if self.index.has_memories_to() >= upto || upto.saturating_sub(from.n) > FAR_BEHIND {
            return Ok(());
        }
        let db = self.views.db()?;
        let (mut follower, tail) = (Follower::new(&self.index.journal, from), self.durable.borrow().tail);
        let mut changed = Vec::new();
        while follower.checkpoint().n < upto {
            let Some((record, _)) = follower.next(&tail)? else { return Ok(()) };
            changed.extend(memories::changed_by(&db, &record)?.into_iter().map(|of| (record.n, of)));
        }
        self.views.know_changed_memories(from.n, changed, upto);
        Ok(())
    }

    /// Catches up an index that is far behind, on a thread of low priority, so that turns continue. tantivy's threads have a
    /// low priority from then on, too: they inherit it from the thread that creates the writer.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        std::thread::scope(|scope| {
            let work = || {
                lower_priority(NICE);
                if self.index.has_memories_to() < self.views.changes_known_from() {
                    self.take_memories()?;
                }
                self.take_records()
            };
            let thread = std::thread::Builder::new().name("index remake".to_owned());
            let spawned =
                thread.spawn_scoped(scope, work).map_err(|error| index_failure(error.to_string()))?;
            spawned.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Takes in all memories as the views show them: recall need not wait for the history before them. What changed since is
    /// met again in the journal.
    fn take_memories(&mut self) -> Result<(), StoreError> {
        let applied = self.views.applied().borrow().n;
        let mut after = None;
        loop {
            self.index.goes_on()?;
            let db = self.views.db()?;
            let page = memories::page(&db, after.as_ref(), MEMORIES_AT_ONCE)?;
            drop(db);
            for (_, row) in page.iter().filter(|(_, row)| row.made.0 <= applied) {
                self.write(documents::of_memory(&self.index.fields, &row.memory))?;
            }
            if self.uncommitted_bytes >= COMMIT_BYTES {
                self.commit_here(self.index.has_memories_to(), applied)?;
            }
            match page.into_iter().last() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
        if self.first_uncommitted.is_some() {
            self.commit_here(applied, applied)?;
        }
        self.index.note_memories(applied);
        self.views.forget_changed_memories(applied);
        Ok(())
    }

    fn take_records(&mut self) -> Result<(), StoreError> {
        let applied = self.views.applied().borrow().n;
        let tail = self.durable.borrow().tail;
        while self.follower.checkpoint().n < applied.min(tail.n) {
            self.index.goes_on()?;
            let Some((record, _)) = self.follower.next(&tail)? else { break };
            self.take(&record)?;
            if self.uncommitted_bytes >= COMMIT_BYTES {
                self.commit()?;
                self.note_reach();
            }
        }
        Ok(())
    }

    /// Says how far the words can be found.
    fn note_reach(&self) {
        let all = self.first_uncommitted.is_none();
        let n = if all { self.follower.checkpoint().n } else { self.committed.n };
        self.index.reaches.fetch_max(n, Ordering::AcqRel);
        self.index.note_memories(n);
        self.views.forget_changed_memories(self.index.reaches());
    }

    fn take(&mut self, record: &Record) -> Result<(), StoreError> {
        match (&record.event, &record.channel) {
            (Event::Turn(TurnEvent::EntryAdded { entry }), Some(channel)) => self.take_entry(channel, entry),
            (Event::Turn(event), Some(channel)) => {
                let Some((from, to)) = event.numbers() else { return Ok(()) };
                let (db, n) = (self.views.db()?, (to.0 - from.0) as usize + 1);
                let entries = Reads { db: &db, journal: &self.journal }.entries(channel, from, to, n)?;
                entries.iter().try_for_each(|entry| self.take_entry(channel, entry))
            }
            (Event::Compaction(CompactionEvent::RunEnded(end)), channel) => {
                // One without words has expired.
                if let (Some(summary), Some(channel)) = (&end.summary, channel)
                    && !summary.text.is_empty()
                {
                    self.write(documents::of_summary(&self.index.fields, channel, summary))?;
                }
                end.memories.iter().try_for_each(|save| self.take_save(save, record.n))
            }
            (Event::Message(MessageEvent::Deleted { message, seqs }), Some(channel)) => {
                let db = self.views.db()?;
                let known = Reads { db: &db, journal: &self.journal }.seqs_of(channel, message)?;
                let seqs: BTreeSet<Seq> = known.into_iter().chain(seqs.iter().copied()).collect();
                seqs.into_iter().try_for_each(|seq| self.delete_entry(channel, seq, record.n))
            }
            (Event::Maintenance(MaintenanceEvent::WordsExpired { channel, entries, summaries }), _) => {
                self.expire(channel, entries, summaries, record.n)
            }
            (Event::Memory(MemoryEvent::Saved(save)), _) => self.take_save(save, record.n),
            (Event::Memory(MemoryEvent::Edited { id, .. } | MemoryEvent::Forgotten { id, .. }), _) => {
                self.take_memory(id, record.n)
            }
            _ => Ok(()),
        }
    }

    fn take_entry(
        &mut self,
        channel: &ChannelId,
        entry: &cairn_types::message::Entry,
    ) -> Result<(), StoreError> {
        if !self.recent.has(channel) {
            let from = Seq(entry.seq.0.saturating_sub(LOOK_BACK).max(1));
            let to = Seq(entry.seq.0.saturating_sub(1));
            let db = self.views.db()?;
            let before = Reads { db: &db, journal: &self.journal }.entries(channel, from, to, usize::MAX);
            self.recent.keep(channel, Recent::loaded(&readable(before)?.unwrap_or_default()));
        }
        let index = Arc::clone(&self.index);
        let mut recent = self.recent.take(channel).unwrap_or_default();
        let write = recent.push(&index.fields, channel, entry);
        self.recent.keep(channel, recent);
        self.note_uncommitted();
        write.map_or(Ok(()), |write| self.write(write))?;
        while let Some((channel, mut recent)) = self.recent.evict() {
            recent.rest(&index.fields, &channel).into_iter().try_for_each(|write| self.write(write))?;
        }
        Ok(())
    }

    /// A deleted entry goes, and lends its words to its neighbours no more.
    fn delete_entry(&mut self, channel: &ChannelId, seq: Seq, n: u64) -> Result<(), StoreError> {
        // What waits for neighbours is read again, as it is shown now, when the next entry comes.
        self.write_rest()?;
        self.recent.take(channel);
        self.delete_doc(&Subject::Entry(channel.clone(), seq))?;
        let db = self.views.db()?;
        let reads = Reads { db: &db, journal: &self.journal };
        // The views may be ahead: later entries have not been indexed yet.
        let Some(last) = readable(reads.last_seq_at(channel, n))?.flatten() else { return Ok(()) };
        let from = Seq(seq.0.saturating_sub(LOOK_BACK).max(1));
        let to = Seq(seq.0 + LOOK_BACK).min(last);
        let Some(entries) = readable(reads.entries(channel, from, to, usize::MAX))? else { return Ok(()) };
        let writes = Recent::around(&self.index.fields, channel, &entries, seq);
        writes.into_iter().try_for_each(|write| self.write(write))
    }

    /// Entries and summaries whose words have expired go, and lend them to the entries around them no more.
    fn expire(
        &mut self,
        channel: &ChannelId,
        entries: &[(Seq, Seq)],
        summaries: &[SummaryId],
        n: u64,
    ) -> Result<(), StoreError> {
        for (from, to) in entries {
            for seq in (from.0..to.0).map(Seq) {
                self.delete_doc(&Subject::Entry(channel.clone(), seq))?;
            }
            // The ends have neighbours that stay.
            self.delete_entry(channel, *to, n)?;
            self.delete_entry(channel, *from, n)?;
        }
        summaries.iter().try_for_each(|id| self.delete_doc(&Subject::Summary(channel.clone(), id.clone())))
    }

    fn delete_doc(&mut self, subject: &Subject) -> Result<(), StoreError> {
        let term = Term::from_field_text(self.index.fields.key, &subject.key());
        self.writer()?.delete_term(term);
        self.note_uncommitted();
        Ok(())
    }

    fn take_save(&mut self, save: &MemorySave, n: u64) -> Result<(), StoreError> {
        match memories::by_text(&*self.views.db()?, save)? {
            Some(id) => self.take_memory(&id, n),
            None => Ok(()),
        }
    }

    /// Writes a memory that a record changed as the views show it now; gone there, it goes here. One that was made later comes
    /// with the record that made it.
    fn take_memory(&mut self, id: &MemoryId, n: u64) -> Result<(), StoreError> {
        match memories::row_of(&*self.views.db()?, id)? {
            Some(row) if row.made.0 > n.max(self.index.has_memories_to()) => Ok(()),
            Some(row) => self.write(documents::of_memory(&self.index.fields, &row.memory)),
            None => self.delete_doc(&Subject::Memory(id.clone())),
        }
    }

    fn write(&mut self, write: Write) -> Result<(), StoreError> {
        let term = Term::from_field_text(self.index.fields.key, &write.key);
        let index = Arc::clone(&self.index);
        let (bytes, writer) = (write.bytes(), self.writer()?);
        if write.replaces {
            writer.delete_term(term);
        }
        // It waits for those that write when they have enough before them.
        index.calls.within(|| writer.add_document(write.doc)).map_err(|error| index_error(&error))?;
        self.uncommitted_bytes += bytes;
        self.note_uncommitted();
        Ok(())
    }

    fn note_uncommitted(&mut self) {
        self.first_uncommitted.get_or_insert_with(Instant::now);
    }

    /// One channel after the other: what all of them wait with is too much to be held at once.
    fn write_rest(&mut self) -> Result<(), StoreError> {
        let index = Arc::clone(&self.index);
        let mut recent = std::mem::replace(&mut self.recent, Recents::new(0));
        let wrote = recent.iter_mut().try_for_each(|(channel, recent)| {
            recent.rest(&index.fields, channel).into_iter().try_for_each(|write| self.write(write))
        });
        self.recent = recent;
        wrote
    }

    /// Made with the first document: an idle daemon has no use for its memory.
    fn writer(&mut self) -> Result<&mut IndexWriter, StoreError> {
        if self.writer.is_none() {
            let index = self.index.parts()?.index;
            let options = IndexWriterOptions::builder()
                .memory_budget_per_thread(BUFFER_BYTES)
                .num_merge_threads(MERGES)
                .build();
            let writer = index.writer_with_options(options).map_err(|error| index_error(&error))?;
            self.writer = Some(writer);
        }
        self.writer.as_mut().ok_or_else(|| index_failure("it has no writer"))
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let at = self.follower.checkpoint();
        if self.first_uncommitted.is_none() || at == self.committed {
            return Ok(());
        }
        self.write_rest()?;
        self.commit_here(at.n, at.n)
    }

    /// It shows how memories changed up to one record, and has none that were made after another.
    fn commit_here(&mut self, has_memories_to: u64, none_made_after: u64) -> Result<(), StoreError> {
        let at = self.follower.checkpoint();
        let Position { segment, offset, len } = at.position;
        let none_made_after = none_made_after.max(self.index.parts()?.has_none_made_after);
        let payload = Payload { format: FORMAT, n: at.n, at: (segment, offset, len), none_made_after };
        let payload = serde_json::to_string(&payload).map_err(|error| index_failure(error.to_string()))?;
        let index = Arc::clone(&self.index);
        let writer = self.writer()?;
        let commit = || {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&payload);
            prepared.commit().map(drop)
        };
        index.calls.within(commit).map_err(|error| index_error(&error))?;
        index.reload(has_memories_to, none_made_after)?;
        self.committed = at;
        self.uncommitted_bytes = 0;
        self.first_uncommitted = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TrySendError;

    use cairn_core::store_port::Store as _;
    use cairn_types::event::NewRecord;
    use cairn_types::ids::{Generation, TurnId};
    use cairn_types::memory::{MemoryKind, Reach, Replaces, Scope, Source};
    use cairn_types::message::{Entry, Part, Role};
    use jiff::Timestamp;

    use super::super::memories::RecallQuery;
    use super::*;
    use crate::views::db::Db;
    use crate::views::{Changed, Meta, apply_next};
    use crate::{Store, StoreOptions};

    const QUESTION: &str = "Where is the key?";

    fn record(event: Event) -> NewRecord {
        NewRecord { channel: None, at: Timestamp::UNIX_EPOCH, event }
    }

    fn saved(text: &str) -> Event {
        Event::Memory(MemoryEvent::Saved(save(text)))
    }

    fn save(text: &str) -> MemorySave {
        let source = Source {
            channel: None,
            from_seq: None,
            to_seq: None,
            summary: None,
            model: String::new(),
            by: None,
            said_at: None,
            told_by: None,
        };
        MemorySave {
            agent: "main".into(),
            scope: Scope::Agent,
            kind: MemoryKind::Fact,
            text: text.to_owned(),
            subject: None,
            importance: 0.5,
            source,
            sighting: String::new(),
            explicit: true,
            replaces: Replaces::default(),
        }
    }

    fn edited(id: &MemoryId, text: &str) -> Event {
        let (id, text) = (id.clone(), Some(text.to_owned()));
        Event::Memory(MemoryEvent::Edited { id, text, kind: None, importance: None })
    }

    /// A store with some records, the last of them a memory, of which an index in another folder has nothing.
    async fn begun(n_others: u64) -> (tempfile::TempDir, Store, Arc<SearchIndex>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::new(dir.path())).unwrap();
        let started = || Event::Maintenance(MaintenanceEvent::DaemonStarted { version: String::new() });
        let mut records: Vec<NewRecord> = (0..n_others).map(|_| record(started())).collect();
        records.push(record(saved("The key is under the pot")));
        store.append(records).await.unwrap();
        // The index of its own has all: nothing is known to have changed since.
        store.settle_index(store.inner.durable().tail.n, |_| Ok(())).await.unwrap();
        let (other, journal) = (dir.path().join("other"), dir.path().join("journal"));
        let (index, at) = SearchIndex::open(&other, &journal, 0);
        assert_eq!(at, Some(Checkpoint::default()));
        (dir, store, Arc::new(index))
    }

    fn indexer(store: &Store, index: &Arc<SearchIndex>, durable: watch::Receiver<Durable>) -> Indexer {
        let (views, journal) = (Arc::clone(&store.inner.views), Arc::clone(&store.inner.journal));
        Indexer::new(Arc::clone(index), Some(Checkpoint::default()), views, journal, durable)
    }

    #[tokio::test]
    async fn whoever_needs_the_whole_index_waits_also_while_it_has_no_room_for_another_task() {
        let (_dir, store, _) = begun(0).await;
        let last = store.append(vec![record(saved("It is under the mat"))]).await.unwrap()[0].n;
        let (index, tasks) = (&store.inner.index, &store.inner.tasks);
        let (holds, is_held) = sync_channel(0);
        let (hold, held) = sync_channel::<()>(0);
        let holder = std::thread::spawn({
            let index = Arc::clone(index);
            move || {
                let open = index.open.read();
                holds.send(()).unwrap();
                let _ = held.recv();
                drop(open);
            }
        });
        is_held.recv().unwrap();
        // The next step does not end: its thread waits to write.
        while index.open.try_read().is_some() {
            let _ = tasks.try_send(Task::Wake);
        }
        while !matches!(tasks.try_send(Task::Wake), Err(TrySendError::Full(_))) {}
        let (tell, mut told) = watch::channel(None);
        let settled = tokio::spawn({
            let store = store.clone();
            async move {
                let reach = |n| {
                    tell.send_replace(Some(n));
                    Ok(())
                };
                (store.settle_index(last, reach).await, store.inner.index.reaches())
            }
        });
        let reached = *told.wait_for(Option::is_some).await.unwrap();
        assert!(reached.is_some_and(|n| n < last), "{reached:?}");
        drop(hold);
        holder.join().unwrap();
        assert_eq!(settled.await.unwrap(), (Ok(()), last));
        store.close().await;
    }

    #[tokio::test]
    async fn an_index_that_is_made_again_has_the_memories_before_the_history() {
        let (_dir, store, index) = begun(FAR_BEHIND).await;
        // Nothing of the journal is there for it yet.
        let (_durable, nothing) = watch::channel(Durable::default());
        let mut indexer = indexer(&store, &index, nothing);
        indexer.step(false).unwrap();
        let last = store.inner.durable().tail.n;
        assert_eq!((index.reaches(), index.has_memories_to()), (0, last));
        let asked = RecallQuery { agents: &["main".into()], reach: &[Reach::All], text: QUESTION, n: 5 };
        let changed = Changed { since: last, memories: Vec::new() };
        assert_eq!(index.memories(&asked, &changed).unwrap().unwrap().len(), 1);
        drop(indexer);
        store.close().await;
    }

    #[tokio::test]
    async fn no_more_of_long_messages_waits_for_a_commit_than_of_short_ones() {
        let (_dir, store, index) = begun(0).await;
        let channel: ChannelId = "main/local/main".parse().unwrap();
        let long = |n: u64| {
            let (seq, turn) = (Seq(n), TurnId::from("t1"));
            let mut entry =
                Entry::new(seq, &turn, Generation::default(), Timestamp::UNIX_EPOCH, Role::Assistant);
            entry.parts = vec![Part::text((0..1000).map(|word| format!("{word:060} ")).collect::<String>())];
            let event = Event::Turn(TurnEvent::EntryAdded { entry });
            NewRecord { channel: Some(channel.clone()), at: Timestamp::UNIX_EPOCH, event }
        };
        store.append((1..=400).map(long).collect()).await.unwrap();
        store.settle().await.unwrap();
        let mut indexer = indexer(&store, &index, store.inner.appender.durable());
        indexer.take_records().unwrap();
        assert!(indexer.follower.checkpoint().n > 400 && indexer.uncommitted_bytes < COMMIT_BYTES);
        assert!(indexer.committed.n > 200, "{:?}", indexer.committed);
        drop(indexer);
        store.close().await;
    }

    #[tokio::test]
    async fn what_an_index_lacks_a_little_of_is_known_before_it_is_taken_in() {
        let (_dir, store, index) = begun(3).await;
        let agent = "main".into();
        let changed = || store.inner.views.changed_memories(&["main".into()], &[Reach::All]);
        let last = store.inner.durable().tail.n;
        assert_eq!(
            changed(),
            Changed { since: last, memories: Vec::new() },
            "what changed before is in the index, it is thought"
        );
        indexer(&store, &index, store.inner.appender.durable()).know_changes().unwrap();
        let changed = changed();
        assert_eq!((changed.since, changed.memories.len()), (0, 1));
        let asked = RecallQuery { agents: &[agent], reach: &[Reach::All], text: QUESTION, n: 5 };
        assert_eq!(index.memories(&asked, &changed).unwrap().unwrap().len(), 1);
        store.close().await;
    }

    /// How memories changed between two ends of the journal.
    fn changed(index: &SearchIndex, from: &Durable, to: &Durable) -> Changed {
        let (db, mut meta) = (Db::in_memory(), Meta::default());
        let mut follower = Follower::new(&index.journal, meta.checkpoint());
        apply_next(&db, &mut follower, &mut meta, &from.tail).unwrap();
        let memories = apply_next(&db, &mut follower, &mut meta, &to.tail).unwrap();
        Changed { since: from.tail.n, memories: memories.into_iter().map(Arc::new).collect() }
    }

    #[tokio::test]
    async fn a_question_counts_each_memory_once_whatever_the_index_has_taken_in_meanwhile() {
        let (_dir, store, index) = begun(1).await;
        let asked = RecallQuery { agents: &["main".into()], reach: &[Reach::All], text: QUESTION, n: 9 };
        let ask = |changed: &Changed| index.memories(&asked, changed).unwrap().unwrap();
        let (tell, durable) = watch::channel(store.inner.durable());
        let mut indexer = indexer(&store, &index, durable);
        indexer.step(true).unwrap();
        let committed = store.inner.durable();
        let id = ask(&changed(&index, &committed, &committed))[0].1.clone();
        let texts = ["The key is in the car", "The key is under the pot"];
        let forgotten = Event::Memory(MemoryEvent::Forgotten { id: id.clone(), wished: false });
        store.append(vec![record(saved(texts[0])), record(forgotten)]).await.unwrap();
        let gone = store.inner.durable();
        // It has the id of before.
        store.append(vec![record(saved(texts[1]))]).await.unwrap();
        store.settle().await.unwrap();
        let now = store.inner.durable();
        let ranked = ask(&changed(&index, &committed, &now));
        let ids: BTreeSet<&MemoryId> = ranked.iter().map(|(_, id)| id).collect();
        assert_eq!((ranked.len(), ids.len(), ids.contains(&id)), (2, 2, true));
        for end in [&gone, &now] {
            tell.send_replace(*end);
            indexer.step(true).unwrap();
            assert_eq!(ask(&changed(&index, &committed, &now)), ranked, "what changed before the commit");
            assert_eq!(ask(&changed(&index, end, &now)), ranked);
        }
        drop(indexer);
        store.close().await;
    }

    #[tokio::test]
    async fn the_index_has_no_memory_before_the_record_that_made_it() {
        let (_dir, store, index) = begun(1).await;
        let agent = "main".into();
        let id = memories::by_text(&store.inner.views.db().unwrap(), &save("The key is under the pot"));
        let id = id.unwrap().unwrap();
        // A second memory gets the text that the first one had for a while, which was said then, too.
        let (text, other) = ("The key is on the table", "The key is in the car");
        store.append(vec![record(edited(&id, text)), record(saved(text))]).await.unwrap();
        let (_durable, until_then) = watch::channel(store.inner.durable());
        store.append(vec![record(edited(&id, other)), record(saved(text))]).await.unwrap();
        store.settle().await.unwrap();
        let mut indexer = indexer(&store, &index, until_then);
        indexer.step(true).unwrap();
        let asked = RecallQuery { agents: &[agent], reach: &[Reach::All], text: QUESTION, n: 9 };
        let none = Changed { since: 0, memories: Vec::new() };
        let ids: Vec<_> =
            index.memories(&asked, &none).unwrap().unwrap().into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, [id]);
        drop(indexer);
        store.close().await;
    }
}
