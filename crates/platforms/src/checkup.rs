//! The checkup of a bot's account for `cairn doctor`: token, rights, and the places that it serves.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Fine,
    /// It works, but probably not as intended.
    Doubtful,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub grade: Grade,
    /// The finding, as a sentence without a full stop. Chat names in it are untrusted text.
    pub found: String,
    /// How to fix it; empty for [`Grade::Fine`].
    pub remedy: String,
    /// An address to open: it lets the bot in somewhere.
    pub link: Option<String>,
}

impl Checked {
    pub(crate) fn fine(found: impl Into<String>) -> Self {
        Self { grade: Grade::Fine, found: found.into(), remedy: String::new(), link: None }
    }

    /// It is fine, and the link leads on.
    pub(crate) fn leading(found: impl Into<String>, link: String) -> Self {
        Self { link: Some(link), ..Self::fine(found) }
    }

    /// It works, but probably not as intended.
    pub(crate) fn doubtful(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { grade: Grade::Doubtful, found: found.into(), remedy: remedy.into(), link: None }
    }

    pub(crate) fn bad(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { grade: Grade::Bad, found: found.into(), remedy: remedy.into(), link: None }
    }
}

/// A chat or user name, cleaned up for one line.
pub(crate) fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(60).collect()
}
