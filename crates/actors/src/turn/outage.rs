//! How a turn bears an outage of its models.

use std::time::Duration;

use cairn_core::agent::RuntimeLimits;
use cairn_types::ids::{ChannelId, OutboxId, TurnId};
use cairn_types::model::ModelError;
use tokio::time::Instant;

use crate::handle::ChannelHandle;
use crate::pace::Pace;

/// The note that tells people so: one per turn, whatever restarts there are.
pub(crate) fn note_id(channel: &ChannelId, turn: &TurnId) -> OutboxId {
    OutboxId::from(format!("{channel}:{turn}:wait"))
}

/// How a turn bears a model that does not answer.
pub(super) struct OutageWait {
    pub(super) is_chat: bool,
    pub(super) told: bool,
    pub(super) waits: bool,
    /// When the first call failed since one succeeded last.
    pub(super) since: Option<Instant>,
    /// A local turn waits for no server that asks for more.
    asked_max: Duration,
    pub(super) pace: Pace,
}

impl OutageWait {
    /// As a turn begins, or is taken up again.
    pub(super) fn of(handle: &ChannelHandle, is_chat: bool, limits: &RuntimeLimits) -> Self {
        let told = handle.read(|conversation| {
            let open = conversation.open_turn.as_ref();
            open.is_some_and(|open| open.notes.contains(&note_id(&conversation.channel, &open.id)))
        });
        Self {
            is_chat,
            told,
            waits: false,
            since: None,
            asked_max: limits.model_retry_max,
            pace: Pace::up_to(limits.patience_max),
        }
    }

    /// Whether it waits after this error instead of failing.
    pub(super) fn covers(&self, error: &ModelError) -> bool {
        match error {
            ModelError::BadRequest { .. }
            | ModelError::NoTools(_)
            | ModelError::ContextOverflow { .. }
            | ModelError::CutOff(_)
            | ModelError::Declined
            | ModelError::Filtered
            // It answers, with nothing that can be used: every further call would cost as much and end alike.
            | ModelError::Protocol(_)
            | ModelError::Failed(_) => false,
            // The key must be mended first: a local waiter is told at once, a chat goes on by itself.
            ModelError::Auth(_) => self.is_chat,
            ModelError::RateLimited { retry_after, .. } => {
                self.is_chat || retry_after.is_none_or(|asked| asked <= self.asked_max)
            }
            ModelError::Overloaded { .. }
            | ModelError::Timeout(_)
            | ModelError::Transport(_)
            | ModelError::Broken(_) => true,
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    pub(super) fn failed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}
