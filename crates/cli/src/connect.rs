//! How a command reaches its daemon: over a socket, in the store opened for reading, or in a daemon started inside.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use cairn_types::ids::{AgentId, ChannelId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Global;
use crate::client::{CallError, Client, encode};
use crate::failure::{Failure, exit};
use crate::inside::{Inside, Opened};
use crate::{log, out, owner};
use cairn_api::records::{CHANGING, StatusRecord};
use cairn_api::text::one_line;
use cairn_config::{
    Config, ConfigError, Environment, Loaded, LogFormat, ProcessEnvironment, StateDir, sockets_to_try,
    state_dir,
};

/// How long a daemon may take to identify itself: the only limit on it, since what it is asked then may take long.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts at a state that another process holds: it may be another command that reads, or a daemon that starts.
const IN_USE_ATTEMPTS: u32 = 20;

const IN_USE_PAUSE: Duration = Duration::from_millis(100);

/// Configuration and state of a command, and the way to its daemon.
pub struct Connector {
    pub loaded: Arc<Loaded>,
    pub state: StateDir,
    pub env: Arc<dyn Environment>,
    inside: Option<Arc<dyn Inside>>,
    /// The configuration is wrong: the built-in defaults stand in for it, and only a running daemon may be asked.
    bad_config: Option<BadConfig>,
}

/// A configuration that is wrong while a daemon runs.
struct BadConfig {
    error: ConfigError,
    /// The daemon's agents; the first is the default one.
    agents: Vec<AgentId>,
}

/// A client, and what must be closed after it.
pub struct Connection {
    pub client: Client,
    state: State,
}

enum State {
    /// A running daemon has it, or there is none.
    Elsewhere,
    Reading(Opened),
    Changing(Opened),
}

impl Connector {
    /// Reads configuration and environment, for a command that a running daemon can carry out. Where the configuration is
    /// wrong and a daemon answers, the command warns and continues: the daemon has a configuration of its own.
    pub async fn load(global: &Global) -> Result<Self, Failure> {
        let error = match Config::load(global.config.as_deref(), &ProcessEnvironment) {
            Ok(loaded) => return Self::of(loaded, global),
            Err(error) => error,
        };
        let Ok(without) = Self::without_config(global) else { return Err(error.into()) };
        let Some(agents) = without.agents_of_the_daemon().await else { return Err(error.into()) };
        out::note(&warning(&error));
        Ok(Self { bad_config: Some(BadConfig { error, agents }), ..without })
    }

    /// Reads configuration and environment for a command that needs the configuration itself, whether or not a daemon runs.
    pub fn configured(global: &Global) -> Result<Self, Failure> {
        Self::of(Config::load(global.config.as_deref(), &ProcessEnvironment)?, global)
    }

    /// Reads the environment for a command that ignores the configuration.
    pub fn without_config(global: &Global) -> Result<Self, Failure> {
        Self::of(Config::built_in(&ProcessEnvironment)?, global)
    }

    /// A connector with a configuration that has been read already.
    pub fn of(loaded: Loaded, global: &Global) -> Result<Self, Failure> {
        let state = state_dir(global.state.as_deref(), &ProcessEnvironment)?;
        let env = Arc::new(ProcessEnvironment);
        Ok(Self { loaded: Arc::new(loaded), state, env, inside: global.inside.clone(), bad_config: None })
    }

