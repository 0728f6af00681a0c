//! What an agent is, as far as decisions need to know.

mod limits;

pub use limits::RuntimeLimits;

use crate::conversation::{Conversation, Learnt};
use crate::settings::{
    CompactionSettings, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use crate::trust::TrustSettings;
use crate::window::frame_tokens;
use cairn_types::ids::AgentId;
use cairn_types::tool::defs::ToolDefs;

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
    /// How far it grows, where nothing is known of the model's window.
    pub growth: Option<Growth>,
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
    /// The same on a model of whose window nothing is known: it begins small and grows up to this one.
    #[must_use]
    pub fn assuming(mut self, max_output_tokens: Option<u64>) -> Self {
        let (frame_tokens, most_tokens) = (frame_tokens(&self), self.window.window_tokens);
        let growth = Growth { frame_tokens, most_tokens, max_output_tokens };
        (self.window, self.growth) = (growth.window(0), Some(growth));
        self
    }

    /// The same with what is known of the model in that conversation: a window that has grown, or a smaller one, no tools.
    pub fn knowing(&self, conversation: &Conversation) -> Option<Self> {
        let learnt = conversation.learnt.get(&self.model);
        let window = self.window_with(learnt, taken_in(conversation, &self.model));
        let no_tools = learnt.is_some_and(|learnt| learnt.no_tools) && !self.tools.is_empty();
        if window == self.window && !no_tools {
            return None;
        }
        let mut settings = Self { window, ..self.clone() };
        if no_tools {
            settings.tools = ToolDefs::default();
        }
        Some(settings)
    }

    /// The window without what was learnt of it: as it is set or listed, or as far as it has grown.
    pub fn grown(&self, conversation: &Conversation) -> WindowSize {
        self.window_with(None, taken_in(conversation, &self.model))
    }

    /// The window with what is known of the model: as far as it has grown, or a smaller one that was learnt. `taken`: the largest
    /// request that its server took, in tokens.
    pub fn window_with(&self, learnt: Option<&Learnt>, taken: u64) -> WindowSize {
        let window = self.growth.map_or(self.window, |growth| growth.window(taken));
        let tokens = learnt.and_then(|learnt| learnt.window(self.window.window_tokens));
        match learnt.zip(tokens).filter(|(_, tokens)| *tokens < window.window_tokens) {
            Some((learnt, tokens)) => WindowSize { source: learnt.source(), ..window.narrowed(tokens) },
            None => window,
        }
    }
}

fn taken_in(conversation: &Conversation, model: &str) -> u64 {
    conversation.bounds.get(model).map_or(0, |bounds| bounds.taken)
}

impl Learnt {
    fn source(&self) -> WindowSource {
        if self.cut { WindowSource::Cut } else { WindowSource::Learnt }
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
    /// Nobody has: the server is nearby and lists none, and the window grows with what it takes.
    Assumed,
    /// The model's server, by refusing a request that was larger.
    Learnt,
    /// The model's server, by cutting a request that was larger.
    Cut,
}

impl WindowSource {
    pub fn origin(self) -> &'static str {
        match self {
            Self::Agent => "set by the agent",
            Self::Model => "set by the model",
            Self::Server => "listed by the model's server",
            Self::Defaults => "of [defaults]",
            Self::Assumed => "assumed; it grows with what the model's server takes",
            Self::Learnt => "learnt from a refusal of the model's server",
            Self::Cut => "learnt: the model's server silently cuts larger requests",
        }
    }

    /// Somebody has written it into the configuration.
    pub fn is_set(self) -> bool {
        matches!(self, Self::Agent | Self::Model)
    }
}

/// The window that a model of a server nearby begins with, where nothing is known of it. Ollama, the most common one, serves
/// 4,096 tokens on small machines (<https://docs.ollama.com/context-length>); less than twice that leaves no room for a
/// conversation beside the tools.
pub const ASSUMED_WINDOW: u64 = 8_192;

/// How a window grows of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Tokens that every request has, before correction: no smaller window can be of use.
    frame_tokens: u64,
    /// The largest window that it becomes.
    most_tokens: u64,
    /// `max_output_tokens` of the model.
    max_output_tokens: Option<u64>,
}

