//! Creates a daemon, or a readable store, from the configuration and the state folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cairn_actors::{Runtime, RuntimeDeps, RuntimeError};
use cairn_core::store_port::Store as _;
use cairn_embed::{FolderError, Model, RemoteModel, RemoteReranker, ServerSettings};
use cairn_llm::BadModel;
use cairn_platforms::attach::Transcriber;
use cairn_platforms::fence::Fence;
use cairn_server::messages;
use cairn_server::messages::{LocalApi, Mint};
use cairn_store::{DatabaseOptions, ReadOnlyState, Standby, Store, StoreOptions, keep_checked};
use cairn_tools::schema::Schemas;
use cairn_types::ports::{
    Adapter, AdapterPorts, Clock, Embedder, NoRank, PairingStore, Platform, Reranker, StoreError, Tool,
    Toolset,
};
use cairn_types::tool::mcp::pins::Pins;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;

use cairn_api::records::Identity;
use cairn_config::clock::SystemClock;
use cairn_config::{ConfigError, Embeddings, Environment, Live, Loaded, RerankConfig, StateDir};
use cairn_server::api;
use cairn_server::api::Admin;
use cairn_server::api::page_access::Access;
use cairn_server::chat::{Runner, RunnerDeps};
use cairn_server::http::bridges::NoBridgeAddress;
use cairn_server::http::socket::{Socket, SocketError, SocketMode};
use cairn_server::http::webhooks::NoWebhook;
use cairn_server::http::{bridges, socket, webhooks};
use cairn_server::openai::{NoAddress, OpenAiAddress};
use cairn_server::parts::adapters::Adapters;
use cairn_server::parts::agents::{AgentRegistry, watch_windows};
use cairn_server::parts::background::Background;
use cairn_server::parts::networks::{BadNetwork, Networks};
use cairn_server::parts::people::DaemonPairings;
use cairn_server::parts::restart::RestartHandle;
use cairn_server::parts::retention::daily;
use cairn_server::parts::schedules::keep_schedules;
use cairn_server::parts::tools::{BadTools, ToolRegistry};
use cairn_server::parts::{models, networks};
use cairn_server::reload::{ReloadDeps, Reloader, SetLevel, Source};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database password cannot be read, or `node` is not set and this machine has no host name.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A configured model cannot be used.
    #[error(transparent)]
    Model(#[from] BadModel),
    /// A configured chat network cannot be used.
    #[error(transparent)]
    Network(#[from] BadNetwork),
    /// A tool that is not built in cannot be offered.
    #[error(transparent)]
    Tool(#[from] BadTools),
    #[error(transparent)]
    Runtime(RuntimeError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Webhook(#[from] NoWebhook),
    #[error(transparent)]
    Bridge(#[from] NoBridgeAddress),
    #[error(transparent)]
    OpenAi(#[from] NoAddress),
}

impl From<RuntimeError> for StartError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Store(error) => Self::Store(error),
            error => Self::Runtime(error),
        }
    }
}

#[derive(Clone, Default)]
pub struct Tools(Arc<[Arc<dyn Tool>]>);

impl Tools {
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self(tools.into_iter().collect())
    }

    pub(crate) fn all(&self) -> &[Arc<dyn Tool>] {
        &self.0
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|tool| tool.def().name)).finish()
    }
}

/// What only `cairn run` has, and a daemon inside a command has not: chat networks, reloads and restarts. Without it,
/// deliveries to networks stay pending.
pub struct Control {
    /// The file given by `--config`.
    pub flag: Option<PathBuf>,
    /// The environment, for the default path and for secrets.
    pub env: Arc<dyn Environment>,
    pub set_level: SetLevel,
    pub restart_handle: RestartHandle,
    /// When the process started; it may run several daemons, one after another.
    pub started_at: Timestamp,
}

impl Control {
    /// The source for reloads.
    pub(crate) fn source(&self, live: &Live) -> Source {
        Source {
            live: live.clone(),
            flag: self.flag.clone(),
            env: Arc::clone(&self.env),
            set_level: Arc::clone(&self.set_level),
        }
    }
}

