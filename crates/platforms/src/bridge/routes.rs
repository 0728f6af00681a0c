//! The HTTP calls of a bridge, below `/v1/bridges/NAME`, each with the bridge's token.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Path, Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;
use tokio::task::spawn_blocking;

use super::Bridge;
use super::hub::ACK_LIMIT;
use super::take::Intake;
use super::wire::{Ack, Deleted, ErrorBody, ErrorDetail, Hello, PROTOCOL, Said, Taken, Welcome};

/// Largest body of a call, with its files in base64.
const BODY_MAX: usize = 16 << 20;

/// Largest body of an acknowledgement or a hello.
const SMALL_MAX: usize = 64 << 10;

/// Longest time for a body to arrive.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// After this long without an event a comment shows that the connection is open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Seconds after which a call that was put off is repeated.
const REPEAT_AFTER: &str = "2";

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoCall {
    /// The token is missing or wrong.
    Stranger,
    Malformed(String),
    TooLarge,
    /// The daemon starts or stops.
    NotReady,
    /// Too much waits, here or in the channel.
    Busy,
    /// The bridge has not said hello since the daemon started.
    HelloFirst,
    /// Nothing waits for that acknowledgement.
    NoDelivery,
}

impl NoCall {
    fn parts(&self) -> (StatusCode, &'static str, String, &'static str) {
        let docs = "docs/src/bridges.md shows the calls and their fields";
        match self {
            Self::Stranger => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "the token is missing or wrong".to_owned(),
                "send `Authorization: Bearer TOKEN` with the token of this bridge",
            ),
            Self::Malformed(why) => (StatusCode::BAD_REQUEST, "malformed", why.clone(), docs),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!(
                    "the body is larger than {} MiB, or a text longer than the daemon takes",
                    BODY_MAX >> 20
                ),
                "leave out the bytes of large files, and name them",
            ),
            Self::NotReady => (
                StatusCode::SERVICE_UNAVAILABLE,
                "not_ready",
                "the daemon is starting or stopping".to_owned(),
                "repeat the call in a moment",
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "too many messages wait to be taken in".to_owned(),
                "repeat the call in a moment, with the same id",
            ),
            Self::HelloFirst => (
                StatusCode::CONFLICT,
                "hello_first",
                "the daemon has started since the last `hello`".to_owned(),
                "post `hello`, then open the stream again",
            ),
            Self::NoDelivery => (
                StatusCode::NOT_FOUND,
                "no_such_delivery",
                "nothing waits for this acknowledgement".to_owned(),
                "it was acknowledged before, or it comes again as a repeat: answer that",
            ),
        }
    }
}

impl IntoResponse for NoCall {
    fn into_response(self) -> Response {
        let (status, code, message, hint) = self.parts();
        let error = ErrorDetail { code: code.to_owned(), message, hint: hint.to_owned() };
        let mut response = (status, Json(ErrorBody { error })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static(REPEAT_AFTER));
        }
        response
    }
}

/// The routes of a bridge.
pub(super) fn router(bridge: &Arc<Bridge>) -> Router {
    let calls = Router::new()
        .route("/hello", post(hello))
        .route("/messages", post(message))
        .route("/edits", post(edit))
        .route("/deletions", post(deletion))
        .route("/deliveries", get(deliveries))
        .route("/deliveries/{id}", post(acknowledge))
        .with_state(Arc::clone(bridge));
    Router::new().nest(&format!("/v1/bridges/{}", bridge.platform()), calls)
}

async fn hello(State(bridge): State<Arc<Bridge>>, request: Request) -> Response {
    let called = async {
        let hello: Hello = bridge.body(request, SMALL_MAX).await?;
        hello.check().map_err(NoCall::Malformed)?;
        bridge.hello(hello).await;
        let platform = bridge.platform().to_owned();
        Ok(Json(Welcome { protocol: PROTOCOL, platform, acknowledge_within_secs: ACK_LIMIT.as_secs() }))
    };
    let called = called.await;
    bridge.answered("hello", &called, "taken");
    called.into_response()
}

async fn message(State(bridge): State<Arc<Bridge>>, request: Request) -> Response {
    let taken = async {
        let said: Said = bridge.body(request, BODY_MAX).await?;
        said.check().map_err(NoCall::Malformed)?;
        bridge.intake()?.message(said).await
    };
    let taken = taken.await;
    bridge.took("message", taken)
}

async fn edit(State(bridge): State<Arc<Bridge>>, request: Request) -> Response {
    let taken = async {
        let said: Said = bridge.body(request, BODY_MAX).await?;
        said.check().map_err(NoCall::Malformed)?;
        bridge.intake()?.edited(said).await
    };
    let taken = taken.await;
    bridge.took("edit", taken)
}

