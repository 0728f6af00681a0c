//! An agent at work: the chain of its models, and its settings on each of them.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::conversation::Conversation;
use cairn_core::engine::{self, ContextEngine, Standard};
use cairn_core::ids::AgentId;
use cairn_core::ports::ChatModel;

/// A model of a chain, with the agent's settings on it.
#[derive(Clone)]
pub struct Candidate {
    /// What decisions need to know while this model answers.
    pub settings: Arc<AgentSettings>,
    /// The model.
    pub model: Arc<dyn ChatModel>,
}

/// Makes a context engine for one channel.
pub type EngineMaker = Arc<dyn Fn() -> Arc<dyn ContextEngine> + Send + Sync>;

/// An agent with its models.
#[derive(Clone)]
pub struct AgentRuntime {
    /// Its name.
    pub id: AgentId,
    /// Its models, tried in order. The first is always there.
    first: Candidate,
    others: Vec<Candidate>,
    /// The model that summarises, when it is one of its own.
    pub compactor: Option<Candidate>,
    /// Its context engine, when it is none of those that are registered by name.
    maker: Option<EngineMaker>,
}

impl AgentRuntime {
    /// An agent with one model.
    pub fn new(first: Candidate) -> Self {
        Self { id: first.settings.id.clone(), first, others: Vec::new(), compactor: None, maker: None }
    }

    /// The same with more models, tried after those that it has.
    #[must_use]
    pub fn followed_by(mut self, others: impl IntoIterator<Item = Candidate>) -> Self {
        self.others.extend(others);
        self
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

    /// The model that answers in a conversation: the one that was chosen there, else the first.
    pub fn serving(&self, conversation: &Conversation) -> &Candidate {
        let chosen = conversation.model.as_ref();
        let found = chosen.and_then(|id| self.chain().find(|candidate| candidate.settings.model == *id));
        found.unwrap_or(&self.first)
    }

    /// The settings that hold in a conversation: those on the model that answers there, with what was learnt of it.
    pub fn settings(&self, conversation: &Conversation) -> Arc<AgentSettings> {
        let settings = &self.serving(conversation).settings;
        settings.knowing(conversation).map_or_else(|| Arc::clone(settings), Arc::new)
    }

    /// The settings on the first model, whatever conversation.
    pub fn first_settings(&self) -> &Arc<AgentSettings> {
        &self.first.settings
    }
}
