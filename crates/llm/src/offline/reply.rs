//! A reply without a language model: quotations for a question, an acknowledgement for a statement, set phrases for what concerns
//! the model itself. It claims nothing that it did not do.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use cairn_core::digest::digest_texts;
use cairn_core::reminder;
use cairn_types::ids::{Generation, Seq, TurnId};
use cairn_types::memory::DraftMemory;
use cairn_types::message::{Author, Entry, Part, Role, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest, ModelError};
use cairn_types::ports::{Hit, Query};
use cairn_types::tokens::estimate;

use super::HistorySearch;
use super::speech::Wish;
use super::summarise::{can_save, results_of_saves, save_calls};
use super::{Answer, facts, memories, off_thread, quote, speech, sums};

/// How many results of the search are looked at.
const SEARCH_LIMIT: usize = 12;

/// What the result of the tool begins with when it has saved a memory.
const SAVED: &str = "saved";

/// What somebody asked to be remembered is worth more than what was found by rule.
const ASKED_IMPORTANCE: f64 = 0.8;

const NO_MODEL: &str = "No language model is configured, so I can only quote.";

/// The shorter words for who has just read the long ones.
const NO_MODEL_AGAIN: &str = "(Offline: I can only quote.)";

/// How something is saved at once.
const HINT: &str = " Begin with “remember that”, and I save it as a memory.";

const WHO: &str = "I am Cairn's built-in offline model: rules instead of a language model, so nothing that you write is sent to one.";

const ABILITIES: &str = "I look up what was said here and quote it, with author and day. I can summarise the conversation by \
    extraction (“summarise this”), do sums (“17 * 3”) and tell the time.";

/// Most tokens of a summary that somebody asks for, and the share of what it stands for.
const SUMMARY_MOST: u64 = 300;
const SUMMARY_SHARE: f64 = 0.2;
const SUMMARY_LEAST: u64 = 60;

/// Says that no model answers: in full unless that is in sight already.
fn notice(request: &ChatRequest) -> &'static str {
    let said = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { text, .. } if text.contains(NO_MODEL));
    if request.messages.iter().any(said) { NO_MODEL_AGAIN } else { NO_MODEL }
}

pub(super) async fn reply(
    request: ChatRequest,
    question: String,
    search: &HistorySearch,
) -> Result<Answer, ModelError> {
    if let Some(saves) = results_of_saves(&request.messages) {
        return Ok(fit(confirmation(&saves), Vec::new(), request.max_output_tokens));
    }
    if let Some(text) = reminder::fired_text(&question) {
        return Ok(fit(format!("Reminder: {text}"), Vec::new(), request.max_output_tokens));
    }
    if let Some(words) = speech::to_remember(&question) {
        let calls = save_calls(&request, vec![wanted(&request, &question, &words)]);
        if calls.is_empty() {
            let text =
                format!("I cannot save memories here: it stays in this conversation. {}", notice(&request));
            return Ok(fit(text, Vec::new(), request.max_output_tokens));
        }
        return Ok(Answer { calls, ..Answer::default() });
    }
    let most = request.max_output_tokens;
    if let Some(sum) = sums::answer(&question) {
        return Ok(fit(sum, Vec::new(), most));
    }
    if speech::wish(&question) == Some(Wish::Summary) || speech::to_summarise(&question).is_some() {
        return off_thread(move || summary(&request, &question)).await;
    }
    if let Some(wish) = speech::wish(&question) {
        return Ok(fit(to_wish(wish, &request), Vec::new(), most));
    }
    if !speech::is_question(&question) {
        return Ok(acknowledgement(&request, &question));
    }
    let fact = facts::Asked::of(&question, asker(&request).as_deref());
    let query = fact.as_ref().map_or_else(|| question.clone(), |fact| fact.query(&question));
    let hits = old_words(&request, query, search).await;
    off_thread(move || quotations(&request, &question, fact.as_ref(), hits)).await
}

/// The answer to what concerns the model itself.
fn to_wish(wish: Wish, request: &ChatRequest) -> String {
    let remembers = if can_save(request) { HINT } else { "" };
    match wish {
        Wish::Greeting => format!("Hello! {} Ask me about anything that was said here.", notice(request)),
        Wish::Thanks => "You are welcome.".to_owned(),
        Wish::Farewell => "Goodbye! What was said here stays.".to_owned(),
        Wish::HowAreYou => format!("I am a program, and I work. {}", notice(request)),
        Wish::WhoAreYou => format!("{WHO} {ABILITIES}{remembers}"),
        Wish::WhatCanYouDo => format!("{} {ABILITIES}{remembers}", notice(request)),
        Wish::Time => match clock(request) {
            Some(time) => format!("It is {time}."),
            None => "I do not know the time: nothing here tells it.".to_owned(),
        },
        Wish::Reminder => {
            format!(
                "I set no reminder by myself. `/remind in 2h call the plumber` does, on the command line `cairn reminder add`.{remembers}"
            )
        }
        Wish::Summary => String::new(),
    }
}

