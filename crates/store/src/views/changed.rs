//! Memories that changed lately: what the search index, which is committed seldom, may not show yet.

use std::collections::VecDeque;

use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::{Memory, Reach, Scope};

/// Most changes that are kept. The index is committed long before there are so many, unless it does not answer.
const KEPT: usize = 10_000;

/// A memory that came, went, or says something else now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangedMemory {
    pub(crate) id: MemoryId,
    /// `None`: it is gone, and nobody knows any more.
    place: Option<(AgentId, Scope)>,
}

impl ChangedMemory {
    pub(crate) fn of(memory: &Memory) -> Self {
        Self { id: memory.id.clone(), place: Some((memory.agent.clone(), memory.scope.clone())) }
    }

    /// One that may be gone.
    pub(crate) fn known(id: MemoryId, memory: Option<&Memory>) -> Self {
        memory.map_or(Self { id, place: None }, Self::of)
    }

    /// Whether it may be within reach, be it that it was.
    fn may_be_within(&self, agent: &AgentId, reach: &[Reach]) -> bool {
        let Some((of, within)) = &self.place else { return true };
        let may = |reach: &Reach| match reach {
            Reach::Scope(scope) => scope == within,
            // Whose word it is may have become known since.
            Reach::Own(_) => matches!(within, Scope::Chat { .. }),
            Reach::All => true,
        };
        of == agent && reach.iter().any(may)
    }
}

#[derive(Debug)]
pub(crate) struct ChangedMemories {
    /// What changed up to that record is not known here.
    known_from: u64,
    /// With the record up to which it was applied, oldest first.
    changed: VecDeque<(u64, ChangedMemory)>,
}

impl ChangedMemories {
    /// Nothing is known of what changed up to that record.
    pub(crate) fn from(n: u64) -> Self {
        Self { known_from: n, changed: VecDeque::new() }
    }

    pub(crate) fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Notes what changed in records up to that one.
    pub(crate) fn note(&mut self, n: u64, changed: Vec<ChangedMemory>) {
        self.changed.extend(changed.into_iter().map(|changed| (n, changed)));
        while self.changed.len() > KEPT {
            let oldest = self.changed.pop_front();
            self.known_from = oldest.map_or(self.known_from, |(n, _)| n);
        }
    }

    /// Takes in what changed behind that record, up to the one from which on it was known; unless that is another by now.
    pub(crate) fn know(&mut self, from: u64, changed: Vec<(u64, ChangedMemory)>, upto: u64) {
        if self.known_from != upto || from >= upto {
            return;
        }
        self.known_from = from;
        for changed in changed.into_iter().rev() {
            self.changed.push_front(changed);
        }
        self.note(0, Vec::new());
    }

    /// The index shows what changed up to that record.
    pub(crate) fn forget(&mut self, upto: u64) {
        self.known_from = self.known_from.max(upto);
        let has = self.changed.partition_point(|(n, _)| *n <= upto);
        self.changed.drain(..has);
    }

    /// What changed and may be within reach, each once.
    pub(crate) fn within(&self, agent: &AgentId, reach: &[Reach]) -> Vec<MemoryId> {
        let within = self.changed.iter().filter(|(_, changed)| changed.may_be_within(agent, reach));
        let mut ids: Vec<MemoryId> = within.map(|(_, changed)| changed.id.clone()).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(scope: &str, id: &str) -> ChangedMemory {
        ChangedMemory { id: id.into(), place: Some(("main".into(), scope.parse().unwrap())) }
    }

    fn ids(memories: &ChangedMemories, reach: &[Reach]) -> Vec<String> {
        memories.within(&"main".into(), reach).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_may_be_within_reach_is_told_until_the_index_has_it() {
        let mut memories = ChangedMemories::from(5);
        memories.note(6, vec![changed("chat:telegram/1", "a"), changed("agent", "b")]);
        memories.note(8, vec![changed("chat:telegram/1", "a"), changed("chat:telegram/2", "c")]);
        memories.note(9, vec![changed("user:telegram/7", "d")]);
        let chat = Reach::Scope("chat:telegram/1".parse().unwrap());
        assert_eq!(ids(&memories, std::slice::from_ref(&chat)), ["a"]);
        assert_eq!(ids(&memories, &[Reach::Own("telegram/7".to_owned())]), ["a", "c"]);
        assert_eq!(ids(&memories, &[Reach::All]), ["a", "b", "c", "d"]);
        assert_eq!(memories.within(&"other".into(), &[Reach::All]), []);
        memories.forget(7);
        assert_eq!(ids(&memories, &[Reach::All]), ["a", "c", "d"]);
        memories.forget(6);
        assert_eq!(memories.known_from(), 7);
        memories.forget(9);
        assert!(ids(&memories, &[Reach::All, chat]).is_empty());
    }

    #[test]
    fn what_changed_before_is_taken_in_once_and_what_is_gone_may_have_been_anywhere() {
        let mut memories = ChangedMemories::from(5);
        memories.note(6, vec![changed("agent", "c")]);
        let before =
            || vec![(3, changed("chat:telegram/1", "a")), (4, ChangedMemory::known("b".into(), None))];
        memories.know(2, before(), 4);
        assert_eq!((memories.known_from(), ids(&memories, &[Reach::All])), (5, vec!["c".to_owned()]));
        memories.know(2, before(), 5);
        assert_eq!((memories.known_from(), ids(&memories, &[Reach::All]).len()), (2, 3));
        assert_eq!(ids(&memories, &[Reach::Scope("user:telegram/7".parse().unwrap())]), ["b"]);
        memories.forget(3);
        assert_eq!(ids(&memories, &[Reach::All]), ["b", "c"]);
    }

    #[test]
    fn of_more_changes_than_are_kept_the_oldest_are_those_of_the_index() {
        let mut memories = ChangedMemories::from(0);
        memories.note(1, vec![changed("agent", "old")]);
        memories.note(2, (0..KEPT).map(|n| changed("agent", &format!("m{n}"))).collect());
        assert_eq!((memories.known_from(), memories.changed.len()), (1, KEPT));
        memories.note(3, vec![changed("agent", "new")]);
        assert_eq!((memories.known_from(), memories.changed.len()), (2, KEPT));
    }
}
