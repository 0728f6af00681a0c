//! Updates are what a client library understands, and say what happened.

use serde_json::{Value, json};
use teloxide::types::{ChatMemberStatus, MessageEntityKind, Update, UpdateKind};

use super::super::{Attachment, FakeTelegram, Say};
use super::{Bot, met};

/// All updates, each understood by the library.
async fn understood(bot: &Bot) -> Vec<Update> {
    let updates = bot.updates(json!({})).await;
    let read = |update: Value| {
        let parsed: Update = serde_json::from_str(&update.to_string()).unwrap();
        assert!(!matches!(parsed.kind, UpdateKind::Error(_)), "not understood: {update}");
        parsed
    };
    updates.into_iter().map(read).collect()
}

fn message(update: &Update) -> &teloxide::types::Message {
    match &update.kind {
        UpdateKind::Message(message) | UpdateKind::EditedMessage(message) => message,
        other => panic!("no message: {other:?}"),
    }
}

#[tokio::test]
async fn words_come_with_author_chat_and_entities() {
    let telegram = FakeTelegram::start().await;
    let bot = Bot::of(&telegram);
    let alice = telegram.person("Alice");
    let hut = telegram.supergroup("Hut");
    telegram.say(hut, &alice, Say::text("😀 Cairn, look").text_mention(&telegram.bot()).mention());
    telegram.command(hut, &alice, "/remember the hut");
    let updates = understood(&bot).await;
    let first = message(&updates[0]);
    assert_eq!(first.from.as_ref().unwrap().first_name, "Alice");
    assert!(first.chat.is_supergroup());
    let kinds: Vec<String> = first
        .parse_entities()
        .unwrap()
        .iter()
        .map(|entity| match entity.kind() {
            MessageEntityKind::Mention => format!("mention {}", entity.text()),
            MessageEntityKind::TextMention { user } => format!("{} {}", user.id, entity.text()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["mention @cairn_test_bot", "7000000001 Cairn"]);
    let second = message(&updates[1]);
    assert_eq!(second.text(), Some("/remember@cairn_test_bot the hut"));
    assert_eq!(second.parse_entities().unwrap()[0].text(), "/remember@cairn_test_bot");
}

#[tokio::test]
async fn topics_and_replies_have_their_threads() {
    let (telegram, bot, alice) = met().await;
    let forum = telegram.forum("Forum");
    let topic = telegram.topic(forum, &alice, "Weather");
    telegram.say(forum, &alice, Say::text("in the topic").topic(topic));
    let general = telegram.say(forum, &alice, "in general");
    telegram.say(forum, &alice, Say::text("a reply").reply_to(general));
    let plain = telegram.supergroup("Plain");
    let root = telegram.say(plain, &alice, "root");
    telegram.say(plain, &alice, Say::text("a reply").reply_to(root));
    let updates = understood(&bot).await;
    let seen: Vec<(bool, Option<i32>, bool)> = updates[2..]
        .iter()
        .map(message)
        .map(|m| (m.is_topic_message, m.thread_id.map(|id| id.0.0), m.reply_to_message().is_some()))
        .collect();
    let topic = Some(i32::try_from(topic).unwrap());
    assert_eq!(
        seen,
        [
            (true, topic, true),
            (false, None, false),
            (false, None, true),
            (false, None, false),
            (false, Some(i32::try_from(root).unwrap()), true),
        ],
        "a topic's first message is what everything in it answers; replies make threads without topics"
    );
}

#[tokio::test]
async fn attachments_come_with_their_captions() {
    let (telegram, bot, alice) = met().await;
    telegram.say(alice.id, &alice, Say::text("a picture").with(Attachment::Photo(vec![1; 4000])));
    telegram.say(alice.id, &alice, Say::text("").with(Attachment::Sticker("🪨".into())));
    telegram.say(alice.id, &alice, Say::text("").with(Attachment::Voice(3)));
    telegram.say(
        alice.id,
        &alice,
        Say::text("").with(Attachment::Huge { name: "h".into(), size: 100 << 20 }),
    );
    let updates = understood(&bot).await;
    let messages: Vec<_> = updates[1..].iter().map(message).collect();
    assert_eq!(messages[0].caption(), Some("a picture"));
    let sizes = messages[0].photo().unwrap();
    assert_eq!(sizes.last().unwrap().file.size, 4000, "the largest comes last");
    assert!(messages[1].sticker().is_some());
    assert!(messages[2].voice().is_some());
    assert_eq!(messages[3].document().unwrap().file.size, 100 << 20);
}

#[tokio::test]
async fn edits_joins_moves_and_blocks_are_told() {
    let (telegram, bot, alice) = met().await;
    telegram.edit(alice.id, 1, "hello there");
    let hut = telegram.group("Hut");
    telegram.join(hut, &alice);
    let new = telegram.migrate(hut, &alice);
    telegram.block(&alice);
    let updates = understood(&bot).await;
    assert!(matches!(updates[1].kind, UpdateKind::EditedMessage(_)));
    assert_eq!(message(&updates[1]).text(), Some("hello there"));
    assert_eq!(message(&updates[2]).new_chat_members().unwrap()[0].first_name, "Alice");
    assert_eq!(message(&updates[3]).migrate_to_chat_id().unwrap().0, new);
    assert_eq!(message(&updates[3]).chat.id.0, hut);
    assert_eq!(message(&updates[4]).migrate_from_chat_id().unwrap().0, hut);
    assert_eq!(message(&updates[4]).chat.id.0, new);
    let UpdateKind::MyChatMember(change) = &updates[5].kind else { panic!("{:?}", updates[5]) };
    assert_eq!(change.new_chat_member.status(), ChatMemberStatus::Banned);
}

#[tokio::test]
async fn what_is_sent_is_understood_too() {
    let (telegram, bot, alice) = met().await;
    let answer = bot.ok("sendMessage", super::message(alice.id, "see https://example.org and /help")).await;
    let message: teloxide::types::Message = serde_json::from_value(answer).unwrap();
    assert_eq!(message.entities().unwrap().len(), 2);
    let me: teloxide::types::Me = serde_json::from_value(bot.ok("getMe", json!({})).await).unwrap();
    assert_eq!(me.username(), telegram.username());
    let chat = bot.ok("getChat", json!({ "chat_id": alice.id })).await;
    let _: teloxide::types::ChatFullInfo = serde_json::from_value(chat).unwrap();
}
