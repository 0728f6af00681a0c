//! The port `Store`, implemented, and the queries beyond it.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use std::time::{Duration, Instant};

use cairn_core::conversation::{Conversation, Outline, Reaction};
use cairn_core::registry::{RegistryState, UsageDay};
use cairn_core::spend::{SpendKey, SpendSum};
use cairn_types::event::{NewRecord, Record, RunEnd, TurnEnd};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, Seq, TextId, TurnId};
use cairn_types::memory::{Memory, MemorySave, Reach, Scope};
use cairn_types::message::{Artifact, Entry};
use cairn_types::model::Usage;
use cairn_types::people::said::{HistoryQuery, SaidFilter};
use cairn_types::ports::{
    self, ArtifactLines, ChannelRow, Hit, LineRange, MemoryFilter, OutboxItem, Query, Seen, StoreError,
};
use cairn_types::tool::ToolLogQuery;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::civil::Date;
use tokio::sync::oneshot;

use crate::index::Task;
use crate::index::recall::{self, RecallSources};
use crate::index::search::SearchPlace;
use crate::store::{Inner, Store};
use crate::views::archive::Reads;
use crate::views::codec::{Key, encode_small, view_error};
use crate::views::history::HistoryPage;
use crate::views::lists::{MadeAt, Totals};
use crate::views::rows::Speaker;
use crate::views::{Command, KeptSnapshot, memories, registry_view};
use cairn_core::store_port::{ChannelLine, Due};
use cairn_types::ports::MemoryTrail;
use cairn_types::reminder::Reminder;

/// Longest that a snapshot waits to be kept: it is only a cache.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(5);

/// Records that a restore reads at the most before it has a new snapshot kept, so that the next one is quick.
const TAIL_MAX: usize = 128;

/// How often who waits for the index looks how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Longest that a search waits until all that was journalled can be found.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// One page of search results, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub hits: Vec<Hit>,
    /// Where the next page starts; none at the end.
    pub next: Option<SearchPlace>,
    /// Number of durable records that the index did not have yet when the search began.
    pub unindexed: u64,
}

