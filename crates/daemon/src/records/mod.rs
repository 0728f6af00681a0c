//! The records that `--json` and the admin API show. Their names and shapes are a promise to scripts.

mod context;
mod coverage;
mod explain;
mod history;
mod memories;
mod people;
mod prompts;
mod status;
mod summaries;
#[cfg(test)]
mod tests;
mod tools;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::NothingToCompact;
use cairn_core::conversation::Conversation;
use cairn_core::window;
use cairn_store::ChannelLine;
use cairn_types::event::{RunOutcome, RunReport};
use cairn_types::ids::{AgentId, ChannelId, Generation, RunId};
use cairn_types::tier::Tier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use context::{ContextRecord, MarkerRecord, SummaryRecord, WindowMemory};
pub(crate) use coverage::{Stretch, coverage};
pub use explain::{
    CallOf, CallRecord, Change, Explanation, FailedAttempt, LineDiff, PromptDiff, PromptRecord,
    RecalledRecord, RegionDiff, RegionRecord, RunExplanation, SaidRecord, StageRecord, StandsRecord,
    ToolCallRecord,
};
pub(crate) use explain::{stands, turn_outcome};
pub(crate) use history::cut_words;
pub use history::{ArtifactPage, ArtifactRecord, EndRecord, EntryRecord, pending_records};
pub use memories::{MemoryChanged, MemoryStep, MemoryUse, MemoryView};
pub use people::{
    BanRecord, BanRequest, ErasuresRecord, ForgetRecord, ForgetRequest, PairingRecord, RetainRecord,
    RetainRequest,
};
pub(crate) use prompts::{prompt_diff, regions};
pub use status::{
    AgentStatus, ChainStatus, DrainRecord, Identity, NodeStatus, OutboxRecord, SpendStatus, StatusRecord,
    StoreStatus, agent_statuses,
};
pub(crate) use summaries::lines as summary_lines;
pub use summaries::{LeftOutRecord, SummaryLine, SummaryState, SummaryView};
pub use tools::{ApprovalRecord, ServerRecord, ServerView, ToolRecord, ToolUseRecord};

/// Whether a channel's actor is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wakefulness {
    Awake,
    Asleep,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    pub channel: ChannelId,
    pub agent: AgentId,
    pub platform: String,
    pub state: Wakefulness,
    /// Entries of its history, of all generations.
    pub entries: u64,
    /// Window tokens / (window − output reserve).
    pub usage_ratio: f64,
    /// The tier of that ratio.
    pub tier: Tier,
    pub summaries: u64,
    /// When anything last happened in it.
    pub last_at: Timestamp,
}

impl ChannelRecord {
    pub fn of(
        line: ChannelLine,
        state: Wakefulness,
        (usage_ratio, tier): (f64, Tier),
        summaries: u64,
    ) -> Self {
        let ChannelLine { channel, last_at, entries, outline: _ } = line;
        let (agent, platform) = (channel.agent(), channel.platform().to_owned());
        Self { channel, agent, platform, state, entries, usage_ratio, tier, summaries, last_at }
    }
}

/// How full a channel's window is, and what is done about it: the answer of `POST …/wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaugeRecord {
    /// Window tokens / (window − output reserve).
    pub usage_ratio: f64,
    /// The tier of that ratio.
    pub tier: Tier,
    pub run: Option<RunId>,
    pub summaries: u64,
    /// Emergencies in the channel so far.
    pub emergencies: u64,
    /// The last ends of runs, oldest first.
    pub outcomes: Vec<RunReport>,
}

impl GaugeRecord {
    pub fn of(conversation: &Conversation, agent: &AgentSettings) -> Self {
        let gauge = window::measure(conversation, agent);
        Self {
            usage_ratio: gauge.usage_ratio,
            tier: gauge.tier,
            run: conversation.run.as_ref().map(|run| run.id.clone()),
            summaries: conversation.stack.summaries().count() as u64,
            emergencies: conversation.emergencies,
            outcomes: conversation.outcomes.iter().cloned().collect(),
        }
    }
}

/// The answer of `POST …/compact`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactRecord {
    /// The run; none when there is nothing to compact.
    pub run: Option<RunId>,
    /// How it ended, when that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The end of it, when that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunReport>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// The summary that it came to, when it was waited for and committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The room that was made at once, by a context engine without runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<RoomRecord>,
    /// Why there is nothing to compact, in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<NothingToCompact>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomRecord {
    pub messages: u64,
    /// Window tokens before, after correction.
    pub tokens_before: u64,
    /// Window tokens after, after correction.
    pub tokens_after: u64,
}

/// The answer of `POST …/new`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewGenerationRecord {
    pub channel: ChannelId,
    /// The generation that begins.
    pub generation: Generation,
}

/// The answer of `POST …/stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    pub channel: ChannelId,
    /// A turn was under way and is stopped.
    pub stopped: bool,
}
