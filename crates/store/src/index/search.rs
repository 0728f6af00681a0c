//! Searching: the user's words as optional terms, never as a query language. Scored by BM25 over the places that a search may
//! see, with statistics of those places alone, so that what is said in other channels changes no order; or over all.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fmt;
use std::str::FromStr;

use cairn_types::event::{CompactionEvent, Event};
use cairn_types::ids::ChannelId;
use cairn_types::memory::Memory;
use cairn_types::message::EXPIRED_TEXT;
use cairn_types::ports::{Hit, HitKind, Query, StoreError};
use cairn_types::text::words::words_in_place;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocAddress, DocId, DocSet, Searcher, SegmentReader, TERMINATED, TantivyDocument, Term};

use super::schema::{AT, Fields, Subject, WEIGHT, entries_of, memories_of, seconds, summaries_of};
use super::search_index::{OpenIndex, SearchIndex, index_error, readable};
use super::vectors;
use crate::views::archive::Reads;
use crate::views::history::PAGE_BYTES;
use crate::views::memories;
use crate::views::topic::{OWN_WEIGHT, Topic, words_of};

/// Candidates that are weighed again; at least three times as many as are asked for.
const CANDIDATES: usize = 200;

/// Most documents that are weighed together: those for the largest page.
const WEIGHED_MAX: usize = 30_000;

/// Most of them that are read for a page. Where few are of the person who is asked for, a page may have less than it could.
const READ: usize = 10_000;

/// Most documents whose scores are held at a time, of however many have the words.
const HELD: usize = 120_000;

/// Most words of a text that are marked.
const MARKS: usize = 100;

/// Most words of a question that are looked for.
const MAX_WORDS: usize = 256;

/// Entries of a person whom the question names count for this much more.
const NAMED_BOOST: f64 = 0.2;

/// Where several people talk, questions count for this much less: who looks for something looks for what was answered.
const ASKS_DISCOUNT: f64 = 0.25;

/// How soon a repeated word stops counting, and how much long texts are discounted: BM25's usual constants.
const K1: f64 = 1.2;
const B: f64 = 0.75;

struct Candidate {
    score: f64,
    /// Seconds since 1970.
    at: u64,
    subject: Subject,
    author: String,
    asks: bool,
}

impl SearchIndex {
    /// The best documents for a query, with their texts read from journal and views, from a place in their order on; and the
    /// place where it goes on. With a vector of what is asked, entries that are near it are among them.
    pub(crate) fn search(
        &self,
        (query, asked): (&Query, Option<&[i8]>),
        after: Option<SearchPlace>,
        reads: &Reads<'_>,
    ) -> Result<(Vec<Hit>, Option<SearchPlace>), StoreError> {
        let words = question_words(&query.text);
        let places = query.channel.as_ref().map(|channel| places(query, channel));
        if words.is_empty() || places.as_ref().is_some_and(Vec::is_empty) || query.limit == 0 {
            return Ok((Vec::new(), None));
        }
        // Without an index nothing is found, and whoever asks is told how much is not in it.
        let Some(OpenIndex { searcher, .. }) = self.open.read().clone() else {
            return Ok((Vec::new(), None));
        };
        let first = CANDIDATES.max(query.limit.saturating_mul(3));
        // A place among the reranked has no meaning once nobody reranks: the search begins again.
        let after = after.filter(|place| !place.reranked);
        let (weighed, mut at) = after.map_or((first, 0), |place| (place.weighed, place.at));
        let named = names(&query.text);
        let most = HELD - HELD % weighed;
        let found = |after| {
            self.calls.within(|| found(&searcher, &self.fields, &words, places.as_deref(), (most, after)))
        };
        // Those that are held, and how many come before them.
        let (mut held, mut before) = (found(None)?, 0);
        // Where more have the words than are held, these alone have an order.
        if let Some(asked) = asked.filter(|_| held.len() < most) {
            vectors::mix(&searcher, &self.fields, &mut held, (query, asked), reads)?;
        }
        let (mut hits, mut n_read, mut n_weighed, mut n_bytes) = (Vec::new(), 0, 0, 0);
        let mut known = HashMap::new();
        // So many at a time are weighed together: where a page ends changes no order.
        loop {
            let begin = at - at % weighed;
            while held.len() == most && begin >= before + most {
                held = found(held.last().copied())?;
                before += most;
            }
            let Some(rest) = held.get(begin - before..).filter(|rest| !rest.is_empty()) else { break };
            let end = at - at % weighed + weighed;
            let these = &rest[..rest.len().min(weighed)];
            let mut candidates =
                self.calls.within(|| candidates(&searcher, &self.fields, these, &named, query))?;
            weigh_questions(&mut candidates);
            sort(&mut candidates);
            for candidate in candidates.into_iter().skip(at % weighed) {
                if hits.len() == query.limit || n_read == READ || n_bytes >= PAGE_BYTES {
                    return Ok((hits, Some(SearchPlace { weighed, at, reranked: false })));
                }
                at += 1;
                n_read += 1;
                let by_whom =
                    |hit: &Hit| query.said.user.is_none() || query.said.fits(hit.at, hit.author.as_ref());
                if let Some(hit) = hit(reads, candidate)?.filter(by_whom) {
                    n_bytes += hit.text.len();
                    hits.push(marked(hit, &words, &mut known));
                }
            }
            at = end;
            n_weighed += these.len();
            if n_weighed >= READ {
                return Ok((hits, Some(SearchPlace { weighed, at, reranked: false })));
            }
        }
        Ok((hits, None))
    }
}

