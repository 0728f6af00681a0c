//! Identifiers: what summaries lose first and what is missed most, taken from the source without a model.

mod mask;
mod scan;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cairn_types::message::Entry;
use cairn_types::summary::Summary;
use cairn_types::tokens::estimate;

pub use mask::Mask;
pub(crate) use scan::{Found, find};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Path,
    /// An address of the web or of mail.
    Url,
    /// A uuid, a hash, a ticket, a version, an order.
    Id,
    Number,
    /// The name of a function or variable.
    Function,
    /// An exact error message.
    Error,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Url => "url",
            Self::Id => "id",
            Self::Number => "number",
            Self::Function => "function",
            Self::Error => "error",
        }
    }
}

/// Longest identifier that is listed, in characters. A longer one is left out: half an address is another address.
const LISTED_CHARS: usize = 200;

/// The identifiers of a text in the order of their first appearance, each once: an error message, and what stands
/// within it, too.
pub fn extract(text: &str) -> Vec<(Kind, &str)> {
    let mut seen = std::collections::HashSet::new();
    find(text)
        .into_iter()
        .filter(|found| seen.insert(found.text))
        .map(|found| (found.kind, found.text))
        .collect()
}

/// The most valuable identifiers of entries that a summary's text lacks, within the budget: rare and late ones first,
/// whichever still fits, in the order of their first appearance. Deleted messages have none.
pub fn of_entries(entries: &[Arc<Entry>], summary: &str, budget_tokens: u32) -> Vec<String> {
    let texts: Vec<String> =
        entries.iter().filter(|entry| !entry.is_deleted()).map(|entry| words(entry)).collect();
    let found = texts.iter().map(|text| extract(text).into_iter().map(|(_, text)| text).collect());
    best(&found.collect::<Vec<_>>(), summary, budget_tokens)
}

/// The most valuable identifiers of merged summaries, from their lists and texts, that the merged text lacks, within the
/// budget. They are chosen and ordered as for entries.
pub fn of_summaries(sources: &[Summary], summary: &str, budget_tokens: u32) -> Vec<String> {
    let found = sources.iter().map(|source| {
        let listed = source.identifiers.iter().map(String::as_str);
        listed.chain(extract(&source.text).into_iter().map(|(_, text)| text)).collect()
    });
    best(&found.collect::<Vec<_>>(), summary, budget_tokens)
}

/// All that an entry says, the arguments of its calls included.
pub(crate) fn words(entry: &Entry) -> String {
    let mut text = entry.text();
    for call in &entry.tool_calls {
        text.push('\n');
        text.push_str(&call.name);
        for (key, value) in call.fields() {
            let _ = write!(text, "\n{key} {value}");
        }
    }
    text
}

/// Where an identifier stands in its source.
#[derive(Clone, Copy)]
struct Occurrences {
    first: usize,
    /// The last text that has it, and how many have it.
    last: usize,
    n_texts: u32,
}

impl Occurrences {
    /// Rare and late ones go first: what is said often a summary names by itself, and what is said last is needed next.
    fn worth(&self, n_texts: usize) -> f64 {
        f64::from(self.n_texts).recip() + self.last as f64 / n_texts as f64
    }
}

fn best(texts: &[Vec<&str>], summary: &str, budget_tokens: u32) -> Vec<String> {
    let mut found: HashMap<&str, Occurrences> = HashMap::new();
    let n_texts = texts.len();
    let each = texts.iter().enumerate().flat_map(|(idx, text)| text.iter().map(move |found| (idx, *found)));
    for (first, (idx, text)) in each.enumerate() {
        let occurrences = found.entry(text).or_insert(Occurrences { first, last: idx, n_texts: 1 });
        occurrences.n_texts += u32::from(occurrences.last != idx);
        occurrences.last = idx;
    }
    let mut ranked: Vec<(&str, Occurrences)> = found.into_iter().collect();
    ranked.retain(|(text, _)| text.chars().nth(LISTED_CHARS).is_none() && !stands_in(summary, text));
    let cost = |text: &str| estimate(text) + 1;
    // A long one has to be worth more, but not by as much as it is longer.
    let weight =
        |(text, occurrences): &(&str, Occurrences)| occurrences.worth(n_texts) / f64::from(cost(text)).sqrt();
    ranked.sort_by_cached_key(|found| (Reverse((weight(found) * 1e6) as u64), Reverse(found.1.first)));
    let mut left = budget_tokens;
    let mut kept: Vec<(&str, Occurrences)> = Vec::new();
    for (text, occurrences) in ranked {
        // What an error message names stands there already.
        if cost(text) > left || kept.iter().any(|(other, _)| stands_in(other, text)) {
            continue;
        }
        left -= cost(text);
        kept.retain(|(within, _)| {
            let is_within = stands_in(text, within);
            left += if is_within { cost(within) } else { 0 };
            !is_within
        });
        kept.push((text, occurrences));
    }
    kept.sort_unstable_by_key(|(_, occurrences)| occurrences.first);
    kept.into_iter().map(|(text, _)| text.to_owned()).collect()
}

/// The identifier stands in the text by itself, not as a part of another one.
fn stands_in(text: &str, identifier: &str) -> bool {
    let joins = |c: char| matches!(c, '.' | '-' | '/' | '\\' | '_');
    text.match_indices(identifier).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut behind = text[at + identifier.len()..].chars();
        let next = behind.next();
        let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_inside = before.is_some_and(|c| goes_on(c) || joins(c))
            || next.is_some_and(|c| goes_on(c) || joins(c) && behind.next().is_some_and(goes_on));
        !is_inside
    })
}

#[cfg(test)]
mod tests;
