//! `cairn run`: runs the daemon in the foreground until a signal.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use axum::Router;
use cairn_store::Store;
use cairn_types::ports::{Clock as _, StoreError};
use clap::Args;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::changing::as_shown;
use crate::commands::version;
use crate::service::Service;
use crate::standby::Candidate;
use crate::wiring::{Control, Daemon, Ended, StartError, Tools};
use crate::{standby, wiring};
use cairn_api::records::Identity;
use cairn_cli::args::Global;
use cairn_cli::client::Client;
use cairn_cli::connect::{Connector, listen};
use cairn_cli::failure::{Failure, exit};
use cairn_cli::log;
use cairn_config::clock::SystemClock;
use cairn_config::{AdminConfig, Config, Live, LogFormat, StateDir, socket_to_bind};
use cairn_server::api::page_access;
use cairn_server::http::admin_address::{MetricsListener, PageAddress};
use cairn_server::http::socket::{Socket, SocketMode};
use cairn_server::http::{admin_address, socket};
use cairn_server::metrics;
use cairn_server::metrics::Meters;
use cairn_server::parts::restart::RestartHandle;
use cairn_server::parts::systemd;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn run
  cairn run --config /etc/cairn/config.toml --state /var/lib/cairn

The first SIGTERM or SIGINT stops it cleanly, the second immediately. SIGHUP
reloads the configuration, like `cairn reload`. It listens at
$RUNTIME_DIRECTORY/cairn.sock, else at cairn.sock in the state folder, and
reports readiness, status and its watchdog to systemd.")]
pub(crate) struct RunArgs {}

/// How the C library's allocator is to work. It gives each thread an arena of its own, up to eight for each core, and hands little of
/// them back: with a thousand channels that doubled the daemon's memory (`docs/design/figures.md`). With one, each thread uses
/// what another one has freed. Large blocks go back to the system one by one, however many there have been.
const ALLOCATOR: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536")];

/// Starts the program again in this process with those settings, since the library reads them only then. Returns where one of them is
/// set already, or the library is another one.
///
/// # Errors
/// It could not be started: it goes on with more memory than it needs.
#[expect(clippy::disallowed_methods, reason = "it comes before any configuration, and is no part of it")]
pub(super) fn settle_allocator() -> io::Result<()> {
    if !cfg!(target_env = "gnu") || ALLOCATOR.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let own_name = args.next().unwrap_or_else(|| "cairn".into());
    Err(Command::new(std::env::current_exe()?).arg0(own_name).args(args).envs(ALLOCATOR).exec())
}

/// The signals that the daemon handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The name of a signal to stop; `None` for a signal to reload.
    async fn next(&mut self) -> Option<&'static str> {
        tokio::select! {
            _ = self.terminate.recv() => Some("SIGTERM"),
            _ = self.interrupt.recv() => Some("SIGINT"),
            _ = self.hangup.recv() => None,
        }
    }

    /// Waits for a signal to stop. Returns its name.
    async fn stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Why a daemon ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    /// Restarts within the process.
    Restart,
    /// Becomes a standby within the process, and another node leads.
    Drained,
    /// Stops and becomes a standby, since another node leads or may lead.
    Fenced,
    /// Ends with the process, because some of its threads hang.
    Hung,
}

/// Longest time for a stop, besides the time for turns. Together with the default of 30 s for turns it is below the
/// unit's TimeoutStopSec.
const STOP_LIMIT: Duration = Duration::from_secs(14);

/// How long a start waits for a command that has the state open.
const COMMANDS_TAKE: Duration = Duration::from_secs(10);

const IN_USE_PAUSE: Duration = Duration::from_millis(50);

/// Longest time for turns before a restart, which resumes interrupted turns at once.
const RESTART_GRACE: Duration = Duration::from_secs(1);

/// Ends the process if a stop takes too long. Dropping it cancels that.
struct Deadline {
    _called_off: SyncSender<()>,
}

impl Deadline {
    fn start(limit: Duration) -> Self {
        let (called_off, wait) = sync_channel(0);
        let watch = move || {
            if wait.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Logging may hang, too, so it runs on another thread.
            let log = || {
                tracing::error!(
                    "the shutdown takes too long; the process exits; accepted messages are in the journal"
                )
            };
            drop(std::thread::Builder::new().spawn(log));
            std::thread::park_timeout(LAST_WORDS);
            std::process::exit(exit::HUNG.into());
        };
        if let Err(error) = std::thread::Builder::new().name("deadline".to_owned()).spawn(watch) {
            tracing::warn!(%error, "cannot limit the time of the shutdown; it may hang");
        }
        Self { _called_off: called_off }
    }
}

