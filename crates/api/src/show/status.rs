//! The daemon as a whole: what it does, its models, its chat networks, and what is wrong.

use cairn_core::chain::ModelState;
use cairn_types::ports::{CaughtUp, LinkState, OutboxCounts, PlatformStatus, Shards};
use jiff::Timestamp;

use super::{Block, Cell, Column, Show, bad, or_dash, section, time, words};
use crate::records::{AWAKE_SECS, AgentStatus, CHANGING, NodeStatus, StatusRecord};
use crate::text::{bytes, counted, grouped};

/// Problems of a network that are shown.
const TROUBLES: usize = 5;

/// Records that a search index may be behind without being told.
const FEW: u64 = 1_000;

impl Show for StatusRecord {
    fn show(&self) -> Vec<Block> {
        let store = &self.store;
        let daemon = match self.running {
            true => format!("running ({}, process {})", self.state, self.pid),
            false => "not running; start it with `cairn run`".to_owned(),
        };
        let mut facts = vec![("daemon", words(daemon)), ("version", words(&self.version))];
        if self.running {
            facts.push(("running since", time(self.started_at)));
        }
        facts.extend(self.node.iter().flat_map(node));
        // A node that stands by has nothing awake; between two roles nothing is known.
        let leads = self.node.as_ref().is_none_or(|node| node.leads);
        if self.running && !leads && store.last > 0 {
            let behind = counted(store.last.saturating_sub(store.applied), "record", "records");
            let (applied, last) = (grouped(store.applied), grouped(store.last));
            facts.push(("copy", words(format!("record {applied} of {last}, {behind} behind"))));
        }
        if self.running && leads && store.last.saturating_sub(store.indexed) > FEW {
            let (indexed, last) = (grouped(store.indexed), grouped(store.last));
            facts.push(("search index", words(format!("is being built: record {indexed} of {last}"))));
        }
        facts.extend(store.embedded.as_ref().map(|of| {
            let entries = counted(of.entries, "entry", "entries");
            (
                "embeddings",
                words(format!("{entries}, up to record {} of {}, by {}", of.upto, store.last, of.model)),
            )
        }));
        if self.state != CHANGING {
            let awake = if leads || !self.running {
                format!(", {} awake", grouped(self.awake))
            } else {
                String::new()
            };
            facts.push(("channels", words(format!("{}{awake}", grouped(self.channels)))));
        }
        facts.extend(self.last_at.map(|last| ("last message", time(last))));
        if self.running && leads {
            let (turns, runs) = (counted(self.turns, "turn", "turns"), counted(self.runs, "run", "runs"));
            facts.push(("under way", words(format!("{turns}, {runs}"))));
            facts.push(("actors restarted", words(grouped(self.restarts))));
        }
        // Without a daemon that leads, nobody has counted it.
        if (self.running && leads) || self.outbox != OutboxCounts::default() {
            facts.push(("outbox", words(outbox(self.outbox))));
        }
        facts.extend(self.spend.as_ref().map(|spend| ("spent today (UTC)", words(spend.described()))));
        let (journal, views) = (bytes(store.journal_bytes), bytes(store.views_bytes));
        let files = counted(store.segments, "file", "files");
        facts.extend([
            ("disk", words(format!("journal {journal} in {files}, databases {views}"))),
            ("state folder", words(&self.state_dir)),
            ("configuration", words(self.config_file.as_deref().unwrap_or("built-in defaults"))),
        ]);
        facts.extend(self.socket.iter().map(|socket| ("socket", words(socket))));
        let mut blocks = vec![Block::Facts(facts)];
        blocks.extend(models(&self.agents));
        blocks.extend(networks(&self.platforms));
        blocks
    }
}

