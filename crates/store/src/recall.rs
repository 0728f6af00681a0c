//! Memories by their words: the few that fit a question, and the operator's search.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::{Memory, Scope};
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

/// Scopes whose words are kept.
const SCOPES_KEPT: usize = 256;

/// The words of a memory.
struct Words {
    id: MemoryId,
    counts: HashMap<String, u32>,
    len: u32,
    boost: f64,
}

/// The words of all memories of a scope, as of a version of the memories.
struct ScopeWords {
    version: u64,
    memories: Vec<Words>,
}

/// Keeps the words of scopes between questions.
#[derive(Default)]
pub(crate) struct Recall {
    scopes: Mutex<HashMap<Key, Arc<ScopeWords>>>,
}

impl Recall {
    /// The best memories within the scopes for a question; none when none fits.
    pub(crate) fn recall(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        (scopes, question, limit): (&[Scope], &str, usize),
    ) -> Result<Vec<Memory>, StoreError> {
        let mut best = self.ranked(views, db, agent, scopes, question)?;
        let least = best.first().map_or(0.0, |(score, ..)| score * FITTING_SHARE);
        best.retain(|(score, ..)| *score >= least);
        best.truncate(limit);
        read(db, agent, best)
    }

    /// Memories within the scopes as a person asks for them.
    pub(crate) fn list(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        scopes: &[Scope],
        filter: &MemoryFilter,
    ) -> Result<Vec<Memory>, StoreError> {
        let fits = |memory: &Memory| {
            filter.kind.is_none_or(|kind| memory.kind == kind)
                && filter.subject.as_ref().is_none_or(|subject| memory.subject.as_ref() == Some(subject))
        };
        let mut found = match &filter.query {
            Some(query) => {
                let mut best = Vec::new();
                for (_, scope, id) in self.ranked(views, db, agent, scopes, query)? {
                    if best.len() == filter.limit {
                        break;
                    }
                    best.extend(memories::in_its_scope(db, agent, &scope, &id)?.filter(&fits));
                }
                best
            }
            None => {
                let mut rows = Vec::new();
                for scope in distinct(scopes) {
                    rows.extend(memories::in_scope(db, agent, scope)?);
                }
                rows.sort_by_key(|row| row.made);
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
        scopes: &[Scope],
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
        for scope in distinct(scopes) {
            sources.push((scope, self.words_of(views, db, agent, scope)?));
        }
        let all =
            || sources.iter().flat_map(|(scope, words)| words.memories.iter().map(move |m| (*scope, m)));
        let n = all().count() as f64;
        let mean_len = all().map(|(_, memory)| f64::from(memory.len)).sum::<f64>() / n.max(1.0);
        let rarity: Vec<f64> = words
            .iter()
            .map(|word| {
                let with = all().filter(|(_, memory)| memory.counts.contains_key(word)).count() as f64;
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
            .map(|(scope, memory)| (score(memory), scope.clone(), memory.id.clone()))
            .filter(|(score, ..)| *score > 0.0)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(ranked)
    }

    fn words_of(
        &self,
        views: &Views,
        db: &Db,
        agent: &AgentId,
        scope: &Scope,
    ) -> Result<Arc<ScopeWords>, StoreError> {
        let key = Key::scope(agent, scope);
        // Read before the rows: rows that are newer are read again next time, never the other way round. The version is
        // that of the views on disk.
        let version = (!db.is_in_memory()).then(|| views.memory_version());
        let is_kept = |kept: &&Arc<ScopeWords>| Some(kept.version) == version;
        if let Some(kept) = self.scopes.lock().get(&key).filter(is_kept) {
            return Ok(kept.clone());
        }
        let rows = memories::in_scope(db, agent, scope)?;
        let memories = rows.iter().rev().map(|row| words(&row.memory)).collect();
        let fresh = Arc::new(ScopeWords { version: version.unwrap_or_default(), memories });
        if version.is_none() {
            return Ok(fresh);
        }
        let mut scopes = self.scopes.lock();
        if scopes.len() >= SCOPES_KEPT {
            scopes.clear();
        }
        scopes.insert(key, fresh.clone());
        Ok(fresh)
    }
}

fn words(memory: &Memory) -> Words {
    let mut counts = HashMap::new();
    let subject = memory.subject.as_deref().unwrap_or_default();
    for word in topic_words(&format!("{}\n{subject}", memory.text)) {
        *counts.entry(word).or_default() += 1;
    }
    let len = counts.values().sum();
    let further = f64::from(memory.sightings.max(1)).ln();
    let boost = 1.0 + IMPORTANCE_BOOST * memory.importance + SIGHTING_BOOST * further;
    Words { id: memory.id.clone(), counts, len, boost }
}

fn distinct(scopes: &[Scope]) -> impl Iterator<Item = &Scope> {
    let mut seen = HashSet::new();
    scopes.iter().filter(move |scope| seen.insert(*scope))
}

fn read(db: &Db, agent: &AgentId, ranked: Vec<(f64, Scope, MemoryId)>) -> Result<Vec<Memory>, StoreError> {
    let mut found = Vec::new();
    for (_, scope, id) in ranked {
        found.extend(memories::in_its_scope(db, agent, &scope, &id)?);
    }
    Ok(found)
}
