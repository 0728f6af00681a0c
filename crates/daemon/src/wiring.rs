//! Wiring: from configuration and state folder to a daemon that answers, or to a store that can be read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cairn_actors::{House, HouseDeps, HouseError};
use cairn_core::mcp::Pins;
use cairn_core::ports::{
    Adapter, AdapterPorts, Clock, Platform, Registry, RegistryStore, StoreError, Tool, Toolset,
};
use cairn_llm::BadModel;
use cairn_platforms::local::{self, LocalApi, Mint};
use cairn_store::{Store, StoreOptions};
use cairn_tools::schema::Schemas;

use crate::adapters::Adapters;
use crate::admin::{self, Admin, Identity};
use crate::clock::SystemClock;
use crate::config::{Config, Environment, Live, Loaded, StateDir};
use crate::desk::{DaemonDesk, DeskDeps};
use crate::keeper::Daily;
use crate::life::Life;
use crate::networks::{self, BadNetwork, Networks};
use crate::registry::DaemonRegistry;
use crate::reload::{ReloadDeps, Reloader, SetLevel};
use crate::roster::Roster;
use crate::roster::windows::WindowWatch;
use crate::socket::{self, Home, Socket, SocketError};
use crate::toolshed::{BadToolshed, Toolshed};

/// How long answers on the socket may take to be read to their end when the daemon stops.
const SOCKET_GRACE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A model of the configuration cannot be used.
    #[error(transparent)]
    Model(#[from] BadModel),
    /// A chat network of the configuration cannot be used.
    #[error(transparent)]
    Network(#[from] BadNetwork),
    /// A tool beside the built-in ones cannot be offered.
    #[error(transparent)]
    Tool(#[from] BadToolshed),
    #[error(transparent)]
    House(HouseError),
    #[error(transparent)]
    Socket(#[from] SocketError),
}

impl From<HouseError> for StartError {
    fn from(error: HouseError) -> Self {
        match error {
            HouseError::Store(error) => Self::Store(error),
            error => Self::House(error),
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

/// What a daemon of its own (`cairn run`) has beside one inside a command: it serves the chat networks, can be reloaded
/// and begun anew. What is owed to networks stays owed without it.
pub struct Control {
    /// The file that `--config` names.
    pub flag: Option<PathBuf>,
    /// Where the file is looked for else, and secrets are.
    pub env: Arc<dyn Environment>,
    pub set_level: SetLevel,
    pub life: Life,
}

pub struct Daemon {
    store: Store,
    house: House,
    roster: Arc<Roster>,
    router: Router,
    outside: Router,
    socket: Socket,
    adapters: Adapters,
    reloader: Option<Arc<Reloader>>,
    live: Live,
    daily: Daily,
    windows: WindowWatch,
}

impl Daemon {
    /// Takes the state's lock, starts the actors, listens at the socket, and, with `control`, starts the adapters of the
    /// chat networks, connected or not.
    ///
    /// # Errors
    /// What is missing, broken or in the way. Nothing is left running then.
    pub async fn start(
        live: &Live,
        state: &StateDir,
        place: (PathBuf, Home),
        tools: &Tools,
        control: Option<&Control>,
    ) -> Result<Self, StartError> {
        let store = open(&live.now().config, state).await?;
        match Self::start_on(store.clone(), live, state, place, tools, control).await {
            Ok(daemon) => Ok(daemon),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    async fn start_on(
        store: Store,
        live: &Live,
        state: &StateDir,
        (socket, home): (PathBuf, Home),
        tools: &Tools,
        control: Option<&Control>,
    ) -> Result<Self, StartError> {
        let loaded = live.now();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let registry = Arc::new(registry(&store, &clock).await?);
        let roster = roster(&store, live, state, tools, registry.pins(), &clock)?;
        let roster = Arc::new(if control.is_some() { roster } else { roster.silent() });
        warn_of_unmatched(&roster, &loaded);
        let Networks { adapters, chats } = match control {
            Some(_) => networks::adapters(&loaded, &(Arc::clone(&registry) as Arc<dyn Registry>))?,
            None => Networks::default(),
        };
        let adapters: Arc<[Arc<dyn Adapter>]> = adapters.into();
        let house = house(&store, &loaded, &roster, &clock, &adapters).await?;
        let reloader = control.map(|control| {
            Arc::new(Reloader::new(ReloadDeps {
                live: live.clone(),
                roster: Arc::clone(&roster),
                house: house.clone(),
                chats,
                flag: control.flag.clone(),
                env: Arc::clone(&control.env),
                set_level: Arc::clone(&control.set_level),
            }))
        });
        let identity = Identity {
            state_dir: state.path.clone(),
            config_file: loaded.file.clone(),
            socket: Some(socket.clone()),
            started_at: clock.now(),
        };
        let daily_clock = Arc::clone(&clock);
        let admin = Admin {
            store: store.clone(),
            house: Some(house.clone()),
            roster: Arc::clone(&roster),
            registry,
            adapters: Arc::clone(&adapters),
            reloader: reloader.clone(),
            life: control.map(|control| control.life.clone()),
            identity,
            clock,
            max_text_bytes: loaded.config.limits.max_message_bytes,
        };
        let ports = ports(&house, live, &admin);
        let (router, outside) = routes(&house, admin);
        match socket::serve(socket, home, router.clone()).await {
            Ok(socket) => {
                let adapters = Adapters::start(adapters, &ports);
                let (live, daily) = (live.clone(), Daily::start(store.clone(), live.clone(), daily_clock));
                let windows = WindowWatch::start(Arc::clone(&roster), house.clone());
                Ok(Self {
                    store,
                    house,
                    roster,
                    router,
                    outside,
                    socket,
                    adapters,
                    reloader,
                    live,
                    daily,
                    windows,
                })
            }
            Err(error) => {
                house.shutdown(Duration::ZERO).await;
                Err(error.into())
            }
        }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The routes, for calls within this process.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The routes of the admin address.
    pub fn outside(&self) -> Router {
        self.outside.clone()
    }

    pub fn socket(&self) -> &std::path::Path {
        self.socket.path()
    }

    pub fn house(&self) -> &House {
        &self.house
    }

    /// The adapters of the chat networks.
    pub fn adapters(&self) -> Arc<[Arc<dyn Adapter>]> {
        self.adapters.all()
    }

    /// What reads the configuration anew; none inside a command.
    pub fn reloader(&self) -> Option<Arc<Reloader>> {
        self.reloader.clone()
    }

    /// Stops: nothing more is taken in, turns under way get their time and what they say is sent, all is made durable,
    /// the lock is released. False: a part of the store does not end, and keeps it until the process does.
    pub async fn stop(self) -> bool {
        let grace = self.grace();
        self.adapters.stop().await;
        // Backups and passes of retention that were asked for break off: nothing of theirs comes behind the stop.
        self.store.end_maintenance();
        self.daily.stop().await;
        self.windows.stop().await;
        self.house.shutdown(grace).await;
        self.roster.tools().servers().close().await;
        self.socket.close(SOCKET_GRACE).await;
        self.store.close().await
    }

    /// The time that turns under way get when it stops.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.live.now().config.limits.shutdown_secs)
    }
}

fn warn_of_unmatched(roster: &Roster, loaded: &Loaded) {
    for warning in roster.tools().unmatched(&loaded.config) {
        tracing::warn!("{warning}");
    }
}

fn ports(house: &House, live: &Live, admin: &Admin) -> AdapterPorts {
    let desk = DaemonDesk::new(DeskDeps {
        store: admin.store.clone(),
        house: house.clone(),
        registry: Arc::clone(&admin.registry),
        config: live.clone(),
        clock: Arc::clone(&admin.clock),
        started_at: admin.identity.started_at,
    });
    AdapterPorts {
        intake: Arc::new(house.clone()),
        desk: Arc::new(desk),
        archive: Arc::new(admin.store.clone()),
    }
}

/// What the socket serves, messages and everything else; and what the admin address does.
fn routes(house: &House, admin: Admin) -> (Router, Router) {
    let messages = local::router(LocalApi {
        intake: Arc::new(house.clone()),
        clock: Arc::clone(&admin.clock),
        default_agent: admin.roster.default_agent().clone(),
        max_text_bytes: admin.max_text_bytes,
        mint: Arc::new(Mint::default()),
    });
    let (inside, outside) = admin::routers(admin);
    (admin::with_fallbacks(messages.merge(inside)), outside)
}

/// A store opened for reading: no actors, nothing is changed.
pub struct Reader {
    store: Store,
    roster: Arc<Roster>,
    router: Router,
}

impl Reader {
    /// Takes the state's lock and opens the store.
    ///
    /// # Errors
    /// It is in use, damaged or unreadable.
    pub async fn open(loaded: &Arc<Loaded>, state: &StateDir, tools: &Tools) -> Result<Self, StartError> {
        let store = open(&loaded.config, state).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let registry = Arc::new(registry(&store, &clock).await?);
        let live = Live::new(Arc::clone(loaded));
        let roster = Arc::new(roster(&store, &live, state, tools, registry.pins(), &clock)?);
        let router = admin::router(Admin {
            store: store.clone(),
            house: None,
            roster: Arc::clone(&roster),
            registry,
            adapters: Arc::new([]),
            reloader: None,
            life: None,
            identity: Identity {
                state_dir: state.path.clone(),
                config_file: loaded.file.clone(),
                socket: None,
                started_at: clock.now(),
            },
            clock,
            max_text_bytes: loaded.config.limits.max_message_bytes,
        });
        Ok(Self { store, roster, router: admin::with_fallbacks(router) })
    }

    pub fn router(&self) -> Router {
        self.router.clone()
    }

    pub async fn close(self) {
        self.roster.tools().servers().close().await;
        self.store.close().await;
    }
}

pub(crate) async fn registry(store: &Store, clock: &Arc<dyn Clock>) -> Result<DaemonRegistry, StoreError> {
    DaemonRegistry::load(store, Arc::new(store.clone()), Arc::clone(clock)).await
}

fn roster(
    store: &Store,
    live: &Live,
    state: &StateDir,
    tools: &Tools,
    pins: Pins,
    clock: &Arc<dyn Clock>,
) -> Result<Roster, BadToolshed> {
    let toolshed = Toolshed::new(&live.now(), &state.path, pins, tools.0.to_vec(), Arc::clone(clock))?;
    Ok(Roster::new(live.clone(), Arc::new(store.clone()), Arc::new(toolshed)))
}

pub(crate) async fn house(
    store: &Store,
    loaded: &Loaded,
    roster: &Roster,
    clock: &Arc<dyn Clock>,
    adapters: &[Arc<dyn Adapter>],
) -> Result<House, StartError> {
    let platforms = adapters.iter().map(|adapter| Arc::clone(adapter) as Arc<dyn Platform>).collect();
    let limits = &loaded.config.limits;
    let house = House::start(HouseDeps {
        journal: Arc::new(store.clone()),
        archive: Arc::new(store.clone()),
        search: Arc::new(store.clone()),
        memories: Arc::new(store.clone()),
        outbox: Arc::new(store.clone()),
        artifacts: Arc::new(store.artifacts()),
        tools: Arc::clone(roster.tools()) as Arc<dyn Toolset>,
        arguments: Arc::new(Schemas::default()),
        clock: Arc::clone(clock),
        agents: roster.runtimes().await?,
        // Local answers are stored, and read by whoever waits for them: nothing is owed to a network.
        platforms,
        limits: limits.house(),
        talk: limits.talk(),
        prices: loaded.config.prices(),
        usage_day: store.usage_day().await?,
        clean_stop: store.stopped_cleanly()?,
    })
    .await?;
    Ok(house)
}

/// The routes of a state that nobody has begun: nothing is made for them.
///
/// # Errors
/// A tool that is linked into this binary cannot be offered.
pub fn nothing(loaded: &Arc<Loaded>, state: &StateDir, tools: &Tools) -> Result<Router, StartError> {
    let identity = Identity {
        state_dir: state.path.clone(),
        config_file: loaded.file.clone(),
        socket: None,
        started_at: SystemClock.now(),
    };
    let (linked, clock) = (tools.0.to_vec(), Arc::new(SystemClock));
    let toolshed = Arc::new(Toolshed::new(loaded, &state.path, Pins::default(), linked, clock)?);
    Ok(admin::with_fallbacks(admin::nothing::router(Arc::clone(loaded), identity, toolshed)))
}

pub fn store_options(config: &Config, state: &StateDir) -> StoreOptions {
    StoreOptions {
        segment_bytes: config.store.segment_mib << 20,
        sled_cache_bytes: config.store.cache_mib << 20,
        ..StoreOptions::new(&state.path)
    }
}

/// Opens the store of a state.
///
/// # Errors
/// See [`Store::open`].
pub(crate) async fn open(config: &Config, state: &StateDir) -> Result<Store, StoreError> {
    let options = store_options(config, state);
    let opened = tokio::task::spawn_blocking(move || Store::open(options)).await;
    opened.unwrap_or_else(|error| {
        Err(StoreError::View { view: "store", message: format!("opening it failed: {error}") })
    })
}