/// Time to write the last log line.
const LAST_WORDS: Duration = Duration::from_millis(300);

pub(crate) async fn run(global: Global, tools: Tools, _args: RunArgs) -> Result<(), Failure> {
    let connector = Connector::configured(&global)?;
    connector.loaded.check_tokens()?;
    let settings = &connector.loaded.config.log;
    let format = if global.json { LogFormat::Json } else { settings.format };
    let log = log::start(&settings.level, format, connector.env.as_ref()).map_err(|error| {
        Failure::usage(format!("cannot read the log level: {error}"), "write info or debug")
    })?;
    for warning in &connector.loaded.warnings {
        tracing::warn!("{warning}");
    }
    let meters =
        metrics::install().map_err(|error| Failure::failed(error.to_string(), "please report this"))?;
    let mut signals = Signals::listen()?;
    let control = Control {
        flag: global.config.clone(),
        env: Arc::clone(&connector.env),
        set_level: Arc::new(move |level| log.set_level(level).map_err(|error| error.to_string())),
        restart_handle: RestartHandle::default(),
        started_at: SystemClock.now(),
    };
    let state = &connector.state;
    let path = socket_to_bind(state, connector.env.as_ref())?;
    let mode = if path.starts_with(&state.path) { SocketMode::Owner } else { SocketMode::Group };
    let process = Process {
        tools,
        live: Live::new(Arc::clone(&connector.loaded)),
        control,
        meters,
        socket: Socket::at(path, mode),
        connector: &connector,
        stands_by: AtomicBool::new(false),
        led_in_order: AtomicU64::new(NO_EPOCH),
    };
    let ended = process.run(&mut signals).await;
    process.socket.close(if ended.is_ok() { socket::GRACE } else { Duration::ZERO }).await;
    ended
}

/// What the daemons of this process have in common; they run one after another.
struct Process<'a> {
    connector: &'a Connector,
    /// The tools linked into this binary.
    tools: Tools,
    live: Live,
    control: Control,
    meters: &'static Meters,
    socket: Socket,
    stands_by: AtomicBool,
    /// The epoch of the lead that this process ended cleanly, even if the database was unreachable; otherwise
    /// [`NO_EPOCH`].
    led_in_order: AtomicU64,
}

/// No epoch follows this one.
const NO_EPOCH: u64 = u64::MAX - 1;

impl Process<'_> {
    async fn run(&self, signals: &mut Signals) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let end = once(self, signals, after).await?;
            after = Some(end);
            match end {
                End::Stop => return Ok(()),
                End::Restart => tracing::info!("restarting"),
                End::Fenced | End::Drained => tracing::info!("standing by"),
                End::Hung => {
                    return Err(Failure::new(
                        exit::HUNG,
                        "a part of the daemon hung",
                        "start it again (systemd does); if it happens again, check the disk",
                    ));
                }
            }
        }
    }

    fn stands_by(&self) -> bool {
        self.stands_by.load(Ordering::Acquire)
    }

    /// Opens the store, once this node may write it. `after`: how the previous daemon of this process ended.
    async fn open(
        &self,
        after: Option<End>,
        stop: &CancellationToken,
        show: &watch::Sender<Option<Router>>,
    ) -> Result<Store, StartError> {
        let (loaded, state) = (self.live.now(), &self.connector.state);
        if loaded.config.store.url.is_none() {
            return systemd::with_time("starting: opening the state", wiring::open_to_run(&loaded, state))
                .await;
        }
        let source = self.control.source(&self.live);
        let identity = wiring::identity(&loaded, state, Some(self.socket.path().to_owned()));
        let candidate = Candidate {
            options: wiring::options_to_run(&loaded, state).await?,
            identity: Identity { started_at: self.control.started_at, ..identity },
            source: source.clone(),
            state: state.clone(),
            tools: self.tools.clone(),
            socket: self.socket.clone(),
            is_first: after.is_none(),
            is_drained: after == Some(End::Drained),
        };
        self.stands_by.store(true, Ordering::Release);
        let store = standby::lead(candidate, stop, show).await;
        self.stands_by.store(false, Ordering::Release);
        let store = store?;
        // The configuration may have changed while this node was a standby. An error is logged.
        drop(source.renew("beginning to lead").await);
        Ok(store)
    }

    /// Opens the store. One that a command without a daemon has open is waited for, a while; that of a daemon is not.
    async fn open_when_free(
        &self,
        after: Option<End>,
        stop: &CancellationToken,
        show: &watch::Sender<Option<Router>>,
    ) -> Result<Store, StartError> {
        let until = Instant::now() + COMMANDS_TAKE;
        let mut is_told = false;
        loop {
            match self.open(after, stop, show).await {
                Err(StartError::Store(StoreError::InUse { pid, .. }))
                    if Instant::now() < until && !self.is_served().await =>
                {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::info!(pid, "a command is using the state; waiting until it ends");
                    }
                    tokio::time::sleep(IN_USE_PAUSE).await;
                }
                opened => return opened,
            }
        }
    }

    /// Whether a daemon listens on the socket of this state.
    async fn is_served(&self) -> bool {
        let in_state = self.connector.state.path.join("cairn.sock");
        Client::listener(self.socket.path()).await.is_some() || Client::listener(&in_state).await.is_some()
    }

    /// Starts a daemon, once this node may write the store.
    async fn start(
        &self,
        after: Option<End>,
        stop: &CancellationToken,
        show: &watch::Sender<Option<Router>>,
    ) -> Result<Daemon, StartError> {
        let store = self.open_when_free(after, stop, show).await?;
        let epoch = epoch(&store);
        let follows = epoch.is_some_and(|epoch| self.led_in_order.load(Ordering::Acquire) + 1 == epoch);
        if let Some(epoch) = epoch.filter(|_| follows) {
            // A start that loses the lead again has not run anything.
            self.led_in_order.store(epoch, Ordering::Release);
        }
        let store = (store.clone(), follows || store.stopped_cleanly());
        let (state, tools) = (&self.connector.state, &self.tools);
        let start = Daemon::start_with(store, &self.live, state, &self.socket, tools, Some(&self.control));
        systemd::with_time("starting: opening the state", start).await
    }
}

