//! `cairn run`: the daemon in the foreground, until a signal.

use clap::Args;
use sd_notify::NotifyState;
use tokio::signal::unix::SignalKind;

use super::connect::{Surroundings, listen};
use super::failure::Failure;
use super::{Global, exit};
use crate::config::{LogFormat, socket_to_bind};
use crate::networks::Reach;
use crate::socket::Home;
use crate::telemetry;
use crate::wiring::Daemon;

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn run
  cairn run --config /etc/cairn/config.toml --state /var/lib/cairn

The first SIGTERM or SIGINT stops it cleanly, the second at once. It listens at $RUNTIME_DIRECTORY/cairn.sock, else at
cairn.sock in the state folder, and tells systemd when it is ready.")]
pub(crate) struct RunArgs {}

/// `cairn run`.
pub(crate) async fn run(global: Global, _args: RunArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global)?;
    surroundings.loaded.check_tokens()?;
    let log = &surroundings.loaded.config.log;
    let format = if global.json { LogFormat::Json } else { log.format };
    telemetry::start(&log.level, format).map_err(|error| {
        Failure::usage(format!("cannot read the log level: {error}"), "write info or debug")
    })?;
    for warning in &surroundings.loaded.warnings {
        tracing::warn!("{warning}");
    }
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let socket = socket_to_bind(&surroundings.state, surroundings.env.as_ref())?;
    let home = if socket.starts_with(&surroundings.state.path) { Home::State } else { Home::Runtime };
    let daemon = Daemon::start(
        &surroundings.loaded,
        &surroundings.state,
        socket,
        home,
        Reach::Networks,
        &global.tools,
    )
    .await?;
    tracing::info!(
        socket = %daemon.socket().display(),
        state = %surroundings.state.path.display(),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    tell_systemd(NotifyState::Ready);
    tokio::select! {
        _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
        _ = interrupt.recv() => tracing::info!("stopping: SIGINT; once more to stop at once"),
    }
    tell_systemd(NotifyState::Stopping);
    tokio::select! {
        () = daemon.stop() => tracing::info!("stopped"),
        _ = terminate.recv() => return Err(at_once()),
        _ = interrupt.recv() => return Err(at_once()),
    }
    Ok(())
}

fn at_once() -> Failure {
    tracing::warn!("stopped at once; what is under way is taken up again at the next start");
    Failure::Silent(exit::FAILED)
}

fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "cannot tell systemd; check NotifyAccess of the unit");
    }
}
