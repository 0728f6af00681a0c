//! What an agent is, as far as decisions need to know.

use crate::ids::AgentId;
use crate::model::ToolDef;
use crate::tier::CompactionSettings;

/// An agent's settings, resolved from the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    /// Its name.
    pub id: AgentId,
    /// Its system prompt, rendered once per load: nothing volatile in it.
    pub system_prompt: String,
    /// Its compaction prompt, rendered once per load.
    pub compactor_prompt: String,
    /// The window and where it comes from.
    pub window: WindowSize,
    /// Compaction.
    pub compaction: CompactionSettings,
    /// The model that answers, by its id in the configuration.
    pub model: String,
    /// Tools that the model may call.
    pub tools: Vec<ToolDef>,
    /// Most memories recalled into a window.
    pub recall_limit: usize,
    /// Most model calls of one turn.
    pub max_rounds: u32,
    /// The time zone in which dates are shown to the model; an IANA name.
    pub timezone: String,
}

/// The size of the window, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    /// Tokens of it kept for the answer.
    pub output_reserve_tokens: u64,
    /// Who set it.
    pub source: WindowSource,
}

/// Who set the size of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// The agent's own `context_window`.
    Agent,
    /// The model's `context_window`.
    Model,
    /// The list of the model's server.
    Server,
    /// `[defaults]`.
    Defaults,
}

/// Largest output reserve when `max_output_tokens` is not set (CONTRACT.md).
pub const OUTPUT_RESERVE_MAX: u64 = 32_000;

impl WindowSize {
    /// The smallest of those set explicitly on agent and model; else what the server lists; else the default. The
    /// reserve is `max_output_tokens`, or the smaller of 32,000 and a quarter of the window.
    pub fn resolve(
        agent: Option<u64>,
        model: Option<u64>,
        server: Option<u64>,
        default: u64,
        max_output_tokens: Option<u64>,
    ) -> Self {
        let (window_tokens, source) = match (agent, model, server) {
            (Some(agent), Some(model), _) if model < agent => (model, WindowSource::Model),
            (Some(agent), _, _) => (agent, WindowSource::Agent),
            (None, Some(model), _) => (model, WindowSource::Model),
            (None, None, Some(server)) => (server, WindowSource::Server),
            (None, None, None) => (default, WindowSource::Defaults),
        };
        let reserve = max_output_tokens.unwrap_or_else(|| (window_tokens / 4).min(OUTPUT_RESERVE_MAX));
        Self { window_tokens, output_reserve_tokens: reserve.min(window_tokens.saturating_sub(1)), source }
    }

    /// Tokens that a request may take: the denominator of usage.
    pub fn usable_tokens(&self) -> u64 {
        (self.window_tokens - self.output_reserve_tokens).max(1)
    }
}
