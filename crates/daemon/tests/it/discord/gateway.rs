//! The gateway's whims: nothing is lost, nothing is answered twice.

use std::time::Duration;

use cairn_testkit::discord::FakeDiscord;

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

#[tokio::test]
async fn a_connection_that_breaks_is_resumed_without_loss() {
    let rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    let cuts: [fn(&FakeDiscord); 3] =
        [FakeDiscord::disconnect, |discord| discord.close(4000), FakeDiscord::ask_reconnect];
    for (n, cut) in cuts.into_iter().enumerate() {
        cut(&rig.discord);
        rig.discord.wait_until("the end", |discord| !discord.is_ready()).await;
        rig.ask(ROOM, "alice", &format!("meanwhile {n}")).await;
    }
    rig.discord.wait_until("three resumes", |discord| discord.resumed() == 3).await;
    assert_eq!((rig.discord.identified(), rig.discord.sent(ROOM).len()), (1, 4));
    rig.assert_clean();
}

#[tokio::test]
async fn an_invalid_session_is_begun_again_and_what_was_missed_is_fetched() {
    let rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.ask(OTHER_ROOM, "alice", "before").await;
    rig.discord.invalid_session(false);
    rig.discord.post(ROOM, "alice", "in between one").mention_bot().undelivered().send();
    rig.discord.post(ROOM, "alice", "in between two").mention_bot().undelivered().send();
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    assert!(sent[1].content.contains("in between two"), "{}", sent[1].content);
    assert_eq!(rig.discord.identified(), 2);
    rig.ask(ROOM, "alice", "after").await;
    assert_eq!((rig.discord.sent(ROOM).len(), rig.discord.sent(OTHER_ROOM).len()), (3, 1));
    assert!(rig.requests().pop().unwrap().contains("in between one"));
    rig.assert_clean();
}

#[tokio::test]
async fn an_interrupted_session_is_resumed() {
    let rig = Rig::start().await;
    rig.discord.invalid_session(true);
    rig.discord.say(ROOM, "alice", "meanwhile");
    rig.ask(ROOM, "alice", "hello").await;
    assert!(rig.requests()[0].contains("meanwhile"));
    rig.assert_clean();
}

#[tokio::test]
async fn doubles_and_disorder_cause_one_turn_each() {
    let rig = Rig::start().await;
    rig.discord.post(ROOM, "alice", "the second").mention_bot().held().send();
    rig.discord.post(ROOM, "alice", "the third").held().send();
    rig.discord.release(true);
    rig.discord.wait_sent(ROOM, 1).await;
    rig.discord.post(ROOM, "alice", "twice").mention_bot().twice().send();
    rig.discord.wait_sent(ROOM, 2).await;
    rig.ask(ROOM, "alice", "the end").await;
    assert_eq!(rig.discord.sent(ROOM).len(), 3);
    let request = rig.requests().pop().unwrap();
    for words in ["the second", "the third"] {
        assert!(request.contains(words), "{words}: {request}");
    }
    rig.assert_clean();
}

#[tokio::test]
async fn a_silent_connection_counts_as_dead() {
    let discord = FakeDiscord::builder().identify_every(Duration::ZERO).heartbeat(Duration::from_millis(300));
    let rig = Setup { discord, ..Setup::default() }.start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.discord.wait_until("a heartbeat", |discord| discord.heartbeats() >= 1).await;
    rig.wait_platform("measured", |platform| platform["latency_ms"].is_u64()).await;
    rig.discord.ask_heartbeat();
    rig.discord.stop_acks();
    rig.ask(ROOM, "alice", "who hears me?").await;
    assert!(rig.discord.resumed() >= 1);
    assert_eq!(rig.discord.sent(ROOM).len(), 2);
    rig.assert_clean();
}

#[tokio::test]
async fn an_empty_identify_budget_is_not_overdrawn() {
    let mut rig = Setup::default().build().await;
    rig.discord.set_identify_budget(0);
    rig.run().await;
    rig.wait_platform("waiting", |platform| platform["reason"].is_string()).await;
    assert_eq!(rig.discord.connected(), 0);
    rig.assert_clean();
}