impl cairn_core::store_port::Store for Store {
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        self.inner.appender.append(records).boxed()
    }

    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        self.look(|_, reads| reads.channels()).boxed()
    }

    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.channel(&channel)).boxed()
    }

    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        let platform = platform.to_owned();
        self.look(move |_, reads| reads.private_chats(&platform)).boxed()
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        self.look(|_, reads| reads.unfinished()).boxed()
    }

    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        let channel = channel.clone();
        self.look(move |inner, reads| restore(inner, reads, &channel)).boxed()
    }

    fn keep_snapshot(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.keep(conversation, true).boxed()
    }

    fn keep_outline(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.keep(conversation, false).boxed()
    }

    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.entries(&channel, from, to, limit)).boxed()
    }

    fn entries_of(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        self.look(move |_, reads| reads.said(&channel, &message)).boxed()
    }

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        self.look(move |_, reads| reads.seen(&channel, &message)).boxed()
    }

    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>> {
        async move { self.found(query, None).await.map(|found| found.hits) }.boxed()
    }

    fn last_record(&self) -> u64 {
        self.inner.durable().tail.n
    }

    fn unindexed(&self) -> u64 {
        self.last_record().saturating_sub(self.inner.index.reaches())
    }

    fn memories(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>> {
        self.memories_of(vec![agent.clone()], reach, filter).boxed()
    }

    fn memory(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>> {
        let id = id.clone();
        self.look(move |_, reads| memories::get(reads.db, &id)).boxed()
    }

    fn is_forgotten(&self, save: &MemorySave) -> BoxFuture<'_, Result<bool, StoreError>> {
        let save = save.clone();
        self.look(move |_, reads| memories::is_forgotten(reads.db, &save)).boxed()
    }

    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<ports::Recall, StoreError>> {
        let (agent, reach, question) = (agent.clone(), reach.to_vec(), question.to_owned());
        let asked = move |inner: &Inner, reads: &Reads<'_>| {
            recall::recall(sources(inner), reads, &agent, (&reach, &question, limit))
        };
        self.look(asked).boxed()
    }

    fn kept_text(&self, id: &TextId) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let id = id.clone();
        self.look(move |_, reads| reads.kept_text(&id)).boxed()
    }

    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        self.look(|_, reads| reads.deliveries()).boxed()
    }

    fn owed(&self, channel: Option<&ChannelId>) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        let channel = channel.cloned();
        self.look(move |_, reads| reads.owed(channel.as_ref())).boxed()
    }

    fn due(&self, now: Timestamp) -> BoxFuture<'_, Result<Due, StoreError>> {
        self.look(move |_, reads| reads.due(now)).boxed()
    }

    fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(ChannelId, Reminder)>, StoreError>> {
        let channel = channel.cloned();
        self.look(move |_, reads| reads.reminders(channel.as_ref(), limit)).boxed()
    }

    fn delivery_of(
        &self,
        channel: &ChannelId,
        id: &OutboxId,
    ) -> BoxFuture<'_, Result<Option<OutboxItem>, StoreError>> {
        let (channel, id) = (channel.clone(), id.clone());
        self.look(move |_, reads| reads.delivery_of(&channel, &id)).boxed()
    }

    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>> {
        self.look(|_, reads| registry_view::state(reads.db)).boxed()
    }

    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>> {
        self.look(|_, reads| registry_view::usage_day(reads.db)).boxed()
    }

    fn put_artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        content: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (channel, id) = (channel.clone(), id.clone());
        async move {
            if let Some((database, lease)) = self.inner.leading() {
                database.put_artifact(lease, (&channel, &id), &content).await?;
            }
            self.inner.artifacts.put(&channel, &id, content).await
        }
        .boxed()
    }

    fn artifact_bytes(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
    ) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, StoreError>> {
        self.inner.artifacts.bytes(channel, artifact)
    }

    fn artifact_lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        self.inner.artifacts.lines(channel, artifact, range)
    }

    fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<Option<Artifact>, StoreError>> {
        let (channel, id) = (channel.clone(), id.clone());
        self.look(move |_, reads| reads.artifact(&channel, &id)).boxed()
    }

    fn artifacts(
        &self,
        channel: &ChannelId,
        expired: bool,
    ) -> BoxFuture<'_, Result<Vec<Artifact>, StoreError>> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.artifacts(&channel, expired)).boxed()
    }

    fn remove_expired(&self, channel: &ChannelId) -> BoxFuture<'_, Result<(), StoreError>> {
        let channel = channel.clone();
        async move {
            let artifacts = &self.inner.artifacts;
            let mut there = artifacts.ids(&channel).await?;
            if let Some((database, _)) = self.inner.leading() {
                there.extend(database.artifact_ids(&channel).await?);
                there.sort_unstable();
                there.dedup();
            }
            if there.is_empty() {
                return Ok(());
            }
            let of = channel.clone();
            let expired = self.look(move |_, reads| reads.expired(&of, there.clone())).await?;
            if let Some((database, lease)) = self.inner.leading().filter(|_| !expired.is_empty()) {
                database.remove_artifacts(lease, &channel, &expired).await?;
            }
            for id in expired {
                artifacts.remove(&channel, &id).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

fn sources(inner: &Inner) -> RecallSources<'_> {
    RecallSources { index: &inner.index, views: &inner.views }
}

/// Restores a channel. Keeps a snapshot when many records were read, so that the next restore is quick.
pub(crate) fn restore(
    inner: &Inner,
    reads: &Reads<'_>,
    channel: &ChannelId,
) -> Result<Option<Conversation>, StoreError> {
    let quarantined = reads.db.meta()?.is_some_and(|meta| meta.quarantined);
    let Some((conversation, n_replayed)) = reads.restore(channel, quarantined)? else { return Ok(None) };
    if n_replayed > TAIL_MAX && !reads.db.is_in_memory() {
        keep_head(inner, &conversation);
    }
    Ok(Some(conversation))
}

/// Has a restored conversation kept as a snapshot, without waiting for it.
fn keep_head(inner: &Inner, conversation: &Conversation) {
    let channel = conversation.channel.clone();
    let outline = Outline::of(conversation);
    let sent = encode_small(&conversation.to_snapshot()).is_ok_and(|snapshot| {
        let (reply, _nobody_waits) = oneshot::channel();
        let kept = Box::new(KeptSnapshot { channel, snapshot: Some(snapshot), outline, reply });
        inner.commands.try_send(Command::KeepSnapshot(kept)).is_ok()
    });
    if !sent {
        tracing::debug!(channel = %conversation.channel, "a snapshot was not kept; the next restore takes as long");
    }
}

impl Store {
    /// Restores the channels that lists show nothing of, the longest first, so that lists and first turns find what they need:
    /// views that were just made have no outline and no snapshot, and after a crash nothing is kept of what was awake. Those
    /// without records behind number `since` are passed over. `goes_on` is asked before each, and each is followed by a pause
    /// `pauses` times as long as it took.
    ///
    /// # Errors
    /// The first channel that could not be restored; the others were tried. That an outline cannot be kept is no error, and
    /// ends it.
    pub(crate) async fn restore_beforehand(
        &self,
        since: u64,
        pauses: u32,
        goes_on: impl Fn() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        const WHAT: &str = "restoring channels";
        let unlisted = self.read(WHAT, move |_, reads| reads.unlisted(since)).await?;
        let mut all = Ok(());
        for channel in unlisted {
            goes_on()?;
            let began = Instant::now();
            match self.read(WHAT, move |inner, reads| restore(inner, reads, &channel)).await {
                Ok(Some(conversation)) => {
                    if let Err(error) = self.keep(Arc::new(conversation), false).await {
                        // What does not answer now is not waited for with every channel.
                        tracing::warn!(%error,
                            "channel data for lists could not be saved; the first list takes longer");
                        break;
                    }
                }
                other => all = all.and(other.map(drop)),
            }
            tokio::time::sleep(began.elapsed() * pauses).await;
        }
        all
    }

    /// Keeps a conversation's outline, `with_snapshot` with its snapshot.
    async fn keep(&self, conversation: Arc<Conversation>, with_snapshot: bool) -> Result<(), StoreError> {
        let kept = async {
            // Channels fall asleep by the hundred.
            let _permit = self.inner.snapshots.acquire().await.map_err(|_| StoreError::Closed)?;
            let commands = self.inner.commands.clone();
            let (reply, kept) = oneshot::channel();
            let sent = tokio::task::spawn_blocking(move || {
                let snapshot =
                    with_snapshot.then(|| encode_small(&conversation.to_snapshot())).transpose()?;
                let outline = Outline::of(&conversation);
                let channel = conversation.channel.clone();
                // An applier that has so much before it is stuck: it has no use for a snapshot.
                let sent = commands.try_send(Command::KeepSnapshot(Box::new(KeptSnapshot {
                    channel,
                    snapshot,
                    outline,
                    reply,
                })));
                sent.map_err(|error| match error {
                    TrySendError::Full(_) => view_error("it is too busy to keep a snapshot"),
                    TrySendError::Disconnected(_) => StoreError::Closed,
                })
            });
            sent.await.map_err(|_panic| {
                view_error("making a snapshot panicked; the log says where".to_owned())
            })??;
            kept.await.map_err(|_| StoreError::Closed)?
        };
        let kept = tokio::time::timeout(SNAPSHOT_LIMIT, kept).await;
        kept.unwrap_or_else(|_| Err(view_error("it does not answer")))
    }

    /// How many memories an agent has, in all scopes.
    ///
    /// # Errors
    /// A view failed.
    pub async fn memory_count(&self, agent: &AgentId) -> Result<u64, StoreError> {
        let agent = agent.clone();
        self.look(move |_, reads| memories::count(reads.db, &agent)).await
    }

    /// Memories of several agents within reach, oldest first; with a query best first, all in one ranking.
    ///
    /// # Errors
    /// A view or the index failed.
    pub fn memories_of(
        &self,
        agents: Vec<AgentId>,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> impl Future<Output = Result<Vec<Memory>, StoreError>> + Send + use<'_> {
        let reach = reach.to_vec();
        self.look(move |inner, reads| recall::list(sources(inner), reads, &agents, &reach, &filter))
    }

    /// The newest memories of an agent within reach, newest first, at most `limit`. No others are read.
    ///
    /// # Errors
    /// A view failed.
    pub async fn newest_memories(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        limit: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        let (agent, reach) = (agent.clone(), reach.to_vec());
        self.look(move |_, reads| memories::newest(reads.db, &agent, &reach, limit)).await
    }

    /// Who has spoken in a channel (`PLATFORM/USER`), without reading its messages.
    ///
    /// # Errors
    /// A view failed.
    pub async fn speakers(&self, channel: &ChannelId) -> Result<Vec<(String, Speaker)>, StoreError> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.speakers(&channel)).await
    }

    /// The history of a memory, and the turns in which it was recalled.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn memory_trail(&self, id: &MemoryId) -> Result<MemoryTrail, StoreError> {
        let id = id.clone();
        self.look(move |_, reads| reads.memory_trail(&id)).await
    }

    /// Channels by name: those after one, at most so many. None is restored.
    ///
    /// # Errors
    /// A view failed.
    pub async fn channel_lines(
        &self,
        after: Option<ChannelId>,
        limit: usize,
    ) -> Result<Vec<ChannelLine>, StoreError> {
        self.look(move |_, reads| reads.channel_lines(after.as_ref(), limit)).await
    }

    /// The runs of a channel that ended with a summary, of all sessions, in their order, each with its time.
    ///
    /// # Errors
    /// A view failed.
    pub async fn summaries(&self, channel: ChannelId) -> Result<Vec<(Timestamp, RunEnd)>, StoreError> {
        self.look(move |_, reads| reads.summaries(&channel)).await
    }

    /// The entries of a channel whose words have expired, as ranges in their order.
    ///
    /// # Errors
    /// A view failed.
    pub async fn expired_ranges(&self, channel: ChannelId) -> Result<Vec<(Seq, Seq)>, StoreError> {
        self.read("reading what has expired", move |_, reads| reads.expired_ranges(&channel)).await
    }

    /// What the newest calls of a model in a channel took, each with its time, oldest first, at most `limit`: those that
    /// were to answer.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn call_usages(
        &self,
        channel: ChannelId,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Usage)>, StoreError> {
        self.look(move |_, reads| reads.call_usages(&channel, limit)).await
    }

    /// The delivery of that id, if it is neither settled nor dropped.
    ///
    /// # Errors
    /// A view failed.
    pub async fn delivery(&self, id: &OutboxId) -> Result<Option<OutboxItem>, StoreError> {
        let id = id.clone();
        self.look(move |_, reads| reads.delivery(&id)).await
    }

    /// Deliveries neither confirmed nor dropped, oldest first, with their places in that order: those after one, at most so
    /// many.
    ///
    /// # Errors
    /// A view failed.
    pub async fn delivery_page(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxItem)>, StoreError> {
        self.look(move |_, reads| reads.delivery_page(after, limit)).await
    }

    /// The time of the oldest delivery that is neither confirmed nor dropped.
    ///
    /// # Errors
    /// A view failed.
    pub async fn oldest_owed(&self) -> Result<Option<Timestamp>, StoreError> {
        self.look(|_, reads| reads.oldest_owed()).await
    }

    /// Memories of agents, in one scope or in all, oldest first, with their places in that order: those after one that fit,
    /// at most so many.
    ///
    /// # Errors
    /// A view failed.
    pub async fn memory_page(
        &self,
        agents: Vec<AgentId>,
        scope: Option<Scope>,
        filter: MemoryFilter,
        after: Option<MadeAt>,
    ) -> Result<Vec<(MadeAt, Memory)>, StoreError> {
        self.look(move |_, reads| reads.memory_page(&agents, scope.as_ref(), &filter, after.as_ref())).await
    }

    /// The lengths of the lists.
    ///
    /// # Errors
    /// A view failed.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.look(|_, reads| reads.totals()).await
    }

    /// What model calls took on these days (UTC), by channel, person, purpose and model.
    ///
    /// # Errors
    /// A view failed.
    pub async fn spent(&self, from: Date, to: Date) -> Result<Vec<(SpendKey, SpendSum)>, StoreError> {
        self.look(move |_, reads| registry_view::spent_between(reads.db, from, to)).await
    }

    /// One page of a channel's history.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn history(&self, channel: &ChannelId, query: HistoryQuery) -> Result<HistoryPage, StoreError> {
        let channel = channel.clone();
        if query.said == SaidFilter::default() {
            return self.look(move |_, reads| reads.history(&channel, &query)).await;
        }
        // Few of many entries may fit: that takes long.
        self.read("reading a history", move |_, reads| reads.history(&channel, &query)).await
    }

    /// The first and the last entry of a turn; the last is open of the newest.
    ///
    /// # Errors
    /// A view failed.
    pub async fn turn_range(
        &self,
        channel: &ChannelId,
        turn: &TurnId,
    ) -> Result<Option<(Seq, Seq)>, StoreError> {
        let (channel, turn) = (channel.clone(), turn.clone());
        self.look(move |_, reads| reads.turn_range(&channel, &turn)).await
    }

    /// How the turns ended whose last entries are in a range, by these.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn turn_ends(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
    ) -> Result<HashMap<Seq, TurnEnd>, StoreError> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.turn_ends(&channel, from, to)).await
    }

    /// People's reactions to the entries of a range, in order, without those that were taken back.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn reactions(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
    ) -> Result<HashMap<Seq, Vec<Reaction>>, StoreError> {
        let channel = channel.clone();
        self.look(move |_, reads| reads.reactions(&channel, from, to)).await
    }

    /// Calls of tools that fit, oldest first, with their records.
    ///
    /// # Errors
    /// A view failed.
    pub async fn tool_calls(&self, query: ToolLogQuery) -> Result<Vec<Record>, StoreError> {
        self.look(move |_, reads| reads.calls(&query)).await
    }

    /// Whether anything ever happened in a channel. It is not restored.
    ///
    /// # Errors
    /// A view failed.
    pub async fn has_channel(&self, channel: &ChannelId) -> Result<bool, StoreError> {
        let key = Key::channel(channel);
        self.look(move |_, reads| reads.db.has(&key.0)).await
    }

    /// Searches from a place in the order on.
    ///
    /// # Errors
    /// The index or what it points at cannot be read.
    pub async fn found(&self, query: Query, after: Option<SearchPlace>) -> Result<Found, StoreError> {
        let asked = self.inner.durable().tail.n;
        if query.settled {
            // An index that is made again, or fails, or waits for views that do: what there is answers.
            let settled = async {
                self.settle().await?;
                match self.ask_index(asked) {
                    Some(done) => done.await.map_err(|_| StoreError::Closed)?,
                    None => Ok(()),
                }
            };
            drop(tokio::time::timeout(SETTLE_LIMIT, settled).await);
        }
        let lacks = asked.saturating_sub(self.inner.index.reaches());
        let (hits, next) = self.ranked(query, after).await?;
        Ok(Found { hits, next, unindexed: lacks })
    }

    /// One page in the order of words, and of vectors where a model makes them.
    pub(crate) async fn in_order(
        &self,
        query: Query,
        after: Option<SearchPlace>,
    ) -> Result<(Vec<Hit>, Option<SearchPlace>), StoreError> {
        let is_wide = query.channel.is_none() || query.said != SaidFilter::default();
        let asked = self.vector_of(&query.text).await;
        let search = move |inner: &Inner, reads: &Reads<'_>| {
            inner.index.search((&query, asked.as_deref()), after, reads)
        };
        if is_wide { self.read("a search", search).await } else { self.look(search).await }
    }

    /// Has the index take in what is said up to that record. `None`: it has so many tasks before it that it is far behind.
    fn ask_index(&self, upto: u64) -> Option<oneshot::Receiver<Result<(), StoreError>>> {
        let (reply, done) = oneshot::channel();
        self.inner.tasks.try_send(Task::Settle { upto, reply }).ok().map(|()| done)
    }

    /// Waits until the index shows all up to that record. `reach` is told how far it is.
    ///
    /// # Errors
    /// Views or index fail, the store is closed; those of `reach`.
    pub(crate) async fn settle_index(
        &self,
        upto: u64,
        reach: impl Fn(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.settle().await?;
        let mut asked = None;
        while self.inner.index.reaches() < upto {
            asked = asked.or_else(|| self.ask_index(upto));
            let answered = async {
                match &mut asked {
                    Some(done) => done.await.map_err(|_| StoreError::Closed)?,
                    None => pending().await,
                }
            };
            if let Ok(answered) = tokio::time::timeout(LOOK_EVERY, answered).await {
                answered?;
                asked = None;
                self.settle().await?;
            }
            reach(self.inner.index.reaches())?;
        }
        Ok(())
    }
}
