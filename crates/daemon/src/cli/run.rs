//! `cairn run`: the daemon in the foreground, until a signal.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use axum::Router;
use cairn_core::ports::StoreError;
use cairn_store::Store;
use clap::Args;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::args::Global;
use super::connect::{Connector, listen};
use super::failure::{Failure, exit};
use super::version;
use crate::config::{Config, Live, LogFormat, StateDir, socket_to_bind};
use crate::meters::{self, Meters, MetricsListener};
use crate::node::{self, Candidate};
use crate::restart_handle::RestartHandle;
use crate::service::Service;
use crate::socket::SocketMode;
use crate::systemd;
use crate::telemetry;
use crate::wiring::{self, Control, Daemon, StartError};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn run
  cairn run --config /etc/cairn/config.toml --state /var/lib/cairn

The first SIGTERM or SIGINT stops it cleanly, the second at once. SIGHUP
reloads the configuration, like `cairn reload`. It listens at
$RUNTIME_DIRECTORY/cairn.sock, else at cairn.sock in the state folder, and
reports readiness, status and its watchdog to systemd.")]
pub(crate) struct RunArgs {}

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

    /// The name of a signal to stop; none: to reload.
    async fn next(&mut self) -> Option<&'static str> {
        tokio::select! {
            _ = self.terminate.recv() => Some("SIGTERM"),
            _ = self.interrupt.recv() => Some("SIGINT"),
            _ = self.hangup.recv() => None,
        }
    }

    /// Returns when it is to stop, with the signal's name.
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
    /// To restart within the process.
    Restart,
    /// To stand by within the process, so that another node leads.
    Drained,
    /// The same, where another node leads already, or may.
    Fenced,
    /// With its process, which has threads that hang.
    Hung,
}

/// What a stop may take beyond the time of its turns. With the 30 s that those have unless configured, this is less than
/// the unit's TimeoutStopSec.
const STOP_LIMIT: Duration = Duration::from_secs(14);

/// Turns under way get no more when it only restarts: what is cut short is taken up again at once.
const RESTART_GRACE: Duration = Duration::from_secs(1);

/// Ends the process when a stop takes too long, whatever hangs. Dropping it calls it off.
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
            // The reader of the log may be what hangs.
            let log = || {
                tracing::error!(
                    "the stop takes too long; the process ends, what was accepted is in the journal"
                )
            };
            drop(std::thread::Builder::new().spawn(log));
            std::thread::park_timeout(LAST_WORDS);
            std::process::exit(exit::HUNG.into());
        };
        if let Err(error) = std::thread::Builder::new().name("deadline".to_owned()).spawn(watch) {
            tracing::warn!(%error, "nothing will end this stop if it hangs");
        }
        Self { _called_off: called_off }
    }
}

/// Time to write the last line of the log.
const LAST_WORDS: Duration = Duration::from_millis(300);

pub(crate) async fn run(global: Global, _args: RunArgs) -> Result<(), Failure> {
    let connector = Connector::configured(&global)?;
    connector.loaded.check_tokens()?;
    let log = &connector.loaded.config.log;
    let format = if global.json { LogFormat::Json } else { log.format };
    let log = telemetry::start(&log.level, format, connector.env.as_ref()).map_err(|error| {
        Failure::usage(format!("cannot read the log level: {error}"), "write info or debug")
    })?;
    for warning in &connector.loaded.warnings {
        tracing::warn!("{warning}");
    }
    let meters =
        meters::install().map_err(|error| Failure::failed(error.to_string(), "please report this"))?;
    let mut signals = Signals::listen()?;
    let control = Control {
        flag: global.config.clone(),
        env: Arc::clone(&connector.env),
        set_level: Arc::new(move |level| log.set_level(level).map_err(|error| error.to_string())),
        restart_handle: RestartHandle::default(),
    };
    let live = Live::new(Arc::clone(&connector.loaded));
    let mut after = None;
    loop {
        let end = once(&connector, &global, &live, &control, meters, &mut signals, after).await?;
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

/// The metrics end last: they show how the stop goes. False: a part of the store does not end.
async fn stop_all(daemon: Daemon, grace: Duration, listener: MetricsListener) -> bool {
    let ended = daemon.stop(grace).await;
    listener.stop().await;
    ended
}

/// Waits for the end. A first signal turns a restart into a stop, the next one stops at once.
async fn stopped(end: End, stop: impl Future<Output = bool>, signals: &mut Signals) -> Result<End, Failure> {
    let mut end = end;
    let mut stop = pin!(systemd::with_time("stopping: turns under way get their time", stop));
    loop {
        tokio::select! {
            ended = &mut stop => return Ok(if ended || matches!(end, End::Stop) { end } else { End::Hung }),
            signal = signals.stop() => match end {
                End::Restart | End::Drained | End::Fenced | End::Hung => {
                    tracing::info!("stopping for good: {signal}; send it again to stop at once");
                    systemd::tell(&[NotifyState::Stopping]);
                    end = End::Stop;
                }
                End::Stop => {
                    tracing::warn!(
                        "stopped at once: {signal}; the next start resumes what was under way"
                    );
                    return Err(Failure::Silent(exit::FAILED));
                }
            },
        }
    }
}

/// The store, once this node may write it. `after`: what this process ended before.
async fn open(
    live: &Live,
    connector: &Connector,
    (socket, mode): (&Path, SocketMode),
    after: Option<End>,
    stop: &CancellationToken,
    show: &watch::Sender<Option<Router>>,
) -> Result<Store, StartError> {
    let (loaded, state) = (live.now(), &connector.state);
    if loaded.config.store.url.is_none() {
        return systemd::with_time("starting: opening the state", wiring::open(&loaded, state)).await;
    }
    let candidate = Candidate {
        options: wiring::store_options(&loaded, state)?,
        identity: wiring::identity(&loaded, state, Some(socket.to_owned())),
        loaded,
        state: state.clone(),
        tools: connector.tools().clone(),
        mode,
        is_first: after.is_none(),
        is_drained: after == Some(End::Drained),
    };
    node::lead(candidate, stop, show).await
}

/// Listens for metrics and the page, where the configuration says so.
async fn listener(config: &Config, state: &StateDir) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = config.admin.address() else { return Ok(None) };
    match meters::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            // Most likely the daemon that has the state listens there.
            cairn_store::check_free(&state.path).map_err(Failure::of_store)?;
            Err(cannot_listen(address, &error))
        }
    }
}

