//! A bot whose servers are divided among several connections.

use std::collections::BTreeSet;
use std::time::Duration;

use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::postgres::{self, PASSWORD_FILE, store_table};
use serde_json::json;

use crate::discord::rig::{ROOM, Rig, Setup};

/// Discord asks for five seconds between two sessions of a bucket, which Cairn counts; this only tells them from none.
const PACE: Duration = Duration::from_secs(2);

/// The channel of a shard's server; that of the first shard is the usual one.
fn room(shard: u64) -> u64 {
    if shard == 0 { ROOM } else { 1000 + shard }
}

/// A bot that is in a server of each of four shards; no daemon yet.
async fn in_four_servers(shards: u32, max_concurrency: u32, pace: Duration, keys: &str) -> Rig {
    let discord = FakeDiscord::builder().shards(shards).max_concurrency(max_concurrency).identify_every(pace);
    let keys = format!("chats = [1001, 1002, 1003]\n{keys}");
    let rig = Setup { discord, ..Setup::default() }.keys(&keys).build().await;
    for shard in 1..4 {
        let server = shard << 22 | 100;
        rig.discord.guild(server);
        rig.discord.channel(server, room(shard));
    }
    rig
}

#[tokio::test]
async fn shards_begin_bucket_by_bucket_and_each_serves_its_servers() {
    let mut rig = in_four_servers(4, 2, PACE, "").await;
    rig.run().await;
    rig.discord.wait_shards(4).await;
    let order = rig.discord.identified_shards();
    let firsts: BTreeSet<_> = order[..2].iter().copied().collect();
    assert_eq!((firsts, order.len()), (BTreeSet::from([(0, 4), (1, 4)]), 4), "{order:?}");
    let up = rig.wait_platform("connected", |platform| platform["state"] == "connected").await;
    assert_eq!(up["shards"], json!({"total": 4, "down": []}));
    let status = rig.cairn_with(&["status"]).await.stdout;
    assert!(status.contains("discord  cairn") && status.contains("connected, 4 of 4 shards"), "{status}");
    for shard in 0..4 {
        rig.ask(room(shard), "alice", "hello").await;
    }
    // A private chat is told to the first shard alone: a stranger gets one code.
    let private = rig.discord.dm("bob");
    rig.discord.say(private, "bob", "let me in");
    rig.discord.wait_sent(private, 1).await;
    rig.ask(room(0), "alice", "and now?").await;
    assert_eq!(rig.discord.sent(private).len(), 1);
    rig.assert_clean();
}

