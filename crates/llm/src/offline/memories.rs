//! Memories without a model: sentences in which people speak of themselves, or decide something, in their own words.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_core::cues::{LEADS, Lead, OPENERS, begins, plain_words, spelled};
use cairn_types::memory::DraftMemory;
use cairn_types::memory::MemoryKind::{Decision, Fact, Todo};
use cairn_types::message::{Entry, Role};
use cairn_types::text::sentences::sentences;

/// Most memories from one entry, and from one call: who pastes a page does not fill the store.
const ENTRY_MAX: usize = 3;
const CALL_MAX: usize = 40;

/// Longest sentence that is looked at, in bytes: a longer one is no statement about oneself.
const SENTENCE_MAX: usize = 400;

/// How people ask that something be kept.
const REQUESTS: &[Lead] = &[
    ("remind me", Todo, 0.8),
    ("remember to", Todo, 0.8),
    ("remember that", Fact, 0.9),
    ("keep in mind that", Fact, 0.9),
    ("don't forget that", Fact, 0.9),
    ("remember", Fact, 0.9),
    ("don't forget", Fact, 0.9),
    ("do not forget", Fact, 0.9),
    ("keep in mind", Fact, 0.9),
    ("note that", Fact, 0.9),
];

/// Words after which nothing is stated: questions, conditions, the words of others.
const UNSTATED: &[&str] = &[
    "if", "what", "when", "where", "which", "who", "why", "how", "do", "does", "did", "is", "are", "can",
    "could", "should", "would", "imagine", "suppose", "maybe", "perhaps",
];

/// Objects that say nothing outside their conversation, and what is no more than a mood.
const VAGUE: &[&str] = &[
    "it", "that", "this", "these", "those", "them", "him", "her", "you", "your", "how", "when", "what", "go",
    "bit", "little", "lot", "admit", "say",
];

/// What is worth remembering of what people said; the same sentence once. On LoCoMo it finds 126 of 1,287 facts that people
/// noted down, two of three sentences that it takes being among those.
pub(super) fn find(entries: &[Arc<Entry>]) -> Vec<DraftMemory> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.role == Role::User) {
        let (text, name) = (entry.text(), speaker(entry));
        let mut fenced = false;
        let spoken = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fence && !fenced && !line.trim_start().starts_with('>')
        });
        let of_entry = spoken.flat_map(sentences).filter_map(|sentence| statement(sentence, &name));
        found.extend(of_entry.filter(|memory| known.insert(memory.text.to_lowercase())).take(ENTRY_MAX));
    }
    found.truncate(CALL_MAX);
    found
}

fn speaker(entry: &Entry) -> String {
    let author = entry.author.as_ref();
    let name =
        author.map_or("", |author| if author.name.trim().is_empty() { &author.id } else { &author.name });
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() { "a person".to_owned() } else { name }
}

fn statement(sentence: &str, name: &str) -> Option<DraftMemory> {
    if sentence.len() > SENTENCE_MAX
        || sentence.ends_with(['?', '？'])
        || sentence.starts_with(['"', '“', '„'])
    {
        return None;
    }
    let lower = spelled(sentence);
    let first = plain_words(&lower).into_iter().next();
    if first.is_some_and(|word| UNSTATED.contains(&word) && !lower.starts_with("do not")) {
        return None;
    }
    let (_, kind, importance) = lower.split([',', ';', ':', '–', '—']).find_map(|clause| {
        let clause = plain_words(clause);
        let at = clause.iter().position(|word| !OPENERS.contains(word))?;
        let fits = |(lead, ..): &&Lead| {
            let object = begins(&clause[at..], lead).and_then(|n_words| clause.get(at + n_words));
            object.is_some_and(|object| !VAGUE.contains(object))
        };
        REQUESTS.iter().chain(LEADS).find(fits)
    })?;
    Some(DraftMemory {
        kind: *kind,
        text: format!("{name} said: {}", sentence.trim()),
        subject: (*kind != Decision).then(|| name.to_owned()),
        importance: *importance,
        by: None,
        said_at: None,
    })
}
