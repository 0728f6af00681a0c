//! Which turn is meant.

use jiff::Timestamp;

use cairn_types::event::Record;
use cairn_types::ids::{MessageId, TurnId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichTurn {
    /// The newest of the channel.
    Last,
    Id(TurnId),
    /// The one that was under way then, or the last one before.
    At(Timestamp),
    /// The one that took that message up, or sent it as its answer.
    Message(MessageId),
}

/// As it is named in a URL: `last`, `t12`, `at:2026-11-23T07:00:00Z`, `message:ID`.
impl std::str::FromStr for WhichTurn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(at) = text.strip_prefix("at:") {
            let at =
                at.parse().map_err(|_| format!("`{at}` is no time; write one as in 2026-11-23T07:00:00Z"))?;
            return Ok(Self::At(at));
        }
        match text.strip_prefix("message:") {
            Some(id) => Ok(Self::Message(id.into())),
            None if text == "last" => Ok(Self::Last),
            None => Ok(Self::Id(text.into())),
        }
    }
}

/// The records that tell of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecords {
    pub turn: TurnId,
    /// All of its channel, from its first message to the beginning of the next turn.
    pub records: Vec<Record>,
    /// The turn before it in the channel, and the one after it.
    pub before: Option<TurnId>,
    pub after: Option<TurnId>,
}
