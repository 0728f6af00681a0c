//! What the words of a piece are worth: rare words more than frequent ones, names and numbers more still; and what the piece is
//! worth as a whole: what binds, what was put right and what has a value before the rest.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::cues::{CORRECTIONS, NOW, Told};
use cairn_types::text::sentences::sentences;
use cairn_types::text::words::{Term, topic_terms, topic_words};

/// How much more names and numbers weigh than other words equally rare: worth 1.2 and 0.7 points of the evidence kept on
/// LoCoMo (`.ci/soak digest`). Lists of English words of time and of the first person were worth 0.6 together, and are gone.
const NAME: f64 = 1.5;
const NUMBER: f64 = 1.5;

/// What the piece as a whole is worth more for a decision, a promise or a statement about oneself, for a correction, and for a
/// number or a name. Figures: `docs/design/figures.md`, "Digests".
const BINDS: f64 = 2.0;
const CORRECTS: f64 = 2.0;
const VALUE: f64 = 1.5;

/// What remains of a piece that ends with a question, and of one that only asks.
const ENDS_ASKING: f64 = 0.7;
const QUESTION: f64 = 0.5;

/// How many pieces behind a question may answer it, and how many words that matter an answer has.
const ANSWER_WITHIN: usize = 6;
const ANSWER_WORDS: usize = 3;

/// A piece of a text, and who said it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) speaker: Option<&'a str>,
}

/// A piece with its words, numbered across the whole text.
#[derive(Debug, Clone)]
pub(super) struct Weighed {
    /// Each different word: its number and its weight here.
    pub(super) words: Vec<(usize, f64)>,
    /// Factor for the piece as a whole; 0 where it is not to be kept.
    pub(super) factor: f64,
}

/// What a piece does, beside its words.
struct Shape {
    told: Told,
    /// Whether a number or a name is in it.
    has_value: bool,
    ends_asking: bool,
    only_asks: bool,
    /// Its words without numbers and names: what it is about.
    about: Vec<usize>,
}

/// Weighs pieces against each other. Also says how many different words there are.
pub(super) fn weigh(pieces: &[Said<'_>]) -> (Vec<Weighed>, usize) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut frequency: Vec<u32> = Vec::new();
    let mut weighed: Vec<Weighed> = Vec::with_capacity(pieces.len());
    let mut shapes = Vec::with_capacity(pieces.len());
    let cues = correcting_stems();
    for piece in pieces {
        let mut words: Vec<(usize, f64)> = Vec::new();
        let mut shape = Shape::of(piece.text);
        for sentence in sentences(piece.text) {
            for term in topic_terms(sentence) {
                let (boost, is_value) = (boost(&term), term.name || term.number);
                let is_cue = cues.contains(&term.stem);
                let next = numbers.len();
                let number = *numbers.entry(term.stem).or_insert(next);
                if number == frequency.len() {
                    frequency.push(0);
                }
                shape.has_value |= is_value;
                if !is_value && !is_cue {
                    shape.about.push(number);
                }
                words.push((number, boost));
            }
        }
        words.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        words.dedup_by_key(|word| word.0);
        words.iter().for_each(|word| frequency[word.0] += 1);
        weighed.push(Weighed { words, factor: shape.factor() });
        shapes.push(shape);
    }
    let total = pieces.len() as f64;
    for piece in &mut weighed {
        for (number, weight) in &mut piece.words {
            *weight *= (1.0 + total / f64::from(frequency[*number])).ln();
        }
    }
    leave_out_answered(pieces, &shapes, &mut weighed);
    leave_out_corrected(&mut shapes, &mut weighed);
    (weighed, frequency.len())
}

impl Shape {
    fn of(text: &str) -> Self {
        let (mut told, mut n_sentences, mut n_asking) = (Told::default(), 0, 0);
        for sentence in sentences(text) {
            let asks = asks(sentence);
            n_sentences += 1;
            n_asking += usize::from(asks);
            if !asks {
                let one = Told::of(sentence);
                told.binding |= one.binding;
                told.corrects |= one.corrects;
            }
        }
        let (ends_asking, only_asks) = (asks(text), n_asking == n_sentences && n_asking > 0);
        Self { told, has_value: false, ends_asking, only_asks, about: Vec::new() }
    }

    fn factor(&self) -> f64 {
        let mut factor = 1.0;
        for (holds, times) in [
            (self.told.binding, BINDS),
            (self.told.corrects && self.has_value, CORRECTS),
            (self.has_value, VALUE),
            (self.only_asks, QUESTION),
            (self.ends_asking && !self.only_asks, ENDS_ASKING),
        ] {
            if holds {
                factor *= times;
            }
        }
        factor
    }
}

fn asks(text: &str) -> bool {
    text.ends_with(['?', '？', '؟'])
}

/// Takes out what only asks, without a number or a name, and has its answer: something of somebody else soon behind it that
/// tells enough to be understood alone, and is about the same, or comes at once.
fn leave_out_answered(pieces: &[Said<'_>], shapes: &[Shape], weighed: &mut [Weighed]) {
    let asking = |idx: &usize| shapes[*idx].only_asks && !shapes[*idx].has_value;
    for idx in (0..pieces.len()).filter(asking) {
        let end = pieces.len().min(idx + 1 + ANSWER_WITHIN);
        let is_answer = |other: &usize| {
            let tells = weighed[*other].words.len() >= ANSWER_WORDS && !shapes[*other].only_asks;
            let same =
                |number: &usize| weighed[idx].words.binary_search_by_key(number, |word| word.0).is_ok();
            let is_close =
                *other == idx + 1 || weighed[*other].words.iter().take(SHARED).any(|word| same(&word.0));
            pieces[*other].speaker != pieces[idx].speaker && tells && is_close
        };
        if (idx + 1..end).any(|other| is_answer(&other)) {
            weighed[idx].factor = 0.0;
        }
    }
}

/// Words of an answer that are compared with its question.
const SHARED: usize = 64;

/// Takes out what was put right later: it is about the same, word for word, but for its values.
fn leave_out_corrected(shapes: &mut [Shape], weighed: &mut [Weighed]) {
    let mut corrected: HashSet<Vec<usize>> = HashSet::new();
    for (shape, weighed) in shapes.iter_mut().zip(weighed).rev() {
        shape.about.sort_unstable();
        shape.about.dedup();
        let about = std::mem::take(&mut shape.about);
        if about.is_empty() || !shape.has_value {
            continue;
        }
        if corrected.contains(&about) {
            weighed.factor = 0.0;
        } else if shape.told.corrects {
            corrected.insert(about);
        }
    }
}

/// The words that only say that something was put right, as terms have them.
fn correcting_stems() -> &'static HashSet<String> {
    static STEMS: LazyLock<HashSet<String>> =
        LazyLock::new(|| CORRECTIONS.iter().chain(NOW).flat_map(|word| topic_words(word)).collect());
    &STEMS
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
