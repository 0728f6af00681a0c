//! What a conversation is made of: entries, their parts, tool calls, and messages not yet in a turn.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{ArtifactId, Generation, MessageId, Seq, TurnId};
use crate::provider_state::ProviderState;
use crate::reminder::Fired;
use crate::text::escape::{escape_name, escape_text, short_time};
use crate::tokens::estimate;

/// Replaces text that has expired.
pub const EXPIRED_TEXT: &str = "[expired]";

/// Error code of a turn that failed because a model's server refused its messages, with or without the rest of the request.
pub const REFUSED: &str = "refused";

/// Error codes of turns whose messages are left out of later requests, because the server refused them by a status or by an
/// answer without text.
pub const REFUSALS: [&str; 3] = [REFUSED, "refusal", "content_filter"];

/// Replaces the text of a message that a server refused.
pub const REFUSED_TEXT: &str = "[left out: the language model's server refused this message]";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person (or another bot) in the chat.
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Author {
    /// Stable id on the platform, `PLATFORM/USER`.
    pub id: String,
    /// Display name, as the platform gave it: unescaped, not trusted.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    /// A picture, sent to models that take pictures.
    Image {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// MIME type, such as `image/png`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// Any other attachment: inlined when it is text, otherwise only named.
    File {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// Its text, when it is a text file within the limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The words of a recording. `called`: how it is named, such as `voice message (12 s)`. People may type the same; whether
    /// a message was spoken is in [`Entry::spoken`].
    pub fn transcribed(called: &str, words: &str) -> Self {
        Self::text(format!("[{called}, transcribed]\n{words}"))
    }
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, as the provider gave it; its result names it.
    pub id: String,
    pub name: String,
    /// The arguments; a JSON string holding the raw text when the model wrote invalid JSON.
    pub arguments: serde_json::Value,
}

impl ToolCall {
    /// The arguments by name: texts as they are, anything else as JSON. Arguments that are not an object are a single field
    /// with an empty name; `null` has no fields.
    pub fn fields(&self) -> Vec<(&str, Cow<'_, str>)> {
        fn text(value: &serde_json::Value) -> Cow<'_, str> {
            value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed)
        }
        match &self.arguments {
            serde_json::Value::Null => Vec::new(),
            serde_json::Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.as_str(), text(value))).collect()
            }
            other => vec![("", text(other))],
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    #[default]
    Stop,
    ToolCalls,
    /// It reached its token limit.
    Length,
    /// Request and answer filled the model's context window.
    ContextWindow,
    /// The server paused a long answer and expects another request to resume it.
    Pause,
    /// The model declined to answer, or to go on.
    Refusal,
    /// The provider's content filter stopped it.
    ContentFilter,
}

impl Finish {
    /// Its name in records, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContextWindow => "context_window",
            Self::Pause => "pause",
            Self::Refusal => "refusal",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Whether the model ended the answer itself.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Stop | Self::ToolCalls)
    }

    /// Whether a call in an answer that ended this way is run. After a cut its arguments may be incomplete; an incomplete
    /// object never parses as an object. After a refusal no call is run.
    pub fn allows(self, call: &ToolCall) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => true,
            Self::Length | Self::ContextWindow | Self::Pause => call.arguments.is_object(),
            Self::Refusal | Self::ContentFilter => false,
        }
    }
}

/// One item of a channel's history. Immutable once in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub seq: Seq,
    pub turn: TurnId,
    /// The generation it belongs to.
    pub generation: Generation,
    /// When it was said (the client's `at` for replayed messages).
    pub at: Timestamp,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// The platform's message id, for a user's entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    pub parts: Vec<Part>,
    /// The model's reasoning, kept for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// What its provider wants back with it. It includes the reasoning, if the provider sent that as part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<Box<ProviderState>>,
    /// Tool calls of an assistant's entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool's entry: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// For a tool's entry: the artifact that holds its whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<crate::ids::ArtifactId>,
    /// For a tool's entry in a local channel: files that people find with it. Chat networks get theirs as deliveries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SentFile>,
    /// For a tool's entry: whose text its result has. For a user's entry: whose text it quotes or forwards.
    #[serde(default, rename = "voices", skip_serializing_if = "Provenance::is_empty")]
    pub provenance: Provenance,
    /// For a user's entry: it was said in a voice or video message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoken: bool,
    /// The text quotes other entries (an offline reply): it is not indexed, so that no search finds an echo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quotes: bool,
    /// For an assistant's entry: why it ended, where the model did not end it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Estimated tokens as the window renders it, before correction.
    pub tokens: u32,
}

