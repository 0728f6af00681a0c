//! Is it well: the daemon, its networks, models, queues, spend and disk.

use axum::extract::State;
use cairn_core::chain::ModelState;
use cairn_types::ports::{LinkState, OutboxCounts, PlatformStatus};
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::pieces::{command, facts, live, table, text, time};
use crate::visitor::Visitor;

use cairn_api::records::{AgentStatus, StatusRecord};
use cairn_api::text::{bytes, counted, grouped, one_line};
use cairn_server::api::{Shared, daemon};

/// `GET /`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let status = daemon::status(State(admin)).await?.0;
    let troubles = troubles(&status);
    let parts = html! {
        @if troubles.is_empty() { p.well { "All is well." } }
        @else { ul.troubles aria-label="What is wrong" { @for trouble in &troubles { li { (one_line(trouble)) } } } }
        section aria-labelledby="daemon" { h2 #daemon { "Daemon" } (self::facts_of(&status)) }
        section aria-labelledby="models" { h2 #models { "Models, in the order in which they are tried" } (models(&status.agents)) }
        section aria-labelledby="networks" { h2 #networks { "Chat networks" } (networks(&status.platforms)) }
    };
    let command = command(&["status"]);
    let frame = Frame { title: "Is it well", section: Section::Overview, visitor, command };
    Ok(layout(&frame, &live("status", &parts)))
}

/// What somebody should look at, worst first.
fn troubles(status: &StatusRecord) -> Vec<String> {
    let mut troubles: Vec<String> =
        status.store.error.iter().map(|error| format!("Store: {error}")).collect();
    if status.state != "ready" {
        troubles.push(format!("The daemon is {}.", status.state));
    }
    for agent in &status.agents {
        let is_unwell = |state| matches!(state, ModelState::Cooling | ModelState::Down);
        let unwell = agent.chain.iter().filter(|one| is_unwell(one.state));
        troubles
            .extend(unwell.map(|one| format!("Model {} of {}: {}", one.model, agent.id, one.described())));
    }
    for platform in &status.platforms {
        let words = [platform.reason.as_deref(), platform.hint.as_deref()].into_iter().flatten();
        let words = words.map(|words| format!(". {words}")).collect::<String>();
        if platform.state != LinkState::Connected {
            troubles.push(format!("{}: {}{words}", platform.platform, platform.state.name()));
        }
        troubles.extend(platform.troubles.iter().map(|trouble| format!("{}: {trouble}", platform.platform)));
    }
    let OutboxCounts { owed: _, dead, unknown } = status.outbox;
    if dead + unknown > 0 {
        let lost = counted(dead + unknown, "message was", "messages were");
        troubles.push(format!("{lost} not delivered: `cairn outbox list` shows them"));
    }
    troubles
}

fn facts_of(status: &StatusRecord) -> Markup {
    let outbox = status.outbox;
    let (journal, views) = (bytes(status.store.journal_bytes), bytes(status.store.views_bytes));
    let behind = status.store.last.saturating_sub(status.store.indexed);
    let mut rows = vec![
        ("state", text(&status.state)),
        ("since", time(status.started_at)),
        ("version", text(&status.version)),
        ("channels", text(format!("{}, {} awake", grouped(status.channels), grouped(status.awake)))),
        (
            "under way",
            text(format!(
                "{}, {}",
                counted(status.turns, "turn", "turns"),
                counted(status.runs, "run", "runs")
            )),
        ),
        (
            "outbox",
            text(format!(
                "{} owed, {} unknown, {} dead",
                grouped(outbox.owed),
                grouped(outbox.unknown),
                grouped(outbox.dead)
            )),
        ),
        ("actors restarted", text(grouped(status.restarts))),
        (
            "disk",
            text(format!(
                "journal {journal} in {}, databases {views}",
                counted(status.store.segments, "file", "files")
            )),
        ),
        ("waits for the index", text(counted(behind, "record", "records"))),
        ("state folder", text(&status.state_dir)),
        ("configuration", text(status.config_file.as_deref().unwrap_or("built-in defaults"))),
    ];
    if let Some(spend) = &status.spend {
        rows.insert(5, ("spent today (UTC)", text(spend.described())));
    }
    if let Some(last) = status.last_at {
        rows.insert(4, ("last message", time(last)));
    }
    facts(&rows)
}

fn models(agents: &[AgentStatus]) -> Markup {
    let rows: Vec<_> = agents
        .iter()
        .flat_map(|agent| agent.chain.iter().map(move |one| (agent, one)))
        .map(|(agent, one)| {
            vec![
                text(&agent.id),
                text(&one.model),
                text(one.described()),
                text(grouped(one.window_tokens)),
                text(one.window_source.origin()),
            ]
        })
        .collect();
    let columns =
        [("agent", ""), ("model", ""), ("state", ""), ("window", "number"), ("its size is from", "wide")];
    table("Models of each agent", &columns, &rows)
}

fn state_of(platform: &PlatformStatus) -> String {
    let shards = platform.shards.as_ref().map(|shards| format!(", {}", shards.described()));
    platform.state.name().to_owned() + &shards.unwrap_or_default()
}

fn networks(platforms: &[PlatformStatus]) -> Markup {
    if platforms.is_empty() {
        return html! { p { "None is configured: there are local channels only." } };
    }
    let moment = |at: Option<jiff::Timestamp>| at.map_or_else(|| text("never"), time);
    let rows: Vec<_> = platforms
        .iter()
        .map(|platform| {
            vec![
                text(&platform.platform),
                text(state_of(platform)),
                text(platform.name.as_deref().unwrap_or("-")),
                text(grouped(platform.queue)),
                text(platform.latency_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"))),
                moment(platform.last_inbound),
                moment(platform.last_outbound),
            ]
        })
        .collect();
    let columns = [
        ("network", ""),
        ("state", ""),
        ("bot", ""),
        ("waiting", "number"),
        ("round trip", "number"),
        ("last in", "wide"),
        ("last out", "wide"),
    ];
    table("Chat networks", &columns, &rows)
}
