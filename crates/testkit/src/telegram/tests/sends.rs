//! What may be sent, and what not.

use serde_json::{Value, json};

use super::super::{FakeTelegram, Rule, What};
use super::{Bot, message, met, rules, with};

fn entity(kind: &str, offset: usize, length: usize) -> Value {
    json!({ "type": kind, "offset": offset, "length": length })
}

#[tokio::test]
async fn a_text_has_one_to_4096_units() {
    let (telegram, bot, alice) = met().await;
    bot.ok("sendMessage", message(alice.id, &"😀".repeat(2048))).await;
    telegram.assert_clean();
    let long = format!("{}a", "😀".repeat(2048));
    assert_eq!(
        bot.refused("sendMessage", message(alice.id, &long)).await,
        (400, "Bad Request: message is too long".to_owned())
    );
    assert_eq!(
        bot.refused("sendMessage", message(alice.id, " \n")).await,
        (400, "Bad Request: message text is empty".to_owned())
    );
    assert_eq!(rules(&telegram), [Rule::Length, Rule::Length]);
}

#[tokio::test]
async fn entities_lie_in_the_text_and_nest_as_they_may() {
    let (telegram, bot, alice) = met().await;
    let text = "😀 bold and code";
    let send = |entities: Value| with(message(alice.id, text), "entities", entities);
    let good = [
        json!([entity("bold", 0, 16), entity("italic", 3, 4)]),
        json!([entity("blockquote", 0, 16), entity("code", 12, 4)]),
        json!([entity("bold", 0, 11), entity("pre", 12, 4)]),
    ];
    for entities in good {
        bot.ok("sendMessage", send(entities)).await;
    }
    telegram.assert_clean();
    let bad = [
        json!([entity("bold", 12, 5)]),
        json!([entity("bold", 1, 3)]),
        json!([entity("bold", 0, 8), entity("italic", 4, 9)]),
        json!([entity("bold", 0, 16), entity("code", 12, 4)]),
        json!([entity("blockquote", 0, 16), entity("expandable_blockquote", 3, 4)]),
        json!([entity("bold", 3, 0)]),
        json!([entity("loud", 3, 4)]),
        json!([entity("text_link", 3, 4)]),
        Value::Array((0..101).map(|_| entity("bold", 3, 4)).collect()),
    ];
    let n = bad.len();
    for entities in bad {
        assert_eq!(bot.refused("sendMessage", send(entities)).await.0, 400);
    }
    assert_eq!(rules(&telegram), vec![Rule::Entities; n]);
}

#[tokio::test]
async fn markup_previews_and_mentions_are_violations() {
    let (telegram, bot, alice) = met().await;
    bot.ok("sendMessage", json!({ "chat_id": alice.id, "text": "no preview options" })).await;
    bot.ok("sendMessage", with(message(alice.id, "*bold*"), "parse_mode", json!("MarkdownV2"))).await;
    bot.ok("sendMessage", message(alice.id, "hello @alice")).await;
    let link = json!([{ "type": "text_link", "offset": 0, "length": 5, "url": "tg://user?id=1" }]);
    bot.ok("sendMessage", with(message(alice.id, "hello"), "entities", link)).await;
    let wanted = [Rule::LinkPreview, Rule::ParseMode, Rule::Mention, Rule::Mention];
    assert_eq!(rules(&telegram), wanted);
    let harmless = ["me@alice.example", "I am @cairn_test_bot", "@\u{2060}alice", "@ alice"];
    for text in harmless {
        bot.ok("sendMessage", message(alice.id, text)).await;
    }
    let code = json!([entity("code", 0, 6)]);
    bot.ok("sendMessage", with(message(alice.id, "@alice"), "entities", code)).await;
    assert_eq!(rules(&telegram), wanted);
}

#[tokio::test]
async fn only_own_messages_are_edited_and_only_to_something_else() {
    let (telegram, bot, alice) = met().await;
    let sent = bot.ok("sendMessage", message(alice.id, "draft")).await["message_id"].clone();
    let edit = |id: &Value, text: &str| with(message(alice.id, text), "message_id", id.clone());
    bot.ok("editMessageText", edit(&sent, "final")).await;
    let (status, text) = bot.refused("editMessageText", edit(&sent, "final")).await;
    assert_eq!(status, 400);
    assert!(text.contains("message is not modified"), "{text}");
    telegram.assert_clean();
    assert_eq!(telegram.edits(alice.id, sent.as_i64().unwrap()), ["final"]);
    assert_eq!(telegram.sent(alice.id)[0].text, "final");
    assert_eq!(
        bot.refused("editMessageText", edit(&json!(99), "x")).await.1,
        "Bad Request: message to edit not found"
    );
    assert_eq!(bot.refused("editMessageText", edit(&json!(1), "x")).await.0, 400);
    assert_eq!(rules(&telegram), [Rule::Foreign]);
}

#[tokio::test]
async fn a_reply_to_nothing_is_refused_unless_it_may_go_without() {
    let (telegram, bot, alice) = met().await;
    let reply = |id: i64, without: bool| {
        let parameters = json!({ "message_id": id, "allow_sending_without_reply": without });
        with(message(alice.id, "reply"), "reply_parameters", parameters)
    };
    let answer = bot.ok("sendMessage", reply(1, true)).await;
    assert_eq!(answer["reply_to_message"]["text"], "hello");
    telegram.delete(alice.id, 1);
    assert_eq!(bot.ok("sendMessage", reply(1, true)).await.get("reply_to_message"), None);
    let refused = bot.refused("sendMessage", reply(1, false)).await;
    assert_eq!(refused, (400, "Bad Request: message to be replied not found".to_owned()));
    let replies: Vec<_> = telegram.sent(alice.id).iter().map(|sent| sent.reply_to).collect();
    assert_eq!(replies, [Some(1), None]);
}

