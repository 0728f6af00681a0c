//! Pieces of several views: links between them, JSON, and the answer to a change.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use cairn_types::ids::{ChannelId, Seq, SummaryId, TurnId};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::channel::summary_path;
use crate::layout::{channel_path, encoded, text};
use crate::turn::turn_path;
use cairn_api::text::plain;

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

pub(super) fn turn_link(channel: &ChannelId, turn: &TurnId) -> Markup {
    html! { a href=(turn_path(channel, turn)) { "turn " (text(turn)) } }
}

pub(super) fn summary_link(channel: &ChannelId, summary: &SummaryId) -> Markup {
    html! { a href=(summary_path(channel, summary.as_str())) { (text(summary)) } }
}

/// The turns of a channel around an entry.
pub(super) fn turns_path(channel: &ChannelId, seq: Seq) -> String {
    format!("{}?at={seq}#turns", channel_path(channel))
}

/// JSON as it is read, with what is hidden escaped.
pub(super) fn json(value: &Value) -> Markup {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre.said tabindex="0" { (plain(&pretty)) } }
}
