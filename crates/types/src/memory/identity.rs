//! When two memories are the same one: fingerprints, ids, and what a save does to an existing memory.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Memory, MemorySave, Source};
use crate::ids::{AgentId, MemoryId};
use crate::memory::Scope;
use crate::text::words::content_words;

/// Hex digits of a fingerprint that go into an id.
const ID_DIGITS: usize = 16;

/// Hash of a memory's content words within its agent and scope: the same for texts that differ only in case, punctuation,
/// word endings and stop words. Numbers, names and order always count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// The fingerprint of a text, as 64 hex digits.
    pub fn of(agent: &AgentId, scope: &Scope, text: &str) -> Self {
        let words = content_words(text);
        let mut hash = Sha256::new();
        let mut feed = |part: &str| {
            hash.update(part);
            hash.update([0]);
        };
        feed(agent.as_str());
        feed(&scope.to_string());
        if words.is_empty() {
            feed("=");
            text.split_whitespace().for_each(|word| feed(&word.to_lowercase()));
        } else {
            words.iter().for_each(|word| feed(word));
        }
        Self(hex(hash))
    }
}

impl MemorySave {
    /// The fingerprint under which the memory is saved.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.agent, &self.scope, &self.text, &self.source)
    }
}

impl Memory {
    /// The fingerprint of its current text.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.agent, &self.scope, &self.text, &self.source)
    }
}