/// What somebody should look at, worst first.
pub fn troubles(status: &StatusRecord) -> Vec<String> {
    let mut troubles: Vec<String> =
        status.store.error.iter().map(|error| format!("Store: {error}")).collect();
    if status.state != "ready" && status.running {
        troubles.push(format!("The daemon is {}.", status.state));
    }
    for agent in &status.agents {
        let is_unwell = |state| matches!(state, ModelState::Cooling | ModelState::Down);
        let unwell = agent.chain.iter().filter(|one| is_unwell(one.state));
        troubles
            .extend(unwell.map(|one| format!("Model {} of {}: {}", one.model, agent.id, one.described())));
    }
    status.platforms.iter().for_each(|platform| troubles.extend(troubles_of(platform)));
    if status.pairings.displaced > 0 {
        let lost = counted(status.pairings.displaced, "request", "requests");
        troubles.push(format!(
            "Too many strangers wait for approval: {lost} lost the place to newer ones. `cairn pair list` shows who waits, \
             `cairn ban` stops a flood"
        ));
    }
    if let Some(spend) =
        status.spend.as_ref().filter(|spend| spend.per_day.is_some_and(|cap| spend.today >= cap))
    {
        let spent = spend.described();
        troubles.push(format!(
            "The cap of the day is reached ({spent}): models are asked again after midnight UTC"
        ));
    }
    let OutboxCounts { owed: _, dead, unknown } = status.outbox;
    if dead + unknown > 0 {
        let lost = counted(dead + unknown, "message was", "messages were");
        troubles.push(format!(
            "{lost} not delivered: `cairn outbox list` shows them, `retry ID` and `drop ID` settle them"
        ));
    }
    troubles
}

fn troubles_of(platform: &PlatformStatus) -> Vec<String> {
    let words: Vec<&str> =
        [&platform.reason, &platform.hint].into_iter().filter_map(Option::as_deref).collect();
    let mut troubles = Vec::new();
    if platform.state != LinkState::Connected {
        let words: String = words.iter().map(|words| format!(". {words}")).collect();
        troubles.push(format!("{}: {}{words}", platform.platform, platform.state.name()));
    } else if !words.is_empty() {
        troubles.push(format!("{}: {}", platform.platform, words.join(". ")));
    }
    let some = platform.troubles.iter().take(TROUBLES);
    troubles.extend(some.map(|trouble| format!("{}: {trouble}", platform.platform)));
    let more = platform.troubles.len().saturating_sub(TROUBLES);
    if more > 0 {
        troubles.push(format!("{}: and {more} more; `cairn status --json` has all", platform.platform));
    }
    troubles
}

/// This node, and the others as far as they are known.
fn node(node: &NodeStatus) -> Vec<(&'static str, Cell)> {
    let role = match (node.leads, &node.leader) {
        (true, _) => "leads".to_owned(),
        (false, Some(leader)) => format!("stands by; {leader} leads"),
        (false, None) => "stands by; no node leads at the moment".to_owned(),
    };
    let others = node.nodes.iter().filter(|row| row.node.name != node.name).map(|row| {
        let seen = match row.silent_secs {
            0..=AWAKE_SECS => String::new(),
            secs => format!(", silent for {} s", grouped(secs)),
        };
        let (name, address, n) = (&row.node.name, &row.node.address, grouped(row.n));
        ("other node", words(format!("{name} at {address}: record {n}{seen}")))
    });
    [("node", words(format!("{} {role}", node.name)))].into_iter().chain(others).collect()
}

fn outbox(counts: OutboxCounts) -> String {
    let all = [(counts.unknown, "unknown"), (counts.dead, "dead"), (counts.owed, "owed")];
    let some: Vec<String> =
        all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
    if some.is_empty() { "empty".to_owned() } else { some.join(", ") }
}

