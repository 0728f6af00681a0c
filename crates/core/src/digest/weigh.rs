//! What the words of a piece are worth: rare words more than frequent ones, names and numbers more still.

use std::collections::HashMap;

use cairn_types::text::words::{Term, topic_terms};

/// How much more names and numbers weigh than other words equally rare: worth 1.2 and 0.7 points of the evidence kept on
/// LoCoMo (`.ci/soak digest`). Lists of English words of time and of the first person were worth 0.6 together, and are gone.
const NAME: f64 = 1.5;
const NUMBER: f64 = 1.5;

/// What remains of a piece that only asks.
const QUESTION: f64 = 0.5;

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
    } else if term.name {
        NAME
    } else {
        1.0
    }
}

fn factor(piece: &str) -> f64 {
    if piece.ends_with(['?', '？']) { QUESTION } else { 1.0 }
}
