//! Finds and words quotations: what was said, by whom, when.

use std::collections::{HashMap, HashSet};

use cairn_core::message::text_of;
use cairn_core::model::ChatMessage;
use cairn_core::ports::{Hit, HitKind};
use cairn_core::sentences::sentences;
use cairn_core::window::{escape_name, short_date};
use cairn_core::words::topic_words;

const MAX_QUOTES: usize = 3;

/// Longest quotation, in characters.
const QUOTE_CHARS: usize = 280;

/// A quotation must be at least this good, measured against the best.
const NEAR_BEST: f64 = 0.55;

/// What a question is worth as an answer to a question.
const QUESTION_WORTH: f64 = 0.5;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// Who said it; `None` for a memory.
    pub(super) author: Option<String>,
    pub(super) date: Option<String>,
    pub(super) text: String,
    /// What the search or the recall thinks of it, 0 to 1.
    rank: f64,
}

/// What people said in the window, the newest last. The header before each message names its author and time.
pub(super) fn from_window(messages: &[ChatMessage]) -> Vec<Candidate> {
    let said = |message: &ChatMessage| match message {
        ChatMessage::User { parts } => Some(text_of(parts)),
        ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } | ChatMessage::Context { .. } => None,
    };
    let candidate = |text: String| {
        let (author, date, text) = match header(&text) {
            Some((author, time, words)) => {
                (author, time.split(' ').next().map(str::to_owned), words.to_owned())
            }
            None => ("somebody".to_owned(), None, text),
        };
        Candidate { author: Some(author), date, text, rank: 0.0 }
    };
    messages.iter().filter_map(said).map(candidate).collect()
}

/// Splits `[Name | time] words`.
pub(super) fn header(text: &str) -> Option<(String, &str, &str)> {
    let (inside, words) = text.strip_prefix('[')?.split_once("] ")?;
    let (name, time) = inside.rsplit_once(" | ")?;
    Some((name.to_owned(), time, words))
}

/// Entries of people that the search found. The model's own words have no author, and are never quoted.
pub(super) fn from_hits(hits: Vec<Hit>) -> Vec<Candidate> {
    let best = hits.iter().map(|hit| hit.score).fold(f64::MIN_POSITIVE, f64::max);
    let quotable = |hit: Hit| {
        let author = escape_name(&hit.author.filter(|_| hit.kind == HitKind::Entry)?.name);
        let rank = (hit.score / best).clamp(0.0, 1.0);
        Some(Candidate { author: Some(author), date: Some(short_date(hit.at)), text: hit.text, rank })
    };
    hits.into_iter().filter_map(quotable).collect()
}

/// Recalled memories: the lines `- kind: words [date]` of the context at the tail.
pub(super) fn from_context(messages: &[ChatMessage]) -> Vec<Candidate> {
    let lines = messages.iter().flat_map(|message| match message {
        ChatMessage::Context { text } => text.lines().collect::<Vec<_>>(),
        ChatMessage::User { .. } | ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } => Vec::new(),
    });
    let memory = |line: &str| {
        let (_, words) = line.strip_prefix("- ")?.split_once(": ")?;
        let (words, date) = match words.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [")) {
            Some((words, date)) => (words, Some(date.to_owned())),
            None => (words, None),
        };
        let words = words.rsplit_once(" (about ").map_or(words, |(words, _)| words);
        Some(Candidate { author: None, date, text: words.to_owned(), rank: 0.5 })
    };
    lines.filter_map(memory).collect()
}

/// The few candidates that answer best, best first. Empty when none shares a word that matters with the question.
pub(super) fn best(question: &str, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let asked: HashSet<String> = topic_words(question).into_iter().collect();
    let candidates = distinct(question, candidates);
    if asked.is_empty() {
        return Vec::new();
    }
    let words: Vec<HashSet<String>> = candidates.iter().map(words_of).collect();
    let mut n_with: HashMap<&str, usize> = HashMap::new();
    for word in words.iter().flatten().filter(|word| asked.contains(*word)) {
        *n_with.entry(word).or_default() += 1;
    }
    let rarity = |word: &str| (1.0 + words.len() as f64 / n_with.get(word).copied().unwrap_or(1) as f64).ln();
    let whole: f64 = asked.iter().map(|word| rarity(word)).sum();
    let mut scored: Vec<(f64, usize)> = candidates
        .iter()
        .zip(&words)
        .enumerate()
        .map(|(idx, (candidate, words))| {
            let shared: f64 = asked.intersection(words).map(|word| rarity(word)).sum();
            let brevity = 1.0 / (1.0 + words.len() as f64 / 100.0);
            let worth = if candidate.text.trim_end().ends_with('?') { QUESTION_WORTH } else { 1.0 };
            ((shared / whole * brevity + 0.5 * candidate.rank) * worth, idx)
        })
        .filter(|(score, idx)| *score > 0.0 && (candidates[*idx].rank > 0.0 || *score > 0.2))
        .collect();
    // Of two that are as good, the newer.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let bar = scored.first().map_or(0.0, |(score, _)| score * NEAR_BEST);
    let chosen = scored.into_iter().take_while(|(score, _)| *score >= bar).take(MAX_QUOTES);
    chosen.map(|(_, idx)| shortened(&candidates[idx], &asked)).collect()
}

/// Each text once (the search's view of it wins, since it knows the date), without the question itself.
fn distinct(question: &str, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let asked = plain(question);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let text = plain(&candidate.text);
        if text.is_empty() || asked.contains(&text) {
            continue;
        }
        match places.get(&text) {
            Some(&idx) if kept[idx].rank < candidate.rank => kept[idx] = candidate,
            Some(_) => {}
            None => {
                places.insert(text, kept.len());
                kept.push(candidate);
            }
        }
    }
    kept
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn words_of(candidate: &Candidate) -> HashSet<String> {
    let author = candidate.author.as_deref().unwrap_or_default();
    topic_words(&candidate.text).into_iter().chain(topic_words(author)).collect()
}

/// Of a long text, the sentences from the one that shares most with the question.
fn shortened(candidate: &Candidate, asked: &HashSet<String>) -> Candidate {
    if candidate.text.chars().count() <= QUOTE_CHARS {
        return candidate.clone();
    }
    let all: Vec<&str> = sentences(&candidate.text).collect();
    let shared = |text: &str| topic_words(text).iter().filter(|word| asked.contains(*word)).count();
    let mut start = 0;
    for idx in 1..all.len() {
        if shared(all[idx]) > shared(all[start]) {
            start = idx;
        }
    }
    let mut text = if start > 0 { "… ".to_owned() } else { String::new() };
    text.push_str(&all[start..].join(" "));
    if text.chars().count() > QUOTE_CHARS {
        text = text.chars().take(QUOTE_CHARS).collect();
        text.push('…');
    }
    Candidate { text, ..candidate.clone() }
}

pub(super) fn shown(candidate: &Candidate) -> String {
    let words = candidate.text.trim().replace('\n', "\n> ");
    let who = candidate.author.as_deref().unwrap_or("from memory");
    match &candidate.date {
        Some(date) => format!("> {words}\n({who}, {date})"),
        None => format!("> {words}\n({who})"),
    }
}
