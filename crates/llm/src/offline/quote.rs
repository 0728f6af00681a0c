//! Finds and words quotations: what was said, by whom, when.

use std::collections::{HashMap, HashSet};

use cairn_core::window::{escape_name, short_time};
use cairn_types::message::text_of;
use cairn_types::model::ChatMessage;
use cairn_types::ports::{Hit, HitKind};
use cairn_types::text::sentences::sentences;
use cairn_types::text::words::topic_words;

use super::facts::Asked;

const MAX_QUOTES: usize = 3;

/// Longest quotation, in characters.
const QUOTE_CHARS: usize = 280;

/// A quotation must be at least this good, measured against the best.
const NEAR_BEST: f64 = 0.55;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// Who said it; `None` for a memory.
    pub(super) author: Option<String>,
    /// When: a day, and where it is known the minute. Later times sort behind earlier ones.
    at: Option<String>,
    pub(super) text: String,
    /// What the search or the recall thinks of it, 0 to 1.
    rank: f64,
}

impl Candidate {
    /// Whose words they are; of a memory, who it says said it.
    pub(super) fn speaker(&self) -> Option<&str> {
        self.author.as_deref().or_else(|| Some(self.text.split_once(SAID)?.0))
    }

    /// As a line of a summary has it, with the day when it was said.
    pub(super) fn line(&self) -> String {
        let day = self.at.as_deref().and_then(|at| at.split(' ').next());
        let day = day.map(|day| format!("[{day}] ")).unwrap_or_default();
        let words = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{day}{}: {words}", self.author.as_deref().unwrap_or("from memory"))
    }

    /// The words alone.
    fn words(&self) -> &str {
        match self.author {
            Some(_) => &self.text,
            None => self.text.rsplit(SAID).next().unwrap_or_default().trim_matches('"'),
        }
    }
}

/// What stands in a memory between who said it and what was said.
const SAID: &str = " said: ";

/// What people said in the window, the newest last. The header before each message names its author and time.
pub(super) fn from_window(messages: &[ChatMessage]) -> Vec<Candidate> {
    let said = |message: &ChatMessage| match message {
        ChatMessage::User { parts } => Some(text_of(parts)),
        ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } | ChatMessage::Context { .. } => None,
    };
    let candidate = |text: String| {
        let (author, at, text) = match header(&text) {
            Some((author, time, words)) => (author, Some(time.to_owned()), words.to_owned()),
            None => ("somebody".to_owned(), None, text),
        };
        Candidate { author: Some(author), at, text, rank: 0.0 }
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
        Some(Candidate { author: Some(author), at: Some(short_time(hit.at)), text: hit.text, rank })
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
        let (words, at) = match words.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [")) {
            Some((words, day)) => (words, Some(day.to_owned())),
            None => (words, None),
        };
        let words = words.rsplit_once(" (about ").map_or(words, |(words, _)| words);
        Some(Candidate { author: None, at, text: words.to_owned(), rank: 0.5 })
    };
    lines.filter_map(memory).collect()
}

/// The few candidates that answer best, best first. Empty when none shares a word that matters with the question.
pub(super) fn best(question: &str, fact: Option<&Asked>, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let asked: HashSet<String> = topic_words(question).into_iter().collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let mut candidates: Vec<Candidate> =
        distinct(question, candidates).into_iter().filter_map(told).collect();
    let mut words: Vec<HashSet<String>> = Vec::new();
    if let Some(fact) = fact {
        keep_what_holds(fact, &mut candidates);
    }
    for candidate in &mut candidates {
        let mut said = words_of(candidate);
        if let Some(fact) = fact.filter(|fact| fact.is_told(candidate)) {
            // It answers the question, whatever words it does so in.
            candidate.rank = 1.0;
            said.extend(fact.words.iter().cloned());
        }
        words.push(said);
    }
    let chosen = newest_first(scored(&asked, &candidates, &words), &candidates);
    chosen.into_iter().take(MAX_QUOTES).map(|idx| shortened(&candidates[idx], &asked)).collect()
}

/// What a candidate tells: a question is no evidence. `None` where it only asks.
fn told(candidate: Candidate) -> Option<Candidate> {
    let asks = |sentence: &&str| sentence.ends_with(['?', '？', '؟']);
    if !sentences(&candidate.text).any(|sentence| asks(&sentence)) {
        return Some(candidate);
    }
    let told: Vec<&str> = sentences(&candidate.text).filter(|sentence| !asks(sentence)).collect();
    let text = told.join(" ");
    (!text.is_empty()).then_some(Candidate { text, ..candidate })
}

/// Takes out what somebody told of a fact before they told it again.
fn keep_what_holds(fact: &Asked, candidates: &mut Vec<Candidate>) {
    let mut newest: HashMap<Option<String>, usize> = HashMap::new();
    let mut former = HashSet::new();
    for (idx, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| fact.is_told(candidate)) {
        let holds = newest.entry(candidate.speaker().map(str::to_owned)).or_insert(idx);
        let (earlier, later) = in_time(candidates, *holds, idx);
        if earlier != later {
            former.insert(earlier);
        }
        *holds = later;
    }
    let mut idx = 0..;
    candidates.retain(|_| idx.next().is_none_or(|idx| !former.contains(&idx)));
}

