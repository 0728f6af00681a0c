//! The daemon, its networks, models, queues, spend and disk, and what is wrong.

use axum::extract::State;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::paint::paint;
use crate::pieces::{command, live};
use crate::servers::server_path;
use crate::visitor::Visitor;

use cairn_api::records::{ServerRecord, StatusRecord};
use cairn_api::show::{Show as _, troubles};
use cairn_api::text::{counted, one_line};
use cairn_server::api::{Shared, daemon, tools};
use cairn_types::tool::mcp::status::ServerStatus;

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
    let has_changed = |status: &ServerStatus| status.drift.as_ref().is_some_and(|drift| !drift.is_clean());
    let statuses = servers.iter().map(|server| &server.status);
    for status in statuses.filter(|status| !status.approved || has_changed(status)) {
        let why = if status.approved { "has changed since it was approved" } else { "is not approved" };
        let server = html! { a href=(server_path(&status.server)) { (one_line(&status.server)) } };
        needs.push(html! { "The tool server " (server) " " (why) });
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_api::records::{Identity, PairingCounts, StoreStatus};
    use serde_json::{Value, json};

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
        let server = |id: &str, approved: bool, drift: Value| -> ServerRecord {
            let record = json!({ "server": id, "state": "running", "approved": approved, "drift": drift, "reason": null,
                "retry_at": null, "failures": 0, "pid": null, "calls": 0, "stderr": [], "version": null, "tools": [],
                "agents": [], "source": { "transport": "http", "url": "http://x", "headers": [] } });
            serde_json::from_value(record).unwrap()
        };
        let servers = [
            server("sound", true, json!({ "server": [], "tools": { "a": { "state": "approved" } } })),
            server("new", false, Value::Null),
            server("other", true, json!({ "server": ["its address is another"], "tools": {} })),
        ];
        let status = StatusRecord { pairings: PairingCounts { waiting: 2, displaced: 0 }, ..stopped };
        let needs: Vec<String> = needs(&status, 1, &servers).into_iter().map(Markup::into_string).collect();
        assert_eq!(
            needs,
            [
                "1 tool call waits for <a href=\"/tools\">approval</a>",
                "2 people and groups ask to be <a href=\"/people\">let in</a>",
                "The tool server <a href=\"/tools/servers/new\">new</a> is not approved",
                "The tool server <a href=\"/tools/servers/other\">other</a> has changed since it was approved",
            ]
        );
    }
}
