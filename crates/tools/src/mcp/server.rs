//! One configured server: its state, its approval, and the tools that it last listed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_types::tool::mcp::{Drift, ServerPin, ServerSource, changes_of_source, compare};
use cairn_types::tool::{Effect, ToolOutput};
use cairn_types::wire::backoff::pause_after;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rmcp::model::JsonObject;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::{CallOutcome, Connection};
use super::child::{LastLines, Secrets};
use super::connection::EndCause;
use super::listing::Listing;
use super::servers::Surroundings;
use super::settings::{Reach, ServerSettings};
use super::status::McpError;
use super::supervise;
use cairn_types::tool::mcp::status::{Inspection, ServerState, ServerStatus};

/// A server that ran this long has its failures reset.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// Most seconds of a pause that a call waits for.
const PAUSE_WAITED: u64 = 2;

/// A server that has failed for this long is reported as failing.
const FAILING_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The result of a start, for everyone who waits for it.
pub(super) type Started = Option<Result<Arc<Connection>, McpError>>;

pub(super) struct Server {
    pub settings: ServerSettings,
    pub source: ServerSource,
    pub secrets: Secrets,
    /// The last lines that its children wrote to standard error.
    pub stderr: LastLines,
    pub around: Surroundings,
    pub tasks: TaskTracker,
    /// Cancelled when the daemon stops.
    pub closing: CancellationToken,
    state: Mutex<State>,
}

#[derive(Clone)]
enum Phase {
    Idle,
    Starting(watch::Receiver<Started>),
    Running(Arc<Connection>),
    Failed,
    Stopped,
}

struct State {
    phase: Phase,
    pin: Option<ServerPin>,
    listing: Option<Arc<Listing>>,
    drift: Option<Drift>,
    failures: u32,
    reason: Option<String>,
    retry: Option<(Instant, Timestamp)>,
    trouble: Option<ServerTrouble>,
}

