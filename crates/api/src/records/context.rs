//! The record of a channel's window: `cairn context`.

use cairn_core::agent::{AgentSettings, WindowSource};
use cairn_core::conversation::Conversation;
use cairn_core::engine;
use cairn_core::window::{self, LookupTools, Regions};
use cairn_types::event::{Run, RunReport, Trigger};
use cairn_types::ids::{AgentId, ChannelId, Generation, MemoryId, RunId, Seq, SummaryId};
use cairn_types::memory::MemoryKind;
use cairn_types::message::{Artifact, Role};
use cairn_types::summary::{Marker, Summary};
use cairn_types::tier::Tier;
use cairn_types::tokens::Correction;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::records::history::ArtifactsRecord;

/// The window of a channel. Tokens are after correction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    pub channel: ChannelId,
    pub agent: AgentId,
    /// The context engine, which decides what is in the window.
    #[serde(default)]
    pub engine: EngineRecord,
    /// The model that answers, by its id in the configuration.
    pub model: String,
    /// Why this model answers, if another one answered in the channel before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_reason: Option<String>,
    /// The model to whose window the history keeps, if another one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_of: Option<String>,
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    pub window_source: WindowSource,
    /// Tokens of the window reserved for the answer.
    pub output_reserve_tokens: u64,
    /// The current generation.
    pub generation: Generation,
    /// Window tokens / (window − output reserve), unrounded.
    pub usage_ratio: f64,
    /// The tier of that ratio.
    pub tier: Tier,
    pub thresholds: Thresholds,
    pub regions: Regions,
    /// Tool results and messages that are sent shortened.
    #[serde(default)]
    pub pruned: PrunedRecord,
    /// The summaries of the stack, oldest first.
    pub summaries: Vec<SummaryRecord>,
    /// The markers of the stack, oldest first.
    pub markers: Vec<MarkerRecord>,
    /// The memories that were recalled for the last question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<WindowMemory>,
    pub run: Option<RunRecord>,
    /// The last runs that ended, oldest first.
    pub outcomes: Vec<RunReport>,
    /// How estimates are corrected by what the provider reports.
    pub correction: CorrectionRecord,
    /// Share of all input tokens that came from the provider's cache.
    pub cached_share: f64,
    /// Artifacts: large tool results and messages that are stored outside of the window.
    #[serde(default)]
    pub artifacts: ArtifactsRecord,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// Its name in the configuration.
    pub id: String,
    pub name: String,
    pub version: String,
    /// It makes room itself, without compaction runs.
    pub owns_compaction: bool,
}

/// The usage ratios at which the tiers start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    pub background: f64,
    pub aggressive: f64,
    pub emergency: f64,
}

