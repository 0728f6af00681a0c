//! What somebody must mend, and what mends itself: states in `cairn status` and lines in the log that say what to do.

use cairn_testkit::discord::{FakeDiscord, Fault};
use serde_json::{Value, json};

use crate::discord::rig::{ROOM, Rig, Setup};

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
    let run = rig.cairn_with(&["status"]).await;
    assert!(run.stdout.contains("discord   failed") && run.code == Some(0), "{run:?}");
    let shown = |key: &str, mark: &str| {
        let text = platform[key].as_str().unwrap_or_default();
        run.stdout.contains(&format!("          {mark} {text}"))
    };
    assert!(shown("reason", "!") && shown("hint", ">"), "{run:?}");
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
async fn a_token_that_is_revoked_is_a_clear_failure() {
    let rig = Rig::start().await;
    rig.ask(ROOM, "alice", "hello").await;
    rig.discord.set_revoked(true);
    assert_failed(&rig, "token", "token").await;
}

#[tokio::test]
async fn a_missing_intent_is_a_clear_failure() {
    let discord = FakeDiscord::builder().identify_every(std::time::Duration::ZERO).without_message_content();
    let mut rig = Setup { discord, ..Setup::default() }.build().await;
    rig.run().await;
    assert_failed(&rig, "intent", "message content").await;
}

#[tokio::test]
async fn a_gateway_of_another_host_gets_nothing() {
    let rig = Setup::default().build().await;
    let stranger = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    rig.discord.name_gateway(&format!("ws://{}", stranger.local_addr().unwrap()));
    // Without a gateway of its own in the configuration the API names it.
    let mut rig = rig.without_key("gateway_url");
    rig.run().await;
    assert_failed(&rig, "127.0.0.2", "gateway").await;
    let called = tokio::time::timeout(std::time::Duration::from_millis(1), stranger.accept()).await;
    assert!(called.is_err(), "somebody called the foreign gateway");
}

#[tokio::test]
async fn an_api_that_cannot_be_used_is_tried_again_until_it_can() {
    for fault in [Fault::Status(500), Fault::Html(502), Fault::Nothing, Fault::Garbage("[]".to_owned())] {
        let mut rig = Setup::default().build().await;
        rig.discord.fail_all(fault.clone());
        rig.run().await;
        let trouble = |platform: &Value| platform["reason"].is_string() && platform["state"] != "connected";
        let platform = rig.wait_platform("in trouble", trouble).await;
        assert_ne!(platform["state"], "failed", "{fault:?} passes by itself: {platform}");
        assert!(rig.log().contains("discord"), "{}", rig.log());
        rig.discord.fail_all(None);
        rig.discord.wait_ready().await;
        rig.wait_platform("connected", |platform| platform["state"] == "connected").await;
        rig.ask(ROOM, "alice", "hello").await;
        rig.assert_clean();
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_called_again() {
    let mut rig = Setup::default().build().await;
    rig.discord.set_unreachable(true);
    rig.run().await;
    let platform = rig.wait_platform("in trouble", |platform| platform["reason"].is_string()).await;
    let shown = rig.cairn_with(&["status"]).await.stdout;
    let why = format!("! {}", platform["reason"].as_str().unwrap());
    assert!(shown.contains(&why), "{why} is not in: {shown}");
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
async fn malformed_and_unknown_events_harm_nobody() {
    let rig = Rig::start().await;
    for data in [json!(null), json!({}), json!([1, 2]), json!({"id": "x", "channel_id": 7}), json!("text")] {
        for name in
            ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "GUILD_CREATE", "INTERACTION_CREATE"]
        {
            rig.discord.dispatch(name, data.clone());
        }
    }
    rig.discord.dispatch("SOMETHING_NEW", json!({"a": 1}));
    rig.ask(ROOM, "alice", "hello").await;
    assert_eq!(rig.discord.identified(), 1, "the session lasts");
    rig.assert_clean();
}

#[tokio::test]
async fn the_status_tells_how_it_is() {
    let rig = Rig::start().await;
    let early = rig.wait_platform("connected", |platform| platform["state"] == "connected").await;
    assert_eq!(early["name"], "cairn", "{early}");
    rig.ask(ROOM, "alice", "hello").await;
    let platform = rig.wait_platform("spoken", |platform| platform["last_outbound"].is_string()).await;
    for key in ["connected_since", "last_inbound"] {
        assert!(platform[key].is_string(), "{key}: {platform}");
    }
    assert_eq!((&platform["queue"], &platform["troubles"]), (&json!(0), &json!([])), "{platform}");
    let health = rig.client().get("/v1/health").await.unwrap();
    assert_eq!(health["platforms"][0]["state"], "connected", "{health}");
    let shown = rig.json_of(&["status"]).await;
    assert_eq!(shown["platforms"][0]["platform"], "discord", "{shown}");
    rig.assert_clean();
}
