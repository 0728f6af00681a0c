//! Scoring: BM25 over the places that a search may see, with statistics of those places alone, so that what is said in
//! other channels changes no order.

use std::collections::BTreeSet;

use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, DocSet, Searcher, SegmentReader, TERMINATED, Term};

use super::schema::{Fields, WEIGHT};

/// How soon a repeated word stops counting, and how much long texts are discounted: BM25's usual constants.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// A document's own word counts as often as so many of its neighbourhood (`docs/design/figures.md`, "Search").
const OWN_WEIGHT: f64 = 3.0;

/// A segment's documents that a search may see, by their numbers; the rest have length zero.
struct Visible {
    /// Length in words plus one; zero: not seen.
    lengths: Vec<u32>,
}

/// How often a word is in documents of a segment: document, weighted count.
type Counts = Vec<(DocId, f64)>;

/// Documents within the places that have any of the words, with their scores, in no order.
pub(super) fn score(
    searcher: &Searcher,
    fields: &Fields,
    words: &BTreeSet<String>,
    places: &[String],
) -> tantivy::Result<Vec<(DocAddress, f64)>> {
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
    let lengths = || segments.iter().flat_map(|(visible, _)| &visible.lengths).filter(|len| **len > 0);
    let n = lengths().count() as f64;
    let mean = lengths().map(|len| f64::from(*len - 1)).sum::<f64>() / n.max(1.0);
    let mut scores = Vec::new();
    for (ord, (visible, counts)) in segments.iter().enumerate() {
        let mut sums = vec![0.0; visible.lengths.len()];
        for (of_word, with) in counts.iter().zip(&with) {
            let with = *with as f64;
            let rarity = (1.0 + (n - with + 0.5) / (with + 0.5)).ln();
            for (doc, count) in of_word {
                let len = f64::from(visible.lengths[*doc as usize] - 1);
                let discount = K1 * (1.0 - B + B * len / mean.max(1.0));
                sums[*doc as usize] += rarity * count * (K1 + 1.0) / (count + discount);
            }
        }
        let weights = searcher.segment_reader(ord as u32).fast_fields().f64(WEIGHT)?;
        let found = sums.into_iter().enumerate().filter(|(_, sum)| *sum > 0.0);
        scores.extend(found.map(|(doc, sum)| {
            let (doc, weight) = (doc as u32, weights.first(doc as u32).unwrap_or(1.0));
            (DocAddress::new(ord as u32, doc), sum * weight)
        }));
    }
    Ok(scores)
}

impl Visible {
    fn of(segment: &SegmentReader, fields: &Fields, places: &[String]) -> tantivy::Result<Self> {
        let own = segment.get_fieldnorms_reader(fields.own)?;
        let near = segment.get_fieldnorms_reader(fields.near)?;
        let mut lengths = vec![0; segment.max_doc() as usize];
        for place in places {
            let term = Term::from_field_text(fields.place, place);
            let index = segment.inverted_index(fields.place)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if !segment.is_deleted(doc) {
                    lengths[doc as usize] = own.fieldnorm(doc) + near.fieldnorm(doc) + 1;
                }
                postings.advance();
            }
        }
        Ok(Self { lengths })
    }

    /// The visible documents that have the word, each once.
    fn count(&self, segment: &SegmentReader, fields: &Fields, word: &str) -> tantivy::Result<Counts> {
        let mut counts = Counts::new();
        for (field, weight) in [(fields.own, OWN_WEIGHT), (fields.near, 1.0)] {
            let term = Term::from_field_text(field, word);
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqs)? else {
                continue;
            };
            while postings.doc() != TERMINATED {
                if self.lengths[postings.doc() as usize] > 0 {
                    counts.push((postings.doc(), weight * f64::from(postings.term_freq())));
                }
                postings.advance();
            }
        }
        counts.sort_unstable_by_key(|(doc, _)| *doc);
        counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        Ok(counts)
    }
}
