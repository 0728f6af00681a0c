//! What people say, as it comes in.

use cairn_testkit::runtime::{CODE, text};
use cairn_testkit::telegram::{Attachment, FakeTelegram, Say};
use cairn_types::message::{Change, Part};
use cairn_types::people::access::DirectPolicy;
use cairn_types::ports::Platform as _;
use serde_json::json;

use crate::telegram::{Rig, open_to};

#[tokio::test]
async fn a_private_message_is_addressed_and_keeps_its_author() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let id = rig.fake.say(ann.id, &ann, "hello");
    let taken = rig.runtime.wait_taken(1).await;
    let inbound = &taken[0];
    assert_eq!(inbound.channel.as_str(), format!("main/telegram/{}", ann.id));
    assert_eq!(inbound.message.as_str(), id.to_string());
    assert_eq!(
        (inbound.author.id.clone(), inbound.author.name.as_str()),
        (format!("telegram/{}", ann.id), "Ann")
    );
    assert!(inbound.addressed && inbound.direct);
    assert!(rig.telegram.status().last_inbound.is_some());
}

#[tokio::test]
async fn in_groups_what_calls_the_bot_is_addressed_and_the_rest_is_context() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.supergroup("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    let first = rig.fake.say(hut, &ann, "nice weather");
    rig.fake.say(hut, &ann, Say::text("what do you think?").mention());
    rig.fake.say(hut, &ann, Say::text("I see").reply_to(first));
    let taken = rig.runtime.wait_taken(3).await;
    let seen: Vec<(bool, String)> = taken.iter().map(|inbound| (inbound.addressed, text(inbound))).collect();
    assert_eq!(seen[0], (false, "nice weather".to_owned()));
    assert_eq!(seen[1], (true, "what do you think?".to_owned()));
    assert_eq!(seen[2], (false, "[in reply to Ann: \"nice weather\"]\nI see".to_owned()));
    assert!(taken.iter().all(|inbound| !inbound.direct && inbound.channel.thread().is_none()));
}

#[tokio::test]
async fn a_topic_is_a_channel_of_its_own_and_the_general_one_is_the_chat() {
    let fake = FakeTelegram::start().await;
    let (forum, ann) = (fake.forum("Forum"), fake.person("Ann"));
    let rig = Rig::start(fake, &[forum]).await;
    let topic = rig.fake.topic(forum, &ann, "Boots");
    rig.fake.say(forum, &ann, Say::text("about boots").topic(topic));
    let taken = rig.runtime.wait_taken(1).await;
    assert_eq!(taken[0].channel.as_str(), format!("main/telegram/{forum}/{topic}"));
    assert_eq!(text(&taken[0]), "about boots");
    rig.fake.say(forum, &ann, "in general");
    let taken = rig.runtime.wait_taken(2).await;
    assert_eq!(taken[1].channel.as_str(), format!("main/telegram/{forum}"));
}

#[tokio::test]
async fn places_and_people_on_no_list_and_bots_are_passed_over() {
    let fake = FakeTelegram::start().await;
    let (hut, other, ann) = (fake.group("Hut"), fake.group("Other"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    rig.fake.say(other, &ann, Say::text("in a strange place").mention());
    rig.fake.say(hut, &ann, Say::text("I am a bot").mention().by_bot());
    rig.fake.say(hut, &ann, Say::text("heard").mention());
    let taken = rig.runtime.wait_taken(1).await;
    rig.fake.wait_confirmed().await;
    assert_eq!(text(&taken[0]), "heard");
    assert_eq!(rig.runtime.state.lock().taken.len(), 1);
}

#[tokio::test]
async fn an_anonymous_admin_speaks_as_the_group() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.supergroup("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    let anonymous = json!({
        "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot"},
        "sender_chat": {"id": hut, "type": "supergroup", "title": "Hut"},
    });
    rig.fake.say(hut, &ann, Say::text("from above").mention().extra(anonymous));
    let taken = rig.runtime.wait_taken(1).await;
    assert_eq!(
        (taken[0].author.id.clone(), taken[0].author.name.as_str()),
        (format!("telegram/{hut}"), "Hut")
    );
}

