//! The webhook: what Telegram sends is answered once it is durable, and nothing that anybody else sends is taken in.

use std::net::SocketAddr;
use std::time::Duration;

use crate::telegram::TelegramSettings;
use cairn_testkit::free_address;
use cairn_testkit::runtime::text;
use cairn_testkit::telegram::{FakeTelegram, Say};
use cairn_types::ports::{LinkState, Platform as _};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::telegram::{Rig, open_to};

const HOST: &str = "bot.example.org";
const HEADER: &str = "X-Telegram-Bot-Api-Secret-Token";

fn by_webhook(settings: &mut TelegramSettings) {
    settings.webhook_url = Some(format!("https://{HOST}/hook"));
}

/// Serves the webhook of an adapter as the daemon does; the address.
async fn listen(rig: &Rig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = rig.telegram.webhook().expect("it has a webhook");
    tokio::spawn(async move { axum::serve(listener, router).await });
    rig.fake.lead(HOST, address);
    address
}

async fn started() -> (Rig, SocketAddr) {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), by_webhook);
    let address = listen(&rig).await;
    rig.run();
    rig.fake.wait_until("a webhook", |fake| fake.webhook().is_some()).await;
    (rig, address)
}

/// Posts to the webhook; the answer.
async fn post(address: SocketAddr, secret: Option<&str>, body: impl Into<reqwest::Body>) -> StatusCode {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(format!("http://{address}/hook?cairn")).body(body);
    if let Some(secret) = secret {
        request = request.header(HEADER, secret);
    }
    request.send().await.unwrap().status()
}

fn update(id: i64, chat: i64, message: i64, said: &str) -> Value {
    let from = json!({ "id": chat, "is_bot": false, "first_name": "Ann" });
    let chat = json!({ "id": chat, "type": "private", "first_name": "Ann" });
    let date = jiff::Timestamp::UNIX_EPOCH.as_second();
    let message = json!({ "message_id": message, "from": from, "chat": chat, "date": date, "text": said });
    json!({ "update_id": id, "message": message })
}

