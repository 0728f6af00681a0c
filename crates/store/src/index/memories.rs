//! Memories that have words of a question, scored as a search scores, over those within reach alone. What changed since the
//! index was committed is counted by its rows, and without an index all are.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::Reach;
use cairn_types::ports::StoreError;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::TermInfo;
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocAddress, DocId, InvertedIndexReader, Searcher, SegmentReader, TantivyDocument, Term};

use super::schema::{AT, Fields, Subject, WEIGHT, memories_within, seconds, topic_word};
use super::search::{Best, discount, most_worth, question_words, rarity, worth};
use super::search_index::{OpenIndex, SearchIndex, index_error};
use crate::views::topic::Counted;
use crate::views::{Changed, ChangedMemory, PATIENCE};

/// A word whose rarity is less than this share of the rarest one's is in nearly all memories: it could only order those that
/// fit alike.
const TELLING_SHARE: f64 = 0.01;

/// A query for memories by words.
pub(crate) struct RecallQuery<'a> {
    /// All of them are ranked together.
    pub(crate) agents: &'a [AgentId],
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
        asked: &RecallQuery<'_>,
        changed: &Changed,
    ) -> Result<Option<Ranked>, StoreError> {
        let Some(opened) = self.open.read().clone() else { return Ok(None) };
        let OpenIndex { searcher, has_none_made_after, .. } = opened;
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
                if let Some(counted) = memory.within(asked.agents, asked.reach) {
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
    own: FieldNormReader,
    near: FieldNormReader,
    topics: Arc<InvertedIndexReader>,
    parts: Vec<Part>,
}

/// The memories of a place in a segment.
struct Part {
    /// Documents that do not count here: deleted, hidden, or counted at a place before it.
    left_out: Vec<DocId>,
    /// Where it stands which documents have a word.
    words: Vec<Option<TermInfo>>,
}

/// What the words of a question are worth.
struct Worth {
    /// The place of each among the words of the question, with its rarity. The rarest first: they are summed in that order
    /// everywhere.
    words: Vec<(usize, f64)>,
    /// Mean length of a memory.
    mean: f64,
}

/// A memory that may be among the best.
struct Candidate {
    doc: DocId,
    discount: f64,
    /// Of its words so far.
    sum: f64,
}

impl Segment {
    /// Hands over those of its documents that may be among the best.
    fn find(&self, ord: u32, asked: &Worth, best: &mut Best<Found>) -> tantivy::Result<()> {
        for part in &self.parts {
            // The newest first, as a rule: of those that are as good, older ones are not taken.
            for Candidate { doc, sum, .. } in self.candidates(part, asked, best)?.into_iter().rev() {
                let score = sum * self.weights.first(doc).unwrap_or(1.0);
                if best.last().is_none_or(|last| score >= last.score) {
                    let found_at = FoundAt::Index(DocAddress::new(ord, doc));
                    best.take(Found { score, at: self.times.first(doc).unwrap_or(0), found_at });
                }
            }
        }
        Ok(())
    }

    /// Those of a part that may be among the best, in the order of their documents, each with its whole sum. Once the words
    /// to come cannot lift one without a word so far among the best, only those that have one are looked at (MaxScore).
    fn candidates(&self, part: &Part, asked: &Worth, best: &Best<Found>) -> tantivy::Result<Vec<Candidate>> {
        let (lightest, heaviest) = (self.weights.min_value().min(1.0), self.weights.max_value().max(1.0));
        let words: Vec<(&TermInfo, f64)> = asked
            .words
            .iter()
            .filter_map(|(idx, rarity)| Some((part.words[*idx].as_ref()?, *rarity)))
            .collect();
        let mut candidates = Vec::new();
        let mut is_closed = false;
        for (idx, (word, rarity)) in words.iter().enumerate() {
            if is_closed {
                self.add(word, *rarity, &mut candidates)?;
            } else {
                candidates = self.unite(part, word, (*rarity, asked.mean), candidates)?;
            }
            let rest: f64 = words[idx + 1..].iter().map(|(_, rarity)| most_worth(*rarity)).sum();
            let surely = nth_sum(&candidates, best.most()) * lightest;
            let least = best.last().map_or(surely, |last| surely.max(last.score));
            is_closed = rest * heaviest < least;
            candidates.retain(|one| (one.sum + rest) * heaviest >= least);
        }
        Ok(candidates)
    }

    /// Adds what a word is worth to those that have it, and takes in those that have none of the words before.
    fn unite(
        &self,
        part: &Part,
        word: &TermInfo,
        (rarity, mean): (f64, f64),
        candidates: Vec<Candidate>,
    ) -> tantivy::Result<Vec<Candidate>> {
        let mut united = Vec::with_capacity(candidates.len() + word.doc_freq as usize);
        let mut before = candidates.into_iter().peekable();
        each(&self.topics, word, |doc, count| {
            if part.left_out.binary_search(&doc).is_ok() {
                return;
            }
            while let Some(one) = before.next_if(|one| one.doc < doc) {
                united.push(one);
            }
            let mut one = before.next_if(|one| one.doc == doc).unwrap_or_else(|| {
                let len = self.own.fieldnorm(doc) + self.near.fieldnorm(doc);
                Candidate { doc, discount: discount(f64::from(len), mean), sum: 0.0 }
            });
            one.sum += worth(rarity, f64::from(count), one.discount);
            united.push(one);
        })?;
        united.extend(before);
        Ok(united)
    }

    /// Adds what a word is worth to those that have it.
    fn add(&self, word: &TermInfo, rarity: f64, candidates: &mut [Candidate]) -> tantivy::Result<()> {
        each_of(&self.topics, word, candidates.iter_mut().map(|one| (one.doc, one)), |one, count| {
            one.sum += worth(rarity, f64::from(count), one.discount);
        })
    }
}

/// The `n`-th largest sum; zero where there are fewer.
fn nth_sum(candidates: &[Candidate], n: usize) -> f64 {
    if candidates.len() < n {
        return 0.0;
    }
    let mut sums: Vec<f64> = candidates.iter().map(|one| one.sum).collect();
    *sums.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
}

/// A memory that is counted by its row.
struct Row {
    id: MemoryId,
    at: u64,
    weight: f64,
    len: u32,
    counts: Vec<(u32, u32)>,
}

/// Where a matching memory was found: in the index, or as the row of that number in the ranking.
#[derive(Clone, Copy)]
enum FoundAt {
    Index(DocAddress),
    Row(usize),
}

#[derive(Clone, Copy)]
struct Found {
    score: f64,
    /// Seconds since 1970.
    at: u64,
    found_at: FoundAt,
}

impl Found {
    /// Best first, and of those that are as good the newest.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.at.cmp(&self.at))
    }
}

