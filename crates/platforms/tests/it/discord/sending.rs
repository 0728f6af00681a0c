//! What leaves: once, in its place, inert; and a failure says what is known of the message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairn_platforms::discord::DiscordSettings;
use cairn_platforms::fence::Fence;
use cairn_testkit::discord::{Fault, Route};
use cairn_types::ids::{ChannelId, OutboxId};
use cairn_types::ports::{LinkState, Platform as _, SendError, SendPart};
use jiff::Timestamp;

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, OTHER, OTHER_NAME, Running, Runtime, connected, discord, id, settings, start,
    words,
};

fn part(channel: &str, delivery: &str, words: &str) -> SendPart {
    SendPart {
        delivery: OutboxId::from(delivery),
        part: 0,
        channel: channel.parse().expect("is a channel"),
        reply_to: None,
        words: words.to_owned(),
        approval: None,
        files: Vec::new(),
    }
}

#[tokio::test]
async fn an_answer_replies_and_can_be_changed() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    let question = discord.say(CHANNEL, "alice", "well?");
    let channel: ChannelId = CHANNEL_NAME.parse().expect("is a channel");
    adapter.typing(channel.clone()).await.expect("is shown");
    assert!(discord.is_typing(CHANNEL));
    let answer = SendPart { reply_to: Some(id(question)), ..part(CHANNEL_NAME, "o1", "it depends") };
    let sent = adapter.send(answer).await.expect("is sent");
    let shown = discord.sent(CHANNEL);
    assert_eq!((shown[0].content.as_str(), shown[0].reply_to), ("it depends", Some(question)));
    adapter.edit(channel.clone(), sent.clone(), "it does not".to_owned()).await.expect("is changed");
    adapter.edit(channel, sent, "it does not".to_owned()).await.expect("is changed again");
    assert_eq!(discord.sent(CHANNEL)[0].content, "it does not");
    assert!(adapter.status().last_outbound.is_some());
    discord.assert_clean();
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_repeating_it_makes_no_double() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    discord.fail_next(Route::Send, Fault::LostAnswer);
    let lost = adapter.send(part(CHANNEL_NAME, "o1", "once")).await;
    assert!(matches!(lost, Err(SendError::Unknown(_))), "{lost:?}");
    let again = adapter.send(part(CHANNEL_NAME, "o1", "once")).await.expect("is there");
    let sent = discord.sent(CHANNEL);
    assert_eq!(sent.len(), 1);
    assert_eq!(again, id(sent[0].id));
    adapter.send(part(CHANNEL_NAME, "o2", "once")).await.expect("another delivery is another message");
    assert_eq!(discord.sent(CHANNEL).len(), 2);
    discord.assert_clean();
}

#[tokio::test]
async fn discord_is_asked_whether_a_part_is_there() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    let earlier = discord.say(CHANNEL, "alice", "done?");
    // An id of Discord's begins with the milliseconds since 2015.
    let since = Timestamp::from_millisecond((earlier >> 22) as i64 + 1_420_070_400_000).expect("is a time");
    let ask = async |part: SendPart, after| adapter.find(part, after, since).await;
    let answer = |delivery: &str, to: u64, words: &str| SendPart {
        reply_to: Some(id(to)),
        ..part(CHANNEL_NAME, delivery, words)
    };
    let first = answer("o1", earlier, "Done.");
    assert_eq!(ask(first.clone(), Some(id(earlier))).await, Ok(None));
    discord.fail_next(Route::Send, Fault::LostAnswer);
    adapter.send(first.clone()).await.expect_err("its answer is lost");
    let there = discord.sent(CHANNEL)[0].id;
    assert_eq!(ask(first.clone(), Some(id(earlier))).await, Ok(Some(id(there))));
    // The same words to another question, and those of somebody else, are not it.
    let later = discord.say(CHANNEL, "alice", "and now?");
    discord.say(CHANNEL, "alice", "Done.");
    assert_eq!(ask(answer("o2", later, "Done."), Some(id(earlier))).await, Ok(None));
    assert_eq!(ask(answer("o2", later, "Done."), Some(id(later))).await, Ok(None));
    // Without a message before it, time tells.
    let alone = SendPart { reply_to: None, ..part(CHANNEL_NAME, "o3", "**Hello**, world") };
    discord.fail_next(Route::Send, Fault::LostAnswer);
    adapter.send(alone.clone()).await.expect_err("its answer is lost");
    let there = discord.sent(CHANNEL)[1].id;
    for _ in 0..150 {
        discord.say(CHANNEL, "alice", "hm");
    }
    assert_eq!(ask(alone.clone(), None).await, Ok(Some(id(there))), "more pages than one are read");
    let next = SendPart { part: 1, ..alone.clone() };
    assert_eq!(ask(next, Some(id(there))).await, Ok(None), "the part before it has the same text");
    discord.fail(Route::Fetch, Fault::Status(500));
    assert!(matches!(ask(alone.clone(), None).await, Err(SendError::Unknown(_))), "it is asked again");
    discord.fail(Route::Fetch, None);
    // A history that is hidden looks empty.
    runtime.wait_taken(153).await;
    discord.hide_history(CHANNEL);
    // Comes after the news of the right that is gone.
    discord.say(OTHER, "alice", "hm");
    runtime.wait_taken(154).await;
    assert!(matches!(ask(alone, None).await, Err(SendError::Refused(_))));
    discord.assert_clean();
}