/// Members' memories are told apart by author: "I like tea" typed by two members is two memories.
fn fingerprint(agent: &AgentId, scope: &Scope, text: &str, source: &Source) -> Fingerprint {
    let plain = Fingerprint::of(agent, scope, text);
    match &source.by {
        Some(by) if source.is_of_member() => {
            Fingerprint(hex(Sha256::new().chain_update(plain.0).chain_update(&by.id)))
        }
        _ => plain,
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of a memory that is saved for the first time: `m` and the first 16 hex digits of its fingerprint.
pub fn mint_id(fingerprint: &Fingerprint) -> MemoryId {
    let digits: String = fingerprint.0.chars().take(ID_DIGITS).collect();
    MemoryId::new(format!("m{digits}"))
}

#[derive(Debug, Clone, PartialEq)]
pub enum MemoryChange {
    Created(Memory),
    /// It existed: one more sighting (and the higher importance).
    Sighted(Memory),
    /// It existed, and so did this very sighting: nothing changes.
    Known,
    /// It was forgotten: its tombstone blocks the save.
    Blocked,
}

/// Decides what a save does. `existing`: the memory that has the save's fingerprint now or had it when it was first saved;
/// `entombed`: that fingerprint has a tombstone; `sighted`: the sighting key already exists.
///
/// An explicit save lifts the tombstone: the memory is created again under its old id.
pub fn merge(
    existing: Option<&Memory>,
    entombed: bool,
    sighted: bool,
    save: &MemorySave,
    at: Timestamp,
) -> MemoryChange {
    if entombed {
        return if save.explicit {
            MemoryChange::Created(created(existing, save, at))
        } else {
            MemoryChange::Blocked
        };
    }
    if sighted {
        return MemoryChange::Known;
    }
    let Some(memory) = existing else {
        return MemoryChange::Created(created(None, save, at));
    };
    let mut memory = memory.clone();
    memory.sightings = memory.sightings.saturating_add(1);
    if memory.source.by.is_none() && !memory.source.is_typed() {
        memory.source.by.clone_from(&save.source.by);
        if memory.source.told_by.is_none() {
            memory.source.told_by.clone_from(&save.source.told_by);
        }
    }
    if memory.superseded_by.take().is_some() {
        // It is said again, so it holds again.
        (memory.until, memory.updated_at) = (None, at);
        memory.source.said_at = save.source.said_at.or(Some(at));
    }
    let importance = within_unit(save.importance);
    if importance > memory.importance {
        memory.importance = importance;
        memory.updated_at = at;
    }
    MemoryChange::Sighted(memory)
}

fn created(forgotten: Option<&Memory>, save: &MemorySave, at: Timestamp) -> Memory {
    let id = match forgotten {
        Some(memory) => memory.id.clone(),
        None => mint_id(&save.fingerprint()),
    };
    Memory {
        id,
        agent: save.agent.clone(),
        scope: save.scope.clone(),
        kind: save.kind,
        text: save.text.clone(),
        subject: save.subject.clone(),
        importance: within_unit(save.importance),
        sightings: 1,
        source: save.source.clone(),
        created_at: at,
        updated_at: at,
        recalled_at: None,
        uses: 0,
        superseded_by: None,
        until: None,
    }
}

/// Limits an importance to 0 to 1, since a model may write any number. NaN counts as 0.
fn within_unit(importance: f64) -> f64 {
    if importance.is_nan() { 0.0 } else { importance.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::memory::{MemoryKind, Replaces};

    fn chat(name: &str) -> Scope {
        Scope::Chat { platform: "local".to_owned(), chat: name.to_owned() }
    }

    fn fingerprint(text: &str) -> Fingerprint {
        Fingerprint::of(&AgentId::new("main"), &chat("room"), text)
    }

    #[rstest]
    #[case::case_and_marks("Anna likes green tea.", "anna LIKES green tea!!")]
    #[case::endings("Anna likes walking dogs", "Anna liked walks with the dog")]
    #[case::stop_words("Anna is at the office", "Anna was in an office")]
    #[case::no_content_words("To be or …", "to  BE or …")]
    fn texts_that_say_the_same_have_one_fingerprint(#[case] a: &str, #[case] b: &str) {
        assert_eq!(fingerprint(a), fingerprint(b));
    }

    #[rstest]
    #[case::negation("Anna likes tea", "Anna does not like tea")]
    #[case::contraction("Anna likes tea", "Anna doesn't like tea")]
    #[case::never("Anna drinks tea", "Anna never drinks tea")]
    #[case::numbers("The meeting is at 10:30", "The meeting is at 11:30")]
    #[case::names("Anna likes tea", "Ben likes tea")]
    #[case::order("Ben owes Anna 5 euros", "Anna owes Ben 5 euros")]
    #[case::persons("He likes tea", "She likes tea")]
    #[case::chinese_negation("安娜喜欢茶", "安娜不喜欢茶")]
    #[case::nothing_but_stop_words("to be", "to do")]
    #[case::emoji("👍", "👎")]
    fn texts_that_say_something_else_have_another(#[case] a: &str, #[case] b: &str) {
        assert_ne!(fingerprint(a), fingerprint(b));
    }

    #[test]
    fn a_fingerprint_belongs_to_its_agent_and_scope() {
        let here = fingerprint("Anna likes tea");
        assert_ne!(here, Fingerprint::of(&AgentId::new("other"), &chat("room"), "Anna likes tea"));
        assert_ne!(here, Fingerprint::of(&AgentId::new("main"), &chat("hall"), "Anna likes tea"));
        assert_eq!(mint_id(&here).as_str(), format!("m{}", &here.0[..16]));
    }

    fn save(importance: f64, explicit: bool) -> MemorySave {
        MemorySave {
            agent: AgentId::new("main"),
            scope: chat("room"),
            kind: MemoryKind::Preference,
            text: "Anna likes tea".to_owned(),
            subject: Some("Anna".to_owned()),
            importance,
            source: crate::testing::source(None, "rules"),
            sighting: "main/local/room:s1:0".to_owned(),
            explicit,
            replaces: Replaces::default(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn first() -> Memory {
        match merge(None, false, false, &save(0.5, false), at(1)) {
            MemoryChange::Created(memory) => memory,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_first_save_creates_the_memory() {
        let memory = first();
        assert_eq!(memory.id, mint_id(&fingerprint("anna likes tea")));
        assert_eq!((memory.sightings, memory.importance, memory.uses), (1, 0.5, 0));
        assert_eq!((memory.created_at, memory.updated_at), (at(1), at(1)));
    }

    #[test]
    fn another_sighting_counts_and_keeps_the_higher_importance() {
        let lower = match merge(Some(&first()), false, false, &save(0.2, false), at(2)) {
            MemoryChange::Sighted(memory) => memory,
            other => panic!("{other:?}"),
        };
        assert_eq!((lower.sightings, lower.importance, lower.updated_at), (2, 0.5, at(1)));
        let higher = match merge(Some(&lower), false, false, &save(7.0, false), at(3)) {
            MemoryChange::Sighted(memory) => memory,
            other => panic!("{other:?}"),
        };
        assert_eq!((higher.sightings, higher.importance, higher.updated_at), (3, 1.0, at(3)));
        assert_eq!(higher.created_at, at(1));
    }

    #[test]
    fn the_same_sighting_twice_changes_nothing() {
        assert_eq!(merge(Some(&first()), false, true, &save(0.9, false), at(2)), MemoryChange::Known);
    }

    #[test]
    fn a_tombstone_blocks_all_but_an_explicit_save() {
        assert_eq!(merge(None, true, false, &save(0.9, false), at(2)), MemoryChange::Blocked);
        match merge(None, true, false, &save(0.9, true), at(2)) {
            MemoryChange::Created(memory) => assert_eq!(memory.id, first().id),
            other => panic!("{other:?}"),
        }
        let mut edited = first();
        edited.id = MemoryId::new("m0123456789abcdef");
        match merge(Some(&edited), true, false, &save(0.9, true), at(2)) {
            MemoryChange::Created(memory) => assert_eq!((memory.id, memory.sightings), (edited.id, 1)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_importance_that_is_no_number_counts_as_nothing() {
        match merge(None, false, false, &save(f64::NAN, false), at(1)) {
            MemoryChange::Created(memory) => assert_eq!(memory.importance, 0.0),
            other => panic!("{other:?}"),
        }
    }
}
