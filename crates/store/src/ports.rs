//! The ports that the store implements.

use std::sync::Arc;

use cairn_core::conversation::Conversation;
use cairn_core::event::{NewRecord, Record};
use cairn_core::ids::{AgentId, ChannelId, MemoryId, MessageId, Seq};
use cairn_core::memory::{Memory, Reach};
use cairn_core::message::Entry;
use cairn_core::ports::{
    Archive, ChannelRow, Hit, Journal, MemoryFilter, MemoryStore, OutboxItem, OutboxStore, Query,
    RegistryStore, Search, Seen, StoreError,
};
use cairn_core::registry::{RegistryState, UsageDay};
use cairn_core::tool::ToolLogQuery;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::index::Task;
use crate::store::Store;
use crate::views::codec::{encode, view_error};
use crate::views::{Command, memories, registry};

impl Journal for Store {
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        self.inner.appender.append(records).boxed()
    }
}

impl Archive for Store {
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        self.read(|inner| inner.reads(|reads| reads.channels())).boxed()
    }

    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        let channel = channel.clone();
        self.read(move |inner| {
            let quarantined = inner.views.applied().borrow().quarantined;
            inner.reads(|reads| reads.restore(&channel, quarantined))
        })
        .boxed()
    }

    fn keep_head(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        let commands = self.inner.commands.clone();
        async move {
            let (reply, kept) = oneshot::channel();
            let sent = tokio::task::spawn_blocking(move || {
                let head = encode(&conversation.to_head())?;
                let channel = conversation.channel.clone();
                commands.send(Command::KeepHead { channel, head, reply }).map_err(|_| StoreError::Closed)
            });
            sent.await
                .map_err(|_panic| view_error("making a head panicked; the log says where".to_owned()))??;
            kept.await.map_err(|_| StoreError::Closed)?
        }
        .boxed()
    }

    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let channel = channel.clone();
        self.read(move |inner| inner.reads(|reads| reads.entries(&channel, from, to, limit))).boxed()
    }

    fn said(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        self.read(move |inner| inner.reads(|reads| reads.said(&channel, &message))).boxed()
    }

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let (channel, message) = (channel.clone(), message.clone());
        self.read(move |inner| inner.reads(|reads| reads.seen(&channel, &message))).boxed()
    }
}

impl MemoryStore for Store {
    fn list(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>> {
        let (agent, reach) = (agent.clone(), reach.to_vec());
        self.read(move |inner| inner.recall.list(&inner.views, &agent, &reach, &filter)).boxed()
    }

    fn get(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>> {
        let id = id.clone();
        self.read(move |inner| inner.reads(|reads| memories::get(reads.db, &id))).boxed()
    }

    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>> {
        let (agent, reach, question) = (agent.clone(), reach.to_vec(), question.to_owned());
        self.read(move |inner| inner.recall.recall(&inner.views, &agent, &reach, &question, limit)).boxed()
    }
}

impl OutboxStore for Store {
    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>> {
        self.read(|inner| inner.reads(|reads| reads.deliveries())).boxed()
    }
}

impl Store {
    /// How many memories an agent has, in all scopes.
    ///
    /// # Errors
    /// A view failed.
    pub async fn memory_count(&self, agent: &AgentId) -> Result<u64, StoreError> {
        let agent = agent.clone();
        self.read(move |inner| inner.reads(|reads| memories::count(reads.db, &agent))).await
    }

    /// Calls of tools, the newest that fit, oldest first, with their records.
    ///
    /// # Errors
    /// A view failed.
    pub async fn tool_calls(&self, query: ToolLogQuery) -> Result<Vec<Record>, StoreError> {
        self.read(move |inner| {
            let before = query.before.unwrap_or(u64::MAX);
            inner.reads(|reads| {
                reads.calls(query.channel.as_ref(), before, query.limit, &|used| query.fits(used))
            })
        })
        .await
    }
}

impl RegistryStore for Store {
    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>> {
        self.read(|inner| inner.reads(|reads| registry::state(reads.db))).boxed()
    }

    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>> {
        self.read(|inner| inner.reads(|reads| registry::usage_day(reads.db))).boxed()
    }
}

impl Search for Store {
    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>> {
        async move {
            if query.settled {
                self.settle().await?;
                let (reply, done) = oneshot::channel();
                let tasks = self.inner.tasks.clone();
                let sent = tokio::task::spawn_blocking(move || tasks.send(Task::Settle { reply })).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return Err(StoreError::Closed);
                }
                done.await.map_err(|_| StoreError::Closed)??;
            }
            self.read(move |inner| inner.reads(|reads| inner.index.search(&query, &reads))).await
        }
        .boxed()
    }
}
