//! What an agent is, as far as decisions need to know.

use crate::conversation::{Conversation, Learnt};
use crate::ids::AgentId;
use crate::settings::{
    CompactionSettings, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use crate::tool_defs::ToolDefs;
use crate::trust::TrustSettings;

/// An agent's settings on one model of its chain, resolved from the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    pub id: AgentId,
    /// Its system prompt, rendered once per load: nothing volatile in it.
    pub system_prompt: String,
    /// Its compaction prompt, rendered once per load.
    pub compactor_prompt: String,
    /// The window and where it comes from.
    pub window: WindowSize,
    pub compaction: CompactionSettings,
    pub pruning: PruningSettings,
    pub result_guard: ResultGuardSettings,
    /// When a discovered window is too small.
    pub window_guard: WindowGuard,
    /// The context engine, by its name in [`crate::engine`].
    pub engine: String,
    /// The model that answers, by its id in the configuration.
    pub model: String,
    /// Seconds after a request for which the model's provider keeps its prefix in a cache.
    pub cache_ttl_secs: u64,
    pub tools: ToolDefs,
    /// Whom it trusts, and who may say yes.
    pub trust: TrustSettings,
    /// Most memories recalled into a window.
    pub recall_limit: usize,
    pub memory: MemorySettings,
    pub max_rounds: u32,
    /// The time zone in which dates are shown to the model; an IANA name.
    pub timezone: String,
}

impl AgentSettings {
    /// The same with what was learnt of the model in that conversation: a smaller window, no tools.
    pub fn knowing(&self, conversation: &Conversation) -> Option<Self> {
        let learnt = conversation.learnt.get(&self.model)?;
        let mut settings = self.clone();
        settings.learn(learnt);
        (settings != *self).then_some(settings)
    }

    fn learn(&mut self, learnt: &Learnt) {
        if let Some(tokens) =
            learnt.window(self.window.window_tokens).filter(|tokens| *tokens < self.window.window_tokens)
        {
            self.window = self.window.narrowed(tokens);
        }
        if learnt.no_tools {
            self.tools = ToolDefs::default();
        }
    }
}

/// The size of the window, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    /// Tokens of it kept for the answer.
    pub output_reserve_tokens: u64,
    pub source: WindowSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// The agent's own `context_window`.
    Agent,
    /// The model's `context_window`.
    Model,
    Server,
    /// `[defaults]`.
    Defaults,
    /// The model's server, by refusing a request that was larger.
    Learnt,
}

impl WindowSource {
    pub fn origin(self) -> &'static str {
        match self {
            Self::Agent => "set by the agent",
            Self::Model => "set by the model",
            Self::Server => "listed by the model's server",
            Self::Defaults => "of [defaults]",
            Self::Learnt => "learnt from a refusal of the model's server",
        }
    }
}

/// Largest output reserve when `max_output_tokens` is not set.
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

    /// The same window at that size, which the model's server has named. The reserve keeps its share at most.
    pub fn narrowed(&self, window_tokens: u64) -> Self {
        let reserve = self.output_reserve_tokens.min(window_tokens / 2);
        Self {
            window_tokens: window_tokens.max(1),
            output_reserve_tokens: reserve,
            source: WindowSource::Learnt,
        }
    }

    /// The size of the window at which a request may take exactly so many tokens, when it is narrowed to that.
    pub fn holding(&self, usable_tokens: u64) -> u64 {
        usable_tokens + self.output_reserve_tokens.min(usable_tokens)
    }

    /// Tokens that a request may take: the denominator of usage.
    pub fn usable_tokens(&self) -> u64 {
        (self.window_tokens - self.output_reserve_tokens).max(1)
    }
}