/// A place in the order of what a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchPlace {
    /// How many documents are weighed together.
    weighed: usize,
    /// How many come before it.
    at: usize,
    /// It is among the best, which a model has put into another order.
    reranked: bool,
}

impl SearchPlace {
    /// The place behind so many of the best, as a model has ordered them.
    pub(crate) fn reranked(at: usize) -> Self {
        Self { weighed: CANDIDATES, at, reranked: true }
    }

    /// How many come before it of the best, as a model has ordered them; `None`: it is behind these.
    pub(crate) fn among_reranked(self) -> Option<usize> {
        self.reranked.then_some(self.at)
    }
}

impl fmt::Display for SearchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}{}", self.weighed, self.at, if self.reranked { "r" } else { "" })
    }
}

impl FromStr for SearchPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (weighed, at) = text.split_once('.').ok_or(())?;
        let (at, reranked) = at.strip_suffix('r').map_or((at, false), |at| (at, true));
        let (weighed, at) = (weighed.parse().map_err(|_| ())?, at.parse().map_err(|_| ())?);
        if (1..=WEIGHED_MAX).contains(&weighed) { Ok(Self { weighed, at, reranked }) } else { Err(()) }
    }
}

/// The hit with the words in its text that were searched for. `known`: whether a word is one of them, so that each is stemmed once
/// for all hits.
fn marked(mut hit: Hit, words: &BTreeSet<String>, known: &mut HashMap<String, bool>) -> Hit {
    let mut is_wanted = |word: &str| {
        if let Some(known) = known.get(word) {
            return *known;
        }
        let is_wanted = words_of(word).iter().any(|word| words.contains(word));
        known.insert(word.to_owned(), is_wanted);
        is_wanted
    };
    let marks = words_in_place(&hit.text).filter(|(_, _, word)| is_wanted(word));
    hit.marks = marks.take(MARKS).map(|(from, to, _)| (from, to)).collect();
    hit.near = hit.marks.is_empty();
    hit
}

/// Of a long text the beginning and the end, where its question is: what is between them says less.
pub(super) fn question_words(text: &str) -> BTreeSet<String> {
    let mut words = words_of(text);
    if words.len() > MAX_WORDS {
        words.drain(MAX_WORDS / 2..words.len() - MAX_WORDS / 2);
    }
    words.into_iter().collect()
}

