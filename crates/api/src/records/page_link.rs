//! Links to the page: `cairn ui`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the holder of a link may do at the page.
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
    /// The link. Its fragment has the code, which no browser sends to a server.
    pub url: String,
    /// The page without the code, for people who paste the code.
    pub page: String,
    pub code: String,
    pub scope: Scope,
    pub until: Timestamp,
}
