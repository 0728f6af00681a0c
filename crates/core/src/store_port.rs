//! The port to the daemon's storage.

use crate::conversation::Outline;
use jiff::Timestamp;
use std::sync::Arc;

use cairn_types::event::{NewRecord, Record};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, Seq, TextId};
use cairn_types::memory::{Memory, MemorySave, Reach};
use cairn_types::message::{Artifact, Entry};
use cairn_types::ports::{
    ArtifactLines, ChannelRow, Hit, LineRange, MemoryFilter, OutboxItem, Query, Recall, Seen, StoreError,
};
use cairn_types::reminder::Reminder;
use futures::future::BoxFuture;

use crate::conversation::Conversation;
use crate::registry::{RegistryState, UsageDay};

/// Storage of the journal, of what is folded from it, and of artifacts. A read includes everything that was durable when it
/// was requested. A search may lag behind that (see [`Query::settled`]).
pub trait Store: Send + Sync + 'static {
    /// Appends records together, in order, and returns them with their numbers once they are durable. On error none of them
    /// is written. Concurrent calls share a sync.
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;

    /// All channels ever seen, by name.
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>>;

    /// The row of one channel; `None`: it was never seen.
    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>>;

    /// The channels of a platform that are a person's private chat with the bot.
    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// Channels with unfinished work, by name: a pending message for the bot, an open turn, a run, or a delivery that is due.
    /// They are woken when the daemon starts.
    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// Restores a channel from its last snapshot and the events since; `None`: it was never seen.
    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>>;

    /// Stores a snapshot, which makes the next restore quick. It is only a cache.
    fn keep_snapshot(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Stores only what lists show of a conversation, without a snapshot, since it has hardly changed since the last one.
    fn keep_outline(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Entries with `from <= seq <= to` of all generations, in order, at most `limit`; pending messages are excluded.
    /// Deleted messages have no text.
    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    /// The entries of a message and its corrections, in order, for [`crate::conversation::amend`]. Empty while the message
    /// is pending, and when its id is no longer remembered.
    fn entries_of(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>>;

    /// Searches messages, summaries and memories.
    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>>;

    /// The number of the journal's last record; 0: there is none.
    fn last_record(&self) -> u64;

    /// Journal records that the index lacks: many while it is rebuilt.
    fn unindexed(&self) -> u64;

    /// Memories of an agent within reach, oldest first; with a query, best first.
    fn memories(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>>;

    /// A memory by its id, in whatever scope. For the operator.
    fn memory(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>>;

    /// Whether a save would be blocked because a person had the memory forgotten, in these words or others.
    fn is_forgotten(&self, save: &MemorySave) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// The memories that fit a question best, for the tail of a window: best first, at most `limit`; also those that almost
    /// fit.
    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Recall, StoreError>>;

    /// A journalled text that traces refer to (see [`cairn_types::trace`]); `None`: it is not journalled yet.
    fn kept_text(&self, id: &TextId) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// Deliveries that are neither confirmed nor dropped, in whatever state, oldest first; drafts are excluded.
    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>>;

    /// The deliveries of a channel that are owed, or of all channels, oldest first. Those that are dead or unknown are not read.
    fn owed(&self, channel: Option<&ChannelId>) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>>;

    /// The channels in which a reminder is due at `now`, and when the next one is.
    fn due(&self, now: Timestamp) -> BoxFuture<'_, Result<Due, StoreError>>;

    /// The reminders of a channel, or of all channels by name, at most `limit`.
    fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(ChannelId, Reminder)>, StoreError>>;

    /// A delivery that is neither confirmed nor dropped.
    fn delivery_of(
        &self,
        channel: &ChannelId,
        id: &OutboxId,
    ) -> BoxFuture<'_, Result<Option<OutboxItem>, StoreError>>;

    /// Pairings, bans, access rules, moved chats, approved servers and erasures.
    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>>;

    /// Tokens used on the last day with any use.
    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>>;

    /// Stores the content of an artifact, which is durable when this returns. An existing content is overwritten.
    fn put_artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        content: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads the whole content of an artifact; `None`: it is lost, since its file is missing or damaged.
    fn artifact_bytes(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
    ) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, StoreError>>;

    /// Reads whole lines of an artifact, or the beginning of a line that is larger than `max_bytes`; `None`: the text is
    /// lost, since its file is missing or damaged.
    fn artifact_lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>>;

    /// An artifact by its id; `None`: the channel never had it.
    fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<Option<Artifact>, StoreError>>;

    /// Artifacts of a channel that have not expired, of all generations; with `expired`, all that it ever had.
    fn artifacts(
        &self,
        channel: &ChannelId,
        expired: bool,
    ) -> BoxFuture<'_, Result<Vec<Artifact>, StoreError>>;

    /// Removes the texts of expired artifacts, if any are left.
    fn remove_expired(&self, channel: &ChannelId) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Where reminders are due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// The first to be due comes first.
    pub channels: Vec<ChannelId>,
    /// When the next one is due; `None`: there is none.
    pub next: Option<Timestamp>,
}

/// A row of the list of channels.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelLine {
    pub channel: ChannelId,
    /// When anything last happened in it.
    pub last_at: Timestamp,
    /// Entries of its history, of all generations.
    pub entries: u64,
    /// Its conversation as it is now; `None`: no snapshot was kept since its last record.
    pub outline: Option<Outline>,
}
