//! The agents' settings and models, made from the configuration on first use; and the windows that servers list for them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{AgentRuntime, ModelCandidate, Runtime};
use cairn_core::agent::WindowSource;
use cairn_core::chain::Guarded;
use cairn_llm::{BadModel, HistorySearch};
use cairn_types::ids::AgentId;
use cairn_types::ports::{ChatModel, ServerWindow, Unanswered};
use cairn_types::tool::defs::ToolDefs;
use cairn_types::wire::backoff::Backoff;
use futures::FutureExt as _;
use futures::future::join_all;
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use crate::parts::models;
use crate::parts::tools::ToolRegistry;
use cairn_config::{AgentConfig, Config, Live, Loaded};

/// How long a model's server may take to say how large its window is. It is asked at the start, and again until it has
/// answered ([`watch_windows`]).
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The agents of a configuration.
pub struct AgentRegistry {
    live: Live,
    search: HistorySearch,
    tools: Arc<ToolRegistry>,
    default_agent: AgentId,
    /// Of the configuration that it was asked for last.
    reached: Mutex<Option<(Arc<Loaded>, Arc<Reached>)>>,
    /// What was said of windows, and of whose; none: nothing is.
    told: Option<Mutex<BTreeSet<(AgentId, String)>>>,
}

/// The models of one configuration, and what their servers say of them: asked once.
struct Reached {
    models: BTreeMap<String, Arc<dyn ChatModel>>,
    listed: Listed,
}

/// Windows as the models' servers tell them, by the models' ids.
type Listed = BTreeMap<String, ServerWindow>;

impl AgentRegistry {
    /// The agents of that configuration; nothing is asked of any server yet. `search`: where the offline model
    /// looks things up; `tools`: what agents' models may call.
    pub fn new(live: Live, search: HistorySearch, tools: Arc<ToolRegistry>) -> Self {
        let default_agent = live.now().config.default_agent();
        let told = Some(Mutex::default());
        Self { live, search, tools, default_agent, reached: Mutex::default(), told }
    }

    /// The registry for a command, which says nothing of windows.
    pub fn silent(self) -> Self {
        Self { told: None, ..self }
    }

