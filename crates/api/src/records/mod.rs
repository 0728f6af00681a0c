//! The records that `--json` and the admin API show. Scripts rely on their names and shapes.

mod context;
mod coverage;
mod explain;
mod history;
mod memories;
mod page_link;
mod people;
mod prompts;
mod reload;
mod reminders;
mod status;
mod summaries;
#[cfg(test)]
mod tests;
mod tools;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::NothingToCompact;
use cairn_core::conversation::Conversation;
use cairn_core::store_port::ChannelLine;
use cairn_core::window;
use cairn_types::event::{RunOutcome, RunReport};
use cairn_types::ids::{AgentId, ChannelId, Generation, RunId};
use cairn_types::tier::Tier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use context::ContextRecord;
pub use context::MarkerRecord;
pub use context::SummaryRecord;
pub use context::WindowMemory;
pub use coverage::Stretch;
pub use coverage::coverage;
pub use explain::CallOf;
pub use explain::CallRecord;
pub use explain::Change;
pub use explain::Explanation;
pub use explain::FailedAttempt;
pub use explain::LineDiff;
pub use explain::PromptDiff;
pub use explain::PromptRecord;
pub use explain::RegionDiff;
pub use explain::RegionRecord;
pub use explain::RunExplanation;
pub use explain::SaidRecord;
pub use explain::StageRecord;
pub use explain::StandsRecord;
pub use explain::ToolCallRecord;
pub use explain::stands;
pub use explain::turn_outcome;
pub use explain::{QuoteRecord, RecalledRecord};
pub use history::ArtifactPage;
pub use history::ArtifactRecord;
pub use history::EndRecord;
pub use history::EntryRecord;
pub use history::FileRecord;
pub use history::PartRecord;
pub use history::ReactionRecord;
pub use history::cut_words;
pub use history::pending_records;
pub use memories::MemoryChanged;
pub use memories::MemoryStep;
pub use memories::MemoryUse;
pub use memories::MemoryView;
pub use page_link::{PageLink, Scope};
pub use people::BanRecord;
pub use people::BanRequest;
pub use people::ErasuresRecord;
pub use people::ForgetRecord;
pub use people::ForgetRequest;
pub use people::PairingRecord;
pub use people::RetainRecord;
pub use people::RetainRequest;
pub use people::{PrivateRecord, PrivateRequest};
pub use prompts::line_diff;
pub use prompts::prompt_diff;
pub use prompts::regions;
pub use reload::{KeyChange, Reloaded};
pub use reminders::{ReminderRecord, ReminderRequest};
pub use status::AgentStatus;
pub use status::ChainStatus;
pub use status::DrainRecord;
pub use status::EmbeddedStatus;
pub use status::Identity;
pub use status::NodeStatus;
pub use status::OutboxRecord;
pub use status::PairingCounts;
pub use status::SpendStatus;
pub use status::StatusRecord;
pub use status::StoreStatus;
pub use status::{AWAKE_SECS, CHANGING, STANDBY};
pub use summaries::LeftOutRecord;
pub use summaries::SummaryLine;
pub use summaries::SummaryState;
pub use summaries::SummaryView;
pub use summaries::lines as summary_lines;
pub use tools::ApprovalRecord;
pub use tools::ServerRecord;
pub use tools::ServerView;
pub use tools::ToolRecord;
pub use tools::ToolUseRecord;

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
    /// What people see as the name of the chat; `None` where its platform gave none.
    #[serde(default)]
    pub name: Option<String>,
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
        name: Option<String>,
    ) -> Self {
        let ChannelLine { channel, last_at, entries, outline: _ } = line;
        let (agent, platform) = (channel.agent(), channel.platform().to_owned());
        Self { channel, agent, platform, name, state, entries, usage_ratio, tier, summaries, last_at }
    }
}

/// How full a channel's window is, and its compaction runs: the answer of `POST …/wait`.
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
    /// The last runs that ended, oldest first.
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
    /// The run; `None`: there is nothing to compact, or the engine has no runs.
    pub run: Option<RunId>,
    /// How it ended, if the request waited for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The record of its end, if the request waited for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunReport>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Its summary, if the request waited for the end and it was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The room that a context engine without runs made immediately.
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
    /// The new generation.
    pub generation: Generation,
}

/// The answer of `POST …/stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    pub channel: ChannelId,
    /// A turn was running and was stopped.
    pub stopped: bool,
}
