//! Where a command finds its daemon: over a socket, in the store opened for reading, or started inside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::ids::{AgentId, ChannelId};
use cairn_core::ports::StoreError;
use serde::Deserialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::client::{Client, encode};
use super::failure::Failure;
use super::global::Global;
use super::{exit, out, who};
use crate::admin::StatusRecord;
use crate::config::{
    Config, ConfigError, Environment, Live, Loaded, LogFormat, Problem, ProcessEnvironment, StateDir,
    check_socket, sockets_to_try, state_dir,
};
use crate::socket::Home;
use crate::telemetry;
use crate::text::one_line;
use crate::wiring::{self, Daemon, Reader, StartError, Tools};

/// How long a daemon may take to say who it is before it is passed over.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts at a state that another process holds: it may be another command that reads, or a daemon that starts.
const IN_USE_ATTEMPTS: u32 = 20;

const IN_USE_PAUSE: Duration = Duration::from_millis(100);

/// Configuration and state of a command.
pub(crate) struct Surroundings {
    /// The configuration.
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) state: StateDir,
    pub(crate) env: Arc<dyn Environment>,
    tools: Tools,
    /// The configuration is wrong: the built-in defaults stand in for it, and only a running daemon may be asked.
    fault: Option<Fault>,
}

/// A configuration that is wrong while a daemon runs.
struct Fault {
    error: ConfigError,
    /// The daemon's agents; the first is the default one.
    agents: Vec<AgentId>,
}

/// A way to a daemon, and what must be closed after it.
pub(crate) struct Session {
    pub(crate) client: Client,
    inside: Inside,
}

enum Inside {
    Nothing,
    Reader(Reader),
    Daemon(Box<Daemon>),
}

impl Surroundings {
    /// Reads configuration and environment, for a command that a running daemon can carry out. Where the configuration is
    /// wrong and a daemon answers, the command warns and goes on: the daemon has a configuration of its own.
    pub(crate) async fn load(global: &Global) -> Result<Self, Failure> {
        let error = match Config::load(global.config.as_deref(), &ProcessEnvironment) {
            Ok(loaded) => {
                let state = state_dir(global.state.as_deref(), &ProcessEnvironment)?;
                return Ok(Self::of(loaded, state, global));
            }
            Err(error) => error,
        };
        let Ok(without) = Self::without_config(global) else { return Err(error.into()) };
        let Some(agents) = without.agents_of_the_daemon().await else { return Err(error.into()) };
        out::note(&warning(&error));
        Ok(Self { fault: Some(Fault { error, agents }), ..without })
    }

    /// The same for a command that needs the configuration itself, whether or not a daemon runs.
    pub(crate) fn configured(global: &Global) -> Result<Self, Failure> {
        let loaded = Config::load(global.config.as_deref(), &ProcessEnvironment)?;
        let state = state_dir(global.state.as_deref(), &ProcessEnvironment)?;
        Ok(Self::of(loaded, state, global))
    }

    /// The same where the configuration is none of the command's business.
    pub(crate) fn without_config(global: &Global) -> Result<Self, Failure> {
        let loaded = Config::built_in(&ProcessEnvironment)?;
        let state = state_dir(global.state.as_deref(), &ProcessEnvironment)?;
        Ok(Self::of(loaded, state, global))
    }

    /// A way to read: a running daemon, or the store itself.
    pub(crate) async fn reading(&self) -> Result<Session, Failure> {
        quiet_log()?;
        self.patiently(async |this: &Self| {
            if let Some(client) = this.running().await {
                return Ok(Session { client, inside: Inside::Nothing });
            }
            this.may_do_without()?;
            if !this.state.is_there() {
                return this.nothing();
            }
            let reader = Reader::open(&this.loaded, &this.state, &this.tools).await?;
            Ok(Session { client: Client::Embedded(reader.router()), inside: Inside::Reader(reader) })
        })
        .await
    }

    /// A way to change something: a running daemon, or one started inside, with the local platform alone.
    pub(crate) async fn changing(&self) -> Result<Session, Failure> {
        quiet_log()?;
        self.patiently(async |this: &Self| {
            if let Some(client) = this.running().await {
                return Ok(Session { client, inside: Inside::Nothing });
            }
            this.may_do_without()?;
            let socket = this.state.path.join("cairn.sock");
            check_socket(&socket)?;
            let live = Live::new(Arc::clone(&this.loaded));
            let place = (socket, Home::State);
            let daemon = Daemon::start(&live, &this.state, place, &this.tools, None).await?;
            Ok(Session {
                client: Client::Embedded(daemon.router()),
                inside: Inside::Daemon(Box::new(daemon)),
            })
        })
        .await
    }

