//! An agent at work: its chain of models, its settings on each of them, and the health of the models, which all
//! conversations share. The health is kept in memory only, so after a start every model counts as well.

use cairn_core::chain::ModelState;
use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::chain::{self, CoolDowns, Guarded, Health, ModelStanding, Pick, Trouble, pick};
use cairn_core::conversation::{Conversation, Learnt};
use cairn_core::engine::{self, ContextEngine, Standard};
use cairn_core::window::{Place, has_room};
use cairn_types::ids::AgentId;
use cairn_types::model::ModelError;
use cairn_types::ports::ChatModel;
use cairn_types::tokens::Correction;
use cairn_types::window_bounds::WindowBounds;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::telemetry;

/// The id of the embedded model, which extracts entries without a server and costs nothing.
pub(crate) const OFFLINE: &str = "offline";

/// A model of a chain, with the agent's settings on it.
#[derive(Clone)]
pub struct ModelCandidate {
    /// The agent's settings while this model answers.
    pub settings: Arc<AgentSettings>,
    pub model: Arc<dyn ChatModel>,
}

/// Makes a context engine for one channel.
pub type EngineMaker = Arc<dyn Fn() -> Arc<dyn ContextEngine> + Send + Sync>;

impl ModelCandidate {
    /// The settings in a conversation, adjusted to what was learnt of the model there.
    pub fn settings_in(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        self.settings.knowing(conversation).map_or_else(|| Arc::clone(&self.settings), Arc::new)
    }
}

#[derive(Clone)]
pub struct AgentRuntime {
    pub id: AgentId,
    /// The models, tried in order. There is always a first one.
    first: ModelCandidate,
    others: Vec<ModelCandidate>,
    /// The window guard's verdict on each model of the chain.
    guarded: Vec<Guarded>,
    /// A separate model for summaries; `None`: the models of the chain.
    pub compactor: Option<ModelCandidate>,
    /// Makes the context engine, if it is not one that is registered by name.
    maker: Option<EngineMaker>,
}

impl AgentRuntime {
    pub fn new(first: ModelCandidate) -> Self {
        let id = first.settings.id.clone();
        let mut agent =
            Self { id, first, others: Vec::new(), guarded: Vec::new(), compactor: None, maker: None };
        agent.guard();
        agent
    }

    /// Adds models, which are tried after those that the agent has.
    #[must_use]
    pub fn followed_by(mut self, others: impl IntoIterator<Item = ModelCandidate>) -> Self {
        self.others.extend(others);
        self.guard();
        self
    }

    fn guard(&mut self) {
        let windows: Vec<_> = self.chain().map(|one| (&*one.settings.model, one.settings.window)).collect();
        self.guarded = chain::guard(&windows, &self.first.settings.window_guard);
    }

    /// Sets a separate model for compaction runs.
    #[must_use]
    pub fn summarised_by(mut self, compactor: Option<ModelCandidate>) -> Self {
        self.compactor = compactor;
        self
    }

    /// Sets a context engine that takes precedence over the one that the settings name.
    #[must_use]
    pub fn with_engine(mut self, maker: EngineMaker) -> Self {
        self.maker = Some(maker);
        self
    }

    /// A new context engine for a channel.
    pub(crate) fn engine(&self) -> Arc<dyn ContextEngine> {
        match &self.maker {
            Some(make) => make(),
            // The configuration check has refused unknown names.
            None => engine::by_name(&self.first_settings().engine).unwrap_or_else(|| Arc::new(Standard)),
        }
    }

    /// The models, in the order in which they are tried.
    pub fn chain(&self) -> impl Iterator<Item = &ModelCandidate> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The window guard's verdicts, in the order of [`AgentRuntime::chain`].
    pub fn guarded(&self) -> &[Guarded] {
        &self.guarded
    }

    /// The first model that the window guard accepts.
    fn default_model(&self) -> &ModelCandidate {
        let mut usable =
            self.chain().zip(&self.guarded).filter(|(_, guarded)| guarded.passed_over().is_none());
        usable.next().map_or(&self.first, |(candidate, _)| candidate)
    }

