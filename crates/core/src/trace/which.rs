//! How a turn is named in a request.

use jiff::Timestamp;

use cairn_types::event::Record;
use cairn_types::ids::{MessageId, TurnId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichTurn {
    /// The newest turn of the channel.
    Last,
    Id(TurnId),
    /// The turn that was under way at that time, or the last one before.
    At(Timestamp),
    /// The turn that took up that message, or sent it as its answer.
    Message(MessageId),
}

/// Parses a turn's name in a URL: `last`, `t12`, `at:2026-11-23T07:00:00Z`, `message:ID`.
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

/// The records of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecords {
    pub turn: TurnId,
    /// All records of its channel, from its first message to the beginning of the next turn.
    pub records: Vec<Record>,
    /// The previous turn in the channel, and the next one.
    pub before: Option<TurnId>,
    pub after: Option<TurnId>,
}
