//! Reminders: list, show, set, cancel.

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_api::records::{ReminderRecord, ReminderRequest};
use cairn_core::reminder::{CHANNEL_MAX, NewReminder, read, zone};
use cairn_core::store_port::Store as _;
use cairn_types::ids::ReminderId;
use cairn_types::message::{Author, Provenance};
use serde::Deserialize;

use crate::api::shared::{Admin, Body, Channel, LIMIT_MAX, Params, Shared, runtime_error};

/// Who sets reminders at the socket and in the configuration.
pub const OPERATOR: &str = "local/operator";

#[derive(Debug, Default, Deserialize)]
pub struct ReminderParams {
    pub channel: Option<String>,
}

/// `GET /v1/reminders`: of a channel, or of all, the next one first.
pub async fn list(
    State(admin): State<Shared>,
    Params(query): Params<ReminderParams>,
) -> Result<Json<Vec<ReminderRecord>>, ApiError> {
    let channel = query.channel.map(|name| admin.resolve(&name)).transpose()?;
    let found = admin.store.reminders(channel.as_ref(), LIMIT_MAX).await?;
    Ok(Json(found.into_iter().map(ReminderRecord::from).collect()))
}

/// `GET /v1/channels/{channel}/reminders/{id}`.
pub(super) async fn show(
    State(admin): State<Shared>,
    Channel(channel, id): Channel<String>,
) -> Result<Json<ReminderRecord>, ApiError> {
    let found = admin.store.reminders(Some(&channel), CHANNEL_MAX).await?;
    let found = found.into_iter().find(|(_, reminder)| reminder.id.as_str() == id);
    let found = found.ok_or_else(|| {
        let hint = "`cairn reminder list` lists them";
        ApiError::not_found("no_such_reminder", format!("no reminder `{id}` is set in {channel}"), hint)
    })?;
    Ok(Json(found.into()))
}

/// `POST /v1/channels/{channel}/reminders`: sets one in the operator's name. The channel may be a new one.
pub async fn add(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    Body(request): Body<ReminderRequest>,
) -> Result<Json<ReminderRecord>, ApiError> {
    let zone_name = timezone(&admin, &channel.agent());
    let (when, text) = read(&request.words, admin.clock.now(), &zone(&zone_name))
        .map_err(|how| runtime_error(cairn_actors::RuntimeError::Reminder(how)))?;
    let new = NewReminder {
        id: None,
        by: Author { id: OPERATOR.to_owned(), name: "the operator".to_owned() },
        text: text.to_owned(),
        when,
        zone: zone_name,
        provenance: Provenance::default(),
    };
    let set = admin.runtime()?.set_reminder(&channel, new, true).await.map_err(runtime_error)?;
    Ok(Json((channel, set).into()))
}

/// `DELETE /v1/channels/{channel}/reminders/{id}`: returns what it was.
pub async fn cancel(
    State(admin): State<Shared>,
    Channel(channel, id): Channel<String>,
) -> Result<Json<ReminderRecord>, ApiError> {
    let id = ReminderId::from(id);
    let gone =
        admin.runtime()?.cancel_reminder(&channel, &id, OPERATOR, None).await.map_err(runtime_error)?;
    Ok(Json((channel, gone).into()))
}

fn timezone(admin: &Admin, agent: &cairn_types::ids::AgentId) -> String {
    let loaded = admin.agent_registry.loaded();
    loaded.config.agent(agent.as_str()).map_or_else(|| "UTC".to_owned(), |agent| agent.timezone.clone())
}
