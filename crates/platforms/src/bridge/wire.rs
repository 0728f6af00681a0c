//! What a bridge and the daemon say to each other, protocol 1. `docs/src/bridges.md` is its reference.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// Smallest and largest limit of a message that a bridge may announce.
pub const LIMIT_MIN: usize = 100;
pub const LIMIT_MAX: usize = 65_536;

/// Largest file that is handed to a bridge, in bytes, whatever it announces.
pub const FILE_MAX: u64 = 8 << 20;

/// Longest text of a message from a bridge, in bytes.
pub const TEXT_MAX: usize = 65_536;

/// Longest title, name or quotation, in bytes.
const ASIDE_MAX: usize = 8 << 10;

/// Most files of a message.
const FILES_MAX: usize = 32;

/// Longest id, in bytes: of a chat or a thread, and of a person or a message.
pub const PLACE_MAX: usize = 128;
pub const ID_MAX: usize = 255;

/// The unit of a message's limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    #[default]
    Characters,
    Bytes,
}

/// How the network shows a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Markup {
    #[default]
    Plain,
    /// The bridge gets the text as HTML, too.
    Html,
}

/// The first call: what the network can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub protocol: u32,
    /// The bridge's own name and version, for status and log.
    pub software: String,
    /// The bot's own id on the network: messages of that author are passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub me: Option<String>,
    /// The bot's name on the network, for `cairn status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The longest message, in `unit`s of its plain text.
    pub limit: usize,
    #[serde(default)]
    pub unit: Unit,
    #[serde(default)]
    pub markup: Markup,
    /// Whether sent messages can be edited.
    #[serde(default)]
    pub edits: bool,
    /// Largest file that can be sent, in bytes; 0: none can.
    #[serde(default)]
    pub file_bytes: u64,
    /// Whether the network shows that the bot is typing.
    #[serde(default)]
    pub typing: bool,
}

impl Hello {
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.protocol != PROTOCOL {
            return Err(format!("`protocol` is {}; this daemon speaks {PROTOCOL}", self.protocol));
        }
        if !(LIMIT_MIN..=LIMIT_MAX).contains(&self.limit) {
            return Err(format!("`limit` is {}; it may be {LIMIT_MIN} to {LIMIT_MAX}", self.limit));
        }
        if self.software.trim().is_empty() {
            return Err("`software` is empty".to_owned());
        }
        self.me.as_deref().map_or(Ok(()), |me| check_id("me", me))
    }
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub protocol: u32,
    /// The bridge's platform.
    pub platform: String,
    /// After this long without an acknowledgement a connection is closed.
    pub acknowledge_within_secs: u64,
}

/// Somebody on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bot: bool,
}

/// What a message replies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyTo {
    pub id: String,
    /// Whose words `text` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Person>,
    /// What it says, quoted for the model; leave it out where it was just said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A file with its bytes, in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// A voice message: its author spoke it for this chat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoken: bool,
    #[serde(with = "cairn_types::wire::base64")]
    pub data: Vec<u8>,
}

/// A message, or what it says after an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// The message's id, unique in its chat and thread.
    pub id: String,
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// A private chat of one person with the bot.
    pub direct: bool,
    /// What people call the chat; of groups alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub author: Person,
    #[serde(default)]
    pub text: String,
    /// When it was said, or edited; none: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The bot is mentioned or replied to.
    #[serde(default)]
    pub addressed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<ReplyTo>,
    /// It has words of others than its author and the one replied to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
}

