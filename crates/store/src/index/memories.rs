//! Memories that have words of a question, scored as a search scores, over those within reach alone. What changed since the
//! index was committed is counted by its rows, and without an index all are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::Reach;
use cairn_core::ports::StoreError;
use tantivy::postings::TermInfo;
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocAddress, DocId, InvertedIndexReader, Searcher, SegmentReader, TantivyDocument, Term};

use super::schema::{AT, Fields, Subject, WEIGHT, memories_within, seconds, topic_word};
use super::search::{Best, discount, question_words, rarity, worth};
use super::{Opened, SearchIndex, index_error};
use crate::topic::Counted;
use crate::views::{Changed, ChangedMemory, PATIENCE};

/// What is asked of the memories.
pub(crate) struct Asked<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) reach: &'a [Reach],
    pub(crate) text: &'a str,
    /// How many of the best are wanted.
    pub(crate) n: usize,
}

/// Memories with their scores, best first.
pub(crate) type Ranked = Vec<(f64, MemoryId)>;

impl SearchIndex {
    /// Memories within reach that have words of a text. `None`: the index lacks more than what is known to have changed, or
    /// does not answer.
    pub(crate) fn memories(
        &self,
        asked: &Asked<'_>,
        changed: &Changed,
    ) -> Result<Option<Ranked>, StoreError> {
        let Some(opened) = self.open.read().clone() else { return Ok(None) };
        let Opened { searcher, has_none_made_after, .. } = opened;
        if opened.has_memories_to < changed.since || self.calls.longest() >= PATIENCE {
            return Ok(None);
        }
        let rank = || {
            // Each once, by how it is now and by what became of it first.
            let mut latest: BTreeMap<&MemoryId, (&ChangedMemory, &ChangedMemory)> = BTreeMap::new();
            for memory in &changed.memories {
                latest.entry(&memory.id).or_insert((memory, memory)).1 = memory;
            }
            let may_be_shown = latest.values().filter(|(first, _)| !first.is_made_after(has_none_made_after));
            let key =
                |id: &MemoryId| Term::from_field_text(self.fields.key, &Subject::Memory(id.clone()).key());
            let hidden: Vec<Term> = may_be_shown.map(|(memory, _)| key(&memory.id)).collect();
            let mut ranking = Ranking::new(asked);
            searcher
                .segment_readers()
                .iter()
                .try_for_each(|segment| ranking.read(segment, &self.fields, &hidden))
                .map_err(|error| index_error(&error))?;
            for (id, (_, memory)) in latest {
                if let Some(counted) = memory.within(asked.agent, asked.reach) {
                    ranking.count(id, counted);
                }
            }
            ranking.best(asked.n, |address| indexed(&searcher, &self.fields, address))
        };
        self.calls.within(rank).map(Some)
    }
}

fn indexed(
    searcher: &Searcher,
    fields: &Fields,
    address: DocAddress,
) -> Result<Option<MemoryId>, StoreError> {
    let doc: TantivyDocument = searcher.doc(address).map_err(|error| index_error(&error))?;
    let key = doc.get_first(fields.key).and_then(|value| value.as_str());
    Ok(match key.and_then(Subject::of) {
        Some(Subject::Memory(id)) => Some(id),
        _ => None,
    })
}

/// What is read of the memories within reach: how many there are, how long, and which words of the question they have.
pub(crate) struct Ranking {
    words: Vec<String>,
    places: Vec<String>,
    /// All of them, whether they have a word or not.
    n: u64,
    total_len: u64,
    /// How many have each word.
    with: Vec<u64>,
    segments: Vec<Segment>,
    rows: Vec<Row>,
}

/// A segment of the index.
struct Segment {
    times: tantivy::columnar::Column<u64>,
    weights: tantivy::columnar::Column<f64>,
    topics: Arc<InvertedIndexReader>,
    parts: Vec<Part>,
}

/// The memories of a place in a segment, but those that a place before it has, too.
#[derive(Default)]
struct Part {
    docs: Vec<DocId>,
    /// How long each of them is.
    lens: Vec<u32>,
    /// Where it stands which documents have a word.
    words: Vec<Option<TermInfo>>,
}

