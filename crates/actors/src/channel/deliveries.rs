//! Deliveries as the channel's journal has them: what is owed goes to the outbox, what becomes of it comes back.

use std::sync::Arc;

use cairn_core::event::{DeliveryEvent, Event, Record, TurnEvent};
use cairn_core::ids::OutboxId;
use cairn_core::message::Entry;
use cairn_core::ports::OutboxItem;

use super::ChannelState;
use super::journal::Fault;
use crate::outbox::{OutboxMsg, Owed};
use crate::runtime::RuntimeError;

impl ChannelState {
    /// Notes how a delivery goes. False: it is owed no longer.
    pub(super) async fn post(
        &mut self,
        id: &OutboxId,
        events: Vec<Event>,
    ) -> Result<Result<bool, RuntimeError>, Fault> {
        if !self.handle.read(|conversation| conversation.owed.contains(id)) {
            return Ok(Ok(false));
        }
        Ok(self.commit(events).await?.map(|()| true).map_err(RuntimeError::Store))
    }

    /// Has a delivery that did not succeed tried again. False: it is under way.
    pub(super) async fn retry_delivery(&mut self, id: OutboxId) -> Result<Result<bool, RuntimeError>, Fault> {
        let (owed, failed) = self
            .handle
            .read(|conversation| (conversation.owed.contains(&id), conversation.undelivered.contains(&id)));
        if owed {
            return Ok(Ok(false));
        }
        if !failed {
            return Ok(Err(RuntimeError::NoSuchDelivery(id)));
        }
        let retried = self.commit(vec![Event::Delivery(DeliveryEvent::Retried { id })]).await?;
        Ok(retried.map(|()| true).map_err(RuntimeError::Store))
    }

    pub(super) async fn drop_delivery(&mut self, id: OutboxId) -> Result<Result<(), RuntimeError>, Fault> {
        let is_known = self
            .handle
            .read(|conversation| conversation.owed.contains(&id) || conversation.undelivered.contains(&id));
        if !is_known {
            return Ok(Err(RuntimeError::NoSuchDelivery(id)));
        }
        Ok(self
            .commit(vec![Event::Delivery(DeliveryEvent::Dropped { id })])
            .await?
            .map_err(RuntimeError::Store))
    }

    /// Hands what became owed with these records to the outbox, with the reply where it is among them. What ends
    /// with them is owed no longer.
    pub(super) fn hand_over(&self, records: &[Record]) {
        let settled = |id: &OutboxId| {
            records.iter().any(
                |record| matches!(&record.event, Event::Delivery(DeliveryEvent::Settled { id: settled, .. }) if settled == id),
            )
        };
        let ends = records.iter().any(|record| matches!(record.event, Event::Turn(TurnEvent::Ended(_))));
        for record in records {
            let item = OutboxItem::intended(&self.handle.id, record);
            let Some(item) = item.filter(|item| !settled(&item.id)) else { continue };
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
            self.shared.tell_outbox(OutboxMsg::Owe(Box::new(Owed { item, reply, typing })));
        }
    }
}