/// The earlier of two, and the later. What was said within a minute stands in its order in the window.
fn in_time(candidates: &[Candidate], one: usize, other: usize) -> (usize, usize) {
    let key = |idx: usize| (&candidates[idx].at, idx);
    if key(one) <= key(other) { (one, other) } else { (other, one) }
}

/// The candidates that answer well enough, best first.
fn scored(asked: &HashSet<String>, candidates: &[Candidate], words: &[HashSet<String>]) -> Vec<usize> {
    let mut n_with: HashMap<&str, usize> = HashMap::new();
    for word in words.iter().flatten().filter(|word| asked.contains(*word)) {
        *n_with.entry(word).or_default() += 1;
    }
    let rarity = |word: &str| (1.0 + words.len() as f64 / n_with.get(word).copied().unwrap_or(1) as f64).ln();
    let whole: f64 = asked.iter().map(|word| rarity(word)).sum();
    let mut scored: Vec<(f64, usize)> = candidates
        .iter()
        .zip(words)
        .enumerate()
        .map(|(idx, (candidate, words))| {
            let shared: f64 = asked.intersection(words).map(|word| rarity(word)).sum();
            let brevity = 1.0 / (1.0 + words.len() as f64 / 100.0);
            (shared / whole * brevity + 0.5 * candidate.rank, idx)
        })
        .filter(|(score, idx)| *score > 0.0 && (candidates[*idx].rank > 0.0 || *score > 0.2))
        .collect();
    // Of two that are as good, the newer.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let bar = scored.first().map_or(0.0, |(score, _)| score * NEAR_BEST);
    scored.into_iter().take_while(|(score, _)| *score >= bar).map(|(_, idx)| idx).collect()
}

/// Puts what was said later before what it contradicts.
fn newest_first(mut chosen: Vec<usize>, candidates: &[Candidate]) -> Vec<usize> {
    for place in 1..chosen.len() {
        let later = chosen[place];
        let is_contradicted = |earlier: &usize| {
            in_time(candidates, *earlier, later).1 == later
                && contradict(candidates[*earlier].words(), candidates[later].words())
        };
        if let Some(before) = chosen[..place].iter().position(is_contradicted) {
            chosen[before..=place].rotate_right(1);
        }
    }
    chosen
}

/// Both say the same of something, but for a number or a name: "it comes on 15 April", "it comes on 22 April".
fn contradict(one: &str, other: &str) -> bool {
    let (values, others) = (values(one), values(other));
    let rest = |text: &str| -> HashSet<String> {
        topic_words(text)
            .into_iter()
            .filter(|word| !values.contains(word) && !others.contains(word))
            .collect()
    };
    let (one, other) = (rest(one), rest(other));
    values != others
        && !(values.is_empty() || others.is_empty() || one.is_empty() || other.is_empty())
        && (one.is_subset(&other) || other.is_subset(&one))
}

/// Numbers and names, as [`topic_words`] has them.
fn values(text: &str) -> HashSet<String> {
    let is_value =
        |word: &str| word.starts_with(char::is_uppercase) || word.bytes().any(|byte| byte.is_ascii_digit());
    // What begins a sentence is written large, whatever it is.
    let words = sentences(text).flat_map(|sentence| sentence.split_whitespace().skip(1));
    words.filter(|word| is_value(word)).flat_map(topic_words).collect()
}

/// Each text once, with the best that search or recall thinks of it, without the question itself. A memory of words that are
/// there themselves adds nothing but that.
fn distinct(question: &str, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let asked = plain(question);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Candidate> = Vec::new();
    let (memories, said): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.author.is_none());
    let (n_memories, mut spoken) = (memories.len(), Vec::<HashSet<String>>::new());
    for candidate in said.into_iter().chain(memories) {
        let text = plain(candidate.words());
        if text.is_empty() || asked.contains(&text) {
            continue;
        }
        let is_memory = candidate.author.is_none();
        // A memory tells in other words what its speaker said: of theirs it has no more than their name.
        let told = if is_memory { topic_words(candidate.words()) } else { Vec::new() };
        let is_of =
            |words: &HashSet<String>| !told.is_empty() && told.iter().all(|word| words.contains(word));
        let origin = || spoken.iter().position(is_of).filter(|_| is_memory);
        match places.get(&text).copied().or_else(origin) {
            Some(idx) => {
                let rank = kept[idx].rank.max(candidate.rank);
                // Words without a time have nobody who is known to have said them.
                if kept[idx].at.is_none() {
                    kept[idx] = candidate;
                }
                kept[idx].rank = rank;
            }
            None => {
                places.insert(text, kept.len());
                spoken.push(if n_memories > 0 { words_of(&candidate) } else { HashSet::new() });
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
    match candidate.at.as_deref().and_then(|at| at.split(' ').next()) {
        Some(day) => format!("> {words}\n({who}, {day})"),
        None => format!("> {words}\n({who})"),
    }
}
