//! The local platform: conversations over HTTP on the daemon's socket, for the command line and for scripts.
//!
//! One message is one turn. Whoever hangs up cancels nothing: the turn goes on, and the same message id joins it or
//! gets its stored answer.

mod answer;
mod error;
mod message;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::Response;
use axum::routing::post;
use cairn_core::ids::AgentId;
use cairn_core::ports::{Clock, Intake};

pub use error::{ApiError, ErrorBody, ErrorDetail};
pub use message::{MessageRequest, Mint, read_body, read_object};

/// Longest text of a message in bytes, unless configured otherwise.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;

#[derive(Clone)]
pub struct LocalApi {
    pub intake: Arc<dyn Intake>,
    /// The time of messages that bring none.
    pub clock: Arc<dyn Clock>,
    /// The agent of bare channel names.
    pub default_agent: AgentId,
    /// Longest text of a message, in bytes.
    pub max_text_bytes: usize,
    /// Ids for messages that bring none.
    pub mint: Arc<Mint>,
}

/// The route `POST /v1/channels/{channel}/messages`.
pub fn router(api: LocalApi) -> Router {
    Router::new().route("/v1/channels/{channel}/messages", post(post_message)).with_state(api)
}

async fn post_message(
    State(api): State<LocalApi>,
    channel: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let Path(channel) = channel.map_err(|error| ApiError::malformed(error.body_text()))?;
    let inbound = message::take(&api, &channel, body).await?;
    let message = inbound.message.clone();
    let intake = Arc::clone(&api.intake);
    // A task of its own: a client that hangs up drops this handler, not the message.
    let submitted = tokio::spawn(async move { intake.submit(inbound).await }).await;
    let admission = submitted.map_err(|error| ApiError::internal(&error))??;
    let wants_events = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/event-stream"));
    if wants_events { Ok(answer::events(message, admission)) } else { answer::whole(admission).await }
}