#[tokio::test]
async fn a_shard_that_is_cut_resumes_in_order_and_the_others_go_on() {
    let mut rig = in_four_servers(4, 4, Duration::ZERO, "").await;
    rig.run().await;
    rig.discord.wait_shards(4).await;
    rig.ask(room(2), "alice", "one").await;
    rig.discord.disconnect_shard(2);
    for text in ["two", "three", "four"] {
        rig.discord.say(room(2), "alice", text);
    }
    rig.discord.post(room(2), "alice", "five").mention_bot().send();
    rig.ask(room(1), "alice", "still here?").await;
    let sent = rig.discord.wait_sent(room(2), 2).await;
    assert!(sent[1].content.ends_with("five"), "{sent:?}");
    assert_eq!((rig.discord.resumed(), rig.discord.identified(), rig.discord.connected()), (1, 4, 5));
    let requests = rig.requests();
    let request = requests.iter().find(|request| request.contains("five")).unwrap();
    let places = ["one", "two", "three", "four", "five"].map(|text| request.find(text).unwrap());
    assert!(places.is_sorted(), "{request}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_number_that_discord_raises_is_asked_for_again_and_nothing_is_lost() {
    let mut rig = in_four_servers(1, 4, Duration::ZERO, "").await;
    rig.run().await;
    rig.discord.wait_ready().await;
    for shard in 0..4 {
        rig.ask(room(shard), "alice", "hello").await;
    }
    rig.discord.require_shards(4);
    for shard in 0..4 {
        rig.discord.post(room(shard), "alice", "meanwhile").mention_bot().send();
    }
    rig.discord.wait_shards(4).await;
    for shard in 0..4 {
        let sent = rig.discord.wait_sent(room(shard), 2).await;
        assert_eq!(sent[1].content, "echo: meanwhile");
        rig.ask(room(shard), "alice", "and now?").await;
    }
    let identified = rig.discord.identified_shards();
    assert!(identified.iter().skip(1).all(|(_, of)| *of == 4), "{identified:?}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_configured_number_that_is_too_small_says_what_to_set() {
    let mut rig = in_four_servers(4, 4, Duration::ZERO, "shards = 2").await;
    rig.run().await;
    rig.discord.wait_shards(2).await;
    let identified = rig.discord.identified_shards();
    assert!(identified.iter().all(|(_, of)| *of == 2), "{identified:?}");
    rig.discord.require_shards(4);
    let platform = rig.wait_platform("failed", |platform| platform["state"] == "failed").await;
    let hint = platform["hint"].as_str().unwrap();
    assert!(hint.contains("`shards`") && hint.contains("set it to 4"), "{platform}");
    assert!(platform["shards"].is_null(), "{platform}");
    rig.assert_clean();
}

#[tokio::test]
async fn sessions_go_on_after_a_planned_restart_and_what_came_meanwhile_is_told_once() {
    let mut rig = in_four_servers(4, 4, Duration::ZERO, "").await;
    rig.run().await;
    rig.discord.wait_shards(4).await;
    for shard in 0..4 {
        rig.ask(room(shard), "alice", "before").await;
    }
    let edited = rig.discord.say(room(1), "alice", "nobody asked");
    rig.ask(room(1), "alice", "after that").await;
    rig.stop().await;
    rig.discord.edit(room(1), edited, "a word that was changed meanwhile");
    for shard in 0..4 {
        rig.discord.post(room(shard), "alice", "while you were away").mention_bot().send();
    }
    rig.back().await;
    for (shard, n) in [(0, 2), (1, 3), (2, 2), (3, 2)] {
        let sent = rig.discord.wait_sent(room(shard), n).await;
        assert!(sent[n - 1].content.contains("while you were away"), "{sent:?}");
        rig.ask(room(shard), "alice", "after").await;
        assert_eq!(rig.discord.sent(room(shard)).len(), n + 1);
    }
    assert_eq!((rig.discord.resumed(), rig.discord.identified()), (4, 4), "{}", rig.log());
    let changed =
        rig.requests().into_iter().any(|request| request.contains("a word that was changed meanwhile"));
    assert!(changed, "no list tells of an edit; the session does");
    let up = rig.wait_platform("connected", |platform| platform["state"] == "connected").await;
    assert_eq!((&up["name"], &up["shards"]["down"]), (&json!("cairn"), &json!([])), "{up}");
    // A crash keeps nothing: new sessions begin.
    rig.kill().await;
    rig.back().await;
    rig.discord.wait_shards(4).await;
    assert_eq!((rig.discord.resumed(), rig.discord.identified()), (4, 8));
    rig.assert_clean();
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn sessions_go_on_at_another_node_of_the_same_database() {
    let url = postgres::database();
    let (tables, password) = store_table(&url);
    let mut rig = Setup { tables, ..Setup::default() }.build().await;
    rig.secret(PASSWORD_FILE, &password);
    rig.run().await;
    rig.discord.wait_shards(1).await;
    rig.ask(ROOM, "alice", "before").await;
    rig.stop().await;
    rig.discord.post(ROOM, "alice", "while nobody led").mention_bot().send();
    // The next one has nothing but the database.
    std::fs::remove_dir_all(rig.state()).unwrap();
    std::fs::create_dir(rig.state()).unwrap();
    rig.back().await;
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    assert!(sent[1].content.contains("while nobody led"), "{sent:?}");
    assert_eq!((rig.discord.resumed(), rig.discord.identified()), (1, 1), "{}", rig.log());
    rig.assert_clean();
}
