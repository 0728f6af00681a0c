//! Keyboards, presses and their answers.

use serde_json::{Value, json};
use teloxide::types::{Update, UpdateKind};

use super::super::{Rule, Told};
use super::{message, met, rules, with};

fn button(text: &str, data: &str) -> Value {
    json!({ "text": text, "callback_data": data })
}

fn keyboard(buttons: &[Value]) -> Value {
    json!({ "inline_keyboard": [buttons] })
}

#[tokio::test]
async fn a_press_is_told_in_the_librarys_terms_and_answered_once() {
    let (telegram, bot, alice) = met().await;
    let question = with(message(alice.id, "may I?"), "reply_markup", keyboard(&[button("Yes", "approve:x")]));
    let id = bot.ok("sendMessage", question).await["message_id"].as_i64().unwrap();
    assert_eq!(telegram.sent(alice.id)[0].buttons, [("Yes".to_owned(), "approve:x".to_owned())]);
    let unwanted = bot.updates(json!({ "allowed_updates": ["message"] })).await.len();
    telegram.press(alice.id, id, "Yes", &alice);
    assert_eq!(bot.updates(json!({})).await.len(), unwanted, "nobody asked for presses");
    bot.updates(json!({ "allowed_updates": ["message", "callback_query"] })).await;
    let press = telegram.press(alice.id, id, "Yes", &alice);
    let update = bot.updates(json!({})).await.pop().unwrap();
    let parsed: Update = serde_json::from_str(&update.to_string()).unwrap();
    let UpdateKind::CallbackQuery(query) = parsed.kind else { panic!("{update}") };
    assert_eq!((query.id.0.as_str(), query.data.as_deref()), (press.as_str(), Some("approve:x")));
    assert_eq!(query.from.first_name, "Alice");
    let answer = json!({ "callback_query_id": press, "text": "fine", "show_alert": true });
    bot.ok("answerCallbackQuery", answer.clone()).await;
    assert_eq!(telegram.told(&press), Some(Told { text: "fine".to_owned(), alert: true }));
    assert!(bot.refused("answerCallbackQuery", answer).await.1.contains("query ID is invalid"));
    telegram.assert_clean();
    bot.refused("answerCallbackQuery", json!({ "callback_query_id": "1" })).await;
    bot.refused("answerCallbackQuery", json!({ "callback_query_id": press, "text": "x".repeat(201) })).await;
    assert_eq!(rules(&telegram), [Rule::Callback, Rule::Callback]);
}

#[tokio::test]
async fn an_edit_without_a_keyboard_takes_it_away() {
    let (telegram, bot, alice) = met().await;
    let asked = |text: &str| with(message(alice.id, text), "reply_markup", keyboard(&[button("Yes", "y")]));
    let id = bot.ok("sendMessage", asked("may I?")).await["message_id"].clone();
    let edit = |params: Value| with(params, "message_id", id.clone());
    bot.ok("editMessageText", edit(asked("may I, please?"))).await;
    assert_eq!(telegram.sent(alice.id)[0].buttons.len(), 1);
    bot.ok("editMessageText", edit(message(alice.id, "may I, please?"))).await;
    assert!(telegram.sent(alice.id)[0].buttons.is_empty());
    assert_eq!(telegram.edits(alice.id, id.as_i64().unwrap()), ["may I, please?"]);
    let bare = edit(json!({ "chat_id": alice.id }));
    let (_, text) = bot.refused("editMessageReplyMarkup", bare.clone()).await;
    assert!(text.contains("message is not modified"), "{text}");
    let put = with(bare.clone(), "reply_markup", keyboard(&[button("No", "n")]));
    bot.ok("editMessageReplyMarkup", put).await;
    bot.ok("editMessageReplyMarkup", bare).await;
    assert!(telegram.sent(alice.id)[0].buttons.is_empty());
    telegram.assert_clean();
}

#[tokio::test]
async fn malformed_keyboards_are_refused() {
    let (telegram, bot, alice) = met().await;
    let bad = [
        keyboard(&[button("Yes", &"x".repeat(65))]),
        keyboard(&[button("Yes", "")]),
        keyboard(&[button(" ", "y")]),
        keyboard(&[json!({ "text": "Yes" })]),
        keyboard(&[json!({ "text": "Yes", "callback_data": "y", "url": "https://a.example" })]),
        json!({ "inline_keyboard": [button("Yes", "y")] }),
        json!({ "keyboard": [["Yes"]] }),
        keyboard(&vec![button("Yes", "y"); 101]),
    ];
    for markup in &bad {
        bot.refused("sendMessage", with(message(alice.id, "may I?"), "reply_markup", markup.clone())).await;
    }
    assert_eq!(rules(&telegram), vec![Rule::Keyboard; bad.len()]);
    assert!(telegram.sent(alice.id).is_empty());
    bot.ok(
        "sendMessage",
        with(message(alice.id, "fine"), "reply_markup", keyboard(&[button("Y", &"x".repeat(64))])),
    )
    .await;
}