fn models(agents: &[AgentStatus]) -> Vec<Block> {
    let columns = [
        Column::narrow("agent"),
        Column::narrow("model"),
        Column::narrow("window").right(),
        Column::wide("its size is"),
        Column::narrow("state"),
    ];
    let chains = agents.iter().flat_map(|agent| agent.chain.iter().map(move |one| (agent, one)));
    let rows = chains.map(|(agent, one)| {
        let state = one.described();
        [
            words(&agent.id),
            words(&one.model),
            words(grouped(one.window_tokens)),
            words(one.window_source.origin()),
            if matches!(one.state, ModelState::Cooling | ModelState::Down) {
                bad(state)
            } else {
                words(state)
            },
        ]
    });
    section("Models", "The models of each agent, in the order in which they are tried", columns, rows)
}

fn networks(platforms: &[PlatformStatus]) -> Vec<Block> {
    let columns = [
        Column::narrow("network"),
        Column::wide("bot"),
        Column::narrow("waiting").right(),
        Column::wide("round trip").right(),
        Column::wide("since"),
        Column::wide("last in"),
        Column::wide("last out"),
        Column::narrow("state"),
    ];
    let moment = |at: Option<Timestamp>| at.map_or_else(|| words("never"), time);
    let row = |platform: &PlatformStatus| {
        [
            words(&platform.platform),
            or_dash(platform.name.as_deref()),
            words(grouped(platform.queue)),
            or_dash(platform.latency_ms.map(|ms| format!("{ms} ms"))),
            platform.connected_since.map_or_else(|| words("-"), time),
            moment(platform.last_inbound),
            moment(platform.last_outbound),
            link_state(platform),
        ]
    };
    section("Chat networks", "Chat networks", columns, platforms.iter().map(row))
}

fn link_state(platform: &PlatformStatus) -> Cell {
    let name = platform.state.name();
    let mut cell = match (platform.state, platform.troubles.len()) {
        (LinkState::Connected, 0) => words(name),
        (LinkState::Connected, n) => bad(format!("{name}, {}", counted(n as u64, "trouble", "troubles"))),
        _ => bad(name),
    };
    cell.extend(platform.shards.iter().flat_map(|shards| words(format!(", {}", Shards::described(shards)))));
    cell.extend(platform.caught_up.iter().flat_map(caught_up));
    if let Some(refused) = platform.invalid_requests.filter(|n| *n > 0) {
        let requests = counted(refused, "request", "requests");
        cell.extend(words(format!("; {requests} of the last ten minutes refused")));
    }
    cell
}