#[tokio::test]
async fn chats_topics_and_bans_say_why_nothing_can_be_sent() {
    let (telegram, bot, alice) = met().await;
    let stranger = telegram.person("Stranger");
    let (hut, forum, quiet) = (telegram.group("Hut"), telegram.forum("Forum"), telegram.supergroup("Quiet"));
    let topic = telegram.topic(forum, &alice, "Weather");
    let topical = |thread: i64| with(message(forum, "x"), "message_thread_id", json!(thread));
    assert_eq!(bot.ok("sendMessage", topical(topic)).await["message_thread_id"], topic);
    telegram.close_topic(forum, topic);
    telegram.mute(quiet);
    telegram.block(&alice);
    telegram.kick(forum, &alice);
    let refused = async |params| bot.refused("sendMessage", params).await;
    let bad = |text: &str| (400, format!("Bad Request: {text}"));
    assert_eq!(refused(message(1, "x")).await, bad("chat not found"));
    assert_eq!(refused(message(stranger.id, "x")).await, bad("chat not found"));
    assert_eq!(
        refused(message(quiet, "x")).await,
        bad("not enough rights to send text messages to the chat")
    );
    assert_eq!(
        refused(message(alice.id, "x")).await,
        (403, "Forbidden: bot was blocked by the user".to_owned())
    );
    assert_eq!(
        refused(topical(topic)).await,
        (403, "Forbidden: bot was kicked from the supergroup chat".to_owned())
    );
    let new = telegram.migrate(hut, &alice);
    let (status, body) = bot.ask("sendMessage", message(hut, "x")).await;
    assert_eq!((status, &body["parameters"]["migrate_to_chat_id"]), (400, &json!(new)), "{body}");
    telegram.unblock(&alice);
    bot.ok("sendMessage", message(alice.id, "back")).await;
    telegram.assert_clean();
}

#[tokio::test]
async fn closed_and_missing_topics_are_refused() {
    let (telegram, bot, alice) = met().await;
    let forum = telegram.forum("Forum");
    let topic = telegram.topic(forum, &alice, "Weather");
    telegram.close_topic(forum, topic);
    let topical = |thread: i64| with(message(forum, "x"), "message_thread_id", json!(thread));
    assert_eq!(bot.refused("sendMessage", topical(topic)).await.1, "Bad Request: TOPIC_CLOSED");
    assert_eq!(bot.refused("sendMessage", topical(99)).await.1, "Bad Request: message thread not found");
}

#[tokio::test]
async fn typing_messages_and_edits_are_seen_in_order() {
    let (telegram, bot, alice) = met().await;
    bot.ok("sendChatAction", json!({ "chat_id": alice.id, "action": "typing" })).await;
    bot.ok("sendMessage", message(alice.id, "draft")).await;
    bot.ok("EditMessageText", with(message(alice.id, "final"), "message_id", json!(2))).await;
    assert_eq!(telegram.acts(alice.id), [What::Said(1), What::Typing, What::Sent(2), What::Edited(2)]);
    let (status, _) = bot.refused("sendChatAction", json!({ "chat_id": alice.id, "action": "hum" })).await;
    assert_eq!((status, rules(&telegram)), (400, vec![Rule::Shape]));
}

#[tokio::test]
async fn sending_before_retry_after_is_over_is_a_violation() {
    let (telegram, bot, alice) = met().await;
    telegram.rate_limit(alice.id, 600);
    let (status, body) = bot.ask("sendMessage", message(alice.id, "x")).await;
    assert_eq!((status, &body["parameters"]["retry_after"]), (429, &json!(600)), "{body}");
    telegram.assert_clean();
    assert_eq!(bot.refused("sendMessage", message(alice.id, "x")).await.0, 429);
    assert_eq!(rules(&telegram), [Rule::RetryAfter]);
    assert!(telegram.sent(alice.id).is_empty());
}

#[tokio::test]
async fn where_rates_are_limited_the_second_message_at_once_is_refused() {
    let telegram = FakeTelegram::builder().limit_rates().start().await;
    let (bot, hut, lake) = (Bot::of(&telegram), telegram.group("Hut"), telegram.group("Lake"));
    bot.ok("sendMessage", message(hut, "one")).await;
    // Where the machine is too slow for "at once", the next one is refused.
    let mut refused = false;
    for _ in 0..30 {
        refused = refused || bot.ask("sendMessage", message(hut, "two")).await.0 == 429;
    }
    assert!(refused);
    bot.ok("sendMessage", message(lake, "another chat is not held up")).await;
}

#[tokio::test]
async fn commands_have_plain_names_and_short_descriptions() {
    let (telegram, bot, _) = met().await;
    let one = |name: &str, description: &str| json!({ "commands": [{ "command": name, "description": description }] });
    bot.ok("setMyCommands", one("context", "Shows what the model sees.")).await;
    assert_eq!(telegram.commands("default")[0].0, "context");
    for (name, description) in [("Context", "x"), ("a-b", "x"), ("", "x"), ("context", "")] {
        assert_eq!(bot.refused("setMyCommands", one(name, description)).await.0, 400);
    }
    assert_eq!(rules(&telegram), [Rule::Commands; 4]);
}
