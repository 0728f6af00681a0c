//! Deliveries at rest, and what the daemon knows beside conversations.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::event::{DeliveryEvent, Event, Receipt, Record};
use crate::ids::{ApprovalId, ChannelId, MessageId, OutboxId, Seq, TurnId};
use crate::pairing_store::{RegistryState, UsageDay};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeliveryState {
    Owed,
    Dead {
        reason: String,
    },
    /// Nobody knows whether its next part is there.
    Unknown {
        reason: String,
    },
}

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxItem {
    pub id: OutboxId,
    pub channel: ChannelId,
    pub turn: TurnId,
    /// The entry that is the reply; of a note, the newest entry it is about.
    pub seq: Seq,
    pub at: Timestamp,
    /// The words of a note, which is no entry; none for a reply.
    pub note: Option<String>,
    /// The approval that the note asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The message that the first part answers.
    pub reply_to: Option<MessageId>,
    /// The message that shows a draft: the first part takes its place by an edit.
    pub edits: Option<MessageId>,
    pub sent: Vec<MessageId>,
    /// When the next part was first attempted, if it was and nothing is known of it since.
    pub attempted_at: Option<Timestamp>,
    pub state: DeliveryState,
}

impl OutboxItem {
    /// The delivery that a record of that channel says is owed; none for other events, and for drafts.
    pub fn intended(channel: &ChannelId, record: &Record) -> Option<Self> {
        let Event::Delivery(DeliveryEvent::Intended {
            id,
            turn,
            seq,
            note,
            approval,
            reply_to,
            edits,
            draft: false,
        }) = &record.event
        else {
            return None;
        };
        Some(Self {
            id: id.clone(),
            channel: channel.clone(),
            turn: turn.clone(),
            seq: *seq,
            at: record.at,
            note: note.clone(),
            approval: approval.clone(),
            reply_to: reply_to.clone(),
            edits: edits.clone(),
            sent: Vec::new(),
            attempted_at: None,
            state: DeliveryState::Owed,
        })
    }

    /// The delivery that an event of the outbox is about.
    pub fn named_by(event: &Event) -> Option<&OutboxId> {
        match event {
            Event::Delivery(
                DeliveryEvent::Intended { id, .. }
                | DeliveryEvent::Attempted { id, .. }
                | DeliveryEvent::PutOff { id, .. }
                | DeliveryEvent::Sent { id, .. }
                | DeliveryEvent::Settled { id, .. }
                | DeliveryEvent::Retried { id }
                | DeliveryEvent::Dropped { id },
            ) => Some(id),
            _ => None,
        }
    }

    /// Folds a later record of its channel in; those of other deliveries change nothing. False: it is over,
    /// delivered or dropped, and no longer listed.
    pub fn apply(&mut self, record: &Record) -> bool {
        if Self::named_by(&record.event) != Some(&self.id) {
            return true;
        }
        match &record.event {
            Event::Delivery(DeliveryEvent::Attempted { .. }) => {
                self.attempted_at.get_or_insert(record.at);
            }
            Event::Delivery(DeliveryEvent::PutOff { .. }) => self.attempted_at = None,
            Event::Delivery(DeliveryEvent::Sent { message, .. }) => {
                self.attempted_at = None;
                self.sent.push(message.clone());
            }
            Event::Delivery(DeliveryEvent::Settled { receipt, .. }) => match receipt {
                Receipt::Delivered { .. } => return false,
                Receipt::Dead { reason } => self.state = DeliveryState::Dead { reason: reason.clone() },
                Receipt::Unknown { reason, .. } => {
                    self.state = DeliveryState::Unknown { reason: reason.clone() };
                }
            },
            Event::Delivery(DeliveryEvent::Retried { .. }) => {
                self.state = DeliveryState::Owed;
                self.attempted_at = None;
            }
            Event::Delivery(DeliveryEvent::Dropped { .. }) => return false,
            _ => {}
        }
        true
    }

    pub fn is_owed(&self) -> bool {
        self.state == DeliveryState::Owed
    }
}

pub trait OutboxStore: Send + Sync + 'static {
    /// Intents neither delivered nor dropped, whatever their state, oldest first; drafts excluded.
    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>>;
}

/// What the daemon knows beside conversations, as the journal has it.
pub trait RegistryStore: Send + Sync + 'static {
    fn pairing_store(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>>;

    /// Tokens used on the last day on which any were.
    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>>;
}
