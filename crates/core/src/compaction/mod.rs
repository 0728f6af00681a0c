//! Compaction: what to seal and when, what a result is worth, what an emergency drops.
//!
//! Nothing here changes a conversation: every function returns the events that the channel actor journals and
//! then applies.

mod commit;
mod emergency;
mod plan;
mod transcript;

use jiff::Timestamp;

use crate::memory::DraftMemory;

pub use commit::{Rejection, check, commit, fail_attempt, give_up, supersede};
pub use emergency::emergency;
pub use plan::{Decision, next_run, request_manual};
pub use transcript::{compaction_request, memory_save_tool};

/// What an attempt of a run has made.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The summary's text.
    pub text: String,
    /// The model that wrote it, or [`crate::summary::MADE_BY_DIGEST`].
    pub made_by: String,
    /// Memories collected in the run, in the order of their calls.
    pub memories: Vec<DraftMemory>,
}

/// What becomes of a run after a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The next attempt may begin at that time.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// Attempts are used up: the digest stands in.
    Digest,
}
