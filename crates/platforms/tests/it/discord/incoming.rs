//! What people say comes to the runtime: all of it, in order, from those who are heard.

use cairn_testkit::discord::{Fault, Route};
use cairn_types::message::{Change, Part};
use cairn_types::people::access::PlaceRule;
use cairn_types::ports::{PlatformStatus, Refusal};
use cairn_types::texts::Key;
use serde_json::json;

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, CODE, GUILD, OTHER, OTHER_NAME, Running, Runtime, connected, discord, id,
    settings, start, words,
};

#[tokio::test]
async fn a_message_comes_in_with_its_author_its_words_and_whether_it_is_addressed() {
    let (discord, runtime, _running) = start().await;
    let aside = discord.say(CHANNEL, "alice", "good morning");
    let question = discord.post(CHANNEL, "bob", "what is up?").mention_bot().send();
    let taken = runtime.wait_taken(2).await;
    assert_eq!((taken[0].message.clone(), taken[0].addressed), (id(aside), false));
    assert_eq!((taken[1].message.clone(), taken[1].addressed), (id(question), true));
    assert_eq!(taken[1].channel.as_str(), CHANNEL_NAME);
    assert_eq!(words(&taken[1]), "what is up?");
    assert_eq!(taken[1].author.id, format!("discord/{}", discord.user("bob")));
    assert_eq!(taken[1].author.name, "bob");
    assert!(!taken[1].direct);
    discord.assert_clean();
}

#[tokio::test]
async fn threads_and_forum_posts_are_channels_of_their_own() {
    let (discord, runtime, _running) = start().await;
    discord.thread(CHANNEL, 500);
    discord.post(500, "alice", "in the thread").mention_bot().send();
    discord.forum(GUILD, 103);
    discord.thread(103, 501);
    discord.post(501, "alice", "in the post").mention_bot().send();
    let taken = runtime.wait_taken(2).await;
    let mut channels: Vec<&str> = taken.iter().map(|inbound| inbound.channel.as_str()).collect();
    channels.sort_unstable();
    assert_eq!(channels, ["main/discord/101/500", "main/discord/103/501"]);
}

#[tokio::test]
async fn a_channel_where_the_bot_may_not_write_is_a_trouble_until_a_role_gives_the_right() {
    let (discord, runtime, running) = start().await;
    discord.deny(CHANNEL);
    discord.post(CHANNEL, "alice", "well?").mention_bot().send();
    assert!(!runtime.wait_taken(1).await[0].addressed, "it could not be answered");
    let status = running.wait_status(|status| !status.troubles.is_empty()).await;
    assert!(status.troubles[0].to_string().starts_with("rights in channel 101: "), "{:?}", status.troubles);
    discord.allow_by_role(GUILD);
    running.wait_status(|status| status.troubles.is_empty()).await;
    discord.assert_clean();
}

#[tokio::test]
async fn a_thread_that_nobody_told_of_is_asked_for() {
    let (discord, runtime, _running) = start().await;
    discord
        .dispatch("THREAD_DELETE", json!({"id": "500", "guild_id": "100", "parent_id": "101", "type": 11}));
    discord.thread(CHANNEL, 500);
    discord
        .dispatch("THREAD_DELETE", json!({"id": "500", "guild_id": "100", "parent_id": "101", "type": 11}));
    discord.say(500, "alice", "hello");
    let taken = runtime.wait_taken(1).await;
    assert_eq!(taken[0].channel.as_str(), "main/discord/101/500");
    assert_eq!(discord.arrived(Route::Channel), 1);
}

#[tokio::test]
async fn a_thread_that_cannot_be_looked_up_is_not_served_until_it_can() {
    let (discord, runtime, running) = start().await;
    discord.thread(CHANNEL, 500);
    discord
        .dispatch("THREAD_DELETE", json!({"id": "500", "guild_id": "100", "parent_id": "101", "type": 11}));
    discord.fail_next(Route::Channel, Fault::Status(403));
    discord.say(500, "alice", "unseen");
    let troubled =
        |status: &PlatformStatus| status.troubles.iter().any(|trouble| trouble.to_string().contains("500"));
    running.wait_status(troubled).await;
    discord.say(500, "alice", "seen");
    let taken = runtime.wait_taken(1).await;
    assert_eq!((words(&taken[0]).as_str(), taken[0].channel.as_str()), ("seen", "main/discord/101/500"));
    assert!(!troubled(&running.status()));
}

#[tokio::test]
async fn bots_webhooks_system_messages_and_other_servers_are_passed_over() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.guild(200);
    discord.channel(200, 201);
    let _running = connected(&discord, &runtime).await;
    discord.post(CHANNEL, "robot", "beep").mention_bot().from_bot().send();
    discord.post(CHANNEL, "hook", "beep").mention_bot().from_webhook().send();
    discord.post(CHANNEL, "alice", "").system(7).send();
    discord.post(201, "alice", "hello?").mention_bot().send();
    discord.say(CHANNEL, "alice", "the last");
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "the last");
}

