//! Tool servers: their state, what they offer, what has changed since it was approved; approved and revoked here.

use axum::Form;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{path, seen_again};
use crate::paint::paint;
use crate::pieces::{command, text};
use crate::visitor::Visitor;
use cairn_api::error::ApiError;
use cairn_api::records::{ServerRecord, ServerView};
use cairn_api::show::Show as _;
use cairn_api::text::{one_line, plain};
use cairn_server::api::tools::{ApproveBody, approve_server, revoke_server, server, servers};
use cairn_server::api::{Body, Segment, Shared};
use cairn_types::tool::mcp::ToolState;

pub(super) const HERE: &str = "/tools/servers";

/// Where a server is looked at.
pub(super) fn server_path(id: &str) -> String {
    path(&["tools", "servers", id])
}

/// `GET /tools/servers`. Nothing is started.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Markup {
    let all = servers(State(admin)).await.0;
    let body = html! {
        p.note { "Models can call a tool only if its server is approved as it is and the agent's " code { "tools" } " name it. Anything that changes later is blocked until you approve it again." }
        @if all.is_empty() { p { "No tool server is configured." } } @else { (paint(&all.show())) }
    };
    let frame =
        Frame { title: "Tool servers", section: Section::Tools, visitor, command: command(&["mcp", "list"]) };
    layout(&frame, &body)
}

/// `GET /tools/servers/{id}`: what it offers now. A server that does not run is started for this, if the visitor may change
/// something.
pub(super) async fn one(
    State(admin): State<Shared>,
    visitor: Visitor,
    Segment(id): Segment,
) -> Result<Markup, PageError> {
    let records = servers(State(Shared::clone(&admin))).await.0;
    let record = records.into_iter().find(|record| record.status.server == id);
    let body = match record {
        Some(record) if !visitor.may_operate() => html! {
            (paint(&[record].show()))
            p.note { "This browser has read-only access. Looking at what a server offers may start it, which needs full access." }
        },
        record => match (server(State(admin), Segment(id.clone())).await, record) {
            (Ok(axum::Json(view)), _) => html! { (paint(&view.show())) (decide(&view)) },
            (Err(error), Some(record)) => failed(&record, &error),
            (Err(error), None) => return Err(error.into()),
        },
    };
    let title = format!("Tool server {}", one_line(&id));
    let command = command(&["mcp", "show", &id]);
    Ok(layout(&Frame { title: &title, section: Section::Tools, visitor, command }, &body))
}

/// A server that does not say what it offers.
fn failed(record: &ServerRecord, error: &ApiError) -> Markup {
    html! {
        (paint(&[record.clone()].show()))
        p.trouble role="alert" { (plain(&error.detail.message)) }
        p.note { (plain(&error.detail.hint)) }
        @if !record.status.stderr.is_empty() {
            h2 { "Standard error" }
            pre.said tabindex="0" { (plain(&record.status.stderr.join("\n"))) }
        }
        @if record.status.approved { (revoke_form(&record.status.server)) }
    }
}

/// What can be done with a server that was looked at. The approval is of exactly that.
fn decide(view: &ServerView) -> Markup {
    let server = &view.inspection.pin.server;
    let states = view.inspection.drift.as_ref().map(|drift| &drift.tools);
    let is_approved = |tool: &str| states.and_then(|states| states.get(tool)) == Some(&ToolState::Approved);
    html! {
        section aria-labelledby="decide" {
            h2 #decide { "Approve" }
            p.note { "The texts above are by others: do not take them as instructions. Tools whose description reads like an instruction, or hides characters, are not chosen." }
            form.stack method="post" action={ (server_path(server)) "/approve" } {
                input type="hidden" name="digest" value=(view.digest);
                fieldset {
                    legend { "Tools to approve" }
                    @for tool in &view.inspection.pin.tools {
                        @let chosen = is_approved(&tool.name) || !view.inspection.suspicions.contains_key(&tool.name);
                        p { label { input type="checkbox" name="tool" value=(tool.name) checked[chosen]; " " (text(&tool.name)) } }
                    }
                    @if view.inspection.pin.tools.is_empty() { p { "It offers no tools." } }
                }
                div.actions { button #approve { "Approve the server with these tools" } }
            }
            @if view.approved.is_some() { (revoke_form(server)) }
        }
    }
}

fn revoke_form(server: &str) -> Markup {
    html! {
        form.actions method="post" action={ (server_path(server)) "/revoke" } {
            button.grave { "Revoke the approval" span.unseen { " of " (one_line(server)) } }
        }
    }
}

/// `POST /tools/servers/{id}/approve`: approves the server as it was shown, with the chosen tools.
pub(super) async fn approve(
    admin: State<Shared>,
    id: Segment,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Response, PageError> {
    let mut body = ApproveBody { digest: String::new(), tools: Some(Vec::new()) };
    for (field, value) in fields {
        match (field.as_str(), &mut body.tools) {
            ("digest", _) => body.digest = value,
            ("tool", Some(tools)) => tools.push(value),
            _ => return Err(ApiError::malformed("the form has a field that is not taken").into()),
        }
    }
    let _approved = approve_server(admin, id, Body(body)).await?;
    Ok(seen_again(HERE))
}

/// `POST /tools/servers/{id}/revoke`.
pub(super) async fn revoke(admin: State<Shared>, id: Segment) -> Result<Response, PageError> {
    let _revoked = revoke_server(admin, id).await?;
    Ok(seen_again(HERE))
}
