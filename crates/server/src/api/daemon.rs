//! The daemon itself: health, status, events, configuration.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_store::Totals;
use cairn_types::ids::ChannelId;
use cairn_types::ports::{NodeRow, PlatformStatus, StoreError};
use futures::StreamExt;
use serde_json::json;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::api::nodes;
use crate::api::shared::{Admin, Shared, no_daemon};
use crate::api::statuses::{agent_statuses, spend_status, store_status};
use crate::parts::adapters::statuses;
use crate::reload::ReloadError;
use cairn_api::records::{AWAKE_SECS, DrainRecord, Reloaded, StatusRecord};

/// After this long without an event, a comment keeps the connection of `GET /v1/events` open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Most chats in trouble whose names are looked up.
const NAMED_MAX: usize = 8;

/// `GET /v1/health`: 200 if messages are accepted and the store can be written. Chat networks that are down and damage
/// in old parts of the journal are listed, but do not make the daemon unhealthy.
pub(super) async fn health(State(admin): State<Shared>) -> Response {
    let (ready, state) = match &admin.runtime {
        Some(runtime) => (runtime.is_ready(), runtime.health().state),
        None => (false, "stopped"),
    };
    let stats = admin.store.stats().await;
    let damage = stats.as_ref().map(|stats| stats.damage.clone()).unwrap_or_default();
    let trouble = stats.map_or_else(Some, |stats| stats.trouble);
    let reason = match trouble {
        None if ready => {
            let mut well = json!({ "status": "ok", "platforms": statuses(&admin.adapters) });
            if !damage.is_empty() {
                well["damage"] = json!(damage);
            }
            return Json(well).into_response();
        }
        None => format!("the daemon is {state}"),
        Some(error @ StoreError::DiskFull { .. }) => return ApiError::from(error).into_response(),
        Some(error) => error.to_string(),
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, state, reason, "`cairn status` and the log have details")
        .into_response()
}

/// `GET /v1/status`.
pub async fn status(State(admin): State<Shared>) -> Result<Json<StatusRecord>, ApiError> {
    let stats = admin.store.stats().await?;
    let identity = &admin.identity;
    let up = admin.clock.now().duration_since(identity.started_at);
    // A failed count must not prevent the rest of the status.
    let totals = admin.store.totals().await;
    let trouble = stats.trouble.clone().or_else(|| totals.as_ref().err().cloned());
    let Totals { channels, outbox, last_at } = totals.unwrap_or_default();
    let store = store_status(&stats, trouble.map(|error| error.to_string()));
    let agents = agent_statuses(&admin.runtimes().await?, admin.runtime.as_ref());
    let stopped = StatusRecord {
        uptime_seconds: u64::try_from(up.as_secs()).unwrap_or(0),
        channels,
        last_at,
        outbox,
        ..StatusRecord::of_stopped(identity, agents, store)
    };
    let Some(runtime) = &admin.runtime else { return Ok(Json(stopped)) };
    let health = runtime.health();
    let mut platforms = statuses(&admin.adapters);
    name_chats(&admin, &mut platforms).await;
    Ok(Json(StatusRecord {
        running: true,
        state: health.state.to_owned(),
        awake: health.awake as u64,
        turns: health.turns as u64,
        runs: health.runs as u64,
        restarts: health.restarts,
        pairings: admin.people.counts(),
        platforms,
        spend: spend_status(runtime, &admin.agent_registry.loaded().config),
        node: nodes::status_of(&admin.store, &admin.agent_registry.loaded()).await,
        ..stopped
    }))
}

/// Says beside the id of a chat in trouble what people see as its name, where that is known.
async fn name_chats(admin: &Admin, platforms: &mut [PlatformStatus]) {
    let config = &admin.agent_registry.loaded().config;
    let mut left = NAMED_MAX;
    for PlatformStatus { platform, troubles, .. } in platforms {
        for trouble in troubles.iter_mut() {
            let Some(chat) = trouble.chat.as_deref().filter(|_| left > 0) else { continue };
            left -= 1;
            for agent in &config.agents {
                let Ok(channel) = ChannelId::new(&agent.id, platform, chat, None) else { continue };
                if let Some(name) = admin.chat_name(&channel).await {
                    trouble.place += &format!(" ({name})");
                    break;
                }
            }
        }
    }
}

/// `GET /v1/events`: all events of the runtime from now on. A reader that is too slow gets `missed` with the number of
/// skipped events.
pub(super) async fn events(State(admin): State<Shared>) -> Result<Response, ApiError> {
    let notices = BroadcastStream::new(admin.runtime()?.notices());
    let events = notices.map(|notice| {
        let event = match notice {
            Ok(notice) => Event::default().event(notice.name()).json_data(&notice),
            Err(BroadcastStreamRecvError::Lagged(n)) => {
                Event::default().event("missed").json_data(json!({ "events": n }))
            }
        };
        Ok::<_, Infallible>(
            event.unwrap_or_else(|error| Event::default().event("error").data(error.to_string())),
        )
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// `POST /v1/node/drain`: 202 once it has started; this node becomes a standby when another one leads.
pub(super) async fn drain(State(admin): State<Shared>) -> Result<(StatusCode, Json<DrainRecord>), ApiError> {
    let refuse =
        |code, message: &str, hint| ApiError::new(StatusCode::CONFLICT, code, message.to_owned(), hint);
    let node = nodes::status_of(&admin.store, &admin.agent_registry.loaded()).await;
    let (Some(node), Some(restart_handle)) = (node, &admin.restart_handle) else {
        return Err(refuse(
            "no_database",
            "there is no other node: the journal is only in the state folder",
            "set `url` under [store] to a database that several machines share",
        ));
    };
    if node.nodes.is_empty() {
        let hint = "try again when the database responds; see `cairn status`";
        return Err(refuse("unknown", "the database does not report the standbys", hint));
    }
    let awake = |row: &&NodeRow| row.node.name != node.name && row.silent_secs <= AWAKE_SECS;
    let standbys: Vec<_> = node.nodes.iter().filter(awake).map(|row| row.node.name.clone()).collect();
    if standbys.is_empty() {
        return Err(refuse(
            "no_standby",
            "there is no standby",
            "start one, with the same `url` under [store]; `cairn status` lists them",
        ));
    }
    restart_handle.drain();
    Ok((StatusCode::ACCEPTED, Json(DrainRecord { node: node.name, standbys })))
}

/// `POST /v1/reload`: reads the configuration again. 422 if it is invalid; then nothing has changed.
pub async fn reload(State(admin): State<Shared>) -> Result<Json<Reloaded>, ApiError> {
    let reloader = admin.reloader.as_ref().ok_or_else(|| {
        no_daemon(
            "there is nothing to reload: this daemon runs inside a command",
            "every command reads the configuration when it starts; `cairn run` reloads",
        )
    })?;
    reloader.reload("cairn reload").await.map(Json).map_err(|error| not_reloaded(&error))
}

pub fn not_reloaded(error: &ReloadError) -> ApiError {
    let (status, hint) = match error {
        ReloadError::Config(_) | ReloadError::Model(_) | ReloadError::Level(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "nothing was changed; correct the file and reload again")
        }
        ReloadError::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "nothing was changed; `cairn status` shows the journal's problem; then reload again",
        ),
        ReloadError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "the next start reads the file anyway"),
    };
    ApiError::new(status, error.code(), error.to_string(), hint)
}