impl Part {
    /// Calls with the place among its documents of each that has the word, and how often it counts there.
    fn each_with(
        &self,
        topics: &InvertedIndexReader,
        word: &TermInfo,
        mut take: impl FnMut(usize, u32),
    ) -> tantivy::Result<()> {
        let mut at = 0;
        each(topics, word, |doc, count| {
            if self.docs.get(at).is_some_and(|one| *one < doc) {
                at += 1;
                // The next one has it, too, or many have it not.
                if self.docs.get(at).is_some_and(|one| *one < doc) {
                    at += self.docs[at..].partition_point(|one| *one < doc);
                }
            }
            if self.docs.get(at) == Some(&doc) {
                take(at, count);
            }
        })
    }

    /// The score of each document without its weight; zero: it has none of the words.
    fn sums(&self, topics: &InvertedIndexReader, rarities: &[f64], mean: f64) -> tantivy::Result<Vec<f64>> {
        let mut sums = vec![0.0; self.docs.len()];
        let discounts: Vec<f64> = self.lens.iter().map(|len| discount(f64::from(*len), mean)).collect();
        // Word by word, so that words are summed in one order everywhere.
        for (rarity, word) in rarities.iter().zip(&self.words) {
            let Some(word) = word else { continue };
            self.each_with(topics, word, |at, count| {
                sums[at] += worth(*rarity, f64::from(count), discounts[at]);
            })?;
        }
        Ok(sums)
    }
}

impl Segment {
    /// Hands over those of its documents that may be among the best.
    fn find(&self, ord: u32, rarities: &[f64], mean: f64, best: &mut Best<Found>) -> tantivy::Result<()> {
        let heaviest = self.weights.max_value();
        for part in &self.parts {
            let sums = part.sums(&self.topics, rarities, mean)?;
            // The newest first, as a rule: of those that are as good, older ones are not taken.
            for (doc, sum) in part.docs.iter().zip(sums).rev().filter(|(_, sum)| *sum > 0.0) {
                let least = best.last().map_or(0.0, |last| last.score);
                if sum * heaviest < least {
                    continue;
                }
                let score = sum * self.weights.first(*doc).unwrap_or(1.0);
                if score >= least {
                    let place = Place::Index(DocAddress::new(ord, *doc));
                    best.take(Found { score, at: self.times.first(*doc).unwrap_or(0), place });
                }
            }
        }
        Ok(())
    }
}

/// A memory that is counted by its row.
struct Row {
    id: MemoryId,
    at: u64,
    weight: f64,
    len: u32,
    counts: Vec<(u32, u32)>,
}

/// Where a memory that was found is.
#[derive(Clone, Copy)]
enum Place {
    Index(DocAddress),
    Row(usize),
}

#[derive(Clone, Copy)]
struct Found {
    score: f64,
    /// Seconds since 1970.
    at: u64,
    place: Place,
}

impl Found {
    /// Best first, and of those that are as good the newest.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.at.cmp(&self.at))
    }
}

impl Ranking {
    pub(crate) fn new(asked: &Asked<'_>) -> Self {
        let words: Vec<String> = question_words(asked.text).into_iter().collect();
        let mut places: Vec<String> =
            asked.reach.iter().map(|reach| memories_within(asked.agent, reach)).collect();
        places.sort();
        places.dedup();
        let with = vec![0; words.len()];
        Self { words, places, n: 0, total_len: 0, with, segments: Vec::new(), rows: Vec::new() }
    }

