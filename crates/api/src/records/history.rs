//! The records of a channel's entries and artifacts: `cairn history` and `cairn artifact`.

use std::collections::BTreeMap;

use cairn_core::artifact::{ReadOn, read_on};
use cairn_core::conversation::{Conversation, Reaction};
use cairn_core::limits::Price;
use cairn_core::tune::ScriptEntry;
use cairn_types::event::{TurnEnd, TurnOutcome};
use cairn_types::ids::{ArtifactId, Generation, MemoryId, MessageId, Seq, TurnId};
use cairn_types::message::{Artifact, Author, Entry, Finish, Part, Pending, Role, SentFile, ToolCall};
use cairn_types::model::Usage;
use cairn_types::ports::ArtifactLines;
use cairn_types::tokens::Correction;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::text::one_line;

/// [`EntryRecord::place`] of messages that are accepted and not yet in a turn.
const PENDING: &str = "pending";

/// An entry of a history, or a pending message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its number; `None` while it is pending.
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
    /// The artifact with the whole of a tool's result, or of a message of which the model sees only head and tail.
    #[serde(default)]
    pub artifact: Option<ArtifactId>,
    /// Files that people find with a tool's result, in a local channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRecord>,
    /// A message that is larger than the window allows. The model sees its head and tail; here it is whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Why an answer ended, if the model did not end it itself: `length`, `context_window`, `pause`, `refusal`,
    /// `content_filter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Tokens in the window, after correction.
    pub tokens: u64,
    /// `summary:ID`, `marker`, `sealed`, `live`, `archived`, `pending`.
    pub place: String,
    /// How its turn ended, if it is the last entry of that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndRecord>,
    /// People's reactions to an answer, in order. One that was taken back after a turn had shown it to the model stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<ReactionRecord>,
}

/// A person's reaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReactionRecord {
    pub by: AuthorRecord,
    /// An emoji, or the name of a custom one between colons.
    pub emoji: String,
}

impl ReactionRecord {
    pub fn of(reaction: &Reaction) -> Self {
        Self { by: AuthorRecord::of(&reaction.by), emoji: reaction.emoji.clone() }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// `answered`, `unanswered`, `failed`, `stopped`, `dead_lettered`; of one that failed, why.
    #[serde(flatten)]
    pub outcome: TurnOutcome,
    /// The model that answered, or was called last.
    pub model: Option<String>,
    /// Tokens of its model calls: reported, or estimated.
    pub usage: Usage,
    /// What that costs at the current price of this model, in the currency of the prices; `None`: it has no price.
    pub cost: Option<f64>,
    /// The memories that were in its window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<MemoryId>,
}

impl EndRecord {
    pub fn of(end: TurnEnd, prices: &BTreeMap<String, Price>) -> Self {
        let price = end.model.as_ref().and_then(|model| prices.get(model));
        Self {
            cost: price.map(|price| price.of(end.usage)),
            outcome: end.outcome,
            model: end.model,
            usage: end.usage,
            recalled: end.recalled,
        }
    }

    /// Why there is no answer, as in `stopped`; `None`: there is one, or none was due.
    pub fn why(&self) -> Option<String> {
        match &self.outcome {
            TurnOutcome::Answered { .. } | TurnOutcome::Unanswered => None,
            TurnOutcome::Silent => Some("chose to say nothing".to_owned()),
            TurnOutcome::Stopped => Some("stopped".to_owned()),
            TurnOutcome::DeadLettered => Some("given up".to_owned()),
            TurnOutcome::Failed { message, .. } => Some(format!("failed: {message}")),
        }
    }
}

/// Why an answer ended that the model did not end itself, as in `cut off at its length limit`; `None`: it did.
pub fn cut_words(finish: Option<Finish>) -> Option<&'static str> {
    match finish? {
        Finish::Stop | Finish::ToolCalls => None,
        Finish::Length => Some("cut off at its length limit"),
        Finish::ContextWindow => Some("cut off: the context window was full"),
        Finish::Pause => Some("cut off: the model's server paused"),
        Finish::Refusal => Some("the model declined"),
        Finish::ContentFilter => Some("stopped by the content filter"),
    }
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
    /// The entry for a simulation; `None` while it is pending: it is in no turn yet.
    pub fn in_script(&self) -> Option<ScriptEntry<'_>> {
        self.seq?;
        Some(ScriptEntry {
            turn: &self.turn,
            at: self.at,
            generation: self.generation,
            role: self.role,
            tokens: self.tokens,
            calls_tools: !self.tool_calls.is_empty(),
        })
    }

    /// The record of an entry of that conversation.
    pub fn of(entry: &Entry, conversation: &Conversation, correction: &Correction) -> Self {
        // An entry that was added after this copy of the conversation was taken is live.
        let place =
            conversation.place(entry.seq).map_or_else(|| "live".to_owned(), |place| place.to_string());
        let copy = conversation.artifact_of(entry.seq).filter(|_| entry.role == Role::User);
        let is_copied = copy.is_some() || (entry.role == Role::User && entry.artifact.is_some());
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
            files: entry.files.iter().map(FileRecord::of).collect(),
            shortened: is_pruned || is_copied,
            finish: entry.finish,
            tokens: correction.apply(conversation.weight(entry)),
            place,
            end: None,
            reactions: Vec::new(),
        }
    }

    /// Its reactions on one line, as in `👍 Ann, Ben · 🦆 Cleo`; `None`: it has none.
    pub fn reactions_line(&self) -> Option<String> {
        let mut by_emoji: Vec<(&str, Vec<String>)> = Vec::new();
        for ReactionRecord { by, emoji } in &self.reactions {
            let name = one_line(&by.name);
            match by_emoji.iter_mut().find(|(known, _)| known == emoji) {
                Some((_, names)) => names.push(name),
                None => by_emoji.push((emoji, vec![name])),
            }
        }
        let each: Vec<String> = by_emoji
            .iter()
            .map(|(emoji, names)| format!("{} {}", one_line(emoji), names.join(", ")))
            .collect();
        (!each.is_empty()).then(|| each.join(" · "))
    }

    /// Its text, parts joined by line breaks.
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

