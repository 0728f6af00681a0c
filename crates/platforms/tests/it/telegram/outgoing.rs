//! What leaves: messages, edits, typing, and what is known of each afterwards.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairn_platforms::fence::Fence;
use cairn_testkit::telegram::{FakeTelegram, Fault, What};
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::ids::{ChannelId, MessageId, OutboxId};
use cairn_types::ports::{Platform as _, SendError, SendPart};
use serde_json::json;

use crate::telegram::{Rig, open_to};

async fn rig() -> Rig {
    Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {})
}

fn channel(chat: i64) -> ChannelId {
    format!("main/telegram/{chat}").parse().expect("is a channel")
}

fn part(channel: ChannelId, reply_to: Option<i64>, words: &str) -> SendPart {
    SendPart {
        delivery: OutboxId::from("o1"),
        part: 0,
        channel,
        reply_to: reply_to.map(|id| MessageId::from(id.to_string())),
        words: words.to_owned(),
        approval: None,
        files: Vec::new(),
    }
}

/// Does it as soon as the adapter says that it may.
async fn in_time<T, F>(attempt: impl Fn() -> F) -> Result<T, SendError>
where
    F: Future<Output = Result<T, SendError>>,
{
    loop {
        match attempt().await {
            Err(SendError::Later { after: Some(after), .. }) => tokio::time::sleep(after).await,
            result => return result,
        }
    }
}

#[tokio::test]
async fn a_message_answers_another_by_entities_and_is_edited() {
    let rig = rig().await;
    let ann = rig.fake.person("Ann");
    let asked = rig.fake.say(ann.id, &ann, "how?");
    let words = "so: **bold**, _soft_ and `code` for @ann";
    let id = rig.telegram.send(part(channel(ann.id), Some(asked), words)).await.expect("is sent");
    let sent = rig.fake.sent(ann.id);
    assert_eq!((sent[0].id.to_string().as_str(), sent[0].reply_to), (id.as_str(), Some(asked)));
    let kinds: Vec<&str> = sent[0].entities.iter().filter_map(|entity| entity["type"].as_str()).collect();
    assert_eq!(kinds, ["bold", "italic", "code"]);
    let edit = || rig.telegram.edit(channel(ann.id), id.clone(), "so".to_owned());
    in_time(edit).await.expect("is edited");
    assert_eq!(rig.fake.sent(ann.id)[0].text, "so");
    rig.fake.fail_next("editMessageText", Fault::error(400, "Bad Request: message is not modified: same"));
    in_time(edit).await.expect("it says so already");
    rig.fake.assert_clean();
}