    /// The configuration as it is now.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.live.now()
    }

    /// The agent that is meant when none is named: the first.
    pub fn default_agent(&self) -> &AgentId {
        &self.default_agent
    }

    /// All agents, in the order of the configuration.
    pub fn ids(&self) -> Vec<AgentId> {
        self.live.now().config.agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Whether that agent is configured.
    pub fn knows(&self, id: &AgentId) -> bool {
        self.live.now().config.agent(id.as_str()).is_some()
    }

    pub fn tools(&self) -> &Arc<ToolRegistry> {
        &self.tools
    }

    /// An agent with its models. Asks their servers for their windows where the configuration sets none.
    ///
    /// # Errors
    /// As for [`AgentRegistry::runtimes`].
    pub async fn agent(&self, id: &AgentId) -> Result<Option<AgentRuntime>, BadModel> {
        let runtimes = self.runtimes().await?;
        Ok(runtimes.into_iter().find(|agent| agent.id == *id))
    }

    /// All agents with their models, and with the tools that they may call now.
    ///
    /// # Errors
    /// A model's address or key cannot be used.
    pub async fn runtimes(&self) -> Result<Vec<AgentRuntime>, BadModel> {
        self.runtimes_of(&self.live.now()).await
    }

    /// All agents of a configuration that is about to hold: its models are reached, so that nothing has to wait for them
    /// once it does. What their servers have said of windows is kept.
    ///
    /// # Errors
    /// As for [`AgentRegistry::runtimes`]; nothing has changed then.
    pub async fn runtimes_of(&self, loaded: &Arc<Loaded>) -> Result<Vec<AgentRuntime>, BadModel> {
        let kept = self.reached.lock().clone();
        let reached = match kept {
            Some((of, reached)) if Arc::ptr_eq(&of, loaded) => reached,
            before => {
                let reached = Arc::new(self.reach(loaded, before.as_ref()).await?);
                *self.reached.lock() = Some((Arc::clone(loaded), Arc::clone(&reached)));
                reached
            }
        };
        let agents = loaded.config.agents.iter();
        Ok(agents.filter_map(|agent| self.runtime(&loaded.config, agent, &reached)).collect())
    }

    /// Whether a server is to be asked how large the window of its model is. `due`: by what it has said.
    pub fn lacks_windows(&self, due: Due) -> bool {
        let reached = self.reached.lock().clone();
        reached.is_some_and(|(loaded, reached)| {
            lacking(&loaded.config, &reached.models, &reached.listed, due).next().is_some()
        })
    }

    /// Asks those servers once more. True: one has said something new, and the runtime needs the agents again.
    pub async fn ask_again(&self, due: Due) -> bool {
        let Some((loaded, reached)) = self.reached.lock().clone() else { return false };
        let listed = discovered(&loaded.config, &reached.models, reached.listed.clone(), due).await;
        if listed == reached.listed {
            return false;
        }
        let news = listed.iter().filter(|(id, window)| reached.listed.get(*id) != Some(window));
        for (model, window) in news.filter_map(|(id, window)| Some((id, window.tokens()?))) {
            tracing::info!(model, window, "the model's server has told its window");
        }
        let reached = Arc::new(Reached { models: reached.models.clone(), listed });
        {
            let mut kept = self.reached.lock();
            // A reload meanwhile has asked by itself.
            if !kept.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, &loaded)) {
                return false;
            }
            *kept = Some((Arc::clone(&loaded), Arc::clone(&reached)));
        }
        self.warn_of_all(&loaded.config, &reached);
        true
    }

    /// Has the runtime's agents be as configuration and tools have them now.
    ///
    /// # Errors
    /// As for [`AgentRegistry::runtimes`]; the runtime is as it was then.
    pub async fn deploy(&self, runtime: &Runtime) -> Result<(), BadModel> {
        loop {
            let loaded = self.live.now();
            runtime.set_agents(self.runtimes_of(&loaded).await?);
            // A reload meanwhile would be undone by this.
            if Arc::ptr_eq(&loaded, &self.live.now()) {
                return Ok(());
            }
        }
    }

    async fn reach(
        &self,
        loaded: &Loaded,
        before: Option<&(Arc<Loaded>, Arc<Reached>)>,
    ) -> Result<Reached, BadModel> {
        let config = &loaded.config;
        let mut models = BTreeMap::new();
        for id in config.agents.iter().flat_map(used) {
            if !models.contains_key(id) {
                models.insert(id.to_owned(), models::client(loaded, config.model(id), &self.search)?);
            }
        }
        let kept = before.map(|(before, reached)| kept(before, &reached.listed, loaded)).unwrap_or_default();
        let listed = discovered(config, &models, kept, Due::Unanswered).await;
        for model in lacking(config, &models, &listed, Due::Unanswered).filter(|_| self.told.is_some()) {
            tracing::warn!(
                model,
                "the model's server does not answer yet, so the size of its window is unknown until it does; \
                 set context_window of the model to avoid this"
            );
        }
        let reached = Reached { models, listed };
        self.warn_of_all(config, &reached);
        Ok(reached)
    }

    fn warn_of_all(&self, config: &Config, reached: &Reached) {
        let agents = config.agents.iter().filter_map(|agent| self.runtime(config, agent, reached));
        agents.for_each(|agent| self.warn_of_windows(&agent));
    }

    fn runtime(&self, config: &Config, agent: &AgentConfig, reached: &Reached) -> Option<AgentRuntime> {
        let tools = ToolDefs::from(self.tools.defs(agent));
        let candidate = |id: &str| -> Option<ModelCandidate> {
            let window = reached.listed.get(id).and_then(|window| window.tokens());
            let settings = config.settings(agent, id, window, tools.clone());
            Some(ModelCandidate { settings: Arc::new(settings), model: Arc::clone(reached.models.get(id)?) })
        };
        let mut chain = agent.chain().into_iter().filter_map(candidate);
        let runtime = AgentRuntime::new(chain.next()?).followed_by(chain);
        Some(runtime.summarised_by(agent.compaction.model.as_deref().and_then(candidate)))
    }

    /// Says, once, which windows are small. Those that are set in the configuration were warned about with it. A command
    /// that starts a runtime of its own says nothing of them: `cairn status` does.
    fn warn_of_windows(&self, agent: &AgentRuntime) {
        let Some(told) = &self.told else { return };
        for (candidate, guarded) in agent.chain().zip(agent.guarded()) {
            let (settings, agent) = (&candidate.settings, &agent.id);
            let model = &settings.model;
            let is_set = matches!(settings.window.source, WindowSource::Agent | WindowSource::Model);
            let words = match guarded {
                Guarded::PassedOver(reason) => {
                    format!("the model is skipped for the next of the chain: {reason}")
                }
                Guarded::Warned(words) if !is_set => words.clone(),
                Guarded::Warned(_) | Guarded::Fine => continue,
            };
            if told.lock().insert((agent.clone(), words.clone())) {
                tracing::warn!(%agent, model, "{words}");
            }
        }
    }
}

/// The models that an agent uses, by their ids.
fn used(agent: &AgentConfig) -> Vec<&str> {
    agent.chain().into_iter().chain(agent.compaction.model.as_deref()).collect()
}

