//! Which messages a memory most likely comes from: those of its range that share the most words with it.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::DraftMemory;
use crate::message::{Author, Entry, Role};
use crate::text::words::content_words;

/// A message that shares words with a memory.
#[derive(Debug, Clone)]
pub struct LikelySource {
    pub entry: Arc<Entry>,
    /// How many of the memory's words it has.
    pub shared: usize,
}

/// A longer memory may share this many words with a message by chance.
const CHANCE: usize = 1;

/// So many of a memory's words, and half of them, has the message of the person who is named as its source.
const TOLD_MIN: usize = 3;

/// The `most` entries that share the most words with the memory, best first. Among equals, people's messages come before
/// others, and later entries before earlier ones. An entry that shares a single word counts only if the memory has at most
/// two.
pub fn likely_sources(memory: &str, entries: &[Arc<Entry>], most: usize) -> Vec<LikelySource> {
    let mut found = ranked(memory, &worded(entries));
    found.truncate(most);
    found
}

/// When each memory was said, and by whom: the time and the author of its most likely source; if it has none, the time of the
/// last entry.
pub(super) fn said(
    memories: &[DraftMemory],
    entries: &[Arc<Entry>],
) -> Vec<(Option<Timestamp>, Option<Author>)> {
    let said = worded(entries);
    let of = |memory: &DraftMemory| {
        let sources = ranked(&memory.text, &said);
        let at = sources.first().map(|found| &found.entry).or(entries.last()).map(|entry| entry.at);
        (at, teller(&memory.text, &sources).cloned())
    };
    memories.iter().map(of).collect()
}

/// Who said most of a memory's words, if nobody else said as many.
fn teller<'s>(memory: &str, sources: &'s [LikelySource]) -> Option<&'s Author> {
    let best = sources.first()?;
    let words: HashSet<String> = content_words(memory).into_iter().collect();
    if best.shared < TOLD_MIN.max(words.len().div_ceil(2)) {
        return None;
    }
    let as_good = sources.iter().take_while(|source| source.shared == best.shared);
    let mut authors = as_good.map(|source| &source.entry).map(|entry| {
        // What they forward is not theirs, nor is what the model or a tool said.
        entry.author.as_ref().filter(|_| entry.role == Role::User && entry.provenance.is_empty())
    });
    let author = authors.next()??;
    authors.flatten().all(|other| other.id == author.id).then_some(author)
}

/// Entries, each with its words.
fn worded(entries: &[Arc<Entry>]) -> Vec<(&Arc<Entry>, HashSet<String>)> {
    let words = |entry: &Entry| {
        let name = entry.author.as_ref().map(|author| author.name.as_str()).unwrap_or_default();
        content_words(&format!("{name} {}", entry.text())).into_iter().collect()
    };
    entries.iter().map(|entry| (entry, words(entry))).collect()
}

fn ranked(memory: &str, entries: &[(&Arc<Entry>, HashSet<String>)]) -> Vec<LikelySource> {
    let words: HashSet<String> = content_words(memory).into_iter().collect();
    let least = if words.len() > 2 { CHANCE } else { 0 };
    let found = entries.iter().map(|(entry, said)| {
        let shared = words.intersection(said).count();
        LikelySource { entry: Arc::clone(entry), shared }
    });
    let mut found: Vec<LikelySource> = found.filter(|found| found.shared > least).collect();
    found.sort_by_key(|found| {
        (usize::MAX - found.shared, found.entry.role != Role::User, Reverse(found.entry.seq))
    });
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::ids::{Generation, Seq};
    use crate::memory::{MemoryKind, Replaces, credit};
    use crate::message::Part;

    #[rstest]
    #[case::with_its_source("Anna takes berth 12 at the north pier.", Some(1))]
    #[case::at_the_latest_with_the_last_entry("volcanoes erupt", Some(2))]
    fn a_memory_was_said_with_its_source(#[case] text: &str, #[case] day: Option<i64>) {
        let on = |day: i64, seq, name, words| {
            let at = Timestamp::from_second(day * 86_400).unwrap();
            Arc::new(Entry { at, ..(*entry(seq, Role::User, name, words)).clone() })
        };
        let entries = [
            on(1, 1, "anna", "I take berth 12 at the north pier"),
            on(2, 2, "ben", "and I sail to the islands"),
        ];
        let (kind, text) = (MemoryKind::Fact, text.to_owned());
        let mut memories = [DraftMemory {
            kind,
            text,
            subject: None,
            importance: 0.5,
            by: None,
            said_at: None,
            told_by: None,
            replaces: Replaces::default(),
        }];
        credit(&mut memories, &entries);
        let said_at = memories[0].said_at.map(|at| at.as_second() / 86_400);
        assert_eq!(said_at, day);
        credit(&mut memories, &[]);
        assert_eq!(memories[0].said_at, None, "no entry tells");
    }

    #[rstest]
    #[case::who_told_it("Rosa keeps the spare key in the shed.", "Rosa", Some("local/tom"))]
    #[case::about_a_thing("The ferry to the islands leaves at nine.", "ferry", Some("local/ben"))]
    #[case::of_two_who_say_it("The regatta is in June this year.", "regatta", None)]
    #[case::with_too_few_of_its_words(
        "The shed behind the old mill needs paint and a spare door.",
        "shed",
        None
    )]
    #[case::what_the_model_said("Lisbon has seven hills and trams.", "Lisbon", None)]
    fn who_said_most_of_it_is_named(#[case] text: &str, #[case] subject: &str, #[case] by: Option<&str>) {
        let entries = [
            entry(1, Role::User, "tom", "Rosa keeps her spare key in the shed, she told me"),
            entry(2, Role::User, "ben", "the ferry to the islands leaves at nine"),
            entry(3, Role::User, "tom", "the regatta is in June this year"),
            entry(4, Role::User, "ben", "yes, the regatta is in June this year"),
            entry(5, Role::Assistant, "", "Lisbon has seven hills and trams"),
        ];
        let mut memories = [DraftMemory {
            kind: MemoryKind::Fact,
            text: text.to_owned(),
            subject: Some(subject.to_owned()),
            importance: 0.5,
            by: None,
            said_at: None,
            told_by: None,
            replaces: Replaces::default(),
        }];
        credit(&mut memories, &entries);
        assert_eq!(memories[0].told_by.as_ref().map(|by| by.id.as_str()), by);
    }

    fn entry(seq: u64, role: Role, name: &str, text: &str) -> Arc<Entry> {
        let author =
            (role == Role::User).then(|| Author { id: format!("local/{name}"), name: name.to_owned() });
        let lost = Entry::lost(Seq(seq), &"t1".into(), Generation::default(), Timestamp::UNIX_EPOCH);
        Arc::new(Entry { role, author, parts: vec![Part::text(text)], ..lost })
    }

    #[rstest]
    #[case::most_words_first("Anna takes berth 12 at the north pier.", &[3, 1])]
    #[case::a_person_before_the_model("The key is in the shed", &[4, 5])]
    #[case::a_name_counts("Anna sails", &[3, 1])]
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