    /// What `GET` of a path answers, from the running daemon or from the store itself.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let connection = self.reading().await?;
        let answer = connection.client.get(path).await.map_err(Failure::from);
        connection.finish(answer).await
    }

    /// The bytes that `GET` of a path answers, likewise.
    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let connection = self.reading().await?;
        let answer = connection.client.bytes(path).await.map_err(Failure::from);
        connection.finish(answer).await
    }

    /// What a call answers that changes something which is there already.
    pub async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let connection = self.changing_what_is_there().await?;
        let answer = connection.client.call(method, path, Some(body)).await.map_err(Failure::from);
        connection.finish(answer).await
    }

    /// A connection to read: to a running daemon, or to the store itself.
    pub async fn reading(&self) -> Result<Connection, Failure> {
        quiet_log()?;
        self.asked_or_opened(async |this: &Self| {
            this.check_may_open()?;
            if !this.has_state() {
                return this.to_no_state();
            }
            let opened = this.inside()?.reading(&this.loaded, &this.state).await?;
            Ok(Connection { client: Client::Embedded(opened.router.clone()), state: State::Reading(opened) })
        })
        .await
    }

    /// A connection to change something: to a running daemon, or to one started inside, with the local platform alone.
    pub async fn changing(&self) -> Result<Connection, Failure> {
        quiet_log()?;
        self.asked_or_opened(async |this: &Self| {
            this.check_may_open()?;
            let opened = this.inside()?.changing(&this.loaded, &this.state).await?;
            this.warn_of_models();
            Ok(Connection { client: Client::Embedded(opened.router.clone()), state: State::Changing(opened) })
        })
        .await
    }

    /// Tells what is amiss with the models that agents ask, such as a key that is not set: `cairn run` logs it.
    fn warn_of_models(&self) {
        let agents = &self.loaded.config.agents;
        let used: BTreeSet<&str> = agents.iter().flat_map(|agent| agent.chain()).collect();
        let is_of_model =
            |warning: &&String| used.iter().any(|id| warning.starts_with(&format!("model `{id}`")));
        for warning in self.loaded.warnings.iter().filter(is_of_model) {
            out::note(&format!("warning: {warning}"));
        }
    }

    /// A connection to change something that is there already: it creates no state.
    pub async fn changing_what_is_there(&self) -> Result<Connection, Failure> {
        if !self.has_state() && self.running().await?.is_none() {
            return self.to_no_state();
        }
        self.changing().await
    }

    /// A connection to a state that does not exist yet.
    fn to_no_state(&self) -> Result<Connection, Failure> {
        self.check_may_open()?;
        let dir = self.state.path.display();
        out::note(&format!(
            "there is no state in {dir} yet; `cairn chat` creates one; use --state or $CAIRN_STATE for another folder"
        ));
        let router = self.inside()?.nothing(&self.loaded, &self.state)?;
        Ok(Connection { client: Client::Embedded(router), state: State::Elsewhere })
    }

    /// Refuses to open the state without a daemon where the configuration is wrong, or where root would leave files there
    /// that the owner of the state cannot read.
    pub fn check_may_open(&self) -> Result<(), Failure> {
        if let Some(bad) = &self.bad_config {
            return Err(bad.error.clone().into());
        }
        let dir = &self.state.path;
        match owner::other_owner(dir).filter(|_| dir.is_dir() && rustix::process::geteuid().is_root()) {
            None => Ok(()),
            Some(owner) => Err(Failure::of_another_owner(
                &owner,
                format!(
                    "the state in {} belongs to the user {owner}, who cannot read files that root creates",
                    dir.display()
                ),
            )),
        }
    }

    /// There is a state: in the folder, or in a database, whose copy is made there.
    pub fn has_state(&self) -> bool {
        self.loaded.config.store.url.is_some()
            || self.inside.as_ref().is_some_and(|inside| inside.is_there(&self.state.path))
    }

    /// What opens the state where no daemon runs.
    fn inside(&self) -> Result<&Arc<dyn Inside>, Failure> {
        self.inside
            .as_ref()
            .ok_or_else(|| Failure::failed("no daemon runs on this state", "start one with `cairn run`"))
    }

    /// The channel of that name, of that agent or of the default one.
    pub fn channel(&self, name: &str, agent: Option<&str>) -> Result<ChannelId, Failure> {
        let agents: Vec<AgentId> = match &self.bad_config {
            Some(bad) => bad.agents.clone(),
            None => self.loaded.config.agents.iter().map(|agent| agent.id.clone()).collect(),
        };
        let agent = match agent {
            Some(name) => match agents.iter().find(|agent| agent.as_str() == name) {
                Some(agent) => agent.clone(),
                None => return Err(no_such_agent(name, agents.iter())),
            },
            None => agents.into_iter().next().unwrap_or_else(|| self.loaded.config.default_agent()),
        };
        ChannelId::resolve(name, &agent).map_err(|error| Failure::usage(error.to_string(), ""))
    }

    async fn agents_of_the_daemon(&self) -> Option<Vec<AgentId>> {
        let status = self.running().await.ok()??.get::<StatusRecord>("/v1/status").await.ok()?;
        Some(status.agents.into_iter().map(|agent| agent.id).collect())
    }

    /// To a running daemon, or to what is opened where none runs.
    async fn asked_or_opened(
        &self,
        open: impl AsyncFn(&Self) -> Result<Connection, Failure>,
    ) -> Result<Connection, Failure> {
        let mut n_attempts = 0;
        loop {
            if let Some(client) = self.running().await? {
                return Ok(Connection { client, state: State::Elsewhere });
            }
            n_attempts += 1;
            match open(self).await {
                Err(Failure::Said { code: exit::IN_USE, .. }) if n_attempts < IN_USE_ATTEMPTS => {
                    tokio::time::sleep(IN_USE_PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// The running daemon of this state. With an explicit state, a daemon of another one is ignored.
    ///
    /// # Errors
    /// One runs and does not answer.
    pub async fn running(&self) -> Result<Option<Client>, Failure> {
        #[derive(Deserialize)]
        struct Identity {
            state_dir: std::path::PathBuf,
            state: String,
        }
        let mut silent = None;
        for socket in sockets_to_try(&self.state, self.env.as_ref()) {
            let Some(pid) = Client::listener(&socket).await else { continue };
            let client = Client::Socket(socket.clone());
            let status = async {
                let mut identity = client.get::<Identity>("/v1/status").await?;
                // It soon leads, or stands by.
                for _ in 0..IN_USE_ATTEMPTS {
                    if identity.state != CHANGING {
                        break;
                    }
                    tokio::time::sleep(IN_USE_PAUSE).await;
                    identity = client.get("/v1/status").await?;
                }
                Ok::<_, CallError>(identity)
            };
            let is_explicit = self.state.origin.is_explicit();
            match tokio::time::timeout(STATUS_TIMEOUT, status).await {
                Ok(Ok(identity)) if !is_explicit || same_dir(&identity.state_dir, &self.state.path) => {
                    return Ok(Some(client));
                }
                Ok(_) => {}
                Err(_) if !is_explicit || self.holds_state(&socket, pid) => {
                    silent.get_or_insert(self.does_not_answer(&socket, pid));
                }
                Err(_) => {}
            }
        }
        silent.map_or(Ok(None), Err)
    }

    /// Whether the daemon at that socket has this state, as far as can be told without asking it.
    fn holds_state(&self, socket: &Path, pid: Option<i32>) -> bool {
        let holder = || std::fs::read_to_string(self.state.path.join("lock")).ok()?.trim().parse().ok();
        socket.starts_with(&self.state.path) || pid.is_some_and(|pid| holder() == Some(pid))
    }

    fn does_not_answer(&self, socket: &Path, pid: Option<i32>) -> Failure {
        let held = if self.holds_state(socket, pid) {
            format!("holds the state folder {}, but ", self.state.path.display())
        } else {
            String::new()
        };
        let (process, id) = match pid {
            Some(pid) => (format!(" (process {pid})"), pid.to_string()),
            None => (String::new(), "PID".to_owned()),
        };
        Failure::new(
            exit::IN_USE,
            format!("a daemon{process} {held}does not answer on its socket {}", socket.display()),
            format!(
                "it was stopped, or its disk hangs: if it was stopped, `kill -CONT {id}` resumes it; otherwise \
                 `kill -KILL {id}` ends it, then start it again; accepted messages are not lost"
            ),
        )
    }
}

impl Connection {
    /// The daemon was started inside this process, and ends with the command.
    pub fn is_inside(&self) -> bool {
        matches!(self.state, State::Changing(_))
    }

    /// Carries out work that may be long. A signal ends it early, but what was opened for it is closed in order, unless a
    /// second signal comes.
    pub async fn carry_out<T>(self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        if !self.is_inside() {
            return work.await;
        }
        let (mut terminate, mut interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let stopped = || {
            Failure::failed(
                "stopped by a signal",
                "accepted messages are kept; run the command again to continue",
            )
        };
        let result = tokio::select! {
            result = work => result,
            _ = terminate.recv() => Err(stopped()),
            _ = interrupt.recv() => Err(stopped()),
        };
        tokio::select! {
            result = self.finish(result) => result,
            _ = terminate.recv() => Err(stopped()),
            _ = interrupt.recv() => Err(stopped()),
        }
    }

    /// Closes what was opened for the command, and gives back its result.
    pub async fn finish<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.state {
            State::Elsewhere => {}
            State::Reading(opened) | State::Changing(opened) => (opened.close)().await,
        }
        result
    }
}

/// The error of an agent that is not configured, with the names of those that are.
pub fn no_such_agent<'a>(agent: &str, known: impl Iterator<Item = &'a AgentId>) -> Failure {
    let known: Vec<_> = known.map(AgentId::as_str).collect();
    Failure::usage(
        format!("no agent `{agent}` is configured"),
        format!("the configured agents are: {}", known.join(", ")),
    )
}

/// Listens for a signal of that kind from here on.
pub fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}"), ""))
}

pub fn channel_path(channel: &ChannelId, call: &str) -> String {
    format!("/v1/channels/{}/{call}", encode(channel.as_str()))
}

/// Commands log warnings and errors alone.
pub fn quiet_log() -> Result<(), Failure> {
    let started = log::start("warn", LogFormat::Auto, &ProcessEnvironment);
    started.map(drop).map_err(|error| Failure::failed(format!("cannot start the log: {error}"), ""))
}

pub fn same_dir(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}

fn warning(error: &ConfigError) -> String {
    let first = error.problems.first().map(|problem| {
        let place = problem.place.as_ref();
        let place = place.map(|at| format!("{}:{}:{}: ", at.file.display(), at.line, at.column));
        format!("{}{}", place.unwrap_or_default(), one_line(&problem.message))
    });
    let more = match error.problems.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let first = first.unwrap_or_default();
    format!("warning: {first}{more}; asking the running daemon anyway; fix this before it starts again")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rstest::rstest;
    use tokio::time::Instant;

    use super::*;
    use cairn_config::{FixedEnvironment, StateOrigin};

    /// A process that listens and never answers, as one that is stopped by a signal.
    #[rstest]
    #[case::socket_in_the_state_folder("state", "", true)]
    #[case::socket_elsewhere_of_the_process_that_holds_the_state("run", "own", true)]
    #[case::socket_elsewhere_of_another_process("run", "1", false)]
    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_does_not_answer_is_named_after_one_wait(
        #[case] listens_in: &str,
        #[case] holder: &str,
        #[case] told: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let [state, run] = ["state", "run"].map(|name| dir.path().join(name));
        for folder in [&state, &run] {
            std::fs::create_dir(folder).unwrap();
        }
        let own = std::process::id().to_string();
        std::fs::write(state.join("lock"), holder.replace("own", &own)).unwrap();
        let socket = dir.path().join(listens_in).join("cairn.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let env = FixedEnvironment::new("/").with("RUNTIME_DIRECTORY", run.to_str().unwrap());
        let connector = Connector {
            loaded: Arc::new(Config::built_in(&env).unwrap()),
            state: StateDir { path: state, origin: StateOrigin::Flag },
            env: Arc::new(env),
            inside: None,
            bad_config: None,
        };
        let began = Instant::now();
        let nothing = async |_: &Connector| {
            Ok(Connection { client: Client::Socket(run.clone()), state: State::Elsewhere })
        };
        let failure = connector.asked_or_opened(nothing).await.err();
        assert!((STATUS_TIMEOUT..STATUS_TIMEOUT * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
        let Some(Failure::Said { code, message, hint }) = failure else {
            assert!(!told && failure.is_none(), "{failure:?}");
            return;
        };
        assert!(told && code == exit::IN_USE, "{message}");
        for words in [&format!("process {own}"), "holds the state folder", socket.to_str().unwrap()] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert!(hint.contains(&format!("kill -CONT {own}")), "{hint}");
    }
}
