//! Simulates the sizes of a conversation under other settings, without any model. Used by `cairn tune` and the page.

pub mod candidate;

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::tune::{
    self, Billing, ConversationSizes, Runs, ScriptEntry, ScriptTurn, TuneCandidate, TuneOutcome, TuneStep,
};
use cairn_types::event::RunReport;
use cairn_types::ids::{AgentId, TurnId};
use cairn_types::message::Role;
use cairn_types::tool::defs::ToolDef;
use cairn_types::wire::address::has_breakpoints;

use crate::{AgentConfig, Config, ModelConfig, Provider};

/// Why settings cannot be simulated.
#[derive(Debug)]
pub struct NotSimulated {
    pub message: String,
    pub hint: String,
}

/// The conversation to simulate, with what is known of its agent.
pub struct Source {
    pub script: ConversationSizes,
    pub agent: AgentId,
    /// The model that answers there.
    pub model: Option<String>,
    /// The window in force there.
    pub window: Option<WindowSize>,
    /// How the last runs there ended.
    pub runs: Vec<RunReport>,
}

/// Builds the script of a channel, entry by entry.
#[derive(Default)]
pub struct ChannelScript {
    turns: Vec<(TurnId, ScriptTurn)>,
}

impl ChannelScript {
    /// Adds the next entry.
    pub fn add(&mut self, entry: &ScriptEntry<'_>) {
        if self.turns.last().is_none_or(|(id, _)| id != entry.turn) {
            let turn = ScriptTurn { at: entry.at, generation: entry.generation.0, steps: Vec::new() };
            self.turns.push((entry.turn.clone(), turn));
        }
        if let Some((_, turn)) = self.turns.last_mut() {
            let tokens = u32::try_from(entry.tokens).unwrap_or(u32::MAX);
            add_step(&mut turn.steps, entry.role, tokens, entry.calls_tools);
        }
    }

    pub fn finish(self) -> ConversationSizes {
        ConversationSizes::new(self.turns.into_iter().map(|(_, turn)| turn).collect())
    }
}

/// Adds an entry to the steps of its turn.
pub fn add_step(steps: &mut Vec<TuneStep>, role: Role, tokens: u32, calls_tools: bool) {
    match role {
        Role::User => steps.push(TuneStep::Message { tokens }),
        Role::Assistant if calls_tools => steps.push(TuneStep::Call { tokens, results: Vec::new() }),
        Role::Assistant => steps.push(TuneStep::Answer { tokens }),
        Role::Tool => {
            if let Some(TuneStep::Call { results, .. }) = steps.last_mut() {
                results.push(tokens);
            }
        }
    }
}

/// The settings in force for the model that answers, its cache rules and prices, and a name for these.
pub fn current(
    config: &Config,
    agent: &AgentConfig,
    source: &Source,
    prices: Option<Provider>,
    tools: Vec<ToolDef>,
) -> (AgentSettings, Billing, String) {
    let model = source.model.as_deref().filter(|model| config.model(model).is_some());
    let model = model.unwrap_or(agent.model());
    let mut current = config.settings(agent, model, None, tools);
    if let Some(window) = source.window {
        current.window = window;
    }
    let (billing, prices) = billing(config, model, prices);
    current.cache_ttl_secs = billing.ttl_secs;
    (current, billing, prices)
}

/// Simulates each candidate.
///
/// # Errors
/// A candidate's window has no room for its prompt.
pub fn simulate(
    script: &ConversationSizes,
    candidates: Vec<TuneCandidate>,
    billing: &Billing,
    runs: &Runs,
) -> Result<Vec<(TuneCandidate, TuneOutcome)>, NotSimulated> {
    let simulate = |candidate: TuneCandidate| match tune::simulate(script, &candidate.settings, billing, runs)
    {
        Ok(outcome) => Ok((candidate, outcome)),
        Err(error) => {
            let message = format!("candidate `{}`: {error}", candidate.name);
            Err(NotSimulated { message, hint: "raise context_window".to_owned() })
        }
    };
    candidates.into_iter().map(simulate).collect()
}

/// The window if the agent set this size: never above the model's own, with room beside the answer. `None`: the size cannot
/// be set.
pub fn resize(config: &Config, current: &AgentSettings, tokens: u64) -> Option<WindowSize> {
    let model = config.model(&current.model);
    let most = model.and_then(|model| model.max_output_tokens);
    let own = model.and_then(|model| model.context_window);
    let size = WindowSize::resolve(Some(tokens), own, None, config.default_window(), most);
    let fits = size.output_reserve_tokens * 2 <= size.window_tokens;
    (fits && (own.is_some() || tokens <= current.window.window_tokens)).then_some(size)
}

/// Cache rules and prices, and a name for them.
fn billing(config: &Config, model: &str, named: Option<Provider>) -> (Billing, String) {
    let found = config.model(model);
    let provider = found.map_or(Provider::Offline, |model| model.provider);
    let by_address = |model: &ModelConfig| has_breakpoints(&model.base_url, &model.model);
    let takes_breakpoints =
        found.is_some_and(|model| model.cache_breakpoints.unwrap_or_else(|| by_address(model)));
    let (format, name) = match named.unwrap_or(provider) {
        Provider::Anthropic => (Billing::anthropic(), "anthropic"),
        Provider::Openai if takes_breakpoints => (Billing::openai_breakpoints(), "openai"),
        Provider::Openai | Provider::Offline => (Billing::openai(), "openai"),
    };
    let Some(found) = found.filter(|_| named.is_none() && provider != Provider::Offline) else {
        return (format, format!("list prices of {name}"));
    };
    let price = found.price();
    let billing = Billing { ttl_secs: found.cache_ttl_secs, ..format.priced(&price) };
    let own = if price.input > 0.0 {
        format!("prices of model {model}, {name}'s cache")
    } else {
        format!("list prices of {name}")
    };
    (billing, own)
}
