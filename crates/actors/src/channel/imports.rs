//! Imports of conversations from other programs: journalled as turns that have ended. No model is called.

use std::collections::BTreeSet;

use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::import::{Imported, PastMessage, import, room_made};
use cairn_types::event::Event;
use cairn_types::ids::MessageId;
use cairn_types::ports::{Seen, StoreError};

use super::state::{ChannelState, Failed};
use crate::failure::RuntimeError;
use crate::messages::CompactorMsg;

impl ChannelState {
    /// The messages are durable when this returns. Those that do not fit the window leave it immediately and are summarised later.
    pub(super) async fn import(&mut self, said: &[PastMessage]) -> Result<Imported, Failed<RuntimeError>> {
        if self.draining {
            return Err(RuntimeError::Stopping.into());
        }
        let waits = |conversation: &Conversation| {
            conversation.open_turn.is_some() || !conversation.pending.is_empty()
        };
        if self.unsaved.is_some() || self.handle.read(waits) {
            return Err(RuntimeError::Answering(self.handle.id.clone()).into());
        }
        let known = self.known(said).await.map_err(RuntimeError::Store)?;
        let mut imported = self.handle.read(|conversation| import(conversation, said, &known));
        let events: Vec<Event> = std::mem::take(&mut imported.events);
        if !events.is_empty() {
            self.commit_past(events).await?;
            metrics::counter!("cairn_imported_total").increment(imported.messages);
        }
        Ok(imported)
    }

    /// Journals what this daemon has not seen happen. What of it does not fit leaves the window.
    pub(super) async fn commit_past(&mut self, events: Vec<Event>) -> Result<(), Failed<StoreError>> {
        self.importing = true;
        let committed = self.commit(events).await;
        self.importing = false;
        committed?;
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let conversation = self.handle.snapshot();
        let room = self.handle.engine.compact(&conversation, &settings, MakeRoom::Tier, now);
        drop(conversation);
        self.commit(room_made(room)).await?;
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(())
    }

    /// The ids of messages that the channel has accepted or refused before.
    async fn known(&self, said: &[PastMessage]) -> Result<BTreeSet<MessageId>, StoreError> {
        let mut known = BTreeSet::new();
        for said in said.iter().filter(|said| said.author.is_some()) {
            if self.shared.ports.store.seen(&self.handle.id, &said.message).await? != Seen::New {
                known.insert(said.message.clone());
            }
        }
        Ok(known)
    }
}
