//! The roster: the agents' settings and models, made from the configuration on first use.

use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{AgentRuntime, Candidate};
use cairn_core::ids::AgentId;
use cairn_core::model::ToolDef;
use cairn_core::ports::{ChatModel, Search};
use cairn_llm::{BadModel, Offline, OpenAi, OpenAiOptions, Timeouts};
use tokio::sync::OnceCell;

use crate::config::{AgentConfig, Config, Loaded, ModelConfig, OFFLINE, Provider};

/// How long a model's server may take to say how large its window is. It is asked at the start alone.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The agents of a configuration.
pub struct Roster {
    loaded: Arc<Loaded>,
    search: Arc<dyn Search>,
    tools: Vec<ToolDef>,
    default_agent: AgentId,
    runtimes: OnceCell<Vec<AgentRuntime>>,
}

impl Roster {
    /// The agents of that configuration; nothing is asked of any server yet. `search`: where the offline model
    /// looks things up; `tools`: what agents' models may call.
    pub fn new(loaded: Arc<Loaded>, search: Arc<dyn Search>, tools: Vec<ToolDef>) -> Self {
        let default_agent = loaded.config.default_agent();
        Self { loaded, search, tools, default_agent, runtimes: OnceCell::new() }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// The agent that is meant when none is named: the first.
    pub fn default_agent(&self) -> &AgentId {
        &self.default_agent
    }

    /// All agents, in the order of the configuration.
    pub fn ids(&self) -> Vec<AgentId> {
        self.loaded.config.agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Tools that agents name a class of results for and nobody offers, with their agents.
    pub fn unknown_classes(&self) -> Vec<(AgentId, String)> {
        let offered = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        let agents = self.loaded.config.agents.iter();
        agents
            .flat_map(|agent| agent.result_guard.classes.keys().map(|name| (agent.id.clone(), name.clone())))
            .filter(|(_, name)| !offered(name))
            .collect()
    }

    /// Whether that agent is configured.
    pub fn knows(&self, id: &AgentId) -> bool {
        self.loaded.config.agent(id.as_str()).is_some()
    }

    /// An agent with its models. Asks their servers for their windows where the configuration sets none.
    ///
    /// # Errors
    /// As for [`Roster::runtimes`].
    pub async fn agent(&self, id: &AgentId) -> Result<Option<&AgentRuntime>, BadModel> {
        let runtimes = self.runtimes().await?;
        Ok(runtimes.iter().find(|agent| agent.id == *id))
    }

    /// All agents with their models.
    ///
    /// # Errors
    /// A model's address or key cannot be used.
    pub async fn runtimes(&self) -> Result<&[AgentRuntime], BadModel> {
        self.runtimes.get_or_try_init(|| self.make()).await.map(Vec::as_slice)
    }

    async fn make(&self) -> Result<Vec<AgentRuntime>, BadModel> {
        let mut runtimes = Vec::new();
        for agent in &self.loaded.config.agents {
            runtimes.push(self.runtime(agent).await?);
        }
        Ok(runtimes)
    }

    async fn runtime(&self, agent: &AgentConfig) -> Result<AgentRuntime, BadModel> {
        let mut chain = Vec::new();
        for id in agent.chain() {
            chain.push(self.candidate(agent, id).await?);
        }
        let mut chain = chain.into_iter();
        let first = match chain.next() {
            Some(first) => first,
            None => self.candidate(agent, OFFLINE).await?,
        };
        let compactor = match &agent.compaction.model {
            Some(id) => Some(self.candidate(agent, id).await?),
            None => None,
        };
        Ok(AgentRuntime::new(first).followed_by(chain).summarised_by(compactor))
    }

    async fn candidate(&self, agent: &AgentConfig, id: &str) -> Result<Candidate, BadModel> {
        let model: Arc<dyn ChatModel> = match self.loaded.config.model(id) {
            Some(model) if model.provider == Provider::Openai => Arc::new(self.open_ai(model)?),
            _ => Arc::new(Offline::new(Arc::clone(&self.search))),
        };
        let server_window = match agent.context_window.or(model.info().context_window) {
            Some(_) => None,
            None => discover(model.as_ref()).await,
        };
        let settings = self.loaded.config.settings(agent, id, server_window, self.tools.clone());
        Ok(Candidate { settings: Arc::new(settings), model })
    }

    fn open_ai(&self, model: &ModelConfig) -> Result<OpenAi, BadModel> {
        OpenAi::new(OpenAiOptions {
            api_key: self.loaded.api_key(&model.id).cloned(),
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            images: model.images,
            tools: model.tools,
            stream: model.stream,
            timeouts: Timeouts { idle: Duration::from_secs(model.idle_timeout_secs), ..Timeouts::default() },
            ..OpenAiOptions::new(&*model.id, &*model.base_url, &*model.model)
        })
    }
}

async fn discover(model: &dyn ChatModel) -> Option<u64> {
    let answer = tokio::time::timeout(DISCOVERY_TIMEOUT, model.discover_window()).await;
    if answer.is_err() {
        tracing::warn!(
            model = %model.info().id,
            "the model's server does not say how large its window is; set context_window of the model"
        );
    }
    answer.ok().flatten()
}