pub struct Daemon {
    store: Store,
    runtime: Runtime,
    agent_registry: Arc<AgentRegistry>,
    router: Router,
    admin_routes: Router,
    socket: Socket,
    adapters: Adapters,
    webhooks: Vec<Background>,
    /// The addresses of bridges, over which deliveries leave until the runtime has stopped.
    bridge_addresses: Vec<Background>,
    /// The OpenAI-compatible endpoint.
    openai: Option<Background>,
    reloader: Option<Arc<Reloader>>,
    live: Live,
    identity: Identity,
    /// Retention, the background check of the store, the queries for context windows, and the schedules.
    background: Vec<Background>,
}

/// How a daemon ended.
pub(crate) struct Ended {
    /// Whether every turn and actor ended, even if that could not be journalled.
    pub(crate) in_order: bool,
    /// False if a part of the store hangs; it keeps the lock until the process ends.
    pub(crate) is_store_closed: bool,
}

impl Daemon {
    /// Locks the state, starts the actors and serves the socket. With `control` it also starts the adapters of the chat
    /// networks; they need not be connected yet.
    ///
    /// # Errors
    /// Something is missing, broken or in use. Then nothing is left running.
    pub async fn start(
        live: &Live,
        state: &StateDir,
        socket: (PathBuf, SocketMode),
        tools: &Tools,
        control: Option<&Control>,
    ) -> Result<Self, StartError> {
        let store = open(&live.now(), state).await?;
        let socket = Socket::at(socket.0, socket.1);
        let clean_stop = store.stopped_cleanly();
        Self::start_with((store, clean_stop), live, state, &socket, tools, control).await
    }