/// The epoch of this node's lead; `None`: no lease is needed.
fn epoch(store: &Store) -> Option<u64> {
    store.lease().map(|lease| lease.borrow().epoch)
}

/// Stops the daemon, then the metrics, which show the stop until its end.
async fn stop_all(daemon: Daemon, end: End, grace: Duration, listener: MetricsListener) -> Ended {
    let ended = match end {
        End::Drained | End::Fenced => daemon.step_down(grace).await,
        End::Stop | End::Restart | End::Hung => {
            Ended { in_order: false, is_store_closed: daemon.stop(grace).await }
        }
    };
    listener.stop().await;
    ended
}

/// Waits for the stop. A signal turns a restart into a stop; another one stops at once.
async fn stopped(
    end: End,
    stop: impl Future<Output = Ended>,
    signals: &mut Signals,
) -> Result<(End, Ended), Failure> {
    let mut end = end;
    let mut stop = pin!(systemd::with_time("stopping: waiting for running turns", stop));
    loop {
        tokio::select! {
            ended = &mut stop => {
                let hangs = !ended.is_store_closed && !matches!(end, End::Stop);
                return Ok((if hangs { End::Hung } else { end }, ended));
            }
            signal = signals.stop() => match end {
                End::Restart | End::Drained | End::Fenced | End::Hung => {
                    tracing::info!("stopping for good: {signal}; send it again to stop immediately");
                    systemd::tell(&[NotifyState::Stopping]);
                    end = End::Stop;
                }
                End::Stop => {
                    tracing::warn!(
                        "stopped immediately: {signal}; the next start resumes unfinished work"
                    );
                    return Err(Failure::Silent(exit::FAILED));
                }
            },
        }
    }
}

/// Binds the admin address, if one is configured.
async fn listener(config: &Config, state: &StateDir) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = config.admin.address() else { return Ok(None) };
    match admin_address::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            // Probably the daemon that uses this state has the address.
            cairn_store::check_free(&state.path).map_err(Failure::of_store)?;
            Err(cannot_listen(address, &error))
        }
    }
}

/// Maintains the metrics, and serves them at the admin address with `shown`.
fn serve_metrics(
    meters: &'static Meters,
    listener: Option<TcpListener>,
    admin: &AdminConfig,
    shown: Router,
) -> MetricsListener {
    let address = admin.address().filter(|_| admin.page);
    let page = address.map(|address| PageAddress {
        names: page_access::names(admin, address),
        with_headers: cairn_page::with_headers,
    });
    MetricsListener::start(meters, listener, admin.hosts.clone(), page, shown)
}

