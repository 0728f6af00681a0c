//! Tools: what agents may call, what was called, and what waits for a yes.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use cairn_actors::{Approver, Undecided, Which};
use cairn_core::approval::{Approval, ApprovalOutcome};
use cairn_core::event::{Event, TurnEvent};
use cairn_core::ids::{ApprovalId, ChannelId};
use cairn_core::model::ToolDef;
use cairn_core::tool::{Effect, ToolLogQuery, ToolOutcome, ToolUse};
use cairn_platforms::local::ApiError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::params::{self, Params, Segment, segment};
use crate::agent_registry::AgentRegistry;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRecord {
    pub agent: String,
    /// By the name that its model knows it by.
    pub tool: String,
    /// Where it comes from: `built-in`, `linked`, or the server's id.
    pub source: String,
    pub effect: Effect,
    pub description: String,
}

/// A call of a tool that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUseRecord {
    /// Number of its journal record: pages go by it.
    pub n: u64,
    pub at: Timestamp,
    pub channel: ChannelId,
    /// The call; its fields stand beside these.
    #[serde(flatten)]
    pub used: ToolUse,
}

/// A request for a yes that waits, or was just answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub channel: ChannelId,
    /// The answer; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    /// The request; its fields stand beside these.
    #[serde(flatten)]
    pub approval: Approval,
}

/// Query of `GET /v1/tools`.
#[derive(Debug, Deserialize)]
pub(super) struct ToolsQuery {
    pub(super) agent: Option<String>,
}

/// `GET /v1/tools`.
pub(super) async fn list(
    State(admin): State<Shared>,
    query: Params<ToolsQuery>,
) -> Result<Json<Vec<ToolRecord>>, ApiError> {
    let query = params::params(query)?;
    Ok(Json(of_roster(&admin.agent_registry, query.agent.as_deref())))
}

/// The tools of all agents, or of one.
pub(super) fn of_roster(agent_registry: &AgentRegistry, agent: Option<&str>) -> Vec<ToolRecord> {
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
        };
        agent_registry.tools().listed(agent).into_iter().map(record).collect::<Vec<_>>()
    });
    records.collect()
}

/// Query of `GET /v1/tools/log`.
#[derive(Debug, Deserialize)]
pub(super) struct LogQuery {
    channel: Option<String>,
    tool: Option<String>,
    outcome: Option<ToolOutcome>,
    before: Option<u64>,
    limit: Option<usize>,
}

/// `GET /v1/tools/log`: the newest calls that fit, oldest first.
pub(super) async fn log(
    State(admin): State<Shared>,
    query: Params<LogQuery>,
) -> Result<Json<Vec<ToolUseRecord>>, ApiError> {
    let LogQuery { channel, tool, outcome, before, limit } = params::params(query)?;
    let channel = channel.map(|name| admin.resolve(&name)).transpose()?;
    let limit = params::limit(limit)?;
    let calls = admin.store.tool_calls(ToolLogQuery { channel, tool, outcome, before, limit }).await?;
    let record = |record: cairn_core::event::Record| match (record.event, record.channel) {
        (Event::Turn(TurnEvent::ToolUsed(used)), Some(channel)) => {
            Some(ToolUseRecord { n: record.n, at: record.at, channel, used })
        }
        _ => None,
    };
    Ok(Json(calls.into_iter().filter_map(record).collect()))
}

/// `GET /v1/approvals`.
pub(super) async fn approvals(State(admin): State<Shared>) -> Json<Vec<ApprovalRecord>> {
    let open = admin.runtime.as_ref().map(cairn_actors::Runtime::approvals).unwrap_or_default();
    let record = |(channel, approval)| ApprovalRecord { channel, outcome: None, approval };
    Json(open.into_iter().map(record).collect())
}

/// Body of `POST /v1/approvals/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    approve: bool,
}

/// `POST /v1/approvals/{id}`: whoever reaches the socket may answer.
pub(super) async fn answer(
    State(admin): State<Shared>,
    id: Segment,
    body: Body,
) -> Result<Json<ApprovalRecord>, ApiError> {
    let id = ApprovalId::from(segment(id)?.trim().to_lowercase());
    let Answer { approve } = params::body(body).await?;
    let decided = admin.runtime()?.decide(Which::Id(id.clone()), approve, Approver::Socket).await;
    let decided = decided.map_err(|undecided| match undecided {
        Undecided::Nothing | Undecided::Several(_) | Undecided::NotAllowed => ApiError::not_found(
            "no_such_approval",
            format!("nothing waits for a yes under {id}: it was answered, has expired, or its turn ended"),
            "`cairn tools approvals` lists what waits",
        ),
    })?;
    let outcome = Some(decided.outcome);
    Ok(Json(ApprovalRecord { channel: decided.channel, outcome, approval: decided.approval }))
}
