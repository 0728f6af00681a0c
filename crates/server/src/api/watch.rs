//! Long work reported as events: progress, then the result. The work stops when the client disconnects.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_store::Progress;
use futures::stream;
use serde::Serialize;
use serde_json::json;

/// Time between two progress events.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Stops the work when dropped.
pub(super) struct StopWhenDropped(pub(super) Progress);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Whether the client wants events instead of a single answer.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("text/event-stream"))
}

/// Answers with events: `progress` until the work ends, then `done` with its result, or `error`.
pub(super) fn watch<T: Serialize + Send + 'static>(
    progress: Progress,
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Response {
    let stop = StopWhenDropped(progress);
    let events = stream::unfold(Some((Box::pin(work), stop)), |state| async move {
        let (mut work, stop) = state?;
        let next = match tokio::time::timeout(TELL_EVERY, &mut work).await {
            Err(_) => (event("progress", &stop.0.now()), Some((work, stop))),
            Ok(Ok(record)) => (event("done", &record), None),
            Ok(Err(error)) => {
                let told = json!({ "status": error.status.as_u16(), "error": error.detail });
                (event("error", &told), None)
            }
        };
        Some((Ok::<_, Infallible>(next.0), next.1))
    });
    Sse::new(events).into_response()
}

fn event(name: &'static str, data: &impl Serialize) -> Event {
    Event::default()
        .event(name)
        .json_data(data)
        .unwrap_or_else(|error| Event::default().event("error").data(error.to_string()))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    async fn next(body: &mut axum::body::BodyDataStream) -> String {
        String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn work_stops_when_nobody_reads_its_events_any_more() {
        let progress = Progress::default();
        let response = watch(progress.clone(), std::future::pending::<Result<(), ApiError>>());
        let mut events = response.into_body().into_data_stream();
        let first = next(&mut events).await;
        assert!(first.contains("event: progress") && first.contains("\"done\":0"), "{first}");
        assert!(!progress.is_stopped());
        drop(events);
        assert!(progress.is_stopped());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_event_is_what_the_work_came_to() {
        let done = watch(Progress::default(), async { Ok(json!({ "ok": true })) });
        let mut events = done.into_body().into_data_stream();
        let told = next(&mut events).await;
        assert!(told.contains("event: done") && told.contains("{\"ok\":true}"), "{told}");
        assert!(events.next().await.is_none());
        let failed = ApiError::not_found("no_such_person", "nobody", "look again");
        let failed = watch(Progress::default(), async { Err::<(), _>(failed) });
        let told = next(&mut failed.into_body().into_data_stream()).await;
        assert!(told.contains("event: error") && told.contains("\"status\":404"), "{told}");
    }
}
