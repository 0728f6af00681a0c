//! Scoring: BM25 over the places that a search may see, with statistics of those places alone, so that what is said in
//! other channels changes no order.

use std::collections::{BTreeSet, HashMap};

use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocSet, Searcher, SegmentReader, TERMINATED, Term};

use super::schema::Fields;

/// How soon a repeated word stops counting, and how much long texts are discounted: BM25's usual constants.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// A document's own word counts as often as so many of its neighbourhood (FIELD.md has 2; 3 with the date and the day
/// weighed in finds more).
const OWN_WEIGHT: f64 = 3.0;

/// Documents within the places that have any of the words, with their scores, in no order.
pub(super) fn score(
    searcher: &Searcher,
    fields: &Fields,
    words: &BTreeSet<String>,
    places: &[String],
) -> tantivy::Result<Vec<(DocAddress, f64)>> {
    let mut visible = Visible::default();
    let mut counts: Vec<HashMap<DocAddress, f64>> = vec![HashMap::new(); words.len()];
    for (ord, segment) in searcher.segment_readers().iter().enumerate() {
        let within = visible.add(segment, ord as u32, fields, places)?;
        for (word, counts) in words.iter().zip(&mut counts) {
            for (field, weight) in [(fields.own, OWN_WEIGHT), (fields.near, 1.0)] {
                let term = Term::from_field_text(field, word);
                let index = segment.inverted_index(field)?;
                let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqs)? else {
                    continue;
                };
                while postings.doc() != TERMINATED {
                    if within[postings.doc() as usize] {
                        let address = DocAddress::new(ord as u32, postings.doc());
                        *counts.entry(address).or_default() += weight * f64::from(postings.term_freq());
                    }
                    postings.advance();
                }
            }
        }
    }
    Ok(visible.weigh(&counts))
}

/// The documents that a search may see, and their lengths in words.
#[derive(Default)]
struct Visible {
    lengths: HashMap<DocAddress, u32>,
}

impl Visible {
    /// Adds those of a segment. Returns which of its documents they are.
    fn add(
        &mut self,
        segment: &SegmentReader,
        ord: u32,
        fields: &Fields,
        places: &[String],
    ) -> tantivy::Result<Vec<bool>> {
        let own = segment.get_fieldnorms_reader(fields.own)?;
        let near = segment.get_fieldnorms_reader(fields.near)?;
        let mut within = vec![false; segment.max_doc() as usize];
        for place in places {
            let term = Term::from_field_text(fields.place, place);
            let index = segment.inverted_index(fields.place)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if !segment.is_deleted(doc) {
                    within[doc as usize] = true;
                    self.lengths.insert(DocAddress::new(ord, doc), own.fieldnorm(doc) + near.fieldnorm(doc));
                }
                postings.advance();
            }
        }
        Ok(within)
    }

    fn weigh(&self, counts: &[HashMap<DocAddress, f64>]) -> Vec<(DocAddress, f64)> {
        let n = self.lengths.len() as f64;
        let mean = self.lengths.values().map(|len| f64::from(*len)).sum::<f64>() / n.max(1.0);
        let mut scores: HashMap<DocAddress, f64> = HashMap::new();
        for counts in counts {
            let with = counts.len() as f64;
            let rarity = (1.0 + (n - with + 0.5) / (with + 0.5)).ln();
            for (address, count) in counts {
                let len = f64::from(self.lengths.get(address).copied().unwrap_or(0));
                let discount = K1 * (1.0 - B + B * len / mean.max(1.0));
                *scores.entry(*address).or_default() += rarity * count * (K1 + 1.0) / (count + discount);
            }
        }
        scores.into_iter().collect()
    }
}