impl Ranking {
    pub(crate) fn new(asked: &RecallQuery<'_>) -> Self {
        let words: Vec<String> = question_words(asked.text).into_iter().collect();
        let of = |agent| asked.reach.iter().map(move |reach| memories_within(agent, reach));
        let mut places: Vec<String> = asked.agents.iter().flat_map(of).collect();
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
        let mut hidden = Vec::new();
        for key in but {
            if let Some(key) = keys.get_term_info(key)? {
                each(&keys, &key, |doc, _| hidden.push(doc))?;
            }
        }
        hidden.sort_unstable();
        let (own, near) =
            (segment.get_fieldnorms_reader(fields.own)?, segment.get_fieldnorms_reader(fields.near)?);
        let places = segment.inverted_index(fields.place)?;
        let topics = segment.inverted_index(fields.topic)?;
        let mut there = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let within = places.get_term_info(&Term::from_field_text(fields.place, place))?;
            there.extend(within.map(|within| (place, within)));
        }
        let mut parts: Vec<Part> = Vec::with_capacity(there.len());
        // The documents of the places before it. Nothing comes behind the last one.
        let mut before: Vec<Vec<DocId>> = Vec::new();
        for (idx, (place, within)) in there.iter().enumerate() {
            let is_last = idx + 1 == there.len();
            let (mut docs, mut left_out) = (Vec::new(), Vec::new());
            // Documents come in their order.
            let mut hidden = hidden.iter().copied().peekable();
            each(&places, within, |doc, _| {
                while hidden.next_if(|hidden| *hidden < doc).is_some() {}
                let is_hidden = hidden.peek() == Some(&doc) || segment.is_deleted(doc);
                if is_hidden || before.iter().any(|docs| docs.binary_search(&doc).is_ok()) {
                    left_out.push(doc);
                    return;
                }
                self.n += 1;
                self.total_len += u64::from(own.fieldnorm(doc) + near.fieldnorm(doc));
                if !is_last {
                    docs.push(doc);
                }
            })?;
            before.push(docs);
            let mut words = Vec::with_capacity(self.words.len());
            for (word, with) in self.words.iter().zip(&mut self.with) {
                let term = Term::from_field_text(fields.topic, &topic_word(place, word));
                let word = topics.get_term_info(&term)?;
                if let Some(word) = &word {
                    *with += u64::from(word.doc_freq);
                    each_of(&topics, word, left_out.iter().map(|doc| (*doc, ())), |(), _| *with -= 1)?;
                }
                words.push(word);
            }
            parts.push(Part { left_out, words });
        }
        let columns = segment.fast_fields();
        let (times, weights) = (columns.u64(AT)?, columns.f64(WEIGHT)?);
        self.segments.push(Segment { times, weights, own, near, topics, parts });
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
            let id = match found.found_at {
                FoundAt::Index(address) => id_of(address)?,
                FoundAt::Row(idx) => Some(self.rows[idx].id.clone()),
            };
            ranked.extend(id.map(|id| (found.score, found.at, id)));
        }
        ranked.sort_by(|(a, a_at, a_id), (b, b_at, b_id)| {
            b.total_cmp(a).then_with(|| b_at.cmp(a_at)).then_with(|| a_id.cmp(b_id))
        });
        Ok(ranked.into_iter().map(|(score, _, id)| (score, id)).collect())
    }

    /// Leaves out words that say next to nothing beside the rarest one, where so many memories have one of the others.
    fn leave_out_common(&self, words: &mut Vec<(usize, f64)>, most: usize) {
        let Some((_, rarest)) = words.first().copied() else { return };
        let n_telling = words.partition_point(|(_, rarity)| *rarity >= rarest * TELLING_SHARE);
        if words[..n_telling].iter().any(|(word, _)| self.with[*word] >= most as u64) {
            words.truncate(n_telling);
        }
    }

    /// The best of those that have a word.
    fn found(&self, most: usize) -> tantivy::Result<Vec<Found>> {
        let n = self.n as f64;
        let mean = self.total_len as f64 / n.max(1.0);
        let mut words: Vec<(usize, f64)> =
            self.with.iter().map(|with| rarity(*with as f64, n)).enumerate().collect();
        words.retain(|(word, _)| self.with[*word] > 0);
        words.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        self.leave_out_common(&mut words, most);
        let asked = Worth { words, mean };
        let mut best = Best::new(most, Found::order, None);
        for (idx, row) in self.rows.iter().enumerate() {
            let discount = discount(f64::from(row.len), mean);
            let worth_of = |(word, rarity): &(usize, f64)| {
                let (_, count) = row.counts.iter().find(|(own, _)| *own as usize == *word)?;
                Some(worth(*rarity, f64::from(*count), discount))
            };
            let sum: f64 = asked.words.iter().filter_map(worth_of).sum();
            best.take(Found { score: sum * row.weight, at: row.at, found_at: FoundAt::Row(idx) });
        }
        for (ord, segment) in self.segments.iter().enumerate() {
            segment.find(ord as u32, &asked, &mut best)?;
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

/// Those of these documents, which rise, that have a word, with how often they have it.
fn each_of<T>(
    index: &InvertedIndexReader,
    word: &TermInfo,
    docs: impl IntoIterator<Item = (DocId, T)>,
    mut each: impl FnMut(T, u32),
) -> tantivy::Result<()> {
    let mut docs = docs.into_iter().peekable();
    if docs.peek().is_none() {
        return Ok(());
    }
    let mut block = index.read_block_postings_from_terminfo(word, IndexRecordOption::WithFreqs)?;
    for (doc, one) in docs {
        let at = block.seek(doc);
        if block.docs().get(at) == Some(&doc) {
            each(one, block.freqs().get(at).copied().unwrap_or(1));
        }
    }
    Ok(())
}
