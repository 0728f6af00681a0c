//! A compaction run of the past: what started it, what it read, which models it called, what it came to.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::Markup;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::paint::paint;
use crate::pieces::command;
use crate::visitor::Visitor;
use cairn_api::show::Show as _;
use cairn_server::api::{Channel, Shared, explain_run};

/// `GET /channels/{channel}/runs/{run}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, run)): Path<(String, String)>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let told = explain_run::explain(State(Arc::clone(&admin)), Channel(channel.clone(), run)).await?.0;
    let title = format!("Run {}", told.run);
    let command = command(&["explain", &channel.to_string(), "--run", told.run.as_str()]);
    let frame = Frame { title: &title, section: Section::Channels, visitor, command };
    Ok(layout(&frame, &paint(&told.show())))
}
