//! The API of a state folder that does not exist yet: lists are empty, and everything else is not found.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{any, get};
use axum::{Json, Router};
use cairn_api::error::ApiError;
use cairn_core::spend::SpendLine;
use cairn_types::memory::Memory;
use cairn_types::ports::Hit;

use crate::api::shared::{Params, bad_model};
use crate::api::statuses::agent_statuses;
use crate::api::tools::{ToolsParams, server_records, tool_records};
use crate::parts::agents::AgentRegistry;
use crate::parts::models;
use crate::parts::tools::ToolRegistry;
use cairn_api::records::{
    ApprovalRecord, BanRecord, ChannelRecord, Identity, OutboxRecord, PairingRecord, ServerRecord,
    StatusRecord, StoreStatus, ToolRecord, ToolUseRecord,
};
use cairn_config::{Live, Loaded};

type Shared = Arc<(AgentRegistry, Identity)>;

pub fn router(loaded: Arc<Loaded>, identity: Identity, tool_registry: Arc<ToolRegistry>) -> Router {
    let agent_registry = AgentRegistry::new(Live::new(loaded), models::search_nowhere(), tool_registry);
    Router::new()
        .route("/v1/channels", get(async || Json(Vec::<ChannelRecord>::new())))
        .route("/v1/search", get(async || Json(Vec::<Hit>::new())))
        .route("/v1/memories", get(async || Json(Vec::<Memory>::new())))
        .route("/v1/pairings", get(async || Json(Vec::<PairingRecord>::new())))
        .route("/v1/bans", get(async || Json(Vec::<BanRecord>::new())))
        .route("/v1/spend", get(async || Json(Vec::<SpendLine>::new())))
        .route("/v1/outbox", get(async || Json(Vec::<OutboxRecord>::new())))
        .route("/v1/tools", get(list_tools))
        .route("/v1/tools/log", get(async || Json(Vec::<ToolUseRecord>::new())))
        .route("/v1/approvals", get(async || Json(Vec::<ApprovalRecord>::new())))
        .route("/v1/mcp", get(list_servers))
        .route("/v1/status", get(status))
        .route("/v1/{*rest}", any(not_there))
        .with_state(Arc::new((agent_registry, identity)))
}

async fn list_tools(
    State(shared): State<Shared>,
    Params(query): Params<ToolsParams>,
) -> Json<Vec<ToolRecord>> {
    Json(tool_records(&shared.0, query.agent.as_deref()))
}

async fn list_servers(State(shared): State<Shared>) -> Json<Vec<ServerRecord>> {
    Json(server_records(&shared.0))
}

async fn status(State(shared): State<Shared>) -> Result<Json<StatusRecord>, ApiError> {
    let (agent_registry, identity) = &*shared;
    let agents = agent_statuses(&agent_registry.runtimes().await.map_err(|error| bad_model(&error))?, None);
    Ok(Json(StatusRecord::of_stopped(identity, agents, StoreStatus::unknown(None))))
}

async fn not_there() -> ApiError {
    ApiError::not_found(
        "no_state",
        "no such thing: there are no messages and no memories yet",
        "`cairn chat` starts a conversation",
    )
}