impl Growth {
    /// The window of a model whose largest request had so many tokens, as its server counted them: at least twice that, so
    /// that the next one has room to be larger. It grows in few steps, since requests name its reserve.
    fn window(self, taken: u64) -> WindowSize {
        let half = taken.max(self.frame_tokens).max(self.max_output_tokens.unwrap_or(0));
        let mut window_tokens = ASSUMED_WINDOW;
        while window_tokens < self.most_tokens && window_tokens / 2 < half {
            window_tokens = window_tokens.saturating_mul(2);
        }
        let window_tokens = window_tokens.min(self.most_tokens);
        let size =
            WindowSize::resolve(Some(window_tokens), None, None, window_tokens, self.max_output_tokens);
        WindowSize { source: WindowSource::Assumed, ..size }
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

    /// Its size, where the configuration sets it; else 0.
    pub fn set_tokens(&self) -> u64 {
        if self.source.is_set() { self.window_tokens } else { 0 }
    }

    /// Its size, where the model's server says it; else 0.
    pub fn listed_tokens(&self) -> u64 {
        if self.source == WindowSource::Server { self.window_tokens } else { 0 }
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing::agent;
    use cairn_types::ids::ChannelId;
    use cairn_types::window_bounds::WindowBounds;

    #[rstest]
    #[case::nothing_is_proved(None, 0, 8_192, 2_048)]
    #[case::half_of_it(None, 4_096, 8_192, 2_048)]
    #[case::more_than_half(None, 4_097, 16_384, 4_096)]
    #[case::much_more(None, 20_000, 65_536, 16_384)]
    #[case::all(None, 90_000, 128_000, 32_000)]
    #[case::a_set_reserve_stays(Some(512), 20_000, 65_536, 512)]
    #[case::a_long_answer_needs_room(Some(10_000), 0, 32_768, 10_000)]
    fn an_assumed_window_grows_with_what_the_server_has_taken(
        #[case] max_output_tokens: Option<u64>,
        #[case] taken: u64,
        #[case] window_tokens: u64,
        #[case] output_reserve_tokens: u64,
    ) {
        let settings = agent(128_000, 32_000).assuming(max_output_tokens);
        let mut conversation = Conversation::new(ChannelId::local(&settings.id, "c").unwrap());
        let bounds = WindowBounds { taken, ..WindowBounds::default() };
        conversation.bounds.insert(settings.model.clone(), bounds);
        let known = settings.knowing(&conversation).unwrap_or(settings);
        let expected = WindowSize { window_tokens, output_reserve_tokens, source: WindowSource::Assumed };
        assert_eq!(known.window, expected);
    }

    #[test]
    fn an_assumed_window_holds_prompt_and_tools_twice() {
        let mut settings = agent(128_000, 32_000);
        settings.system_prompt = "apples and pears ".repeat(6_000);
        assert_eq!(settings.assuming(None).window.window_tokens, 32_768);
    }

    #[rstest]
    #[case::of_the_assumed_size(8_192, 6_000, WindowSource::Learnt)]
    #[case::of_another_size(32_000, 65_536, WindowSource::Assumed)]
    fn what_was_learnt_bounds_growth(
        #[case] window_of: u64,
        #[case] window_tokens: u64,
        #[case] source: WindowSource,
    ) {
        let settings = agent(128_000, 32_000).assuming(None);
        let mut conversation = Conversation::new(ChannelId::local(&settings.id, "c").unwrap());
        let bounds = WindowBounds { taken: 20_000, ..WindowBounds::default() };
        conversation.bounds.insert(settings.model.clone(), bounds);
        let window_of = Some(window_of);
        let learnt = Learnt { window_tokens: Some(6_000), window_of, ..Learnt::default() };
        conversation.learnt.insert(settings.model.clone(), learnt);
        let window = settings.knowing(&conversation).unwrap().window;
        assert_eq!((window.window_tokens, window.source), (window_tokens, source));
    }
}