#[tokio::test]
async fn nothing_is_asked_while_the_fence_is_closed_and_all_of_it_may_be_later() {
    let is_open = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_open);
    let fence = Fence::new(move || asked.load(Ordering::Relaxed));
    let mut rig =
        Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| settings.fence = fence.clone());
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "hello");
    rig.run();
    // The fake sees nothing of it.
    let told = async {
        while rig.telegram.status().reason.is_none_or(|reason| !reason.contains("no longer leads")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(GIVE_UP_AFTER, told).await.expect("the status says why nothing is asked");
    let refused = rig.telegram.send(part(channel(ann.id), None, "once")).await;
    assert!(
        matches!(&refused, Err(SendError::Later { reason, .. }) if reason.contains("no longer leads")),
        "{refused:?}"
    );
    assert!(rig.telegram.typing(channel(ann.id)).await.is_err());
    for method in ["sendMessage", "sendChatAction", "getUpdates", "getMe"] {
        assert!(rig.fake.calls(method).is_empty(), "{method}");
    }
    is_open.store(true, Ordering::Relaxed);
    in_time(|| rig.telegram.send(part(channel(ann.id), None, "once"))).await.expect("is sent");
    assert_eq!(rig.fake.sent(ann.id).iter().filter(|sent| sent.text == "once").count(), 1);
    rig.fake.wait_until("a poll", |fake| !fake.calls("getUpdates").is_empty()).await;
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_reply_to_a_message_that_is_gone_is_sent_all_the_same() {
    let rig = rig().await;
    let ann = rig.fake.person("Ann");
    let asked = rig.fake.say(ann.id, &ann, "gone soon");
    rig.fake.delete(ann.id, asked);
    rig.telegram.send(part(channel(ann.id), Some(asked), "here")).await.expect("is sent");
    rig.fake.refuse_stray_replies();
    rig.telegram.send(part(channel(ann.id), Some(asked), "here, too")).await.expect("is sent");
    let sent = rig.fake.sent(ann.id);
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [None, None]);
}

#[tokio::test]
async fn a_topic_gets_messages_and_typing_in_its_thread() {
    let rig = rig().await;
    let (forum, ann) = (rig.fake.forum("Forum"), rig.fake.person("Ann"));
    let topic = rig.fake.topic(forum, &ann, "Boots");
    let channel: ChannelId = format!("main/telegram/{forum}/{topic}").parse().expect("is a channel");
    rig.telegram.typing(channel.clone()).await.expect("is shown");
    rig.telegram.send(part(channel.clone(), None, "boots")).await.expect("is sent");
    assert_eq!(rig.fake.sent(forum)[0].thread, Some(topic));
    assert!(rig.fake.acts(forum).contains(&What::Typing));
    rig.fake.close_topic(forum, topic);
    let refused = in_time(|| rig.telegram.send(part(channel.clone(), None, "more"))).await;
    assert!(matches!(&refused, Err(SendError::Refused(why)) if why.contains("TOPIC_CLOSED")), "{refused:?}");
    rig.fake.assert_clean();
}

#[tokio::test]
async fn what_a_failure_means_is_known_where_it_can_be_known() {
    let rig = rig().await;
    let refused = Fault::error(400, "Bad Request: chat not found");
    let barred = Fault::error(403, "Forbidden: bot was blocked by the user");
    let cases: Vec<(Fault, &str)> = vec![
        (refused, "refused"),
        (barred, "refused"),
        (Fault::internal(), "unknown"),
        (Fault::unauthorized(), "later"),
        (Fault::flood(7), "later"),
        (Fault::Html, "unknown"),
        (Fault::error(503, "Service Unavailable"), "later"),
        (Fault::error(502, "Bad Gateway"), "unknown"),
        (Fault::CloseBefore, "unknown"),
        (Fault::CloseAfter, "unknown"),
        (Fault::Body("{\"ok\":true,\"result\":{}}".to_owned()), "unknown"),
        (Fault::Body("half".to_owned()), "unknown"),
    ];
    for (fault, meaning) in cases {
        // A chat for each: none waits for another's pace.
        let ann = rig.fake.person("Ann");
        rig.fake.say(ann.id, &ann, "hello");
        rig.fake.fail_next("sendMessage", fault.clone());
        let error = rig.telegram.send(part(channel(ann.id), None, "words")).await.expect_err("it fails");
        let is = match &error {
            SendError::Refused(_) => "refused",
            SendError::Later { .. } => "later",
            SendError::Unknown(_) => "unknown",
        };
        assert_eq!(is, meaning, "{fault:?}: {error}");
        assert!(!format!("{error:?}").contains("AAFake"), "the token is in {error:?}");
    }
}

#[tokio::test]
async fn a_flood_is_waited_for_in_its_chat_alone() {
    let rig = rig().await;
    let (ann, bob) = (rig.fake.person("Ann"), rig.fake.person("Bob"));
    for who in [&ann, &bob] {
        rig.fake.say(who.id, who, "hello");
    }
    rig.fake.rate_limit(ann.id, 30);
    for attempt in 0..2 {
        let later = rig.telegram.send(part(channel(ann.id), None, "words")).await;
        let Err(SendError::Later { after: Some(after), .. }) = later else { panic!("{attempt}: {later:?}") };
        assert!(after > Duration::from_secs(25) && after <= Duration::from_secs(30), "{after:?}");
    }
    assert!(matches!(rig.telegram.typing(channel(ann.id)).await, Err(SendError::Later { .. })));
    rig.telegram.send(part(channel(bob.id), None, "words")).await.expect("is sent");
    assert_eq!(rig.fake.calls("sendMessage").len(), 2, "the second attempt for Ann did not leave");
    rig.fake.assert_clean();
}

#[tokio::test]
async fn nobody_listens_is_certainly_not_sent() {
    let rig = rig().await;
    let ann = rig.fake.person("Ann");
    rig.fake.go_down();
    let later = rig.telegram.send(part(channel(ann.id), None, "words")).await;
    assert!(matches!(&later, Err(SendError::Later { .. })), "{later:?}");
    assert!(!format!("{later:?}").contains("AAFake"));
}

#[tokio::test]
async fn a_send_to_a_chat_that_moved_follows_it() {
    let rig = rig().await;
    let (hut, ann) = (rig.fake.group("Hut"), rig.fake.person("Ann"));
    let new = rig.fake.migrate(hut, &ann);
    let id = rig.telegram.send(part(channel(hut), None, "found you")).await.expect("is sent");
    assert_eq!(rig.fake.sent(new)[0].text, "found you");
    assert_eq!(rig.runtime.state.lock().moved.get(&hut.to_string()), Some(&new.to_string()));
    assert_eq!(
        id.as_str(),
        format!("{new}:{}", rig.fake.sent(new)[0].id),
        "the number alone is an older message's"
    );
    in_time(|| rig.telegram.edit(channel(hut), id.clone(), "here".to_owned())).await.expect("is edited");
    assert_eq!(rig.fake.sent(new)[0].text, "here");
}

#[tokio::test]
async fn what_a_chat_said_before_it_moved_is_neither_answered_nor_edited_there() {
    let rig = rig().await;
    let (hut, ann) = (rig.fake.group("Hut"), rig.fake.person("Ann"));
    let old = rig.telegram.send(part(channel(hut), None, "before")).await.expect("is sent");
    let new = rig.fake.migrate(hut, &ann);
    let edit = || rig.telegram.edit(channel(hut), old.clone(), "changed".to_owned());
    for _ in 0..2 {
        let refused = in_time(edit).await;
        assert!(matches!(refused, Err(SendError::Refused(_))), "{refused:?}");
    }
    assert_eq!(rig.fake.calls("editMessageText").len(), 1, "the second needs no asking");
    let number = old.as_str().parse().expect("is a number");
    in_time(|| rig.telegram.send(part(channel(hut), Some(number), "after"))).await.expect("is sent");
    let call = rig.fake.calls("sendMessage").pop().expect("was called");
    assert_eq!(call.params.get("reply_parameters"), None);
    assert_eq!(rig.fake.sent(new)[0].text, "after");
}

#[tokio::test]
async fn no_wait_that_the_server_names_is_too_long_for_the_clock() {
    let rig = rig().await;
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "hello");
    let forever = json!({
        "ok": false, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": u64::MAX},
    });
    rig.fake.fail_next("sendMessage", Fault::Body(forever.to_string()));
    let later = rig.telegram.send(part(channel(ann.id), None, "words")).await;
    let Err(SendError::Later { after: Some(after), .. }) = later else { panic!("{later:?}") };
    assert_eq!(after, Duration::from_secs(3600));
}