/// What is known of models that are asked for as they were: of the same server, by the same name, with the same key.
fn kept(before: &Loaded, listed: &Listed, now: &Loaded) -> Listed {
    let is_same = |id: &str| {
        let (Some(was), Some(is)) = (before.config.model(id), now.config.model(id)) else { return false };
        let key = |loaded: &Loaded| loaded.api_key(id).map(|key| key.expose_secret().to_owned());
        (was.provider, &was.base_url, &was.model) == (is.provider, &is.base_url, &is.model)
            && key(before) == key(now)
    };
    listed.iter().filter(|(id, _)| is_same(id)).map(|(id, window)| (id.clone(), *window)).collect()
}

/// Which servers are asked for the window of their model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Those that have not answered.
    Unanswered,
    /// Those that had not loaded the model, too: it has answered since.
    NotLoaded,
    /// Those that had loaded it, too: it may have been loaded with another window since.
    Loaded,
}

impl Due {
    fn covers(self, known: Option<ServerWindow>) -> bool {
        match known {
            None => true,
            Some(ServerWindow::NotLoaded) => self != Self::Unanswered,
            Some(ServerWindow::Loaded(_)) => self == Self::Loaded,
            Some(ServerWindow::Listed(_) | ServerWindow::Unlisted) => false,
        }
    }
}

/// Models whose servers are to be asked for the window, since the configuration sets none and an agent needs it.
fn lacking<'a>(
    config: &'a Config,
    models: &'a BTreeMap<String, Arc<dyn ChatModel>>,
    known: &'a Listed,
    due: Due,
) -> impl Iterator<Item = &'a str> {
    let needed = |id: &str| {
        config.agents.iter().any(|agent| agent.context_window.is_none() && used(agent).contains(&id))
    };
    let unknown = models.iter().filter(move |(id, model)| {
        model.info().context_window.is_none() && needed(id) && due.covers(known.get(*id).copied())
    });
    unknown.map(|(id, _)| id.as_str())
}

/// What the servers of the models say how large their windows are: those that are due are asked, all at once.
async fn discovered(
    config: &Config,
    models: &BTreeMap<String, Arc<dyn ChatModel>>,
    mut known: Listed,
    due: Due,
) -> Listed {
    let asked = lacking(config, models, &known, due);
    let answers =
        asked.map(|id| async move { Some((id.to_owned(), discover(models.get(id)?.as_ref()).await?)) });
    for (id, window) in join_all(answers).await.into_iter().flatten() {
        // A model that was unloaded will be loaded again as it was, as far as anybody knows.
        if window != ServerWindow::NotLoaded || !known.contains_key(&id) {
            known.insert(id, window);
        }
    }
    known
}

/// `None`: the server does not answer, and is asked again.
async fn discover(model: &dyn ChatModel) -> Option<ServerWindow> {
    let answer = tokio::time::timeout(DISCOVERY_TIMEOUT, model.discover_window()).await;
    match answer {
        Ok(Ok(window)) => Some(window),
        Ok(Err(Unanswered)) | Err(_) => {
            tracing::debug!(model = %model.info().id, "the model's server does not say how large its window is");
            None
        }
    }
}

/// The first pause before servers are asked again; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest. Where nothing is to be asked, it is looked so often whether a reload has changed that.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Asks servers again for the windows of their models: at growing pauses, and whenever a model has answered. A server that
/// starts with the machine may answer later than the daemon; one that loads a model with its first request tells the window
/// then. Never returns.
pub async fn watch_windows(agent_registry: Arc<AgentRegistry>, runtime: Runtime) {
    let mut pauses = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let (mut pause, mut looked) = (pauses.next_pause(), Instant::now());
    loop {
        // A model may answer often although its server lists nothing.
        tokio::time::sleep(PAUSE_MIN).await;
        let has_answered = tokio::select! {
            () = tokio::time::sleep(pause - PAUSE_MIN) => false,
            () = runtime.model_answered() => true,
        };
        let due = match has_answered {
            false => Due::Unanswered,
            true if looked.elapsed() < PAUSE_MAX => Due::NotLoaded,
            true => Due::Loaded,
        };
        pause = if agent_registry.lacks_windows(Due::Unanswered) { pauses.next_pause() } else { PAUSE_MAX };
        if !agent_registry.lacks_windows(due) {
            continue;
        }
        if due == Due::Loaded {
            looked = Instant::now();
        }
        let asking = async {
            if agent_registry.ask_again(due).await
                && let Err(error) = agent_registry.deploy(&runtime).await
            {
                tracing::error!(%error, "the windows of models are known but cannot be used");
            }
        };
        if AssertUnwindSafe(asking).catch_unwind().await.is_err() {
            tracing::error!("asking models' servers for their windows panicked; they are asked again");
        }
    }
}

#[cfg(test)]
mod tests;
