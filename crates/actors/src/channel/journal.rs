//! The one way to change a conversation: journal, then fold.

use std::sync::Arc;

use cairn_core::conversation::FoldError;
use cairn_core::event::{Event, NewRecord};
use cairn_core::ports::StoreError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ChannelState;
use crate::tasks::Ended;

/// Why the actor cannot go on: it is started again from the archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A record does not fit the state.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// Nobody knows whether it was written.
    #[error("the journal failed in the middle of an append: {0}")]
    Journal(String),
}

impl ChannelState {
    /// Journals the events together, folds them in once they are durable, and tells watchers. A store that refuses
    /// leaves everything as it was.
    ///
    /// # Errors
    /// The actor must be started again from the archive.
    pub(super) async fn commit(&mut self, events: Vec<Event>) -> Result<Result<(), StoreError>, Fault> {
        if events.is_empty() {
            return Ok(Ok(()));
        }
        let at = self.shared.now();
        let channel = &self.handle.id;
        let records =
            events.into_iter().map(|event| NewRecord { channel: Some(channel.clone()), at, event }).collect();
        let records = match self.append(records).await? {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%channel, %error, "the journal refused a change; nothing was changed");
                return Ok(Err(error));
            }
        };
        self.handle.apply(&records)?;
        self.report(&records);
        self.watch_losses(&records);
        Ok(Ok(()))
    }

    /// Appends in a task of its own, which ends even if this actor is killed: the next one reads the archive only
    /// when it has, and so never misses what was written in its name.
    async fn append(
        &self,
        records: Vec<NewRecord>,
    ) -> Result<Result<Vec<cairn_core::event::Record>, StoreError>, Fault> {
        let journal = Arc::clone(&self.shared.deps.store);
        let writing = self.handle.writing().await;
        let (told, done) = oneshot::channel();
        let work = async move {
            let result = journal.append(records).await;
            drop(writing);
            result
        };
        self.shared.tasks.watch(CancellationToken::new(), work, move |ended| drop(told.send(ended)));
        match done.await {
            Ok(Ended::Done(result)) => Ok(result),
            Ok(Ended::Panicked(message)) => Err(Fault::Journal(message)),
            Ok(Ended::Cancelled) | Err(_) => Err(Fault::Journal("its task is gone".to_owned())),
        }
    }
}
