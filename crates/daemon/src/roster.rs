//! The roster: the agents' settings and models, made from the configuration on first use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{AgentRuntime, Candidate};
use cairn_core::agent::WindowSource;
use cairn_core::chain::Guarded;
use cairn_core::ids::AgentId;
use cairn_core::ports::{ChatModel, Search};
use cairn_llm::BadModel;
use futures::future::join_all;
use tokio::sync::OnceCell;

use crate::config::{AgentConfig, Config, Loaded};
use crate::models;
use crate::toolshed::Toolshed;

/// How long a model's server may take to say how large its window is. It is asked at the start alone.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The agents of a configuration.
pub struct Roster {
    loaded: Arc<Loaded>,
    search: Arc<dyn Search>,
    tools: Arc<Toolshed>,
    default_agent: AgentId,
    reached: OnceCell<Reached>,
}

/// The models, and what their servers say of them: asked once.
struct Reached {
    models: BTreeMap<String, Arc<dyn ChatModel>>,
    windows: BTreeMap<String, u64>,
}

impl Roster {
    /// The agents of that configuration; nothing is asked of any server yet. `search`: where the offline model
    /// looks things up; `tools`: what agents' models may call.
    pub fn new(loaded: Arc<Loaded>, search: Arc<dyn Search>, tools: Arc<Toolshed>) -> Self {
        let default_agent = loaded.config.default_agent();
        Self { loaded, search, tools, default_agent, reached: OnceCell::new() }
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
        let agents = self.loaded.config.agents.iter();
        agents
            .flat_map(|agent| {
                let offered = self.tools.defs(agent);
                let classes = agent.result_guard.classes.keys();
                let unknown = classes.filter(move |name| !offered.iter().any(|tool| tool.name == **name));
                unknown.map(|name| (agent.id.clone(), name.clone())).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Whether that agent is configured.
    pub fn knows(&self, id: &AgentId) -> bool {
        self.loaded.config.agent(id.as_str()).is_some()
    }

    /// What agents' models may call.
    pub fn tools(&self) -> &Arc<Toolshed> {
        &self.tools
    }

    /// An agent with its models. Asks their servers for their windows where the configuration sets none.
    ///
    /// # Errors
    /// As for [`Roster::runtimes`].
    pub async fn agent(&self, id: &AgentId) -> Result<Option<AgentRuntime>, BadModel> {
        let runtimes = self.runtimes().await?;
        Ok(runtimes.into_iter().find(|agent| agent.id == *id))
    }

    /// All agents with their models, and with the tools that they may call now.
    ///
    /// # Errors
    /// A model's address or key cannot be used.
    pub async fn runtimes(&self) -> Result<Vec<AgentRuntime>, BadModel> {
        let reached = self.reached.get_or_try_init(|| self.reach()).await?;
        Ok(self.loaded.config.agents.iter().filter_map(|agent| self.runtime(agent, reached)).collect())
    }

    async fn reach(&self) -> Result<Reached, BadModel> {
        let config = &self.loaded.config;
        let mut models = BTreeMap::new();
        for id in config.agents.iter().flat_map(used) {
            if !models.contains_key(id) {
                models.insert(id.to_owned(), self.model(id)?);
            }
        }
        let windows = self.discovered(&models).await;
        let reached = Reached { models, windows };
        config
            .agents
            .iter()
            .filter_map(|agent| self.runtime(agent, &reached))
            .for_each(|it| warn_of_windows(&it));
        Ok(reached)
    }

    fn runtime(&self, agent: &AgentConfig, reached: &Reached) -> Option<AgentRuntime> {
        let tools = self.tools.defs(agent);
        let candidate = |id: &str| -> Option<Candidate> {
            let window = reached.windows.get(id).copied().filter(|_| agent.context_window.is_none());
            let settings = self.loaded.config.settings(agent, id, window, tools.clone());
            Some(Candidate { settings: Arc::new(settings), model: Arc::clone(reached.models.get(id)?) })
        };
        let mut chain = agent.chain().into_iter().filter_map(candidate);
        let runtime = AgentRuntime::new(chain.next()?).followed_by(chain);
        Some(runtime.summarised_by(agent.compaction.model.as_deref().and_then(candidate)))
    }

    /// What the servers of the models say how large their windows are, where no agent gets by without: all are asked at
    /// once, each of them once.
    async fn discovered(&self, models: &BTreeMap<String, Arc<dyn ChatModel>>) -> BTreeMap<String, u64> {
        let agents = &self.loaded.config.agents;
        let needed =
            |id: &str| agents.iter().any(|agent| agent.context_window.is_none() && used(agent).contains(&id));
        let asked = models.iter().filter(|(id, model)| model.info().context_window.is_none() && needed(id));
        let answers =
            asked.map(|(id, model)| async move { Some((id.clone(), discover(model.as_ref()).await?)) });
        join_all(answers).await.into_iter().flatten().collect()
    }

    fn model(&self, id: &str) -> Result<Arc<dyn ChatModel>, BadModel> {
        models::client(&self.loaded, self.loaded.config.model(id), &self.search)
    }
}

/// The models that an agent uses, by their ids.
fn used(agent: &AgentConfig) -> Vec<&str> {
    agent.chain().into_iter().chain(agent.compaction.model.as_deref()).collect()
}

/// Says, once, which windows are small. Those that are set in the configuration were warned about with it.
fn warn_of_windows(agent: &AgentRuntime) {
    for (candidate, guarded) in agent.chain().zip(agent.guarded()) {
        let (settings, agent) = (&candidate.settings, &agent.id);
        let model = &settings.model;
        match guarded {
            Guarded::PassedOver(reason) => {
                tracing::warn!(%agent, model, reason, "the model is passed over for the next of the chain");
            }
            Guarded::Warned(words)
                if !matches!(settings.window.source, WindowSource::Agent | WindowSource::Model) =>
            {
                tracing::warn!(%agent, model, "{words}");
            }
            Guarded::Warned(_) | Guarded::Fine => {}
        }
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
