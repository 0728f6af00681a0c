//! Memories by their words: the few that fit a question, and the operator's search.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::{Memory, Reach, Scope};
use cairn_core::ports::{MemoryFilter, StoreError};
use cairn_core::words::topic_words;
use parking_lot::Mutex;

use crate::views::Views;
use crate::views::codec::Key;
use crate::views::db::Db;
use crate::views::memories;

/// BM25's usual constants: how soon a repeated word stops counting, how much long texts are discounted.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An important memory counts for up to this much more, and each further sighting for a little.
const IMPORTANCE_BOOST: f64 = 0.3;
const SIGHTING_BOOST: f64 = 0.1;

/// What scores less than this share of the best does not fit the question.
const FITTING_SHARE: f64 = 0.25;

/// Most words of a question that are looked for: each is looked for in every memory.
const WORDS_MAX: usize = 256;

const REACHES_KEPT: usize = 256;

struct Words {
    scope: Scope,
    id: MemoryId,
    counts: HashMap<String, u32>,
    len: u32,
    boost: f64,
}

/// The words of all memories within reach, as of a version of the memories.
struct ReachWords {
    version: u64,
    memories: Vec<Words>,
}

/// Keeps the words of memories between questions.
#[derive(Default)]
pub(crate) struct Recall {
    reaches: Mutex<HashMap<Key, Arc<ReachWords>>>,
}

impl Recall {
    /// The best memories within reach for a question; none when none fits.
    pub(crate) fn recall(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        (reach, question, limit): (&[Reach], &str, usize),
    ) -> Result<Vec<Memory>, StoreError> {
        let mut best = self.ranked(views, db, agent, reach, question)?;
        let least = best.first().map_or(0.0, |(score, ..)| score * FITTING_SHARE);
        best.retain(|(score, ..)| *score >= least);
        best.truncate(limit);
        read(db, agent, best)
    }

    /// Memories within reach as a person asks for them.
    pub(crate) fn list(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        reach: &[Reach],
        filter: &MemoryFilter,
    ) -> Result<Vec<Memory>, StoreError> {
        let fits = |memory: &Memory| {
            filter.kind.is_none_or(|kind| memory.kind == kind)
                && filter.subject.as_ref().is_none_or(|subject| memory.subject.as_ref() == Some(subject))
        };
        let mut found = match &filter.query {
            Some(query) => {
                let mut best = Vec::new();
                for (_, scope, id) in self.ranked(views, db, agent, reach, query)? {
                    if best.len() == filter.limit {
                        break;
                    }
                    best.extend(memories::in_its_scope(db, agent, &scope, &id)?.filter(&fits));
                }
                best
            }
            None => {
                let mut rows = Vec::new();
                for reach in distinct(reach) {
                    rows.extend(memories::within(db, agent, reach)?);
                }
                rows.sort_by_key(|row| row.made);
                rows.dedup_by(|a, b| a.memory.id == b.memory.id);
                rows.into_iter().map(|row| row.memory).collect()
            }
        };
        found.retain(fits);
        found.truncate(filter.limit);
        Ok(found)
    }

    /// Memories that share a word with the text, best first.
    fn ranked(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        reach: &[Reach],
        text: &str,
    ) -> Result<Vec<(f64, Scope, MemoryId)>, StoreError> {
        let mut words = topic_words(text);
        if words.len() > WORDS_MAX {
            // A long text with its question before or behind it: what is between them says less.
            words.drain(WORDS_MAX / 2..words.len() - WORDS_MAX / 2);
        }
        words.sort_unstable();
        words.dedup();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut sources = Vec::new();
        for reach in distinct(reach) {
            sources.push(self.words_of(views, db, agent, reach)?);
        }
        let all = || sources.iter().flat_map(|words| &words.memories);
        let n = all().count() as f64;
        let mean_len = all().map(|memory| f64::from(memory.len)).sum::<f64>() / n.max(1.0);
        let rarity: Vec<f64> = words
            .iter()
            .map(|word| {
                let with = all().filter(|memory| memory.counts.contains_key(word)).count() as f64;
                (1.0 + (n - with + 0.5) / (with + 0.5)).ln()
            })
            .collect();
        let score = |memory: &Words| {
            let of_word = |(word, rarity): (&String, &f64)| {
                let count = f64::from(memory.counts.get(word).copied().unwrap_or(0));
                let discount = K1 * (1.0 - B + B * f64::from(memory.len) / mean_len);
                rarity * count * (K1 + 1.0) / (count + discount)
            };
            words.iter().zip(&rarity).map(of_word).sum::<f64>() * memory.boost
        };
        let mut ranked: Vec<_> = all()
            .map(|memory| (score(memory), memory.scope.clone(), memory.id.clone()))
            .filter(|(score, ..)| *score > 0.0)
            .collect();
        let mut seen = HashSet::new();
        ranked.retain(|(_, _, id)| seen.insert(id.clone()));
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(ranked)
    }

    fn words_of(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        reach: &Reach,
    ) -> Result<Arc<ReachWords>, StoreError> {
        let key = memories::prefix(agent, reach);
        // Read before the rows: rows that are newer are read again next time, never the other way round. The version is
        // that of the views on disk.
        let version = (!db.is_in_memory()).then(|| views.memory_version());
        let is_kept = |kept: &&Arc<ReachWords>| Some(kept.version) == version;
        if let Some(kept) = self.reaches.lock().get(&key).filter(is_kept) {
            return Ok(kept.clone());
        }
        let rows = memories::within(db, agent, reach)?;
        let memories = rows.iter().rev().map(|row| words(&row.memory)).collect();
        let fresh = Arc::new(ReachWords { version: version.unwrap_or_default(), memories });
        if version.is_none() {
            return Ok(fresh);
        }
        let mut reaches = self.reaches.lock();
        if reaches.len() >= REACHES_KEPT {
            reaches.clear();
        }
        reaches.insert(key, fresh.clone());
        Ok(fresh)
    }
}

fn words(memory: &Memory) -> Words {
    let mut counts = HashMap::new();
    let subject = memory.subject.as_deref().unwrap_or_default();
    // What is said in the first person is found by the name of whoever says it.
    let speaker = memory.said_by().filter(|_| memory.is_of_speaker()).unwrap_or_default();
    for word in topic_words(&format!("{}\n{subject}\n{speaker}", memory.text)) {
        *counts.entry(word).or_default() += 1;
    }
    let len = counts.values().sum();
    let further = f64::from(memory.sightings.max(1)).ln();
    let boost = (1.0 + IMPORTANCE_BOOST * memory.importance + SIGHTING_BOOST * further) * memory.weight();
    Words { scope: memory.scope.clone(), id: memory.id.clone(), counts, len, boost }
}

fn distinct(reach: &[Reach]) -> impl Iterator<Item = &Reach> {
    let mut seen = HashSet::new();
    reach.iter().filter(move |one| seen.insert(*one))
}

fn read(db: &Db, agent: &AgentId, ranked: Vec<(f64, Scope, MemoryId)>) -> Result<Vec<Memory>, StoreError> {
    let mut found = Vec::new();
    for (_, scope, id) in ranked {
        found.extend(memories::in_its_scope(db, agent, &scope, &id)?);
    }
    Ok(found)
}
