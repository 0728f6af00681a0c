//! Searching: the user's words as optional terms, never as a query language.

use std::collections::{BTreeSet, HashMap};

use cairn_core::event::Event;
use cairn_core::ports::{Hit, HitKind, Query, StoreError};
use cairn_core::retention::EXPIRED_TEXT;
use tantivy::schema::Value;
use tantivy::{DocAddress, Searcher, TantivyDocument};

use super::schema::{DAY, Subject, entries_of, memories_of, summaries_of, words_of};
use super::score::score;
use super::{SearchIndex, index_error, readable};
use crate::views::archive::Reads;
use crate::views::memories;

/// Candidates that are weighed anew; at least three times as many as are asked for.
const CANDIDATES: usize = 200;

/// Most words of a question that are looked for.
const MAX_WORDS: usize = 64;

/// Entries of a person whom the question names count for this much more.
const NAMED_BOOST: f64 = 0.2;

/// The best day counts for this share of the best score more, others in proportion; a day is as good as the mean of
/// its best entries.
const DAY_WEIGHT: f64 = 0.2;
const DAY_BEST: usize = 3;

struct Candidate {
    score: f64,
    day: u64,
    subject: Subject,
}

impl SearchIndex {
    /// The best documents for a query, with their texts read from journal and views.
    ///
    /// # Errors
    /// The index or what it points at cannot be read.
    pub(crate) fn search(&self, query: &Query, reads: &Reads<'_>) -> Result<Vec<Hit>, StoreError> {
        let words: BTreeSet<String> = words_of(&query.text).into_iter().take(MAX_WORDS).collect();
        let places = places(query);
        if words.is_empty() || places.is_empty() || query.limit == 0 {
            return Ok(Vec::new());
        }
        // Without an index nothing is found, and whoever asks is told how much is not in it.
        let Some((_, reader)) = self.open.read().clone() else { return Ok(Vec::new()) };
        let searcher = reader.searcher();
        let mut candidates = self.candidates(&searcher, &words, &places, query)?;
        weigh_days(&mut candidates);
        candidates
            .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.subject.key().cmp(&b.subject.key())));
        let mut hits = Vec::new();
        for candidate in candidates {
            if hits.len() == query.limit {
                break;
            }
            hits.extend(hit(reads, candidate)?);
        }
        Ok(hits)
    }

    fn candidates(
        &self,
        searcher: &Searcher,
        words: &BTreeSet<String>,
        places: &[String],
        query: &Query,
    ) -> Result<Vec<Candidate>, StoreError> {
        let mut found = score(searcher, &self.fields, words, places).map_err(|error| index_error(&error))?;
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        found.truncate(CANDIDATES.max(query.limit.saturating_mul(3)));
        let named = names(&query.text);
        let mut candidates = Vec::with_capacity(found.len());
        for (address, score) in found {
            candidates.extend(self.candidate(searcher, score, address, &named)?);
        }
        Ok(candidates)
    }

    fn candidate(
        &self,
        searcher: &Searcher,
        score: f64,
        address: DocAddress,
        named: &BTreeSet<String>,
    ) -> Result<Option<Candidate>, StoreError> {
        let doc: TantivyDocument = searcher.doc(address).map_err(|error| index_error(&error))?;
        let text = |field| doc.get_first(field).and_then(|value| value.as_str());
        let Some(subject) = text(self.fields.key).and_then(Subject::of) else { return Ok(None) };
        let is_named =
            names(text(self.fields.author).unwrap_or_default()).iter().any(|name| named.contains(name));
        let boost = if is_named { 1.0 + NAMED_BOOST } else { 1.0 };
        let segment = searcher.segment_reader(address.segment_ord);
        let days = segment.fast_fields().u64(DAY).map_err(|error| index_error(&error))?;
        let day = days.first(address.doc_id).unwrap_or(0);
        Ok(Some(Candidate { score: score * boost, day, subject }))
    }
}

fn places(query: &Query) -> Vec<String> {
    let wants = |kind| query.kind.is_none_or(|only| only == kind);
    let mut places = Vec::new();
    if wants(HitKind::Entry) {
        places.push(entries_of(&query.channel));
    }
    if wants(HitKind::Summary) {
        places.push(summaries_of(&query.channel));
    }
    if wants(HitKind::Memory) {
        let agent = query.channel.agent();
        places.extend(query.scopes.iter().map(|scope| memories_of(&agent, scope)));
    }
    places
}

/// The words of a text as names are compared: lowercased, not stemmed, without `'s`.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).collect()
}

/// What was said on a day that has much to say about the question counts for more.
fn weigh_days(candidates: &mut [Candidate]) {
    let best = candidates.iter().map(|candidate| candidate.score).fold(0.0, f64::max);
    let mut days: HashMap<u64, Vec<f64>> = HashMap::new();
    for candidate in candidates.iter().filter(|candidate| matches!(candidate.subject, Subject::Entry(..))) {
        days.entry(candidate.day).or_default().push(candidate.score);
    }
    let days: HashMap<u64, f64> = days
        .into_iter()
        .map(|(day, mut scores)| {
            scores.sort_by(|a, b| b.total_cmp(a));
            (day, scores.iter().take(DAY_BEST).sum::<f64>() / DAY_BEST as f64)
        })
        .collect();
    let best_day = days.values().copied().fold(0.0, f64::max);
    for candidate in candidates {
        let Some(day) = days.get(&candidate.day) else { continue };
        candidate.score += DAY_WEIGHT * best * day / best_day;
    }
}

/// The hit of a candidate; none when what it stood for is gone since.
fn hit(reads: &Reads<'_>, candidate: Candidate) -> Result<Option<Hit>, StoreError> {
    let score = candidate.score;
    match candidate.subject {
        Subject::Entry(channel, seq) => {
            let found = readable(reads.entries(&channel, seq, seq, 1))?;
            let Some(entry) = found.and_then(|mut entries| entries.pop()) else { return Ok(None) };
            if entry.is_deleted() || entry.is_expired() {
                return Ok(None);
            }
            let id = entry.message.as_ref().map_or_else(|| seq.to_string(), ToString::to_string);
            Ok(Some(Hit {
                seq: Some(seq),
                score,
                at: entry.at,
                author: entry.author.clone(),
                text: entry.text(),
                kind: HitKind::Entry,
                id,
            }))
        }
        Subject::Summary(channel, id) => {
            let found = readable(reads.summary_event(&channel, &id))?.flatten();
            let Some(Event::RunEnded(end)) = found else { return Ok(None) };
            let summary = end.summary.filter(|summary| summary.text != EXPIRED_TEXT);
            Ok(summary.map(|summary| Hit {
                seq: Some(summary.from_seq),
                score,
                at: summary.to_at,
                author: None,
                text: summary.text,
                kind: HitKind::Summary,
                id: id.to_string(),
            }))
        }
        Subject::Memory(id) => Ok(memories::get(reads.db, &id)?.map(|memory| Hit {
            seq: memory.source.from_seq,
            score,
            at: memory.updated_at,
            author: None,
            text: memory.text,
            kind: HitKind::Memory,
            id: id.to_string(),
        })),
    }
}