#[tokio::test]
async fn nothing_is_sent_while_the_fence_is_closed_and_all_of_it_may_be_later() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let is_open = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_open);
    let fence = Fence::new(move || asked.load(Ordering::Relaxed));
    let adapter = Running::start(DiscordSettings { fence, ..settings(&discord) }, &runtime);
    adapter.wait_state(LinkState::Connected).await;
    let adapter = &adapter.adapter;
    is_open.store(false, Ordering::Relaxed);
    let refused = adapter.send(part(CHANNEL_NAME, "o1", "once")).await;
    assert!(
        matches!(&refused, Err(SendError::Later { reason, .. }) if reason.contains("no longer leads")),
        "{refused:?}"
    );
    let channel: ChannelId = CHANNEL_NAME.parse().expect("is a channel");
    assert!(adapter.typing(channel.clone()).await.is_err() && !discord.is_typing(CHANNEL));
    is_open.store(true, Ordering::Relaxed);
    adapter.send(part(CHANNEL_NAME, "o1", "once")).await.expect("is sent");
    assert_eq!(discord.sent(CHANNEL).iter().map(|sent| sent.content.as_str()).collect::<Vec<_>>(), ["once"]);
    discord.assert_clean();
}

#[tokio::test]
async fn each_failure_says_what_is_known() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    let unknown = [Fault::Status(500), Fault::Html(502), Fault::Nothing, Fault::Garbage("<html>".to_owned())];
    for fault in unknown {
        discord.fail_next(Route::Send, fault.clone());
        let result = adapter.send(part(CHANNEL_NAME, "o1", "words")).await;
        assert!(matches!(result, Err(SendError::Unknown(_))), "{fault:?}: {result:?}");
    }
    for fault in [Fault::Html(503), Fault::Status(503), Fault::Html(521)] {
        discord.fail_next(Route::Send, fault.clone());
        let result = adapter.send(part(CHANNEL_NAME, "o1", "words")).await;
        assert!(matches!(result, Err(SendError::Later { after: None, .. })), "{fault:?}: {result:?}");
        let troubles = adapter.status().troubles;
        assert!(
            matches!(&troubles[..], [one] if one.to_string().starts_with("sending: messages wait: ")),
            "{troubles:?}"
        );
    }
    adapter.send(part(CHANNEL_NAME, "o1", "words")).await.expect("is sent");
    assert_eq!(adapter.status().troubles, []);
    discord.fail_next(Route::Send, Fault::Html(403));
    let result = adapter.send(part(CHANNEL_NAME, "o1", "words")).await;
    assert!(matches!(result, Err(SendError::Refused(_))), "{result:?}");
    discord.fail_next(Route::Send, Fault::Html(302));
    let result = adapter.send(part(CHANNEL_NAME, "o1", "words")).await;
    assert!(matches!(result, Err(SendError::Later { .. })), "{result:?}");
    discord.set_unreachable(true);
    let result = adapter.send(part(CHANNEL_NAME, "o1", "words")).await.expect_err("is not sent");
    assert!(!result.to_string().contains(discord.token()) && !result.to_string().contains("127.0.0.1"));
}

