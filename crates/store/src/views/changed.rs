//! Memories that changed lately: what the search index, which is committed seldom, may not show yet.

use std::collections::VecDeque;
use std::sync::Arc;

use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::{Memory, Reach, Scope};

use crate::views::topic::Counted;

/// Bytes of changes that are kept. The index is committed long before there are so many, unless it does not answer.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// A memory that came, went, or says something else now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangedMemory {
    pub(crate) id: MemoryId,
    /// The record that made it, where there was none of that id before.
    made: Option<u64>,
    /// `None`: it is gone, and nobody knows any more.
    place: Option<(AgentId, Scope)>,
    /// Whose private chats it follows.
    follows: Option<String>,
    /// Counted here once, not by every question. `None`: it is gone.
    counted: Option<Counted>,
}

/// What changed and may be within reach.
#[derive(Debug, PartialEq)]
pub(crate) struct Changed {
    /// What changed up to that record is not known.
    pub(crate) since: u64,
    /// Oldest first.
    pub(crate) memories: Vec<Arc<ChangedMemory>>,
}

impl ChangedMemory {
    pub(crate) fn of(memory: &Memory) -> Self {
        let (follows, counted) = (memory.follows().map(str::to_owned), Some(Counted::of(memory)));
        Self { follows, counted, ..Self::gone(memory) }
    }

    /// `made`: by that record, and there was none of its id before.
    pub(crate) fn made(made: Option<u64>, memory: &Memory) -> Self {
        Self { made, ..Self::of(memory) }
    }

    pub(crate) fn gone(memory: &Memory) -> Self {
        let place = Some((memory.agent.clone(), memory.scope.clone()));
        Self { id: memory.id.clone(), made: None, place, follows: None, counted: None }
    }

    /// One that may be gone.
    pub(crate) fn known(id: MemoryId, memory: Option<&Memory>) -> Self {
        memory.map_or(Self { id, made: None, place: None, follows: None, counted: None }, Self::of)
    }

    /// Whether it is made by a later record, so that what reaches to that one has nothing of it.
    pub(crate) fn is_made_after(&self, n: u64) -> bool {
        self.made.is_some_and(|made| made > n)
    }

    /// Its word counts, if it exists and is within reach.
    pub(crate) fn within(&self, agents: &[AgentId], reach: &[Reach]) -> Option<&Counted> {
        let (of, within) = self.place.as_ref()?;
        let is = |reach: &Reach| match reach {
            Reach::Scope(scope) => scope == within,
            Reach::Own(person) => self.follows.as_ref() == Some(person),
            Reach::All => true,
        };
        self.counted.as_ref().filter(|_| agents.contains(of) && reach.iter().any(is))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.id.as_str().len() + self.counted.as_ref().map_or(0, Counted::bytes)
    }

    /// Whether it may be within reach, be it that it was.
    fn may_be_within(&self, agents: &[AgentId], reach: &[Reach]) -> bool {
        let Some((of, within)) = &self.place else { return true };
        let may = |reach: &Reach| match reach {
            Reach::Scope(scope) => scope == within,
            // Whose word it is may have become known since.
            Reach::Own(_) => matches!(within, Scope::Chat { .. }),
            Reach::All => true,
        };
        agents.contains(of) && reach.iter().any(may)
    }
}

#[derive(Debug)]
pub(crate) struct ChangedMemories {
    /// What changed up to that record is not known here.
    known_from: u64,
    /// With the record up to which it was applied, oldest first.
    changed: VecDeque<(u64, Arc<ChangedMemory>)>,
    bytes: usize,
}

impl ChangedMemories {
    /// Nothing is known of what changed up to that record.
    pub(crate) fn from(n: u64) -> Self {
        Self { known_from: n, changed: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Notes what changed in records up to that one.
    pub(crate) fn note(&mut self, n: u64, changed: Vec<ChangedMemory>) {
        self.bytes += changed.iter().map(ChangedMemory::bytes).sum::<usize>();
        self.changed.extend(changed.into_iter().map(|changed| (n, Arc::new(changed))));
        self.trim();
    }

    /// Takes in what changed behind that record, up to the one from which on it was known; unless that is another by now.
    pub(crate) fn know(&mut self, from: u64, changed: Vec<(u64, ChangedMemory)>, upto: u64) {
        if self.known_from != upto || from >= upto {
            return;
        }
        self.known_from = from;
        for (n, changed) in changed.into_iter().rev() {
            self.bytes += changed.bytes();
            self.changed.push_front((n, Arc::new(changed)));
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.bytes > KEPT_BYTES {
            let Some(n) = self.drop_oldest() else { return };
            self.known_from = n;
        }
    }

    /// Returns the record up to which it was applied.
    fn drop_oldest(&mut self) -> Option<u64> {
        let (n, oldest) = self.changed.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(n)
    }

    /// The index shows what changed up to that record.
    pub(crate) fn forget(&mut self, upto: u64) {
        self.known_from = self.known_from.max(upto);
        while self.changed.front().is_some_and(|(n, _)| *n <= upto) {
            self.drop_oldest();
        }
    }

    pub(crate) fn within(&self, agents: &[AgentId], reach: &[Reach]) -> Changed {
        let changed = self.changed.iter().map(|(_, changed)| changed);
        let within = changed.filter(|changed| changed.may_be_within(agents, reach));
        Changed { since: self.known_from, memories: within.cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(scope: &str, id: &str) -> ChangedMemory {
        let place = Some(("main".into(), scope.parse().unwrap()));
        ChangedMemory { place, ..ChangedMemory::known(id.into(), None) }
    }

    fn ids(memories: &ChangedMemories, reach: &[Reach]) -> Vec<String> {
        let within = memories.within(&["main".into()], reach).memories;
        within.iter().map(|changed| changed.id.to_string()).collect()
    }

    #[test]
    fn what_may_be_within_reach_is_told_until_the_index_has_it() {
        let mut memories = ChangedMemories::from(5);
        memories.note(6, vec![changed("chat:telegram/1", "a"), changed("agent", "b")]);
        memories.note(8, vec![changed("chat:telegram/1", "a"), changed("chat:telegram/2", "c")]);
        memories.note(9, vec![changed("user:telegram/7", "d")]);
        let chat = Reach::Scope("chat:telegram/1".parse().unwrap());
        assert_eq!(ids(&memories, std::slice::from_ref(&chat)), ["a", "a"]);
        assert_eq!(ids(&memories, &[Reach::Own("telegram/7".to_owned())]), ["a", "a", "c"]);
        assert_eq!(ids(&memories, &[Reach::All]), ["a", "b", "a", "c", "d"]);
        assert_eq!(memories.within(&["other".into()], &[Reach::All]).memories, []);
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
        let (old, long) = (changed("agent", "old"), changed("agent", &"m".repeat(KEPT_BYTES / 4)));
        memories.note(1, vec![old]);
        memories.note(2, vec![long.clone(); 3]);
        assert_eq!((memories.known_from(), memories.changed.len()), (0, 4));
        memories.note(3, vec![long]);
        assert_eq!((memories.known_from(), memories.changed.len()), (2, 3));
        memories.forget(3);
        assert_eq!((memories.known_from(), memories.bytes), (3, 0));
    }
}
