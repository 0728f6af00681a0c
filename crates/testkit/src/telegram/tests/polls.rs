//! Offsets, rivals, what is told and what is not.

use serde_json::json;

use super::super::{FakeTelegram, Say};
use super::{Bot, ids, met, texts};

#[tokio::test]
async fn an_offset_confirms_and_forgets_all_below_it() {
    let (telegram, bot, alice) = met().await;
    telegram.say(alice.id, &alice, "again");
    let first = bot.updates(json!({})).await;
    assert_eq!(texts(&first), ["hello", "again"]);
    assert_eq!(bot.updates(json!({})).await, first, "nothing is confirmed without an offset");
    let rest = bot.updates(json!({ "offset": ids(&first)[1] })).await;
    assert_eq!(texts(&rest), ["again"]);
    assert_eq!(texts(&bot.updates(json!({ "offset": 0 })).await), ["again"]);
    assert!(bot.updates(json!({ "offset": ids(&first)[1] + 1 })).await.is_empty());
    assert_eq!(telegram.unconfirmed(), 0);
}

#[tokio::test]
async fn a_negative_offset_keeps_the_newest() {
    let (telegram, bot, alice) = met().await;
    telegram.say(alice.id, &alice, "two");
    telegram.say(alice.id, &alice, "three");
    assert_eq!(texts(&bot.updates(json!({ "offset": -2 })).await), ["two", "three"]);
    assert_eq!(texts(&bot.updates(json!({})).await), ["two", "three"]);
}

#[tokio::test]
async fn a_limit_bounds_a_batch_and_a_query_is_as_good_as_a_body() {
    let (telegram, bot, alice) = met().await;
    telegram.say(alice.id, &alice, "again");
    let url = format!("{}/GETUPDATES?limit=1&allowed_updates=%5B%22message%22%5D", bot.base);
    let body: serde_json::Value = bot.http.get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(texts(body["result"].as_array().unwrap()), ["hello"]);
}

#[tokio::test]
async fn a_long_poll_waits_for_the_first_update() {
    let (telegram, bot, alice) = met().await;
    let first = bot.updates(json!({})).await;
    let poll = tokio::spawn({
        let bot = Bot::of(&telegram);
        async move { bot.updates(json!({ "offset": ids(&first)[0] + 1, "timeout": 30 })).await }
    });
    telegram.wait_confirmed().await;
    assert!(!poll.is_finished());
    telegram.say(alice.id, &alice, "there");
    assert_eq!(texts(&poll.await.unwrap()), ["there"]);
}

#[tokio::test]
async fn a_second_poll_ends_the_first() {
    let telegram = FakeTelegram::start().await;
    let first = tokio::spawn({
        let bot = Bot::of(&telegram);
        async move { bot.refused("getUpdates", json!({ "timeout": 30 })).await }
    });
    telegram.wait_for("getUpdates", 1).await;
    let alice = telegram.person("Alice");
    let second = tokio::spawn({
        let bot = Bot::of(&telegram);
        async move { bot.updates(json!({ "timeout": 30 })).await }
    });
    let (status, text) = first.await.unwrap();
    assert_eq!(status, 409);
    assert!(text.starts_with("Conflict: terminated by other getUpdates request"), "{text}");
    telegram.say(alice.id, &alice, "hello");
    assert_eq!(second.await.unwrap().len(), 1);
}

#[tokio::test]
async fn another_program_and_a_webhook_end_polls() {
    let (telegram, bot, _) = met().await;
    let other = telegram.second_poller();
    assert_eq!(bot.refused("getUpdates", json!({ "timeout": 30 })).await.0, 409);
    drop(other);
    assert_eq!(bot.updates(json!({})).await.len(), 1);
    telegram.set_webhook();
    let (status, text) = bot.refused("getUpdates", json!({})).await;
    assert_eq!(status, 409);
    assert!(text.contains("webhook is active"), "{text}");
    bot.ok("deleteWebhook", json!({})).await;
    assert_eq!(bot.updates(json!({})).await.len(), 1);
}

#[tokio::test]
async fn ids_that_begin_again_are_delivered_whatever_the_offset() {
    let (telegram, bot, alice) = met().await;
    let mut offset = ids(&bot.updates(json!({})).await)[0] + 1;
    for round in ["lower", "higher", "lower again"] {
        telegram.restart_ids();
        telegram.say(alice.id, &alice, round);
        let updates = bot.updates(json!({ "offset": offset })).await;
        assert_eq!(texts(&updates), [round]);
        offset = ids(&updates)[0] + 1;
        assert!(bot.updates(json!({ "offset": offset })).await.is_empty());
    }
}

#[tokio::test]
async fn in_privacy_mode_the_bot_is_told_what_concerns_it() {
    let telegram = FakeTelegram::builder().privacy().start().await;
    let bot = Bot::of(&telegram);
    let alice = telegram.person("Alice");
    let hut = telegram.group("Hut");
    telegram.say(hut, &alice, "nothing to do with the bot");
    telegram.say(hut, &alice, Say::text("who are you?").mention());
    telegram.command(hut, &alice, "/help");
    let sent = bot.ok("sendMessage", super::message(hut, "hello")).await;
    telegram.say(hut, &alice, Say::text("thanks").reply_to(sent["message_id"].as_i64().unwrap()));
    telegram.say(alice.id, &alice, "privately");
    let updates = bot.updates(json!({})).await;
    let told = ["@cairn_test_bot who are you?", "/help@cairn_test_bot", "thanks", "privately"];
    assert_eq!(texts(&updates), told);
    assert_eq!(bot.ok("getMe", json!({})).await["can_read_all_group_messages"], false);
}

#[tokio::test]
async fn kinds_that_the_bot_does_not_want_are_not_told() {
    let (telegram, bot, alice) = met().await;
    bot.updates(json!({ "allowed_updates": ["message"] })).await;
    let message = telegram.say(alice.id, &alice, "one");
    telegram.edit(alice.id, message, "two");
    telegram.block(&alice);
    telegram.push_raw(json!({ "purchased_paid_media": {} }));
    let kinds: Vec<bool> =
        bot.updates(json!({})).await.iter().map(|update| update.get("message").is_some()).collect();
    assert_eq!(kinds, [true, true, false]);
}

#[tokio::test]
async fn a_webhook_is_refused_as_telegram_refuses_it() {
    let (telegram, bot, _) = met().await;
    telegram.lead("bot.example.org", ([127, 0, 0, 1], 1).into());
    let long = "x".repeat(257);
    for (params, said) in [
        (json!({ "url": "http://bot.example.org/" }), "An HTTPS URL must be provided"),
        (json!({ "url": "https://bot.example.org:9000/" }), "only on ports 80, 88, 443 or 8443"),
        (json!({ "url": "https://nowhere.example.org/" }), "Failed to resolve host"),
        (json!({ "url": "https://bot.example.org/", "secret_token": "a b" }), "unallowed characters"),
        (json!({ "url": "https://bot.example.org/", "secret_token": long }), "unallowed characters"),
    ] {
        let (status, text) = bot.refused("setWebhook", params).await;
        assert!(status == 400 && text.contains(said), "{text}");
    }
    assert_eq!(telegram.webhook(), None);
    assert_eq!(bot.updates(json!({})).await.len(), 1, "none of them is in the way of a poll");
}
