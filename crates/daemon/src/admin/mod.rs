//! The admin API: everything on the socket but the messages themselves.
//!
//! It serves a running daemon, and, without a runtime, a command that has opened the store to read from it.

mod artifacts;
mod channels;
mod commands;
mod daemon;
mod events;
mod figures;
mod history;
mod mcp;
mod memories;
pub mod nothing;
mod outbox;
mod pairings;
mod params;
mod people;
mod reload;
mod retention;
mod store;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{delete, get, post};
use cairn_actors::{AgentRuntime, Runtime, RuntimeError};
use cairn_core::agent::AgentSettings;
use cairn_core::conversation::Conversation;
use cairn_core::ids::{AgentId, ChannelId};
use cairn_core::ports::{Adapter, Clock, Store as _};
use cairn_platforms::local::ApiError;
use cairn_store::Store;
use jiff::Timestamp;

use crate::agent_registry::AgentRegistry;
use crate::pairing_store::DaemonPairings;
use crate::reload::Reloader;
use crate::restart_handle::RestartHandle;

pub(crate) use daemon::agents as agent_statuses;
pub use daemon::{AgentStatus, ChainStatus, StatusRecord};
pub(crate) use history::UNINDEXED;
pub use mcp::{ServerRecord, ServerView};
pub use outbox::{OutboxCounts, OutboxRecord};
pub use pairings::PairingRecord;
pub use people::{ErasuresRecord, ForgetRecord, ForgetRequest};
pub use retention::RetainRequest;
pub(crate) use store::backup_error;
pub use tools::{ApprovalRecord, ToolRecord, ToolUseRecord};

pub struct Admin {
    pub store: Store,
    /// The actors; none when the store was opened to read from it.
    pub runtime: Option<Runtime>,
    pub agent_registry: Arc<AgentRegistry>,
    pub pairing_store: Arc<DaemonPairings>,
    /// The chat networks that are used; none where no daemon runs, or one inside a command.
    pub adapters: Arc<[Arc<dyn Adapter>]>,
    /// Reads the configuration again; none where a restart is as easy: without a daemon, or inside a command.
    pub reloader: Option<Arc<Reloader>>,
    /// Has the daemon restarted; none where there is none, or it ends with its command.
    pub restart_handle: Option<RestartHandle>,
    pub clock: Arc<dyn Clock>,
    pub identity: Identity,
    /// Longest text of a memory, in bytes.
    pub max_text_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct Identity {
    pub state_dir: PathBuf,
    /// The config file; none: built-in defaults.
    pub config_file: Option<PathBuf>,
    /// The socket it listens at; none when it serves its own process alone.
    pub socket: Option<PathBuf>,
    pub started_at: Timestamp,
}

type Shared = Arc<Admin>;

pub fn router(admin: Admin) -> Router {
    routers(admin).0
}

/// The same, with those of the admin address: figures, and nothing else.
pub fn routers(admin: Admin) -> (Router, Router) {
    let admin = Arc::new(admin);
    let outside = Router::new()
        .route("/metrics", get(figures::metrics))
        .route("/v1/health", get(daemon::health))
        .with_state(Arc::clone(&admin));
    (inside(admin), with_fallbacks(outside))
}

fn inside(admin: Shared) -> Router {
    Router::new()
        .route("/metrics", get(figures::metrics))
        .route("/v1/channels", get(channels::list))
        .route("/v1/channels/{channel}/context", get(channels::context))
        .route("/v1/channels/{channel}/history", get(history::history))
        .route("/v1/channels/{channel}/search", get(history::search))
        .route("/v1/channels/{channel}/artifacts", get(artifacts::list))
        .route("/v1/channels/{channel}/artifacts/{id}", get(artifacts::show))
        .route("/v1/channels/{channel}/compact", post(commands::compact))
        .route("/v1/channels/{channel}/new", post(commands::new))
        .route("/v1/channels/{channel}/stop", post(commands::stop))
        .route("/v1/channels/{channel}/wait", post(commands::wait))
        .route("/v1/memories", get(memories::list).post(memories::add))
        .route("/v1/memories/{id}", get(memories::show).patch(memories::edit).delete(memories::forget))
        .route("/v1/pairings", get(pairings::list))
        .route("/v1/pairings/{code}/approve", post(pairings::approve))
        .route("/v1/pairings/{user}", delete(pairings::revoke))
        .route("/v1/people/forget", post(people::forget))
        .route("/v1/people/erased", get(people::erased))
        .route("/v1/outbox", get(outbox::list))
        .route("/v1/outbox/{id}/retry", post(outbox::retry))
        .route("/v1/outbox/{id}", delete(outbox::drop))
        .route("/v1/mcp", get(mcp::list))
        .route("/v1/mcp/{id}", get(mcp::show))
        .route("/v1/mcp/{id}/approve", post(mcp::approve))
        .route("/v1/mcp/{id}/revoke", post(mcp::revoke))
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/log", get(tools::log))
        .route("/v1/approvals", get(tools::approvals))
        .route("/v1/approvals/{id}", post(tools::answer))
        .route("/v1/health", get(daemon::health))
        .route("/v1/status", get(daemon::status))
        .route("/v1/store/verify", get(daemon::verify))
        .route("/v1/store/backup", post(store::backup))
        .route("/v1/store/retain", post(retention::retain))
        .route("/v1/events", get(events::events))
        .route("/v1/reload", post(reload::reload))
        .with_state(admin)
}

/// Answers for calls that there are not, in the shape of all errors.
pub fn with_fallbacks(router: Router) -> Router {
    router.fallback(no_such_call).method_not_allowed_fallback(no_such_method)
}

async fn no_such_call(uri: Uri) -> ApiError {
    ApiError::not_found(
        "no_such_call",
        format!("there is no call {}", uri.path()),
        "in a URL a channel's full name is one segment: percent-encode its slashes (%2F)",
    )
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        axum::http::StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        format!("{} does not take {method}", uri.path()),
        "docs/src/http-api.md lists the calls",
    )
}

