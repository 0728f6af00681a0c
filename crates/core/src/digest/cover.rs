//! Greedy coverage: takes the piece that adds most for its size until the budget is spent.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use jiff::civil::Date;

use super::weigh::{Weighed, weigh};
use super::{cost, day_mark};
use crate::tokens::estimate;

/// What remains of a word's weight each time that it is covered.
const AGAIN: f64 = 0.2;

/// Exponent of the size that a gain is divided by: below 1, longer pieces have a better chance.
const SIZE: f64 = 0.8;

/// One line to extract from.
pub(super) struct Source<'a> {
    /// When it was said.
    pub(super) day: Option<Date>,
    /// Who said it.
    pub(super) speaker: Option<Cow<'a, str>>,
    /// Its sentences.
    pub(super) pieces: Vec<&'a str>,
}

impl Source<'_> {
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

/// A piece that waits to be taken; its value may be out of date, then it was higher before.
struct Waiting {
    value: f64,
    idx: usize,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(other.idx.cmp(&self.idx))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

/// The lines that cover most, each with the index of its source, in order. Joined by line breaks they are
/// estimated at `budget` tokens at most.
pub(super) fn cover(sources: &[Source<'_>], budget: u32) -> Vec<(usize, String)> {
    let places: Vec<(usize, usize)> = sources
        .iter()
        .enumerate()
        .flat_map(|(source, line)| (0..line.pieces.len()).map(move |piece| (source, piece)))
        .collect();
    let pieces: Vec<&str> = places.iter().map(|(source, piece)| sources[*source].pieces[*piece]).collect();
    let mut taken = take(sources, &places, &pieces, budget);
    // The sum of costs is no exact measure of the text as a whole: the last taken, worth least, give way.
    loop {
        let lines = lines(sources, &places, &taken);
        let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        if estimate(&texts.join("\n")) <= budget || taken.pop().is_none() {
            return lines;
        }
    }
}

/// The pieces to take, best first, by their costs within the budget.
fn take(sources: &[Source<'_>], places: &[(usize, usize)], pieces: &[&str], budget: u32) -> Vec<usize> {
    let (weighed, n_words) = weigh(pieces);
    let costs: Vec<u32> = pieces.iter().map(|piece| cost(piece)).collect();
    let opening: Vec<u32> = sources
        .iter()
        .map(|source| 1 + source.speaker.as_ref().map_or(0, |name| 1 + estimate(name)))
        .collect();
    let mut remains = vec![1.0; n_words];
    let value = |idx: usize, remains: &[f64]| {
        let Weighed { words, factor } = &weighed[idx];
        let gain: f64 = words.iter().map(|(word, weight)| weight * remains[*word]).sum();
        gain * factor / f64::from(costs[idx] + opening[places[idx].0]).powf(SIZE)
    };
    let mut heap: BinaryHeap<Waiting> =
        (0..pieces.len()).map(|idx| Waiting { value: value(idx, &remains), idx }).collect();
    let (mut spent, mut taken) = (0u32, Vec::new());
    let (mut open, mut days) = (vec![false; sources.len()], BTreeSet::new());
    while let Some(Waiting { value: before, idx }) = heap.pop() {
        let now = value(idx, &remains);
        if now <= 0.0 {
            continue;
        }
        if now < before {
            heap.push(Waiting { value: now, idx });
            continue;
        }
        let source = places[idx].0;
        let mut price = costs[idx];
        if !open[source] {
            price += opening[source];
            price += sources[source]
                .day
                .filter(|day| !days.contains(day))
                .map_or(0, |day| estimate(&day_mark(day)));
        }
        if spent.saturating_add(price) > budget {
            continue;
        }
        spent += price;
        open[source] = true;
        days.extend(sources[source].day);
        weighed[idx].words.iter().for_each(|(word, _)| remains[*word] *= AGAIN);
        taken.push(idx);
    }
    taken
}

fn lines(sources: &[Source<'_>], places: &[(usize, usize)], taken: &[usize]) -> Vec<(usize, String)> {
    let mut in_order = taken.to_vec();
    in_order.sort_unstable();
    let mut day = None;
    in_order
        .chunk_by(|a, b| places[*a].0 == places[*b].0)
        .map(|chunk| {
            let idx = places[chunk[0]].0;
            let nths: Vec<usize> = chunk.iter().map(|piece| places[*piece].1).collect();
            let text = sources[idx].line(&nths, day);
            day = sources[idx].day.or(day);
            (idx, text)
        })
        .collect()
}
