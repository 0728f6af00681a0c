//! Where the views are: their paths, and links to them.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use cairn_api::records::CallOf;
use cairn_api::text::one_line;
use cairn_types::ids::{ArtifactId, ChannelId, MemoryId, RunId, Seq, SummaryId, TurnId};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::pieces::text;

/// A path of the page, each segment encoded.
pub(super) fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

/// For a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn channel_path(channel: &ChannelId) -> String {
    path(&["channels", &channel.to_string()])
}

pub(super) fn turn_path(channel: &ChannelId, turn: &TurnId) -> String {
    path(&["channels", &channel.to_string(), "turns", turn.as_str()])
}

pub(super) fn summary_path(channel: &ChannelId, id: &str) -> String {
    path(&["channels", &channel.to_string(), "summaries", id])
}

/// Where a channel's window is measured.
pub(super) fn window_path(channel: &ChannelId) -> String {
    format!("{}/window", channel_path(channel))
}

/// Where a channel's runs are.
pub(super) fn runs_path(channel: &ChannelId) -> String {
    format!("{}/runs", channel_path(channel))
}

pub(super) fn run_path(channel: &ChannelId, run: &RunId) -> String {
    path(&["channels", &channel.to_string(), "runs", run.as_str()])
}

/// The nth file that people were handed with an entry.
pub(super) fn file_path(channel: &ChannelId, seq: Seq, n: usize) -> String {
    format!("{}/entries/{seq}/files/{n}", channel_path(channel))
}

pub(super) fn artifact_path(channel: &ChannelId, id: &ArtifactId) -> String {
    path(&["channels", &channel.to_string(), "artifacts", id.as_str()])
}

/// The request of a model call.
pub(super) fn prompt_path(channel: &ChannelId, of: &CallOf, call: usize) -> String {
    let of = match of {
        CallOf::Turn(turn) => turn_path(channel, turn),
        CallOf::Run(run) => run_path(channel, run),
    };
    format!("{of}/prompt?call={call}")
}

pub(super) fn memory_path(id: &MemoryId) -> String {
    path(&["memories", id.as_str()])
}

/// An entry in its conversation.
pub(super) fn entry_path(channel: &ChannelId, seq: Seq) -> String {
    format!("{}?at={seq}#e{seq}", channel_path(channel))
}

pub(super) const TRY: &str = "/config/try";

/// Where thresholds are tried on a channel.
pub(super) fn try_path(channel: &ChannelId) -> String {
    format!("{TRY}?channel={}", encoded(&channel.to_string()))
}

pub(super) const LOGIN: &str = "/login";

pub(super) const LOGOUT: &str = "/logout";

pub(super) fn channel_link(channel: &ChannelId) -> Markup {
    html! { a href=(channel_path(channel)) { (one_line(&channel.to_string())) } }
}

pub(super) fn turn_link(channel: &ChannelId, turn: &TurnId) -> Markup {
    html! { a href=(turn_path(channel, turn)) { "turn " (text(turn)) } }
}

pub(super) fn summary_link(channel: &ChannelId, summary: &SummaryId) -> Markup {
    html! { a href=(summary_path(channel, summary.as_str())) { (text(summary)) } }
}

/// The views of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Conversation,
    Window,
    Runs,
}

pub(super) fn tabs(channel: &ChannelId, here: Tab) -> Markup {
    let tabs = [
        (Tab::Conversation, "Conversation", channel_path(channel)),
        (Tab::Window, "Window", window_path(channel)),
        (Tab::Runs, "Runs", runs_path(channel)),
    ];
    html! {
        nav.tabs aria-label="Channel" {
            @for (tab, name, path) in &tabs { a href=(path) aria-current=[(*tab == here).then_some("page")] { (name) } }
        }
    }
}

/// Leads back to a view after a change, so that loading it again does not repeat the change.
pub(super) fn seen_again(view: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, view.to_owned())]).into_response()
}

/// Where a page of a list begins.
#[derive(Deserialize)]
pub(super) struct After {
    pub(super) after: Option<String>,
}

/// The links between the pages of a list.
pub(super) fn pages(here: &str, begins: bool, next: Option<&str>) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if !begins { a href=(here) { "First page" } }
            @if let Some(next) = next { a rel="next" href={ (here) "?after=" (encoded(next)) } { "Next page" } }
        }
    }
}
