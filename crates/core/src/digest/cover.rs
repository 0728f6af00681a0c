//! Greedy coverage: takes the piece that adds most for its size until the budget is spent.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

use jiff::civil::Date;

use super::day_mark;
use super::weigh::{Said, Weighed, weigh};
use cairn_types::tokens::estimate;

/// Share of a word's weight that remains each time that it is covered.
const AGAIN: f64 = 0.2;

/// Exponent of the size that a gain is divided by: below 1, longer pieces have a better chance.
const SIZE: f64 = 0.8;

/// How often the rest of the budget is spent again.
const ROUNDS: usize = 4;

pub(super) struct SourceLine<'a> {
    pub(super) day: Option<Date>,
    pub(super) speaker: Option<Cow<'a, str>>,
    pub(super) pieces: Vec<&'a str>,
}

impl SourceLine<'_> {
    fn line(&self, taken: &[usize], day_before: Option<Date>) -> String {
        let mut line = String::new();
        if let Some(day) = self.day.filter(|day| day_before != Some(*day)) {
            line.push_str(&day_mark(day));
        }
        if let Some(speaker) = &self.speaker {
            line.push_str(speaker);
            line.push_str(": ");
        }
        for (nth, piece) in taken.iter().enumerate() {
            if nth > 0 {
                line.push(' ');
            }
            line.push_str(self.pieces[*piece]);
        }
        line
    }
}

/// A piece that may be taken. Its value may be outdated; the current one is never higher.
struct PieceValue {
    value: f64,
    idx: usize,
}

impl Ord for PieceValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(other.idx.cmp(&self.idx))
    }
}

impl PartialOrd for PieceValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PieceValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PieceValue {}

/// The lines that cover most, each with the index of its source, in order. Joined by line breaks they are
/// estimated at `budget` tokens at most.
pub(super) fn cover(sources: &[SourceLine<'_>], budget: u32) -> Vec<(usize, String)> {
    let mut greedy = Greedy::new(sources);
    let mut limit = budget;
    // The sum of costs is no exact measure of the text as a whole: what is left over is spent in further rounds.
    for _ in 0..ROUNDS {
        greedy.take_up_to(limit);
        let left = budget.saturating_sub(greedy.tokens());
        if left == 0 {
            break;
        }
        limit = limit.saturating_add(left);
    }
    // And the last taken, worth least, give way if it is too much.
    while greedy.tokens() > budget && greedy.taken.pop().is_some() {}
    greedy.lines()
}

/// Pieces, their values, and those taken so far.
struct Greedy<'a> {
    sources: &'a [SourceLine<'a>],
    /// For each piece, the index of its line and its position in that line.
    places: Vec<(usize, usize)>,
    weighed: Vec<Weighed>,
    costs: Vec<u32>,
    sizes: Vec<f64>,
    /// The extra cost of starting a line.
    opening: Vec<u32>,
    /// What is left of each word's weight.
    remains: Vec<f64>,
    heap: BinaryHeap<PieceValue>,
    spent: u32,
    taken: Vec<usize>,
    open: Vec<bool>,
    days: BTreeSet<Date>,
}

impl<'a> Greedy<'a> {
    fn new(sources: &'a [SourceLine<'a>]) -> Self {
        let places: Vec<(usize, usize)> = sources
            .iter()
            .enumerate()
            .flat_map(|(source, line)| (0..line.pieces.len()).map(move |piece| (source, piece)))
            .collect();
        let pieces: Vec<&str> =
            places.iter().map(|(source, piece)| sources[*source].pieces[*piece]).collect();
        let said = places.iter().zip(&pieces);
        let said: Vec<Said<'_>> = said
            .map(|((source, _), text)| Said { text, speaker: sources[*source].speaker.as_deref() })
            .collect();
        let (weighed, n_words) = weigh(&said);
        let opening =
            |source: &SourceLine<'_>| 1 + source.speaker.as_ref().map_or(0, |name| 1 + estimate(name));
        let mut greedy = Self {
            sources,
            costs: pieces.iter().map(|piece| estimate(piece)).collect(),
            opening: sources.iter().map(opening).collect(),
            sizes: Vec::new(),
            remains: vec![1.0; n_words],
            heap: BinaryHeap::new(),
            spent: 0,
            taken: Vec::new(),
            open: vec![false; sources.len()],
            days: BTreeSet::new(),
            places,
            weighed,
        };
        greedy.sizes = (greedy.costs.iter().zip(&greedy.places))
            .map(|(cost, (source, _))| f64::from(cost + greedy.opening[*source]).powf(SIZE))
            .collect();
        // What was said twice in the same words is taken once at most.
        let mut known = HashSet::new();
        greedy.heap = (0..pieces.len())
            .filter(|idx| known.insert(pieces[*idx]))
            .map(|idx| PieceValue { value: greedy.value(idx), idx })
            .collect();
        greedy
    }

    /// What a piece would add now, relative to its size.
    fn value(&self, idx: usize) -> f64 {
        let Weighed { words, factor } = &self.weighed[idx];
        let gain: f64 = words.iter().map(|(word, weight)| weight * self.remains[*word]).sum();
        gain * factor / self.sizes[idx]
    }

    /// What a piece would cost now, including the start of its line and the mark of its day.
    fn price(&self, idx: usize) -> u32 {
        let source = self.places[idx].0;
        if self.open[source] {
            return self.costs[idx];
        }
        let new_day = self.sources[source].day.filter(|day| !self.days.contains(day));
        self.costs[idx] + self.opening[source] + new_day.map_or(0, |day| estimate(&day_mark(day)))
    }

    /// Takes the best pieces until their costs reach the limit.
    fn take_up_to(&mut self, limit: u32) {
        let mut too_dear = Vec::new();
        while let Some(PieceValue { value: before, idx }) = self.heap.pop() {
            let value = self.value(idx);
            if value <= 0.0 {
                continue;
            }
            if value < before {
                self.heap.push(PieceValue { value, idx });
                continue;
            }
            let spent = self.spent.saturating_add(self.price(idx));
            if spent > limit {
                too_dear.push(PieceValue { value, idx });
                continue;
            }
            let source = self.places[idx].0;
            self.spent = spent;
            self.open[source] = true;
            self.days.extend(self.sources[source].day);
            self.weighed[idx].words.iter().for_each(|(word, _)| self.remains[*word] *= AGAIN);
            self.taken.push(idx);
        }
        self.heap.extend(too_dear);
    }

    /// Estimated tokens of the taken pieces, as one text.
    fn tokens(&self) -> u32 {
        let texts: Vec<String> = self.lines().into_iter().map(|(_, text)| text).collect();
        estimate(&texts.join("\n"))
    }

    fn lines(&self) -> Vec<(usize, String)> {
        let mut in_order = self.taken.clone();
        in_order.sort_unstable();
        let mut day = None;
        in_order
            .chunk_by(|a, b| self.places[*a].0 == self.places[*b].0)
            .map(|chunk| {
                let idx = self.places[chunk[0]].0;
                let nths: Vec<usize> = chunk.iter().map(|piece| self.places[*piece].1).collect();
                let text = self.sources[idx].line(&nths, day);
                day = self.sources[idx].day.or(day);
                (idx, text)
            })
            .collect()
    }
}