/// The words of a question that a memory has, as the question has them.
pub(crate) fn matched(question: &str, memory: &Memory) -> Vec<String> {
    let topic = Topic::of(memory);
    let known: BTreeSet<&String> = topic.counted().collect();
    let asked = question_words(question);
    let mut found: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_alphanumeric()) {
        let has = words_of(word).iter().any(|word| asked.contains(word) && known.contains(word));
        if has && !found.iter().any(|other| other.to_lowercase() == word.to_lowercase()) {
            found.push(word.to_owned());
        }
    }
    found
}

/// A document with its score.
pub(super) type Scored = (DocAddress, f64);

pub(super) fn best_first(a: &Scored, b: &Scored) -> Ordering {
    b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0))
}

/// The best documents that have any of the words, within the places or wherever they are, with their scores: so many, from
/// one on.
fn found(
    searcher: &Searcher,
    fields: &Fields,
    words: &BTreeSet<String>,
    places: Option<&[String]>,
    (most, after): (usize, Option<Scored>),
) -> Result<Vec<Scored>, StoreError> {
    let mut best = Best::new(most, best_first, after);
    let scored = match places {
        Some(places) => score(searcher, fields, words, places, &mut best),
        None => score_all(searcher, fields, words, &mut best),
    };
    scored.map_err(|error| index_error(&error))?;
    Ok(best.sorted())
}

/// The best of what it is given. It holds twice as many at most.
pub(super) struct Best<T> {
    most: usize,
    order: fn(&T, &T) -> Ordering,
    /// Only what comes after this one.
    after: Option<T>,
    held: Vec<T>,
    /// What comes after this one is none of the best.
    last: Option<T>,
}

impl<T: Copy> Best<T> {
    pub(super) fn new(most: usize, order: fn(&T, &T) -> Ordering, after: Option<T>) -> Self {
        Self { most, order, after, held: Vec::new(), last: None }
    }

    /// How many are wanted.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.last.as_ref()
    }

    pub(super) fn take(&mut self, one: T) {
        if self.after.as_ref().is_some_and(|after| (self.order)(after, &one) != Ordering::Less)
            || self.last.as_ref().is_some_and(|last| (self.order)(last, &one) != Ordering::Greater)
        {
            return;
        }
        self.held.push(one);
        if self.held.len() >= self.most.saturating_mul(2) {
            let (_, last, _) = self.held.select_nth_unstable_by(self.most - 1, self.order);
            self.last = Some(*last);
            self.held.truncate(self.most);
        }
    }

    pub(super) fn sorted(mut self) -> Vec<T> {
        self.held.sort_unstable_by(self.order);
        self.held.truncate(self.most);
        self.held
    }
}

/// What these documents stand for, where that is asked for.
fn candidates(
    searcher: &Searcher,
    fields: &Fields,
    these: &[(DocAddress, f64)],
    named: &BTreeSet<String>,
    query: &Query,
) -> Result<Vec<Candidate>, StoreError> {
    let mut candidates = Vec::with_capacity(these.len());
    let when = query.said.since.map_or(0, seconds)..=query.said.until.map_or(u64::MAX, seconds);
    for (address, score) in these {
        let candidate = candidate(searcher, fields, *score, *address, named)?;
        let is_asked_for = |candidate: &Candidate| {
            when.contains(&candidate.at) && query.kind.is_none_or(|kind| kind == candidate.subject.kind())
        };
        candidates.extend(candidate.filter(is_asked_for));
    }
    Ok(candidates)
}

fn candidate(
    searcher: &Searcher,
    fields: &Fields,
    score: f64,
    address: DocAddress,
    named: &BTreeSet<String>,
) -> Result<Option<Candidate>, StoreError> {
    let doc: TantivyDocument = searcher.doc(address).map_err(|error| index_error(&error))?;
    let text = |field| doc.get_first(field).and_then(|value| value.as_str());
    let Some(subject) = text(fields.key).and_then(Subject::of) else { return Ok(None) };
    let author = text(fields.author).unwrap_or_default().to_owned();
    let is_named = names(&author).iter().any(|name| named.contains(name));
    let asks = doc.get_first(fields.asks).and_then(|value| value.as_bool()).unwrap_or_default();
    let boost = if is_named { 1.0 + NAMED_BOOST } else { 1.0 };
    let segment = searcher.segment_reader(address.segment_ord);
    let times = segment.fast_fields().u64(AT).map_err(|error| index_error(&error))?;
    let at = times.first(address.doc_id).unwrap_or(0);
    Ok(Some(Candidate { score: score * boost, at, subject, author, asks }))
}