#[tokio::test]
async fn bots_are_heard_where_the_rules_say_so() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let mut settings = settings(&discord);
    settings.chat.access.bots = true;
    let _running = Running::start(settings, &runtime);
    discord.wait_ready().await;
    discord.post(CHANNEL, "robot", "beep").mention_bot().from_bot().send();
    assert!(runtime.wait_taken(1).await[0].addressed);
}

#[tokio::test]
async fn an_edit_is_a_change_a_preview_is_none_and_deletions_are_changes() {
    let (discord, runtime, _running) = start().await;
    let one = discord.say(CHANNEL, "alice", "see https://a.example");
    let two = discord.say(CHANNEL, "alice", "two");
    let three = discord.say(CHANNEL, "alice", "three");
    runtime.wait_taken(3).await;
    discord.unfurl(CHANNEL, one, "https://a.example");
    discord.edit(CHANNEL, one, "see nothing");
    runtime.wait_amended(1).await;
    discord.delete(CHANNEL, &[one]);
    discord.delete(CHANNEL, &[two, three]);
    let changes = runtime.wait_amended(4).await;
    assert_eq!(changes.len(), 4, "the preview changed no words");
    let Change::Edited { parts, .. } = &changes[0].change else { panic!("edited first: {changes:?}") };
    assert_eq!(cairn_types::message::text_of(parts), "see nothing");
    let gone: Vec<_> = changes[1..].iter().map(|amendment| amendment.message.clone()).collect();
    assert_eq!(gone, [id(one), id(two), id(three)]);
    assert!(changes[1..].iter().all(|amendment| amendment.change == Change::Deleted));
    assert!(changes.iter().all(|amendment| amendment.channel.as_str() == CHANNEL_NAME));
}

#[tokio::test]
async fn a_stranger_is_told_a_code_once_and_heard_when_let_in() {
    let (discord, runtime, _running) = start().await;
    let dm = discord.dm("eve");
    discord.say(dm, "eve", "hi");
    let sent = discord.wait_sent(dm, 1).await;
    assert!(sent[0].content.contains(&format!("cairn pair approve {CODE}")), "{sent:?}");
    discord.say(dm, "eve", "hello?");
    runtime.pair(&format!("discord/{}", discord.user("eve")));
    discord.say(dm, "eve", "now?");
    let taken = runtime.wait_taken(1).await;
    let last = taken.last().expect("one came in");
    assert_eq!(words(last), "now?");
    assert!(last.direct && last.addressed);
    assert_eq!(last.channel.as_str(), format!("main/discord/{dm}"));
    assert_eq!(discord.sent(dm).len(), 1, "the code is told once");
    assert_eq!(runtime.state.lock().asked[0].1, dm.to_string());
    discord.assert_clean();
}

#[tokio::test]
async fn a_channel_that_waits_holds_no_other_up_and_keeps_its_order() {
    let (discord, runtime, _running) = start().await;
    let gate = runtime.hold(CHANNEL);
    let first = discord.say(CHANNEL, "alice", "one");
    let second = discord.say(CHANNEL, "alice", "two");
    let third = discord.say(OTHER, "alice", "three");
    assert_eq!(runtime.wait_taken(1).await[0].message, id(third));
    runtime.refuse(first, vec![Refusal::Busy { retry_after_secs: 1 }, Refusal::Unavailable("starting")]);
    gate.open();
    let order: Vec<_> = runtime.wait_taken(3).await.iter().map(|inbound| inbound.message.clone()).collect();
    assert_eq!(order, [id(third), id(first), id(second)]);
}

#[tokio::test]
async fn a_limit_is_told_once_and_the_message_given_up() {
    let (discord, runtime, _running) = start().await;
    let limited = |tell| Refusal::Limited { retry_after_secs: 60, words: Key::Stopped.into(), tell };
    let [one, two] = [1, 2].map(|_| discord.post(CHANNEL, "alice", "more").held().send());
    runtime.refuse(one, vec![limited(true)]);
    runtime.refuse(two, vec![limited(false)]);
    discord.release(false);
    let last = discord.say(CHANNEL, "alice", "last");
    assert_eq!(runtime.wait_taken(1).await[0].message, id(last));
    let sent = discord.sent(CHANNEL);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].content.as_str(), sent[0].reply_to), ("Stopped.", Some(one)));
}