/// Tool results and messages that are sent shortened. Regions count what is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedRecord {
    pub results: u64,
    /// Messages that are larger than the window allows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
    /// Tokens saved in the window, after correction.
    pub tokens_won: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    pub id: SummaryId,
    /// Its level, from 0.
    pub level: u32,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub from_at: Timestamp,
    pub to_at: Timestamp,
    /// Tokens in the window.
    pub tokens: u64,
    /// The model that wrote it, or `digest`.
    pub made_by: String,
    pub text: String,
    /// Identifiers of its source, verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identifiers: Vec<String>,
    /// No model could write it. It will be replaced when a model is available.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkerRecord {
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowMemory {
    pub id: MemoryId,
    /// Its current kind; `None`: it was forgotten since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    pub trigger: Trigger,
    pub tier: Tier,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub started_at: Timestamp,
    /// The current attempt, from 1.
    pub attempt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CorrectionRecord {
    pub estimated: u64,
    /// Running sum of what the provider reported for them.
    pub reported: u64,
    /// The factor by which estimates are multiplied.
    pub ratio: f64,
}

impl ContextRecord {
    /// Which model answers, and why, where another one did before.
    pub fn answers(&self) -> Option<String> {
        let why = self.model_reason.as_ref()?;
        let stays = self.window_of.as_ref().map(|model| format!("; the window stays that of {model}"));
        Some(format!("{} answers: {why}{}", self.model, stays.unwrap_or_default()))
    }

    /// The window of a conversation, measured as its next request would be. `agent`: the settings to whose window the history
    /// keeps; `answering`: the model that answers. `artifacts`: those that have not expired.
    pub fn of(
        conversation: &Conversation,
        agent: &AgentSettings,
        answering: &str,
        artifacts: &[Artifact],
    ) -> Self {
        let gauge = window::measure(conversation, agent);
        let correction = conversation.correction(&agent.model);
        let total = conversation.usage_total;
        let cached_share = match total.input_tokens {
            0 => 0.0,
            input_tokens => total.cached_tokens as f64 / input_tokens as f64,
        };
        Self {
            channel: conversation.channel.clone(),
            agent: conversation.channel.agent(),
            engine: EngineRecord::of(agent),
            model: answering.to_owned(),
            model_reason: conversation
                .model_reason
                .clone()
                .filter(|_| conversation.model.as_deref() == Some(answering)),
            window_of: (answering != agent.model).then(|| agent.model.clone()),
            window_tokens: agent.window.window_tokens,
            window_source: agent.window.source,
            output_reserve_tokens: agent.window.output_reserve_tokens,
            generation: conversation.generation,
            usage_ratio: gauge.usage_ratio,
            tier: gauge.tier,
            thresholds: Thresholds {
                background: agent.compaction.background_threshold,
                aggressive: agent.compaction.aggressive_threshold,
                emergency: agent.compaction.emergency_threshold,
            },
            regions: gauge.regions,
            pruned: PrunedRecord::of(conversation, &correction),
            summaries: conversation
                .stack
                .summaries()
                .map(|summary| SummaryRecord::of(summary, &correction))
                .collect(),
            markers: conversation.stack.markers().map(|marker| MarkerRecord::of(marker, agent)).collect(),
            recalled: conversation.recalled.iter().cloned().map(WindowMemory::of).collect(),
            run: conversation.run.as_ref().map(RunRecord::of),
            outcomes: conversation.outcomes.iter().cloned().collect(),
            correction: CorrectionRecord {
                estimated: correction.estimated.round() as u64,
                reported: correction.reported.round() as u64,
                ratio: correction.ratio,
            },
            cached_share,
            artifacts: ArtifactsRecord::of(artifacts),
        }
    }

    /// Window less output reserve: the denominator of usage.
    pub fn usable_tokens(&self) -> u64 {
        self.window_tokens.saturating_sub(self.output_reserve_tokens).max(1)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl PrunedRecord {
    fn of(conversation: &Conversation, correction: &Correction) -> Self {
        let pruned = conversation.live.iter().filter(|entry| conversation.pruned.contains_key(&entry.seq));
        let (mut results, mut messages, mut won) = (0, 0, 0);
        for entry in pruned {
            let n = if entry.role == Role::User { &mut messages } else { &mut results };
            *n += 1;
            won += u64::from(entry.tokens).saturating_sub(conversation.weight(entry));
        }
        Self { results, messages, tokens_won: correction.apply(won) }
    }
}

impl EngineRecord {
    fn of(agent: &AgentSettings) -> Self {
        let Some(engine) = engine::by_name(&agent.engine) else {
            return Self { id: agent.engine.clone(), ..Self::default() };
        };
        let info = engine.info();
        Self {
            id: info.id.to_owned(),
            name: info.name.to_owned(),
            version: info.version.to_owned(),
            owns_compaction: info.owns_compaction,
        }
    }
}

impl SummaryRecord {
    fn of(summary: &Summary, correction: &Correction) -> Self {
        Self {
            id: summary.id.clone(),
            level: summary.level,
            from_seq: summary.from_seq,
            to_seq: summary.to_seq,
            from_at: summary.from_at,
            to_at: summary.to_at,
            tokens: correction.apply(u64::from(summary.tokens)),
            made_by: summary.made_by.clone(),
            text: summary.text.clone(),
            identifiers: summary.identifiers.clone(),
            provisional: summary.provisional,
        }
    }
}

impl WindowMemory {
    fn of(id: MemoryId) -> Self {
        Self { id, kind: None, text: None }
    }
}

impl MarkerRecord {
    fn of(marker: &Marker, agent: &AgentSettings) -> Self {
        Self {
            from_seq: marker.from_seq,
            to_seq: marker.to_seq,
            messages: marker.messages,
            text: window::marker_text(marker, LookupTools::of(&agent.tools)),
        }
    }
}

impl RunRecord {
    fn of(run: &Run) -> Self {
        Self {
            id: run.id.clone(),
            trigger: run.trigger,
            tier: run.tier,
            from_seq: run.from_seq,
            to_seq: run.to_seq,
            started_at: run.started_at,
            attempt: run.attempt,
        }
    }
}