/// Best first, and of those that are as good the newest.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        let newest = || b.at.cmp(&a.at);
        b.score.total_cmp(&a.score).then_with(newest).then_with(|| a.subject.key().cmp(&b.subject.key()))
    });
}

fn places(query: &Query, channel: &ChannelId) -> Vec<String> {
    let wants = |kind| query.kind.is_none_or(|only| only == kind);
    let mut places = Vec::new();
    if wants(HitKind::Entry) {
        places.push(entries_of(channel));
    }
    if wants(HitKind::Summary) {
        places.push(summaries_of(channel));
    }
    if wants(HitKind::Memory) {
        let agent = channel.agent();
        places.extend(query.scopes.iter().map(|scope| memories_of(&agent, scope)));
    }
    places
}

/// The words of a text as names are compared: lowercased, not stemmed, without `'s`.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).collect()
}

/// Where several people talk, what they ask counts for less. What one person asks a model is what they told it.
fn weigh_questions(candidates: &mut [Candidate]) {
    let mut authors =
        candidates.iter().map(|candidate| &candidate.author).filter(|author| !author.is_empty());
    let first = authors.next().cloned();
    if !authors.any(|author| Some(author) != first.as_ref()) {
        return;
    }
    for candidate in candidates.iter_mut().filter(|candidate| candidate.asks) {
        candidate.score *= 1.0 - ASKS_DISCOUNT;
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
                channel: Some(channel),
                turn: Some(entry.turn.clone()),
                near: false,
                marks: Vec::new(),
            }))
        }
        Subject::Summary(channel, id) => {
            let found = readable(reads.summary_event(&channel, &id))?.flatten();
            let Some(Event::Compaction(CompactionEvent::RunEnded(end))) = found else { return Ok(None) };
            let summary = end.summary.filter(|summary| summary.text != EXPIRED_TEXT);
            Ok(summary.map(|summary| Hit {
                seq: Some(summary.from_seq),
                score,
                at: summary.to_at,
                author: None,
                text: summary.text,
                kind: HitKind::Summary,
                id: id.to_string(),
                channel: Some(channel),
                turn: None,
                near: false,
                marks: Vec::new(),
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
            channel: memory.source.channel,
            turn: None,
            near: false,
            marks: Vec::new(),
        })),
    }
}

/// A segment's documents that a search may see, rising, each with its length in words.
struct Visible {
    docs: Vec<(DocId, u32)>,
}

/// How often a word is in documents that are seen: their place among these, weighted count.
type Counts = Vec<(usize, f64)>;

/// Documents within the places that have any of the words, with their scores, in no order.
fn score(
    searcher: &Searcher,
    fields: &Fields,
    words: &BTreeSet<String>,
    places: &[String],
    best: &mut Best<Scored>,
) -> tantivy::Result<()> {
    let mut segments = Vec::new();
    let mut with = vec![0; words.len()];
    for segment in searcher.segment_readers() {
        let visible = Visible::of(segment, fields, places)?;
        let mut counts: Vec<Counts> = Vec::with_capacity(words.len());
        for (word, with) in words.iter().zip(&mut with) {
            let of_word = visible.count(segment, fields, word)?;
            *with += of_word.len();
            counts.push(of_word);
        }
        segments.push((visible, counts));
    }
    let lengths = || segments.iter().flat_map(|(visible, _)| &visible.docs).map(|(_, len)| f64::from(*len));
    let n = lengths().count() as f64;
    let mean = lengths().sum::<f64>() / n.max(1.0);
    for (ord, (visible, counts)) in segments.iter().enumerate() {
        let mut sums = vec![0.0; visible.docs.len()];
        for (of_word, with) in counts.iter().zip(&with) {
            let rarity = rarity(*with as f64, n);
            for (idx, count) in of_word {
                sums[*idx] += worth(rarity, *count, discount(f64::from(visible.docs[*idx].1), mean));
            }
        }
        let weights = searcher.segment_reader(ord as u32).fast_fields().f64(WEIGHT)?;
        let found = sums.into_iter().zip(&visible.docs).filter(|(sum, _)| *sum > 0.0);
        found.for_each(|(sum, (doc, _))| {
            best.take((DocAddress::new(ord as u32, *doc), sum * weights.first(*doc).unwrap_or(1.0)));
        });
    }
    Ok(())
}

