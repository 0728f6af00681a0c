//! A connection that does not work: a clear state, a line in the log, and everything else goes on.

use cairn_testkit::telegram::Fault;
use serde_json::Value;

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