/// Failures since the last success.
struct ServerTrouble {
    since: Timestamp,
    last: Timestamp,
    /// Whether a call failed. Then a successful start alone does not end the trouble.
    of_calls: bool,
    reason: String,
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        pin: Option<ServerPin>,
        around: Surroundings,
        tasks: TaskTracker,
        closing: CancellationToken,
    ) -> Self {
        let secrets = Secrets::of(&settings.secrets);
        let state = State {
            phase: Phase::Idle,
            pin,
            listing: None,
            drift: None,
            failures: 0,
            reason: None,
            retry: None,
            trouble: None,
        };
        let source = settings.source();
        let stderr = LastLines::default();
        Self { settings, source, secrets, stderr, around, tasks, closing, state: Mutex::new(state) }
    }

    pub(super) fn id(&self) -> &str {
        &self.settings.id
    }

    pub(super) fn pin(&self) -> Option<ServerPin> {
        self.state.lock().pin.clone()
    }

    /// Sets or removes the approval. Without one, a running server is ended.
    pub(super) fn set_pin(&self, pin: Option<ServerPin>) {
        let mut state = self.state.lock();
        state.pin = pin;
        state.compare(self.id());
        if state.pin.is_none()
            && let Phase::Running(connection) = &state.phase
        {
            connection.state.break_off(EndCause::quiet("revoked", "its approval was revoked"));
        }
    }

    pub(super) fn status(&self) -> ServerStatus {
        let state = self.state.lock();
        let connection = match &state.phase {
            Phase::Running(connection) => Some(connection),
            Phase::Idle | Phase::Starting(_) | Phase::Failed | Phase::Stopped => None,
        };
        let failing = state.failing(self.around.clock.now());
        ServerStatus {
            server: self.id().to_owned(),
            state: match &state.phase {
                _ if failing.is_some() => ServerState::Failing,
                Phase::Idle => ServerState::Idle,
                Phase::Starting(_) => ServerState::Starting,
                Phase::Running(_) => ServerState::Running,
                Phase::Failed => ServerState::Failed,
                Phase::Stopped => ServerState::Stopped,
            },
            approved: state.pin.is_some(),
            drift: state.drift.clone().or_else(|| state.drift_of_source(&self.source)),
            reason: state.reason.clone().or_else(|| failing.map(|trouble| trouble.reason.clone())),
            retry_at: state.retry.filter(|(until, _)| *until > Instant::now()).map(|(_, at)| at),
            failures: state.failures,
            pid: connection.and_then(|connection| connection.pid),
            calls: connection.map_or(0, |connection| connection.calls.load(Ordering::Relaxed)),
            stderr: self.stderr.lines(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Running(_))
    }

    /// Calls a tool. Starts the server if necessary.
    pub(super) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, McpError> {
        let outcome = self.call_until_it_ends(tool, arguments).await;
        match &outcome {
            Ok(_) | Err(McpError::Refused(_)) => self.state.lock().trouble = None,
            Err(error @ (McpError::Broken { .. } | McpError::TimedOut { .. })) => {
                self.state.lock().note_trouble(self.around.clock.now(), true, error.to_string());
            }
            // A failed start is recorded where it failed.
            Err(
                McpError::Unknown(_)
                | McpError::Blocked { .. }
                | McpError::Start { .. }
                | McpError::Down { .. },
            ) => {}
        }
        outcome
    }

    /// Calls a tool. Over HTTP, a lost connection or an expired session is reopened once, and the call is repeated if
    /// it cannot have been carried out, or if repeating it is harmless.
    async fn call_until_it_ends(
        self: &Arc<Self>,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, McpError> {
        self.admit(tool, false)?;
        let broken = |reason: String| Err(McpError::Broken { server: self.id().to_owned(), reason });
        let mut was_lost = false;
        loop {
            let (connection, _fresh) = self.connection(was_lost).await?;
            self.admit_as_listed(tool, &connection).await?;
            let outcome = connection.call(tool, arguments.clone(), self.settings.call_timeout).await;
            let (sent, reason) = match outcome {
                CallOutcome::Ended(outcome) => return outcome,
                CallOutcome::Lost { sent, reason } => (sent, reason),
            };
            // Calls to a child are never repeated.
            let is_remote = matches!(self.settings.reach, Reach::Http { .. });
            if is_remote && sent && !self.may_repeat(tool) {
                return broken(format!(
                    "{reason}; the call may have been carried out, and is not repeated: look before you repeat it"
                ));
            }
            if was_lost || !is_remote {
                return broken(reason);
            }
            let server = self.id();
            tracing::info!(server, tool, "the connection to a tool server was lost; the call is repeated");
            was_lost = true;
        }
    }

    /// Whether a call may safely be repeated: the approved tool only reads, or is marked idempotent.
    fn may_repeat(&self, tool: &str) -> bool {
        let state = self.state.lock();
        let tool = state.pin.as_ref().and_then(|pin| pin.tool(tool));
        tool.is_some_and(|tool| tool.effect() == Effect::Reads || tool.idempotent == Some(true))
    }

    /// Lists the tools again, whether the server is approved or not.
    pub(super) async fn inspect(self: &Arc<Self>) -> Result<Inspection, McpError> {
        let (connection, fresh) = self.connection(true).await?;
        if !fresh {
            let _counted = connection.counted();
            let listed = supervise::list(self, &connection).await;
            let broken = |reason| McpError::Broken { server: self.id().to_owned(), reason };
            self.listed(listed.map_err(broken)?);
        }
        let state = self.state.lock();
        let Some(listing) = state.listing.as_deref().cloned() else {
            return Err(self.start_error("it has shown nothing"));
        };
        let Listing { pin, rejected, suspicions } = listing;
        Ok(Inspection { pin, drift: state.drift.clone(), rejected, suspicions })
    }

    /// Stores a new list of tools.
    pub(super) fn listed(&self, listing: Listing) {
        let mut state = self.state.lock();
        state.listing = Some(Arc::new(listing));
        state.compare(self.id());
    }

    /// Whether an operator approved it.
    pub(super) fn is_approved(&self) -> bool {
        self.state.lock().pin.is_some()
    }

    /// Checks a tool against the server's current list. If a change was announced, waits for the new list.
    async fn admit_as_listed(&self, tool: &str, connection: &Connection) -> Result<(), McpError> {
        let is_current = tokio::select! {
            () = connection.state.tools_are_current() => true,
            // The call then fails with the reason.
            _cause = connection.state.broken() => true,
            () = tokio::time::sleep(self.settings.start_timeout) => false,
        };
        if is_current {
            return self.admit(tool, true);
        }
        let reason =
            format!("the server `{}` says that its tools are others, and does not list them", self.id());
        Err(McpError::Blocked { server: self.id().to_owned(), reason })
    }

    /// Whether a tool may be called. `running`: also checked against the server's list.
    fn admit(&self, tool: &str, running: bool) -> Result<(), McpError> {
        let state = self.state.lock();
        let reason = match &state.pin {
            None => Some(format!("the server `{}` is not approved", self.id())),
            Some(pin) => {
                let changes = changes_of_source(&pin.source, &self.source);
                if !changes.is_empty() {
                    Some(format!(
                        "the server `{}` has changed since it was approved: {}",
                        self.id(),
                        changes.join(", ")
                    ))
                } else if pin.tool(tool).is_none() {
                    Some(format!("the tool `{tool}` of the server `{}` was never approved", self.id()))
                } else {
                    running.then(|| state.objection(tool)).flatten()
                }
            }
        };
        reason.map_or(Ok(()), |reason| Err(McpError::Blocked { server: self.id().to_owned(), reason }))
    }

    /// The open connection, and whether it was just opened. `insist`: starts the server even in the pause after a
    /// failure.
    async fn connection(self: &Arc<Self>, insist: bool) -> Result<(Arc<Connection>, bool), McpError> {
        loop {
            let connecting = match self.connect(insist) {
                // The rest of a short pause is waited for.
                Err(McpError::Down { retry_secs: ..=PAUSE_WAITED, .. }) => {
                    let left = self.state.lock().retry.map(|(until, _)| until);
                    tokio::select! {
                        () = tokio::time::sleep_until(left.unwrap_or_else(Instant::now)) => {}
                        () = self.closing.cancelled() => {}
                    }
                    continue;
                }
                connecting => connecting?,
            };
            let mut started = match connecting {
                Phase::Running(connection) if connection.state.cause().is_none() => {
                    return Ok((connection, false));
                }
                Phase::Running(ending) => {
                    ending.state.released().await;
                    continue;
                }
                Phase::Starting(started) => started,
                Phase::Idle | Phase::Failed | Phase::Stopped => continue,
            };
            let outcome = started.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
            let connection = outcome.unwrap_or_else(|| Err(self.start_error("its start broke off")))?;
            return Ok((connection, true));
        }
    }

    /// Starts the server if necessary, and returns its phase.
    fn connect(self: &Arc<Self>, insist: bool) -> Result<Phase, McpError> {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Running(_) | Phase::Starting(_) => return Ok(state.phase.clone()),
            Phase::Stopped => return Err(self.start_error("the daemon stops")),
            Phase::Failed if !insist => {
                if let Some(left) = state.pause_left() {
                    let reason = state.reason.clone().unwrap_or_default();
                    return Err(McpError::Down { server: self.id().to_owned(), reason, retry_secs: left });
                }
            }
            Phase::Idle | Phase::Failed => {}
        }
        let (started, waiting) = watch::channel(None);
        state.phase = Phase::Starting(waiting);
        self.tasks.spawn(supervise::run(self.clone(), started));
        Ok(state.phase.clone())
    }

    pub(super) fn start_error(&self, reason: impl Into<String>) -> McpError {
        McpError::Start { server: self.id().to_owned(), reason: reason.into() }
    }

    /// Records that the server is connected and has listed its tools.
    pub(super) fn opened(&self, connection: Arc<Connection>, listing: Listing) {
        let mut state = self.state.lock();
        state.listing = Some(Arc::new(listing));
        state.compare(self.id());
        state.reason = None;
        state.retry = None;
        state.trouble.take_if(|trouble| !trouble.of_calls);
        state.phase = Phase::Running(connection);
    }

    /// Records that the connection ended or could not be opened. `ran`: how long it was open.
    pub(super) fn closed(&self, cause: &EndCause, ran: Option<Duration>) {
        let mut state = self.state.lock();
        if self.closing.is_cancelled() {
            state.phase = Phase::Stopped;
            return;
        }
        if ran.is_some_and(|ran| ran >= WELL_AFTER) {
            state.failures = 0;
        }
        if cause.quiet {
            tracing::info!(server = self.id(), reason = cause.reason, "a tool server was stopped");
            state.phase = Phase::Idle;
            return;
        }
        state.failures = state.failures.saturating_add(1);
        let pause = pause_after(state.failures, self.settings.restart_base, self.settings.restart_max);
        let at = self.around.clock.now();
        let at =
            SignedDuration::try_from(pause).ok().and_then(|pause| at.checked_add(pause).ok()).unwrap_or(at);
        state.retry = Some((Instant::now() + pause, at));
        state.reason = Some(cause.reason.clone());
        state.note_trouble(self.around.clock.now(), false, cause.reason.clone());
        state.phase = Phase::Failed;
        let failures = state.failures;
        tracing::debug!(server = self.id(), reason = cause.reason, "what a server failed with");
        tracing::warn!(
            server = self.id(),
            reason = cause.kind,
            failures,
            pause_ms = pause.as_millis() as u64,
            "a tool server failed; `cairn mcp show` shows the error"
        );
        let labels = [("server", self.id().to_owned()), ("reason", cause.kind.to_owned())];
        metrics::counter!("cairn_mcp_failures_total", &labels).increment(1);
    }

    /// Prevents further starts, because the daemon stops.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Idle | Phase::Failed => state.phase = Phase::Stopped,
            // The server's task ends them.
            Phase::Starting(_) | Phase::Running(_) | Phase::Stopped => {}
        }
    }
}