/// Documents of all channels, and all memories, that have any of the words, with their scores. The lists of where words are
/// are read beside each other, twice: an index of years may have any number of documents, and nothing is held of each.
fn score_all(
    searcher: &Searcher,
    fields: &Fields,
    words: &BTreeSet<String>,
    best: &mut Best<Scored>,
) -> tantivy::Result<()> {
    let n = searcher.num_docs() as f64;
    let (mut with, mut tokens, mut n_written) = (vec![0_usize; words.len()], 0, 0_u64);
    for segment in searcher.segment_readers() {
        n_written += u64::from(segment.max_doc());
        for field in [fields.own, fields.near] {
            tokens += segment.inverted_index(field)?.total_num_tokens();
        }
        each_with(segment, fields, words, |_, counts| {
            counts.iter().for_each(|(word, _)| with[*word] += 1);
        })?;
    }
    let mean = tokens as f64 / n_written.max(1) as f64;
    let rarities: Vec<f64> = with.iter().map(|with| rarity(*with as f64, n)).collect();
    for (ord, segment) in searcher.segment_readers().iter().enumerate() {
        let own = segment.get_fieldnorms_reader(fields.own)?;
        let near = segment.get_fieldnorms_reader(fields.near)?;
        let weights = segment.fast_fields().f64(WEIGHT)?;
        each_with(segment, fields, words, |doc, counts| {
            let len = f64::from(own.fieldnorm(doc) + near.fieldnorm(doc));
            let sum: f64 =
                counts.iter().map(|(word, count)| worth(rarities[*word], *count, discount(len, mean))).sum();
            best.take((DocAddress::new(ord as u32, doc), sum * weights.first(doc).unwrap_or(1.0)));
        })?;
    }
    Ok(())
}

/// Each document of a segment that has any of the words, rising, with the places of the words that it has and how often.
fn each_with(
    segment: &SegmentReader,
    fields: &Fields,
    words: &BTreeSet<String>,
    mut take: impl FnMut(DocId, &[(usize, f64)]),
) -> tantivy::Result<()> {
    let mut lists = Vec::new();
    for (word_idx, word) in words.iter().enumerate() {
        for (field, weight) in [(fields.own, f64::from(OWN_WEIGHT)), (fields.near, 1.0)] {
            let term = Term::from_field_text(field, word);
            let index = segment.inverted_index(field)?;
            let postings = index.read_postings(&term, IndexRecordOption::WithFreqs)?;
            lists.extend(postings.map(|postings| (postings, word_idx, weight)));
        }
    }
    // The list that stands at the lowest document comes first, and of those the one of the first word.
    let at = |postings: &SegmentPostings| Some(postings.doc()).filter(|doc| *doc != TERMINATED);
    let mut next: BinaryHeap<Reverse<(DocId, usize)>> =
        lists.iter().enumerate().filter_map(|(idx, list)| Some(Reverse((at(&list.0)?, idx)))).collect();
    let mut counts: Vec<(usize, f64)> = Vec::new();
    while let Some(Reverse((doc, _))) = next.peek().copied() {
        counts.clear();
        while let Some(mut top) = next.peek_mut().filter(|top| top.0.0 == doc) {
            let (postings, word, weight) = &mut lists[top.0.1];
            let count = *weight * f64::from(postings.term_freq());
            match counts.last_mut().filter(|(last, _)| last == word) {
                Some((_, so_far)) => *so_far += count,
                None => counts.push((*word, count)),
            }
            postings.advance();
            match at(postings) {
                Some(doc) => top.0.0 = doc,
                None => drop(PeekMut::pop(top)),
            }
        }
        if !segment.is_deleted(doc) {
            take(doc, &counts);
        }
    }
    Ok(())
}