/// Serves until something ends it: what it was.
async fn served(daemon: &Daemon, service: &Service, control: &Control, signals: &mut Signals) -> End {
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                None => service.reload(),
                Some(signal) => {
                    tracing::info!("stopping: {signal}; send it again to stop at once");
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
            () = node::led_no_longer(daemon.store()) => {
                tracing::warn!("this node leads no longer: it stops everything at once, and stands by");
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

/// One daemon, from its start to its end.
async fn once(
    connector: &Connector,
    global: &Global,
    live: &Live,
    control: &Control,
    meters: &'static Meters,
    signals: &mut Signals,
    after: Option<End>,
) -> Result<End, Failure> {
    let state = &connector.state;
    let socket = socket_to_bind(state, connector.env.as_ref())?;
    let mode = if socket.starts_with(&state.path) { SocketMode::Owner } else { SocketMode::Group };
    let listener = listener(&live.now().config, state).await?;
    let admin = &live.now().config.admin;
    let (show, shown) = watch::channel(None);
    let metrics = MetricsListener::start(meters, listener, admin, node::as_shown(shown));
    let stop = CancellationToken::new();
    let start = async {
        let store = open(live, connector, (&socket, mode), after, &stop, &show).await?;
        let start =
            Daemon::start_with(store, live, state, (socket.clone(), mode), &global.tools, Some(control));
        systemd::with_time("starting: opening the state", start).await
    };
    let mut start = pin!(start);
    let daemon = tokio::select! {
        daemon = &mut start => match daemon {
            Err(StartError::Store(StoreError::Fenced)) => {
                tracing::warn!("this node lost the lead while it started; it stands by");
                systemd::tell_reloading();
                metrics.stop().await;
                return Ok(End::Fenced);
            }
            daemon => daemon?,
        },
        signal = signals.stop() => {
            tracing::info!("stopped while starting: {signal}");
            systemd::tell(&[NotifyState::Stopping]);
            stop.cancel();
            // A node that stands by leaves its copy in order.
            if live.now().config.store.url.is_some()
                && let Ok(Ok(daemon)) = tokio::time::timeout(RESTART_GRACE, start).await
            {
                daemon.stop(Duration::ZERO).await;
            }
            metrics.stop().await;
            return Ok(End::Stop);
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
    let end = served(&daemon, &service, control, signals).await;
    let grace = match end {
        End::Restart | End::Drained => RESTART_GRACE.min(daemon.grace()),
        End::Fenced => Duration::ZERO,
        End::Stop | End::Hung => daemon.grace(),
    };
    let _deadline = Deadline::start(daemon.grace() + STOP_LIMIT);
    service.stop().await;
    let end = stopped(end, stop_all(daemon, grace, metrics), signals).await?;
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
        _ => "set `listen` under [admin] to an address of this machine, or leave it out",
    };
    Failure::failed(format!("cannot listen at {address}: {error}"), hint)
}
