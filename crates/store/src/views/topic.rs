//! The words by which a memory is found, in the index and without it.

use std::collections::BTreeMap;

use cairn_types::memory::Memory;
use cairn_types::text::words::topic_words;
use jiff::Timestamp;
use tantivy::fieldnorm::FieldNormReader;

/// An important memory counts for up to this much more, and each further sighting for a little.
const IMPORTANCE_BOOST: f64 = 0.3;
const SIGHTING_BOOST: f64 = 0.1;

/// Divides the weight, so that a memory of middling importance counts as much as an entry.
const MIDDLING: f64 = 1.0 + IMPORTANCE_BOOST / 2.0;

/// A document's own word counts as often as so many of its neighbourhood (`docs/design/figures.md`, "Search").
pub(crate) const OWN_WEIGHT: u32 = 3;

/// The words by which a text is found. Korean writes gaps, but joins its particles to the words: it is cut into pairs,
/// too.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in topic_words(text) {
        let is_hangul = |c: char| ('\u{ac00}'..='\u{d7a3}').contains(&c);
        let chars: Vec<char> = word.chars().collect();
        if chars.len() > 2 && chars.iter().all(|c| is_hangul(*c)) {
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else {
            words.push(word);
        }
    }
    words
}

/// What a memory is found by.
pub(crate) struct Topic {
    /// Its words.
    pub(crate) own: Vec<String>,
    /// Those of whom or what it is about. Not its date: a number in a question would find all of a day.
    pub(crate) near: Vec<String>,
    pub(crate) weight: f64,
}

impl Topic {
    pub(crate) fn of(memory: &Memory) -> Self {
        let further = f64::from(memory.sightings.max(1)).ln();
        let boost = 1.0 + IMPORTANCE_BOOST * memory.importance + SIGHTING_BOOST * further;
        // What is said in the first person is found by the name of whoever says it.
        let speaker = memory.said_by().filter(|_| memory.is_of_speaker()).unwrap_or_default();
        let about = format!("{}\n{speaker}", memory.subject.as_deref().unwrap_or_default());
        Self {
            own: words_of(&memory.text),
            near: words_of(&about),
            weight: boost * memory.weight() / MIDDLING,
        }
    }

    /// All words, each as often as it counts.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &String> {
        self.own.iter().flat_map(|word| std::iter::repeat_n(word, OWN_WEIGHT as usize)).chain(&self.near)
    }
}

/// A memory by its row, as the index counts it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    pub(crate) at: Timestamp,
    pub(crate) weight: f64,
    pub(crate) len: u32,
    /// Its words in their order, with how often each counts.
    words: Vec<(Box<str>, u32)>,
}

impl Counted {
    pub(crate) fn of(memory: &Memory) -> Self {
        let topic = Topic::of(memory);
        // As exactly as the index keeps lengths.
        let kept = |words: &[String]| {
            let len = u32::try_from(words.len()).unwrap_or(u32::MAX);
            FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(len))
        };
        let mut often: BTreeMap<&str, u32> = BTreeMap::new();
        topic.counted().for_each(|word| *often.entry(word).or_default() += 1);
        Self {
            at: memory.created_at,
            weight: topic.weight,
            len: kept(&topic.own) + kept(&topic.near),
            words: often.into_iter().map(|(word, often)| (word.into(), often)).collect(),
        }
    }

    /// How often it has a word.
    pub(crate) fn count(&self, word: &str) -> Option<u32> {
        let idx = self.words.binary_search_by(|(own, _)| (**own).cmp(word)).ok()?;
        Some(self.words[idx].1)
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.words.iter().map(|(word, _)| size_of::<(Box<str>, u32)>() + word.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_without_gaps_and_korean_come_in_pairs() {
        assert_eq!(words_of("学校生活"), ["学校", "校生", "生活"]);
        assert_eq!(words_of("학교에서"), ["학교", "교에", "에서"]);
    }
}