/// Serves until something ends the daemon. Returns the reason.
async fn served(daemon: &Daemon, service: &Service, control: &Control, signals: &mut Signals) -> End {
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                None => service.reload(),
                Some(signal) => {
                    tracing::info!("stopping: {signal}; send it again to stop immediately");
                    systemd::tell(&[NotifyState::Stopping]);
                    break End::Stop;
                }
            },
            () = control.restart_handle.asked() => {
                tracing::info!("stopping, to restart");
                systemd::tell_reloading();
                break End::Restart;
            }
            () = control.restart_handle.drained() => {
                tracing::info!("stopping, so that another node leads");
                systemd::tell_reloading();
                break End::Drained;
            }
            () = standby::led_no_longer(daemon.store()) => {
                tracing::warn!("this node no longer leads: it stops everything immediately and becomes a standby");
                systemd::tell_reloading();
                break End::Fenced;
            }
            () = control.restart_handle.given_up() => {
                tracing::error!("stopping: a part of the daemon hangs, and only a new process can recover");
                systemd::tell(&[NotifyState::Stopping]);
                break End::Hung;
            }
        }
    }
}

/// The result of a start.
enum Started {
    Daemon(Box<Daemon>),
    /// The process must stop, or stand by again.
    Ended(End),
}

/// Starts a daemon; a standby waits here until it leads. The flag is true if a reload was requested too early.
async fn started(
    process: &Process<'_>,
    signals: &mut Signals,
    after: Option<End>,
    show: &watch::Sender<Option<Router>>,
) -> Result<(Started, bool), Failure> {
    let stop = CancellationToken::new();
    let mut start = pin!(process.start(after, &stop, show));
    let mut is_reload_asked = false;
    loop {
        tokio::select! {
            daemon = &mut start => return match daemon {
                Err(StartError::Store(StoreError::Fenced)) => {
                    tracing::warn!("this node lost the lead while it started; it is now a standby");
                    systemd::tell_reloading();
                    Ok((Started::Ended(End::Fenced), false))
                }
                daemon => Ok((Started::Daemon(Box::new(daemon?)), is_reload_asked)),
            },
            signal = signals.next() => match signal {
                // The result is logged.
                None if process.stands_by() => {
                    drop(process.control.source(&process.live).renew_standing_by("SIGHUP").await);
                }
                None => is_reload_asked = true,
                Some(signal) => {
                    let doing = if process.stands_by() { "standing by" } else { "starting" };
                    tracing::info!("stopped while {doing}: {signal}");
                    systemd::tell(&[NotifyState::Stopping]);
                    stop.cancel();
                    // A standby closes its copy cleanly.
                    if process.live.now().config.store.url.is_some()
                        && let Ok(Ok(daemon)) = tokio::time::timeout(RESTART_GRACE, start).await
                    {
                        daemon.stop(Duration::ZERO).await;
                    }
                    return Ok((Started::Ended(End::Stop), false));
                }
            },
        }
    }
}

/// Runs one daemon, from its start to its end.
async fn once(process: &Process<'_>, signals: &mut Signals, after: Option<End>) -> Result<End, Failure> {
    let Process { live, control, .. } = process;
    let state = &process.connector.state;
    let listener = listener(&live.now().config, state).await?;
    let admin = &live.now().config.admin;
    let (show, shown) = watch::channel(None);
    let metrics = serve_metrics(process.meters, listener, admin, as_shown(shown));
    let (daemon, is_reload_asked) = match started(process, signals, after, &show).await? {
        (Started::Daemon(daemon), is_reload_asked) => (*daemon, is_reload_asked),
        (Started::Ended(end), _) => {
            metrics.stop().await;
            return Ok(end);
        }
    };
    tracing::info!(
        socket = %daemon.socket().display(),
        state = %state.path.display(),
        version = env!("CARGO_PKG_VERSION"),
        commit = version::COMMIT,
        "ready"
    );
    systemd::tell(&[NotifyState::Ready]);
    let service = Service::start(&daemon, &control.restart_handle);
    drop(show.send_replace(Some(daemon.admin_routes())));
    if is_reload_asked {
        service.reload();
    }
    let end = served(&daemon, &service, control, signals).await;
    let grace = match end {
        End::Restart | End::Drained => RESTART_GRACE.min(daemon.grace()),
        End::Fenced => Duration::ZERO,
        End::Stop | End::Hung => daemon.grace(),
    };
    let _deadline = Deadline::start(daemon.grace() + STOP_LIMIT);
    service.stop().await;
    let epoch = epoch(daemon.store());
    let (end, ended) = stopped(end, stop_all(daemon, end, grace, metrics), signals).await?;
    let led_in_order = epoch.filter(|_| ended.in_order).unwrap_or(NO_EPOCH);
    process.led_in_order.store(led_in_order, Ordering::Release);
    if matches!(end, End::Stop) {
        tracing::info!("stopped");
    }
    Ok(end)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there; set `listen` under [admin] to a free port"
        }
        _ => "set `listen` under [admin] to an address of this machine, or remove it",
    };
    Failure::failed(format!("cannot listen at {address}: {error}"), hint)
}
