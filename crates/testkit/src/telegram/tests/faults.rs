//! What goes wrong on demand: tokens, errors, silence, closed connections.

use serde_json::{Value, json};

use super::super::{Attachment, Fault, Say, Stage};
use super::{Bot, message, met};

#[tokio::test]
async fn a_wrong_or_revoked_token_is_unauthorized() {
    let (telegram, bot, _) = met().await;
    let base = format!("{}/bot7000000001:AAother", telegram.api_url());
    let other = Bot { http: reqwest::Client::new(), base };
    let unauthorized = (401, "Unauthorized".to_owned());
    assert_eq!(other.refused("getMe", json!({})).await, unauthorized);
    bot.ok("getMe", json!({})).await;
    telegram.revoke_token();
    assert_eq!(bot.refused("getMe", json!({})).await, unauthorized);
    telegram.restore_token();
    bot.ok("getMe", json!({})).await;
    assert_eq!(telegram.strangers(), 2);
}

#[tokio::test]
async fn an_unknown_method_is_not_found() {
    let (telegram, bot, _) = met().await;
    assert_eq!(bot.refused("sendNothing", json!({})).await, (404, "Not Found".to_owned()));
    assert_eq!(telegram.violations().len(), 1);
}

#[tokio::test]
async fn faults_are_met_once_or_always() {
    let (telegram, bot, alice) = met().await;
    telegram.fail_next("sendMessage", Fault::internal());
    telegram.fail_next("sendMessage", Fault::flood(7));
    let send = message(alice.id, "x");
    assert_eq!(bot.refused("sendMessage", send.clone()).await, (500, "Internal Server Error".to_owned()));
    let (status, body) = bot.ask("SendMessage", send.clone()).await;
    assert_eq!((status, &body["parameters"]["retry_after"]), (429, &json!(7)));
    telegram.fail_always("*", Fault::Html);
    let response = bot.http.get(format!("{}/getMe", bot.base)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 502);
    assert!(response.text().await.unwrap().contains("<html>"));
    telegram.mend("*");
    bot.ok("sendMessage", send).await;
    assert_eq!(telegram.sent(alice.id).len(), 1);
}

#[tokio::test]
async fn a_connection_is_closed_before_or_after_the_deed() {
    let (telegram, bot, alice) = met().await;
    for (fault, n) in [(Fault::CloseBefore, 0), (Fault::CloseAfter, 1)] {
        telegram.fail_next("sendMessage", fault);
        let url = format!("{}/sendMessage", bot.base);
        let answer = bot.http.post(url).json(&message(alice.id, "x")).send().await;
        assert!(answer.is_err(), "{answer:?}");
        assert_eq!(telegram.sent(alice.id).len(), n);
    }
}

#[tokio::test]
async fn a_request_is_held_before_or_after_the_deed() {
    let (telegram, _, alice) = met().await;
    for (stage, n) in [(Stage::Before, 0), (Stage::After, 2)] {
        let gate = telegram.hold("sendMessage", stage);
        let (bot, chat) = (Bot::of(&telegram), alice.id);
        let request = tokio::spawn(async move { bot.ok("sendMessage", message(chat, "x")).await });
        let m = telegram.calls("sendMessage").len();
        match stage {
            Stage::Before => telegram.wait_for("sendMessage", m.max(1)).await,
            Stage::After => drop(telegram.wait_sent(alice.id, n).await),
        }
        assert_eq!(telegram.sent(alice.id).len(), n);
        assert!(!request.is_finished());
        gate.open();
        request.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_down_refuses_connections_and_comes_back() {
    let (telegram, bot, _) = met().await;
    bot.ok("getMe", json!({})).await;
    telegram.go_down();
    let answer = bot.http.get(format!("{}/getMe", bot.base)).send().await;
    assert!(answer.is_err(), "{answer:?}");
    telegram.come_back().await;
    bot.ok("getMe", json!({})).await;
}

#[tokio::test]
async fn files_up_to_20_mb_are_downloaded() {
    let (telegram, bot, alice) = met().await;
    let document =
        Attachment::Document { name: "a.txt".into(), mime: "text/plain".into(), bytes: b"words".to_vec() };
    telegram.say(alice.id, &alice, Say::text("look").with(document));
    telegram.say(
        alice.id,
        &alice,
        Say::text("").with(Attachment::Huge { name: "h".into(), size: 100 << 20 }),
    );
    let updates = bot.updates(json!({})).await;
    let file = |n: usize| json!({ "file_id": updates[n]["message"]["document"]["file_id"] });
    let path = bot.ok("getFile", file(1)).await["file_path"].as_str().unwrap().to_owned();
    let get = async |path: &str| {
        let url = format!("{}/file/bot{}/{path}", telegram.api_url(), telegram.token());
        bot.http.get(url).send().await.unwrap().bytes().await.unwrap()
    };
    assert_eq!(get(&path).await, "words");
    assert_eq!(get(&path.replace('/', "%2F")).await, "words", "as teloxide writes it");
    assert_eq!(bot.refused("getFile", file(2)).await, (400, "Bad Request: file is too big".to_owned()));
    let unknown: Value = json!({ "file_id": "none" });
    assert_eq!(bot.refused("getFile", unknown).await.0, 400);
}
