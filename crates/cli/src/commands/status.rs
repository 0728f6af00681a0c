//! `cairn status`: the daemon, its agents, its outbox and its chat networks.

use cairn_types::ports::{CaughtUp, OutboxCounts, PlatformStatus, Shards};
use clap::Args;

use crate::args::Global;
use crate::connect::Connector;
use crate::failure::{Failure, exit};
use crate::out;

use cairn_api::records::{AWAKE_SECS, AgentStatus, CHANGING, NodeStatus, StatusRecord};
use cairn_api::text::{counted, grouped, minute, one_line};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn status
  cairn status --json

The exit code is 1 when no daemon runs.")]
pub struct StatusArgs {}

pub async fn status(global: Global, _args: StatusArgs) -> Result<(), Failure> {
    let status: StatusRecord = Connector::load(&global).await?.get("/v1/status").await?;
    out::record(global.json, &status, |status| lines(status).join("\n") + "\n")?;
    if status.running { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

fn lines(status: &StatusRecord) -> Vec<String> {
    let running = match (status.running, status.pid) {
        (true, pid) => format!("running ({}, process {pid})", status.state),
        (false, _) => "not running; start it with `cairn run`".to_owned(),
    };
    let mut lines = vec![
        format!("daemon    {running}"),
        format!("version   {}", status.version),
        format!("state     {}", status.state_dir),
    ];
    lines.extend(status.store.error.iter().map(|error| format!("trouble   {}", one_line(error))));
    lines.push(format!("config    {}", status.config_file.as_deref().unwrap_or("built-in defaults")));
    lines.extend(status.socket.iter().map(|socket| format!("socket    {socket}")));
    if status.running {
        let (seconds, since) = (grouped(status.uptime_seconds), minute(status.started_at));
        lines.push(format!("up        {seconds} s, since {since}"));
    }
    lines.extend(status.node.iter().flat_map(node_lines));
    lines.extend(copy_line(status));
    lines.extend(index_line(status));
    lines.extend(status.agents.iter().flat_map(agent_lines));
    lines.extend(status.spend.iter().map(|spend| format!("spent     {} today (UTC)", spend.described())));
    lines.extend(channels_line(status));
    lines.extend(outbox_lines(status.outbox));
    lines.extend(status.platforms.iter().flat_map(platform_lines));
    lines
}

/// This node, and the others as far as they are known.
fn node_lines(node: &NodeStatus) -> Vec<String> {
    let role = match (node.leads, &node.leader) {
        (true, _) => "leads".to_owned(),
        (false, Some(leader)) => format!("stands by; {leader} leads"),
        (false, None) => "stands by; no node leads at the moment".to_owned(),
    };
    let others = node.nodes.iter().filter(|row| row.node.name != node.name).map(|row| {
        let seen = if row.silent_secs <= AWAKE_SECS {
            String::new()
        } else {
            format!(", silent for {} s", grouped(row.silent_secs))
        };
        format!(
            "            {} at {}: record {}{seen}",
            one_line(&row.node.name),
            one_line(&row.node.address),
            grouped(row.n)
        )
    });
    [format!("node      {} {role}", one_line(&node.name))].into_iter().chain(others).collect()
}

/// How far a node's copy is that stands by.
fn copy_line(status: &StatusRecord) -> Option<String> {
    let (applied, last) = (status.store.applied, status.store.last);
    status.node.as_ref().filter(|node| status.running && !node.leads && last > 0)?;
    let behind = match last.saturating_sub(applied) {
        0 => "nothing behind".to_owned(),
        n => format!("{} behind", counted(n, "record", "records")),
    };
    Some(format!("copy      record {} of {}, {behind}", grouped(applied), grouped(last)))
}

/// How far a search index is that is being built; it is always a few records behind.
fn index_line(status: &StatusRecord) -> Option<String> {
    const FEW: u64 = 1_000;
    let (indexed, last) = (status.store.indexed, status.store.last);
    let is_open = status.running && status.node.as_ref().is_none_or(|node| node.leads);
    let is_behind = is_open && last.saturating_sub(indexed) > FEW;
    is_behind.then(|| {
        format!("search    the index is being built: record {} of {}", grouped(indexed), grouped(last))
    })
}

/// On a node that stands by nothing is awake; between two roles nothing is known.
fn channels_line(status: &StatusRecord) -> Option<String> {
    let channels = grouped(status.channels);
    match &status.node {
        _ if status.state == CHANGING => None,
        Some(node) if status.running && !node.leads => Some(format!("channels  {channels}")),
        _ => Some(format!("channels  {channels}, {} awake", grouped(status.awake))),
    }
}

/// An agent, and below it the models of its chain in the order in which they are tried.
fn agent_lines(agent: &AgentStatus) -> Vec<String> {
    let head = format!("agent     {} ({}, {} tokens)", agent.id, agent.model, grouped(agent.window_tokens));
    let chain = agent.chain.iter().map(|one| {
        let (window, origin) = (grouped(one.window_tokens), one.window_source.origin());
        format!(
            "            {}: window {window} tokens ({origin}), {}",
            one.model,
            one_line(&one.described())
        )
    });
    [head].into_iter().chain(chain).collect()
}

/// The outbox in `cairn status`; nothing, when nothing is in it.
fn outbox_lines(counts: OutboxCounts) -> Vec<String> {
    let counted = [(counts.unknown, "unknown"), (counts.dead, "dead"), (counts.owed, "owed")];
    let some: Vec<String> =
        counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
    if some.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("outbox    {}", some.join(", "))];
    if counts.unknown + counts.dead > 0 {
        lines.push(
            "          > `cairn outbox list` shows them, `retry ID` and `drop ID` settle them".to_owned(),
        );
    }
    lines
}

/// Problems that are shown; `--json` has all.
const TROUBLES_SHOWN: usize = 5;

/// A platform in a few lines: its state, then what is wrong and what to do.
fn platform_lines(status: &PlatformStatus) -> Vec<String> {
    let mut head = vec![status.state.name().to_owned()];
    head.extend(status.shards.as_ref().map(Shards::described));
    head.extend(status.name.as_deref().map(|name| format!("as {}", one_line(name))));
    head.extend(status.connected_since.map(|at| format!("since {}", minute(at))));
    head.extend(status.latency_ms.map(|ms| format!("{ms} ms")));
    let moment = |at: Option<jiff::Timestamp>| at.map_or_else(|| "never".to_owned(), minute);
    let mut lines = vec![
        format!("{:<9} {}", status.platform, head.join(", ")),
        format!(
            "          last in {}, last out {}, {} waiting",
            moment(status.last_inbound),
            moment(status.last_outbound),
            counted(status.queue, "event", "events")
        ),
    ];
    lines.extend(status.caught_up.as_ref().map(caught_up_line));
    let refused = status.invalid_requests.filter(|n| *n > 0);
    lines.extend(
        refused.map(|n| {
            format!("          {} of the last ten minutes refused", counted(n, "request", "requests"))
        }),
    );
    lines.extend(status.reason.iter().map(|reason| format!("          ! {}", one_line(reason))));
    lines.extend(status.hint.iter().map(|hint| format!("          > {}", one_line(hint))));
    let troubles = status.troubles.iter().take(TROUBLES_SHOWN);
    lines.extend(troubles.map(|trouble| format!("          ! {}", one_line(trouble))));
    let more = status.troubles.len().saturating_sub(TROUBLES_SHOWN);
    if more > 0 {
        lines.push(format!("          and {more} more; --json shows all"));
    }
    lines
}

/// What was done about what was said while the bot was away.
fn caught_up_line(done: &CaughtUp) -> String {
    let messages = counted(done.messages, "message", "messages");
    let mut line = format!("          caught up {}: {messages}", minute(done.at));
    if done.deleted > 0 {
        line.push_str(&format!(", {} deleted", grouped(done.deleted)));
    }
    line.push_str(&format!("; {} read, {} quiet", counted(done.read, "chat", "chats"), grouped(done.quiet)));
    if done.unread > 0 {
        line.push_str(&format!(", {} unreadable", grouped(done.unread)));
    }
    line
}

#[cfg(test)]
mod tests {
    use cairn_types::ports::LinkState;

    use super::*;
    use cairn_api::records::{Identity, StoreStatus};

    #[test]
    fn a_node_that_stands_by_tells_what_its_copy_has_and_nothing_that_it_cannot_know() {
        let identity = Identity {
            state_dir: "/s".into(),
            config_file: None,
            socket: None,
            started_at: "2026-11-23T08:00:00Z".parse().unwrap(),
        };
        let store = StoreStatus { last: 1234, applied: 1200, ..StoreStatus::unknown(None) };
        let node = |leads| NodeStatus { name: "a".to_owned(), leads, leader: None, nodes: Vec::new() };
        let status = StatusRecord {
            running: true,
            channels: 232,
            node: Some(node(false)),
            ..StatusRecord::of_stopped(&identity, Vec::new(), store)
        };
        let told = lines(&status).join("\n");
        assert!(told.contains("copy      record 1,200 of 1,234, 34 records behind"), "{told}");
        assert!(told.contains("\nchannels  232") && !told.contains("awake"), "{told}");
        let told = lines(&StatusRecord { node: Some(node(true)), ..status.clone() }).join("\n");
        assert!(told.contains("channels  232, 0 awake") && !told.contains("copy"), "{told}");
        assert!(told.contains("search    the index is being built: record 0 of 1,234"), "{told}");
        let store = StoreStatus { indexed: 1200, ..status.store.clone() };
        let told = lines(&StatusRecord { node: Some(node(true)), store, ..status.clone() }).join("\n");
        assert!(!told.contains("search"), "{told}");
        let changing = StatusRecord { node: None, state: CHANGING.to_owned(), ..status };
        assert!(!lines(&changing).join("\n").contains("channels"));
    }

    #[test]
    fn the_status_tells_what_was_not_delivered_and_where_to_look() {
        let lines = |unknown, dead, owed| outbox_lines(OutboxCounts { owed, dead, unknown }).join("\n");
        assert_eq!(lines(0, 0, 0), "");
        assert_eq!(lines(0, 0, 3), "outbox    3 owed");
        let hint = "\n          > `cairn outbox list` shows them, `retry ID` and `drop ID` settle them";
        assert_eq!(lines(2, 1, 3), format!("outbox    2 unknown, 1 dead, 3 owed{hint}"));
        assert_eq!(lines(0, 1, 0), format!("outbox    1 dead{hint}"));
    }

    #[test]
    fn the_shards_that_are_not_up_are_named() {
        let shards = |total, down: &[u32]| Shards { total, down: down.to_vec() }.described();
        assert_eq!(shards(4, &[]), "4 of 4 shards");
        assert_eq!(shards(4, &[2]), "3 of 4 shards, not 2");
        let most: Vec<u32> = (6..16).collect();
        assert_eq!(shards(16, &most), "6 of 16 shards, not 6 7 8 9 10 11 12 13 and 2 more");
    }

    #[test]
    fn a_failed_platform_says_why_and_what_to_do() {
        let at = "2026-11-23T08:00:00Z".parse().unwrap();
        let status = PlatformStatus {
            platform: "telegram".to_owned(),
            state: LinkState::Failed,
            name: Some("harbour_bot".to_owned()),
            reason: Some("401: the token is wrong".to_owned()),
            hint: Some("copy it again from @BotFather".to_owned()),
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            shards: None,
            troubles: vec!["chat -5: may not write".to_owned()],
            caught_up: Some(CaughtUp { at, read: 3, quiet: 1200, unread: 1, messages: 12, deleted: 2 }),
            invalid_requests: Some(40),
        };
        let text = platform_lines(&status).join("\n");
        assert_eq!(
            text,
            "telegram  failed, as harbour_bot\n          last in never, last out never, 0 events waiting\n          \
             caught up 2026-11-23 08:00: 12 messages, 2 deleted; 3 chats read, 1,200 quiet, 1 unreadable\n          \
             40 requests of the last ten minutes refused\n          ! 401: the token is wrong\n          > copy it again from @BotFather\n          ! chat -5: may not write"
        );
    }
}
