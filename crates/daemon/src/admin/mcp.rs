//! Tool servers: shown as they are and as they were approved; approved and revoked.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use cairn_core::mcp::{ServerPin, ServerSource};
use cairn_platforms::local::ApiError;
use cairn_tools::mcp::{Inspection, McpError, ServerStatus};
use serde::{Deserialize, Serialize};

use super::params::{self, Segment, segment};
use super::{Admin, Shared, bad_model};
use crate::agent_registry::AgentRegistry;

/// A server in `cairn mcp list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// How it is; its fields stand beside these.
    #[serde(flatten)]
    pub status: ServerStatus,
    pub source: ServerSource,
    pub version: Option<String>,
    pub tools: Vec<String>,
    pub agents: Vec<String>,
}

/// A server as it shows itself now, beside what was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    pub server: ServerRecord,
    pub approved: Option<ServerPin>,
    /// What it shows now; its fields stand beside these.
    #[serde(flatten)]
    pub inspection: Inspection,
    /// Hash of what an approval would pin: who approves sends it back.
    pub digest: String,
}

/// `GET /v1/mcp`.
pub(super) async fn list(State(admin): State<Shared>) -> Json<Vec<ServerRecord>> {
    Json(records(&admin.agent_registry))
}

pub(super) fn records(agent_registry: &AgentRegistry) -> Vec<ServerRecord> {
    let servers = agent_registry.tools().servers();
    let loaded = agent_registry.loaded();
    let record = |status: ServerStatus| {
        let pin = servers.pin(&status.server);
        let of_server = |tool: &String| tool.split_once('/').is_some_and(|(of, _)| *of == status.server);
        let agents = loaded.config.agents.iter();
        let agents = agents.filter(|agent| agent.tools.iter().any(of_server));
        Some(ServerRecord {
            source: servers.source(&status.server)?,
            version: pin.as_ref().map(|pin| pin.version.clone()),
            tools: pin
                .map(|pin| pin.tools.iter().map(|tool| tool.name.clone()).collect())
                .unwrap_or_default(),
            agents: agents.map(|agent| agent.id.to_string()).collect(),
            status,
        })
    };
    servers.status().into_iter().filter_map(record).collect()
}

/// `GET /v1/mcp/{id}`: starts the server, if need be, and looks.
pub(super) async fn show(State(admin): State<Shared>, id: Segment) -> Result<Json<ServerView>, ApiError> {
    Ok(Json(view(&admin.agent_registry, &segment(id)?).await?))
}

pub(super) async fn view(agent_registry: &AgentRegistry, id: &str) -> Result<ServerView, ApiError> {
    let servers = agent_registry.tools().servers();
    let inspection = servers.inspect(id).await.map_err(mcp_error)?;
    let server = records(agent_registry).into_iter().find(|record| record.status.server == id);
    let server = server.ok_or_else(|| mcp_error(McpError::Unknown(id.to_owned())))?;
    let digest = inspection.pin.digest();
    Ok(ServerView { server, approved: servers.pin(id), inspection, digest })
}

/// Body of `POST /v1/mcp/{id}/approve`.
#[derive(Debug, Deserialize)]
pub(super) struct Approve {
    digest: String,
    /// The tools that are approved; none: all that are not suspicious.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// `POST /v1/mcp/{id}/approve`: exactly what was shown is approved.
pub(super) async fn approve(
    State(admin): State<Shared>,
    id: Segment,
    body: Body,
) -> Result<Json<ServerRecord>, ApiError> {
    let id = segment(id)?;
    let Approve { digest, tools } = params::body(body).await?;
    admin.runtime()?;
    let view = view(&admin.agent_registry, &id).await?;
    if view.digest != digest {
        return Err(ApiError::new(
            axum::http::StatusCode::CONFLICT,
            "changed",
            format!("the server `{id}` shows itself otherwise than it was shown"),
            "look at it again: `cairn mcp show`",
        ));
    }
    let mut pin = view.inspection.pin;
    if let Some(wanted) = &tools
        && let Some(unknown) = wanted.iter().find(|name| pin.tool(name).is_none())
    {
        return Err(ApiError::not_found(
            "no_such_tool",
            format!("the server `{id}` has no tool `{unknown}` that could be approved"),
            "`cairn mcp show` lists its tools",
        ));
    }
    let suspicions = &view.inspection.suspicions;
    pin.tools.retain(|tool| match &tools {
        Some(wanted) => wanted.contains(&tool.name),
        None => !suspicions.contains_key(&tool.name),
    });
    admin.pairing_store.approve_server(pin.clone()).await?;
    tracing::info!(server = %id, version = %pin.version, n_tools = pin.tools.len(), "a tool server was approved");
    admin.agent_registry.tools().servers().set_pin(&id, Some(pin));
    apply(&admin).await?;
    record(&admin, &id)
}

/// `POST /v1/mcp/{id}/revoke`.
pub(super) async fn revoke(State(admin): State<Shared>, id: Segment) -> Result<Json<ServerRecord>, ApiError> {
    let id = segment(id)?;
    admin.runtime()?;
    if admin.agent_registry.tools().servers().pin(&id).is_none() {
        return Err(ApiError::not_found(
            "not_approved",
            format!("the server `{id}` is not approved"),
            "`cairn mcp list` shows the servers",
        ));
    }
    admin.pairing_store.revoke_server(&id).await?;
    tracing::info!(server = %id, "the approval of a tool server was revoked");
    admin.agent_registry.tools().servers().set_pin(&id, None);
    apply(&admin).await?;
    record(&admin, &id)
}

fn record(admin: &Admin, id: &str) -> Result<Json<ServerRecord>, ApiError> {
    let record = records(&admin.agent_registry).into_iter().find(|record| record.status.server == id);
    record.map(Json).ok_or_else(|| mcp_error(McpError::Unknown(id.to_owned())))
}

/// Agents get their tools as they are now.
async fn apply(admin: &Admin) -> Result<(), ApiError> {
    admin.agent_registry.deploy(admin.runtime()?).await.map_err(|error| bad_model(&error))
}

fn mcp_error(error: McpError) -> ApiError {
    let message = error.to_string();
    match error {
        McpError::Unknown(_) => {
            ApiError::not_found("no_such_server", message, "`cairn mcp list` shows the servers")
        }
        McpError::Blocked { .. }
        | McpError::Start { .. }
        | McpError::Down { .. }
        | McpError::Broken { .. }
        | McpError::TimedOut { .. }
        | McpError::Refused(_) => ApiError::new(
            axum::http::StatusCode::BAD_GATEWAY,
            "server_failed",
            message,
            "look at what it writes to its standard error: `cairn mcp list --json`",
        ),
    }
}
