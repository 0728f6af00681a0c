//! What the words of a piece are worth: rare words more than frequent ones, names, numbers and dates more still.

use std::collections::HashMap;

use crate::words::{Term, raw_words, topic_terms};

/// How much more names, numbers and words of time weigh than other words equally rare.
const NAME: f64 = 1.5;
const NUMBER: f64 = 1.5;
const TIME: f64 = 1.5;

/// How much more a piece weighs in which somebody speaks of themselves.
const FIRST_PERSON: f64 = 1.5;

/// What remains of a piece that only asks.
const QUESTION: f64 = 0.5;

const TIMES: [&str; 36] = [
    "yesterday",
    "today",
    "tomorrow",
    "tonight",
    "week",
    "weekend",
    "month",
    "year",
    "ago",
    "last",
    "next",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "januari",
    "februari",
    "march",
    "april",
    "june",
    "juli",
    "august",
    "septemb",
    "octob",
    "novemb",
    "decemb",
    "summer",
    "winter",
    "spring",
    "autumn",
    "birthday",
    "anniversari",
    "deadlin",
];

/// Words of the first person, and the length in bytes of the longest, with a curly apostrophe.
const FIRST_MAX: usize = 6;
const FIRST: [&str; 12] = ["i", "my", "me", "i'm", "i've", "we", "our", "ich", "mein", "je", "mon", "mi"];

/// A piece with its words, numbered across the whole text.
pub(super) struct Weighed {
    /// Each different word: its number and its weight here.
    pub(super) words: Vec<(usize, f64)>,
    /// Factor for the piece as a whole.
    pub(super) factor: f64,
}

/// Weighs pieces against each other. Also says how many different words there are.
pub(super) fn weigh(pieces: &[&str]) -> (Vec<Weighed>, usize) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut frequency: Vec<u32> = Vec::new();
    let mut weighed: Vec<Weighed> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let mut words: Vec<(usize, f64)> = Vec::new();
        for term in topic_terms(piece) {
            let boost = boost(&term);
            let next = numbers.len();
            let number = *numbers.entry(term.stem).or_insert(next);
            if number == frequency.len() {
                frequency.push(0);
            }
            words.push((number, boost));
        }
        words.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        words.dedup_by_key(|word| word.0);
        words.iter().for_each(|word| frequency[word.0] += 1);
        weighed.push(Weighed { words, factor: factor(piece) });
    }
    let total = pieces.len() as f64;
    for piece in &mut weighed {
        for (number, weight) in &mut piece.words {
            *weight *= (1.0 + total / f64::from(frequency[*number])).ln();
        }
    }
    (weighed, frequency.len())
}

fn boost(term: &Term) -> f64 {
    if term.number {
        NUMBER
    } else if TIMES.contains(&term.stem.as_str()) {
        TIME
    } else if term.name {
        NAME
    } else {
        1.0
    }
}

fn factor(piece: &str) -> f64 {
    let first = raw_words(piece)
        .filter(|word| word.len() <= FIRST_MAX)
        .any(|word| FIRST.contains(&word.to_lowercase().replace('’', "'").as_str()));
    let person = if first { FIRST_PERSON } else { 1.0 };
    if piece.ends_with(['?', '？']) { person * QUESTION } else { person }
}
