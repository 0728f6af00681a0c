//! A configuration that is wrong while a daemon runs: what only asks the daemon goes on without it.

use std::sync::Arc;

use cairn_core::ids::AgentId;

use super::connect::Surroundings;
use super::failure::Failure;
use super::owner::opens_the_state;
use super::store::StoreCommand;
use super::text::one_line;
use super::{Command, Global, out};
use crate::admin::StatusRecord;
use crate::config::{Config, ConfigError, ProcessEnvironment};

/// What a command of a running daemon takes the place of its own configuration with.
#[derive(Debug)]
pub(crate) struct Fault {
    /// What is wrong with the configuration. It counts again where the daemon is gone.
    pub(crate) error: ConfigError,
    /// The daemon's agents; the first is the default one.
    pub(crate) agents: Vec<AgentId>,
}

impl Fault {
    /// As the command would have failed.
    pub(crate) fn failure(&self) -> Failure {
        self.error.clone().into()
    }
}

/// Where the configuration is wrong, and a daemon answers where the command looks for one: warns, and has the command go
/// on by the daemon's word alone. Else everything is left as it is.
pub(super) async fn or_the_daemon(global: Global, command: &Command) -> Global {
    if !only_asks(command) {
        return global;
    }
    let Err(error) = Config::load(global.config.as_deref(), &ProcessEnvironment) else { return global };
    let Some(agents) = agents_of_the_daemon(&global).await else { return global };
    out::note(&warning(&error));
    Global { fault: Some(Arc::new(Fault { error, agents })), ..global }
}

async fn agents_of_the_daemon(global: &Global) -> Option<Vec<AgentId>> {
    let client = Surroundings::without_config(global).ok()?.running().await?;
    let status = client.get::<StatusRecord>("/v1/status").await.ok()?;
    Some(status.agents.into_iter().map(|agent| agent.id).collect())
}

fn warning(error: &ConfigError) -> String {
    let told = error.problems.first().map(|problem| {
        let place = problem.place.as_ref();
        let place = place.map(|at| format!("{}:{}:{}: ", at.file.display(), at.line, at.column));
        format!("{}{}", place.unwrap_or_default(), one_line(&problem.message))
    });
    let more = match error.problems.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let told = told.unwrap_or_default();
    format!("warning: {told}{more}; the running daemon is asked all the same; mend it before the next start")
}

/// Commands that need nothing of the configuration where a daemon answers: those at work in its state, save what is done
/// without it. `tune` simulates what is configured; `forget-user` ends an erasure by itself where the daemon cannot.
fn only_asks(command: &Command) -> bool {
    let without_it = matches!(
        command,
        Command::Tune(_)
            | Command::ForgetUser(_)
            | Command::Store(StoreCommand::Verify { quarantine: true } | StoreCommand::Rebuild)
    );
    opens_the_state(command) && !without_it
}
