//! A checkup of a bot's account, for `cairn doctor`: what the network says of its token, its rights and its places.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Fine,
    /// It works, and is probably not meant so.
    Doubtful,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub grade: Grade,
    /// What was found, in a sentence without a full stop. Names of chats are others' words.
    pub found: String,
    /// What to do about it; empty where it is fine.
    pub remedy: String,
}

impl Checked {
    pub(crate) fn fine(found: impl Into<String>) -> Self {
        Self { grade: Grade::Fine, found: found.into(), remedy: String::new() }
    }

    /// It works, and is probably not meant so.
    pub(crate) fn doubtful(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { grade: Grade::Doubtful, found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn bad(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { grade: Grade::Bad, found: found.into(), remedy: remedy.into() }
    }
}

/// A name that others gave, fit for one line.
pub(crate) fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(60).collect()
}
