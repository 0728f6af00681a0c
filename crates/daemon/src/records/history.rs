//! The record of an entry: `cairn history`.

use cairn_core::conversation::Conversation;
use cairn_core::ids::{ArtifactId, Generation, MessageId, Seq, TurnId};
use cairn_core::message::{Author, Entry, Part, Pending, Role, ToolCall};
use cairn_core::tokens::Correction;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The place of messages that are accepted and not yet in a turn.
const PENDING: &str = "pending";

/// An entry of a history, or a pending message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its number; none while it is pending.
    pub seq: Option<Seq>,
    pub turn: TurnId,
    /// Its generation.
    pub generation: Generation,
    pub at: Timestamp,
    pub role: Role,
    pub author: Option<AuthorRecord>,
    pub message: Option<MessageId>,
    pub parts: Vec<PartRecord>,
    pub tool_calls: Vec<ToolCall>,
    pub tool_call_id: Option<String>,
    /// The artifact that holds the whole of a tool's result, or of a message of which the model sees head and tail.
    #[serde(default)]
    pub artifact: Option<ArtifactId>,
    /// A message that is larger than what the window takes: the model sees head and tail of it; here it is whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Tokens in the window, after correction.
    pub tokens: u64,
    /// `summary:ID`, `marker`, `sealed`, `live`, `archived`, `pending`.
    pub place: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorRecord {
    /// `PLATFORM/USER`.
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// `text`, `image`, `file`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl EntryRecord {
    /// The record of an entry of that conversation.
    pub fn of(entry: &Entry, conversation: &Conversation, correction: &Correction) -> Self {
        // An entry that the archive has and this copy of the conversation has not yet: it came in between.
        let place =
            conversation.place(entry.seq).map_or_else(|| "live".to_owned(), |place| place.to_string());
        let copy = conversation.artifact_of(entry.seq).filter(|_| entry.role == Role::User);
        let is_pruned = entry.role == Role::User && conversation.pruned.contains_key(&entry.seq);
        Self {
            seq: Some(entry.seq),
            turn: entry.turn.clone(),
            generation: entry.generation,
            at: entry.at,
            role: entry.role,
            author: entry.author.as_ref().map(AuthorRecord::of),
            message: entry.message.clone(),
            parts: entry.parts.iter().map(PartRecord::of).collect(),
            tool_calls: entry.tool_calls.clone(),
            tool_call_id: entry.tool_call_id.clone(),
            artifact: entry.artifact.clone().or_else(|| Some(copy?.id.clone())),
            shortened: is_pruned || copy.is_some(),
            tokens: correction.apply(conversation.weight(entry)),
            place,
        }
    }

    /// Its words, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self
            .parts
            .iter()
            .map(|part| match (&part.text, &part.name) {
                (Some(text), None) => text.clone(),
                (Some(text), Some(name)) => format!("[{}: {name}]\n{text}", part.kind),
                (None, name) => format!("[{}: {}]", part.kind, name.as_deref().unwrap_or("unnamed")),
            })
            .collect();
        texts.join("\n")
    }
}

/// The records of the messages that wait, first in first out.
pub fn pending_records(conversation: &Conversation, correction: &Correction) -> Vec<EntryRecord> {
    let record = |pending: &Pending| EntryRecord {
        seq: None,
        turn: pending.turn.clone(),
        generation: conversation.generation,
        at: pending.at,
        role: Role::User,
        author: Some(AuthorRecord::of(&pending.author)),
        message: Some(pending.message.clone()),
        parts: pending.parts.iter().map(PartRecord::of).collect(),
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        shortened: false,
        tokens: correction.apply(u64::from(pending.tokens)),
        place: PENDING.to_owned(),
    };
    conversation.pending.iter().map(record).collect()
}

impl AuthorRecord {
    fn of(author: &Author) -> Self {
        Self { id: author.id.clone(), name: author.name.clone() }
    }
}

impl PartRecord {
    fn of(part: &Part) -> Self {
        let (kind, text, name) = match part {
            Part::Text { text } => ("text", Some(text), None),
            Part::Image { name, .. } => ("image", None, name.as_ref()),
            Part::File { name, text, .. } => ("file", text.as_ref(), Some(name)),
        };
        Self { kind: kind.to_owned(), text: text.cloned(), name: name.cloned() }
    }
}