/// What a word says that so many of all have.
pub(super) fn rarity(with: f64, all: f64) -> f64 {
    (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
}

/// How much less each word counts in a text of that length, where texts have that mean one.
pub(super) fn discount(len: f64, mean: f64) -> f64 {
    K1 * (1.0 - B + B * len / mean.max(1.0))
}

/// What it is worth to have a word so often in a text with that discount.
pub(super) fn worth(rarity: f64, count: f64, discount: f64) -> f64 {
    rarity * count * (K1 + 1.0) / (count + discount)
}

/// What it is worth at most, however often a text has it.
pub(super) fn most_worth(rarity: f64) -> f64 {
    rarity * (K1 + 1.0)
}

impl Visible {
    fn of(segment: &SegmentReader, fields: &Fields, places: &[String]) -> tantivy::Result<Self> {
        let own = segment.get_fieldnorms_reader(fields.own)?;
        let near = segment.get_fieldnorms_reader(fields.near)?;
        let mut docs = Vec::new();
        for place in places {
            let term = Term::from_field_text(fields.place, place);
            let index = segment.inverted_index(fields.place)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if !segment.is_deleted(doc) {
                    docs.push((doc, own.fieldnorm(doc) + near.fieldnorm(doc)));
                }
                postings.advance();
            }
        }
        // Of each place they rise already.
        docs.sort();
        docs.dedup();
        Ok(Self { docs })
    }

    /// The visible documents that have the word, each once.
    fn count(&self, segment: &SegmentReader, fields: &Fields, word: &str) -> tantivy::Result<Counts> {
        let mut counts = Counts::new();
        if self.docs.is_empty() {
            return Ok(counts);
        }
        for (field, weight) in [(fields.own, f64::from(OWN_WEIGHT)), (fields.near, 1.0)] {
            let term = Term::from_field_text(field, word);
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqs)? else {
                continue;
            };
            // Whichever of the two is ahead has the other one follow: neither is read whole where the other is short.
            let mut idx = 0;
            while let Some((seen, _)) = self.docs.get(idx) {
                let doc = if postings.doc() < *seen { postings.seek(*seen) } else { postings.doc() };
                if doc == *seen {
                    counts.push((idx, weight * f64::from(postings.term_freq())));
                    idx += 1;
                } else {
                    idx += self.docs[idx..].partition_point(|(seen, _)| *seen < doc);
                }
            }
        }
        counts.sort_unstable_by_key(|(idx, _)| *idx);
        counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_batch_after_batch_is_what_a_whole_sort_gives() {
        // Many have the same score: then the place in the index decides.
        let all: Vec<Scored> =
            (0..1_000).map(|n| (DocAddress::new(n % 3, n * 7 % 1_000), f64::from(n * 31 % 17))).collect();
        let mut sorted = all.clone();
        sorted.sort_by(best_first);
        for most in [1, 7, 100, 5_000] {
            let (mut found, mut after): (Vec<Scored>, _) = (Vec::new(), None);
            loop {
                let mut best = Best::new(most, best_first, after);
                for one in &all {
                    best.take(*one);
                    assert!(best.held.len() < most * 2);
                }
                let batch = best.sorted();
                after = batch.last().copied();
                let is_last = batch.len() < most;
                found.extend(batch);
                if is_last {
                    break;
                }
            }
            assert_eq!(found, sorted, "{most} at a time");
        }
    }
}
