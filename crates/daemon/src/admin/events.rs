//! `GET /v1/events`: what happens, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cairn_platforms::local::ApiError;
use futures::StreamExt;
use serde_json::json;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::Shared;

/// Silence after which a comment keeps the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Every notice of the runtime from here on. A reader that is too slow is told how many it missed (`missed`).
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
