//! The daemon, its networks, models, queues, spend and disk, and what is wrong.

use axum::extract::State;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::paint::paint;
use crate::pieces::{command, live};
use crate::visitor::Visitor;

use cairn_api::show::{Show as _, troubles};
use cairn_api::text::one_line;
use cairn_server::api::{Shared, daemon};

/// `GET /`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let status = daemon::status(State(admin)).await?.0;
    let troubles = troubles(&status);
    let parts = html! {
        @if troubles.is_empty() { p.well { "All is well." } }
        @else { ul.troubles aria-label="What is wrong" { @for trouble in &troubles { li { (one_line(trouble)) } } } }
        (paint(&status.show()))
        @if status.platforms.is_empty() { p.note { "No chat network is configured: there are local channels only." } }
    };
    let command = command(&["status"]);
    let frame = Frame { title: "Status", section: Section::Status, visitor, command };
    Ok(layout(&frame, &live("status", &parts)))
}
