//! How a turn waits during an outage of its models.

use std::time::Duration;

use cairn_core::agent::RuntimeLimits;
use cairn_types::ids::{ChannelId, OutboxId, TurnId};
use cairn_types::model::ModelError;
use tokio::time::Instant;

use crate::handle::ChannelHandle;
use crate::pace::Pace;

/// The id of the note that tells people about an outage: one per turn, whatever restarts there are.
pub(crate) fn note_id(channel: &ChannelId, turn: &TurnId) -> OutboxId {
    OutboxId::from(format!("{channel}:{turn}:wait"))
}

/// The state of a turn's waiting for models that do not answer.
pub(super) struct OutageWait {
    pub(super) is_chat: bool,
    pub(super) told: bool,
    pub(super) waits: bool,
    /// When a call first failed since the last success.
    pub(super) since: Option<Instant>,
    /// Longest pause that a local turn accepts from a server.
    asked_max: Duration,
    pub(super) pace: Pace,
}

impl OutageWait {
    /// At the start of a turn, or when it resumes.
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

    /// Whether the turn waits after this error instead of failing.
    pub(super) fn covers(&self, error: &ModelError) -> bool {
        match error {
            ModelError::BadRequest { .. }
            | ModelError::NoTools(_)
            | ModelError::ContextOverflow { .. }
            | ModelError::CutOff(_)
            | ModelError::Declined
            | ModelError::Filtered
            // It answers, but uselessly; further calls would cost as much and fail alike.
            | ModelError::Protocol(_)
            | ModelError::Failed(_) => false,
            // The key has to be corrected first: a local waiter is told immediately, a chat waits.
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

    pub(super) fn failed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}
