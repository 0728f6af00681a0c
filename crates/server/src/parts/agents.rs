//! The agents' settings and models, created from the configuration when first needed, and the context windows that
//! model servers report.

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

/// Longest wait for a model server to report its context window. It is asked at the start, and again until it has
/// answered ([`watch_windows`]).
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The agents of a configuration.
pub struct AgentRegistry {
    live: Live,
    search: HistorySearch,
    tools: Arc<ToolRegistry>,
    default_agent: AgentId,
    /// The models of the configuration that was last asked for.
    reached: Mutex<Option<(Arc<Loaded>, Arc<Reached>)>>,
    /// The window warnings already logged, with their agents; `None`: they are not logged.
    told: Option<Mutex<BTreeSet<(AgentId, String)>>>,
}

/// The models of one configuration, and the windows that their servers reported.
struct Reached {
    models: BTreeMap<String, Arc<dyn ChatModel>>,
    listed: Listed,
}

/// The reported windows by model id.
type Listed = BTreeMap<String, ServerWindow>;

impl AgentRegistry {
    /// The agents of the configuration. No server is asked yet. `search`: used by the offline model; `tools`: what the
    /// agents' models may call.
    pub fn new(live: Live, search: HistorySearch, tools: Arc<ToolRegistry>) -> Self {
        let default_agent = live.now().config.default_agent();
        let told = Some(Mutex::default());
        Self { live, search, tools, default_agent, reached: Mutex::default(), told }
    }

    /// Logs no warnings about windows; for commands.
    pub fn silent(self) -> Self {
        Self { told: None, ..self }
    }

    /// The current configuration.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.live.now()
    }

    /// The first agent, which is used when none is named.
    pub fn default_agent(&self) -> &AgentId {
        &self.default_agent
    }

    /// The ids of all agents, in the order of the configuration.
    pub fn ids(&self) -> Vec<AgentId> {
        self.live.now().config.agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Whether this agent is configured.
    pub fn knows(&self, id: &AgentId) -> bool {
        self.live.now().config.agent(id.as_str()).is_some()
    }

    pub fn tools(&self) -> &Arc<ToolRegistry> {
        &self.tools
    }

    /// An agent with its models. Asks model servers for their windows where the configuration sets none.
    ///
    /// # Errors
    /// A model's address or key cannot be used.
    pub async fn agent(&self, id: &AgentId) -> Result<Option<AgentRuntime>, BadModel> {
        let runtimes = self.runtimes().await?;
        Ok(runtimes.into_iter().find(|agent| agent.id == *id))
    }

    /// All agents with their models and their current tools.
    ///
    /// # Errors
    /// A model's address or key cannot be used.
    pub async fn runtimes(&self) -> Result<Vec<AgentRuntime>, BadModel> {
        self.runtimes_of(&self.live.now()).await
    }

    /// All agents of a configuration that is about to become current. Its models are set up now, so that nothing waits
    /// for them later. Windows that are already known are kept.
    ///
    /// # Errors
    /// A model's address or key cannot be used; then nothing has changed.
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

    /// Whether any server should be asked for its window. `due`: which servers count.
    pub fn lacks_windows(&self, due: Due) -> bool {
        let reached = self.reached.lock().clone();
        reached.is_some_and(|(loaded, reached)| {
            lacking(&loaded.config, &reached.models, &reached.listed, due).next().is_some()
        })
    }

    /// Asks the servers that are due again. Returns true if a window is new, and the runtime needs the agents again.
    pub async fn ask_again(&self, due: Due) -> bool {
        let Some((loaded, reached)) = self.reached.lock().clone() else { return false };
        let listed = discovered(&loaded.config, &reached.models, reached.listed.clone(), due).await;
        if listed == reached.listed {
            return false;
        }
        let news = listed.iter().filter(|(id, window)| reached.listed.get(*id) != Some(window));
        for (model, window) in news.filter_map(|(id, window)| Some((id, window.tokens()?))) {
            tracing::info!(model, window, "the model's server reported its window");
        }
        let reached = Arc::new(Reached { models: reached.models.clone(), listed });
        {
            let mut kept = self.reached.lock();
            // A reload in the meantime has asked the servers itself.
            if !kept.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, &loaded)) {
                return false;
            }
            *kept = Some((Arc::clone(&loaded), Arc::clone(&reached)));
        }
        self.warn_of_all(&loaded.config, &reached);
        true
    }

    /// Gives the runtime the agents of the current configuration, with their current tools.
    ///
    /// # Errors
    /// A model's address or key cannot be used; then the runtime is unchanged.
    pub async fn deploy(&self, runtime: &Runtime) -> Result<(), BadModel> {
        loop {
            let loaded = self.live.now();
            runtime.set_agents(self.runtimes_of(&loaded).await?);
            // A reload in the meantime must not be overwritten.
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

    /// Logs each warning about a window once. Windows set in the configuration were already reported with it. Commands
    /// log none; `cairn status` shows them.
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

/// The ids of the models that an agent uses.
fn used(agent: &AgentConfig) -> Vec<&str> {
    agent.chain().into_iter().chain(agent.compaction.model.as_deref()).collect()
}

/// The known windows of models whose server, name and key are unchanged.
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
    /// Servers that have not answered.
    Unanswered,
    /// Also servers that had not loaded the model; it has answered since.
    NotLoaded,
    /// Also servers that had loaded it; the window may be another one by now.
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

/// The models whose servers should be asked: an agent uses them, and the configuration sets no window.
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

/// Asks the servers that are due, all at once, and adds their windows to the known ones.
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
        // An unloaded model is assumed to be loaded again with the same window.
        if window != ServerWindow::NotLoaded || !known.contains_key(&id) {
            known.insert(id, window);
        }
    }
    known
}

/// The window reported by a model's server. `None`: it does not answer, and is asked again.
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

/// First pause before servers are asked again; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause, and the time after which a loaded model's window is asked for again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Asks model servers for their windows again, after growing pauses and whenever a model has answered. A server may
/// start after the daemon, or load a model with its first request and know its window only then. Never returns.
pub async fn watch_windows(agent_registry: Arc<AgentRegistry>, runtime: Runtime) {
    let mut pauses = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let (mut pause, mut looked) = (pauses.next_pause(), Instant::now());
    loop {
        // A model may answer often although its server reports nothing.
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
                tracing::error!(%error, "the models' windows are known but cannot be applied");
            }
        };
        if AssertUnwindSafe(asking).catch_unwind().await.is_err() {
            tracing::error!("asking the models' servers for their windows panicked; trying again");
        }
    }
}

#[cfg(test)]
mod tests;
