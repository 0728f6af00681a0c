//! What a failed poll means: trying again after a pause, or a failure that somebody must mend.

use std::time::Duration;

use cairn_core::ports::{AdapterFailure, LinkState};
use tokio::time::Instant;

use super::Telegram;
use super::api::CallError;
use crate::pause::Pauses;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A second conflict within this time is no remnant of a connection of our own.
const CONFLICT_WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    Again(Duration),
    Fail(AdapterFailure),
}

pub(super) struct Troubles {
    pauses: Pauses,
    any: bool,
    conflict: Option<Instant>,
}

impl Default for Troubles {
    fn default() -> Self {
        Self { pauses: Pauses::new(FIRST_PAUSE, LONGEST_PAUSE), any: false, conflict: None }
    }
}

impl Troubles {
    pub(super) fn over(&mut self) {
        if std::mem::take(&mut self.any) {
            tracing::info!("telegram answers again");
        }
        self.pauses.reset();
    }

    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// A call failed: says what comes next, and shows it.
    pub(super) fn met(&mut self, error: &CallError, telegram: &Telegram) -> Next {
        metrics::counter!("cairn_telegram_poll_failures_total", "kind" => kind(error)).increment(1);
        if let Some(failure) = self.lasting(error) {
            return Next::Fail(failure);
        }
        let pause = match error {
            CallError::Api { retry_after: Some(wait), .. } => *wait,
            _ => self.pauses.next(),
        };
        let failure = AdapterFailure {
            reason: error.to_string(),
            hint: passing_hint(error).to_owned(),
            lasting: false,
        };
        if std::mem::replace(&mut self.any, true) {
            tracing::debug!(%error, ?pause, "telegram still fails");
        } else {
            tracing::warn!(%error, ?pause, hint = failure.hint, "telegram cannot be asked for updates; it is tried again");
        }
        telegram.link.set(LinkState::Reconnecting, Some(&failure));
        Next::Again(pause)
    }

    fn lasting(&mut self, error: &CallError) -> Option<AdapterFailure> {
        let CallError::Api { code, description, .. } = error else { return None };
        let lasting = |reason: String, hint: &str| {
            Some(AdapterFailure { reason, hint: hint.to_owned(), lasting: true })
        };
        match code {
            401 | 404 => lasting(
                format!("Telegram does not know this token ({description})"),
                "copy the token again from @BotFather; if it was revoked, the new one is there",
            ),
            403 => lasting(
                format!("Telegram refuses this bot ({description})"),
                "look at the bot in @BotFather: is it still there, and not blocked?",
            ),
            409 if description.contains("webhook") => lasting(
                "a webhook is set for this bot, so it cannot be asked for updates".to_owned(),
                "switch off the service that set the webhook, then call the Bot API's deleteWebhook with this token, \
                 or use another bot",
            ),
            409 => {
                let now = Instant::now();
                let before = self.conflict.replace(now);
                if before.is_none_or(|before| now - before > CONFLICT_WINDOW) {
                    return None;
                }
                lasting(
                    "another program asks Telegram for updates with this token (409 Conflict)".to_owned(),
                    "stop the other program, or give each a bot of its own; if nobody knows of one, revoke the token \
                     in @BotFather",
                )
            }
            _ => None,
        }
    }
}

fn kind(error: &CallError) -> &'static str {
    match error {
        CallError::Api { code: 429, .. } => "rate_limited",
        CallError::Api { code: 409, .. } => "conflict",
        CallError::Api { .. } => "refused",
        CallError::Connect(_) => "unreachable",
        CallError::Broken(_) => "broken",
        CallError::Garbled { .. } => "garbled",
    }
}

fn passing_hint(error: &CallError) -> &'static str {
    match error {
        CallError::Api { code: 409, .. } => "if it stays so, another program uses this token",
        CallError::Api { .. } => "nothing: it is tried again",
        CallError::Connect(_) | CallError::Broken(_) => {
            "is the network up, and `api_url` right? it is tried again"
        }
        CallError::Garbled { .. } => "is `api_url` the address of a Bot API server? it is tried again",
    }
}
