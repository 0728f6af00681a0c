//! Errors of REST requests, and what they mean for a message. They never contain the token or an address that has one
//! in it.

use std::time::Duration;

use cairn_types::ports::SendError;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum RestError {
    #[error("a rate limit of Discord; there is room in {} ms", after.as_millis())]
    Limited { after: Duration },
    #[error("Discord cannot be reached: {0}")]
    Unreachable(String),
    #[error("{0}")]
    Unknown(String),
    /// The token is wrong, or was revoked.
    #[error("Discord refuses the bot's token")]
    Unauthorized,
    #[error("{}", refusal(*.status, *.code, .message))]
    Refused {
        status: u16,
        /// Discord's error code; 0 if there is none.
        code: u32,
        message: String,
    },
}

/// The body of an error answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Fault {
    pub(super) code: u32,
    pub(super) message: String,
    pub(super) retry_after: Option<f64>,
    pub(super) global: bool,
}

/// The channel does not exist, or the bot cannot see it.
pub(crate) const UNKNOWN_CHANNEL: u32 = 10003;
/// The message to be edited does not exist.
pub(crate) const UNKNOWN_MESSAGE: u32 = 10008;
/// The interaction has expired or never existed.
pub(crate) const UNKNOWN_INTERACTION: u32 = 10062;
/// The interaction was already answered.
pub(crate) const ALREADY_ANSWERED: u32 = 40060;
/// The request's form is invalid.
pub(crate) const BAD_FORM: u32 = 50035;
/// A reply requires the right to read the history.
pub(crate) const NO_HISTORY_FOR_REPLY: u32 = 160_002;

/// The refusal, with advice on how to fix it.
fn refusal(status: u16, code: u32, message: &str) -> String {
    let words = refusal_words(code);
    if code == 0 {
        format!("{words} (status {status})")
    } else {
        let message: String = message.chars().filter(|c| !c.is_control()).take(120).collect();
        format!("{words} (Discord {code}: {message})")
    }
}

fn refusal_words(code: u32) -> &'static str {
    match code {
        UNKNOWN_CHANNEL => "the channel is gone, or the bot is no longer in its server",
        UNKNOWN_MESSAGE => "the message is gone",
        20016 => "the channel is in slow mode; give the bot the permission Manage Messages there",
        30033 => "the thread has too many members",
        50001 => "the bot cannot see the channel; give it View Channel there",
        50007 => "the person takes no private messages of the bot",
        50013 => {
            "the bot may not write in the channel; give it Send Messages (in threads: Send Messages in Threads) there"
        }
        BAD_FORM => "Discord finds fault with the message",
        50083 => "the thread is archived; the bot may not open it",
        160_005 => "the thread is locked",
        NO_HISTORY_FOR_REPLY => "the bot may not reply in the channel; give it Read Message History there",
        _ => "Discord refuses the request",
    }
}

impl RestError {
    /// The error for a channel that Discord does not know.
    pub(crate) fn unknown_channel() -> Self {
        Self::Refused { status: 404, code: UNKNOWN_CHANNEL, message: "Unknown Channel".to_owned() }
    }

    pub(crate) fn is_unknown_channel(&self) -> bool {
        matches!(self, Self::Refused { code: UNKNOWN_CHANNEL, .. })
    }

    /// The error without Discord's own text, which may quote the message; for logs.
    pub(crate) fn in_brief(&self) -> String {
        match self {
            Self::Refused { status, code: 0, .. } => refusal(*status, 0, ""),
            Self::Refused { code, .. } => format!("{} (Discord {code})", refusal_words(*code)),
            Self::Limited { .. } | Self::Unreachable(_) | Self::Unknown(_) | Self::Unauthorized => {
                self.to_string()
            }
        }
    }

    /// Whether a repeated request may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Unauthorized)
    }

    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Limited { .. } | Self::Unreachable(_))
    }

    /// The least time to wait before a repeat, if Discord named one.
    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            Self::Limited { after } => Some(*after),
            _ => None,
        }
    }
}

impl From<RestError> for SendError {
    fn from(error: RestError) -> Self {
        let reason = error.to_string();
        match error {
            RestError::Limited { after } => Self::Later { after: Some(after), reason },
            RestError::Unreachable(_) => Self::Later { after: None, reason },
            RestError::Unknown(reason) => Self::Unknown(reason),
            // The message is fine: it is sent once the token is accepted, which may be in a second.
            RestError::Unauthorized => Self::Later { after: None, reason },
            RestError::Refused { .. } => Self::Refused(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_in_discords_terms() {
        let refused =
            |code, message: &str| RestError::Refused { status: 403, code, message: message.to_owned() };
        let words = refused(50013, "Missing Permissions").to_string();
        assert!(words.contains("Send Messages") && words.contains("50013: Missing Permissions"), "{words}");
        assert!(refused(0, "").to_string().contains("status 403"));
        let hostile = refused(1, "a\u{1b}[31m\nb").to_string();
        assert!(!hostile.chars().any(char::is_control), "{hostile}");
    }

    #[test]
    fn only_what_discord_refuses_ends_a_delivery() {
        let refused = RestError::Refused { status: 404, code: UNKNOWN_CHANNEL, message: String::new() };
        assert!(matches!(SendError::from(refused), SendError::Refused(_)));
        let limited = RestError::Limited { after: Duration::from_secs(2) };
        assert!(
            matches!(SendError::from(limited), SendError::Later { after: Some(after), .. } if after.as_secs() == 2)
        );
        assert!(matches!(SendError::from(RestError::Unauthorized), SendError::Later { after: None, .. }));
        assert!(matches!(SendError::from(RestError::Unknown(String::new())), SendError::Unknown(_)));
    }
}