/// The time as the request has it, in the system's own words at the beginning of a context.
fn clock(request: &ChatRequest) -> Option<&str> {
    request.messages.iter().rev().find_map(|message| {
        let ChatMessage::Context { text } = message else { return None };
        let line = text.strip_prefix("<context>\n")?.lines().next()?;
        let (_, time) = line.split_once("It is ")?;
        let time = time.split_once(". ").map_or(time.trim_end_matches('.'), |(time, _)| time);
        time.bytes().any(|byte| byte.is_ascii_digit()).then_some(time)
    })
}

/// An extract of the text that came with the question, or else of all that stands in the window.
fn summary(request: &ChatRequest, question: &str) -> Answer {
    let limit = request.max_output_tokens.min(SUMMARY_MOST);
    let budget = |tokens: u64| ((tokens as f64 * SUMMARY_SHARE) as u64).max(SUMMARY_LEAST).min(limit) as u32;
    let texts: Vec<String> = match speech::to_summarise(question) {
        Some(text) => vec![text.to_owned()],
        None => {
            // Earlier summaries stand behind the prompt and the line that leads them.
            let earlier =
                request.system.iter().skip(2).map(|item| item.split_once('\n').map_or("", |(_, text)| text));
            let said = quote::from_window(&request.messages).into_iter().filter(|said| said.text != question);
            let lines = said.map(|said| said.line()).collect::<Vec<_>>().join("\n");
            earlier.map(str::to_owned).chain([lines]).collect()
        }
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let extract = digest_texts(&texts, budget(texts.iter().map(|text| u64::from(estimate(text))).sum()));
    if extract.trim().is_empty() {
        let text = "There is nothing yet that I could summarise.".to_owned();
        return Answer { text, ..Answer::default() };
    }
    let lines = extract.lines().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n");
    fit("By extraction, what seems to matter most:".to_owned(), vec![lines], request.max_output_tokens)
}

fn quotations(request: &ChatRequest, question: &str, fact: Option<&facts::Asked>, hits: Vec<Hit>) -> Answer {
    let notice = notice(request);
    let mut candidates = quote::from_window(&request.messages);
    candidates.extend(quote::from_hits(hits));
    candidates.extend(quote::from_context(&request.messages));
    let quotes: Vec<String> = quote::best(question, fact, candidates).iter().map(quote::shown).collect();
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
            tracing::warn!(channel = %request.channel, %error,
                "the history cannot be searched; the offline model answers from the window only");
            Vec::new()
        }
    }
}

/// What a person asked to be remembered: as the rules find it, or else all of it.
fn wanted(request: &ChatRequest, question: &str, words: &str) -> DraftMemory {
    let entry = spoken(request, question);
    let author = entry.author.as_ref().map(|author| author.name.clone());
    match memories::find(&[entry]).into_iter().next() {
        Some(found) => DraftMemory { importance: found.importance.max(ASKED_IMPORTANCE), ..found },
        None => memories::asked(words, author.as_deref()),
    }
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
    let at = at
        .and_then(|at| at.to_zoned_datetime(TimeZone::UTC).ok())
        .map_or(Timestamp::UNIX_EPOCH, |at| at.timestamp());
    let turn = TurnId::new("t1");
    Arc::new(Entry {
        author: name.map(|name| Author { id: name.clone(), name }),
        parts: vec![Part::text(question)],
        ..Entry::new(Seq(1), &turn, Generation::default(), at, Role::User)
    })
}

/// It says that something is remembered only where that was saved: what was not asked for is saved with a summary, if at all.
fn acknowledgement(request: &ChatRequest, question: &str) -> Answer {
    let notice = notice(request);
    let worth_it = !memories::find(&[spoken(request, question)]).is_empty();
    let hint = if worth_it && can_save(request) { HINT } else { "" };
    Answer { text: format!("I have read it. {notice}{hint}"), ..Answer::default() }
}

fn confirmation(saves: &[(&ToolCall, &str)]) -> String {
    // Only what the tool says of itself is a success: a call may also be denied, or never have run.
    let failed = saves.iter().find(|(_, result)| !result.trim_start().starts_with(SAVED));
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
            return Answer { text: cut(text, limit), ..Answer::default() };
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