#[tokio::test]
async fn a_channel_without_permission_is_a_trouble_of_its_own() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    discord.deny(CHANNEL);
    let Err(SendError::Refused(reason)) = adapter.send(part(CHANNEL_NAME, "o1", "words")).await else {
        panic!("is refused");
    };
    assert!(reason.contains("50013") && reason.contains("Send Messages"), "{reason}");
    let troubles = adapter.status().troubles;
    assert!(troubles.len() == 1 && troubles[0].to_string().starts_with("channel 101: "), "{troubles:?}");
    adapter.send(part(OTHER_NAME, "o2", "words")).await.expect("the other channel works");
    discord.allow(CHANNEL);
    adapter.send(part(CHANNEL_NAME, "o1", "words")).await.expect("works again");
    assert_eq!(adapter.status().troubles, []);
    discord.remove(OTHER);
    let Err(SendError::Refused(reason)) = adapter.send(part(OTHER_NAME, "o3", "words")).await else {
        panic!("is refused");
    };
    assert!(reason.contains("10003"), "{reason}");
}

#[tokio::test]
async fn a_rate_limit_is_an_answer_and_holds_no_other_channel_up() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    discord.rate_limit(Route::Send, Duration::from_secs(30));
    for _ in 0..3 {
        let Err(SendError::Later { after: Some(after), .. }) =
            adapter.send(part(CHANNEL_NAME, "o1", "words")).await
        else {
            panic!("is for later");
        };
        assert!((20..=31).contains(&after.as_secs()), "{after:?}");
    }
    assert_eq!(discord.limited(), 1, "the limit is known and not asked for again");
    adapter.send(part(OTHER_NAME, "o2", "words")).await.expect("the other channel is free");
    discord.assert_clean();
}

#[tokio::test]
async fn an_emptied_bucket_is_not_overdrawn() {
    let builder = cairn_testkit::discord::FakeDiscord::builder().rate(2, Duration::from_secs(30));
    let (discord, runtime) = (crate::discord::runtime::furnished(builder.start().await), Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    for n in 0..2 {
        adapter.send(part(CHANNEL_NAME, &format!("o{n}"), "words")).await.expect("there is room");
    }
    let third = adapter.send(part(CHANNEL_NAME, "o3", "words")).await;
    assert!(matches!(third, Err(SendError::Later { after: Some(_), .. })), "{third:?}");
    assert_eq!(discord.limited(), 0);
}

#[tokio::test]
async fn a_global_limit_is_kept_everywhere() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    discord.wait_until("commands", |discord| !discord.commands().is_empty()).await;
    discord.rate_limit_globally(Duration::from_secs(30));
    for channel in [CHANNEL_NAME, OTHER_NAME] {
        let result = adapter.send(part(channel, "o1", "words")).await;
        assert!(matches!(result, Err(SendError::Later { after: Some(_), .. })), "{result:?}");
    }
    assert_eq!(discord.limited(), 1);
    discord.assert_clean();
}

#[tokio::test]
async fn what_the_model_writes_is_inert_and_fits() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let adapter = &connected(&discord, &runtime).await.adapter;
    let user = discord.user("alice");
    let words = format!(
        "@everyone @here <@{user}> <@&5> https://evil.example ![x](https://evil.example/x.png)\n```rust\n{}```\n",
        "let x = \"é😀\";\n".repeat(400)
    );
    let parts = adapter.split(&words);
    assert!(parts.len() > 1);
    for (n, words) in parts.into_iter().enumerate() {
        let part = SendPart { part: u32::try_from(n).expect("few"), ..part(CHANNEL_NAME, "o1", &words) };
        adapter.send(part).await.expect("is sent");
    }
    assert!(discord.sent(CHANNEL).iter().all(|sent| sent.pinged.is_empty()));
    discord.assert_clean();
}

