//! Reads conversations in the format of LoCoMo, for measuring: the data itself is no part of the project.

pub mod beam;
mod digest;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

pub use digest::{Kept, entries, kept_by_chance, kept_by_digest};

/// A conversation with the questions asked about it.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub turns: Vec<Turn>,
    pub questions: Vec<Question>,
}

#[derive(Debug, Clone)]
pub struct Turn {
    /// Its `dia_id`, such as `D3:7`.
    pub id: String,
    pub speaker: String,
    /// The words, with the caption of a picture behind them.
    pub text: String,
    /// When: a minute after the one before in the same session.
    pub at: Timestamp,
    /// What the model answers, where the file has it.
    pub reply: Option<String>,
}

/// A question about a conversation.
#[derive(Debug, Clone)]
pub struct Question {
    pub question: String,
    /// The answer; none for a question that has none.
    pub answer: Option<String>,
    /// In LoCoMo 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial; in BEAM a name.
    pub category: String,
    /// What answers it.
    pub evidence: Vec<Evidence>,
}

/// A message that answers a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Evidence {
    /// Its turn, from 0.
    pub turn: usize,
    /// It is the model's reply, not the person's message.
    pub in_reply: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("{path} is not a file of LoCoMo: {source}")]
    Json { path: String, source: serde_json::Error },
    /// A session has no date, or one that cannot be read.
    #[error(
        "{session} has no readable date and time (found {found:?}, expected such as `1:56 pm on 8 May, 2023`)"
    )]
    Date { session: String, found: Option<String> },
}

#[derive(Deserialize)]
struct RawConversation {
    conversation: BTreeMap<String, Value>,
    #[serde(default)]
    qa: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawTurn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

#[derive(Deserialize)]
struct RawQuestion {
    question: String,
    answer: Option<Value>,
    category: u8,
    #[serde(default)]
    evidence: Vec<String>,
}

/// The conversation as lines for `cairn import`.
pub fn talk_lines(conversation: &Conversation) -> String {
    let line = |turn: &Turn| {
        let line = json!({ "user": turn.speaker, "text": turn.text, "at": turn.at, "id": turn.id });
        format!("{line}\n")
    };
    conversation.turns.iter().map(line).collect()
}

/// Loads all conversations of a file.
pub fn load(path: &Path) -> Result<Vec<Conversation>, LoadError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Io { path: name.clone(), source })?;
    let json = |source| LoadError::Json { path: name.clone(), source };
    let raw: Vec<RawConversation> = serde_json::from_str(&text).map_err(json)?;
    raw.into_iter()
        .map(|raw| {
            let turns = turns(&raw.conversation, &json)?;
            let questions = raw.qa.into_iter().map(|raw| question(raw, &turns)).collect();
            Ok(Conversation { turns, questions })
        })
        .collect()
}

fn turns(
    sessions: &BTreeMap<String, Value>,
    json: &impl Fn(serde_json::Error) -> LoadError,
) -> Result<Vec<Turn>, LoadError> {
    let mut numbered: Vec<(u32, &String, &Value)> = sessions
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("session_")?.parse().ok()?, key, value)))
        .collect();
    numbered.sort_by_key(|(number, _, _)| *number);
    let mut turns = Vec::new();
    for (_, session, value) in numbered {
        let raw = Vec::<RawTurn>::deserialize(value).map_err(json)?;
        let date = sessions.get(&format!("{session}_date_time")).and_then(Value::as_str);
        let begun = date
            .and_then(session_time)
            .ok_or_else(|| LoadError::Date { session: session.clone(), found: date.map(str::to_owned) })?;
        turns.extend(raw.into_iter().zip(0..).map(|(turn, minutes)| Turn {
            id: turn.dia_id,
            speaker: turn.speaker,
            text: match turn.blip_caption {
                Some(caption) => format!("{} [shares a picture: {caption}]", turn.text).trim().to_owned(),
                None => turn.text,
            },
            at: begun + SignedDuration::from_mins(minutes),
            reply: None,
        }));
    }
    Ok(turns)
}

/// `1:56 pm on 8 May, 2023`, taken as UTC.
fn session_time(text: &str) -> Option<Timestamp> {
    let local = DateTime::strptime("%I:%M %p on %d %B, %Y", text.trim()).ok()?;
    Some(local.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp())
}

fn question(raw: RawQuestion, turns: &[Turn]) -> Question {
    let answer = raw.answer.map(|answer| match answer {
        Value::String(text) => text,
        other => other.to_string(),
    });
    let place = |id: String| turns.iter().position(|turn| turn.id == id);
    let ids = raw.evidence.iter().flat_map(|text| evidence_ids(text));
    let evidence = ids.filter_map(place).map(|turn| Evidence { turn, in_reply: false }).collect();
    Question { question: raw.question, answer, category: raw.category.to_string(), evidence }
}

/// Ids in a text that may pack several or pad them with zeros: `D8:6; D9:017` or `D:11:26`.
fn evidence_ids(text: &str) -> Vec<String> {
    text.split('D')
        .filter_map(|part| {
            let (session, rest) = part.trim_start_matches(':').split_once(':')?;
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            Some(format!("D{}:{}", session.parse::<u32>().ok()?, rest[..digits].parse::<u32>().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{evidence_ids, session_time};

    #[test]
    fn packed_and_padded_ids_are_read() {
        assert_eq!(evidence_ids("D8:6; D9:017"), ["D8:6", "D9:17"]);
        assert_eq!(evidence_ids("D:11:26"), ["D11:26"]);
        assert!(evidence_ids("D").is_empty());
    }

    #[test]
    fn session_times_are_read() {
        assert_eq!(session_time("1:56 pm on 8 May, 2023").unwrap().to_string(), "2023-05-08T13:56:00Z");
        assert_eq!(session_time("someday"), None);
    }
}
