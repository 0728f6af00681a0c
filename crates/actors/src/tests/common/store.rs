//! A store in memory: the journal is a list, everything else is folded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cairn_core::artifact;
use cairn_core::conversation::Conversation;
use cairn_core::registry::{RegistryState, UsageDay};
use cairn_core::reminder;
use cairn_core::store_port::{Due, Store};
use cairn_types::event::{
    CompactionEvent, Event, MaintenanceEvent, MemoryEvent, MessageEvent, NewRecord, Record, TurnEnd,
    TurnEvent, TurnOutcome,
};
use cairn_types::ids::{
    AgentId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, ReminderId, Seq, TextId, TurnId,
};
use cairn_types::memory::{Memory, MemoryChange, MemorySave, Reach, merge};
use cairn_types::message::{Artifact, Entry};
use cairn_types::model::Usage;
use cairn_types::ports::{
    ArtifactLines, ChannelRow, Hit, HitKind, LineRange, MemoryFilter, OutboxItem, Query, Recall, Seen,
    StoreError,
};
use cairn_types::reminder::Reminder;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

/// By the paused clock: long after all retries. A test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A channel and an artifact of it.
type ArtifactKey = (String, String);

/// The files of artifacts; they survive a kill.
#[derive(Default)]
pub(crate) struct MemArtifacts {
    files: Mutex<BTreeMap<ArtifactKey, Arc<[u8]>>>,
    pub(crate) full: AtomicBool,
}

impl MemArtifacts {
    /// The files, as `CHANNEL ID`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().keys().map(|(channel, id)| format!("{channel} {id}")).collect()
    }

    /// Their sizes in bytes.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.files.lock().values().map(|text| text.len()).collect()
    }
}

fn key(channel: &ChannelId, id: &ArtifactId) -> (String, String) {
    (channel.to_string(), id.to_string())
}

/// What a channel's records came to so far.
pub(crate) struct Folded {
    /// Records of all channels that were looked at.
    n: usize,
    pub(crate) conversation: Conversation,
    /// All entries, of all generations; deleted ones without their words.
    pub(crate) entries: Vec<Arc<Entry>>,
}

pub(crate) struct MemStore {
    pub(crate) artifacts: Arc<MemArtifacts>,
    records: watch::Sender<Vec<Record>>,
    folded: Mutex<BTreeMap<ChannelId, Folded>>,
    /// Answered by appends instead of writing, first in first out.
    faults: Mutex<Vec<StoreError>>,
    /// Answered by every append while it is set.
    pub(crate) away: Mutex<Option<StoreError>>,
    /// Appends that were refused while it was away.
    pub(crate) refused: AtomicUsize,
    /// Appends wait for a permit while it is shut.
    gate: Mutex<Option<Arc<Semaphore>>>,
    pub(crate) appends: Mutex<Vec<usize>>,
    pub(crate) snapshots: Mutex<Vec<ChannelId>>,
    pub(crate) outlines: Mutex<Vec<ChannelId>>,
    /// The next append panics.
    pub(crate) panics: AtomicBool,
    /// Set once the end of a turn is journalled.
    pub(crate) armed: Mutex<Option<Arc<AtomicBool>>>,
    /// The views are far behind: what is asked of them is not answered while this is set.
    pub(crate) behind: AtomicBool,
    /// Restores that fail before one succeeds.
    pub(crate) bad_restores: Mutex<u32>,
    /// How often all deliveries were read, dead ones included.
    pub(crate) listed: AtomicUsize,
    /// The most entries that were asked for at once.
    pub(crate) most_asked: AtomicUsize,
}