#[tokio::test]
async fn an_answer_to_a_message_that_is_gone_is_sent_plainly() {
    let (discord, _runtime, running) = start().await;
    let question = discord.say(CHANNEL, "alice", "well?");
    discord.delete(CHANNEL, &[question]);
    let refusals = [None, Some((400, 50035)), Some((404, 10008)), Some((404, 0)), Some((400, 10008))];
    for refusal in refusals {
        if let Some((status, code)) = refusal {
            discord.refuse_stray_replies(status, code);
        }
        let answer = SendPart {
            reply_to: Some(id(question)),
            ..part(CHANNEL_NAME, &format!("{refusal:?}"), "it depends")
        };
        running.adapter.send(answer).await.expect("is sent");
    }
    let sent = discord.sent(CHANNEL);
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [None; 5]);
    assert_eq!(running.status().troubles, []);
    discord.assert_clean();
}

#[tokio::test]
async fn a_channel_that_is_gone_is_not_asked_again() {
    let (discord, runtime, running) = start().await;
    discord.remove(OTHER);
    let gone = |result: Result<_, SendError>| {
        let Err(SendError::Refused(reason)) = result else { panic!("is refused: {result:?}") };
        assert!(reason.contains("10003"), "{reason}");
    };
    // One request at most: the word that the channel is gone may come after it.
    for n in 0..3 {
        gone(running.adapter.send(part(OTHER_NAME, &format!("o{n}"), "words")).await);
    }
    assert!(discord.arrived(Route::Send) <= 1, "{}", discord.arrived(Route::Send));
    discord.channel(crate::discord::runtime::GUILD, OTHER);
    discord.say(OTHER, "alice", "it is back");
    runtime.wait_taken(1).await;
    running.adapter.send(part(OTHER_NAME, "o4", "words")).await.expect("is sent");
}

#[tokio::test]
async fn where_the_bot_may_not_write_no_turn_is_paid_for_and_operators_are_told() {
    let (discord, runtime, running) = start().await;
    discord.thread(CHANNEL, 500);
    discord.deny(CHANNEL);
    discord.lock(500);
    for (n, channel) in [CHANNEL, 500].into_iter().enumerate() {
        discord.post(channel, "alice", "can you?").mention_bot().send();
        let taken = runtime.wait_taken(n + 1).await;
        assert_eq!((words(&taken[n]).as_str(), taken[n].addressed), ("can you?", false), "{channel}");
        let troubles = running.status().troubles;
        let here: Vec<_> = troubles
            .iter()
            .filter(|trouble| trouble.to_string().contains(&format!("channel {channel}: ")))
            .collect();
        assert!(here.len() == 1 && here[0].why.contains("Send Messages"), "{troubles:?}");
    }
    discord.post(CHANNEL, "alice", "again?").mention_bot().send();
    runtime.wait_taken(3).await;
    assert_eq!(running.status().troubles.len(), 2, "each is told once");
    assert!(discord.all_sent().is_empty(), "nothing is said where it cannot be");
    discord.allow(CHANNEL);
    discord.post(CHANNEL, "alice", "and now?").mention_bot().send();
    assert!(runtime.wait_taken(4).await[3].addressed);
    assert_eq!(running.status().troubles.len(), 1, "{:?}", running.status().troubles);
    discord.assert_clean();
}

#[tokio::test]
async fn refused_requests_are_counted() {
    let (discord, _runtime, running) = start().await;
    assert_eq!(running.status().invalid_requests, Some(0));
    discord.deny(CHANNEL);
    for n in 0..3 {
        running.adapter.send(part(CHANNEL_NAME, &format!("o{n}"), "words")).await.expect_err("is refused");
    }
    discord.fail_next(Route::Send, Fault::Status(404));
    running.adapter.send(part(OTHER_NAME, "o4", "words")).await.expect_err("is refused");
    assert_eq!(running.status().invalid_requests, Some(3), "404 does not count");
}
