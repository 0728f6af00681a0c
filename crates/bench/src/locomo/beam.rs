//! Reads chats in the format of BEAM, reduced to turns and questions: what a person and a model said in turn.

use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{Conversation, Evidence, LoadError, Question, Turn};

#[derive(Deserialize)]
struct RawChat {
    turns: Vec<RawTurn>,
    qa: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawTurn {
    role: String,
    text: String,
    /// As in `March-15-2024`.
    date: Option<String>,
}

#[derive(Deserialize)]
struct RawQuestion {
    question: String,
    category: String,
    evidence: Vec<usize>,
}

/// Loads all chats of a file. A turn is a message of the person and the model's reply.
pub fn load(path: &Path) -> Result<Vec<Conversation>, LoadError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Io { path: name.clone(), source })?;
    let chats: Vec<RawChat> =
        serde_json::from_str(&text).map_err(|source| LoadError::Json { path: name, source })?;
    Ok(chats.into_iter().map(conversation).collect())
}

fn conversation(chat: RawChat) -> Conversation {
    let mut turns: Vec<Turn> = Vec::new();
    // Where each message of the file is.
    let mut places = Vec::new();
    let mut at = Timestamp::UNIX_EPOCH;
    for raw in chat.turns {
        let begun = raw.date.as_deref().and_then(day).filter(|begun| *begun > at);
        at = begun.unwrap_or(at + SignedDuration::from_mins(1));
        match turns.last_mut() {
            Some(turn) if raw.role != "user" => {
                let reply = turn.reply.get_or_insert_default();
                reply.push_str(&raw.text);
            }
            _ => {
                let (id, speaker) = (format!("b{}", turns.len()), "user".to_owned());
                turns.push(Turn { id, speaker, text: raw.text, at, reply: None });
            }
        }
        places.push(Evidence { turn: turns.len() - 1, in_reply: raw.role != "user" });
    }
    let question = |raw: RawQuestion| Question {
        question: raw.question,
        answer: None,
        category: raw.category,
        evidence: raw.evidence.iter().filter_map(|at| places.get(*at)).copied().collect(),
    };
    let questions = chat.qa.into_iter().map(question).collect();
    Conversation { turns, questions }
}

fn day(text: &str) -> Option<Timestamp> {
    let day = Date::strptime("%B-%d-%Y", text.trim()).ok()?;
    Some(day.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp())
}
