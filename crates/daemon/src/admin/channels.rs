//! Channels and their windows.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cairn_core::agent::AgentSettings;
use cairn_core::conversation::Conversation;
use cairn_core::ports::Store as _;
use cairn_platforms::local::ApiError;
use serde::Deserialize;

use super::params::{LIMIT_MAX, Params, Segment, params, segment};
use super::{Admin, Shared, no_such_agent};
use crate::records::{ChannelRecord, ContextRecord};

#[derive(Debug, Deserialize)]
pub(super) struct ListParams {
    limit: Option<usize>,
}

/// `GET /v1/channels`: all of them, by name, unless `limit` says fewer.
pub(super) async fn list(
    State(admin): State<Shared>,
    query: Params<ListParams>,
) -> Result<Json<Vec<ChannelRecord>>, ApiError> {
    let limit = params(query)?.limit.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    let mut records = Vec::new();
    for row in admin.store.channels().await?.into_iter().take(limit) {
        let (conversation, awake) = admin.conversation(&row.channel).await?;
        let settings = measured_by(&admin, &conversation).await?;
        records.push(ChannelRecord::of(&conversation, &settings, awake));
    }
    Ok(Json(records))
}

/// `GET /v1/channels/{C}/context`.
pub(super) async fn context(
    State(admin): State<Shared>,
    channel: Segment,
) -> Result<Json<ContextRecord>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let settings = admin.settings(&conversation).await?;
    Ok(Json(ContextRecord::of(&conversation, &settings)))
}

/// The settings by which a line of the list is measured: those of the first agent for a channel whose own agent is
/// no longer configured, so that the list stays whole.
async fn measured_by(admin: &Admin, conversation: &Conversation) -> Result<Arc<AgentSettings>, ApiError> {
    match admin.known_settings(conversation).await? {
        Some(settings) => Ok(settings),
        None => {
            let id = admin.agent_registry.default_agent();
            let agent = admin.agent(id).await?.ok_or_else(|| no_such_agent(id))?;
            Ok(Arc::clone(agent.first_settings()))
        }
    }
}
