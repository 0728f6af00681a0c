//! What does not work: people are told, nothing is lost, and `cairn status` and the log say what to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_testkit::model::{self, FakeModel};
use serde_json::{Value, json};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

/// Failed, with a reason and a hint that name a word each; the rest of the daemon works.
async fn assert_failed(rig: &Rig, reason: &str, hint: &str) {
    let platform = rig.wait_platform("failed", |platform| platform["state"] == "failed").await;
    let text = |key: &str| platform[key].as_str().unwrap_or_default().to_lowercase();
    assert!(text("reason").contains(reason), "{platform}");
    assert!(text("hint").contains(hint), "{platform}");
    let (status, reply) = rig.client().say("local-talk", "hello").await.unwrap();
    assert_eq!((status.as_u16(), &reply["reply"]), (200, &json!("echo: hello")), "{reply}");
    let health = rig.client().get("/v1/health").await.unwrap();
    assert_eq!(health["status"], "ok", "{health}");
    let run = rig.cairn_with(&["status"]).await.ended(0);
    assert!(run.stdout.contains("  ! discord: failed. "), "{run:?}");
    let shown = |key: &str| run.stdout.contains(platform[key].as_str().unwrap());
    assert!(shown("reason") && shown("hint"), "{run:?}");
    assert!(rig.log().to_lowercase().contains(hint), "the log does not say what to do: {}", rig.log());
    rig.assert_clean();
}

#[tokio::test]
async fn a_wrong_token_is_a_clear_failure() {
    let mut rig = Setup { token: "not-the-token".to_owned(), ..Setup::default() }.build().await;
    rig.run().await;
    assert_failed(&rig, "token", "token").await;
    assert!(!rig.log().contains("not-the-token"));
    assert_eq!(rig.discord.connected(), 0, "without a good token there is nothing to connect for");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_called_again() {
    let mut rig = Setup::default().build().await;
    rig.discord.set_unreachable(true);
    rig.run().await;
    let platform = rig.wait_platform("in trouble", |platform| platform["reason"].is_string()).await;
    let shown = rig.cairn_with(&["status"]).await.stdout;
    let why = platform["reason"].as_str().unwrap();
    assert!(shown.contains(why), "{why} is not in: {shown}");
    assert_eq!(rig.client().get("/v1/health").await.unwrap()["status"], "ok", "it lives");
    rig.discord.set_unreachable(false);
    rig.discord.wait_ready().await;
    rig.ask(ROOM, "alice", "hello").await;
    rig.discord.set_unreachable(true);
    let lost = |platform: &Value| platform["state"] == "reconnecting";
    rig.wait_platform("without a connection", lost).await;
    rig.discord.set_unreachable(false);
    rig.discord.wait_ready().await;
    rig.ask(ROOM, "alice", "hello again").await;
    rig.assert_clean();
}

#[tokio::test]
async fn the_status_tells_how_it_is() {
    let rig = Rig::start().await;
    let early = rig.wait_platform("connected", |platform| platform["state"] == "connected").await;
    assert_eq!(early["name"], "cairn", "{early}");
    rig.ask(ROOM, "alice", "hello").await;
    // It is taken off the queue after it is noted as sent.
    let spoken = |platform: &Value| platform["last_outbound"].is_string() && platform["queue"] == 0;
    let platform = rig.wait_platform("spoken", spoken).await;
    for key in ["connected_since", "last_inbound"] {
        assert!(platform[key].is_string(), "{key}: {platform}");
    }
    assert_eq!(platform["troubles"], json!([]), "{platform}");
    let health = rig.client().get("/v1/health").await.unwrap();
    assert_eq!(health["platforms"][0]["state"], "connected", "{health}");
    let shown = rig.json_of(&["status"]).await;
    assert_eq!(shown["platforms"][0]["platform"], "discord", "{shown}");
    rig.assert_clean();
}

#[tokio::test]
async fn with_all_models_down_people_are_told_once_and_answered_later() {
    let down = Arc::new(AtomicBool::new(true));
    let model = FakeModel::builder().window(8_000).respond({
        let down = down.clone();
        move |_| down.load(Ordering::SeqCst).then(|| model::Answer::error(503, "overloaded"))
    });
    let mut rig = Setup { model, ..Setup::default() }.start().await;
    let id = rig.discord.post(ROOM, "alice", "are you there?").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 1).await;
    assert!(sent[0].content.contains("kept"), "{}", sent[0].content);
    assert_eq!(sent[0].reply_to, Some(id));
    // Neither a restart tells it again.
    rig.kill().await;
    rig.back().await;
    down.store(false, Ordering::SeqCst);
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    assert_eq!(sent[1].content, "echo: are you there?");
    rig.ask(ROOM, "alice", "good").await;
    assert_eq!(rig.discord.sent(ROOM).len(), 3);
    assert!(!rig.discord.is_typing(ROOM));
    rig.assert_clean();
}

#[tokio::test]
async fn what_cannot_be_delivered_goes_to_the_dead_letters_and_harms_no_other_channel() {
    let rig = Rig::start().await;
    let gate = rig.model.hold(model::Kind::Reply);
    rig.discord.post(ROOM, "alice", "into the void").mention_bot().send();
    rig.model.wait_for(model::Kind::Reply, 1).await;
    rig.discord.remove(ROOM);
    gate.open();
    let dead = async || {
        let list = rig.json_of(&["outbox", "list"]).await;
        list.as_array().unwrap().iter().find(|item| item["state"] == "dead").cloned()
    };
    let item = rig.until("a dead letter", dead).await;
    assert!(item["reason"].as_str().unwrap().contains("10003"), "{item}");
    let status = rig.cairn_with(&["status"]).await.stdout;
    assert!(status.contains("  1 dead\n") && status.contains("`cairn outbox list`"), "{status}");
    rig.ask(OTHER_ROOM, "alice", "and here?").await;
    let id = item["id"].as_str().unwrap();
    rig.cairn_with(&["outbox", "drop", id]).await.ended(0);
    rig.delivered().await;
    let none = json!({ "owed": 0, "dead": 0, "unknown": 0 });
    assert_eq!(rig.json_of(&["status"]).await["outbox"], none);
    rig.assert_clean();
}
