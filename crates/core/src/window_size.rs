//! The size of a model's window, its source, and how an unknown window grows.

/// The size of a window, and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    /// Tokens reserved for the answer.
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
    /// Assumed: the server is local and lists no window. It grows with what the server takes.
    Assumed,
    /// Named by the model's server when it refused a larger request.
    Learnt,
    /// Found when the model's server cut a larger request.
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

    /// Whether it is set in the configuration.
    pub fn is_set(self) -> bool {
        matches!(self, Self::Agent | Self::Model)
    }
}

/// The window that is assumed at first for a model of a local server that lists none. Ollama, the most common one, serves
/// 4,096 tokens on small machines (<https://docs.ollama.com/context-length>); less than twice that leaves no room for a
/// conversation beside the tools.
pub const ASSUMED_WINDOW: u64 = 8_192;

/// How an unknown window grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Tokens of every request, before correction: a smaller window would be useless.
    pub(crate) frame_tokens: u64,
    /// The largest window that it may become.
    pub(crate) most_tokens: u64,
    /// The model's `max_output_tokens`.
    pub(crate) max_output_tokens: Option<u64>,
}

impl Growth {
    /// The window after a largest request of this many tokens by the server's count: at least twice that, so that the next
    /// one may be larger. It grows in few steps, since requests include its reserve.
    pub(crate) fn window(self, taken: u64) -> WindowSize {
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

/// Largest output reserve if `max_output_tokens` is not set.
pub const OUTPUT_RESERVE_MAX: u64 = 32_000;

impl WindowSize {
    /// Resolves the window: the smaller one of those set on agent and model, else what the server lists, else the default.
    /// The reserve is `max_output_tokens`, or the smaller of 32,000 and a quarter of the window.
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

    /// The window at a size that the model's server has named. The reserve keeps at most its share.
    pub fn narrowed(&self, window_tokens: u64) -> Self {
        let reserve = self.output_reserve_tokens.min(window_tokens / 2);
        Self {
            window_tokens: window_tokens.max(1),
            output_reserve_tokens: reserve,
            source: WindowSource::Learnt,
        }
    }

    /// The size, if it is set in the configuration; else 0.
    pub fn set_tokens(&self) -> u64 {
        if self.source.is_set() { self.window_tokens } else { 0 }
    }

    /// The size, if the model's server lists it; else 0.
    pub fn listed_tokens(&self) -> u64 {
        if self.source == WindowSource::Server { self.window_tokens } else { 0 }
    }

    /// The size to narrow the window to, so that a request may take exactly this many tokens.
    pub fn holding(&self, usable_tokens: u64) -> u64 {
        usable_tokens + self.output_reserve_tokens.min(usable_tokens)
    }

    /// Tokens that a request may take: the denominator of usage.
    pub fn usable_tokens(&self) -> u64 {
        (self.window_tokens - self.output_reserve_tokens).max(1)
    }
}