#[tokio::test]
async fn an_edit_is_an_amendment_and_says_what_the_message_says_now() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let id = rig.fake.say(ann.id, &ann, "at five");
    rig.runtime.wait_taken(1).await;
    rig.fake.edit(ann.id, id, "at six");
    rig.runtime.wait_until("the edit", |state| !state.amended.is_empty()).await;
    let amended = rig.runtime.state.lock().amended[0].clone();
    assert_eq!(amended.message.as_str(), id.to_string());
    let Change::Edited { parts, addressed: true, .. } = &amended.change else { panic!("{amended:?}") };
    assert_eq!(cairn_types::message::text_of(parts), "at six");
}

#[tokio::test]
async fn what_is_attached_is_named_and_forwards_are_marked() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, Say::default().with(Attachment::Voice(12)));
    rig.fake.say(ann.id, &ann, Say::default().with(Attachment::Sticker("🦉".to_owned())));
    rig.fake.say(
        ann.id,
        &ann,
        Say::text("see").with(Attachment::Huge { name: "all.zip".to_owned(), size: 100 << 20 }),
    );
    let origin =
        json!({"forward_origin": {"type": "hidden_user", "sender_user_name": "Somebody Else", "date": 1}});
    rig.fake.say(ann.id, &ann, Say::text("their words").extra(origin));
    let taken = rig.runtime.wait_taken(4).await;
    let texts: Vec<String> = taken.iter().map(text).collect();
    assert!(texts[0].contains("voice message (12 s)"), "{texts:?}");
    assert_eq!(texts[1], "[sticker: 🦉]");
    assert!(texts[2].starts_with("see\n[file: all.zip"), "{texts:?}");
    assert_eq!(texts[3], "[forwarded from Somebody Else]\ntheir words");
    assert!(rig.fake.calls("getFile").is_empty(), "what is only named is not fetched");
}

#[tokio::test]
async fn the_picture_that_is_replied_to_is_seen() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let jpeg = b"\xff\xd8\xffpicture".to_vec();
    let shown = rig.fake.say(ann.id, &ann, Say::text("my cat").with(Attachment::Photo(jpeg)));
    rig.fake.say(ann.id, &ann, Say::text("what is this?").reply_to(shown));
    let taken = rig.runtime.wait_taken(2).await;
    assert!(matches!(taken[0].parts.last(), Some(Part::Image { .. })), "{:?}", taken[0].parts);
    assert_eq!(taken[1].parts.last(), taken[0].parts.last());
    assert!(
        text(&taken[1]).contains("[in reply to Ann: \"my cat [photo]\"]\nwhat is this?"),
        "{:?}",
        taken[1].parts
    );
}

#[tokio::test]
async fn a_stranger_is_told_a_code_once_and_nothing_of_theirs_is_kept() {
    let mut access = open_to(&[]);
    access.direct = DirectPolicy::Pairing;
    let mut rig = Rig::set_up(FakeTelegram::start().await, access, |_| {});
    rig.run();
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "let me in");
    let told = rig.fake.wait_sent(ann.id, 1).await;
    assert!(told[0].text.contains(&format!("cairn pair approve {CODE}")), "{}", told[0].text);
    rig.fake.say(ann.id, &ann, "please");
    rig.runtime.wait_until("the second time", |state| state.asked.len() == 2).await;
    rig.fake.wait_confirmed().await;
    assert_eq!(rig.fake.sent(ann.id).len(), 1);
    assert!(rig.runtime.state.lock().taken.is_empty());
}

#[tokio::test]
async fn a_group_that_becomes_a_supergroup_keeps_its_channel() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.group("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    rig.fake.say(hut, &ann, Say::text("before").mention());
    let new = rig.fake.migrate(hut, &ann);
    rig.fake.say(new, &ann, Say::text("after").mention());
    let taken = rig.runtime.wait_taken(2).await;
    assert_eq!(taken[0].channel, taken[1].channel);
    assert_eq!(taken[1].channel.chat(), hut.to_string());
}

