//! Kills, downtime, and what cannot be delivered: no message is lost, none is answered twice.

use cairn_testkit::model::Kind;
use cairn_testkit::telegram::Stage;
use serde_json::Value;

use super::rig::{Rig, texts};

#[tokio::test]
async fn a_kill_between_send_and_receipt_leaves_one_message_of_unknown_fate() {
    let mut rig = Rig::open().await;
    let gate = rig.telegram.hold("sendMessage", Stage::After);
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    rig.kill().await;
    gate.open();
    rig.restart().await;
    let outbox = rig.outbox_until("unknown", 1).await;
    assert!(!outbox[0]["reason"].as_str().unwrap().is_empty(), "{outbox:?}");
    let status = rig.cairn(&["status"]).await.1;
    assert!(status.contains("1 unknown") && status.contains("`cairn outbox list`"), "{status}");
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(rig.ask(&rig.alice, "and now, quokka?").await.text, "echo: and now, quokka?");
    rig.delivered().await;
    let sent = rig.telegram.sent(rig.alice.id);
    let sent = texts(&sent);
    assert_eq!((sent.len(), sent[0], sent[2]), (3, "echo: hello quokka", "echo: and now, quokka?"));
    assert!(sent[1].starts_with("One of my last messages may be missing here"), "{sent:?}");
    rig.end().await;
}

#[tokio::test]
async fn a_kill_before_the_send_is_done_can_be_made_good_by_hand() {
    let mut rig = Rig::open().await;
    let gate = rig.telegram.hold("sendMessage", Stage::Before);
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    rig.telegram.wait_for("sendMessage", 1).await;
    rig.kill().await;
    gate.open();
    rig.restart().await;
    let outbox = rig.outbox_until("unknown", 1).await;
    let told = rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert!(told[0].text.starts_with("One of my last messages may be missing here"), "{told:?}");
    assert_eq!(rig.cairn(&["outbox", "retry", outbox[0]["id"].as_str().unwrap()]).await.0, 0);
    assert_eq!(rig.telegram.wait_sent(rig.alice.id, 2).await[1].text, "echo: hello quokka");
    rig.until("/v1/outbox", |list| list.as_array().unwrap().is_empty()).await;
    rig.end().await;
}

#[tokio::test]
async fn a_kill_before_the_offset_is_confirmed_makes_no_second_turn() {
    let mut rig = Rig::open().await;
    rig.telegram.wait_for("getUpdates", 1).await;
    let gate = rig.telegram.hold("getUpdates", Stage::Before);
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    rig.delivered().await;
    assert_eq!(rig.telegram.unconfirmed(), 1);
    rig.kill().await;
    gate.open();
    rig.restart().await;
    rig.ask(&rig.alice, "and now, quokka?").await;
    rig.telegram.wait_confirmed().await;
    assert_eq!(texts(&rig.telegram.sent(rig.alice.id)), ["echo: hello quokka", "echo: and now, quokka?"]);
    assert_eq!(rig.asked(), 2);
    rig.end().await;
}

#[tokio::test]
async fn a_kill_during_the_turn_leaves_one_answer() {
    let mut rig = Rig::open().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.wait_confirmed().await;
    rig.kill().await;
    gate.open();
    rig.restart().await;
    assert_eq!(texts(&rig.telegram.wait_sent(rig.alice.id, 1).await), ["echo: hello quokka"]);
    rig.delivered().await;
    rig.end().await;
}

#[tokio::test]
async fn what_was_missed_is_answered_by_one_turn_a_channel() {
    let mut rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    rig.telegram.wait_confirmed().await;
    rig.stop().await;
    for text in ["one", "two", "three"] {
        rig.telegram.say(rig.alice.id, &rig.alice, format!("{text} for the quokka"));
        rig.telegram.say(rig.bob.id, &rig.bob, format!("{text} for the other quokka"));
    }
    rig.restart().await;
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    rig.telegram.wait_sent(rig.bob.id, 1).await;
    rig.telegram.wait_confirmed().await;
    rig.delivered().await;
    assert_eq!(rig.asked(), 3, "{:?}", rig.telegram.sent(rig.alice.id));
    let requests = rig.model.requests_of(Kind::Reply);
    let missed =
        requests.iter().map(ToString::to_string).filter(|request| request.contains("one for the quokka"));
    let missed: Vec<String> = missed.collect();
    assert!(missed.len() == 1 && missed[0].contains("three for the quokka"), "{missed:?}");
    rig.end().await;
}

#[tokio::test]
async fn repeated_and_reordered_updates_are_answered_once() {
    let rig = Rig::open().await;
    let first = rig.telegram.say(rig.alice.id, &rig.alice, "one quokka");
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    let held = rig.telegram.hold_updates();
    rig.telegram.say(rig.alice.id, &rig.alice, "two quokkas");
    rig.telegram.say(rig.alice.id, &rig.alice, "three quokkas");
    rig.telegram.repeat(rig.alice.id, first);
    rig.telegram.reverse_waiting();
    drop(held);
    rig.telegram.wait_confirmed().await;
    rig.telegram
        .wait_until("both to be answered", |_| {
            let request = rig.last_request();
            request.contains("two quokkas") && request.contains("three quokkas")
        })
        .await;
    rig.delivered().await;
    let answers =
        texts(&rig.telegram.sent(rig.alice.id)).iter().filter(|text| text.contains("one quokka")).count();
    assert_eq!(answers, 1);
    let history = rig.json(&["history", &format!("main/telegram/{}", rig.alice.id)]).await;
    let said = history.as_array().unwrap().iter().filter(|entry| entry["role"] == "user").count();
    assert_eq!(said, 3, "{history}");
    rig.end().await;
}

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
