//! The page: what the admin API knows, for a browser. Made by the server; scripts only make it livelier.
//!
//! A view is a file with `async fn view(State<Shared>, Visitor, …) -> Result<Markup, PageError>`, which asks the functions of
//! the admin API for its records and puts them into `layout::layout`.

mod asset;
mod channels;
mod chart;
mod config;
mod conversation;
mod downloads;
mod error;
mod events;
mod files;
mod guard;
mod layout;
mod links;
mod login;
mod marks;
mod memories;
mod outbox;
mod paint;
mod people;
mod pieces;
mod prompt;
mod reminders;
mod ribbon;
mod run;
mod runs;
mod search;
mod servers;
mod spend;
mod status;
mod store;
mod summary;
mod talk;
mod tools;
mod turn;
mod visitor;
mod window;
mod window_bar;

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use cairn_server::api::page_access::Access;

use cairn_server::api::Shared;
use cairn_server::api::store_jobs::StoreJobs;
use cairn_server::messages::LocalApi;

/// The routes of the page, each guarded, beside those of the figures. `local`: the platform on which visitors talk.
pub fn router(admin: Shared, local: LocalApi, access: &Arc<Access>, figures: Router) -> Router {
    let views = Router::new()
        .route("/", get(status::view))
        .route("/channels", get(channels::view))
        .route("/channels/{channel}", get(conversation::view))
        .route("/channels/{channel}/window", get(window::view))
        .route("/channels/{channel}/messages", post(talk::say))
        .route(talk::HERE, get(talk::view))
        .layer(axum::Extension(local))
        .route("/channels/{channel}/entries/{seq}/files/{n}", get(downloads::of_entry))
        .route("/channels/{channel}/artifacts/{id}", get(downloads::of_artifact))
        .route("/channels/{channel}/turns/{turn}", get(turn::view))
        .route("/channels/{channel}/turns/{turn}/prompt", get(prompt::view))
        .route("/channels/{channel}/turns/{turn}/body", get(prompt::body))
        .route("/channels/{channel}/turns/{turn}/diff", get(prompt::diff))
        .route("/channels/{channel}/summaries/{id}", get(summary::view))
        .merge(registers(&admin))
        .with_state(admin);
    let inside = Router::new().route(links::LOGOUT, post(login::leave)).with_state(Arc::clone(access));
    let outside = Router::new()
        .route(links::LOGIN, get(login::form).post(login::enter))
        .with_state(Arc::clone(access))
        .route("/files/{name}", get(files::file));
    let for_all = Arc::clone(access);
    let elsewhere = move |headers: HeaderMap| async move { error::no_such_view(&for_all, &headers) };
    views
        .merge(inside)
        .method_not_allowed_fallback(error::not_so)
        .route_layer(from_fn_with_state(Arc::clone(access), guard::visitors))
        .merge(outside)
        .merge(figures.layer(from_fn_with_state(Arc::clone(access), guard::figures)))
        .fallback(elsewhere)
        .layer(from_fn_with_state(Arc::clone(access), guard::changes))
}

/// What browsers are told with every answer of the page's address, refusals of its names included.
pub fn with_headers(router: Router) -> Router {
    router.layer(from_fn(guard::headers))
}

/// The views beside those of channels, and what is changed in them.
fn registers(admin: &Shared) -> Router<Shared> {
    Router::new()
        .route("/channels/{channel}/runs", get(runs::view))
        .route("/channels/{channel}/runs/{run}", get(run::view))
        .route("/channels/{channel}/runs/{run}/prompt", get(prompt::of_run))
        .route("/channels/{channel}/runs/{run}/body", get(prompt::body_of_run))
        .route("/search", get(search::view))
        .route("/people", get(people::view))
        .route("/people/approve", post(people::approve))
        .route("/people/revoke", post(people::revoke))
        .route("/people/ban", post(people::ban))
        .route("/people/unban", post(people::unban))
        .route("/people/private", post(people::private))
        .route("/spend", get(spend::view))
        .route("/store", get(store::view))
        .route("/store/check", post(store::check))
        .route("/store/backup", post(store::backup))
        .route("/store/stop", post(store::stop))
        .route("/memories", get(memories::view))
        .route("/memories/chosen", get(memories::chosen))
        .route("/memories/forget", post(memories::forget))
        .route("/memories/unite", post(memories::unite))
        .route("/memories/{id}", get(memories::one).post(memories::edit))
        .route("/tools", get(tools::view))
        .route("/tools/servers", get(servers::view))
        .route("/tools/servers/{id}", get(servers::one))
        .route("/tools/servers/{id}/approve", post(servers::approve))
        .route("/tools/servers/{id}/revoke", post(servers::revoke))
        .route("/approvals/{id}", post(tools::answer))
        .route("/reminders", get(reminders::view).post(reminders::add))
        .route("/reminders/{channel}/{id}/cancel", post(reminders::cancel))
        .route("/outbox", get(outbox::view))
        .route("/outbox/{id}/retry", post(outbox::retry))
        .route("/outbox/{id}/drop", post(outbox::drop))
        .route("/config", get(config::view))
        .route("/config/reload", post(config::reload))
        .route("/config/try", get(config::attempt))
        .route("/events", get(events::view))
        .route("/events/stream", get(events::stream))
        .layer(axum::Extension(events::Recent::of(admin)))
        .layer(axum::Extension(Arc::<StoreJobs>::default()))
}