#[tokio::test]
async fn a_group_that_moved_counts_again_and_all_that_is_said_there_is_heard() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.group("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    let old: Vec<i64> = (0..2).map(|_| rig.fake.say(hut, &ann, Say::text("before").mention())).collect();
    rig.runtime.wait_taken(2).await;
    let new = rig.fake.migrate(hut, &ann);
    for (idx, number) in old.iter().enumerate() {
        let from = json!({"id": ann.id, "is_bot": false, "first_name": "Ann"});
        let chat = json!({"id": new, "type": "supergroup", "title": "Hut"});
        rig.fake.say(new, &ann, Say::text("after").mention().extra(json!({"message_id": number})));
        rig.runtime.wait_taken(3 + idx).await;
        let again =
            json!({"message_id": number, "chat": chat, "from": from, "date": 1, "edit_date": 2, "text": "!"});
        rig.fake.push_raw(json!({"edited_message": again}));
    }
    let taken = rig.runtime.wait_taken(4).await;
    rig.runtime.wait_until("the edits", |state| state.amended.len() == 2).await;
    for (idx, number) in old.iter().enumerate() {
        let after = &taken[2 + idx];
        assert_eq!((&after.channel, &after.author), (&taken[idx].channel, &taken[idx].author));
        assert_eq!((after.message.as_str(), after.addressed), (format!("{new}:{number}").as_str(), true));
        assert_eq!(rig.runtime.state.lock().amended[idx].message, after.message);
    }
}

#[tokio::test]
async fn being_put_out_of_a_group_shows_until_the_bot_is_let_in_again() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.group("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    rig.fake.kick(hut, &ann);
    rig.fake.wait_confirmed().await;
    let troubles = rig.telegram.status().troubles;
    assert!(troubles.len() == 1 && troubles[0].to_string().contains(&hut.to_string()), "{troubles:?}");
    let back = json!({"my_chat_member": {
        "chat": {"id": hut, "type": "group"}, "from": {"id": ann.id}, "date": 1,
        "new_chat_member": {"status": "member"},
    }});
    rig.fake.push_raw(back);
    rig.fake.wait_confirmed().await;
    assert!(rig.telegram.status().troubles.is_empty());
}

#[tokio::test]
async fn pictures_and_text_files_are_fetched_within_their_limits() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| {
        (settings.chat.image_max_bytes, settings.chat.text_max_bytes) = (64, 16);
    });
    let ann = rig.fake.person("Ann");
    let jpeg = b"\xff\xd8\xff and the rest of it".to_vec();
    let notes = |bytes: &[u8]| Attachment::Document {
        name: "notes.txt".to_owned(),
        mime: "text/plain".to_owned(),
        bytes: bytes.to_vec(),
    };
    rig.fake.say(ann.id, &ann, Say::text("look").with(Attachment::Photo(jpeg)));
    rig.fake.say(ann.id, &ann, Say::default().with(notes(b"buy milk")));
    rig.fake.say(ann.id, &ann, Say::default().with(notes(b"buy milk, bread and butter")));
    rig.run();
    let taken = rig.runtime.wait_taken(3).await;
    assert_eq!(taken[0].parts[0], Part::text("look"));
    let Part::Image { media_type, .. } = &taken[0].parts[1] else { panic!("{:?}", taken[0].parts) };
    assert_eq!(media_type, "image/jpeg");
    assert_eq!(text(&taken[1]), "[file: notes.txt]\nbuy milk");
    assert!(text(&taken[2]).contains("too large"), "{}", text(&taken[2]));
    rig.fake.fail_always("getFile", cairn_testkit::telegram::Fault::error(400, "Bad Request: wrong file_id"));
    rig.fake.say(ann.id, &ann, Say::default().with(notes(b"gone")));
    let taken = rig.runtime.wait_taken(4).await;
    assert!(text(&taken[3]).contains("could not be fetched"), "{}", text(&taken[3]));
}
