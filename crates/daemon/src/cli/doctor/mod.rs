//! `cairn doctor`: everything that Cairn needs, looked at one by one, each with its remedy.
//!
//! `host` looks at this machine, `state` at the state folder's contents, `models` and `networks` ask servers, `mcp` looks
//! for tool servers, `service` at the unit of systemd; `report` tells what they found.

mod host;
mod mcp;
mod models;
mod networks;
mod report;
mod service;
mod state;

use std::path::Path;
use std::time::Duration;

use cairn_core::ports::Clock as _;
use clap::Args;

use super::connect::Surroundings;
use super::exit;
use super::failure::Failure;
use super::global::Global;
use crate::clock::SystemClock;
use crate::config::{Config, ConfigError, Problem, ProcessEnvironment, StateOrigin, config_file, state_dir};
use report::{Finding, Report};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn doctor
  cairn doctor --offline
  cairn doctor --json | jq '.[] | select(.state == \"failed\")'
  sudo cairn doctor     of the service: it has the configuration in /etc/cairn

Checks configuration, prompts, permissions, disk, state, models (two calls of
one token each, one of them a short conversation with a tool, which may cost a
little), clock, bots on chat networks, tool servers, and the systemd unit.
Nothing is changed, and a running daemon goes on.

Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 2
the configuration is wrong, 5 the store is damaged.")]
pub(crate) struct DoctorArgs {
    /// Ask no model and no chat network
    #[arg(long)]
    offline: bool,
    /// Longest wait for each answer of a server, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// How servers are asked.
#[derive(Debug, Clone, Copy)]
struct Asking {
    /// Nobody is asked.
    offline: bool,
    /// Longest wait for an answer.
    limit: Duration,
}

/// `cairn doctor`.
pub(crate) async fn doctor(mut global: Global, args: DoctorArgs) -> Result<(), Failure> {
    let asking = Asking { offline: args.offline, limit: Duration::from_secs(args.timeout) };
    let mut report = Report::new(global.json);
    let env = ProcessEnvironment;
    if global.config.is_none() && config_file(None, &env).is_none() {
        the_services_own(&mut global, &env);
    }
    let (loaded, problems) = match Config::examine(global.config.as_deref(), &env) {
        Ok((loaded, problems)) => (Some(loaded), problems),
        Err(error) => (None, error.problems),
    };
    let is_config_fine = problems.is_empty();
    report.tell(host::config(loaded.as_ref(), &problems))?;
    let state = match state_dir(global.state.as_deref(), &env) {
        Ok(state) => Some(state),
        Err(error) => {
            report.tell(no_state(&error))?;
            None
        }
    };
    report.tell(host::permissions(loaded.as_ref(), state.as_ref(), &env))?;
    let mut facts = Facts::default();
    if let Some(state) = &state {
        report.tell(host::disk(&state.path))?;
        // Where the configuration cannot be made out the state is looked at all the same.
        let loaded = loaded.clone().map_or_else(|| Config::built_in(&env), Ok)?;
        let surroundings = Surroundings::of(loaded, state.clone(), &global);
        report.tell(state::check(&surroundings, &mut facts).await)?;
    }
    match &loaded {
        Some(loaded) => {
            report.tell(models::check(loaded, asking, &mut facts).await)?;
            report.tell(networks::check(loaded, asking).await)?;
            report.tell(mcp::check(loaded, &facts, &env))?;
        }
        None => report.tell(
            ["models", "platforms", "mcp"]
                .map(|check| Finding::skipped(check, "the configuration cannot be read")),
        )?,
    }
    report.tell(host::clock(SystemClock.now(), &facts))?;
    report.tell(service::check(loaded.as_ref(), Path::new("/")).await)?;
    report.close()?;
    let code = match () {
        () if !is_config_fine => exit::USAGE,
        () if facts.damaged => exit::DAMAGED,
        () if report.has_failed() => exit::FAILED,
        () => return Ok(()),
    };
    Err(Failure::Silent(code))
}

/// Where nothing else is named or found, the service's configuration is meant, and with it its state.
fn the_services_own(global: &mut Global, env: &ProcessEnvironment) {
    let Some((config, state)) = service::places(Path::new("/")) else { return };
    let is_named =
        state_dir(global.state.as_deref(), env).is_ok_and(|dir| dir.origin != StateOrigin::UserData);
    global.config = Some(config);
    if !is_named && state.exists() {
        global.state = Some(state);
    }
}

fn no_state(error: &ConfigError) -> Vec<Finding> {
    error.problems.iter().map(|problem| problem_of("state", problem)).collect()
}

/// A problem of the configuration as a finding.
fn problem_of(check: &str, problem: &Problem) -> Finding {
    let place = problem.place.as_ref();
    let place = place.map(|at| format!("{}:{}:{}: ", at.file.display(), at.line, at.column));
    let found = format!("{}{}", place.unwrap_or_default(), problem.message);
    let remedy = problem.hint.clone().unwrap_or_else(|| "`cairn config check` shows the line".to_owned());
    Finding::failed(check, found, remedy)
}

/// What checks came to know that later ones need. Each check returns findings.
#[derive(Default)]
struct Facts {
    damaged: bool,
    /// When anything last happened in a channel.
    last_at: Option<jiff::Timestamp>,
    /// The tool servers; none where nobody could tell.
    servers: Option<Vec<crate::admin::ServerRecord>>,
    /// By how much the clocks of servers are ahead, by their models.
    clocks: Vec<(String, jiff::SignedDuration)>,
}
