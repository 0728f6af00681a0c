//! The daemon itself: is it well, and what is it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cairn_actors::{AgentRuntime, ModelState, ModelStatus, Runtime};
use cairn_core::agent::WindowSource;
use cairn_core::ids::AgentId;
use cairn_core::ports::{PlatformStatus, Store as _, StoreError};
use cairn_platforms::local::ApiError;
use cairn_store::VerifyReport;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Identity, OutboxCounts, Shared};
use crate::adapters::statuses;
use crate::config::Config;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusRecord {
    /// A daemon runs. False when a command has opened the store itself.
    pub running: bool,
    /// `ready`, `starting`, `stopping`; `stopped` when none runs.
    pub state: String,
    pub version: String,
    pub pid: u32,
    pub state_dir: String,
    /// The config file; none: built-in defaults.
    pub config_file: Option<String>,
    pub socket: Option<String>,
    pub started_at: Timestamp,
    /// Seconds since.
    pub uptime_seconds: u64,
    /// The agents, in the order of the configuration; the first is the default one.
    pub agents: Vec<AgentStatus>,
    pub channels: u64,
    pub awake: u64,
    pub turns: u64,
    pub runs: u64,
    /// Actors started again after a failure, since the start.
    pub restarts: u64,
    pub store: StoreStatus,
    /// What chat networks have not confirmed.
    #[serde(default)]
    pub outbox: OutboxCounts,
    /// The chat networks that are used.
    #[serde(default)]
    pub platforms: Vec<PlatformStatus>,
    /// What the day has cost; none where no daemon runs, or no model has a price.
    #[serde(default)]
    pub spend: Option<SpendStatus>,
}

/// What the day has cost, in the currency of the models' prices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpendStatus {
    /// So far, since midnight UTC.
    pub today: f64,
    /// The cap of a day; none: there is none.
    pub per_day: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    pub id: AgentId,
    /// The model that answers the next turn.
    pub model: String,
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    /// Its models, in the order in which they are tried.
    #[serde(default)]
    pub chain: Vec<ChainStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStatus {
    /// Its id in the configuration.
    pub model: String,
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    pub window_source: WindowSource,
    pub state: ModelState,
    /// Until when it is skipped, where it is.
    pub until: Option<Timestamp>,
    /// Why it answers, is not used, or is skipped.
    pub why: Option<String>,
    /// The typed error that its last call failed by, since it answered last.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Bytes of the journal.
    pub journal_bytes: u64,
    pub segments: u64,
    /// Number of the last durable event.
    pub last: u64,
    /// Number of the last event that the views show.
    pub applied: u64,
    /// Number of the last event whose words a search finds.
    #[serde(default)]
    pub indexed: u64,
    /// Why the journal or the views cannot be written or read; a full disk has messages refused until there is room.
    pub error: Option<String>,
}

/// `GET /v1/health`: 200 when messages are accepted and the store can be written, with the chat networks: one that is
/// down makes the daemon no worse.
pub(super) async fn health(State(admin): State<Shared>) -> Response {
    let (ready, state) = match &admin.runtime {
        Some(runtime) => (runtime.is_ready(), runtime.health().state),
        None => (false, "stopped"),
    };
    let trouble = admin.store.stats().await.map_or_else(Some, |stats| stats.trouble);
    let (code, reason) = match trouble {
        None if ready => {
            return Json(json!({ "status": "ok", "platforms": statuses(&admin.adapters) })).into_response();
        }
        None => (state, format!("the daemon is {state}")),
        Some(error @ StoreError::DiskFull { .. }) => return ApiError::from(error).into_response(),
        Some(error) => (state, error.to_string()),
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, reason, "`cairn status` and the log say more")
        .into_response()
}

/// `GET /v1/status`.
pub(super) async fn status(State(admin): State<Shared>) -> Result<Json<StatusRecord>, ApiError> {
    let stats = admin.store.stats().await?;
    let health = admin.runtime.as_ref().map(cairn_actors::Runtime::health);
    let identity = &admin.identity;
    let up = admin.clock.now().duration_since(identity.started_at);
    // What cannot be counted now is part of the answer, not a reason to give none.
    let (rows, owed) = (admin.store.channels().await, admin.store.deliveries().await);
    let trouble = stats.trouble.or_else(|| rows.as_ref().err().or(owed.as_ref().err()).cloned());
    let store = StoreStatus {
        journal_bytes: stats.journal_bytes,
        segments: stats.segments,
        last: stats.last_n,
        applied: stats.applied_n,
        indexed: stats.indexed_n,
        error: trouble.map(|error| error.to_string()),
    };
    let stopped = StatusRecord {
        uptime_seconds: u64::try_from(up.as_secs()).unwrap_or(0),
        channels: rows.map_or(0, |rows| rows.len() as u64),
        outbox: OutboxCounts::of(&owed.unwrap_or_default()),
        ..StatusRecord::of_stopped(identity, agents(&admin.runtimes().await?, admin.runtime.as_ref()), store)
    };
    Ok(Json(match health {
        None => stopped,
        Some(health) => StatusRecord {
            running: true,
            state: health.state.to_owned(),
            awake: health.awake as u64,
            turns: health.turns as u64,
            runs: health.runs as u64,
            restarts: health.restarts,
            platforms: statuses(&admin.adapters),
            spend: admin
                .runtime
                .as_ref()
                .and_then(|runtime| spend(runtime, &admin.agent_registry.loaded().config)),
            ..stopped
        },
    }))
}

