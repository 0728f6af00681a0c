//! The daemon, its networks, models, queues, spend and disk, and what is wrong.

use axum::extract::State;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::paint::paint;
use crate::pieces::{command, live};
use crate::visitor::Visitor;

use cairn_api::records::{ServerRecord, StatusRecord};
use cairn_api::show::{Show as _, troubles};
use cairn_api::text::{counted, one_line};
use cairn_server::api::{Shared, daemon, tools};

/// `GET /`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let approvals = tools::approvals(State(Shared::clone(&admin))).await.0.len() as u64;
    let servers = tools::servers(State(Shared::clone(&admin))).await.0;
    let status = daemon::status(State(admin)).await?.0;
    let troubles = troubles(&status);
    let needs = needs(&status, approvals, &servers);
    let parts = html! {
        @if !troubles.is_empty() {
            ul.troubles aria-label="Problems" { @for trouble in &troubles { li { (one_line(trouble)) } } }
        }
        @if !needs.is_empty() {
            ul.needs aria-label="Waiting for a decision" { @for need in &needs { li { (need) } } }
        }
        @if troubles.is_empty() { p.well { @if needs.is_empty() { "All is well." } @else { "Nothing is wrong." } } }
        (paint(&status.show()))
        @if status.platforms.is_empty() { p.note { "No chat network is configured: there are only local channels." } }
    };
    let command = command(&["status"]);
    let frame = Frame { title: "Status", section: Section::Status, visitor, command };
    Ok(layout(&frame, &live("status", &parts)))
}

/// What waits until somebody decides, each with where that is done.
fn needs(status: &StatusRecord, approvals: u64, servers: &[ServerRecord]) -> Vec<Markup> {
    let mut needs = Vec::new();
    if approvals > 0 {
        let calls = counted(approvals, "tool call waits", "tool calls wait");
        needs.push(html! { (calls) " for " a href="/tools" { "approval" } });
    }
    if status.pairings.waiting > 0 {
        let people = counted(status.pairings.waiting, "person or group asks", "people and groups ask");
        needs.push(html! { (people) " to be " a href="/people" { "let in" } });
    }
    let unapproved = servers.iter().filter(|server| !server.status.approved || server.status.drift.is_some());
    for ServerRecord { status, .. } in unapproved {
        let why = if status.approved { "has changed since it was approved" } else { "is not approved" };
        let command = command(&["mcp", "approve", &status.server]);
        needs.push(html! { "The tool server " (one_line(&status.server)) " " (why) ": " code { (command) } });
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_api::records::{Identity, PairingCounts, StoreStatus};

    #[test]
    fn what_waits_for_somebody_leads_to_where_it_is_decided() {
        let identity = Identity {
            state_dir: "/s".into(),
            config_file: None,
            socket: None,
            started_at: "2026-11-23T08:00:00Z".parse().unwrap(),
        };
        let stopped = StatusRecord::of_stopped(&identity, Vec::new(), StoreStatus::unknown(None));
        assert!(needs(&stopped, 0, &[]).is_empty());
        let status = StatusRecord { pairings: PairingCounts { waiting: 2, displaced: 0 }, ..stopped };
        let needs: Vec<String> = needs(&status, 1, &[]).into_iter().map(Markup::into_string).collect();
        assert_eq!(
            needs,
            [
                "1 tool call waits for <a href=\"/tools\">approval</a>",
                "2 people and groups ask to be <a href=\"/people\">let in</a>",
            ]
        );
    }
}
