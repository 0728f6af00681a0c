//! Which messages a memory most likely stands on: those of its range that share the most of its words.

use std::collections::HashSet;
use std::sync::Arc;

use crate::message::{Entry, Role};
use crate::words::content_words;

/// A message that shares words with a memory.
#[derive(Debug, Clone)]
pub struct LikelySource {
    pub entry: Arc<Entry>,
    /// How many of the memory's words it has.
    pub shared: usize,
}

/// Most shared words that a longer text has by chance.
const CHANCE: usize = 1;

/// The best `most` of those entries, best first; of equals what a person said, then the earlier one. Entries with one of the
/// words alone are none, unless the memory has no more than two.
pub fn likely_sources(memory: &str, entries: &[Arc<Entry>], most: usize) -> Vec<LikelySource> {
    let words: HashSet<String> = content_words(memory).into_iter().collect();
    let shared = |entry: &Entry| {
        let name = entry.author.as_ref().map(|author| author.name.as_str()).unwrap_or_default();
        let said: HashSet<String> = content_words(&format!("{name} {}", entry.text())).into_iter().collect();
        words.intersection(&said).count()
    };
    let found = entries.iter().map(|entry| LikelySource { entry: Arc::clone(entry), shared: shared(entry) });
    let least = if words.len() > 2 { CHANCE } else { 0 };
    let mut found: Vec<LikelySource> = found.filter(|found| found.shared > least).collect();
    found.sort_by_key(|found| (usize::MAX - found.shared, found.entry.role != Role::User, found.entry.seq));
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::ids::{Generation, Seq};
    use crate::message::{Author, Part};

    fn entry(seq: u64, role: Role, name: &str, text: &str) -> Arc<Entry> {
        let author =
            (role == Role::User).then(|| Author { id: format!("local/{name}"), name: name.to_owned() });
        let lost = Entry::lost(Seq(seq), &"t1".into(), Generation::default(), Timestamp::UNIX_EPOCH);
        Arc::new(Entry { role, author, parts: vec![Part::text(text)], ..lost })
    }

    #[rstest]
    #[case::most_words_first("Anna takes berth 12 at the north pier.", &[3, 1])]
    #[case::a_person_before_the_model("The key is in the shed", &[4, 5])]
    #[case::a_name_counts("Anna sails", &[1, 3])]
    #[case::one_word_is_chance("Anna sails to the islands in July.", &[])]
    #[case::nothing_in_common("volcanoes erupt", &[])]
    fn the_message_with_most_of_the_words_comes_first(#[case] memory: &str, #[case] expected: &[u64]) {
        let entries = [
            entry(1, Role::User, "anna", "is a berth free at the pier?"),
            entry(2, Role::User, "ben", "no idea"),
            entry(3, Role::User, "anna", "I take berth 12 at the north pier then"),
            entry(4, Role::User, "ben", "the key hangs in the shed"),
            entry(5, Role::Assistant, "", "so the key is in the shed"),
        ];
        let found: Vec<u64> =
            likely_sources(memory, &entries, 2).iter().map(|found| found.entry.seq.0).collect();
        assert_eq!(found, expected);
    }
}