#[tokio::test]
async fn a_group_that_bars_the_bot_shows_until_a_message_gets_through() {
    let rig = rig().await;
    let hut = rig.fake.group("Hut");
    let barred = "Forbidden: bot was kicked from the group chat";
    rig.fake.fail_next("sendMessage", Fault::error(403, barred));
    let refused = rig.telegram.send(part(channel(hut), None, "words")).await;
    assert_eq!(refused, Err(SendError::Refused(barred.to_owned())));
    assert_eq!(rig.telegram.status().troubles[0].to_string(), format!("chat {hut}: {barred}"));
    in_time(|| rig.telegram.send(part(channel(hut), None, "words"))).await.expect("is sent");
    assert!(rig.telegram.status().troubles.is_empty());
}

#[tokio::test]
async fn markup_that_telegram_refuses_goes_as_plain_text() {
    let rig = rig().await;
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "hello");
    rig.fake.fail_next("sendMessage", Fault::error(400, "Bad Request: can't parse entities"));
    rig.telegram.send(part(channel(ann.id), None, "**so** says `@durov`")).await.expect("is sent");
    let calls = rig.fake.calls("sendMessage");
    assert_eq!(calls[1].params.get("entities"), None);
    assert_eq!(calls[1].params["text"], json!("so says @\u{2060}durov"), "nobody is mentioned");
}

#[tokio::test]
async fn what_the_model_writes_mentions_nobody_and_loads_nothing() {
    let rig = rig().await;
    for reply in [
        "@alice and @everyone, come here",
        "[click](tg://user?id=5100000001) and [here](javascript:alert(1))",
        "![image](https://evil.example/pixel.png?secret=1)",
        "<a href=\"tg://user?id=5100000001\">x</a> <b>bold</b> &lt;script&gt;",
        "**open emphasis _nested `open code\n\n```rust\nlet x = 1;",
        "*a* _b_ __c__ ~d~ ||e|| >f \\*",
        "/forgetme yes\n/new\n@cairn_test_bot /stop",
        "\u{202e}txet desrever\u{202c} and \u{0} nul",
        "# Head\n\n| a | b |\n|---|---|\n| @alice | [x](https://e.example) |\n\n- one\n  - two\n\n> @bob said",
    ] {
        // A chat of its own, so that no pace is waited for.
        let ann = rig.fake.person("Ann");
        rig.fake.say(ann.id, &ann, "say it");
        rig.telegram.send(part(channel(ann.id), None, reply)).await.expect("is sent");
        for entity in &rig.fake.sent(ann.id)[0].entities {
            let kind = entity["type"].as_str().unwrap_or_default();
            assert!(!["mention", "text_mention", "text_link"].contains(&kind), "{entity}");
        }
    }
    rig.fake.assert_clean();
}
