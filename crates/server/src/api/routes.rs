//! The routes of the admin API.

use crate::api::{
    channels, daemon, explain, explain_run, figures, files, history, imports, memories, outbox, page_links,
    people, reminders, search, spend, store, summaries, tools,
};
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{delete, get, post};
use cairn_api::error::ApiError;

pub(super) use crate::api::shared::{Admin, Shared};

/// The routes of the socket, without messages.
pub fn router(admin: Admin) -> Router {
    inside(Arc::new(admin))
}

/// The routes of the socket, and those of the admin address without the page: metrics and health. Neither has
/// fallbacks.
pub fn routers(admin: &Shared) -> (Router, Router) {
    let at_address = Router::new()
        .route("/metrics", get(figures::metrics))
        .route("/v1/health", get(daemon::health))
        .with_state(Arc::clone(admin));
    (inside(Arc::clone(admin)), at_address)
}

fn inside(admin: Shared) -> Router {
    Router::new()
        .route("/metrics", get(figures::metrics))
        .route("/v1/channels", get(channels::list))
        .route("/v1/channels/{channel}/context", get(channels::context))
        .route("/v1/channels/{channel}/history", get(history::history))
        .route("/v1/channels/{channel}/search", get(search::in_channel))
        .route("/v1/channels/{channel}/summaries", get(summaries::list))
        .route("/v1/channels/{channel}/summaries/{id}", get(summaries::show))
        .route("/v1/channels/{channel}/turns/{turn}/explain", get(explain::explain))
        .route("/v1/channels/{channel}/turns/{turn}/prompt", get(explain::prompt))
        .route("/v1/channels/{channel}/turns/{turn}/diff", get(explain::diff))
        .route("/v1/channels/{channel}/runs/{run}/explain", get(explain_run::explain))
        .route("/v1/channels/{channel}/runs/{run}/prompt", get(explain_run::prompt))
        .route("/v1/channels/{channel}/artifacts", get(channels::artifacts))
        .route("/v1/channels/{channel}/artifacts/{id}", get(channels::artifact))
        .route("/v1/channels/{channel}/artifacts/{id}/content", get(files::content))
        .route("/v1/channels/{channel}/compact", post(channels::compact))
        .route("/v1/channels/{channel}/new", post(channels::new))
        .route("/v1/channels/{channel}/stop", post(channels::stop))
        .route("/v1/channels/{channel}/import", post(imports::import))
        .route("/v1/channels/{channel}/wait", post(channels::wait))
        .route("/v1/search", get(search::everywhere))
        .route("/v1/memories", get(memories::list).post(memories::add))
        .route("/v1/memories/{id}", get(memories::show).patch(memories::edit).delete(memories::forget))
        .route("/v1/memories/{id}/unite", post(memories::unite))
        .route("/v1/pairings", get(people::list))
        .route("/v1/pairings/{code}/approve", post(people::approve))
        .route("/v1/pairings/{user}", delete(people::revoke))
        .route("/v1/bans", get(people::bans).post(people::ban))
        .route("/v1/bans/{user}", delete(people::unban))
        .route("/v1/private", get(people::private).post(people::set_private))
        .route("/v1/people/forget", post(store::forget))
        .route("/v1/people/erased", get(store::erased))
        .route("/v1/reminders", get(reminders::list))
        .route("/v1/channels/{channel}/reminders", post(reminders::add))
        .route("/v1/channels/{channel}/reminders/{id}", get(reminders::show).delete(reminders::cancel))
        .route("/v1/outbox", get(outbox::list))
        .route("/v1/outbox/{id}/retry", post(outbox::retry))
        .route("/v1/outbox/{id}", delete(outbox::drop))
        .route("/v1/mcp", get(tools::servers))
        .route("/v1/mcp/{id}", get(tools::server))
        .route("/v1/mcp/{id}/approve", post(tools::approve_server))
        .route("/v1/mcp/{id}/revoke", post(tools::revoke_server))
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/log", get(tools::log))
        .route("/v1/approvals", get(tools::approvals))
        .route("/v1/approvals/{id}", post(tools::answer))
        .route("/v1/health", get(daemon::health))
        .route("/v1/status", get(daemon::status))
        .route("/v1/spend", get(spend::spend))
        .route("/v1/store/verify", get(store::verify))
        .route("/v1/store/backup", post(store::backup))
        .route("/v1/store/retain", post(store::retain))
        .route("/v1/events", get(daemon::events))
        .route("/v1/node/drain", post(daemon::drain))
        .route("/v1/reload", post(daemon::reload))
        .route("/v1/page/links", post(page_links::link))
        .with_state(admin)
}

/// Adds answers for unknown calls, in the format of all errors.
pub fn with_fallbacks(router: Router) -> Router {
    router.fallback(no_such_call).method_not_allowed_fallback(no_such_method)
}

async fn no_such_call(uri: Uri) -> ApiError {
    ApiError::not_found(
        "no_such_call",
        format!("there is no call {}", uri.path()),
        "a channel's full name is one segment of the URL: percent-encode its slashes (%2F)",
    )
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        format!("{} does not take {method}", uri.path()),
        "docs/src/http-api.md lists the calls",
    )
}
