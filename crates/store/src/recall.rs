//! Memories by their words, the few that fit a question and the operator's search: ranked by the search index, read from
//! the rows, which have the last word.

use std::collections::HashSet;

use cairn_core::ids::AgentId;
use cairn_core::memory::{Memory, Reach};
use cairn_core::ports::{MemoryFilter, StoreError};

use crate::index::{Asked, CANDIDATES};
use crate::store::Inner;
use crate::views::archive::Reads;
use crate::views::memories;

/// What scores less than this share of the best does not fit the question. On the observations of five conversations of LoCoMo,
/// it leaves 8.5 of 10 memories, with 53.3 % of the evidence among the first 5; a share of 0.25 leaves 8.3 with 53.2 %.
const FITTING_SHARE: f64 = 0.22;

/// The best memories within reach for a question; none when none fits.
pub(crate) fn recall(
    inner: &Inner,
    reads: &Reads<'_>,
    agent: &AgentId,
    (reach, question, limit): (&[Reach], &str, usize),
) -> Result<Vec<Memory>, StoreError> {
    let asked = Asked { agent, reach, text: question, n: CANDIDATES };
    best(inner, reads, &asked, FITTING_SHARE, limit, |_| true)
}

/// Memories within reach as a person asks for them.
pub(crate) fn list(
    inner: &Inner,
    reads: &Reads<'_>,
    agent: &AgentId,
    reach: &[Reach],
    filter: &MemoryFilter,
) -> Result<Vec<Memory>, StoreError> {
    if let Some(query) = &filter.query {
        let asked = Asked { agent, reach, text: query, n: usize::MAX };
        return best(inner, reads, &asked, 0.0, filter.limit, |memory| filter.fits(memory));
    }
    let mut found = within(reads, agent, reach)?;
    found.retain(|memory| filter.fits(memory));
    found.truncate(filter.limit);
    Ok(found)
}

/// The best that score at least a share of what the first does, and fit.
fn best(
    inner: &Inner,
    reads: &Reads<'_>,
    asked: &Asked<'_>,
    share: f64,
    limit: usize,
    fits: impl Fn(&Memory) -> bool,
) -> Result<Vec<Memory>, StoreError> {
    let of_index = match reads.db.is_in_memory() {
        // It follows the views on disk, which do not answer.
        true => None,
        false => {
            let upto = inner.views.applied().borrow().memories_n;
            inner.index.memories(asked, upto).unwrap_or_else(|error| {
                tracing::warn!(%error, "the search index cannot be read; memories are found by their rows");
                None
            })
        }
    };
    let ranked = match of_index {
        Some(ranked) => ranked,
        None => inner.index.memories_among(asked, &within(reads, asked.agent, asked.reach)?)?,
    };
    let least = ranked.first().map_or(0.0, |(score, _)| score * share);
    let mut found = Vec::new();
    for (_, id) in ranked.iter().take_while(|(score, _)| *score >= least) {
        if found.len() == limit {
            break;
        }
        let is_within = |memory: &Memory| {
            memory.agent == *asked.agent && asked.reach.iter().any(|reach| reach.holds(memory))
        };
        found.extend(memories::get(reads.db, id)?.filter(|memory| is_within(memory) && fits(memory)));
    }
    Ok(found)
}

/// All memories within reach, oldest first.
fn within(reads: &Reads<'_>, agent: &AgentId, reach: &[Reach]) -> Result<Vec<Memory>, StoreError> {
    let mut rows = Vec::new();
    for reach in reach.iter().collect::<HashSet<_>>() {
        rows.extend(memories::within(reads.db, agent, reach)?);
    }
    rows.sort_by_key(|row| row.made);
    rows.dedup_by(|a, b| a.memory.id == b.memory.id);
    Ok(rows.into_iter().map(|row| row.memory).collect())
}