/// What was done about what was said while the bot was away.
fn caught_up(done: &CaughtUp) -> Cell {
    let mut cell = words("; caught up ");
    cell.extend(time(done.at));
    cell.extend(words(format!(": {}", counted(done.messages, "message", "messages"))));
    if done.deleted > 0 {
        cell.extend(words(format!(", {} deleted", grouped(done.deleted))));
    }
    let read = counted(done.read, "chat", "chats");
    cell.extend(words(format!("; {read} read, {} quiet", grouped(done.quiet))));
    if done.unread > 0 {
        cell.extend(words(format!(", {} unreadable", grouped(done.unread))));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Identity, PairingCounts, SpendStatus, StoreStatus};

    fn stopped(store: StoreStatus) -> StatusRecord {
        let identity = Identity {
            state_dir: "/s".into(),
            config_file: None,
            socket: None,
            started_at: "2026-11-23T08:00:00Z".parse().unwrap(),
        };
        StatusRecord::of_stopped(&identity, Vec::new(), store)
    }

    fn told(status: &StatusRecord) -> String {
        format!("{:?}", status.show())
    }

    #[test]
    fn a_node_that_stands_by_tells_what_its_copy_has_and_nothing_that_it_cannot_know() {
        let store = StoreStatus { last: 1234, applied: 1200, ..StoreStatus::unknown(None) };
        let node = |leads| NodeStatus { name: "a".to_owned(), leads, leader: None, nodes: Vec::new() };
        let status = StatusRecord { running: true, channels: 232, node: Some(node(false)), ..stopped(store) };
        let text = told(&status);
        assert!(text.contains("record 1,200 of 1,234, 34 records behind"), "{text}");
        assert!(text.contains("\"232\"") && !text.contains("awake") && !text.contains("under way"), "{text}");
        let text = told(&StatusRecord { node: Some(node(true)), ..status.clone() });
        assert!(text.contains("232, 0 awake") && !text.contains("copy"), "{text}");
        assert!(text.contains("is being built: record 0 of 1,234"), "{text}");
        let store = StoreStatus { indexed: 1200, ..status.store.clone() };
        let text = told(&StatusRecord { node: Some(node(true)), store, ..status.clone() });
        assert!(!text.contains("search index"), "{text}");
        let changing = StatusRecord { node: None, state: CHANGING.to_owned(), ..status };
        assert!(!told(&changing).contains("channels"));
    }

    #[test]
    fn the_status_tells_what_was_not_delivered_and_where_to_look() {
        let of = |unknown, dead, owed| {
            let counts = OutboxCounts { owed, dead, unknown };
            let status = StatusRecord { outbox: counts, ..stopped(StoreStatus::unknown(None)) };
            (outbox(counts), troubles(&status).concat())
        };
        assert_eq!(of(0, 0, 0), ("empty".to_owned(), String::new()));
        assert_eq!(of(0, 0, 3), ("3 owed".to_owned(), String::new()));
        let (counts, told) = of(2, 1, 3);
        assert_eq!(counts, "2 unknown, 1 dead, 3 owed");
        assert!(told.starts_with("3 messages were not delivered: `cairn outbox list`"), "{told}");
    }

    #[test]
    fn a_cap_that_is_reached_is_told() {
        let of = |today| {
            let spend = SpendStatus { today, per_day: Some(5.0), currency: Some("EUR".to_owned()) };
            troubles(&StatusRecord { spend: Some(spend), ..stopped(StoreStatus::unknown(None)) }).concat()
        };
        assert_eq!(of(4.99), "");
        assert!(of(5.0).starts_with("The cap of the day is reached (5.00 of 5.00 EUR)"), "{}", of(5.0));
    }

    #[test]
    fn requests_that_lost_their_place_are_told() {
        let of = |displaced| {
            let pairings = PairingCounts { waiting: 64, displaced };
            troubles(&StatusRecord { pairings, ..stopped(StoreStatus::unknown(None)) }).concat()
        };
        assert_eq!(of(0), "");
        assert!(of(3).contains("3 requests lost the place to newer ones"), "{}", of(3));
    }

    #[test]
    fn the_shards_that_are_not_up_are_named() {
        let shards = |total, down: &[u32]| Shards { total, down: down.to_vec() }.described();
        assert_eq!(shards(4, &[]), "4 of 4 shards");
        assert_eq!(shards(4, &[2]), "3 of 4 shards, down: 2");
        let most: Vec<u32> = (6..16).collect();
        assert_eq!(shards(16, &most), "6 of 16 shards, down: 6 7 8 9 10 11 12 13 and 2 more");
    }

    #[test]
    fn a_network_where_messages_wait_is_not_plainly_connected() {
        let mut platform = crate::show::testing::status().platforms.remove(0);
        let shown = |platform: &PlatformStatus| format!("{:?}", link_state(platform));
        platform.state = LinkState::Connected;
        platform.troubles = vec!["sending: messages wait".to_owned().into()];
        assert!(shown(&platform).starts_with("[Bad(\"connected, 1 trouble\")"), "{}", shown(&platform));
        platform.troubles.clear();
        assert!(!shown(&platform).contains("Bad"), "{}", shown(&platform));
    }

    #[test]
    fn a_failed_network_says_why_and_what_to_do() {
        let mut status = stopped(StoreStatus::unknown(None));
        status.platforms = crate::show::testing::status().platforms;
        assert_eq!(
            troubles(&status),
            [
                "telegram: failed. 401: the token is wrong. copy it again from @BotFather",
                "telegram: chat -5: may not write"
            ]
        );
    }
}
