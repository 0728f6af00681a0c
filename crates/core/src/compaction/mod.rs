//! Compaction: what to seal and when, what a result is worth, what an emergency drops.
//!
//! Nothing here changes a conversation: every function returns the events that the channel actor journals and
//! then applies.

mod commit;
mod emergency;
mod extract;
pub mod identifiers;
mod plan;
mod review;
mod save;
pub mod sections;
mod stages;
mod transcript;

use jiff::Timestamp;

use crate::conversation::Conversation;
use cairn_types::event::{Event, Record};
use cairn_types::ids::Seq;
use cairn_types::memory::DraftMemory;

pub(crate) use commit::end_queued;
pub use commit::{Rejection, check, commit, fail_attempt, fit_identifiers, give_up, most_tokens};
pub(crate) use emergency::fewest;
pub use emergency::{emergency_on_overflow, relieve, relieve_on_overflow};
pub(crate) use extract::HEAD_TOKENS;
pub use extract::{
    digest_draft, entry_tokens, identifiers_beside, mask_for, masked, merged_level, summary_tokens,
    text_limit, verbatim_limit, with_left_out,
};
pub use plan::{Decision, NothingToCompact, next_run, over_budget, request_manual};
pub(crate) use plan::{closed_turns, compactable, compactable_by_number, compactable_on_request};
pub use review::{LeftOut, SummaryFault, SummarySource, check_told, left_out, mend, review};
pub use save::{memory_save_tool, parse_memory, split_memories};
pub use stages::{RequestRoom, next_chunk};
pub use transcript::{Beside, Brief, Chunk, Transcript, earlier_summary, earlier_within, request_tokens};

/// What an attempt of a run has made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryDraft {
    pub text: String,
    /// The model that wrote it, or [`cairn_types::summary::MADE_BY_DIGEST`].
    pub made_by: String,
    /// Memories collected in the run, in the order of their calls.
    pub memories: Vec<DraftMemory>,
    /// When the first and the last entry of its source were said; a merge takes those of its sources.
    pub dates: Option<(Timestamp, Timestamp)>,
    /// Identifiers of its source, to stand beside the text.
    pub identifiers: Vec<String>,
    /// Why it was made as it was: why no model made it.
    pub reason: Option<String>,
    /// The last entry that it stands for, where that is not its run's: the rest was given up.
    pub to_seq: Option<Seq>,
}

/// What becomes of a run after a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterFailure {
    /// The next attempt may begin at that time.
    Retry { at: Timestamp },
    /// Attempts are used up: the digest stands in, for a run that takes one ([`cairn_types::event::Run::takes_digest`]).
    Digest,
}

/// The conversation as it would be after the events: for weighing them before they are journalled.
pub(crate) fn after(conversation: &Conversation, events: &[Event]) -> Conversation {
    let mut then = conversation.clone();
    for event in events {
        let n = then.last_n + 1;
        let record = Record { n, at: then.last_at, channel: None, event: event.clone() };
        // An event that does not fit changes nothing, here as in the journal's own fold.
        let _unfit = then.apply(&record);
    }
    then
}
