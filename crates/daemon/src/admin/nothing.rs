//! A state folder in which nothing was begun: lists are empty, everything else is not there.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{any, get};
use axum::{Json, Router};
use cairn_core::memory::Memory;
use cairn_platforms::local::ApiError;

use super::daemon::{StatusRecord, StoreStatus, agents};
use super::params::{self, Params};
use super::tools::{self, ToolsQuery};
use super::{
    ApprovalRecord, Identity, OutboxRecord, PairingRecord, ServerRecord, ToolRecord, ToolUseRecord,
    bad_model, mcp,
};
use crate::agent_registry::AgentRegistry;
use crate::config::{Live, Loaded};
use crate::models;
use crate::records::ChannelRecord;
use crate::tool_registry::ToolRegistry;

type Shared = Arc<(AgentRegistry, Identity)>;

pub fn router(loaded: Arc<Loaded>, identity: Identity, tool_registry: Arc<ToolRegistry>) -> Router {
    let agent_registry = AgentRegistry::new(Live::new(loaded), models::search_nowhere(), tool_registry);
    Router::new()
        .route("/v1/channels", get(async || Json(Vec::<ChannelRecord>::new())))
        .route("/v1/memories", get(async || Json(Vec::<Memory>::new())))
        .route("/v1/pairings", get(async || Json(Vec::<PairingRecord>::new())))
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
    query: Params<ToolsQuery>,
) -> Result<Json<Vec<ToolRecord>>, ApiError> {
    let query = params::params(query)?;
    Ok(Json(tools::of_roster(&shared.0, query.agent.as_deref())))
}

async fn list_servers(State(shared): State<Shared>) -> Json<Vec<ServerRecord>> {
    Json(mcp::records(&shared.0))
}

async fn status(State(shared): State<Shared>) -> Result<Json<StatusRecord>, ApiError> {
    let (agent_registry, identity) = &*shared;
    let agents = agents(&agent_registry.runtimes().await.map_err(|error| bad_model(&error))?, None);
    let store = StoreStatus { journal_bytes: 0, segments: 0, last: 0, applied: 0, indexed: 0, error: None };
    Ok(Json(StatusRecord::of_stopped(identity, agents, store)))
}

async fn not_there() -> ApiError {
    ApiError::not_found(
        "no_state",
        "nothing was ever said or remembered there",
        "`cairn chat` begins a conversation",
    )
}