/// The records of pending messages, in the order in which they came.
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
        files: Vec::new(),
        shortened: false,
        finish: None,
        tokens: correction.apply(u64::from(pending.tokens)),
        place: PENDING.to_owned(),
        end: None,
        reactions: Vec::new(),
    };
    conversation.pending.iter().map(record).collect()
}

impl AuthorRecord {
    pub(super) fn of(author: &Author) -> Self {
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

/// A file that people were handed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The file; its fields are in this same object.
    #[serde(flatten)]
    pub file: SentFile,
    /// Its content has expired, or is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl FileRecord {
    fn of(file: &SentFile) -> Self {
        Self { file: file.clone(), gone: false }
    }
}

/// A large tool result or message that is stored outside of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its id, unique within its channel.
    pub id: ArtifactId,
    /// The tool whose result it is; empty for a message.
    pub tool: String,
    /// The message that it is a copy of, as long as the window shows that. Of a recording: the answer that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Seq>,
    /// Of a recording that a person sent: the network's id of its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_in: Option<MessageId>,
    /// The name of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub bytes: u64,
    pub lines: u64,
    pub stored_at: Timestamp,
    /// When it was stored, or last read.
    pub used_at: Timestamp,
    /// When it expired and its content was removed.
    pub expired_at: Option<Timestamp>,
    /// Its content was damaged or missing, and `cairn store verify --quarantine` gave it up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactPage {
    pub artifact: ArtifactRecord,
    /// The first line, from 1.
    pub from: u64,
    /// Bytes of that line that were skipped.
    pub offset: u64,
    pub count: u64,
    /// The lines, joined by line breaks.
    pub text: String,
    /// Where to read on; `None` at the end.
    pub next: Option<ReadOn>,
}

/// The artifacts of a channel that have not expired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsRecord {
    pub count: u64,
    pub bytes: u64,
}

impl ArtifactRecord {
    pub fn of(artifact: &Artifact) -> Self {
        Self {
            id: artifact.id.clone(),
            tool: artifact.tool.clone(),
            message: artifact.message,
            sent_in: artifact.sent_in.clone(),
            name: artifact.file.as_ref().map(|file| file.name.clone()),
            bytes: artifact.bytes,
            lines: artifact.lines,
            stored_at: artifact.stored_at,
            used_at: artifact.used_at,
            expired_at: artifact.expired_at,
            lost: artifact.lost,
        }
    }
}

impl ArtifactPage {
    /// The record of lines that were read; `from`: the first one.
    pub fn of(artifact: &Artifact, from: u64, found: ArtifactLines) -> Self {
        Self {
            artifact: ArtifactRecord::of(artifact),
            from,
            offset: found.offset,
            count: found.lines,
            next: read_on(artifact, from, &found, &found.text),
            text: found.text,
        }
    }
}

impl ArtifactsRecord {
    pub fn of(kept: &[Artifact]) -> Self {
        kept.iter().fold(Self::default(), |sum, artifact| Self {
            count: sum.count + 1,
            bytes: sum.bytes + artifact.bytes,
        })
    }
}