impl MemStore {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Vec::new(), Arc::default())
    }

    fn with(records: Vec<Record>, artifacts: Arc<MemArtifacts>) -> Arc<Self> {
        Arc::new(Self {
            artifacts,
            records: watch::Sender::new(records),
            folded: Mutex::default(),
            faults: Mutex::default(),
            away: Mutex::default(),
            refused: AtomicUsize::new(0),
            gate: Mutex::default(),
            appends: Mutex::default(),
            snapshots: Mutex::default(),
            outlines: Mutex::default(),
            panics: AtomicBool::new(false),
            armed: Mutex::default(),
            behind: AtomicBool::new(false),
            bad_restores: Mutex::new(0),
            listed: AtomicUsize::new(0),
            most_asked: AtomicUsize::new(0),
        })
    }

    /// All deliveries that are neither confirmed nor dropped.
    fn items(&self) -> Vec<OutboxItem> {
        let mut items: Vec<OutboxItem> = Vec::new();
        for record in self.records.borrow().iter() {
            items.retain_mut(|item| record.channel.as_ref() != Some(&item.channel) || item.apply(record));
            items.extend(record.channel.as_ref().and_then(|channel| OutboxItem::intended(channel, record)));
        }
        items
    }

    /// The store after a kill: what is journalled now, and nothing that the old runtime still does.
    pub(crate) fn after_kill(&self) -> Arc<Self> {
        Self::with(self.records(), Arc::clone(&self.artifacts))
    }

    /// The store after a kill at an earlier moment, with only the first `n` records.
    pub(crate) fn after_kill_at(&self, n: usize) -> Arc<Self> {
        Self::with(self.records().into_iter().take(n).collect(), Arc::clone(&self.artifacts))
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.borrow().clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.records.borrow().iter().map(|record| record.event.clone()).collect()
    }

    pub(crate) fn count(&self, what: impl Fn(&Event) -> bool) -> usize {
        self.records.borrow().iter().filter(|record| what(&record.event)).count()
    }

    /// Waits until the journal has `n` events of that sort.
    pub(crate) async fn until(&self, n: usize, what: impl Fn(&Event) -> bool) {
        let enough = |records: &Vec<Record>| records.iter().filter(|record| what(&record.event)).count() >= n;
        let mut records = self.records.subscribe();
        let waited = tokio::time::timeout(PATIENCE, records.wait_for(enough)).await;
        waited.expect("it never happened").unwrap();
    }

    /// Writes the records, at once.
    pub(crate) fn push(&self, new: Vec<NewRecord>) -> Vec<Record> {
        let mut appended = Vec::new();
        self.records.send_modify(|records| {
            for NewRecord { channel, at, event } in new {
                let record = Record { n: records.len() as u64 + 1, at, channel, event };
                appended.push(record.clone());
                records.push(record);
            }
        });
        appended
    }

    pub(crate) fn fail_next(&self, error: StoreError) {
        self.faults.lock().push(error);
    }

    async fn once_up_to_date<T>(&self, found: T) -> Result<T, StoreError> {
        if self.behind.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Ok(found)
    }

    /// Appends wait until permits are added.
    pub(crate) fn shut(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn conversation(&self, channel: &ChannelId) -> Option<Conversation> {
        self.folded(channel, |folded| (folded.conversation.last_n > 0).then(|| folded.conversation.clone()))
    }

    /// Folds what is new of the channel, and reads what it came to.
    pub(crate) fn folded<T>(&self, channel: &ChannelId, read: impl FnOnce(&Folded) -> T) -> T {
        let mut all = self.folded.lock();
        let folded = all.entry(channel.clone()).or_insert_with(|| {
            let conversation = Conversation::new(channel.clone());
            Folded { n: 0, conversation, entries: Vec::new() }
        });
        let records = self.records.borrow();
        for record in records[folded.n..].iter().filter(|record| record.channel.as_ref() == Some(channel)) {
            folded.conversation.apply(record).unwrap();
            let known = folded.entries.last().map_or(Seq(0), |entry| entry.seq);
            let live = &folded.conversation.live;
            folded.entries.extend(live.range(live.partition_point(|entry| entry.seq <= known)..).cloned());
            if let Event::Message(MessageEvent::Deleted { message, seqs }) = &record.event {
                let is_gone = |entry: &Entry| {
                    seqs.contains(&entry.seq) || entry.message.as_ref().is_some_and(|id| id.is_of(message))
                };
                for entry in folded.entries.iter_mut().filter(|entry| is_gone(entry)) {
                    *entry = Arc::new(entry.deleted());
                }
            }
        }
        folded.n = records.len();
        read(folded)
    }

    fn all_reminders(&self) -> Vec<(ChannelId, Reminder)> {
        let mut all: BTreeMap<ChannelId, BTreeMap<ReminderId, Reminder>> = BTreeMap::new();
        for record in self.records.borrow().iter() {
            if let Some(channel) = &record.channel {
                reminder::fold(all.entry(channel.clone()).or_default(), &record.event);
            }
        }
        let of = |(channel, reminders): (ChannelId, BTreeMap<ReminderId, Reminder>)| {
            reminders.into_values().map(move |reminder| (channel.clone(), reminder))
        };
        all.into_iter().flat_map(of).collect()
    }

    fn all_artifacts(&self, channel: &ChannelId) -> BTreeMap<ArtifactId, Artifact> {
        let mut artifacts = BTreeMap::new();
        for record in self.records().iter().filter(|record| record.channel.as_ref() == Some(channel)) {
            if let Event::Artifact(event) = &record.event {
                artifact::fold(&mut artifacts, record.at, event);
            }
        }
        artifacts
    }

    /// All entries of the channel, of all generations.
    pub(crate) fn history(&self, channel: &ChannelId) -> Vec<Arc<Entry>> {
        self.folded(channel, |folded| folded.entries.clone())
    }

    pub(crate) fn saved_memories(&self) -> Vec<Memory> {
        let mut memories: Vec<Memory> = Vec::new();
        let mut sightings: BTreeSet<String> = BTreeSet::new();
        for record in self.records.borrow().iter() {
            let saves: &[MemorySave] = match &record.event {
                Event::Memory(MemoryEvent::Saved(save)) => std::slice::from_ref(save),
                Event::Compaction(CompactionEvent::RunEnded(end)) => &end.memories,
                _ => &[],
            };
            for save in saves {
                let same = |memory: &&Memory| memory.text == save.text && memory.scope == save.scope;
                let existing = memories.iter().find(same).cloned();
                let sighted = !sightings.insert(save.sighting.clone());
                match merge(existing.as_ref(), false, sighted, save, record.at) {
                    MemoryChange::Created(memory) => memories.push(memory),
                    MemoryChange::Sighted(memory) => {
                        memories.retain(|known| known.id != memory.id);
                        memories.push(memory);
                    }
                    MemoryChange::Known | MemoryChange::Blocked => {}
                }
            }
        }
        memories
    }
}