#[tokio::test]
async fn updates_come_by_the_webhook_and_nothing_is_asked_for() {
    let (rig, _) = started().await;
    let polls = rig.fake.calls("getUpdates").len();
    let (ann, bob) = (rig.fake.person("Ann"), rig.fake.person("Bob"));
    for n in 1..=3 {
        rig.fake.say(ann.id, &ann, format!("Ann {n}"));
        rig.fake.say(bob.id, &bob, format!("Bob {n}"));
    }
    rig.fake.wait_confirmed().await;
    let taken = rig.runtime.wait_taken(6).await;
    for name in ["Ann", "Bob"] {
        let said: Vec<_> = taken.iter().map(text).filter(|said| said.starts_with(name)).collect();
        assert_eq!(said, [1, 2, 3].map(|n| format!("{name} {n}")), "Telegram's order within a chat");
    }
    assert_eq!(rig.fake.calls("getUpdates").len(), polls);
    let set = &rig.fake.calls("setWebhook")[0].params;
    assert_eq!(set["max_connections"], 100);
    assert_eq!(set["allowed_updates"], rig.fake.calls("getUpdates")[0].params["allowed_updates"]);
    let secret = rig.fake.webhook_secret().unwrap();
    assert!(
        secret.len() == 64 && !rig.fake.token().contains(&secret),
        "made of the token, and not the token"
    );
    assert_eq!(rig.telegram.status().state, LinkState::Connected);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn an_update_is_answered_once_it_is_durable_and_not_before() {
    let (rig, address) = started().await;
    let secret = rig.fake.webhook_secret().unwrap();
    let gate = rig.runtime.hold(7);
    let body = update(1, 7, 1, "keep this").to_string();
    let first = tokio::spawn({
        let (secret, body) = (secret.clone(), body.clone());
        async move { post(address, Some(&secret), body).await }
    });
    rig.runtime.wait_until("the update at the gate", |state| state.at_gates > 0).await;
    // A second copy, as after an answer that was lost, waits for the same update.
    let second = tokio::spawn(async move { post(address, Some(&secret), body).await });
    tokio::task::yield_now().await;
    assert!(!first.is_finished() && !second.is_finished());
    gate.pass(1);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(rig.runtime.state.lock().taken.len(), 1, "it was taken in once");
}

#[tokio::test]
async fn an_update_that_comes_twice_is_taken_in_once() {
    let (rig, address) = started().await;
    let secret = rig.fake.webhook_secret().unwrap();
    let body = update(1, 7, 1, "once").to_string();
    for _ in 0..2 {
        assert_eq!(post(address, Some(&secret), body.clone()).await, StatusCode::OK);
    }
    assert_eq!(rig.runtime.state.lock().taken.len(), 1);
}

#[tokio::test]
async fn what_is_not_telegrams_is_refused() {
    let (rig, address) = started().await;
    let secret = rig.fake.webhook_secret().unwrap();
    let body = update(1, 7, 1, "let me in").to_string();
    let wrong = secret.replacen(|_: char| true, "x", 1);
    for told in [None, Some(""), Some(wrong.as_str()), Some(&secret[1..])] {
        assert_eq!(post(address, told, body.clone()).await, StatusCode::UNAUTHORIZED, "{told:?}");
    }
    assert_eq!(post(address, Some(&secret), "no update").await, StatusCode::BAD_REQUEST);
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(post(address, Some(&secret), long).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(rig.runtime.state.lock().taken.is_empty());
    // What has no number or no form is of no use however often it comes.
    for body in [json!({}), json!({ "update_id": 5, "message": { "chat": 1 } })] {
        assert_eq!(post(address, Some(&secret), body.to_string()).await, StatusCode::OK, "{body}");
    }
}

#[tokio::test]
async fn while_the_bot_does_not_run_telegram_is_to_repeat_what_it_sends() {
    let (mut rig, address) = started().await;
    let secret = rig.fake.webhook_secret().unwrap();
    let ann = rig.fake.person("Ann");
    let running = rig.running.take().unwrap();
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(
        post(address, Some(&secret), update(1, 7, 1, "early").to_string()).await,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let before = rig.fake.deliveries();
    rig.fake.say(ann.id, &ann, Say::text("are you there?"));
    rig.fake.wait_until("a refusal", |fake| fake.deliveries() > before).await;
    assert_eq!(rig.fake.unconfirmed(), 1);
    rig.run();
    assert_eq!(text(&rig.runtime.wait_taken(1).await[0]), "are you there?");
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn what_was_missed_is_polled_before_the_webhook_is_set() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), by_webhook);
    let ann = rig.fake.person("Ann");
    for n in 0..130 {
        rig.fake.say(ann.id, &ann, format!("{n}"));
    }
    listen(&rig).await;
    rig.run();
    let taken = rig.runtime.wait_taken(130).await;
    assert_eq!(
        taken.iter().map(text).collect::<Vec<_>>(),
        (0..130).map(|n| n.to_string()).collect::<Vec<_>>()
    );
    let asks = taken.iter().filter(|inbound| inbound.addressed).count();
    assert!(asks <= 3, "each batch is one turn, as when it is polled: {asks} of 130 ask");
    rig.fake.wait_until("a webhook", |fake| fake.webhook().is_some()).await;
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn polling_again_deletes_the_webhook_that_cairn_has_set_and_no_other() {
    let (mut rig, _) = started().await;
    rig.make_again(|_| {});
    rig.run();
    rig.fake.wait_for("deleteWebhook", 1).await;
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "by a poll");
    assert_eq!(text(&rig.runtime.wait_taken(1).await[0]), "by a poll");
    rig.fake.wait_confirmed().await;
    rig.make_again(|_| {});
    rig.fake.set_webhook();
    rig.run();
    let failure = rig.failure().await;
    assert!(failure.lasting && failure.reason.contains("a webhook is set"), "{failure}");
    assert_eq!(rig.fake.calls("deleteWebhook").len(), 1, "that of another service is left alone");
}

#[tokio::test]
async fn an_address_that_telegram_refuses_ends_the_run_with_its_reason() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), by_webhook);
    rig.run();
    let failure = rig.failure().await;
    assert!(failure.lasting && failure.reason.contains("Failed to resolve host"), "{failure}");
    assert!(failure.hint.contains("webhook_url"), "{failure}");
}

#[tokio::test]
async fn a_webhook_that_telegram_cannot_reach_or_that_is_gone_shows() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| {
        by_webhook(settings);
        settings.look_every = Duration::from_millis(20);
    });
    rig.fake.lead(HOST, free_address());
    rig.run();
    rig.fake.wait_until("a webhook", |fake| fake.webhook().is_some()).await;
    assert_eq!(rig.telegram.status().state, LinkState::Connected);
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "hello?");
    // It is looked at with every delivery that fails.
    let shown = |_: &FakeTelegram| rig.telegram.status().state == LinkState::Reconnecting;
    rig.fake.wait_until("the state to show it", shown).await;
    let reason = rig.telegram.status().reason.unwrap();
    assert!(reason.contains("Connection refused"), "{reason}");
    rig.fake.set_webhook();
    let failure = rig.failure().await;
    assert!(failure.lasting && failure.reason.contains("not the one that cairn has set"), "{failure}");
}
