//! What somebody must mend, and what mends itself: states in `cairn status` and lines in the log that say what to do.

use cairn_testkit::discord::{FakeDiscord, Fault};
use serde_json::{Value, json};

use crate::discord::house::{House, ROOM, Setup};

/// Failed, with a reason and a hint that name a word each; the rest of the daemon works.
async fn assert_failed(house: &House, reason: &str, hint: &str) {
    let platform = house.wait_platform("failed", |platform| platform["state"] == "failed").await;
    let text = |key: &str| platform[key].as_str().unwrap_or_default().to_lowercase();
    assert!(text("reason").contains(reason), "{platform}");
    assert!(text("hint").contains(hint), "{platform}");
    let (status, reply) = house.client().say("local-talk", "hello").await.unwrap();
    assert_eq!((status.as_u16(), &reply["reply"]), (200, &json!("echo: hello")), "{reply}");
    let health = house.client().get("/v1/health").await.unwrap();
    assert_eq!(health["status"], "ok", "{health}");
    let run = house.cairn_with(&["status"]).await;
    assert!(run.stdout.contains("discord   failed") && run.code == Some(0), "{run:?}");
    let shown = |key: &str, mark: &str| {
        let text = platform[key].as_str().unwrap_or_default();
        run.stdout.contains(&format!("          {mark} {text}"))
    };
    assert!(shown("reason", "!") && shown("hint", ">"), "{run:?}");
    assert!(house.log().to_lowercase().contains(hint), "the log does not say what to do: {}", house.log());
    house.assert_clean();
}

#[tokio::test]
async fn a_wrong_token_is_a_clear_failure() {
    let mut house = Setup { token: "not-the-token".to_owned(), ..Setup::default() }.build().await;
    house.run().await;
    assert_failed(&house, "token", "token").await;
    assert!(!house.log().contains("not-the-token"));
    assert_eq!(house.discord.connected(), 0, "without a good token there is nothing to connect for");
}

#[tokio::test]
async fn a_token_that_is_revoked_is_a_clear_failure() {
    let house = House::start().await;
    house.ask(ROOM, "alice", "hello").await;
    house.discord.set_revoked(true);
    assert_failed(&house, "token", "token").await;
}

#[tokio::test]
async fn a_missing_intent_is_a_clear_failure() {
    let discord = FakeDiscord::builder().identify_every(std::time::Duration::ZERO).without_message_content();
    let mut house = Setup { discord, ..Setup::default() }.build().await;
    house.run().await;
    assert_failed(&house, "intent", "message content").await;
}

#[tokio::test]
async fn a_gateway_of_another_host_gets_nothing() {
    let house = Setup::default().build().await;
    let stranger = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    house.discord.name_gateway(&format!("ws://{}", stranger.local_addr().unwrap()));
    // Without a gateway of its own in the configuration the API names it.
    let mut house = house.without_key("gateway_url");
    house.run().await;
    assert_failed(&house, "127.0.0.2", "gateway").await;
    let called = tokio::time::timeout(std::time::Duration::from_millis(1), stranger.accept()).await;
    assert!(called.is_err(), "somebody called the foreign gateway");
}

#[tokio::test]
async fn an_api_that_cannot_be_used_is_tried_again_until_it_can() {
    for fault in [Fault::Status(500), Fault::Html(502), Fault::Nothing, Fault::Garbage("[]".to_owned())] {
        let mut house = Setup::default().build().await;
        house.discord.fail_all(fault.clone());
        house.run().await;
        let trouble = |platform: &Value| platform["reason"].is_string() && platform["state"] != "connected";
        let platform = house.wait_platform("in trouble", trouble).await;
        assert_ne!(platform["state"], "failed", "{fault:?} passes by itself: {platform}");
        assert!(house.log().contains("discord"), "{}", house.log());
        house.discord.fail_all(None);
        house.discord.wait_ready().await;
        house.wait_platform("connected", |platform| platform["state"] == "connected").await;
        house.ask(ROOM, "alice", "hello").await;
        house.assert_clean();
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_called_again() {
    let mut house = Setup::default().build().await;
    house.discord.set_unreachable(true);
    house.run().await;
    let platform = house.wait_platform("in trouble", |platform| platform["reason"].is_string()).await;
    let shown = house.cairn_with(&["status"]).await.stdout;
    let why = format!("! {}", platform["reason"].as_str().unwrap());
    assert!(shown.contains(&why), "{why} is not in: {shown}");
    assert_eq!(house.client().get("/v1/health").await.unwrap()["status"], "ok", "it lives");
    house.discord.set_unreachable(false);
    house.discord.wait_ready().await;
    house.ask(ROOM, "alice", "hello").await;
    house.discord.set_unreachable(true);
    let lost = |platform: &Value| platform["state"] == "reconnecting";
    house.wait_platform("without a connection", lost).await;
    house.discord.set_unreachable(false);
    house.discord.wait_ready().await;
    house.ask(ROOM, "alice", "hello again").await;
    house.assert_clean();
}

#[tokio::test]
async fn malformed_and_unknown_events_harm_nobody() {
    let house = House::start().await;
    for data in [json!(null), json!({}), json!([1, 2]), json!({"id": "x", "channel_id": 7}), json!("text")] {
        for name in
            ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "GUILD_CREATE", "INTERACTION_CREATE"]
        {
            house.discord.dispatch(name, data.clone());
        }
    }
    house.discord.dispatch("SOMETHING_NEW", json!({"a": 1}));
    house.ask(ROOM, "alice", "hello").await;
    assert_eq!(house.discord.identified(), 1, "the session lasts");
    house.assert_clean();
}

#[tokio::test]
async fn the_status_tells_how_it_is() {
    let house = House::start().await;
    let early = house.wait_platform("connected", |platform| platform["state"] == "connected").await;
    assert_eq!(early["name"], "cairn", "{early}");
    house.ask(ROOM, "alice", "hello").await;
    let platform = house.wait_platform("spoken", |platform| platform["last_outbound"].is_string()).await;
    for key in ["connected_since", "last_inbound"] {
        assert!(platform[key].is_string(), "{key}: {platform}");
    }
    assert_eq!((&platform["queue"], &platform["troubles"]), (&json!(0), &json!([])), "{platform}");
    let health = house.client().get("/v1/health").await.unwrap();
    assert_eq!(health["platforms"][0]["state"], "connected", "{health}");
    let shown = house.json_of(&["status"]).await;
    assert_eq!(shown["platforms"][0]["platform"], "discord", "{shown}");
    house.assert_clean();
}