impl Entry {
    /// An entry without content.
    pub fn new(seq: Seq, turn: &TurnId, generation: Generation, at: Timestamp, role: Role) -> Self {
        Self {
            seq,
            turn: turn.clone(),
            generation,
            at,
            role,
            author: None,
            message: None,
            parts: Vec::new(),
            reasoning: None,
            provider_state: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            artifact: None,
            files: Vec::new(),
            provenance: Provenance::default(),
            spoken: false,
            quotes: false,
            finish: None,
            tokens: 0,
        }
    }

    /// The entry after its text has expired. Its token count stays the same.
    pub fn expired(&self) -> Self {
        let parts = vec![Part::text(EXPIRED_TEXT)];
        let mut left =
            Self { parts, reasoning: None, provider_state: None, files: Vec::new(), ..self.clone() };
        left.tool_calls
            .iter_mut()
            .for_each(|call| call.arguments = serde_json::Value::Object(serde_json::Map::new()));
        left
    }

    pub fn is_expired(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text { text }] if text == EXPIRED_TEXT)
    }

    /// The entry once its turn is closed, without what its provider wants back only within the turn.
    pub fn closed(self: &Arc<Self>) -> Arc<Self> {
        if self.provider_state.as_ref().is_none_or(|state| state.outlives_turn()) {
            return Arc::clone(self);
        }
        let mut left = Self { provider_state: None, ..Self::clone(self) };
        left.tokens = entry_tokens(&left);
        Arc::new(left)
    }

    /// All its text parts, joined by line breaks; attachments by their names.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// Tokens that a chat format spends on the frame of one message.
pub const MESSAGE_OVERHEAD: u32 = 4;

/// Tokens of a picture: what the large providers bill for a picture of a megapixel, rounded up.
pub const IMAGE_TOKENS: u32 = 1_100;

/// The header of a person's message: who, and when.
pub fn header(author: Option<&Author>, at: Timestamp) -> String {
    let name = author.map_or_else(|| "somebody".to_owned(), |author| escape_name(&author.name));
    format!("[{name} | {}] ", short_time(at))
}

/// The parts of a person's message as the model gets them: header first, text escaped, text files inlined.
pub fn user_parts(author: Option<&Author>, at: Timestamp, parts: &[Part]) -> Vec<Part> {
    let mut text = header(author, at);
    let mut out = Vec::new();
    let mut n_words = 0;
    for part in parts {
        match part {
            Part::Text { text: words } => {
                if n_words > 0 {
                    text.push('\n');
                }
                n_words += 1;
                text.push_str(&escape_text(words));
            }
            Part::File { name, text: words, .. } => {
                let _ = write!(text, "\n(file {})", escape_name(name));
                if let Some(words) = words {
                    let _ = write!(text, "\n{}", escape_text(words));
                }
            }
            Part::Image { .. } => out.push(part.clone()),
        }
    }
    out.insert(0, Part::Text { text });
    out
}

/// Tokens of an entry as the window renders it, before correction.
pub fn entry_tokens(entry: &Entry) -> u32 {
    match entry.role {
        Role::User => message_tokens(entry.author.as_ref(), entry.at, &entry.parts),
        Role::Assistant | Role::Tool => {
            let calls = entry
                .tool_calls
                .iter()
                .map(|call| MESSAGE_OVERHEAD + estimate(&call.name) + estimate(&call.arguments.to_string()));
            let state = entry.provider_state.as_ref().map_or(0, |state| state.tokens());
            MESSAGE_OVERHEAD + parts_tokens(&entry.parts) + calls.sum::<u32>() + state
        }
    }
}

/// Tokens of a pending message as the window will render it, before correction.
pub fn pending_tokens(pending: &Pending) -> u32 {
    message_tokens(Some(&pending.author), pending.at, &pending.parts)
}

fn message_tokens(author: Option<&Author>, at: Timestamp, parts: &[Part]) -> u32 {
    MESSAGE_OVERHEAD + parts_tokens(&user_parts(author, at, parts))
}

fn parts_tokens(parts: &[Part]) -> u32 {
    parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => estimate(text),
            Part::Image { .. } => IMAGE_TOKENS,
            Part::File { name, text, .. } => estimate(name) + text.as_deref().map_or(0, estimate),
        })
        .fold(0, u32::saturating_add)
}

/// All text of the parts, joined by line breaks; attachments by their names.
pub fn text_of(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out.push('\n');
        }
        match part {
            Part::Text { text } => out.push_str(text),
            Part::Image { name, .. } => {
                out.push_str(&format!("[image: {}]", name.as_deref().unwrap_or("unnamed")));
            }
            Part::File { name, text, .. } => {
                out.push_str(&format!("[file: {name}]"));
                if let Some(text) = text {
                    out.push('\n');
                    out.push_str(text);
                }
            }
        }
    }
    out
}

