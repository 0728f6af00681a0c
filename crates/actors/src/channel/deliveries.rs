//! The channel's part in deliveries. A delivery is owed from the commit of its intent on. The outbox sends it, and its
//! progress is journalled here.

use std::sync::Arc;

use cairn_core::notice;
use cairn_types::event::{DeliveryEvent, Event, Record, TurnEvent};
use cairn_types::ids::OutboxId;
use cairn_types::message::Entry;
use cairn_types::ports::OutboxItem;

use super::state::{ChannelState, Failed};
use crate::failure::RuntimeError;
use crate::messages::{OutboxMsg, PendingDelivery};

impl ChannelState {
    /// Gives the outbox the deliveries that start with these records, and the reply if it is among them. Call it
    /// after the commit: a delivery that is lost here, because the outbox or this actor fails, is found in the store at the
    /// restart.
    pub(super) fn enqueue_deliveries(&self, records: &[Record]) {
        let ends = records.iter().any(|record| matches!(record.event, Event::Turn(TurnEvent::Ended(_))));
        for record in records {
            let Some(item) = OutboxItem::intended(&self.handle.id, record) else { continue };
            let entry = |record: &Record| -> Option<Arc<Entry>> {
                match &record.event {
                    Event::Turn(TurnEvent::EntryAdded { entry }) if entry.seq == item.seq => {
                        Some(Arc::new(entry.clone()))
                    }
                    _ => None,
                }
            };
            let reply = records.iter().find_map(entry).filter(|_| item.note.is_none());
            let typing = self.typing().filter(|_| ends);
            if let Some(typing) = &typing {
                typing.turn_ended();
            }
            self.shared.directory.tell_outbox(OutboxMsg::Deliver(Box::new(PendingDelivery {
                item,
                reply,
                typing,
            })));
        }
    }

    /// Journals how a delivery goes. False: it is no longer pending, and nothing is journalled.
    pub(super) async fn note_delivery(
        &mut self,
        id: &OutboxId,
        events: Vec<Event>,
    ) -> Result<bool, Failed<RuntimeError>> {
        if !self.handle.read(|conversation| conversation.owed.contains(id)) {
            return Ok(false);
        }
        let now = self.shared.ports.now();
        let settings = self.handle.settings();
        let events =
            self.handle.read(|conversation| notice::with_unsure(conversation, &settings, events, now));
        self.commit(events).await?;
        Ok(true)
    }

    /// Makes a delivery pending again. False: it is pending already.
    pub(super) async fn retry_delivery(&mut self, id: OutboxId) -> Result<bool, Failed<RuntimeError>> {
        let (pending, failed) = self
            .handle
            .read(|conversation| (conversation.owed.contains(&id), conversation.undelivered.contains(&id)));
        if pending {
            return Ok(false);
        }
        if !failed {
            return Err(RuntimeError::NoSuchDelivery(id).into());
        }
        self.commit(vec![Event::Delivery(DeliveryEvent::Retried { id })]).await?;
        Ok(true)
    }

    /// Gives up a delivery that is pending, or that failed.
    pub(super) async fn drop_delivery(&mut self, id: OutboxId) -> Result<(), Failed<RuntimeError>> {
        let is_known = self
            .handle
            .read(|conversation| conversation.owed.contains(&id) || conversation.undelivered.contains(&id));
        if !is_known {
            return Err(RuntimeError::NoSuchDelivery(id).into());
        }
        Ok(self.commit(vec![Event::Delivery(DeliveryEvent::Dropped { id })]).await?)
    }
}
