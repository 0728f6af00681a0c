//! Gateway frames, in both directions. Only the needed fields are read, so unknown additions cause no error.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serenity::all::{ApplicationId, GatewayIntents, GuildId, UserId};

use super::Shard;

/// The requested intents: servers with their channels, messages in them, private messages, reactions to both, and message
/// content, which is privileged.
pub(crate) const INTENTS: GatewayIntents = GatewayIntents::GUILDS
    .union(GatewayIntents::GUILD_MESSAGES)
    .union(GatewayIntents::DIRECT_MESSAGES)
    .union(GatewayIntents::GUILD_MESSAGE_REACTIONS)
    .union(GatewayIntents::DIRECT_MESSAGE_REACTIONS)
    .union(GatewayIntents::MESSAGE_CONTENT);

/// Most members that a server lists unasked; 50 is the least that Discord accepts.
const LARGE_THRESHOLD: u8 = 50;

#[derive(Deserialize)]
struct Envelope {
    op: u8,
    #[serde(default)]
    s: Option<u64>,
    #[serde(default)]
    t: Option<String>,
    #[serde(default)]
    d: Value,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Dispatch {
        seq: Option<u64>,
        kind: String,
        data: Value,
    },
    Beat,
    Reconnect,
    /// The session is invalid; true: it may be resumed.
    Invalid(bool),
    /// The heartbeat interval in milliseconds.
    Hello(u64),
    Ack,
    Other(u8),
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// The text is no frame; the error names its kind where it can be seen.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let envelope: Envelope = serde_json::from_str(text).map_err(|_| "frame")?;
        Ok(match envelope.op {
            0 => {
                let kind = envelope.t.ok_or("dispatch without a kind")?;
                Self::Dispatch { seq: envelope.s, kind, data: envelope.d }
            }
            1 => Self::Beat,
            7 => Self::Reconnect,
            9 => Self::Invalid(envelope.d.as_bool().unwrap_or(false)),
            10 => {
                let interval = envelope.d.get("heartbeat_interval").and_then(Value::as_f64);
                // Sometimes a float; fractions of a millisecond are dropped.
                let millis = interval.filter(|millis| (1.0..86_400_000.0).contains(millis)).ok_or("hello")?;
                Self::Hello(millis as u64)
            }
            11 => Self::Ack,
            other => Self::Other(other),
        })
    }
}

/// The first event of a session, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Ready {
    pub(crate) session_id: String,
    pub(crate) resume_gateway_url: String,
    pub(crate) user: Me,
    pub(crate) application: Application,
    /// The servers of the bot; each sends its channels in a later event.
    #[serde(default, deserialize_with = "crate::lenient::list")]
    pub(crate) guilds: Vec<ReadyServer>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ReadyServer {
    pub(crate) id: GuildId,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Me {
    pub(crate) id: UserId,
    pub(crate) username: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Application {
    pub(crate) id: ApplicationId,
}

pub(super) fn identify(token: &str, shard: Shard) -> String {
    json!({
        "op": 2,
        "d": {
            "token": token,
            "intents": INTENTS.bits(),
            "compress": false,
            "large_threshold": LARGE_THRESHOLD,
            "shard": [shard.id, shard.of],
            "properties": { "os": std::env::consts::OS, "browser": "cairn", "device": "cairn" },
        },
    })
    .to_string()
}

pub(super) fn resume(token: &str, session: &str, seq: u64) -> String {
    json!({ "op": 6, "d": { "token": token, "session_id": session, "seq": seq } }).to_string()
}

pub(super) fn heartbeat(seq: Option<u64>) -> String {
    json!({ "op": 1, "d": seq }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_by_their_operation() {
        let cases = [
            (r#"{"op":10,"d":{"heartbeat_interval":41250}}"#, Ok(Frame::Hello(41250))),
            (r#"{"op":10,"d":{"heartbeat_interval":41250.5}}"#, Ok(Frame::Hello(41250))),
            (r#"{"op":10,"d":{"heartbeat_interval":0}}"#, Err("hello")),
            (r#"{"op":11}"#, Ok(Frame::Ack)),
            (r#"{"op":1,"d":null}"#, Ok(Frame::Beat)),
            (r#"{"op":7,"d":null}"#, Ok(Frame::Reconnect)),
            (r#"{"op":9,"d":true}"#, Ok(Frame::Invalid(true))),
            (r#"{"op":9,"d":null}"#, Ok(Frame::Invalid(false))),
            (r#"{"op":77}"#, Ok(Frame::Other(77))),
            (r#"{"op":0,"s":1}"#, Err("dispatch without a kind")),
            ("<html>", Err("frame")),
            ("", Err("frame")),
        ];
        for (text, expected) in cases {
            assert_eq!(Frame::read(text), expected, "{text}");
        }
    }

    #[test]
    fn only_what_is_needed_is_asked_for() {
        assert_eq!(INTENTS.bits(), 1 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15);
    }
}