#[tokio::test]
async fn events_that_cannot_be_read_are_passed_over() {
    let (discord, runtime, _running) = start().await;
    for data in
        [json!(null), json!({}), json!({"id": "x"}), json!([1]), json!({"id": {"deep": []}, "author": 7})]
    {
        for name in ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "GUILD_CREATE", "THREAD_LIST_SYNC"]
        {
            discord.dispatch(name, data.clone());
        }
        discord.dispatch("INTERACTION_CREATE", data.clone());
        discord.dispatch("SOMETHING_NEW", data);
    }
    discord.say(CHANNEL, "alice", "still there?");
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "still there?");
    assert_eq!(discord.connected(), 1, "the connection was kept");
}

#[tokio::test]
async fn a_place_may_have_an_agent_of_its_own() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let mut settings = settings(&discord);
    settings.chat.access.places =
        vec![PlaceRule { chat: Some(OTHER.to_string()), agent: Some("poet".into()), ..PlaceRule::default() }];
    let _running = Running::start(settings, &runtime);
    discord.wait_ready().await;
    let message = discord.say(OTHER, "alice", "hello");
    assert_eq!(runtime.wait_taken(1).await[0].channel.as_str(), OTHER_NAME.replace("main", "poet"));
    discord.delete(OTHER, &[message]);
    assert_eq!(runtime.wait_amended(1).await[0].channel.as_str(), "poet/discord/102");
}

#[tokio::test]
async fn files_are_read_where_they_can_be_and_named_otherwise() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let mut settings = settings(&discord);
    settings.chat.images = ["main".into()].into();
    let _running = Running::start(settings, &runtime);
    discord.wait_ready().await;
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    discord
        .post(CHANNEL, "alice", "look")
        .attach("cat.png", "image/png", png)
        .attach("notes.txt", "text/plain", "buy milk")
        .attach_zeros("film.mp4", "video/mp4", 100_000_000)
        .attach_zeros("huge.txt", "text/plain", 100_000_000)
        .send();
    let taken = runtime.wait_taken(1).await;
    let [Part::Text { .. }, Part::Image { media_type, .. }, Part::File { text, .. }, film, huge] =
        &taken[0].parts[..]
    else {
        panic!("five parts: {:?}", taken[0].parts.len());
    };
    assert_eq!((media_type.as_str(), text.as_deref()), ("image/png", Some("buy milk")));
    for (part, beginning) in [(film, "film.mp4"), (huge, "huge.txt")] {
        let Part::File { name, text: None, .. } = part else { panic!("{beginning} is only named") };
        assert!(name.starts_with(beginning), "{name}");
    }
    assert_eq!(discord.fetched(), 2);
    discord.assert_clean();
}

#[tokio::test]
async fn a_picture_for_a_model_that_takes_none_is_named() {
    let (discord, runtime, _running) = start().await;
    discord.post(CHANNEL, "alice", "").attach("cat.png", "image/png", "bytes").send();
    let taken = runtime.wait_taken(1).await;
    assert!(
        matches!(&taken[0].parts[..], [Part::File { name, text: None, .. }] if name.starts_with("cat.png"))
    );
    assert_eq!(discord.fetched(), 0);
}

#[tokio::test]
async fn what_bots_show_in_boxes_is_heard_and_quoted_with_its_picture() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let mut settings = settings(&discord);
    settings.chat.access.bots = true;
    settings.chat.images = ["main".into()].into();
    let _running = Running::start(settings, &runtime);
    discord.wait_ready().await;
    let alert =
        json!({"type": "rich", "title": "Disk alert", "fields": [{"name": "Mount", "value": "/srv/otter"}]});
    let png = b"\x89PNG\r\n\x1a\nrest".to_vec();
    let one = discord
        .post(CHANNEL, "robot", "")
        .from_bot()
        .embed(alert)
        .attach("graph.png", "image/png", png)
        .send();
    discord.post(CHANNEL, "alice", "what is this?").mention_bot().reply_to(one).send();
    let text = json!({"type": 10, "content": "Deploy 88 failed"});
    discord
        .post(CHANNEL, "robot", "")
        .from_bot()
        .components(vec![json!({"type": 17, "components": [text]})])
        .send();
    let taken = runtime.wait_taken(3).await;
    assert_eq!(words(&taken[0]), "Disk alert | Mount: /srv/otter\n[image: graph.png]");
    let asked = words(&taken[1]);
    assert!(asked.contains("\"Disk alert | Mount: /srv/otter [files: graph.png]\"]"), "{asked}");
    assert!(matches!(taken[1].parts.last(), Some(Part::Image { .. })), "{:?}", taken[1].parts);
    let robot = format!("discord/{}", discord.user("robot"));
    assert!(taken[1].provenance.people.contains(&robot), "{:?}", taken[1].provenance);
    assert_eq!(words(&taken[2]), "Deploy 88 failed");
}