    /// Starts on an open store, which is closed again if the start fails. `clean_stop`: whether the last writer of the
    /// store stopped cleanly.
    ///
    /// # Errors
    /// Something is missing, broken or in use. Then nothing is left running.
    pub async fn start_with(
        (store, clean_stop): (Store, bool),
        live: &Live,
        state: &StateDir,
        socket: &Socket,
        tools: &Tools,
        control: Option<&Control>,
    ) -> Result<Self, StartError> {
        match Self::start_on((store.clone(), clean_stop), live, state, socket, tools, control).await {
            Ok(daemon) => Ok(daemon),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    async fn start_on(
        (store, clean_stop): (Store, bool),
        live: &Live,
        state: &StateDir,
        socket: &Socket,
        tools: &Tools,
        control: Option<&Control>,
    ) -> Result<Self, StartError> {
        let loaded = live.now();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let people = Arc::new(people(&store, &clock).await?);
        let agents = agent_registry(&store, live, state, tools, people.pins(), &clock)?;
        let agents = Arc::new(if control.is_some() { agents } else { agents.silent() });
        for warning in agents.tools().unmatched(&loaded.config) {
            tracing::warn!("{warning}");
        }
        let networks = networks_of(&store, &loaded, state, &people, control).await?;
        let Networks { adapters, chats, transcriber, webhooks, bridges, bridge_addresses } = networks;
        let (hooks, bridged) = (webhooks::bind(&webhooks).await?, bridges::bind(bridge_addresses).await?);
        let openai = openai_address(&loaded, control).await?;
        let adapters: Arc<[Arc<dyn Adapter>]> = adapters.into();
        let runtime = runtime((&store, clean_stop), &loaded, &agents, &clock, &adapters).await?;
        let reloader = control.map(|control| {
            let (source, runtime) = (control.source(live), runtime.clone());
            let (agent_registry, pairings) = (Arc::clone(&agents), Arc::clone(&people));
            Arc::new(Reloader::new(ReloadDeps { source, agent_registry, runtime, chats, pairings }))
        });
        let mut identity = identity(&loaded, state, Some(socket.path().to_owned()));
        if let Some(control) = control {
            identity.started_at = control.started_at;
        }
        let admin = Admin {
            runtime: Some(runtime.clone()),
            adapters: Arc::clone(&adapters),
            reloader: reloader.clone(),
            restart_handle: control.map(|control| control.restart_handle.clone()),
            page: control.and_then(|_| Access::of(&loaded.config.admin, &state.path, Arc::clone(&clock))),
            identity: identity.clone(),
            ..reading_admin(&store, &loaded, state, &agents, people, &clock)
        };
        let ports = ports(&runtime, live, &admin);
        let (router, admin_routes) = routes((&ports, live), admin, transcriber, bridges);
        match socket.serve(router.clone()).await {
            Ok(()) => {
                let mut background = vec![
                    Background::start(keep_checked(store.clone(), Arc::clone(&clock))),
                    Background::start(daily(store.clone(), live.clone(), clock)),
                    Background::start(watch_windows(Arc::clone(&agents), runtime.clone())),
                ];
                if control.is_some() {
                    background.push(Background::start(keep_schedules(runtime.clone(), live.clone())));
                }
                Ok(Self {
                    openai: openai.map(|openai| openai.serve(runtime.clone(), live.clone())),
                    store,
                    runtime,
                    agent_registry: agents,
                    router,
                    admin_routes,
                    socket: socket.clone(),
                    adapters: Adapters::start(adapters, &ports),
                    webhooks: hooks.into_iter().map(webhooks::serve).collect(),
                    bridge_addresses: bridged.into_iter().map(bridges::serve).collect(),
                    reloader,
                    live: live.clone(),
                    identity,
                    background,
                })
            }
            Err(error) => {
                runtime.shutdown(Duration::ZERO).await;
                Err(error.into())
            }
        }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The routes, for requests within this process.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The routes of the admin address.
    pub fn admin_routes(&self) -> Router {
        self.admin_routes.clone()
    }

    pub fn socket(&self) -> &std::path::Path {
        self.socket.path()
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The adapters of the chat networks.
    pub fn adapters(&self) -> Arc<[Arc<dyn Adapter>]> {
        self.adapters.all()
    }

    /// The reloader; `None` in a daemon inside a command.
    pub fn reloader(&self) -> Option<Arc<Reloader>> {
        self.reloader.clone()
    }

    /// Stops the daemon: refuses new messages, gives turns in progress `grace` and sends their answers, makes
    /// everything durable and releases the lock. Returns false if a part of the store hangs; it keeps the lock until
    /// the process ends.
    pub async fn stop(self, grace: Duration) -> bool {
        let socket = self.socket.clone();
        self.end(grace, async move { socket.close(socket::GRACE).await }).await.is_store_closed
    }

    /// Stops, but the process becomes a standby: the socket is kept and says so while the store closes.
    pub(crate) async fn step_down(self, grace: Duration) -> Ended {
        let (socket, routes) = (self.socket.clone(), crate::changing::changing(&self.identity));
        let say_so = async move {
            if let Err(error) = socket.serve(routes).await {
                tracing::warn!(%error, "the socket does not respond until this node is a standby");
            }
        };
        self.end(grace, say_so).await
    }

    /// `leave`: closes or replaces what the socket serves.
    async fn end(self, grace: Duration, leave: impl Future<Output = ()>) -> Ended {
        self.adapters.stop().await;
        networks::hand_over(&self.store, &self.identity.state_dir).await;
        // Ends backups and retention passes early, so that they write nothing after the stop.
        self.store.end_maintenance();
        for task in self.webhooks.into_iter().chain(self.background) {
            task.stop().await;
        }
        let in_order = self.runtime.shutdown(grace).await;
        if let Some(openai) = self.openai {
            openai.stop().await;
        }
        for address in self.bridge_addresses {
            address.stop().await;
        }
        self.agent_registry.tools().servers().close().await;
        leave.await;
        Ended { in_order, is_store_closed: self.store.close().await }
    }

    /// The time for turns in progress when the daemon stops.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.live.now().config.limits.shutdown_secs)
    }
}

/// The bound address of the OpenAI-compatible endpoint, if there is one.
async fn openai_address(
    loaded: &Loaded,
    control: Option<&Control>,
) -> Result<Option<OpenAiAddress>, NoAddress> {
    match control {
        Some(_) => OpenAiAddress::bind(loaded).await,
        None => Ok(None),
    }
}

/// The networks; inside a command there are none.
async fn networks_of(
    store: &Store,
    loaded: &Loaded,
    state: &StateDir,
    people: &Arc<DaemonPairings>,
    control: Option<&Control>,
) -> Result<Networks, StartError> {
    if control.is_none() {
        let transcriber = networks::transcriber(loaded).transpose().map_err(BadNetwork::Transcriber)?;
        return Ok(Networks { transcriber: transcriber.map(Arc::new), ..Networks::default() });
    }
    networks::take_over(store, &state.path).await;
    let pairings = Arc::clone(people) as Arc<dyn PairingStore>;
    let asked = store.clone();
    let fence = Fence::new(move || asked.leads());
    let networks = networks::adapters(loaded, &pairings, &state.path, &fence)?;
    networks::note_access(&networks.chats, &loaded.config, people).await?;
    Ok(networks)
}

fn ports(runtime: &Runtime, live: &Live, admin: &Admin) -> AdapterPorts {
    let chat_commands = Runner::new(RunnerDeps {
        store: admin.store.clone(),
        runtime: runtime.clone(),
        people: Arc::clone(&admin.people),
        config: live.clone(),
        clock: Arc::clone(&admin.clock),
        started_at: admin.identity.started_at,
    });
    AdapterPorts { intake: Arc::new(runtime.clone()), chat_commands: Arc::new(chat_commands) }
}

/// The routes of the socket and those of the admin address.
fn routes(
    (ports, live): (&AdapterPorts, &Live),
    admin: Admin,
    transcriber: Option<Arc<Transcriber>>,
    bridges: Router,
) -> (Router, Router) {
    let local = LocalApi {
        intake: Arc::clone(&ports.intake),
        chat_commands: Arc::clone(&ports.chat_commands),
        clock: Arc::clone(&admin.clock),
        default_agent: admin.agent_registry.default_agent().clone(),
        max_text_bytes: admin.max_text_bytes,
        transcriber,
        config: live.clone(),
        mint: Arc::new(Mint::default()),
    };
    let of_messages = messages::router(local.clone());
    let admin = Arc::new(admin);
    let (inside, figures) = api::routers(&admin);
    let at_address = match &admin.page {
        Some(access) => cairn_page::router(Arc::clone(&admin), local, access, figures),
        None => api::with_fallbacks(figures),
    };
    (api::with_fallbacks(of_messages.merge(inside).merge(bridges)), at_address)
}

/// A store opened for reading, without actors. Nothing is changed.
pub struct Reader {
    store: Store,
    /// Keeps the store up to date, if it is a copy of a database's journal.
    standby: Option<Standby>,
    agent_registry: Arc<AgentRegistry>,
    router: Router,
    /// Removed when the store is closed.
    _read_only: Option<ReadOnlyState>,
}

impl Reader {
    /// Locks the state and opens the store.
    ///
    /// # Errors
    /// The store is in use, damaged or unreadable.
    pub async fn open(loaded: &Arc<Loaded>, state: &StateDir, tools: &Tools) -> Result<Self, StartError> {
        let options = store_options(loaded, state)?;
        let (options, read_only) = ReadOnlyState::stand_in(options)?;
        let opened = if options.database.is_some() {
            // A copy is only read, without trying to lead.
            let mut standby = blocking(move || Store::stand_by(options)).await?;
            (standby.opened().await?, Some(standby))
        } else {
            (blocking(move || Store::open(options)).await?, None)
        };
        let (store, standby) = opened;
        let (router, agent_registry) = reading_routes(&store, loaded, state, tools).await?;
        Ok(Self { store, standby, agent_registry, router, _read_only: read_only })
    }

    pub fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub async fn close(self) {
        self.agent_registry.tools().servers().close().await;
        match self.standby {
            Some(standby) => standby.close().await,
            None => drop(self.store.close().await),
        }
    }
}

/// The routes that only read, for an open store.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn reading_routes(
    store: &Store,
    loaded: &Arc<Loaded>,
    state: &StateDir,
    tools: &Tools,
) -> Result<(Router, Arc<AgentRegistry>), StartError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let people = Arc::new(people(store, &clock).await?);
    let live = Live::new(Arc::clone(loaded));
    let agent_registry = Arc::new(agent_registry(store, &live, state, tools, people.pins(), &clock)?);
    let admin = reading_admin(store, loaded, state, &agent_registry, people, &clock);
    Ok((api::with_fallbacks(api::router(admin)), agent_registry))
}

pub(crate) async fn people(store: &Store, clock: &Arc<dyn Clock>) -> Result<DaemonPairings, StoreError> {
    DaemonPairings::load(Arc::new(store.clone()), Arc::clone(clock)).await
}

fn agent_registry(
    store: &Store,
    live: &Live,
    state: &StateDir,
    tools: &Tools,
    pins: Pins,
    clock: &Arc<dyn Clock>,
) -> Result<AgentRegistry, BadTools> {
    let tool_registry =
        ToolRegistry::new(&live.now(), &state.path, pins, tools.0.to_vec(), Arc::clone(clock))?;
    Ok(AgentRegistry::new(live.clone(), models::search_in(store), Arc::new(tool_registry)))
}

pub(crate) async fn runtime(
    (store, clean_stop): (&Store, bool),
    loaded: &Loaded,
    agent_registry: &AgentRegistry,
    clock: &Arc<dyn Clock>,
    adapters: &[Arc<dyn Adapter>],
) -> Result<Runtime, StartError> {
    let platforms = adapters.iter().map(|adapter| Arc::clone(adapter) as Arc<dyn Platform>).collect();
    let limits = &loaded.config.limits;
    let runtime = Runtime::start(RuntimeDeps {
        store: Arc::new(store.clone()),
        tools: Arc::clone(agent_registry.tools()) as Arc<dyn Toolset>,
        arguments: Arc::new(Schemas::default()),
        clock: Arc::clone(clock),
        agents: agent_registry.runtimes().await?,
        // Local answers are read from the store, so no platform is needed for them.
        platforms,
        speaker: networks::speaker(loaded)?,
        limits: limits.runtime(),
        talk: limits.talk(),
        prices: loaded.config.prices(),
        usage_day: store.usage_day().await?,
        clean_stop,
    })
    .await?;
    Ok(runtime)
}

/// The admin API's parts for reading, without a daemon.
fn reading_admin(
    store: &Store,
    loaded: &Loaded,
    state: &StateDir,
    agent_registry: &Arc<AgentRegistry>,
    people: Arc<DaemonPairings>,
    clock: &Arc<dyn Clock>,
) -> Admin {
    Admin {
        store: store.clone(),
        runtime: None,
        agent_registry: Arc::clone(agent_registry),
        people,
        adapters: Arc::new([]),
        reloader: None,
        restart_handle: None,
        page: None,
        identity: identity(loaded, state, None),
        clock: Arc::clone(clock),
        max_text_bytes: loaded.config.limits.max_message_bytes,
    }
}

pub(crate) fn identity(loaded: &Loaded, state: &StateDir, socket: Option<PathBuf>) -> Identity {
    Identity {
        state_dir: state.path.clone(),
        config_file: loaded.file.clone(),
        socket,
        started_at: SystemClock.now(),
    }
}

/// The routes of a state that does not exist yet. They create nothing.
///
/// # Errors
/// A linked tool cannot be offered.
pub fn nothing(loaded: &Arc<Loaded>, state: &StateDir, tools: &Tools) -> Result<Router, StartError> {
    let (linked, clock) = (tools.0.to_vec(), Arc::new(SystemClock));
    let tool_registry = Arc::new(ToolRegistry::new(loaded, &state.path, Pins::default(), linked, clock)?);
    Ok(api::with_fallbacks(api::empty_state::router(
        Arc::clone(loaded),
        identity(loaded, state, None),
        tool_registry,
    )))
}

/// Largest segment size for the copy of a database's journal, in MiB.
const COPY_SEGMENT_MIB: u64 = 8;

/// # Errors
/// The configured database password cannot be read.
pub fn store_options(loaded: &Loaded, state: &StateDir) -> Result<StoreOptions, ConfigError> {
    let store = &loaded.config.store;
    let database = loaded.database()?.map(|database| DatabaseOptions {
        url: database.url.expose_secret().into(),
        address: format!("{}:{}", database.host, state.path.display()),
        node: database.node,
    });
    // A start reads the copy's last segment completely.
    let segment_mib =
        if database.is_some() { store.segment_mib.min(COPY_SEGMENT_MIB) } else { store.segment_mib };
    Ok(StoreOptions {
        segment_bytes: segment_mib << 20,
        sled_cache_bytes: store.cache_mib << 20,
        database,
        ..StoreOptions::new(&state.path)
    })
}

/// Why a model of `[embeddings]` or `[rerank]` cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRanking {
    #[error("[embeddings]: {0}")]
    Folder(#[from] FolderError),
    #[error("[embeddings]: {0}")]
    Embeddings(NoRank),
    #[error("[rerank]: {0}")]
    Rerank(NoRank),
}

/// The embedding model that is configured, if one is: of a folder, which takes a part of a second, or of a server, which is not
/// asked yet. It is called within the runtime.
///
/// # Errors
/// The folder is no model that is known: the problem names the file and what is wrong with it. Or no client can be made.
pub(crate) fn embedder(loaded: &Loaded) -> Result<Option<Arc<dyn Embedder>>, BadRanking> {
    let Embeddings { folder, model, base_url, timeout_secs, .. } = &loaded.config.embeddings;
    if let Some(folder) = folder {
        return Ok(Some(Arc::new(Model::open(folder)?)));
    }
    let Some(model) = model else { return Ok(None) };
    let settings = ServerSettings {
        base_url: base_url.clone(),
        key: loaded.service_key("embeddings").cloned(),
        model: model.clone(),
        time_limit: Duration::from_secs(*timeout_secs),
    };
    let model = RemoteModel::new(settings, Handle::current()).map_err(BadRanking::Embeddings)?;
    Ok(Some(Arc::new(model)))
}

/// The model that reranks, if one is configured. Its server is not asked yet.
///
/// # Errors
/// No client can be made.
pub(crate) fn reranker(loaded: &Loaded) -> Result<Option<Arc<dyn Reranker>>, BadRanking> {
    let RerankConfig { model, base_url, timeout_ms, .. } = &loaded.config.rerank;
    let Some(model) = model else { return Ok(None) };
    let settings = ServerSettings {
        base_url: base_url.clone(),
        key: loaded.service_key("rerank").cloned(),
        model: model.clone(),
        time_limit: Duration::from_millis(*timeout_ms),
    };
    Ok(Some(Arc::new(RemoteReranker::new(settings).map_err(BadRanking::Rerank)?)))
}

/// The options of a daemon that runs: with the model for vectors. One that cannot be read is logged, and does without.
///
/// # Errors
/// The database password cannot be read.
pub(crate) async fn options_to_run(
    loaded: &Arc<Loaded>,
    state: &StateDir,
) -> Result<StoreOptions, ConfigError> {
    let options = store_options(loaded, state)?;
    let of = Arc::clone(loaded);
    let embedder = match tokio::task::spawn_blocking(move || embedder(&of)).await {
        Ok(Ok(embedder)) => embedder,
        Ok(Err(error)) => {
            tracing::error!(%error, "the embedding model cannot be used; searches use only words");
            None
        }
        Err(_panic) => {
            tracing::error!("reading the model of [embeddings] panicked; searches use only words");
            None
        }
    };
    let reranker = reranker(loaded).unwrap_or_else(|error| {
        tracing::error!(%error, "search results are not reranked");
        None
    });
    Ok(StoreOptions { embedder, reranker, ..options })
}

/// Opens the store of a state for a daemon that runs.
///
/// # Errors
/// The store is in use, damaged or unreadable, or the database password cannot be read.
pub(crate) async fn open_to_run(loaded: &Arc<Loaded>, state: &StateDir) -> Result<Store, StartError> {
    let options = options_to_run(loaded, state).await?;
    Ok(blocking(move || Store::open(options)).await?)
}

/// Opens the store of a state.
///
/// # Errors
/// The store is in use, damaged or unreadable, or the database password cannot be read.
pub(crate) async fn open(loaded: &Loaded, state: &StateDir) -> Result<Store, StartError> {
    let options = store_options(loaded, state)?;
    Ok(blocking(move || Store::open(options)).await?)
}

/// Runs a blocking open on another thread.
pub(crate) async fn blocking<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|error| {
        Err(StoreError::View { view: "store", message: format!("opening it failed: {error}") })
    })
}