    /// The model that answers in a conversation: the one that was chosen there, else the first that the window guard
    /// accepts.
    pub fn serving(&self, conversation: &Conversation) -> &ModelCandidate {
        let chosen = conversation.model.as_ref();
        let found = chosen.and_then(|id| self.chain().find(|candidate| candidate.settings.model == *id));
        found.unwrap_or_else(|| self.default_model())
    }

    /// The settings on the model to whose window a conversation keeps, adjusted to what was learnt of it: the first that the
    /// window guard accepts, whichever stands in for it (see [`chain::keeps_to_serving`]).
    pub fn settings(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        let (first, serving) = (self.default_model(), self.serving(conversation));
        let settings = first.settings_in(conversation);
        if first.settings.model == serving.settings.model {
            return settings;
        }
        let of_serving = serving.settings_in(conversation);
        if chain::keeps_to_serving(conversation, &settings, &of_serving) { of_serving } else { settings }
    }

    /// The settings on the model that answers in a conversation, adjusted to what was learnt of it.
    pub fn serving_settings(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        self.serving(conversation).settings_in(conversation)
    }

    /// The models' status without a running daemon: no failure is known.
    pub fn models_at_rest(&self) -> Vec<ModelStatus> {
        statuses(self, |_| Known::default(), Timestamp::UNIX_EPOCH)
    }

    /// The settings on the first model that the window guard accepts.
    pub fn first_settings(&self) -> &Arc<AgentSettings> {
        &self.default_model().settings
    }
}

/// What all conversations have found out about a model since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) health: Health,
    learnt: Learnt,
    /// What conversations knew of its window when they woke. It may be outdated, so it is only shown.
    remembered: Learnt,
    /// The largest request that the model has answered, in tokens.
    taken: u64,
}

/// What is known of the models, by their ids in the configuration.
#[derive(Default)]
pub(crate) struct Models {
    known: Mutex<BTreeMap<String, Known>>,
    cool_downs: Mutex<CoolDowns>,
    /// Notified whenever a model has answered.
    pub(crate) answers: Notify,
}

impl Models {
    pub(crate) fn new(cool_downs: CoolDowns) -> Self {
        Self { known: Mutex::default(), cool_downs: Mutex::new(cool_downs), answers: Notify::new() }
    }

    /// Sets the pauses after failures. A pause that is running already keeps its length.
    pub(crate) fn set_cool_downs(&self, cool_downs: CoolDowns) {
        *self.cool_downs.lock() = cool_downs;
    }

    pub(crate) fn known(&self, model: &str) -> Known {
        self.known.lock().get(model).cloned().unwrap_or_default()
    }

    pub(crate) fn health(&self, model: &str) -> Health {
        self.known(model).health
    }

    /// Remembers what a conversation that wakes knows of windows, to show it until something newer is learnt.
    pub(crate) fn woke(&self, conversation: &Conversation) {
        let mut known = self.known.lock();
        for (model, learnt) in conversation.learnt.iter().filter(|(_, learnt)| learnt.window_tokens.is_some())
        {
            known.entry(model.clone()).or_default().remembered = learnt.clone();
        }
    }

    pub(crate) fn failed(&self, model: &str, error: &ModelError, now: Timestamp) {
        metrics::counter!("cairn_model_failures_total", "model" => model.to_owned(), "error" => error.code())
            .increment(1);
        telemetry::error("model", error.code());
        tracing::debug!(model, %error, "what the model's server said");
        if matches!(error, ModelError::Auth(_)) {
            tracing::error!(model, "the model's server refuses the key; set a valid one");
        }
        let cool_downs = *self.cool_downs.lock();
        self.known.lock().entry(model.to_owned()).or_default().health.failed(error, now, &cool_downs);
    }

    /// Notes that a model answered a request of this size.
    pub(crate) fn answered(&self, model: &str, tokens: u64) {
        self.answers.notify_one();
        let mut known = self.known.lock();
        let known = known.entry(model.to_owned()).or_default();
        known.taken = known.taken.max(tokens);
        if known.health.trouble.is_some() {
            known.health.answered();
            tracing::info!(model, "the model answers again");
        }
    }

