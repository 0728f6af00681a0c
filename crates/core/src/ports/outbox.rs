//! Deliveries at rest, and what the daemon knows beside conversations.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::ids::{ChannelId, MessageId, OutboxId, Seq, TurnId};
use crate::registry::{RegistryState, UsageDay};

/// How a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeliveryState {
    /// To be sent.
    Owed,
    /// The platform will not take it.
    Dead {
        /// The platform's reason.
        reason: String,
    },
    /// Nobody knows whether its next part is there.
    Unknown {
        /// What went wrong.
        reason: String,
    },
}

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxItem {
    /// The delivery.
    pub id: OutboxId,
    /// Where to.
    pub channel: ChannelId,
    /// The turn that it answers.
    pub turn: TurnId,
    /// The entry that is the reply; of a note, the newest entry it is about.
    pub seq: Seq,
    /// When the intent was journalled.
    pub at: Timestamp,
    /// The words of a note, which is no entry; none for a reply.
    pub note: Option<String>,
    /// The message that the first part answers.
    pub reply_to: Option<MessageId>,
    /// The message that shows a draft: the first part takes its place by an edit.
    pub edits: Option<MessageId>,
    /// The parts that are there.
    pub sent: Vec<MessageId>,
    /// When the next part was first attempted, if it was and nothing is known of it since.
    pub attempted_at: Option<Timestamp>,
    /// How it stands.
    pub state: DeliveryState,
}

/// Deliveries owed.
pub trait OutboxStore: Send + Sync + 'static {
    /// Intents neither delivered nor dropped, whatever their state, oldest first; drafts excluded.
    fn deliveries(&self) -> BoxFuture<'_, Result<Vec<OutboxItem>, StoreError>>;
}

/// What the daemon knows beside conversations, as the journal has it.
pub trait RegistryStore: Send + Sync + 'static {
    /// Pairings and chats that moved.
    fn registry(&self) -> BoxFuture<'_, Result<RegistryState, StoreError>>;

    /// Tokens used on the last day on which any were.
    fn usage_day(&self) -> BoxFuture<'_, Result<UsageDay, StoreError>>;
}
