//! Memories that have words of a question, scored as a search scores, over those within reach alone. What changed since the
//! index was committed is counted by its rows, and without an index all are.

use std::collections::HashMap;

use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::{Memory, Reach};
use cairn_core::ports::StoreError;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::{Field, IndexRecordOption, Value};
use tantivy::{DocAddress, DocId, Searcher, SegmentReader, TantivyDocument, Term};

use super::documents::Topic;
use super::schema::{AT, Fields, Subject, WEIGHT, memories_within, seconds, topic_word};
use super::search::{discount, question_words, rarity, worth};
use super::{SearchIndex, index_error};
use crate::views::PATIENCE;

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

/// What changed since the index was committed.
pub(crate) struct Changed<'a> {
    /// All that changed before is noted in the index.
    pub(crate) since: u64,
    /// Those that the index may show as they were, or as if they were there.
    pub(crate) ids: &'a [MemoryId],
    /// Those of them that are within reach, as they are now.
    pub(crate) rows: &'a [Memory],
}

impl SearchIndex {
    /// Memories within reach that have words of a text. `None`: the index lacks more than what is known to have changed, or
    /// does not answer.
    pub(crate) fn memories(
        &self,
        asked: &Asked<'_>,
        changed: &Changed<'_>,
    ) -> Result<Option<Ranked>, StoreError> {
        let Some((_, reader)) = self.open.read().clone() else { return Ok(None) };
        // Looked at behind the reader: an index that is made again in between reaches nothing yet.
        if self.has_memories_to() < changed.since || self.calls.longest() >= PATIENCE {
            return Ok(None);
        }
        let rank = || {
            let searcher = reader.searcher();
            let mut ranking = Ranking::new(asked);
            searcher
                .segment_readers()
                .iter()
                .try_for_each(|segment| ranking.read(segment, &self.fields, changed.ids))
                .map_err(|error| index_error(&error))?;
            changed.rows.iter().for_each(|memory| ranking.count(memory));
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
    /// The memories within reach, in order.
    docs: Vec<DocId>,
    /// How long each of them is.
    lens: Vec<u32>,
    /// For each word, which documents have it, in order, and how often it counts there.
    having: Vec<Vec<(DocId, u32)>>,
}

impl Segment {
    /// The score of each document without its weight; zero: it has none of the words.
    fn sums(&self, rarities: &[f64], mean: f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.docs.len()];
        let discounts: Vec<f64> = self.lens.iter().map(|len| discount(f64::from(*len), mean)).collect();
        // Word by word, so that words are summed in one order everywhere.
        for (rarity, having) in rarities.iter().zip(&self.having) {
            let mut at = 0;
            for (doc, count) in having {
                while self.docs.get(at).is_some_and(|one| one < doc) {
                    at += 1;
                }
                if self.docs.get(at) == Some(doc) {
                    sums[at] += worth(*rarity, f64::from(*count), discounts[at]);
                }
            }
        }
        sums
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
enum Place {
    Index(DocAddress),
    Row(usize),
}

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

    /// Reads what a segment has of the words, but for those memories.
    fn read(&mut self, segment: &SegmentReader, fields: &Fields, but: &[MemoryId]) -> tantivy::Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        let mut hidden = Vec::new();
        for id in but {
            let key = Subject::Memory(id.clone()).key();
            each(segment, fields.key, &key, |doc, _| hidden.push(doc))?;
        }
        let is_seen = |doc: DocId| !segment.is_deleted(doc) && !hidden.contains(&doc);
        let (own, near) =
            (segment.get_fieldnorms_reader(fields.own)?, segment.get_fieldnorms_reader(fields.near)?);
        // Who has none of the places has none of their words.
        let mut places = Vec::new();
        let mut docs = Vec::new();
        for place in &self.places {
            let before = docs.len();
            each(segment, fields.place, place, |doc, _| {
                if is_seen(doc) {
                    docs.push(doc)
                }
            })?;
            places.extend((docs.len() > before).then_some(place));
        }
        once(&mut docs, places.len(), |doc| *doc);
        let lens: Vec<u32> = docs.iter().map(|doc| own.fieldnorm(*doc) + near.fieldnorm(*doc)).collect();
        self.n += docs.len() as u64;
        self.total_len += lens.iter().copied().map(u64::from).sum::<u64>();
        let most = docs.len();
        let mut having = Vec::with_capacity(self.words.len());
        for (word, with) in self.words.iter().zip(&mut self.with) {
            let mut docs = Vec::with_capacity(most);
            for place in &places {
                let word = topic_word(place, word);
                each(segment, fields.topic, &word, |doc, count| {
                    if is_seen(doc) {
                        docs.push((doc, count));
                    }
                })?;
            }
            once(&mut docs, places.len(), |(doc, _)| *doc);
            *with += docs.len() as u64;
            having.push(docs);
        }
        let columns = segment.fast_fields();
        let (times, weights) = (columns.u64(AT)?, columns.f64(WEIGHT)?);
        self.segments.push(Segment { times, weights, docs, lens, having });
        Ok(())
    }

    /// Counts a memory by its row.
    pub(crate) fn count(&mut self, memory: &Memory) {
        let topic = Topic::of(memory);
        // As exactly as the index keeps lengths.
        let kept = |words: &[String]| {
            let len = u32::try_from(words.len()).unwrap_or(u32::MAX);
            FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(len))
        };
        let len = kept(&topic.own) + kept(&topic.near);
        self.n += 1;
        self.total_len += u64::from(len);
        let mut often: HashMap<&str, u32> = HashMap::new();
        topic.counted().for_each(|word| *often.entry(word).or_default() += 1);
        let words = self.words.iter().enumerate();
        let counts: Vec<(u32, u32)> =
            words.filter_map(|(idx, word)| Some((idx as u32, *often.get(word.as_str())?))).collect();
        if counts.is_empty() {
            return;
        }
        counts.iter().for_each(|(idx, _)| self.with[*idx as usize] += 1);
        let (id, at) = (memory.id.clone(), seconds(memory.created_at));
        self.rows.push(Row { id, at, weight: topic.weight, len, counts });
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
        let mut found = self.found();
        if n == 0 || found.is_empty() {
            return Ok(Vec::new());
        }
        if found.len() > n {
            found.select_nth_unstable_by(n - 1, Found::order);
            found.truncate(n);
        }
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

    /// All that have a word, in no order.
    fn found(&self) -> Vec<Found> {
        let n = self.n as f64;
        let mean = self.total_len as f64 / n.max(1.0);
        let rarities: Vec<f64> = self.with.iter().map(|with| rarity(*with as f64, n)).collect();
        let mut found = Vec::new();
        for (ord, segment) in self.segments.iter().enumerate() {
            let scored = segment.docs.iter().zip(segment.sums(&rarities, mean)).filter(|(_, sum)| *sum > 0.0);
            found.extend(scored.map(|(doc, sum)| Found {
                score: sum * segment.weights.first(*doc).unwrap_or(1.0),
                at: segment.times.first(*doc).unwrap_or(0),
                place: Place::Index(DocAddress::new(ord as u32, *doc)),
            }));
        }
        found.extend(self.rows.iter().enumerate().map(|(idx, row)| {
            let discount = discount(f64::from(row.len), mean);
            let worth_of =
                |(word, count): &(u32, u32)| worth(rarities[*word as usize], f64::from(*count), discount);
            let sum: f64 = row.counts.iter().map(worth_of).sum();
            Found { score: sum * row.weight, at: row.at, place: Place::Row(idx) }
        }));
        found
    }
}

/// Each document of a segment that has a word, with how often it has it.
fn each(
    segment: &SegmentReader,
    field: Field,
    word: &str,
    mut each: impl FnMut(DocId, u32),
) -> tantivy::Result<()> {
    let term = Term::from_field_text(field, word);
    let postings = segment.inverted_index(field)?.read_block_postings(&term, IndexRecordOption::WithFreqs)?;
    let Some(mut block) = postings else { return Ok(()) };
    while block.block_len() > 0 {
        let often = block.freqs();
        for (idx, doc) in block.docs().iter().enumerate() {
            each(*doc, often.get(idx).copied().unwrap_or(1));
        }
        block.advance();
    }
    Ok(())
}

/// Leaves each document once, of what was read of several places one after the other.
fn once<T>(of_places: &mut Vec<T>, places: usize, doc: impl Fn(&T) -> DocId) {
    if places > 1 {
        of_places.sort_by_key(|one| doc(one));
        of_places.dedup_by_key(|one| doc(one));
    }
}