/// A message as a platform adapter hands it in.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    pub channel: crate::ids::ChannelId,
    /// Its id on the platform, by which duplicates are recognised.
    pub message: MessageId,
    pub author: Author,
    pub at: Timestamp,
    /// Its content. Never empty.
    pub parts: Vec<Part>,
    /// It is direct, or addressed to the bot, and needs an answer.
    pub addressed: bool,
    /// Said in a private chat with the bot: what is learnt there belongs to the author's own scope.
    pub direct: bool,
    /// What people see as the name of the chat; `None` for a private chat, and where the platform does not say.
    pub chat_name: Option<String>,
    /// The language of the place, where it has one of its own.
    pub language: Option<String>,
    /// The message that it answers, where the platform says so.
    pub reply_to: Option<MessageId>,
    /// Whose text it has besides its author's: the people whom it quotes or forwards.
    pub provenance: Provenance,
    /// It was said in a voice or video message.
    pub spoken: bool,
    /// The recordings in it, where these are kept.
    pub recordings: Vec<Recording>,
    pub gather: Gather,
}

/// A recording that came with a message and is kept with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Its file name.
    pub name: String,
    /// MIME type, such as `audio/ogg`.
    pub media_type: &'static str,
    pub data: Arc<[u8]>,
}

/// What may follow a message and belong to it. By default nothing: the message is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gather {
    /// How long its author's next message is waited for; zero: not at all.
    pub wait: std::time::Duration,
    /// The album that it is part of, by the platform's id.
    pub album: Option<String>,
    /// Another part of the album has come already and is handed in next.
    pub more: bool,
}

/// A change of a message that was sent before, as a platform adapter hands it in.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    pub channel: crate::ids::ChannelId,
    /// The message's id on the platform.
    pub message: MessageId,
    pub at: Timestamp,
    pub change: Change,
}

/// What happened to a message after it was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Edited {
        author: Author,
        /// What it says now. Never empty.
        parts: Vec<Part>,
        /// It is direct, or addressed to the bot, after the edit.
        addressed: bool,
    },
    Deleted,
    /// Somebody reacted to it, or took that back. It counts for messages of the bot alone.
    Reacted {
        /// An empty name: the network does not tell it.
        by: Author,
        /// An emoji, or the name of a custom one between colons.
        emoji: String,
        removed: bool,
    },
}

/// A message that is accepted and durable, not yet in a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    pub message: MessageId,
    pub turn: TurnId,
    pub at: Timestamp,
    pub author: Author,
    pub parts: Vec<Part>,
    pub addressed: bool,
    /// Said in a private chat with the bot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
    /// The name of the chat, where it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    /// The language of the place, where it is new; empty: it has none of its own any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Whose text it has besides its author's: the people whom it quotes or forwards.
    #[serde(default, rename = "voices", skip_serializing_if = "Provenance::is_empty")]
    pub provenance: Provenance,
    /// It was said in a voice or video message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoken: bool,
    /// The reminder that became this message. Accepting the message marks it as fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<Fired>,
    /// Hash of author and parts. A repeated message id with another hash is a conflict.
    pub fingerprint: String,
    /// Estimated tokens as the window renders it, before correction.
    pub tokens: u32,
}

impl Pending {
    /// The entry that this message becomes when a turn takes it up.
    pub fn to_entry(&self, seq: Seq, turn: &TurnId, generation: Generation) -> Entry {
        Entry {
            author: Some(self.author.clone()),
            message: Some(self.message.clone()),
            parts: self.parts.clone(),
            provenance: self.provenance.clone(),
            spoken: self.spoken,
            tokens: self.tokens,
            ..Entry::new(seq, turn, generation, self.at, Role::User)
        }
    }
}

/// Replaces the text of a deleted message.
pub const DELETED_TEXT: &str = "[message deleted]";

fn is_deleted(parts: &[Part]) -> bool {
    matches!(parts, [Part::Text { text }] if text == DELETED_TEXT)
}

impl Pending {
    pub fn is_deleted(&self) -> bool {
        is_deleted(&self.parts)
    }

    /// Deletes its text. It needs no answer any more.
    pub fn delete(&mut self) {
        self.parts = vec![Part::text(DELETED_TEXT)];
        self.addressed = false;
        self.tokens = pending_tokens(self);
    }
}

impl Entry {
    /// Whether its message was deleted.
    pub fn is_deleted(&self) -> bool {
        is_deleted(&self.parts)
    }

    /// The entry as it is sent after a model's server refused it.
    pub fn refused(&self) -> Self {
        Self { parts: vec![Part::text(REFUSED_TEXT)], ..self.clone() }
    }

