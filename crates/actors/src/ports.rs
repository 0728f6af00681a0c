//! The ports that the runtime was given at its start.

use std::sync::Arc;

use cairn_core::store_port::Store;
use cairn_types::event::{Event, MaintenanceEvent, NewRecord};
use cairn_types::ids::{ChannelId, TextId};
use cairn_types::ports::{ArgumentCheck, Clock, Platform, SPLIT_AT_ONCE, Speaker, StoreError, Toolset};
use cairn_types::wire::format::KeptText;
use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::tasks::off_thread;

/// Long texts that are split at the same time. The processor is left to everybody else.
const SPLITS: usize = 2;

/// Answers that are spoken at the same time. Further ones are text alone.
const SPEECHES: usize = 4;

/// Ids of journalled texts that are remembered. There are three for each model of an agent.
const KEPT_TEXTS: usize = 4096;

/// Store, tools, clock and chat networks. They stay the same until the runtime stops.
pub(crate) struct Ports {
    pub(crate) store: Arc<dyn Store>,
    /// Tools beside those that are built in.
    pub(crate) tools: Arc<dyn Toolset>,
    /// Checks the arguments of all calls.
    pub(crate) arguments: Arc<dyn ArgumentCheck>,
    pub(crate) clock: Arc<dyn Clock>,
    platforms: Vec<Arc<dyn Platform>>,
    pub(crate) speaker: Option<Arc<dyn Speaker>>,
    pub(crate) speeches: Arc<Semaphore>,
    /// Texts that traces refer to and that are known to be in the journal.
    kept_texts: Mutex<LruCache<TextId, ()>>,
    splits: Arc<Semaphore>,
}

impl Ports {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tools: Arc<dyn Toolset>,
        arguments: Arc<dyn ArgumentCheck>,
        clock: Arc<dyn Clock>,
        platforms: Vec<Arc<dyn Platform>>,
        speaker: Option<Arc<dyn Speaker>>,
    ) -> Self {
        let kept_texts = Mutex::new(LruCache::unbounded());
        Self {
            store,
            tools,
            arguments,
            clock,
            platforms,
            speaker,
            speeches: Arc::new(Semaphore::new(SPEECHES)),
            kept_texts,
            splits: Arc::new(Semaphore::new(SPLITS)),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The platform that delivers a channel's replies, if it is running.
    pub(crate) fn platform(&self, channel: &ChannelId) -> Option<Arc<dyn Platform>> {
        self.platforms.iter().find(|platform| platform.name() == channel.platform()).cloned()
    }

    /// Has a platform split a text, as `split` says, without holding up the runtime's threads.
    pub(crate) async fn split<T: Send + 'static>(
        &self,
        platform: &Arc<dyn Platform>,
        words: String,
        split: fn(&dyn Platform, &str) -> T,
    ) -> T {
        if words.len() <= SPLIT_AT_ONCE {
            return split(&**platform, &words);
        }
        let turn = Arc::clone(&self.splits).acquire_owned().await;
        let platform = Arc::clone(platform);
        let work = move || {
            // Held until it is done, even if nobody waits for it.
            let _turn = turn;
            split(&*platform, &words)
        };
        match off_thread(work).await.map_err(JoinError::try_into_panic) {
            Ok(parts) => parts,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The process ends before it began.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// Journals an event of the daemon itself, which belongs to no channel.
    pub(crate) async fn journal(&self, event: MaintenanceEvent) -> Result<(), StoreError> {
        self.store.append(vec![self.record(event)]).await.map(drop)
    }

    fn record(&self, event: MaintenanceEvent) -> NewRecord {
        NewRecord { channel: None, at: self.now(), event: Event::Maintenance(event) }
    }

    /// Journals those of the texts that the journal does not have yet. This happens after a start and after a change of
    /// the configuration.
    pub(crate) async fn keep_texts(&self, texts: Vec<KeptText>) {
        let mut new = Vec::new();
        for text in texts {
            if self.kept_texts.lock().get(&text.id).is_some() {
                continue;
            }
            match self.store.kept_text(&text.id).await {
                Ok(None) => new.push(text),
                Ok(Some(_)) => self.note_kept([text.id]),
                Err(error) => {
                    tracing::warn!(%error, "cannot check whether a call's prompt is in the journal")
                }
            }
        }
        if new.is_empty() {
            return;
        }
        let ids: Vec<TextId> = new.iter().map(|text| text.id.clone()).collect();
        let record =
            |KeptText { id, text }| self.record(MaintenanceEvent::TextKept { id, text: text.to_string() });
        // Noted only after the append: a call that ends meanwhile drops this future. Two concurrent calls may both write a
        // text, which does no harm.
        match self.store.append(new.into_iter().map(record).collect()).await {
            Ok(_) => self.note_kept(ids),
            Err(error) => {
                tracing::warn!(%error, "cannot journal a call's prompt; the next call tries again");
            }
        }
    }

    fn note_kept(&self, ids: impl IntoIterator<Item = TextId>) {
        let mut kept = self.kept_texts.lock();
        for id in ids {
            kept.put(id, ());
            if kept.len() > KEPT_TEXTS {
                kept.pop_lru();
            }
        }
    }
}
