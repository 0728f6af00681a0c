//! The local platform: conversations over HTTP on the daemon's socket, for the command line and for scripts.
//!
//! One message is one turn. A client that disconnects cancels nothing: the turn continues, and a request with the same
//! message id joins it or gets the stored answer.

mod command;
mod files;
pub(crate) mod take;

use cairn_api::error::{ApiError, ErrorBody};
use cairn_api::message::MessageRequest;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use cairn_config::Live;
use cairn_platforms::attach::Transcriber;
use cairn_types::ids::{AgentId, MessageId, TurnId};
use cairn_types::ports::{Admission, Answer, ChatCommands, Clock, Intake, Progress};
use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;

pub use command::run as run_command;
pub use files::too_large;
pub use take::{Mint, check_channel};

/// After this long without an event, a comment keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub struct LocalApi {
    pub intake: Arc<dyn Intake>,
    pub chat_commands: Arc<dyn ChatCommands>,
    /// Supplies the time of messages without one.
    pub clock: Arc<dyn Clock>,
    /// The agent for channel names without an agent.
    pub default_agent: AgentId,
    /// Longest text of a message, in bytes.
    pub max_text_bytes: usize,
    /// Turns recordings into words; `None`: they are only named.
    pub transcriber: Option<Arc<Transcriber>>,
    /// The agents, and which of their models take pictures.
    pub config: Live,
    /// Makes ids for messages without one.
    pub mint: Arc<Mint>,
}

/// The routes `POST /v1/channels/{channel}/messages` and `…/commands`.
pub fn router(api: LocalApi) -> Router {
    Router::new()
        .route("/v1/channels/{channel}/messages", post(post_message))
        .route("/v1/channels/{channel}/commands", post(command::post_command))
        .with_state(api)
}

async fn post_message(
    State(api): State<LocalApi>,
    channel: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let Path(channel) = channel.map_err(|error| ApiError::malformed(error.body_text()))?;
    // Before its body, which may be large.
    check_channel(&api, &take::resolve(&api, &channel, None)?)?;
    let (message, admission) = say(&api, &channel, take::read(&api, body).await?).await?;
    if wants_events(&headers) { Ok(events(message, admission)) } else { whole(admission).await }
}

/// Takes what somebody said in a local channel, with the files that came with it; returns when it is durable.
///
/// # Errors
/// The message is malformed, the channel is not local, or the message is refused.
pub async fn say(
    api: &LocalApi,
    channel: &str,
    request: MessageRequest,
) -> Result<(MessageId, Admission), ApiError> {
    let inbound = take::inbound(api, channel, request).await?;
    let message = inbound.message.clone();
    let intake = Arc::clone(&api.intake);
    // In its own task: a client that disconnects drops this handler, not the message.
    let submitted = tokio::spawn(async move { intake.submit(inbound).await }).await;
    Ok((message, submitted.map_err(|error| ApiError::internal(&error))??))
}

/// Whether the client wants events instead of a single answer.
pub fn wants_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("text/event-stream"))
}

/// Waits for the reply.
async fn whole(mut admission: Admission) -> Result<Response, ApiError> {
    while let Some(progress) = admission.progress.next().await {
        match progress {
            Progress::Ended(Answer::Reply(reply)) => return Ok(Json(reply).into_response()),
            Progress::Ended(Answer::Failed(failure)) => return Err(failure.into()),
            Progress::Delta(_)
            | Progress::Restarted
            | Progress::Tool { .. }
            | Progress::ClientCalls { .. }
            | Progress::Approval(_)
            | Progress::Waiting(_) => {}
        }
    }
    Err(broken_off(&admission.turn))
}

/// Streams the progress of the turn.
pub fn events(message: MessageId, admission: Admission) -> Response {
    let Admission { turn, progress } = admission;
    let accepted = event("accepted", &json!({ "message": message, "turn": turn }));
    let rest = stream::unfold((progress, false, turn), |(mut progress, over, turn)| async move {
        if over {
            return None;
        }
        let next = loop {
            // No client of the socket has tools.
            match progress.next().await {
                Some(Progress::ClientCalls { .. }) => {}
                next => break next,
            }
        };
        let (event, over) = match next {
            Some(Progress::ClientCalls { .. }) => return None,
            Some(Progress::Ended(Answer::Reply(reply))) => (event("reply", &reply), true),
            Some(Progress::Ended(Answer::Failed(failure))) => (error_event(failure.into()), true),
            Some(Progress::Delta(text)) => (event("delta", &json!({ "text": text })), false),
            Some(Progress::Restarted) => (event("restarted", &json!({})), false),
            Some(Progress::Tool { name, state }) => {
                (event("tool", &json!({ "name": name, "state": state })), false)
            }
            Some(Progress::Approval(approval)) => (event("approval", &approval), false),
            Some(Progress::Waiting(why)) => (event("waiting", &json!({ "message": why })), false),
            None => (error_event(broken_off(&turn)), true),
        };
        Some((event, (progress, over, turn)))
    });
    let events = stream::iter([accepted]).chain(rest).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn event(name: &'static str, data: &impl Serialize) -> Event {
    Event::default()
        .event(name)
        .json_data(data)
        .unwrap_or_else(|error| Event::default().event("error").data(error.to_string()))
}

fn error_event(error: ApiError) -> Event {
    event("error", &ErrorBody { error: error.detail })
}

pub(crate) fn broken_off(turn: &TurnId) -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        format!("the daemon stopped before turn {turn} ended"),
        "send the message again with the same `id`: it joins its turn or gets the stored answer",
    )
}
