//! What goes wrong on demand: tokens, errors, silence, closed connections.

use serde_json::{Value, json};

use super::super::{Attachment, Say};
use super::{Bot, met};

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
}

#[tokio::test]
async fn an_unknown_method_is_not_found() {
    let (telegram, bot, _) = met().await;
    assert_eq!(bot.refused("sendNothing", json!({})).await, (404, "Not Found".to_owned()));
    assert_eq!(telegram.violations().len(), 1);
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
