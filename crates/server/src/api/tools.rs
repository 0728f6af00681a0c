//! Tools: which agents may call, past calls, pending approvals; tool servers: show, approve, revoke.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cairn_actors::{ApprovalError, ApprovalTarget, Approver};
use cairn_api::error::ApiError;
use cairn_tools::mcp::McpError;
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::ApprovalId;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::mcp::status::ServerStatus;
use cairn_types::tool::{Effect, ToolLogQuery, ToolOutcome};
use serde::Deserialize;

use crate::api::shared::{Admin, Body, Page, Params, Segment, Shared, bad_model, limit};
use crate::parts::agents::AgentRegistry;
use cairn_api::records::{ApprovalRecord, ServerRecord, ServerView, ToolRecord, ToolUseRecord};

#[derive(Debug, Deserialize)]
pub(super) struct ToolsParams {
    pub(super) agent: Option<String>,
}

/// `GET /v1/tools`.
pub(super) async fn list(
    State(admin): State<Shared>,
    Params(query): Params<ToolsParams>,
) -> Json<Vec<ToolRecord>> {
    Json(tool_records(&admin.agent_registry, query.agent.as_deref()))
}

/// The tools of all agents, or of one.
pub(super) fn tool_records(agent_registry: &AgentRegistry, agent: Option<&str>) -> Vec<ToolRecord> {
    let loaded = agent_registry.loaded();
    let agents = loaded.config.agents.iter();
    let wanted = agents.filter(|known| agent.is_none_or(|id| known.id.as_str() == id));
    let records = wanted.flat_map(|agent| {
        let record = |(def, source, effect): (ToolDef, String, Effect)| ToolRecord {
            agent: agent.id.to_string(),
            tool: def.name,
            source,
            effect,
            description: def.description,
            parameters: def.parameters,
        };
        agent_registry.tools().listed(agent).into_iter().map(record).collect::<Vec<_>>()
    });
    records.collect()
}

#[derive(Debug, Deserialize)]
pub struct LogParams {
    pub channel: Option<String>,
    pub tool: Option<String>,
    pub outcome: Option<ToolOutcome>,
    pub before: Option<u64>,
    pub after: Option<u64>,
    pub limit: Option<usize>,
}

/// `GET /v1/tools/log`: the newest matching calls, or with `after` the oldest ones after that record. Oldest first.
pub async fn log(
    State(admin): State<Shared>,
    Params(query): Params<LogParams>,
) -> Result<Page<ToolUseRecord>, ApiError> {
    let LogParams { channel, tool, outcome, before, after, limit: asked } = query;
    let channel = channel.map(|name| admin.resolve(&name)).transpose()?;
    let most = limit(asked)?;
    // With `after`, one more shows whether there is another page.
    let limit = if after.is_some() { most + 1 } else { most };
    let calls = admin.store.tool_calls(ToolLogQuery { channel, tool, outcome, before, after, limit }).await?;
    let record = |record: cairn_types::event::Record| match (record.event, record.channel) {
        (Event::Turn(TurnEvent::ToolUsed(used)), Some(channel)) => {
            Some(ToolUseRecord { n: record.n, at: record.at, channel, used })
        }
        _ => None,
    };
    Ok(Page::of(calls.into_iter().filter_map(record).collect(), most, |call| call.n.to_string()))
}

/// `GET /v1/approvals`.
pub async fn approvals(State(admin): State<Shared>) -> Json<Vec<ApprovalRecord>> {
    let open = admin.runtime.as_ref().map(cairn_actors::Runtime::approvals).unwrap_or_default();
    let record = |(channel, approval)| ApprovalRecord { channel, outcome: None, approval };
    Json(open.into_iter().map(record).collect())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub approve: bool,
}

