//! Identifiers: what summaries lose first and what is missed most, taken from the source without a model.

mod mask;
mod scan;

use std::collections::HashMap;

use crate::message::Entry;
use crate::summary::Summary;
use crate::tokens::estimate;

pub use mask::Mask;
pub(crate) use scan::find;

/// What sort of identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A path or the name of a file.
    Path,
    /// An address of the web or of mail.
    Url,
    /// A uuid, a hash, a ticket, a version, an order.
    Id,
    /// A number with its unit.
    Number,
    /// The name of a function or variable.
    Function,
    /// An exact error message.
    Error,
}

impl Kind {
    /// Its name in placeholders.
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

/// Most that the recurrence of an identifier counts: beyond, the newer one goes first.
const RECURS_MAX: u32 = 3;

/// The identifiers of a text in the order of their first appearance, each once; what stands within an error message
/// belongs to it.
pub fn extract(text: &str) -> Vec<(Kind, &str)> {
    let mut seen = std::collections::HashSet::new();
    let mut end = 0;
    let mut outer = find(text);
    outer.retain(|found| {
        let is_outer = found.at >= end;
        end = end.max(found.at + found.text.len());
        is_outer
    });
    outer.into_iter().filter(|found| seen.insert(found.text)).map(|found| (found.kind, found.text)).collect()
}

/// The identifiers of entries that are worth most, within so many tokens: those that recur first, then the newest; in
/// the order in which they first appear. Deleted messages have none.
pub fn of_entries(entries: &[std::sync::Arc<Entry>], budget_tokens: u32) -> Vec<String> {
    let texts: Vec<String> =
        entries.iter().filter(|entry| !entry.is_deleted()).map(|entry| words(entry)).collect();
    best(texts.iter().map(|text| extract(text).into_iter().map(|(_, text)| text).collect()), budget_tokens)
}

/// The identifiers of summaries that are merged, within so many tokens.
pub fn of_summaries(sources: &[Summary], budget_tokens: u32) -> Vec<String> {
    best(sources.iter().map(|source| source.identifiers.iter().map(String::as_str).collect()), budget_tokens)
}

/// All that an entry says, the arguments of its calls included.
pub(crate) fn words(entry: &Entry) -> String {
    let mut text = entry.text();
    for call in &entry.tool_calls {
        text.push('\n');
        text.push_str(&call.name);
        text.push(' ');
        text.push_str(&call.arguments.to_string());
    }
    text
}

#[derive(Clone, Copy)]
struct Standing {
    first: usize,
    last: usize,
    count: u32,
}

fn best<'a>(texts: impl Iterator<Item = Vec<&'a str>>, budget_tokens: u32) -> Vec<String> {
    let mut standings: HashMap<&str, Standing> = HashMap::new();
    for (n, text) in texts.flatten().enumerate() {
        let standing = standings.entry(text).or_insert(Standing { first: n, last: n, count: 0 });
        standing.last = n;
        standing.count = (standing.count + 1).min(RECURS_MAX);
    }
    let mut ranked: Vec<(&str, Standing)> = standings.into_iter().collect();
    ranked.sort_unstable_by_key(|(_, standing)| std::cmp::Reverse((standing.count, standing.last)));
    let mut left = budget_tokens;
    ranked.retain(|(text, _)| {
        let cost = estimate(text) + 1;
        let fits = cost <= left;
        left -= if fits { cost } else { 0 };
        fits
    });
    ranked.sort_unstable_by_key(|(_, standing)| standing.first);
    ranked.into_iter().map(|(text, _)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests;