    /// Reads what a segment has of the words, but for the documents with those keys.
    fn read(&mut self, segment: &SegmentReader, fields: &Fields, but: &[Term]) -> tantivy::Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        let keys = segment.inverted_index(fields.key)?;
        let mut hidden = BTreeSet::new();
        for key in but {
            if let Some(key) = keys.get_term_info(key)? {
                each(&keys, &key, |doc, _| {
                    hidden.insert(doc);
                })?;
            }
        }
        let is_seen = |doc: DocId| !segment.is_deleted(doc) && !hidden.contains(&doc);
        let (own, near) =
            (segment.get_fieldnorms_reader(fields.own)?, segment.get_fieldnorms_reader(fields.near)?);
        let places = segment.inverted_index(fields.place)?;
        let topics = segment.inverted_index(fields.topic)?;
        let mut parts: Vec<Part> = Vec::new();
        for place in &self.places {
            let term = Term::from_field_text(fields.place, place);
            let Some(within) = places.get_term_info(&term)? else { continue };
            let mut part = Part::default();
            each(&places, &within, |doc, _| {
                if is_seen(doc) && !parts.iter().any(|before| before.docs.binary_search(&doc).is_ok()) {
                    part.docs.push(doc);
                }
            })?;
            part.lens.extend(part.docs.iter().map(|doc| own.fieldnorm(*doc) + near.fieldnorm(*doc)));
            self.n += part.docs.len() as u64;
            self.total_len += part.lens.iter().copied().map(u64::from).sum::<u64>();
            let is_whole = part.docs.len() == within.doc_freq as usize;
            for (word, with) in self.words.iter().zip(&mut self.with) {
                let term = Term::from_field_text(fields.topic, &topic_word(place, word));
                let word = topics.get_term_info(&term)?;
                match &word {
                    Some(word) if is_whole => *with += u64::from(word.doc_freq),
                    Some(word) => part.each_with(&topics, word, |_, _| *with += 1)?,
                    None => {}
                }
                part.words.push(word);
            }
            parts.push(part);
        }
        let columns = segment.fast_fields();
        let (times, weights) = (columns.u64(AT)?, columns.f64(WEIGHT)?);
        self.segments.push(Segment { times, weights, topics, parts });
        Ok(())
    }

    /// Counts a memory by its row.
    pub(crate) fn count(&mut self, id: &MemoryId, memory: &Counted) {
        self.n += 1;
        self.total_len += u64::from(memory.len);
        let words = self.words.iter().enumerate();
        let counts: Vec<(u32, u32)> =
            words.filter_map(|(idx, word)| Some((idx as u32, memory.count(word)?))).collect();
        if counts.is_empty() {
            return;
        }
        counts.iter().for_each(|(idx, _)| self.with[*idx as usize] += 1);
        let Counted { at, weight, len, .. } = *memory;
        self.rows.push(Row { id: id.clone(), at: seconds(at), weight, len, counts });
    }

    /// The best of those that were counted by their rows.
    pub(crate) fn ranked(&self, n: usize) -> Result<Ranked, StoreError> {
        self.best(n, |_| Ok(None))
    }

    /// The best of all. `id_of`: whose document stands there.
    fn best(
        &self,
        n: usize,
        id_of: impl Fn(DocAddress) -> Result<Option<MemoryId>, StoreError>,
    ) -> Result<Ranked, StoreError> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let found = self.found(n).map_err(|error| index_error(&error))?;
        let mut ranked = Vec::with_capacity(found.len());
        for found in found {
            let id = match found.place {
                Place::Index(address) => id_of(address)?,
                Place::Row(idx) => Some(self.rows[idx].id.clone()),
            };
            ranked.extend(id.map(|id| (found.score, found.at, id)));
        }
        ranked.sort_by(|(a, a_at, a_id), (b, b_at, b_id)| {
            b.total_cmp(a).then_with(|| b_at.cmp(a_at)).then_with(|| a_id.cmp(b_id))
        });
        Ok(ranked.into_iter().map(|(score, _, id)| (score, id)).collect())
    }

    /// The best of those that have a word.
    fn found(&self, most: usize) -> tantivy::Result<Vec<Found>> {
        let n = self.n as f64;
        let mean = self.total_len as f64 / n.max(1.0);
        let rarities: Vec<f64> = self.with.iter().map(|with| rarity(*with as f64, n)).collect();
        let mut best = Best::new(most, Found::order, None);
        for (ord, segment) in self.segments.iter().enumerate() {
            segment.find(ord as u32, &rarities, mean, &mut best)?;
        }
        for (idx, row) in self.rows.iter().enumerate() {
            let discount = discount(f64::from(row.len), mean);
            let worth_of =
                |(word, count): &(u32, u32)| worth(rarities[*word as usize], f64::from(*count), discount);
            let sum: f64 = row.counts.iter().map(worth_of).sum();
            best.take(Found { score: sum * row.weight, at: row.at, place: Place::Row(idx) });
        }
        Ok(best.sorted())
    }
}

/// Each document that has a word, with how often it has it.
fn each(
    index: &InvertedIndexReader,
    word: &TermInfo,
    mut each: impl FnMut(DocId, u32),
) -> tantivy::Result<()> {
    let mut block = index.read_block_postings_from_terminfo(word, IndexRecordOption::WithFreqs)?;
    while block.block_len() > 0 {
        let often = block.freqs();
        for (idx, doc) in block.docs().iter().enumerate() {
            each(*doc, often.get(idx).copied().unwrap_or(1));
        }
        block.advance();
    }
    Ok(())
}
