//! Memories without a model: sentences in which people speak of themselves, or decide something, in their own words.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_types::memory::DraftMemory;
use cairn_types::memory::MemoryKind::{self, Decision, Event, Fact, Goal, Identity, Preference, Todo};
use cairn_types::message::{Entry, Role};
use cairn_types::text::sentences::sentences;

/// Most memories from one entry, and from one call: who pastes a page does not fill the store.
const ENTRY_MAX: usize = 3;
const CALL_MAX: usize = 40;

/// Longest sentence that is looked at, in bytes: a longer one is no statement about oneself.
const SENTENCE_MAX: usize = 400;

/// With which words a statement begins, and what it is. The first that fits counts.
const LEADS: &[(&str, MemoryKind, f64)] = &[
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
    ("my name is", Identity, 0.9),
    ("call me", Identity, 0.8),
    ("i'm from", Identity, 0.7),
    ("i am from", Identity, 0.7),
    ("i come from", Identity, 0.7),
    ("i live", Identity, 0.7),
    ("i work", Identity, 0.7),
    ("i'm a", Identity, 0.6),
    ("i'm an", Identity, 0.6),
    ("i am a", Identity, 0.6),
    ("i am an", Identity, 0.6),
    ("i'm allergic", Fact, 0.9),
    ("i am allergic", Fact, 0.9),
    ("i'm vegan", Fact, 0.8),
    ("i'm vegetarian", Fact, 0.8),
    ("my birthday is", Event, 0.8),
    ("my goal is", Goal, 0.7),
    ("i want to", Goal, 0.6),
    ("i plan to", Goal, 0.6),
    ("i have to", Todo, 0.6),
    ("i need to", Todo, 0.6),
    ("my favourite", Preference, 0.7),
    ("my favorite", Preference, 0.7),
    ("i prefer", Preference, 0.7),
    ("i like", Preference, 0.6),
    ("i love", Preference, 0.6),
    ("i hate", Preference, 0.6),
    ("i don't like", Preference, 0.7),
    ("i don't eat", Preference, 0.7),
    ("my", Fact, 0.6),
    ("we decided", Decision, 0.8),
    ("we agreed", Decision, 0.8),
    ("let's go with", Decision, 0.7),
    ("let's use", Decision, 0.7),
    ("mein name ist", Identity, 0.9),
    ("ich heiße", Identity, 0.9),
    ("ich wohne", Identity, 0.7),
    ("ich arbeite", Identity, 0.7),
    ("wir haben beschlossen", Decision, 0.8),
    ("je m'appelle", Identity, 0.9),
    ("j'habite", Identity, 0.7),
    ("j'aime", Preference, 0.6),
    ("me llamo", Identity, 0.9),
    ("vivo en", Identity, 0.7),
    ("me gusta", Preference, 0.6),
];

/// Words that may stand before a statement.
const OPENERS: &[&str] =
    &["and", "but", "so", "oh", "ok", "hi", "hey", "yes", "well", "also", "btw", "please", "actually", "now"];

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
    let lower = sentence.to_lowercase().replace('’', "'");
    let words = |text: &str| -> Vec<String> {
        let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect()
    };
    let first = words(&lower);
    if first.first().is_some_and(|word| UNSTATED.contains(&word.as_str()) && !lower.starts_with("do not")) {
        return None;
    }
    let (_, kind, importance) = lower.split([',', ';', ':', '–', '—']).find_map(|clause| {
        let clause = words(clause);
        let at = clause.iter().position(|word| !OPENERS.contains(&word.as_str()))?;
        let fits = |(lead, ..): &&(&str, MemoryKind, f64)| {
            let lead: Vec<&str> = lead.split(' ').collect();
            let object = clause.get(at + lead.len());
            clause[at..].iter().map(String::as_str).take(lead.len()).eq(lead)
                && object.is_some_and(|object| !VAGUE.contains(&object.as_str()))
        };
        LEADS.iter().find(fits)
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