/// What the day has cost, where models have prices.
fn spend(runtime: &Runtime, config: &Config) -> Option<SpendStatus> {
    let cap = config.limits.spend_per_day;
    let per_day = (cap > 0.0).then_some(cap);
    (!config.prices().is_empty()).then(|| SpendStatus { today: runtime.spent_today(), per_day })
}

/// The agents as the status shows them. Without a runtime nothing is known of how their models are.
pub(crate) fn agents(runtimes: &[AgentRuntime], runtime: Option<&Runtime>) -> Vec<AgentStatus> {
    let agents = runtimes.iter().map(|agent| {
        let models = runtime.map_or_else(|| agent.models_at_rest(), |runtime| runtime.models(agent));
        let chain: Vec<_> = models.into_iter().map(ChainStatus::of).collect();
        let asked = |one: &&ChainStatus| matches!(one.state, ModelState::Answers | ModelState::Down);
        let first = agent.first_settings();
        let (model, window_tokens) = match chain.iter().find(asked) {
            Some(one) => (one.model.clone(), one.window_tokens),
            None => (first.model.clone(), first.window.window_tokens),
        };
        AgentStatus { id: agent.id.clone(), model, window_tokens, chain }
    });
    agents.collect()
}

impl ChainStatus {
    fn of(model: ModelStatus) -> Self {
        Self {
            model: model.model,
            window_tokens: model.window.window_tokens,
            window_source: model.window.source,
            state: model.state,
            until: model.until,
            why: model.why.or_else(|| Some(model.trouble.as_ref()?.message.clone())),
            error: model.trouble.map(|trouble| trouble.code.to_owned()),
        }
    }

    /// Its state in words, as in `cooling until 2026-11-21 12:30:05 UTC because …`.
    pub fn told(&self) -> String {
        self.words(self.why.as_deref())
    }

    /// The same without the words of servers, which are not for everybody.
    pub fn told_in_public(&self) -> String {
        match self.state {
            ModelState::Answers | ModelState::PassedOver => self.words(self.why.as_deref()),
            ModelState::Ready | ModelState::Cooling | ModelState::Down => {
                self.words(self.error.as_deref().map(|code| code.replace('_', " ")).as_deref())
            }
        }
    }

    fn words(&self, why: Option<&str>) -> String {
        let until = self.until.map(|until| format!(" until {}", until.strftime("%Y-%m-%d %H:%M:%S UTC")));
        let state = format!("{}{}", self.state.name(), until.unwrap_or_default());
        match (why, self.state) {
            (None, _) => state,
            (Some(why), ModelState::Answers) => format!("{state}: {why}"),
            (Some(why), ModelState::Ready) => format!("{state}; its last call failed: {why}"),
            (Some(why), _) => format!("{state} because {why}"),
        }
    }
}

impl StatusRecord {
    pub(super) fn of_stopped(identity: &Identity, agents: Vec<AgentStatus>, store: StoreStatus) -> Self {
        Self {
            running: false,
            state: "stopped".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state_dir: identity.state_dir.display().to_string(),
            config_file: identity.config_file.as_ref().map(|path| path.display().to_string()),
            socket: identity.socket.as_ref().map(|path| path.display().to_string()),
            started_at: identity.started_at,
            uptime_seconds: 0,
            agents,
            channels: 0,
            awake: 0,
            turns: 0,
            runs: 0,
            restarts: 0,
            store,
            outbox: OutboxCounts::default(),
            platforms: Vec::new(),
            spend: None,
        }
    }
}

/// `GET /v1/store/verify`: the open store checked from end to end; it takes as long as reading all of it.
pub(super) async fn verify(State(admin): State<Shared>) -> Result<Json<VerifyReport>, ApiError> {
    Ok(Json(admin.store.verify().await?))
}