    /// The entry after its message was deleted.
    pub fn deleted(&self) -> Self {
        let mut left = Self { parts: vec![Part::text(DELETED_TEXT)], ..self.clone() };
        left.tokens = entry_tokens(&left);
        left
    }

    /// A placeholder for an entry whose journal line was damaged and quarantined, so that the loss is visible and numbers
    /// have no gaps.
    pub fn lost(seq: Seq, turn: &TurnId, generation: Generation, at: Timestamp) -> Self {
        let parts = vec![Part::text(LOST_TEXT)];
        Self { parts, tokens: LOST_TOKENS, ..Self::new(seq, turn, generation, at, Role::User) }
    }
}

/// The text of [`Entry::lost`].
pub const LOST_TEXT: &str = "[System: this message was lost: its journal line was damaged and set aside]";

/// The turn id of entries that were lost with the end of the journal, whose own turn is unknown.
pub const LOST_TURN: &str = "lost";

/// Tokens of [`LOST_TEXT`] in the window, rounded up.
const LOST_TOKENS: u32 = 24;

/// Hash of the author's id and the parts. A repeated message id with another hash is a conflict. A new display name is not.
pub fn fingerprint(author: &Author, parts: &[Part]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(author.id.as_bytes());
    for part in parts {
        // Lengths keep neighbouring fields apart.
        let fields: [&str; 4] = match part {
            Part::Text { text } => ["t", text, "", ""],
            Part::Image { name, media_type, data } => {
                ["i", name.as_deref().unwrap_or_default(), media_type, data]
            }
            Part::File { name, media_type, text } => {
                ["f", name, media_type.as_deref().unwrap_or_default(), text.as_deref().unwrap_or_default()]
            }
        };
        for field in fields {
            hasher.update((field.len() as u64).to_be_bytes());
            hasher.update(field.as_bytes());
        }
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Most people whom a [`Provenance`] lists. Further people count as unknown people.
pub const PEOPLE_MAX: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// People, `PLATFORM/USER`; at most [`PEOPLE_MAX`].
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub people: BTreeSet<String>,
    /// Unknown people.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strangers: bool,
    /// Tool results, which anybody may have written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools: bool,
}

impl Provenance {
    pub fn of_tools() -> Self {
        Self { tools: true, ..Self::default() }
    }

    pub fn of_strangers() -> Self {
        Self { strangers: true, ..Self::default() }
    }

    pub fn of_person(person: &str) -> Self {
        Self { people: BTreeSet::from([person.to_owned()]), ..Self::default() }
    }

    /// The provenance of an entry: its author and whom it quotes; of a result, its sources. The model's own text adds nobody.
    pub fn of_entry(entry: &Entry) -> Self {
        let mut provenance = entry.provenance.clone();
        if entry.role == Role::User {
            match &entry.author {
                Some(author) => provenance.hear(&author.id),
                None => provenance.strangers = true,
            }
        }
        provenance
    }

    fn hear(&mut self, person: &str) {
        if self.people.contains(person) {
            return;
        }
        if self.people.len() < PEOPLE_MAX {
            self.people.insert(person.to_owned());
        } else {
            self.strangers = true;
        }
    }

    pub fn join(&mut self, other: &Self) {
        other.people.iter().for_each(|person| self.hear(person));
        self.strangers |= other.strangers;
        self.tools |= other.tools;
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An artifact as its channel records it. Its content is in the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id, unique within its channel.
    pub id: ArtifactId,
    /// The tool whose result it is; empty for a message.
    pub tool: String,
    /// The message that it is a whole copy of. It is kept as long as the window shows that message. Of a recording: the answer
    /// that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Seq>,
    /// Of a recording that a person sent: the message that it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_in: Option<MessageId>,
    pub bytes: u64,
    /// SHA-256 of its content, in hex; `None` in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    pub lines: u64,
    pub stored_at: Timestamp,
    /// When it was last stored or read. Its expiry counts from here.
    pub used_at: Timestamp,
    /// When it expired and its content was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    /// It did not expire: its file was missing or damaged, and `cairn store verify --quarantine` gave it up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Set for a file: its content is bytes, not text, and can be sent to the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileNote>,
}

/// A file that people are handed: an artifact of the same channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile {
    pub artifact: ArtifactId,
    /// The name that people see.
    pub name: String,
    /// MIME type, such as `image/png`.
    pub media_type: String,
    pub bytes: u64,
    /// A description for people who cannot see or hear it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt: Option<String>,
}

/// The description of an artifact that is a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNote {
    pub name: String,
    /// MIME type, such as `image/png`.
    pub media_type: String,
}
