//! Memories by their words, the few that fit a question and the operator's search: ranked by the search index, read from
//! the rows, which have the last word.

use std::collections::HashSet;

use cairn_types::ids::AgentId;
use cairn_types::memory::{Memory, Reach};
use cairn_types::ports::{MemoryFilter, NEAR_MAX, Recall, StoreError};

use super::memories::{Ranked, Ranking, RecallQuery};
use super::search_index::SearchIndex;

use crate::views::archive::Reads;
use crate::views::topic::Counted;
use crate::views::{Views, memories};

/// What scores less than this share of the best does not fit the question. On the observations of five conversations of LoCoMo,
/// it leaves 8.5 of 10 memories, with 53.3 % of the evidence among the first 5; a share of 0.25 leaves 8.3 with 53.2 %.
const FITTING_SHARE: f64 = 0.22;

/// Ranked beyond what is asked for: some may be gone by the time when their rows are read.
const SPARE: usize = 16;

/// What knows which memories have a word: the index, and the views for what changed since its last commit.
#[derive(Clone, Copy)]
pub(crate) struct RecallSources<'a> {
    pub(crate) index: &'a SearchIndex,
    pub(crate) views: &'a Views,
}

/// The best memories within reach for a question; none when none fits.
pub(crate) fn recall(
    sources: RecallSources<'_>,
    reads: &Reads<'_>,
    agent: &AgentId,
    (reach, question, limit): (&[Reach], &str, usize),
) -> Result<Recall, StoreError> {
    let asked = RecallQuery {
        agents: std::slice::from_ref(agent),
        reach,
        text: question,
        n: limit.saturating_add(SPARE),
    };
    let ranked = ranked(sources, reads, &asked)?;
    let least = ranked.first().map_or(0.0, |(score, _)| score * FITTING_SHARE);
    let mut recall = Recall::default();
    // What held once comes behind what holds.
    let mut past = Vec::new();
    for (score, id) in ranked {
        let takes = score >= least && recall.memories.len() < limit;
        if !takes && recall.near.len() == NEAR_MAX {
            break;
        }
        let is_within = |memory: &Memory| is_within(&asked, memory);
        let Some(memory) = memories::get(reads.db, &id)?.filter(is_within) else { continue };
        let score = (score * 1e3).round() / 1e3;
        if takes && memory.superseded_by.is_some() {
            past.push((memory, score));
        } else if takes {
            recall.memories.push(memory);
            recall.scores.push(score);
        } else {
            recall.near.push((id, score));
        }
    }
    past.truncate(limit - recall.memories.len());
    for (memory, score) in past {
        recall.memories.push(memory);
        recall.scores.push(score);
    }
    Ok(recall)
}

/// Memories of agents within reach as a person asks for them: oldest first, with a query in one ranking.
pub(crate) fn list(
    sources: RecallSources<'_>,
    reads: &Reads<'_>,
    agents: &[AgentId],
    reach: &[Reach],
    filter: &MemoryFilter,
) -> Result<Vec<Memory>, StoreError> {
    if let Some(query) = &filter.query {
        // Only their rows say which of them fit the rest of the filter.
        let all_fit = filter.kind.is_none() && filter.subject.is_none();
        let n = if all_fit { filter.limit.saturating_add(SPARE) } else { usize::MAX };
        let asked = RecallQuery { agents, reach, text: query, n };
        return best(sources, reads, &asked, filter.limit, |memory| filter.fits(memory));
    }
    let mut found = within(reads, agents, reach)?;
    found.retain(|memory| filter.fits(memory));
    found.truncate(filter.limit);
    Ok(found)
}

/// The best that fit.
fn best(
    sources: RecallSources<'_>,
    reads: &Reads<'_>,
    asked: &RecallQuery<'_>,
    limit: usize,
    fits: impl Fn(&Memory) -> bool,
) -> Result<Vec<Memory>, StoreError> {
    let mut found = Vec::new();
    for (_, id) in ranked(sources, reads, asked)? {
        if found.len() == limit {
            break;
        }
        found.extend(memories::get(reads.db, &id)?.filter(|memory| is_within(asked, memory) && fits(memory)));
    }
    Ok(found)
}

fn is_within(asked: &RecallQuery<'_>, memory: &Memory) -> bool {
    asked.agents.contains(&memory.agent) && asked.reach.iter().any(|reach| reach.holds(memory))
}

/// Memories with words of what is asked, best first, by the index or without it.
fn ranked(
    sources: RecallSources<'_>,
    reads: &Reads<'_>,
    asked: &RecallQuery<'_>,
) -> Result<Ranked, StoreError> {
    let of_index = match reads.db.is_in_memory() {
        // It follows the views on disk, which do not answer.
        true => None,
        false => {
            // Asked before the index is looked at: what it takes in meanwhile is known to it.
            let changed = sources.views.changed_memories(asked.agents, asked.reach);
            sources.index.memories(asked, &changed).unwrap_or_else(|error| {
                tracing::warn!(%error, "the search index cannot be read; memories are searched in the database");
                None
            })
        }
    };
    match of_index {
        Some(ranked) => Ok(ranked),
        None => by_rows(reads, asked),
    }
}

/// Ranks without an index: each row is read once, and none is kept.
fn by_rows(reads: &Reads<'_>, asked: &RecallQuery<'_>) -> Result<Ranked, StoreError> {
    let mut ranking = Ranking::new(asked);
    for agent in asked.agents {
        for (idx, reach) in asked.reach.iter().enumerate() {
            memories::each_within(reads.db, agent, reach, |row| {
                if !asked.reach[..idx].iter().any(|before| before.holds(&row.memory)) {
                    ranking.count(&row.memory.id, &Counted::of(&row.memory));
                }
            })?;
        }
    }
    ranking.ranked(asked.n)
}

/// All memories within reach, oldest first.
fn within(reads: &Reads<'_>, agents: &[AgentId], reach: &[Reach]) -> Result<Vec<Memory>, StoreError> {
    let mut rows = Vec::new();
    for agent in agents {
        for reach in reach.iter().collect::<HashSet<_>>() {
            rows.extend(memories::within(reads.db, agent, reach)?);
        }
    }
    rows.sort_by_key(|row| row.made);
    rows.dedup_by(|a, b| a.memory.id == b.memory.id);
    Ok(rows.into_iter().map(|row| row.memory).collect())
}
