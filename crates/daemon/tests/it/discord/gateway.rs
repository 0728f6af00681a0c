//! The gateway's whims: nothing is lost, nothing is answered twice.

use std::time::Duration;

use cairn_testkit::discord::FakeDiscord;

use crate::discord::house::{House, OTHER_ROOM, ROOM, Setup};

#[tokio::test]
async fn a_connection_that_breaks_is_resumed_without_loss() {
    let house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    let cuts: [fn(&FakeDiscord); 3] =
        [FakeDiscord::disconnect, |discord| discord.close(4000), FakeDiscord::ask_reconnect];
    for (n, cut) in cuts.into_iter().enumerate() {
        cut(&house.discord);
        house.discord.wait_until("the end", |discord| !discord.is_ready()).await;
        house.ask(ROOM, "alice", &format!("meanwhile {n}")).await;
    }
    house.discord.wait_until("three resumes", |discord| discord.resumed() == 3).await;
    assert_eq!((house.discord.identified(), house.discord.sent(ROOM).len()), (1, 4));
    house.assert_clean();
}

#[tokio::test]
async fn an_invalid_session_is_begun_anew_and_what_was_missed_is_fetched() {
    let house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    house.ask(OTHER_ROOM, "alice", "before").await;
    house.discord.invalid_session(false);
    house.discord.post(ROOM, "alice", "in between one").mention_bot().undelivered().send();
    house.discord.post(ROOM, "alice", "in between two").mention_bot().undelivered().send();
    let sent = house.discord.wait_sent(ROOM, 2).await;
    assert!(sent[1].content.contains("in between two"), "{}", sent[1].content);
    assert_eq!(house.discord.identified(), 2);
    house.ask(ROOM, "alice", "after").await;
    assert_eq!((house.discord.sent(ROOM).len(), house.discord.sent(OTHER_ROOM).len()), (3, 1));
    assert!(house.requests().pop().unwrap().contains("in between one"));
    house.assert_clean();
}

#[tokio::test]
async fn an_interrupted_session_is_resumed() {
    let house = House::start().await;
    house.discord.invalid_session(true);
    house.discord.say(ROOM, "alice", "meanwhile");
    house.ask(ROOM, "alice", "hello").await;
    assert!(house.requests()[0].contains("meanwhile"));
    house.assert_clean();
}

#[tokio::test]
async fn doubles_and_disorder_cause_one_turn_each() {
    let house = House::start().await;
    house.discord.post(ROOM, "alice", "the second").mention_bot().held().send();
    house.discord.post(ROOM, "alice", "the third").held().send();
    house.discord.release(true);
    house.discord.wait_sent(ROOM, 1).await;
    house.discord.post(ROOM, "alice", "twice").mention_bot().twice().send();
    house.discord.wait_sent(ROOM, 2).await;
    house.ask(ROOM, "alice", "the end").await;
    assert_eq!(house.discord.sent(ROOM).len(), 3);
    let request = house.requests().pop().unwrap();
    for words in ["the second", "the third"] {
        assert!(request.contains(words), "{words}: {request}");
    }
    house.assert_clean();
}

#[tokio::test]
async fn a_silent_connection_counts_as_dead() {
    let discord = FakeDiscord::builder().identify_every(Duration::ZERO).heartbeat(Duration::from_millis(300));
    let house = Setup { discord, ..Setup::default() }.start().await;
    house.ask(ROOM, "alice", "before").await;
    house.discord.wait_until("a heartbeat", |discord| discord.heartbeats() >= 1).await;
    house.wait_platform("measured", |platform| platform["latency_ms"].is_u64()).await;
    house.discord.ask_heartbeat();
    house.discord.stop_acks();
    house.ask(ROOM, "alice", "who hears me?").await;
    assert!(house.discord.resumed() >= 1);
    assert_eq!(house.discord.sent(ROOM).len(), 2);
    house.assert_clean();
}

#[tokio::test]
async fn an_empty_identify_budget_is_not_overdrawn() {
    let mut house = Setup::default().build().await;
    house.discord.set_identify_budget(0);
    house.run().await;
    house.wait_platform("waiting", |platform| platform["reason"].is_string()).await;
    assert_eq!(house.discord.connected(), 0);
    house.assert_clean();
}
