//! What cannot be delivered, or only later, or nobody knows.

use cairn_testkit::model::Kind;
use cairn_testkit::telegram::Fault;
use serde_json::Value;

use super::rig::{Rig, World, texts};

/// The outbox's only delivery, in that state.
async fn only(rig: &Rig, state: &str) -> Value {
    let outbox = rig.outbox_until(state, 1).await;
    assert_eq!(outbox.len(), 1, "{outbox:?}");
    outbox[0].clone()
}

/// Alice asks, and blocks the bot before it answers: one dead letter.
async fn blocked() -> (Rig, Value) {
    let rig = Rig::open().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.block(&rig.alice);
    gate.open();
    let dead = only(&rig, "dead").await;
    (rig, dead)
}

#[tokio::test]
async fn what_a_blocked_bot_owes_is_listed_and_can_be_sent_again() {
    let (rig, dead) = blocked().await;
    let reason = dead["reason"].as_str().unwrap();
    assert!(reason.contains("bot was blocked by the user"), "{dead}");
    let listed = rig.json(&["outbox", "list"]).await;
    assert_eq!(listed[0]["id"], dead["id"]);
    let (code, text) = rig.cairn(&["outbox", "list"]).await;
    assert!(code == 0 && text.contains("blocked"), "{text}");
    rig.telegram.unblock(&rig.alice);
    let (code, text) = rig.cairn(&["outbox", "retry", dead["id"].as_str().unwrap()]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(texts(&rig.telegram.wait_sent(rig.alice.id, 1).await), ["echo: hello quokka"]);
    rig.until("/v1/outbox", |list| list.as_array().unwrap().is_empty()).await;
    rig.end().await;
}

#[tokio::test]
async fn a_dead_letter_is_dropped_and_survives_until_then() {
    let (mut rig, dead) = blocked().await;
    rig.kill().await;
    rig.restart().await;
    assert_eq!(only(&rig, "dead").await["id"], dead["id"]);
    assert_eq!(rig.cairn(&["outbox", "drop", dead["id"].as_str().unwrap()]).await.0, 0);
    assert!(rig.json(&["outbox", "list"]).await.as_array().unwrap().is_empty());
    assert_ne!(rig.cairn(&["outbox", "retry", dead["id"].as_str().unwrap()]).await.0, 0);
    rig.end().await;
}

#[tokio::test]
async fn a_group_that_put_the_bot_out_holds_nobody_up() {
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let rig = world.start(&format!("direct = \"open\"\nchats = [{hut}]\nrespond = \"all\"")).await;
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(hut, &rig.alice, "hello, quokkas");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.kick(hut, &rig.alice);
    gate.open();
    let dead = only(&rig, "dead").await;
    assert!(dead["reason"].as_str().unwrap().contains("kicked"), "{dead}");
    let status = rig.status_until(|line| !line["troubles"].as_array().unwrap().is_empty()).await;
    assert_eq!(status["state"], "connected", "{status}");
    rig.ask(&rig.alice, "still there, quokka?").await;
    rig.end().await;
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_holds_no_other_chat_up() {
    let rig = Rig::open().await;
    rig.telegram.rate_limit(rig.alice.id, 2);
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    rig.telegram.wait_for("sendMessage", 1).await;
    rig.ask(&rig.bob, "hello from the other quokka").await;
    assert!(rig.telegram.sent(rig.alice.id).is_empty());
    assert_eq!(texts(&rig.telegram.wait_sent(rig.alice.id, 1).await), ["echo: hello quokka"]);
    rig.end().await;
}

#[tokio::test]
async fn what_telegram_did_not_do_is_tried_again() {
    let rig = Rig::open().await;
    rig.telegram.fail_next("sendMessage", Fault::flood(1));
    rig.telegram.fail_next("sendMessage", Fault::flood(1));
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    rig.delivered().await;
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 1);
    rig.end().await;
}

#[tokio::test]
async fn a_send_of_unknown_fate_is_listed_and_not_repeated() {
    let rig = Rig::open().await;
    rig.telegram.fail_next("sendMessage", Fault::CloseAfter);
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    let unknown = only(&rig, "unknown").await;
    assert!(!unknown["reason"].as_str().unwrap().is_empty(), "{unknown}");
    assert_eq!(rig.ask(&rig.alice, "and now, quokka?").await.text, "echo: and now, quokka?");
    assert_eq!(rig.telegram.calls("sendMessage").len(), 2, "the first is not sent again");
    assert_eq!(rig.cairn(&["outbox", "drop", unknown["id"].as_str().unwrap()]).await.0, 0);
    rig.end().await;
}

#[tokio::test]
async fn a_refused_message_is_a_dead_letter_with_the_reason() {
    let rig = Rig::open().await;
    rig.telegram.fail_next("sendMessage", Fault::error(400, "Bad Request: CHAT_WRITE_FORBIDDEN"));
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    let dead = only(&rig, "dead").await;
    assert!(dead["reason"].as_str().unwrap().contains("CHAT_WRITE_FORBIDDEN"), "{dead}");
    rig.ask(&rig.alice, "and now, quokka?").await;
    rig.end().await;
}

#[tokio::test]
async fn a_closed_topic_is_a_dead_letter() {
    let world = World::new().await;
    let forum = world.telegram.forum("Quokka forum");
    let topic = world.telegram.topic(forum, &world.alice, "weather");
    let rig = world.start(&format!("chats = [{forum}]\nrespond = \"all\"")).await;
    let say = cairn_testkit::telegram::Say::text("does it rain, quokka?").topic(topic);
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(forum, &rig.alice, say);
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.close_topic(forum, topic);
    gate.open();
    assert!(only(&rig, "dead").await["reason"].as_str().unwrap().contains("TOPIC_CLOSED"));
    rig.telegram.say(forum, &rig.alice, "general quokka");
    rig.telegram.wait_sent(forum, 1).await;
    rig.end().await;
}
