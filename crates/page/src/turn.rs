//! A turn of the past: what was asked, what the model knew and did, what it took.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::turn_path;
use crate::paint::paint;
use crate::pieces::command;
use crate::visitor::Visitor;
use crate::window::excerpt;
use cairn_api::records::Explanation;
use cairn_api::show::Show as _;
use cairn_server::api::{Channel, Shared, explain};

/// `GET /channels/{channel}/turns/{turn}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, which)): Path<(String, String)>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let told = explain::explain(State(Arc::clone(&admin)), Channel(channel.clone(), which)).await?.0;
    let turn = told.turn.as_str();
    let body = html! { (paint(&told.show())) (neighbours(&told)) };
    // The newest of the messages that it took up is the one that it answers.
    let question = told.question.last().map(|said| format!(": {}", excerpt(&said.text)));
    let title = format!("Turn {turn}{}", question.unwrap_or_default());
    let command = command(&["explain", &channel.to_string(), turn]);
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

fn neighbours(told: &Explanation) -> Markup {
    html! {
        nav.pages aria-label="Turns" {
            @if let Some(before) = &told.before { a rel="prev" href=(turn_path(&told.channel, before)) { "Previous turn" } }
            @if let Some(after) = &told.after { a rel="next" href=(turn_path(&told.channel, after)) { "Next turn" } }
        }
    }
}
