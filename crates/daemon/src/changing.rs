//! Routers for the time while a node changes its role.

use std::convert::Infallible;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use cairn_api::error::ApiError;
use cairn_api::records::{CHANGING, Identity, StatusRecord, StoreStatus};
use cairn_config::clock::SystemClock;
use cairn_server::metrics::{Meters, installed};
use cairn_types::ports::Clock as _;
use tokio::sync::watch;
use tower::ServiceExt as _;

/// The routes of the socket while this process neither leads nor is a standby: the status and errors say so.
pub(crate) fn changing(identity: &Identity) -> Router {
    let identity = identity.clone();
    let status = async move || {
        let of_store = StoreStatus::unknown(None);
        let state = CHANGING.to_owned();
        let stopped = StatusRecord::of_stopped(&identity, Vec::new(), of_store);
        Json(StatusRecord { running: true, state, uptime_seconds: uptime(&identity), ..stopped })
    };
    let refuse = async || {
        let message = "this node changes its role".to_owned();
        let hint = "try again in a few seconds; `cairn status` says what it does then";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, CHANGING, message, hint)
    };
    Router::new().route("/v1/status", get(status)).route("/metrics", get(figures)).fallback(refuse)
}

/// Seconds since the process started.
pub(crate) fn uptime(identity: &Identity) -> u64 {
    let up = SystemClock.now().duration_since(identity.started_at);
    u64::try_from(up.as_secs()).unwrap_or(0)
}

/// Forwards requests to the current router. Requests wait until there is one.
pub(crate) fn as_shown(shown: watch::Receiver<Option<Router>>) -> Router {
    Router::new().fallback(async move |request: Request| {
        let mut shown = shown.clone();
        let router = shown.wait_for(Option::is_some).await.ok().and_then(|router| router.clone());
        answered(router.unwrap_or_default(), request).await
    })
}

/// The answer of a router.
pub(crate) async fn answered(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err::<_, Infallible>(never) => match never {},
    }
}

pub(crate) async fn figures() -> String {
    installed().map(Meters::render).unwrap_or_default()
}
