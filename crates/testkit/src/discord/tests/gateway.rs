//! What the gateway gives and refuses.

use super::client::Came;
use super::*;
use crate::discord::gateway::session::intent;

const USUAL: u64 =
    intent::GUILDS | intent::GUILD_MESSAGES | intent::DIRECT_MESSAGES | intent::MESSAGE_CONTENT;

async fn scene() -> FakeDiscord {
    let discord = FakeDiscord::builder().identify_every(Duration::ZERO).start().await;
    discord.guild(100);
    discord.channel(100, 101);
    discord
}

fn content(payload: &serde_json::Value) -> &str {
    payload["d"]["content"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn after_identify_come_ready_the_servers_and_what_people_say() {
    let discord = scene().await;
    discord.thread(101, 111);
    let (mut socket, ready) = Socket::ready(&discord, USUAL).await;
    assert_eq!(
        (ready["s"].as_u64(), ready["d"]["guilds"][0]["unavailable"].as_bool()),
        (Some(1), Some(true))
    );
    assert_eq!(ready["d"]["resume_gateway_url"], discord.gateway_url());
    let guild = socket.payload().await;
    assert_eq!(
        (guild["t"].as_str(), &guild["d"]["channels"][0]["id"]),
        (Some("GUILD_CREATE"), &json!("101"))
    );
    assert_eq!(guild["d"]["threads"][0]["parent_id"], "101");
    let question = discord.post(101, "alice", "hello").mention_bot().twice().send();
    for seq in [3, 4] {
        let message = socket.payload().await;
        assert_eq!((message["s"].as_u64(), message["t"].as_str()), (Some(seq), Some("MESSAGE_CREATE")));
        assert_eq!(message["d"]["mentions"][0]["id"], BOT_ID.to_string());
        assert_eq!((&message["d"]["guild_id"], message["d"]["member"].is_object()), (&json!("100"), true));
    }
    let answer = discord.post(111, "bob", "in the thread").reply_to(question).send();
    assert_eq!(socket.payload().await["d"]["id"], answer.to_string());
    discord.edit(101, question, "other words");
    assert!(socket.payload().await["d"]["edited_timestamp"].is_string());
    discord.unfurl(101, question, "https://example.org");
    assert_eq!(socket.payload().await["d"]["embeds"][0]["type"], "link");
    discord.delete(101, &[question]);
    assert_eq!(socket.payload().await["t"], "MESSAGE_DELETE");
    let ids = [discord.say(101, "alice", "a"), discord.say(101, "alice", "b")];
    discord.delete(101, &ids);
    assert_eq!(socket.event("MESSAGE_DELETE_BULK").await["d"]["ids"][1], ids[1].to_string());
    discord.remove(111);
    assert_eq!(socket.payload().await["t"], "THREAD_DELETE");
    discord.assert_clean();
}

#[tokio::test]
async fn events_come_by_intent_and_words_by_the_privileged_one() {
    let discord = scene().await;
    let (mut socket, _) = Socket::ready(&discord, intent::GUILD_MESSAGES).await;
    discord.say(discord.dm("alice"), "alice", "private");
    discord.say(101, "alice", "not for the bot");
    discord.post(101, "alice", "for the bot").mention_bot().send();
    assert_eq!(content(&socket.payload().await), "");
    assert!(content(&socket.payload().await).ends_with("for the bot"));
}

#[tokio::test]
async fn what_the_real_one_closes_is_closed_with_its_code() {
    let discord =
        FakeDiscord::builder().identify_every(Duration::ZERO).without_message_content().start().await;
    let identify = |token: &str, intents: u64| json!({"op": 2, "d": {"token": token, "intents": intents, "properties": {}}});
    let cases = [
        (identify("wrong", 512), 4004),
        (identify(TOKEN, USUAL), 4014),
        (identify(TOKEN, 1 << 40), 4013),
        (json!({"op": 77, "d": null}), 4001),
        (json!({"no": "op"}), 4002),
        (json!({"op": 3, "d": {}}), 4003),
        (json!({"op": 2, "d": {"token": TOKEN, "intents": 1, "properties": {}, "shard": [2, 2]}}), 4010),
        (json!({"op": 3, "d": "x".repeat(5_000)}), 4002),
    ];
    for (payload, code) in cases {
        let mut socket = Socket::open(&discord).await;
        socket.send(payload.clone()).await;
        assert_eq!(socket.next().await, Came::Closed(Some(code)), "{payload}");
    }
    // Those for the operator are no faults of the bot's.
    assert_eq!(discord.violations().len(), 6);
    let (mut socket, _) = Socket::ready(&discord, 512).await;
    socket.identify(TOKEN, 512).await;
    assert_eq!(socket.next().await, Came::Closed(Some(4005)));
}

#[tokio::test]
async fn identifying_too_often_or_without_budget_is_recorded() {
    let discord = FakeDiscord::start().await;
    let (_first, _) = Socket::ready(&discord, USUAL).await;
    let mut second = Socket::open(&discord).await;
    second.identify(TOKEN, USUAL).await;
    assert_eq!(second.payload().await["op"], 9);
    assert_eq!(discord.violations()[0].rule, Rule::Identify);
    let discord = scene().await;
    discord.set_identify_budget(0);
    let mut socket = Socket::open(&discord).await;
    socket.identify(TOKEN, USUAL).await;
    assert_eq!(socket.next().await, Came::Closed(Some(4004)));
    assert_eq!(discord.violations()[0].rule, Rule::Identify);
}

#[tokio::test]
async fn a_resumed_session_gets_what_it_missed_and_then_resumed() {
    let discord = scene().await;
    let (mut socket, ready) = Socket::ready(&discord, USUAL).await;
    assert_eq!(socket.payload().await["t"], "GUILD_CREATE");
    discord.disconnect();
    assert_eq!(socket.next().await, Came::Closed(None));
    discord.say(101, "alice", "missed");
    let mut socket = Socket::open(&discord).await;
    socket.resume(&ready, 2).await;
    assert_eq!(content(&socket.payload().await), "missed");
    assert_eq!(socket.payload().await["t"], "RESUMED");
    discord.say(101, "alice", "live");
    assert_eq!(content(&socket.payload().await), "live");
    assert_eq!((discord.resumed(), discord.identified()), (1, 1));
    let mut ahead = Socket::open(&discord).await;
    ahead.resume(&ready, 99).await;
    assert_eq!(ahead.next().await, Came::Closed(Some(4007)));
}

#[tokio::test]
async fn a_session_that_is_gone_is_said_to_be_invalid() {
    let discord = scene().await;
    let (mut socket, ready) = Socket::ready(&discord, USUAL).await;
    discord.ask_reconnect();
    while socket.payload().await["op"] != 7 {}
    discord.invalid_session(true);
    assert_eq!(socket.payload().await, json!({"op": 9, "d": true, "t": null, "s": null}));
    socket.resume(&ready, 2).await;
    socket.event("RESUMED").await;
    discord.invalid_session(false);
    assert_eq!(socket.payload().await["d"], false);
    socket.resume(&ready, 2).await;
    assert_eq!(socket.payload().await, json!({"op": 9, "d": false, "t": null, "s": null}));
    socket.identify(TOKEN, USUAL).await;
    assert_eq!(socket.payload().await["t"], "READY");
    discord.assert_clean();
}

#[tokio::test]
async fn a_close_with_1000_by_the_client_ends_the_session() {
    let discord = scene().await;
    let (mut socket, ready) = Socket::ready(&discord, USUAL).await;
    socket.close(1000).await;
    discord.wait_until("the end", |discord| !discord.is_ready()).await;
    let mut socket = Socket::open(&discord).await;
    socket.resume(&ready, 1).await;
    assert_eq!(socket.payload().await["op"], 9);
}

#[tokio::test]
async fn heartbeats_are_answered_until_the_connection_is_a_zombie() {
    let discord = scene().await;
    let (mut socket, _) = Socket::ready(&discord, 512).await;
    discord.ask_heartbeat();
    assert_eq!(socket.payload().await["op"], 1);
    socket.send(json!({"op": 1, "d": 1})).await;
    assert_eq!(socket.payload().await["op"], 11);
    discord.stop_acks();
    socket.send(json!({"op": 1, "d": 1})).await;
    discord.wait_until("the second heartbeat", |discord| discord.heartbeats() == 2).await;
    discord.say(101, "alice", "nobody hears this");
    // What comes next is the end, and no acknowledgement before it.
    discord.close(4000);
    assert_eq!(socket.next().await, Came::Closed(Some(4000)));
}

#[tokio::test]
async fn a_revoked_token_closes_the_session() {
    let discord = scene().await;
    let (mut socket, _) = Socket::ready(&discord, 512).await;
    discord.set_revoked(true);
    assert_eq!(socket.next().await, Came::Closed(Some(4004)));
    assert_eq!(Rest::of(&discord).get("/api/v10/users/@me").await.status, 401);
}

#[tokio::test]
async fn a_shard_hears_of_its_own_servers_and_the_first_one_of_private_chats() {
    let builder = FakeDiscord::builder().shards(2).max_concurrency(2);
    let discord = builder.start().await;
    for shard in [0, 1] {
        discord.guild(shard << 22 | 5);
        discord.channel(shard << 22 | 5, 100 + shard);
    }
    let mut sockets = Vec::new();
    for shard in [0, 1] {
        let mut socket = Socket::open(&discord).await;
        let data = json!({"token": TOKEN, "intents": USUAL, "properties": {}, "shard": [shard, 2]});
        socket.send(json!({"op": 2, "d": data})).await;
        let ready = socket.payload().await;
        assert_eq!(
            (&ready["d"]["shard"], ready["d"]["guilds"].as_array().unwrap().len()),
            (&json!([shard, 2]), 1)
        );
        assert_eq!(socket.payload().await["d"]["channels"][0]["id"], (100 + shard).to_string());
        sockets.push(socket);
    }
    discord.say(101, "alice", "in the second");
    discord.say(discord.dm("alice"), "alice", "private");
    discord.say(100, "alice", "in the first");
    assert_eq!(content(&sockets[0].payload().await), "private");
    assert_eq!(content(&sockets[0].payload().await), "in the first");
    assert_eq!(content(&sockets[1].payload().await), "in the second");
    discord.disconnect_shard(1);
    assert_eq!(sockets[1].next().await, Came::Closed(None));
    discord.require_shards(4);
    assert_eq!(sockets[0].next().await, Came::Closed(Some(4011)));
    let mut socket = Socket::open(&discord).await;
    socket.identify(TOKEN, USUAL).await;
    assert_eq!(socket.next().await, Came::Closed(Some(4011)));
    discord.assert_clean();
}