impl State {
    /// Compares the approved tools with the listed ones, and logs each change once.
    fn compare(&mut self, server: &str) {
        let drift = match (&self.pin, &self.listing) {
            (Some(pin), Some(listing)) => Some(compare(pin, &listing.pin)),
            _ => None,
        };
        if drift == self.drift {
            return;
        }
        if let Some(drift) = drift.as_ref().filter(|drift| !drift.is_clean()) {
            let blocked = |(name, state): (&String, &_)| {
                matches!(state, cairn_types::tool::mcp::ToolState::Changed { .. }).then(|| name.clone())
            };
            let tools: Vec<String> = drift.tools.iter().filter_map(blocked).collect();
            let changes = drift.server.join(", ");
            tracing::warn!(
                server,
                ?tools,
                changes,
                "a tool server differs from the approved version; the changes are blocked"
            );
            metrics::counter!("cairn_mcp_blocked_total", "server" => server.to_owned()).increment(1);
        }
        self.drift = drift;
    }

    fn note_trouble(&mut self, now: Timestamp, of_calls: bool, reason: String) {
        let before = self.trouble.take();
        self.trouble = Some(ServerTrouble {
            since: before.as_ref().map_or(now, |before| before.since),
            last: now,
            of_calls: of_calls || before.is_some_and(|before| before.of_calls),
            reason,
        });
    }

