//! A connection that does not work: a clear state, a line in the log, and everything else goes on.

use cairn_testkit::telegram::Fault;
use serde_json::{Value, json};

use super::rig::{Rig, World};

/// The local platform answers whatever Telegram does.
async fn local_works(rig: &Rig) {
    let (status, reply) = rig.client().say("desk", "is anybody there, quokka?").await.unwrap();
    assert_eq!(status, 200, "{reply}");
    let health = rig.client().get("/v1/health").await.unwrap();
    assert_eq!(health["status"], "ok", "{health}");
}

fn says(line: &Value, key: &str, word: &str) -> bool {
    line[key].as_str().is_some_and(|text| text.to_lowercase().contains(word))
}

#[tokio::test]
async fn a_connected_bot_says_since_when_and_by_which_name() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    let line =
        rig.status_until(|line| line["state"] == "connected" && !line["last_outbound"].is_null()).await;
    assert!(line["connected_since"].is_string() && line["last_inbound"].is_string(), "{line}");
    assert!(says(&line, "name", "cairn_test_bot"), "{line}");
    let status = rig.json(&["status"]).await;
    assert_eq!(status["platforms"][0]["state"], "connected");
    rig.end().await;
}

#[tokio::test]
async fn a_wrong_token_is_a_clear_failure() {
    let world = World::new().await;
    world.telegram.revoke_token();
    let rig = world.start("").await;
    let line = rig.status_until(|line| line["state"] == "failed").await;
    assert!(says(&line, "reason", "token") && says(&line, "hint", "botfather"), "{line}");
    assert!(rig.log().to_lowercase().contains("botfather"), "{}", rig.log());
    local_works(&rig).await;
    rig.end().await;
}

#[tokio::test]
async fn a_revoked_token_is_noticed_while_it_runs() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    rig.telegram.revoke_token();
    // What polls is answered with the next update.
    rig.telegram.say(rig.alice.id, &rig.alice, "still, quokka?");
    let line = rig.status_until(|line| line["state"] == "failed").await;
    assert!(says(&line, "hint", "botfather"), "{line}");
    local_works(&rig).await;
    rig.end().await;
}

#[tokio::test]
async fn a_second_poller_is_a_clear_failure() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    let other = rig.telegram.second_poller();
    let line = rig.status_until(|line| line["state"] == "failed").await;
    assert!(says(&line, "reason", "409") || says(&line, "reason", "another program"), "{line}");
    assert!(line["hint"].is_string(), "{line}");
    assert!(rig.log().contains("409"), "{}", rig.log());
    local_works(&rig).await;
    drop(other);
    rig.end().await;
}

#[tokio::test]
async fn a_webhook_is_a_clear_failure() {
    let world = World::new().await;
    world.telegram.set_webhook();
    let rig = world.start("direct = \"open\"").await;
    // It either takes the webhook away or says that it is there.
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    let line = rig.status_until(|line| line["state"] == "failed" || !line["last_outbound"].is_null()).await;
    assert!(line["state"] == "connected" || says(&line, "reason", "webhook"), "{line}");
    rig.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_tried_until_it_is_there() {
    let world = World::new().await;
    world.telegram.go_down();
    let rig = world.start("direct = \"open\"").await;
    let line = rig.status_until(|line| line["reason"].is_string()).await;
    assert!(["connecting", "reconnecting"].contains(&line["state"].as_str().unwrap()), "{line}");
    assert!(says(&line, "hint", "network"), "{line}");
    local_works(&rig).await;
    rig.telegram.come_back().await;
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    let line = rig.status_until(|line| line["state"] == "connected").await;
    assert!(line["reason"].is_null(), "{line}");
    rig.end().await;
}

#[tokio::test]
async fn a_connection_that_breaks_is_mended_and_nothing_is_lost() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    rig.telegram.go_down();
    rig.status_until(|line| line["state"] == "reconnecting").await;
    rig.telegram.say(rig.alice.id, &rig.alice, "are you there, quokka?");
    rig.telegram.come_back().await;
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(sent[1].text, "echo: are you there, quokka?");
    rig.end().await;
}

#[tokio::test]
async fn answers_that_are_none_are_a_clear_state_and_pass() {
    for fault in [Fault::internal(), Fault::Html, Fault::Body(String::new()), Fault::CloseBefore] {
        let rig = Rig::open().await;
        rig.ask(&rig.alice, "hello quokka").await;
        rig.telegram.fail_always("getUpdates", fault.clone());
        // What polls is answered with the next update.
        rig.telegram.say(rig.alice.id, &rig.alice, "still there, quokka?");
        let line = rig.status_until(|line| line["state"] == "reconnecting").await;
        assert!(line["reason"].is_string() && line["hint"].is_string(), "{fault:?}: {line}");
        rig.telegram.mend("getUpdates");
        rig.telegram.wait_sent(rig.alice.id, 2).await;
        rig.status_until(|line| line["state"] == "connected").await;
        rig.end().await;
    }
}

#[tokio::test]
async fn malformed_updates_hide_no_others() {
    let rig = Rig::open().await;
    let held = rig.telegram.hold_updates();
    rig.telegram.say(rig.alice.id, &rig.alice, "one quokka");
    for update in [
        json!({ "message": { "message_id": "seven", "text": "quokka" } }),
        json!({ "message": 7 }),
        json!({ "message": {} }),
        json!({ "quokkas_changed": { "count": 3 } }),
        json!({}),
        json!([1, 2]),
        json!("quokka"),
        json!(null),
    ] {
        rig.telegram.push_raw(update);
    }
    rig.telegram.say(rig.bob.id, &rig.bob, "two quokkas");
    drop(held);
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    rig.telegram.wait_sent(rig.bob.id, 1).await;
    rig.telegram.wait_confirmed().await;
    assert!(rig.log().contains("cannot be read"), "{}", rig.log());
    rig.end().await;
}

#[tokio::test]
async fn update_ids_that_begin_again_lose_nothing() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "hello quokka").await;
    for n in 0..3 {
        rig.telegram.wait_confirmed().await;
        rig.telegram.restart_ids();
        assert_eq!(
            rig.ask(&rig.alice, &format!("week {n}, quokka")).await.text,
            format!("echo: week {n}, quokka")
        );
    }
    rig.telegram.wait_confirmed().await;
    assert_eq!(rig.asked(), 4);
    rig.end().await;
}

#[tokio::test]
async fn the_token_is_in_no_line_of_the_log_at_any_level() {
    let mut rig = World::new().await.start_at("trace", "direct = \"open\"").await;
    rig.ask(&rig.alice, "hello quokka").await;
    rig.telegram.fail_next("sendMessage", Fault::CloseBefore);
    rig.telegram.say(rig.alice.id, &rig.alice, "again, quokka");
    rig.outbox_until("unknown", 1).await;
    rig.telegram.fail_always("getUpdates", Fault::Html);
    rig.telegram.say(rig.alice.id, &rig.alice, "and again, quokka");
    rig.status_until(|line| line["state"] == "reconnecting").await;
    rig.telegram.go_down();
    rig.telegram.mend("getUpdates");
    rig.status_until(|line| line["reason"].as_str().is_some_and(|reason| !reason.contains("502"))).await;
    rig.stop().await;
    for (_, text) in [rig.cairn(&["status"]).await, rig.cairn(&["outbox", "list"]).await] {
        assert!(!text.contains("AAFakeToken"), "{text}");
    }
}
