//! The one way to change a conversation: journal, then fold.

use cairn_core::conversation::FoldError;
use cairn_core::event::{Event, NewRecord};
use cairn_core::ports::StoreError;

use super::ChannelState;

impl ChannelState {
    /// Journals the events together, folds them in once they are durable, and tells watchers. A store that refuses
    /// leaves everything as it was.
    ///
    /// # Errors
    /// A record does not fit the state: the actor must be started again from the archive.
    pub(super) async fn commit(&mut self, events: Vec<Event>) -> Result<Result<(), StoreError>, FoldError> {
        if events.is_empty() {
            return Ok(Ok(()));
        }
        let at = self.shared.now();
        let channel = &self.cell.id;
        let records =
            events.into_iter().map(|event| NewRecord { channel: Some(channel.clone()), at, event }).collect();
        let records = match self.shared.deps.journal.append(records).await {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%channel, %error, "the journal refused a change; nothing was changed");
                return Ok(Err(error));
            }
        };
        self.cell.apply(&records)?;
        self.report(&records);
        Ok(Ok(()))
    }
}
