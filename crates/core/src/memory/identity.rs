//! When two memories are the same one: fingerprints, ids, and what a save does to what is there.

use jiff::Timestamp;

use super::{Memory, MemorySave};
use crate::ids::{AgentId, MemoryId};
use crate::memory::Scope;

/// Hash of a memory's content words within its agent and scope: the same for texts that differ only in case,
/// punctuation, order, word endings and stop words. Numbers and names always count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// The fingerprint of a text.
    pub fn of(agent: &AgentId, scope: &Scope, text: &str) -> Self {
        let _ = (agent, scope, text);
        todo!("helper text")
    }
}

/// The id of a memory that is saved for the first time: `m` and the first 16 hex digits of its fingerprint.
pub fn mint_id(fingerprint: &Fingerprint) -> MemoryId {
    let _ = fingerprint;
    todo!("helper text")
}

/// What a save does.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is new.
    Created(Memory),
    /// It was there: one more sighting (and the higher importance).
    Sighted(Memory),
    /// It was there, and this very sighting too: nothing changes.
    Known,
    /// It has been forgotten: its tombstone blocks it.
    Blocked,
}

/// Decides what a save does. `existing`: the memory that has the save's fingerprint now or had it when it was
/// first saved; `entombed`: that fingerprint has a tombstone; `sighted`: the sighting key is there already.
pub fn merge(
    existing: Option<&Memory>,
    entombed: bool,
    sighted: bool,
    save: &MemorySave,
    at: Timestamp,
) -> Change {
    let _ = (existing, entombed, sighted, save, at);
    todo!("helper text")
}
