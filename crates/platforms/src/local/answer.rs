//! The answer: whole when the reply is there, or as events while it comes.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cairn_core::ids::{MessageId, TurnId};
use cairn_core::ports::{Admission, Answer, Progress};
use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;

use super::{ApiError, ErrorBody};

/// Silence after which a comment keeps the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn whole(mut admission: Admission) -> Result<Response, ApiError> {
    while let Some(progress) = admission.progress.next().await {
        match progress {
            Progress::Ended(Answer::Reply(reply)) => return Ok(Json(reply).into_response()),
            Progress::Ended(Answer::Failed(failure)) => return Err(failure.into()),
            Progress::Delta(_)
            | Progress::Restarted
            | Progress::Tool { .. }
            | Progress::Approval(_)
            | Progress::Waiting(_) => {}
        }
    }
    Err(broken_off(&admission.turn))
}

/// Sends what the turn does, as it does it.
pub(super) fn events(message: MessageId, admission: Admission) -> Response {
    let Admission { turn, progress } = admission;
    let accepted = event("accepted", &json!({ "message": message, "turn": turn }));
    let rest = stream::unfold((progress, false, turn), |(mut progress, over, turn)| async move {
        if over {
            return None;
        }
        let (event, over) = match progress.next().await {
            Some(Progress::Ended(Answer::Reply(reply))) => (event("reply", &reply), true),
            Some(Progress::Ended(Answer::Failed(failure))) => (error(failure.into()), true),
            Some(Progress::Delta(text)) => (event("delta", &json!({ "text": text })), false),
            Some(Progress::Restarted) => (event("restarted", &json!({})), false),
            Some(Progress::Tool { name, state }) => {
                (event("tool", &json!({ "name": name, "state": state })), false)
            }
            Some(Progress::Approval(approval)) => (event("approval", &approval), false),
            Some(Progress::Waiting(why)) => (event("waiting", &json!({ "message": why })), false),
            None => (error(broken_off(&turn)), true),
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

fn error(error: ApiError) -> Event {
    event("error", &ErrorBody { error: error.detail })
}

fn broken_off(turn: &TurnId) -> ApiError {
    ApiError::new(
        axum::http::StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        format!("the daemon stopped before turn {turn} ended"),
        "send the message again with the same `id`: it joins its turn or gets the stored answer",
    )
}
