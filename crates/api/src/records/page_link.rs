//! Links to the page: `cairn ui`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What somebody at the page may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See everything, change nothing.
    Read,
    Operate,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

/// A link to the page: the answer of `POST /v1/page/links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLink {
    /// It has the code in its fragment, which no browser sends to a server.
    pub url: String,
    /// The page, for who pastes the code.
    pub page: String,
    pub code: String,
    pub scope: Scope,
    pub until: Timestamp,
}
