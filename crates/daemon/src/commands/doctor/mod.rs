//! `cairn doctor`: checks everything that Cairn needs. Each finding has a remedy.

mod asking;
mod beforehand;
mod database;
mod host;
mod mcp;
mod models;
mod networks;
mod ranking;
mod report;
mod search;
mod service;
mod speech;
mod state;
mod transcription;

use std::future::ready;
use std::time::Duration;

use clap::Args;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use crate::commands::doctor::report::Report;
use crate::wiring::Tools;
pub(super) use beforehand::{Told, bot, drawn, greeting, key_problem, models, window};
use cairn_api::records::{ServerRecord, ToolRecord};
use cairn_cli::args::Global;
use cairn_cli::connect::Connector;
use cairn_cli::failure::{Failure, exit};
pub(super) use report::{Finding, Mark};

use cairn_config::{
    Config, Loaded, Problem, ProcessEnvironment, StateDir, StateOrigin, config_file, state_dir,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn doctor
  cairn doctor --offline
  cairn doctor --json | jq '.[] | select(.state == \"failed\")'
  sudo cairn doctor     check the service, configured in /etc/cairn

Checks configuration, prompts, permissions, disk, database, state, models,
clock, bots on chat networks, transcription, speech, tool servers, and the
systemd unit. It changes nothing, and does not disturb a running daemon.

Each model gets three short requests, like those of a turn: a question, the
result of a tool call, a later message. Each has the agent's prompt and tools,
a few thousand tokens together. No message of people is sent.

Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 2
the configuration is wrong, 5 the store is damaged.")]
pub(crate) struct DoctorArgs {
    /// Do not contact model servers or chat networks
    #[arg(long)]
    offline: bool,
    /// Longest wait for each answer, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// The options of the command, and results that later checks need.
struct Examination {
    global: Global,
    /// The tools linked into this binary.
    linked: Tools,
    env: ProcessEnvironment,
    /// Whether to skip all checks that contact a server.
    offline: bool,
    /// Longest wait for an answer.
    limit: Duration,
    /// The configuration; `None` if it cannot be read.
    loaded: Option<Loaded>,
    /// The problems in the configuration.
    problems: Vec<Problem>,
    /// The state folder; `None` if none can be determined.
    state: Option<StateDir>,
    damaged: bool,
    /// The time of the last activity in any channel.
    last_at: Option<Timestamp>,
    /// The tool servers; `None` if unknown.
    servers: Option<Vec<ServerRecord>>,
    /// The tools of all agents; `None` if unknown.
    tools: Option<Vec<ToolRecord>>,
    /// How far the clock of each model's server is ahead.
    clocks: Vec<(String, SignedDuration)>,
}

type Check = fn(&mut Examination) -> BoxFuture<'_, Vec<Finding>>;

/// All checks, in the order in which they run.
const CHECKS: [Check; 15] = [
    |x| ready(host::config(x)).boxed(),
    |x| ready(host::permissions(x)).boxed(),
    |x| ready(host::disk(x)).boxed(),
    |x| database::check(x).boxed(),
    |x| state::check(x).boxed(),
    |x| ranking::check(x).boxed(),
    |x| models::check(x).boxed(),
    |x| networks::check(x).boxed(),
    |x| transcription::check(x).boxed(),
    |x| speech::check(x).boxed(),
    |x| ready(mcp::check(x)).boxed(),
    |x| search::check(x).boxed(),
    |x| ready(skipped(x)).boxed(),
    |x| ready(host::clock(x)).boxed(),
    |x| service::check(x).boxed(),
];

pub(crate) async fn doctor(global: Global, tools: Tools, args: DoctorArgs) -> Result<(), Failure> {
    let mut x = Examination::new(global, tools, &args);
    let is_config_fine = x.problems.is_empty();
    let mut report = Report::new(x.global.json);
    for check in CHECKS {
        report.add(check(&mut x).await)?;
    }
    report.close()?;
    let code = match () {
        () if !is_config_fine => exit::USAGE,
        () if x.damaged => exit::DAMAGED,
        () if report.has_failed() => exit::FAILED,
        () => return Ok(()),
    };
    Err(Failure::Silent(code))
}

impl Examination {
    fn new(mut global: Global, linked: Tools, args: &DoctorArgs) -> Self {
        let env = ProcessEnvironment;
        if global.config.is_none() && config_file(None, &env).is_none() {
            use_the_services_files(&mut global, &env);
        }
        let (loaded, problems) = match Config::examine(global.config.as_deref(), &env) {
            Ok((loaded, problems)) => (Some(loaded), problems),
            Err(error) => (None, error.problems),
        };
        Self {
            state: state_dir(global.state.as_deref(), &env).ok(),
            global,
            linked,
            env,
            offline: args.offline,
            limit: Duration::from_secs(args.timeout),
            loaded,
            problems,
            damaged: false,
            last_at: None,
            servers: None,
            tools: None,
            clocks: Vec::new(),
        }
    }

    /// Without a readable configuration the state is examined with the defaults.
    fn connector(&self) -> Result<Connector, Failure> {
        match &self.loaded {
            Some(loaded) => Connector::of(loaded.clone(), &self.global),
            None => Connector::without_config(&self.global),
        }
    }
}

/// Uses the service's configuration and state, if no others are named or found.
fn use_the_services_files(global: &mut Global, env: &ProcessEnvironment) {
    let Some((config, state)) = service::places() else { return };
    let is_named =
        state_dir(global.state.as_deref(), env).is_ok_and(|dir| dir.origin != StateOrigin::UserData);
    global.config = Some(config);
    if !is_named && state.exists() {
        global.state = Some(state);
    }
}

/// Reports the checks that are skipped without a configuration.
fn skipped(x: &mut Examination) -> Vec<Finding> {
    let without = |check| Finding::skipped(check, "the configuration cannot be read");
    if x.loaded.is_some() { Vec::new() } else { ["models", "platforms", "mcp"].map(without).into() }
}

/// A problem in the configuration, as a finding.
fn problem_of(check: &str, problem: &Problem) -> Finding {
    let place = problem.place.as_ref();
    let place = place.map(|at| format!("{}:{}:{}: ", at.file.display(), at.line, at.column));
    let found = format!("{}{}", place.unwrap_or_default(), problem.message);
    let remedy = problem.hint.clone().unwrap_or_else(|| "`cairn config check` shows the line".to_owned());
    Finding::failed(check, found, remedy)
}
