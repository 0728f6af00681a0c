//! An agent's settings, as decisions need them.

mod limits;

pub use crate::window_size::{ASSUMED_WINDOW, Growth, OUTPUT_RESERVE_MAX, WindowSize, WindowSource};
pub use limits::RuntimeLimits;

use std::sync::Arc;

use crate::conversation::{Conversation, Learnt};
use crate::settings::{
    CompactionSettings, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use crate::trust::TrustSettings;
use crate::window::frame_tokens;
use cairn_types::ids::AgentId;
use cairn_types::texts::{Languages, Texts};
use cairn_types::tool::defs::ToolDefs;

/// An agent's settings on one model of its chain, resolved from the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    pub id: AgentId,
    /// The system prompt, rendered once per load. It contains nothing volatile.
    pub system_prompt: String,
    /// The compaction prompt, rendered once per load.
    pub compactor_prompt: String,
    /// The size of the window, and where it comes from.
    pub window: WindowSize,
    /// How the window grows, if nothing is known of the model's.
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
    /// Whom the agent trusts, and who may approve.
    pub trust: TrustSettings,
    /// Most memories recalled into a window.
    pub recall_limit: usize,
    /// Most tokens of entries that left the window and are quoted at its end.
    pub quote_tokens: u32,
    pub memory: MemorySettings,
    pub max_rounds: u32,
    /// Messages that people send while tools are called for them join the turn.
    pub mid_turn_messages: bool,
    /// The time zone of dates that are shown to the model; an IANA name.
    pub timezone: String,
    /// What the bot itself says in chats.
    pub languages: Languages,
}

impl AgentSettings {
    /// The texts for a conversation: in the language of its place, else in the agent's.
    pub fn texts(&self, conversation: &Conversation) -> &Arc<Texts> {
        self.languages.of(conversation.language.as_deref())
    }

    /// Sets a window that starts small and grows up to the current one, since nothing is known of the model's window.
    #[must_use]
    pub fn assuming(mut self, max_output_tokens: Option<u64>) -> Self {
        let (frame_tokens, most_tokens) = (frame_tokens(&self), self.window.window_tokens);
        let growth = Growth { frame_tokens, most_tokens, max_output_tokens };
        (self.window, self.growth) = (growth.window(0), Some(growth));
        self
    }

    /// The settings adjusted to what the conversation knows of the model: a grown or a smaller window, no tools. `None`:
    /// nothing changes.
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

    /// The window without what was learnt of it: as set or listed, or as far as it has grown.
    pub fn grown(&self, conversation: &Conversation) -> WindowSize {
        self.window_with(None, taken_in(conversation, &self.model))
    }

    /// The window with what is known of the model: as far as it has grown, or a smaller one that was learnt. `taken`: the
    /// largest request that its server took, in tokens.
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