    /// Widens a conversation's bounds of a model's window by the largest request that the model answered anywhere.
    pub(crate) fn bounds(&self, model: &str, bounds: WindowBounds) -> WindowBounds {
        let taken = self.known.lock().get(model).map_or(0, |known| known.taken);
        WindowBounds { taken: bounds.taken.max(taken), ..bounds }
    }

    /// What any conversation has learnt of a model's window.
    pub(crate) fn learnt(&self, model: &str) -> Learnt {
        self.known.lock().get(model).map(|known| known.learnt.clone()).unwrap_or_default()
    }

    /// Shares what a conversation has learnt of a model's window.
    pub(crate) fn learn(&self, model: &str, news: Learnt) {
        self.known.lock().entry(model.to_owned()).or_default().learnt = news;
    }

    pub(crate) fn refused_tools(&self, model: &str, now: Timestamp) {
        self.known.lock().entry(model.to_owned()).or_default().health.refused_tools(now);
    }
}

/// The status of a model in an agent's chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelStatus {
    /// The model, by its id in the configuration.
    pub model: String,
    pub window: WindowSize,
    pub state: ModelState,
    pub why: Option<String>,
    pub until: Option<Timestamp>,
    /// Its last failure; `None` after an answer.
    pub trouble: Option<Trouble>,
    /// Whether it is ready and has not failed since its last answer.
    pub is_well: bool,
}

/// The status of each model in an agent's chain, in order.
pub(crate) fn statuses(
    agent: &AgentRuntime,
    known: impl Fn(&str) -> Known,
    now: Timestamp,
) -> Vec<ModelStatus> {
    let mut out = Vec::new();
    let mut standings = Vec::new();
    for (candidate, guarded) in agent.chain().zip(agent.guarded()) {
        let settings = &candidate.settings;
        let Known { health, learnt, remembered, taken } = known(&settings.model);
        let learnt = if learnt.window_tokens.is_some() { learnt } else { remembered };
        let no_room = !has_room(&Correction::default(), settings, Place::LOCAL);
        let until = health.cooling_until(now);
        let (state, why) = match (guarded.passed_over(), no_room, until) {
            (Some(reason), _, _) => (ModelState::PassedOver, Some(reason.to_owned())),
            (None, true, _) => (ModelState::PassedOver, Some(NO_ROOM.to_owned())),
            (None, false, Some(_)) => (ModelState::Cooling, None),
            (None, false, None) => (ModelState::Ready, None),
        };
        let refused = state == ModelState::PassedOver;
        standings.push(ModelStanding { refused, cooling_until: until });
        let until = until.filter(|_| state == ModelState::Cooling);
        let is_well = state == ModelState::Ready && health.failures == 0;
        let window = settings.window_with(Some(&learnt), taken);
        let (model, trouble) = (settings.model.clone(), health.trouble);
        out.push(ModelStatus { model, window, state, why, until, trouble, is_well });
    }
    match pick(&standings) {
        Some(Pick::Well(idx)) => {
            out[idx].why = Some(chosen(&out, idx));
            out[idx].state = ModelState::Answers;
        }
        Some(Pick::Cooling(idx)) => out[idx].state = ModelState::Down,
        None => {}
    }
    out
}

/// Why a model is skipped whose window is filled by the prompt and the tools.
pub(crate) const NO_ROOM: &str = "system prompt and tools leave no room in its window";

pub(crate) fn told(trouble: &Trouble) -> String {
    format!("{} ({})", trouble.message, trouble.code)
}

/// The reason why the model at `idx` answers.
fn chosen(chain: &[ModelStatus], idx: usize) -> String {
    match (idx, chain.len()) {
        (_, 1) => "the only model".to_owned(),
        (0, _) => "first of the chain".to_owned(),
        _ => {
            let before = chain[..idx].iter().map(|one| format!("`{}` is {}", one.model, one.state.name()));
            before.collect::<Vec<_>>().join(", ")
        }
    }
}