/// `POST /v1/approvals/{id}`: answers an approval. Anyone with access to the socket may do so.
pub async fn answer(
    State(admin): State<Shared>,
    Segment(id): Segment,
    Body(Answer { approve }): Body<Answer>,
) -> Result<Json<ApprovalRecord>, ApiError> {
    let id = ApprovalId::from(id.trim().to_lowercase());
    let decided = admin.runtime()?.decide(ApprovalTarget::Id(id.clone()), approve, Approver::Socket).await;
    let decided = decided.map_err(|undecided| match undecided {
        ApprovalError::Nothing | ApprovalError::Several(_) | ApprovalError::NotAllowed => {
            ApiError::not_found(
                "no_such_approval",
                format!(
                    "no call waits for approval under {id}: it was answered, has expired, or its turn ended"
                ),
                "`cairn tools approvals` lists the calls that wait",
            )
        }
    })?;
    let outcome = Some(decided.outcome);
    Ok(Json(ApprovalRecord { channel: decided.channel, outcome, approval: decided.approval }))
}

/// `GET /v1/mcp`.
pub async fn servers(State(admin): State<Shared>) -> Json<Vec<ServerRecord>> {
    Json(server_records(&admin.agent_registry))
}

pub(super) fn server_records(agent_registry: &AgentRegistry) -> Vec<ServerRecord> {
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

/// `GET /v1/mcp/{id}`: inspects the server, and starts it if necessary.
pub async fn server(State(admin): State<Shared>, Segment(id): Segment) -> Result<Json<ServerView>, ApiError> {
    view(&admin.agent_registry, &id).await.map(Json)
}

async fn view(agent_registry: &AgentRegistry, id: &str) -> Result<ServerView, ApiError> {
    let servers = agent_registry.tools().servers();
    let inspection = servers.inspect(id).await.map_err(mcp_error)?;
    let digest = inspection.pin.digest();
    Ok(ServerView {
        server: server_record(agent_registry, id)?,
        approved: servers.pin(id),
        inspection,
        digest,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// [`ServerView::digest`] of what was shown.
    pub digest: String,
    /// The tools to approve; `None`: all that are not suspicious.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// `POST /v1/mcp/{id}/approve`: approves exactly what was shown.
pub async fn approve_server(
    State(admin): State<Shared>,
    Segment(id): Segment,
    Body(ApproveBody { digest, tools }): Body<ApproveBody>,
) -> Result<Json<ServerRecord>, ApiError> {
    admin.runtime()?;
    let view = view(&admin.agent_registry, &id).await?;
    if view.digest != digest {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "changed",
            format!("the server `{id}` has changed since it was shown"),
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
    admin.people.approve_server(pin.clone()).await?;
    tracing::info!(server = %id, version = %pin.version, n_tools = pin.tools.len(), "a tool server was approved");
    admin.agent_registry.tools().servers().set_pin(&id, Some(pin));
    deployed(&admin, &id).await
}

/// `POST /v1/mcp/{id}/revoke`.
pub async fn revoke_server(
    State(admin): State<Shared>,
    Segment(id): Segment,
) -> Result<Json<ServerRecord>, ApiError> {
    admin.runtime()?;
    if admin.agent_registry.tools().servers().pin(&id).is_none() {
        return Err(ApiError::not_found(
            "not_approved",
            format!("the server `{id}` is not approved"),
            "`cairn mcp list` shows the servers",
        ));
    }
    admin.people.revoke_server(&id).await?;
    tracing::info!(server = %id, "the approval of a tool server was revoked");
    admin.agent_registry.tools().servers().set_pin(&id, None);
    deployed(&admin, &id).await
}

fn server_record(agent_registry: &AgentRegistry, id: &str) -> Result<ServerRecord, ApiError> {
    let record = server_records(agent_registry).into_iter().find(|record| record.status.server == id);
    record.ok_or_else(|| mcp_error(McpError::Unknown(id.to_owned())))
}

/// Updates the agents' tools, and returns the server's record.
async fn deployed(admin: &Admin, id: &str) -> Result<Json<ServerRecord>, ApiError> {
    admin.agent_registry.deploy(admin.runtime()?).await.map_err(|error| bad_model(&error))?;
    server_record(&admin.agent_registry, id).map(Json)
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
            StatusCode::BAD_GATEWAY,
            "server_failed",
            message,
            "see what it writes to its standard error: `cairn mcp list --json`",
        ),
    }
}