    /// A way to change something that is there already: where there is no state, none is made for it.
    pub(crate) async fn changing_what_is_there(&self) -> Result<Session, Failure> {
        if !self.state.is_there() && self.running().await.is_none() {
            return self.nothing();
        }
        self.changing().await
    }

    /// What a command gets that looks into a state which nobody has begun.
    fn nothing(&self) -> Result<Session, Failure> {
        self.may_do_without()?;
        let dir = self.state.path.display();
        out::note(&format!(
            "there is no state in {dir} yet; `cairn chat` begins one, --state or $CAIRN_STATE names another"
        ));
        let router = wiring::nothing(&self.loaded, &self.state, &self.tools)?;
        Ok(Session { client: Client::Embedded(router), inside: Inside::Nothing })
    }

    /// Whether a command may open the state itself, without a daemon: not by a configuration that is wrong, and not as root
    /// where the state is another's, who could not read what root leaves there.
    pub(crate) fn may_do_without(&self) -> Result<(), Failure> {
        if let Some(fault) = &self.fault {
            return Err(fault.error.clone().into());
        }
        let dir = &self.state.path;
        match who::other_owner(dir).filter(|_| dir.is_dir() && rustix::process::geteuid().is_root()) {
            None => Ok(()),
            Some(owner) => Err(of_another(
                &owner,
                format!(
                    "the state in {} belongs to the user {owner}, who could not read files of root's",
                    dir.display()
                ),
            )),
        }
    }

    /// Configuration and state from what has been read already.
    pub(crate) fn of(loaded: Loaded, state: StateDir, global: &Global) -> Self {
        let env = Arc::new(ProcessEnvironment);
        Self { loaded: Arc::new(loaded), state, env, tools: global.tools.clone(), fault: None }
    }

    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    pub(crate) fn channel(&self, name: &str, agent: Option<&str>) -> Result<ChannelId, Failure> {
        let agents = self.agents();
        let agent = match agent {
            Some(name) => match agents.iter().find(|agent| agent.as_str() == name) {
                Some(agent) => agent.clone(),
                None => return Err(no_such_agent(name, &agents)),
            },
            None => agents.into_iter().next().unwrap_or_else(|| self.loaded.config.default_agent()),
        };
        ChannelId::resolve(name, &agent).map_err(|error| Failure::usage(error.to_string(), ""))
    }

    /// The agents that there are, the default one first.
    fn agents(&self) -> Vec<AgentId> {
        match &self.fault {
            Some(fault) => fault.agents.clone(),
            None => self.loaded.config.agents.iter().map(|agent| agent.id.clone()).collect(),
        }
    }

    async fn agents_of_the_daemon(&self) -> Option<Vec<AgentId>> {
        let status = self.running().await?.get::<StatusRecord>("/v1/status").await.ok()?;
        Some(status.agents.into_iter().map(|agent| agent.id).collect())
    }