impl Store for MemStore {
    fn append(&self, new: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        Box::pin(async move {
            let gate = self.gate.lock().clone();
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            assert!(!self.panics.swap(false, Ordering::SeqCst), "planned");
            if let Some(error) = self.away.lock().clone() {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
            if !self.faults.lock().is_empty() {
                return Err(self.faults.lock().remove(0));
            }
            self.appends.lock().push(new.len());
            let ends = new.iter().any(|record| matches!(record.event, Event::Turn(TurnEvent::Ended(_))));
            if let Some(bomb) = ends.then(|| self.armed.lock().take()).flatten() {
                bomb.store(true, Ordering::SeqCst);
            }
            Ok(self.push(new))
        })
    }

    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        let names: BTreeSet<ChannelId> =
            self.records.borrow().iter().filter_map(|record| record.channel.clone()).collect();
        let row = |channel: ChannelId| {
            let conversation = self.conversation(&channel).unwrap();
            let (last_at, unfinished) = (conversation.last_at, conversation.is_unfinished());
            ChannelRow { channel, last_at, unfinished, last_message: None }
        };
        let rows = names.into_iter().map(row).collect();
        Box::pin(async { Ok(rows) })
    }

    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>> {
        let channel = channel.clone();
        Box::pin(async move { Ok(self.channels().await?.into_iter().find(|row| row.channel == channel)) })
    }

    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        let platform = platform.to_owned();
        Box::pin(async move {
            let rows = self.channels().await?.into_iter().map(|row| row.channel);
            let is_private = |channel: &ChannelId| {
                channel.platform() == platform && self.conversation(channel).unwrap().direct_with.is_some()
            };
            Ok(rows.filter(is_private).collect())
        })
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        Box::pin(async {
            let rows = self.channels().await?;
            Ok(rows.into_iter().filter(|row| row.unfinished).map(|row| row.channel).collect())
        })
    }

    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        let channel = channel.clone();
        Box::pin(async move {
            let mut bad = self.bad_restores.lock();
            if *bad > 0 {
                *bad -= 1;
                return Err(StoreError::View { view: "heads", message: "planned".to_owned() });
            }
            Ok(self.conversation(&channel))
        })
    }

    fn keep_snapshot(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.snapshots.lock().push(conversation.channel.clone());
        Box::pin(async { Ok(()) })
    }

    fn keep_outline(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.outlines.lock().push(conversation.channel.clone());
        Box::pin(async { Ok(()) })
    }

    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let mut entries = self.history(channel);
        self.most_asked.fetch_max(limit, Ordering::SeqCst);
        entries.retain(|entry| entry.seq >= from && entry.seq <= to);
        entries.truncate(limit);
        Box::pin(async { Ok(entries) })
    }

    fn entries_of(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let mut entries = self.history(channel);
        entries.retain(|entry| entry.message.as_ref().is_some_and(|id| id.is_of(message)));
        Box::pin(async { Ok(entries) })
    }

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let mut seen = Seen::New;
        let mut print = String::new();
        let mut taken: Option<TurnId> = None;
        for record in self.records.borrow().iter().filter(|record| record.channel.as_ref() == Some(channel)) {
            match &record.event {
                Event::Message(MessageEvent::Accepted(pending)) if pending.message == *message => {
                    print.clone_from(&pending.fingerprint);
                    seen = Seen::Open { turn: pending.turn.clone(), fingerprint: print.clone() };
                }
                Event::Message(
                    MessageEvent::CommandTaken { message: given, .. }
                    | MessageEvent::Refused { message: given },
                ) if given == message => {
                    let (turn, outcome) = (TurnId::from("command"), TurnOutcome::Unanswered);
                    let (model, recalled) = (None, Vec::new());
                    let end =
                        TurnEnd { turn: turn.clone(), outcome, model, usage: Usage::default(), recalled };
                    seen = Seen::Ended { turn, fingerprint: String::new(), end: Box::new(end) };
                }
                Event::Turn(
                    TurnEvent::Started { turn, messages, .. } | TurnEvent::Joined { turn, messages, .. },
                ) if messages.contains(message) => {
                    taken = Some(turn.clone());
                }
                Event::Turn(TurnEvent::Ended(end)) if Some(&end.turn) == taken.as_ref() => {
                    let end: Box<TurnEnd> = Box::new(end.clone());
                    seen = Seen::Ended { turn: end.turn.clone(), fingerprint: print.clone(), end };
                }
                _ => {}
            }
        }
        Box::pin(self.once_up_to_date(seen))
    }

    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>> {
        let fits = |entry: &&Arc<Entry>| query.text.split(' ').any(|word| entry.text().contains(word));
        let hit = |entry: &Arc<Entry>| Hit {
            seq: Some(entry.seq),
            score: 1.0,
            at: entry.at,
            author: entry.author.clone(),
            text: entry.text(),
            kind: HitKind::Entry,
            id: entry.seq.to_string(),
            channel: query.channel.clone(),
            turn: Some(entry.turn.clone()),
            near: false,
            marks: Vec::new(),
        };
        let Some(channel) = &query.channel else { return Box::pin(async { Ok(Vec::new()) }) };
        let hits = self.history(channel).iter().filter(fits).map(hit).take(query.limit).collect();
        Box::pin(async { Ok(hits) })
    }

    fn last_record(&self) -> u64 {
        self.records.borrow().len() as u64
    }

    fn unindexed(&self) -> u64 {
        0
    }

    fn memories(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>> {
        let mut found = self.saved_memories();
        found.retain(|memory| memory.agent == *agent && reach.iter().any(|reach| reach.holds(memory)));
        if let Some(query) = &filter.query {
            found.retain(|memory| query.split(' ').any(|word| memory.text.contains(word)));
        }
        found.truncate(filter.limit);
        Box::pin(async { Ok(found) })
    }

    fn memory(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>> {
        let found = self.saved_memories().into_iter().find(|memory| memory.id == *id);
        Box::pin(async { Ok(found) })
    }

    fn is_forgotten(&self, _save: &MemorySave) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }

    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Recall, StoreError>> {
        let query = Some(question.to_owned());
        let found =
            Store::memories(self, agent, reach, MemoryFilter { query, limit, ..MemoryFilter::default() });
        Box::pin(async {
            let memories = self.once_up_to_date(found.await?).await?;
            Ok(Recall { scores: vec![1.0; memories.len()], memories, near: Vec::new() })
        })
    }

    fn kept_text(&self, id: &TextId) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let text = self.records.borrow().iter().find_map(|record| match &record.event {
            Event::Maintenance(MaintenanceEvent::TextKept { id: kept, text }) if kept == id => {
                Some(text.clone())
            }
            _ => None,
        });
        Box::pin(async { Ok(text) })
    }

    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        self.listed.fetch_add(1, Ordering::SeqCst);
        let items = self.items();
        Box::pin(async { Ok(items) })
    }

    fn owed(&self, channel: Option<&ChannelId>) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        let mut items = self.items();
        items.retain(|item| item.is_owed() && channel.is_none_or(|channel| item.channel == *channel));
        Box::pin(async { Ok(items) })
    }

    fn due(&self, now: Timestamp) -> BoxFuture<'_, Result<Due, StoreError>> {
        let mut due = Due::default();
        let mut all = self.all_reminders();
        all.sort_by_key(|(_, reminder)| reminder.due);
        for (channel, reminder) in all {
            if reminder.due > now {
                due.next = Some(reminder.due);
                break;
            }
            due.channels.push(channel);
        }
        due.channels.dedup();
        Box::pin(async { Ok(due) })
    }

    fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(ChannelId, Reminder)>, StoreError>> {
        let mut all = self.all_reminders();
        all.retain(|(of, _)| channel.is_none_or(|channel| of == channel));
        all.truncate(limit);
        Box::pin(async { Ok(all) })
    }

    fn delivery_of(
        &self,
        channel: &ChannelId,
        id: &OutboxId,
    ) -> BoxFuture<'_, Result<Option<OutboxItem>, StoreError>> {
        let item = self.items().into_iter().find(|item| item.channel == *channel && item.id == *id);
        Box::pin(async { Ok(item) })
    }

    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>> {
        let mut registry = RegistryState::default();
        self.records.borrow().iter().for_each(|record| registry.apply(record));
        Box::pin(async { Ok(registry) })
    }

    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>> {
        Box::pin(async { Ok(UsageDay::default()) })
    }

    fn put_artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        content: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.artifacts.full.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::DiskFull { path: "/state".to_owned() }) });
        }
        self.artifacts.files.lock().insert(key(channel, id), content);
        Box::pin(async { Ok(()) })
    }

    fn artifact_bytes(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
    ) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, StoreError>> {
        let content = self.artifacts.files.lock().get(&key(channel, &artifact.id)).cloned();
        Box::pin(async { Ok(content) })
    }

    fn artifact_lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        let text = self.artifacts.files.lock().get(&key(channel, &artifact.id)).cloned();
        let found = text.map(|text| {
            let text = String::from_utf8_lossy(&text).into_owned();
            let mut found =
                ArtifactLines { text: String::new(), lines: 0, offset: range.offset, cut_bytes: 0 };
            for line in text.lines().skip(range.from as usize - 1).take(range.count as usize) {
                let line = if found.lines == 0 { &line[range.offset as usize..] } else { line };
                let room = range.max_bytes - found.text.len().min(range.max_bytes);
                if line.len() >= room && found.lines == 0 {
                    found.text.push_str(&line[..room]);
                    found.cut_bytes = (line.len() - room) as u64;
                    found.lines = 1;
                    break;
                }
                if line.len() >= room {
                    break;
                }
                if found.lines > 0 {
                    found.text.push('\n');
                }
                found.text.push_str(line);
                found.lines += 1;
            }
            found
        });
        Box::pin(async { Ok(found) })
    }

    fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<Option<Artifact>, StoreError>> {
        let found = self.all_artifacts(channel).remove(id);
        Box::pin(async { Ok(found) })
    }

    fn artifacts(
        &self,
        channel: &ChannelId,
        expired: bool,
    ) -> BoxFuture<'_, Result<Vec<Artifact>, StoreError>> {
        let all = self.all_artifacts(channel).into_values();
        let found = all.filter(|artifact| expired || artifact.expired_at.is_none()).collect();
        Box::pin(async { Ok(found) })
    }

    fn remove_expired(&self, channel: &ChannelId) -> BoxFuture<'_, Result<(), StoreError>> {
        for artifact in self.all_artifacts(channel).into_values() {
            if artifact.expired_at.is_some() {
                self.artifacts.files.lock().remove(&key(channel, &artifact.id));
            }
        }
        Box::pin(async { Ok(()) })
    }
}
