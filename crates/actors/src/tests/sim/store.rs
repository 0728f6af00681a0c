//! A store whose disk fills up, whose views come late or not at all, and whose last writes a power failure may take along.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::conversation::Conversation;
use cairn_core::registry::{RegistryState, UsageDay};
use cairn_core::store_port::{Due, Store};
use cairn_types::event::{NewRecord, Record};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, Seq, TextId};
use cairn_types::memory::{Memory, MemorySave, Reach};
use cairn_types::message::{Artifact, Entry};
use cairn_types::ports::{
    ArtifactLines, ChannelRow, Hit, LineRange, MemoryFilter, OutboxItem, Query, Recall, Seen, StoreError,
};
use cairn_types::reminder::Reminder;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::scene::Scene;
use crate::tests::common::store::MemStore;

pub(super) struct SimStore {
    scene: Arc<Scene>,
    /// What is durable.
    pub(super) kept: Arc<MemStore>,
    disk: Mutex<Disk>,
}

#[derive(Default)]
struct Disk {
    next: u64,
    /// Written and not synced, in order.
    written: BTreeMap<u64, Vec<NewRecord>>,
    /// Synced, and not yet told to who wrote it.
    synced: BTreeMap<u64, Vec<Record>>,
}

impl SimStore {
    pub(super) fn new(scene: Arc<Scene>) -> Arc<Self> {
        Arc::new(Self { scene, kept: MemStore::new(), disk: Mutex::default() })
    }

    /// The power failed: of what was written and not synced any number of records is there, in their order.
    pub(super) fn lose_power(&self) {
        let disk = std::mem::take(&mut *self.disk.lock());
        let mut written: Vec<NewRecord> = disk.written.into_values().flatten().collect();
        let lost = written.split_off(fastrand::usize(..=written.len()));
        if !written.is_empty() {
            self.keep(written, &lost);
        }
    }

    /// `lost`: what was written behind them, and is not there.
    fn keep(&self, batch: Vec<NewRecord>, lost: &[NewRecord]) -> Vec<Record> {
        let records = self.kept.push(batch);
        self.scene.checks.lock().journalled(&self.scene, &self.kept, &records, lost);
        records
    }

    /// One sync takes everything along that was written before it.
    fn sync(&self, number: u64) -> Option<Vec<Record>> {
        let mut disk = self.disk.lock();
        let later = disk.written.split_off(&(number + 1));
        let due = std::mem::replace(&mut disk.written, later);
        for (number, batch) in due {
            let records = self.keep(batch, &[]);
            disk.synced.insert(number, records);
        }
        disk.synced.remove(&number)
    }