    async fn patiently(
        &self,
        open: impl AsyncFn(&Self) -> Result<Session, Failure>,
    ) -> Result<Session, Failure> {
        let mut n_attempts = 0;
        loop {
            n_attempts += 1;
            match open(self).await {
                Err(Failure::Said { code: exit::IN_USE, .. }) if n_attempts < IN_USE_ATTEMPTS => {
                    tokio::time::sleep(IN_USE_PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// The running daemon of this state. With an explicit state, a daemon of another one is passed over.
    pub(crate) async fn running(&self) -> Option<Client> {
        #[derive(Deserialize)]
        struct Identity {
            state_dir: std::path::PathBuf,
        }
        for socket in sockets_to_try(&self.state, self.env.as_ref()) {
            if !Client::answers(&socket).await {
                continue;
            }
            let client = Client::Socket(socket);
            let status = tokio::time::timeout(STATUS_TIMEOUT, client.get::<Identity>("/v1/status")).await;
            let Ok(Ok(identity)) = status else {
                continue;
            };
            if !self.state.origin.is_explicit() || same_dir(&identity.state_dir, &self.state.path) {
                return Some(client);
            }
        }
        None
    }
}

impl Session {
    /// The daemon was started inside this process, and ends with the command.
    pub(crate) fn is_inside(&self) -> bool {
        matches!(self.inside, Inside::Daemon(_))
    }

    /// Ends what was started for the command.
    pub(crate) async fn close(self) {
        match self.inside {
            Inside::Nothing => {}
            Inside::Reader(reader) => reader.close().await,
            Inside::Daemon(daemon) => drop(daemon.stop().await),
        }
    }

    /// Carries out work that may be long. A signal ends it early, but not what it stands on: that is closed in order,
    /// unless a second signal comes.
    pub(crate) async fn carry_out<T>(
        self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if !self.is_inside() {
            return work.await;
        }
        let (mut terminate, mut interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let stopped =
            || Failure::failed("stopped by a signal", "what was accepted is kept; run it again to go on");
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

    pub(crate) async fn finish<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        self.close().await;
        result
    }
}

fn no_such_agent(agent: &str, known: &[AgentId]) -> Failure {
    let known: Vec<_> = known.iter().map(AgentId::as_str).collect();
    Failure::usage(
        format!("no agent `{agent}` is configured"),
        format!("the configured agents are: {}", known.join(", ")),
    )
}

/// Listens for a signal of that kind from here on.
pub(crate) fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}"), ""))
}

pub(crate) fn channel_path(channel: &ChannelId, call: &str) -> String {
    format!("/v1/channels/{}/{call}", encode(channel.as_str()))
}

/// Commands log warnings and errors alone.
pub(crate) fn quiet_log() -> Result<(), Failure> {
    let started = telemetry::start("warn", LogFormat::Auto, &ProcessEnvironment);
    started.map(drop).map_err(|error| Failure::failed(format!("cannot start the log: {error}"), ""))
}

pub(crate) fn same_dir(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}

/// Where packages and `install.sh` put the reference configuration.
const REFERENCES: [&str; 2] = ["/usr/share/doc/cairn/config.toml", "/usr/local/share/cairn/config.toml"];

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        // What is in no file has a remedy of its own.
        if let [Problem { message, place: None, hint: Some(hint) }] = error.problems.as_slice() {
            return Self::usage(message, hint);
        }
        let there = REFERENCES.into_iter().find(|file| Path::new(file).is_file());
        let reference = there.unwrap_or("config/config.toml of the source");
        Self::usage(error.to_string(), format!("every key with its meaning is in {reference}"))
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => store_failure(error),
            StartError::Model(error) => {
                Self::usage(error.to_string(), "correct the model in the config file")
            }
            StartError::Network(error) => {
                Self::usage(error.to_string(), "correct [discord] or [telegram] in the config file")
            }
            StartError::Tool(error) => Self::usage(error.to_string(), ""),
            StartError::Socket(_) | StartError::Runtime(_) => {
                Self::failed(error.to_string(), "remove what is in the way, or give another --state")
            }
        }
    }
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

/// The state belongs to somebody else, and no daemon that may be asked runs.
fn of_another(owner: &str, message: String) -> Failure {
    let hint = format!(
        "give the command as that user: {}; or be put into the group of the daemon and ask it while it runs",
        who::sudo(owner, "…")
    );
    Failure::failed(message, hint)
}

/// What the system says where somebody has no right.
const DENIED: &str = "Permission denied";

pub(crate) fn store_failure(error: StoreError) -> Failure {
    if let StoreError::Io { path, message, .. } = &error
        && message.contains(DENIED)
        && let Some(owner) = who::other_owner(Path::new(path))
    {
        return of_another(
            &owner,
            format!("you may not read the state; it belongs to the user {owner} ({error})"),
        );
    }
    let (code, hint) = match &error {
        StoreError::InUse { .. } => {
            (exit::IN_USE, "stop it, or name another state folder by --state or $CAIRN_STATE")
        }
        StoreError::Damaged { .. } => (
            exit::DAMAGED,
            "`cairn store verify` shows the damage, with --quarantine it goes on without what is damaged or lost; `cairn store restore` puts a backup back",
        ),
        StoreError::View { .. } => {
            (exit::DAMAGED, "`cairn store rebuild` rebuilds the views from the journal, which is intact")
        }
        StoreError::DiskFull { .. } => (exit::FAILED, "make room on the disk; nothing is lost"),
        StoreError::Io { action, .. } if action.starts_with("start ") => (
            exit::FAILED,
            "allow it more memory and more tasks (MemoryMax= and TasksMax= of the unit, ulimit -v and -u)",
        ),
        StoreError::Io { .. } => {
            (exit::FAILED, "check the state folder and its permissions, or name another by --state")
        }
        StoreError::Newer { .. } => {
            (exit::FAILED, "use that version of cairn or a later one, or restore a backup from before it")
        }
        StoreError::Closed => (exit::FAILED, "try again"),
    };
    Failure::new(code, error.to_string(), hint)
}