impl Said {
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        check_place(&self.chat, self.thread.as_deref())?;
        check_message("id", &self.id)?;
        check_person("author.id", &self.author.id)?;
        if let Some(reply) = &self.reply_to {
            check_message("reply_to.id", &reply.id)?;
            reply.author.as_ref().map_or(Ok(()), |author| check_person("reply_to.author.id", &author.id))?;
        }
        if self.text.len() > TEXT_MAX {
            return Err(format!("`text` has {} bytes; at most {TEXT_MAX} are taken", self.text.len()));
        }
        let texts = [
            self.title.as_ref(),
            Some(&self.author.name),
            self.reply_to.as_ref().and_then(|reply| reply.text.as_ref()),
        ];
        if texts.into_iter().flatten().any(|text| text.len() > ASIDE_MAX) {
            return Err(format!("a title, a name or a quotation has more than {ASIDE_MAX} bytes"));
        }
        if self.files.len() > FILES_MAX {
            return Err(format!("it has {} files; at most {FILES_MAX} are taken", self.files.len()));
        }
        if self.text.trim().is_empty() && self.files.is_empty() {
            return Err("it has neither `text` nor `files`".to_owned());
        }
        Ok(())
    }
}

/// A message was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deleted {
    pub id: String,
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    pub direct: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Deleted {
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        check_place(&self.chat, self.thread.as_deref())?;
        check_message("id", &self.id)
    }
}

/// What came of a message, an edit or a deletion. All of these are final: the bridge does not send it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Taken {
    /// It is durable, or was before.
    Accepted,
    /// It was a command, which was run once.
    Command,
    /// Its author or chat is not served; nothing is kept.
    Ignored { reason: String },
    /// Its author or chat is unknown; a code may have been sent there.
    Pairing,
    /// It was not taken in, for good; its author is told where that is useful.
    Refused { reason: String },
}

/// A file on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOut {
    pub name: String,
    pub media_type: String,
    /// In base64.
    pub data: String,
}

/// A message to send; the event `message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The key against duplicates; it is the same whenever this message comes again.
    pub id: String,
    /// It may have been handed over before: what the bridge knows of this id counts.
    pub repeat: bool,
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Plain text; empty only with files.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileOut>,
}

/// A sent message is to say something else; the event `edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditOut {
    pub id: String,
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The id that the bridge gave when it sent the message.
    pub message: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

/// The bot is typing; the event `typing`, which is not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypingOut {
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// What became of a delivery or an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Ack {
    /// The network has it. `message`: its id there, of the first if it took several; of an edit, of the message.
    Sent { message: String },
    /// It was certainly not sent, and never can be.
    Refused { reason: String },
    /// It was certainly not sent; it comes again.
    Later {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_secs: Option<u64>,
    },
    /// Nobody can tell whether it was sent.
    Unknown { reason: String },
}

impl Ack {
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Sent { message } => check_message("message", message),
            Self::Refused { .. } | Self::Later { .. } | Self::Unknown { .. } => Ok(()),
        }
    }
}

/// The body of an error answer, as everywhere on the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub code: String,
    pub message: String,
    pub hint: String,
}

fn check_place(chat: &str, thread: Option<&str>) -> Result<(), String> {
    for (key, id) in [("chat", Some(chat)), ("thread", thread)] {
        let Some(id) = id else { continue };
        check_id(key, id)?;
        if id.len() > PLACE_MAX || id.contains('/') {
            return Err(format!("`{key}` is longer than {PLACE_MAX} bytes or has a `/`"));
        }
    }
    Ok(())
}

fn check_person(key: &str, id: &str) -> Result<(), String> {
    check_id(key, id)?;
    // Groups are written so where people are.
    if id.contains('/') || id.starts_with("chat:") || id.starts_with("server:") {
        return Err(format!("`{key}` has a `/`, or begins with chat: or server:"));
    }
    Ok(())
}

/// `#` is what the daemon's own ids of messages have.
fn check_message(key: &str, id: &str) -> Result<(), String> {
    check_id(key, id)?;
    if id.contains('#') { Err(format!("`{key}` has a `#`")) } else { Ok(()) }
}

fn check_id(key: &str, id: &str) -> Result<(), String> {
    let is_bad = |c: char| c.is_whitespace() || c.is_control();
    if id.is_empty() || id.len() > ID_MAX || id.chars().any(is_bad) {
        return Err(format!(
            "`{key}` is empty, longer than {ID_MAX} bytes, or has white space or control characters"
        ));
    }
    Ok(())
}
