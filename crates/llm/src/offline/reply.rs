//! A reply without a language model: quotations for a question, an acknowledgement for a statement.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use cairn_types::ids::{Generation, Seq, TurnId};
use cairn_types::memory::{DraftMemory, MemoryKind};
use cairn_types::message::{Author, Entry, Part, Role, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::ports::{Hit, Query};
use cairn_types::tokens::estimate;

use super::HistorySearch;
use super::summarise::{can_save, results_of_saves, save_calls};
use super::{Answer, facts, memories, quote, speech};

/// How many results of the search are looked at.
const SEARCH_LIMIT: usize = 12;

/// What somebody asked to be remembered is worth more than what was found by rule.
const ASKED_IMPORTANCE: f64 = 0.8;

const NO_MODEL: &str = "No language model is configured, so I can only quote.";

/// The shorter words for who has just read the long ones.
const NO_MODEL_AGAIN: &str = "(Offline: I can only quote.)";

/// How something is saved at once.
const HINT: &str = " Begin with “remember that”, and I save it as a memory.";

/// Says that no model answers: in full unless that is in sight already.
fn notice(request: &ChatRequest) -> &'static str {
    let said = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { text, .. } if text.contains(NO_MODEL));
    if request.messages.iter().any(said) { NO_MODEL_AGAIN } else { NO_MODEL }
}

pub(super) async fn reply(request: &ChatRequest, question: &str, search: &HistorySearch) -> Answer {
    if let Some(saves) = results_of_saves(&request.messages) {
        return fit(confirmation(&saves), Vec::new(), request.max_output_tokens);
    }
    if let Some(words) = speech::to_remember(question) {
        let calls = save_calls(request, vec![wanted(request, question, &words)]);
        if !calls.is_empty() {
            return Answer { calls, ..Answer::default() };
        }
    }
    let notice = notice(request);
    if speech::is_greeting(question) {
        let text = format!("Hello! {notice} Ask me about anything that was said here.");
        return Answer { text, ..Answer::default() };
    }
    if !speech::is_question(question) {
        return acknowledgement(request, question);
    }
    let fact = facts::Asked::of(question, asker(request).as_deref());
    let query = fact.as_ref().map_or_else(|| question.to_owned(), |fact| fact.query(question));
    let hits = old_words(request, query, search).await;
    let mut candidates = quote::from_window(&request.messages);
    candidates.extend(quote::from_hits(hits));
    candidates.extend(quote::from_context(&request.messages));
    let quotes: Vec<String> =
        quote::best(question, fact.as_ref(), candidates).iter().map(quote::shown).collect();
    if quotes.is_empty() {
        let text = format!("{notice} I found nothing that fits your question in what was said here.");
        return Answer { text, ..Answer::default() };
    }
    let lead = if quotes.len() == 1 { "This fits best:" } else { "These fit best:" };
    fit(format!("{notice} {lead}"), quotes, request.max_output_tokens)
}

async fn old_words(request: &ChatRequest, text: String, search: &HistorySearch) -> Vec<Hit> {
    let query = Query {
        channel: Some(request.channel.clone()),
        text,
        kind: Some(cairn_types::ports::HitKind::Entry),
        limit: SEARCH_LIMIT,
        ..Query::default()
    };
    match search(query).await {
        Ok(hits) => hits,
        Err(error) => {
            tracing::warn!(channel = %request.channel, %error, "the offline model answers from the window alone");
            Vec::new()
        }
    }
}

/// What a person asked to be remembered: as it is found, or else in their own words.
fn wanted(request: &ChatRequest, question: &str, words: &str) -> DraftMemory {
    let entry = spoken(request, question);
    let author = entry.author.as_ref().map(|author| author.name.clone());
    if let Some(found) = memories::find(&[entry]).into_iter().next() {
        return DraftMemory { importance: found.importance.max(ASKED_IMPORTANCE), ..found };
    }
    let text = match &author {
        Some(author) => format!("{author} said: {words}"),
        None => words.to_owned(),
    };
    let (kind, importance) = (MemoryKind::Fact, ASKED_IMPORTANCE);
    DraftMemory { kind, text, subject: author, importance, by: None, said_at: None }
}

/// What the newest message of a person begins with: who wrote it and when.
fn newest_header(request: &ChatRequest) -> Option<(String, String)> {
    let newest = request.messages.iter().rev().find_map(|message| match message {
        ChatMessage::User { parts } => Some(cairn_types::message::text_of(parts)),
        ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } | ChatMessage::Context { .. } => None,
    });
    quote::header(&newest?).map(|(name, time, _)| (name, time.to_owned()))
}

fn asker(request: &ChatRequest) -> Option<String> {
    newest_header(request).map(|(name, _)| name)
}

/// The question as an entry, for the rules: by the author and at the time of the newest message.
fn spoken(request: &ChatRequest, question: &str) -> Arc<Entry> {
    let (name, time) = newest_header(request).unzip();
    let at = DateTime::strptime("%Y-%m-%d %H:%M", time.unwrap_or_default()).ok();
    let at =
        at.and_then(|at| at.to_zoned(TimeZone::UTC).ok()).map_or(Timestamp::UNIX_EPOCH, |at| at.timestamp());
    let turn = TurnId::new("t1");
    Arc::new(Entry {
        author: name.map(|name| Author { id: name.clone(), name }),
        parts: vec![Part::text(question)],
        ..Entry::new(Seq(1), &turn, Generation::default(), at, Role::User)
    })
}

/// It says that something is remembered only where that was saved: what was not asked for is saved with a summary.
fn acknowledgement(request: &ChatRequest, question: &str) -> Answer {
    let notice = notice(request);
    let worth_it = !memories::find(&[spoken(request, question)]).is_empty();
    let hint = if worth_it && can_save(request) { HINT } else { "" };
    Answer { text: format!("Noted. {notice}{hint}"), ..Answer::default() }
}

fn confirmation(saves: &[(&ToolCall, &str)]) -> String {
    let refused = |result: &str| {
        let result = result.trim_start().to_lowercase();
        ["error", "failed", "could not", "cannot"].iter().any(|word| result.starts_with(word))
    };
    let failed = saves.iter().find(|(_, result)| refused(result));
    if let Some((_, result)) = failed {
        return format!("I could not save that: {result}");
    }
    let texts: Vec<String> = saves
        .iter()
        .filter_map(|(call, _)| call.arguments.get("text")?.as_str())
        .map(|text| format!("“{text}”"))
        .collect();
    format!("Saved: I will remember {}.", texts.join(" and "))
}

/// The answer within its limit: quotations are left out from the last, then the text is cut.
fn fit(lead: String, mut quotes: Vec<String>, limit: u64) -> Answer {
    loop {
        let text =
            std::iter::once(lead.as_str()).chain(quotes.iter().map(String::as_str)).collect::<Vec<_>>();
        let text = text.join("\n\n");
        if u64::from(estimate(&text)) <= limit || quotes.len() <= 1 {
            let quoting = !quotes.is_empty() || lead.contains('“');
            return Answer { text: cut(text, limit), calls: Vec::new(), quotes: quoting };
        }
        quotes.pop();
    }
}

fn cut(mut text: String, limit: u64) -> String {
    while u64::from(estimate(&text)) > limit && text.chars().count() > 1 {
        let half = text.chars().count() / 2;
        text = text.chars().take(half).collect();
        text.push('…');
        if half <= 1 {
            break;
        }
    }
    text
}
