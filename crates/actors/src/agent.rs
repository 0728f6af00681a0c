//! An agent at work: the chain of its models, and its settings on each of them.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::chain::{self, Guarded, Health};
use cairn_core::conversation::Conversation;
use cairn_core::engine::{self, ContextEngine, Standard};
use cairn_core::ids::AgentId;
use cairn_core::ports::ChatModel;
use jiff::Timestamp;

use crate::models::{ModelStatus, statuses};

/// A model of a chain, with the agent's settings on it.
#[derive(Clone)]
pub struct Candidate {
    /// What decisions need to know while this model answers.
    pub settings: Arc<AgentSettings>,
    pub model: Arc<dyn ChatModel>,
}

/// Makes a context engine for one channel.
pub type EngineMaker = Arc<dyn Fn() -> Arc<dyn ContextEngine> + Send + Sync>;

impl Candidate {
    /// The settings on it in a conversation, with what was learnt of it there.
    pub fn settings_in(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        self.settings.knowing(conversation).map_or_else(|| Arc::clone(&self.settings), Arc::new)
    }
}

#[derive(Clone)]
pub struct AgentRuntime {
    pub id: AgentId,
    /// Its models, tried in order. The first is always there.
    first: Candidate,
    others: Vec<Candidate>,
    /// What the window guard says of each of them.
    guarded: Vec<Guarded>,
    /// The model that summarises, when it is one of its own.
    pub compactor: Option<Candidate>,
    /// Its context engine, when it is none of those that are registered by name.
    maker: Option<EngineMaker>,
}

impl AgentRuntime {
    pub fn new(first: Candidate) -> Self {
        let id = first.settings.id.clone();
        let mut agent =
            Self { id, first, others: Vec::new(), guarded: Vec::new(), compactor: None, maker: None };
        agent.guard();
        agent
    }

    /// The same with more models, tried after those that it has.
    #[must_use]
    pub fn followed_by(mut self, others: impl IntoIterator<Item = Candidate>) -> Self {
        self.others.extend(others);
        self.guard();
        self
    }

    fn guard(&mut self) {
        let windows: Vec<_> = self.chain().map(|one| (&*one.settings.model, one.settings.window)).collect();
        self.guarded = chain::guard(&windows, &self.first.settings.window_guard);
    }

    /// The same with a model of its own for runs.
    #[must_use]
    pub fn summarised_by(mut self, compactor: Option<Candidate>) -> Self {
        self.compactor = compactor;
        self
    }

    /// The same with a context engine of its own, whatever its settings name.
    #[must_use]
    pub fn with_engine(mut self, maker: EngineMaker) -> Self {
        self.maker = Some(maker);
        self
    }

    /// A fresh context engine for a channel: the one that the settings name.
    pub(crate) fn engine(&self) -> Arc<dyn ContextEngine> {
        match &self.maker {
            Some(make) => make(),
            // The configuration was checked: an unknown name cannot come here.
            None => engine::by_name(&self.first_settings().engine).unwrap_or_else(|| Arc::new(Standard)),
        }
    }

    /// The models, in the order in which they are tried.
    pub fn chain(&self) -> impl Iterator<Item = &Candidate> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// What the window guard says of them, in the same order.
    pub fn guarded(&self) -> &[Guarded] {
        &self.guarded
    }

    /// The first that the window guard does not pass over.
    fn default_model(&self) -> &Candidate {
        let mut usable =
            self.chain().zip(&self.guarded).filter(|(_, guarded)| guarded.passed_over().is_none());
        usable.next().map_or(&self.first, |(candidate, _)| candidate)
    }

    /// The model that answers in a conversation: the one that was chosen there, else the first that is not passed over.
    pub fn serving(&self, conversation: &Conversation) -> &Candidate {
        let chosen = conversation.model.as_ref();
        let found = chosen.and_then(|id| self.chain().find(|candidate| candidate.settings.model == *id));
        found.unwrap_or_else(|| self.default_model())
    }

    /// The settings that hold in a conversation: those on the model that answers there, with what was learnt of it.
    pub fn settings(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        self.serving(conversation).settings_in(conversation)
    }

    /// How its models are where no daemon runs: nothing is known against any of them.
    pub fn models_at_rest(&self) -> Vec<ModelStatus> {
        statuses(self, |_| Health::default(), Timestamp::UNIX_EPOCH)
    }

    /// The settings on the first model that is not passed over, whatever conversation.
    pub fn first_settings(&self) -> &Arc<AgentSettings> {
        &self.default_model().settings
    }
}