async fn deletion(State(bridge): State<Arc<Bridge>>, request: Request) -> Response {
    let taken = async {
        let deleted: Deleted = bridge.body(request, SMALL_MAX).await?;
        deleted.check().map_err(NoCall::Malformed)?;
        bridge.intake()?.deleted(deleted).await
    };
    let taken = taken.await;
    bridge.took("deletion", taken)
}

async fn deliveries(State(bridge): State<Arc<Bridge>>, headers: HeaderMap) -> Response {
    let opened = bridge.open_stream(&headers);
    bridge.answered("deliveries", &opened, "opened");
    opened.into_response()
}

async fn acknowledge(
    State(bridge): State<Arc<Bridge>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let taken = async {
        let ack: Ack = bridge.body(request, SMALL_MAX).await?;
        ack.check().map_err(NoCall::Malformed)?;
        if bridge.hub.acknowledge(&id, ack) { Ok(StatusCode::NO_CONTENT) } else { Err(NoCall::NoDelivery) }
    };
    let taken = taken.await;
    bridge.answered("acknowledgement", &taken, "taken");
    taken.into_response()
}

impl Bridge {
    fn is_that_of(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, given) = given.split_once(' ').unwrap_or_default();
        let is_same: bool =
            given.trim().as_bytes().ct_eq(self.settings.token.expose_secret().as_bytes()).into();
        is_same && scheme.eq_ignore_ascii_case("bearer")
    }

    fn open_stream(self: &Arc<Self>, headers: &HeaderMap) -> Result<Response, NoCall> {
        if !self.is_that_of(headers) {
            return Err(NoCall::Stranger);
        }
        self.intake()?;
        if !self.said.read().is_fresh {
            return Err(NoCall::HelloFirst);
        }
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        Ok(Sse::new(self.hub.open()).keep_alive(keep_alive).into_response())
    }

    /// The body of a call with the right token.
    async fn body<T: DeserializeOwned + Send + 'static>(
        &self,
        mut request: Request,
        most: usize,
    ) -> Result<T, NoCall> {
        if !self.is_that_of(request.headers()) {
            return Err(NoCall::Stranger);
        }
        let _room = match most {
            BODY_MAX => Some(self.bodies.acquire().await.map_err(|_closed| NoCall::NotReady)?),
            _ => None,
        };
        DefaultBodyLimit::max(most).apply(&mut request);
        let body = tokio::time::timeout(BODY_LIMIT, Bytes::from_request(request, &())).await;
        let body =
            body.map_err(|_elapsed| NoCall::Malformed("the body did not arrive in time".to_owned()))?;
        let body = body.map_err(|error: BytesRejection| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => NoCall::TooLarge,
            _ => NoCall::Malformed("the body broke off".to_owned()),
        })?;
        let read = move || serde_json::from_slice(&body);
        let read = if most == BODY_MAX {
            spawn_blocking(read).await.map_err(|_ended| NoCall::NotReady)?
        } else {
            read()
        };
        read.map_err(|error| NoCall::Malformed(error.to_string()))
    }

    fn intake(&self) -> Result<Arc<Intake>, NoCall> {
        self.intake.lock().clone().ok_or(NoCall::NotReady)
    }

    fn took(&self, call: &'static str, taken: Result<Taken, NoCall>) -> Response {
        let outcome = match &taken {
            Ok(Taken::Accepted) => "accepted",
            Ok(Taken::Command) => "command",
            Ok(Taken::Ignored { .. }) => "ignored",
            Ok(Taken::Pairing) => "pairing",
            Ok(Taken::Refused { .. }) => "refused",
            Err(_) => "failed",
        };
        self.answered(call, &taken, outcome);
        taken.map(Json).into_response()
    }

    /// Counts and logs a call.
    fn answered<T>(&self, call: &'static str, answer: &Result<T, NoCall>, taken: &'static str) {
        let platform = self.platform();
        let outcome = answer.as_ref().map_or_else(|error| error.parts().1, |_| taken);
        metrics::counter!("cairn_bridge_calls_total", "platform" => platform, "call" => call, "outcome" => outcome)
            .increment(1);
        match answer {
            Ok(_) => {}
            // What is wrong may be repeated with a field's text.
            Err(NoCall::Malformed(why)) => {
                tracing::warn!(platform, call, "a malformed call of the bridge was refused");
                tracing::debug!(platform, call, why, "what is wrong with the call");
            }
            Err(NoCall::Stranger) => tracing::warn!(platform, call, "a call with a wrong token was refused"),
            Err(error) => {
                tracing::debug!(platform, call, ?error, "a call of the bridge was not answered as asked")
            }
        }
    }
}