impl Admin {
    /// The channel of a name from outside.
    fn resolve(&self, name: &str) -> Result<ChannelId, ApiError> {
        Ok(ChannelId::resolve(name, self.agent_registry.default_agent())?)
    }

    /// A conversation, and whether its channel is awake.
    async fn conversation(&self, channel: &ChannelId) -> Result<(Arc<Conversation>, bool), ApiError> {
        let found = match &self.runtime {
            Some(runtime) => runtime.conversation(channel).await.map_err(house_error)?,
            None => self.store.restore(channel).await?.map(|conversation| (Arc::new(conversation), false)),
        };
        found.ok_or_else(|| no_such_channel(channel))
    }

    /// The settings that hold in a conversation: those of its agent on the model that answers there.
    async fn settings(&self, conversation: &Conversation) -> Result<Arc<AgentSettings>, ApiError> {
        let agent = conversation.channel.agent();
        self.known_settings(conversation).await?.ok_or_else(|| no_such_agent(&agent))
    }

    /// The same, if the agent is configured.
    async fn known_settings(
        &self,
        conversation: &Conversation,
    ) -> Result<Option<Arc<AgentSettings>>, ApiError> {
        let agent = self.agent(&conversation.channel.agent()).await?;
        Ok(agent.map(|agent| agent.settings(conversation)))
    }

    async fn agent(&self, id: &AgentId) -> Result<Option<AgentRuntime>, ApiError> {
        self.agent_registry.agent(id).await.map_err(|error| bad_model(&error))
    }

    async fn runtimes(&self) -> Result<Vec<AgentRuntime>, ApiError> {
        self.agent_registry.runtimes().await.map_err(|error| bad_model(&error))
    }

    /// The runtime, which a command that changes something needs.
    fn runtime(&self) -> Result<&Runtime, ApiError> {
        self.runtime.as_ref().ok_or_else(|| {
            ApiError::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "no daemon runs on this state",
                "start one with `cairn run`",
            )
        })
    }
}

fn no_such_channel(channel: &ChannelId) -> ApiError {
    ApiError::not_found(
        "no_such_channel",
        format!("no channel {channel}: nothing was ever said there"),
        "`cairn channels` lists the channels",
    )
}

fn no_such_agent(agent: &AgentId) -> ApiError {
    ApiError::not_found(
        "no_such_agent",
        format!("no agent `{agent}` is configured"),
        "`cairn config show` lists the agents",
    )
}

fn bad_model(error: &cairn_llm::BadModel) -> ApiError {
    ApiError::malformed(error.to_string())
}

fn house_error(error: RuntimeError) -> ApiError {
    match error {
        RuntimeError::NoSuchChannel(channel) => no_such_channel(&channel),
        RuntimeError::UnknownAgent(agent) => no_such_agent(&agent),
        RuntimeError::Store(error) => error.into(),
        RuntimeError::Limited(_) => ApiError::new(
            axum::http::StatusCode::TOO_MANY_REQUESTS,
            "limited",
            error.to_string(),
            "raise spend_per_day under [limits]",
        ),
        RuntimeError::Instruction(error) => ApiError::new(
            axum::http::StatusCode::PAYLOAD_TOO_LARGE,
            "instruction_too_long",
            error.to_string(),
            "what is to hold for every summary belongs into `instructions` under [agents.compaction]",
        ),
        RuntimeError::NothingToUndo(_) => ApiError::new(
            axum::http::StatusCode::CONFLICT,
            "nothing_to_undo",
            error.to_string(),
            "`cairn history` shows what there is",
        ),
        RuntimeError::NoSuchDelivery(id) => outbox::no_such_delivery(&id),
        RuntimeError::Stopping
        | RuntimeError::Interrupted(_)
        | RuntimeError::NoAgent
        | RuntimeError::Spawn { .. } => ApiError::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            if matches!(error, RuntimeError::Stopping) { "stopping" } else { "unavailable" },
            error.to_string(),
            "try again in a moment; the daemon's log says more",
        ),
    }
}
