//! The port to what the daemon keeps.

use std::sync::Arc;

use cairn_types::event::{NewRecord, Record};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, MemoryId, MessageId, Seq, TextId};
use cairn_types::memory::{Memory, Reach};
use cairn_types::message::{Artifact, Entry};
use cairn_types::ports::{
    ArtifactLines, ChannelRow, Hit, LineRange, MemoryFilter, OutboxItem, Query, Recall, Seen, StoreError,
};
use futures::future::BoxFuture;

use crate::conversation::Conversation;
use crate::registry::{RegistryState, UsageDay};

/// What the daemon keeps: the journal, what is folded from it, and the artifacts. A read shows all that was durable when it
/// was asked for; a search may lag behind that (see [`Query::settled`]).
pub trait Store: Send + Sync + 'static {
    /// Appends the records together, in order, and returns once they are durable, with their numbers and times:
    /// all of them or, on error, none. Records of concurrent calls share a sync.
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;

    /// All channels ever seen, by name.
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>>;

    /// The line of one channel; `None`: it was never seen.
    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>>;

    /// The channels of a platform that are a person's private chat with the bot.
    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// The channels with something unfinished, by name: a pending message that is meant for the bot, an open turn, a run or a
    /// delivery owed. They are woken at a start.
    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// Restores a channel: its last snapshot, and the events since. `None` when it was never seen.
    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>>;

    /// Keeps a conversation's snapshot, so that the next restore is quick. Only a cache: losing it loses nothing.
    fn keep_snapshot(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Keeps of a conversation what lists show, and no snapshot: for one that has hardly changed since its last one.
    fn keep_outline(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Entries with `from <= seq <= to`, in order, at most `limit`, of all generations; pending ones excluded. Deleted
    /// messages are without their words.
    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    /// The entries that a message and its corrections became, in order: for [`crate::conversation::amend`]. None while
    /// it is pending, and when its id is not remembered any more.
    fn entries_of(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>>;

    /// Searches raw words, summaries and memories.
    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>>;

    /// The number of the journal's last record; 0: it has none.
    fn last_record(&self) -> u64;

    /// Records of the journal whose words are not in the index yet: many, while it is made again.
    fn unindexed(&self) -> u64;

    /// Memories of an agent within reach, oldest first (best first with a query).
    fn memories(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>>;

    /// One memory by its id, whatever its scope: for the operator.
    fn memory(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>>;

    /// The few memories that fit the question, for the tail of a window: best first, at most `limit`; and those that almost
    /// did.
    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Recall, StoreError>>;

    /// A text that traces of calls name, once it is journalled: see [`cairn_types::trace`].
    fn kept_text(&self, id: &TextId) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// Deliveries neither confirmed nor dropped, whatever their state, oldest first; drafts excluded.
    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>>;

    /// Pairings, moved chats and erasures.
    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>>;

    /// Tokens used on the last day on which any were.
    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>>;

    /// Keeps the words of an artifact, durable when it returns. An id that was used before is rewritten.
    fn put_artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        text: Arc<str>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads whole lines of an artifact, or the beginning of one that is larger than `max_bytes`; `None` when its words are
    /// lost: there is no such file, or it is not as it was written.
    fn artifact_lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>>;

    /// The artifact of that id; `None`: the channel never had it.
    fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<Option<Artifact>, StoreError>>;

    /// The artifacts of a channel that have not expired, of all generations; with `expired` all that it ever had.
    fn artifacts(
        &self,
        channel: &ChannelId,
        expired: bool,
    ) -> BoxFuture<'_, Result<Vec<Artifact>, StoreError>>;

    /// Removes the words of artifacts that have expired, where there are any left.
    fn remove_expired(&self, channel: &ChannelId) -> BoxFuture<'_, Result<(), StoreError>>;
}