    /// Asks the views, which answer later, with what is durable by then or was when they were asked.
    async fn view<T>(
        &self,
        what: &'static str,
        read: impl Fn(&MemStore) -> T + Send,
    ) -> Result<T, StoreError> {
        let early = fastrand::bool().then(|| read(&self.kept));
        self.scene.step(|| format!("view {what}")).await;
        if self.scene.is_out(|outages| outages.views) {
            if fastrand::bool() {
                self.scene.note(|| format!("view {what} fails"));
                return Err(StoreError::View { view: "heads", message: "closed".to_owned() });
            }
            while self.scene.is_out(|outages| outages.views) {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
        Ok(early.unwrap_or_else(|| read(&self.kept)))
    }
}

/// What a fake answers without a wait, since it is about what is in memory.
fn at_once<T>(answer: BoxFuture<'_, Result<T, StoreError>>) -> T {
    futures::FutureExt::now_or_never(answer).unwrap().unwrap()
}

impl Store for SimStore {
    fn append(&self, batch: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        Box::pin(async move {
            let named = |batch: &[NewRecord]| {
                let kinds = batch.iter().map(kind).collect::<Vec<_>>().join(" ");
                let channel = batch.first().and_then(|record| record.channel.clone());
                format!("{} {kinds}", channel.map_or_else(|| "-".to_owned(), |channel| channel.to_string()))
            };
            let name = named(&batch);
            self.scene.step(|| format!("append {name}")).await;
            if self.scene.is_out(|outages| outages.disk) || self.scene.faulty(self.scene.mood.store_faults) {
                self.scene.note(|| format!("refused {name}"));
                return Err(StoreError::DiskFull { path: "/state".to_owned() });
            }
            let number = {
                let mut disk = self.disk.lock();
                disk.next += 1;
                let number = disk.next;
                disk.written.insert(number, batch);
                number
            };
            self.scene.step(|| format!("sync {name}")).await;
            let mine = self.sync(number);
            self.scene.step(|| format!("durable {name}")).await;
            mine.ok_or(StoreError::Closed)
        })
    }

    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        Box::pin(self.view("channels", |kept| at_once(kept.channels())))
    }

    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>> {
        let channel = channel.clone();
        Box::pin(self.view("channel", move |kept| at_once(kept.channel(&channel))))
    }

    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        let platform = platform.to_owned();
        Box::pin(self.view("private chats", move |kept| at_once(kept.private_chats(&platform))))
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        Box::pin(self.view("unfinished", |kept| at_once(kept.unfinished())))
    }

    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        let channel = channel.clone();
        Box::pin(self.view("restore", move |kept| kept.conversation(&channel)))
    }

    fn keep_snapshot(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        let what = move || format!("snapshot {} {}", conversation.channel, conversation.last_n);
        Box::pin(async move {
            self.scene.step(what).await;
            Ok(())
        })
    }

    fn keep_outline(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        let what = move || format!("outline {} {}", conversation.channel, conversation.last_n);
        Box::pin(async move {
            self.scene.step(what).await;
            Ok(())
        })
    }

    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let channel = channel.clone();
        Box::pin(self.view("entries", move |kept| at_once(kept.entries(&channel, from, to, limit))))
    }

    fn entries_of(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        Box::pin(self.view("entries of", move |kept| at_once(kept.entries_of(&channel, &message))))
    }

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        Box::pin(self.view("seen", move |kept| at_once(kept.seen(&channel, &message))))
    }

    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>> {
        Box::pin(self.view("search", move |kept| at_once(kept.search(query.clone()))))
    }

    fn last_record(&self) -> u64 {
        0
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
        let (agent, reach) = (agent.clone(), reach.to_vec());
        Box::pin(
            self.view("memories", move |kept| at_once(Store::memories(kept, &agent, &reach, filter.clone()))),
        )
    }

    fn memory(&self, _id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>> {
        Box::pin(self.view("memory", |_| None))
    }

    fn is_forgotten(&self, _save: &MemorySave) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.view("is_forgotten", |_| false))
    }

    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Recall, StoreError>> {
        let (agent, reach, question) = (agent.clone(), reach.to_vec(), question.to_owned());
        Box::pin(self.view("recall", move |kept| at_once(kept.recall(&agent, &reach, &question, limit))))
    }

    fn kept_text(&self, id: &TextId) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let id = id.clone();
        Box::pin(self.view("kept text", move |kept| at_once(kept.kept_text(&id))))
    }

    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        Box::pin(self.view("deliveries", |kept| at_once(kept.deliveries())))
    }

    fn owed(&self, channel: Option<&ChannelId>) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        let channel = channel.cloned();
        Box::pin(self.view("owed", move |kept| at_once(kept.owed(channel.as_ref()))))
    }

    fn due(&self, now: Timestamp) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(self.view("due", move |kept| at_once(kept.due(now))))
    }

    fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(ChannelId, Reminder)>, StoreError>> {
        let channel = channel.cloned();
        Box::pin(self.view("reminders", move |kept| at_once(kept.reminders(channel.as_ref(), limit))))
    }

    fn delivery_of(
        &self,
        channel: &ChannelId,
        id: &OutboxId,
    ) -> BoxFuture<'_, Result<Option<OutboxItem>, StoreError>> {
        let (channel, id) = (channel.clone(), id.clone());
        Box::pin(self.view("delivery", move |kept| at_once(kept.delivery_of(&channel, &id))))
    }

    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>> {
        Box::pin(async { Ok(RegistryState::default()) })
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
        let (channel, id) = (channel.clone(), id.clone());
        Box::pin(async move {
            self.scene.step(|| format!("put artifact {channel} {id}")).await;
            if self.scene.is_out(|outages| outages.disk) {
                return Err(StoreError::DiskFull { path: "/state".to_owned() });
            }
            self.kept.put_artifact(&channel, &id, content).await
        })
    }

    fn artifact_bytes(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
    ) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, StoreError>> {
        let (channel, artifact) = (channel.clone(), artifact.clone());
        Box::pin(self.view("artifact", move |kept| at_once(kept.artifact_bytes(&channel, &artifact))))
    }

    fn artifact_lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        let (channel, artifact) = (channel.clone(), artifact.clone());
        Box::pin(self.view("artifact", move |kept| at_once(kept.artifact_lines(&channel, &artifact, range))))
    }

    fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<Option<Artifact>, StoreError>> {
        let (channel, id) = (channel.clone(), id.clone());
        Box::pin(self.view("artifact", move |kept| at_once(kept.artifact(&channel, &id))))
    }

    fn artifacts(
        &self,
        channel: &ChannelId,
        expired: bool,
    ) -> BoxFuture<'_, Result<Vec<Artifact>, StoreError>> {
        let channel = channel.clone();
        Box::pin(self.view("artifacts", move |kept| at_once(kept.artifacts(&channel, expired))))
    }

    fn remove_expired(&self, channel: &ChannelId) -> BoxFuture<'_, Result<(), StoreError>> {
        let channel = channel.clone();
        Box::pin(async move {
            self.scene.step(|| format!("remove expired artifacts of {channel}")).await;
            self.kept.remove_expired(&channel).await
        })
    }
}

/// The kind of a record and what it is about, for the trace.
fn kind(record: &NewRecord) -> String {
    use cairn_types::event::{CompactionEvent, DeliveryEvent, Event, MessageEvent, TurnEvent};
    match &record.event {
        Event::Message(MessageEvent::Accepted(pending)) => format!("accepted({})", pending.message),
        Event::Turn(TurnEvent::Started { turn, .. }) => format!("started({turn})"),
        Event::Turn(TurnEvent::EntryAdded { entry }) => format!("entry({:?} {})", entry.role, entry.seq),
        Event::Turn(TurnEvent::Ended(end)) => format!("ended({} {:?})", end.turn, end.outcome),
        Event::Compaction(CompactionEvent::RunEnded(end)) => format!("run-ended({:?})", end.outcome),
        Event::Delivery(DeliveryEvent::Intended { id, draft, .. }) => format!("intended({id} {draft})"),
        Event::Delivery(event) => {
            let words = format!("{event:?}");
            let name = words.split(' ').next().unwrap_or_default();
            format!("{name}({})", event.id())
        }
        event => {
            let words = format!("{event:?}");
            words.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}