    /// The trouble, if it has lasted for a minute. While the server is up, only the time of failed calls counts; while
    /// it is down, the time until now.
    fn failing(&self, now: Timestamp) -> Option<&ServerTrouble> {
        let trouble = self.trouble.as_ref()?;
        let until = match &self.phase {
            Phase::Failed | Phase::Starting(_) => now,
            Phase::Idle | Phase::Running(_) => trouble.last,
            Phase::Stopped => return None,
        };
        (until.duration_since(trouble.since) >= FAILING_AFTER).then_some(trouble)
    }

    /// Changes of the configuration since the approval, which are known without asking the server.
    fn drift_of_source(&self, source: &ServerSource) -> Option<Drift> {
        let server = changes_of_source(&self.pin.as_ref()?.source, source);
        (!server.is_empty()).then(|| Drift { server, ..Drift::default() })
    }

    /// Why a tool may not be called, according to the server's list.
    fn objection(&self, tool: &str) -> Option<String> {
        let reason = self.drift.as_ref().and_then(|drift| drift.blocks(tool))?;
        let rejected =
            self.listing.as_ref().and_then(|listing| listing.rejection(tool).map(ToOwned::to_owned));
        Some(match rejected {
            Some(rejected) => format!("the tool `{tool}` cannot be used any more: {rejected}"),
            None => format!("`{tool}`: {reason}"),
        })
    }

    /// Seconds until a restart is allowed, rounded up; `None`: at once.
    fn pause_left(&self) -> Option<u64> {
        let left = self.retry?.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        Some(left.as_millis().div_ceil(1_000) as u64)
    }
}
