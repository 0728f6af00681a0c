//! Questions whether a call may be made: their buttons, who presses them, and what becomes of them.

use std::collections::BTreeSet;

use cairn_testkit::runtime::{MAY_NOT, NOTHING_WAITS};
use cairn_testkit::telegram::{FakeTelegram, Fault, Person, Say, Sent, What};
use cairn_types::command::Command;
use cairn_types::ids::{ApprovalId, ChannelId, MessageId, OutboxId};
use cairn_types::people::access::DirectPolicy;
use cairn_types::ports::{Platform as _, SendPart};
use serde_json::{Value, json};

use crate::question::{question_of, send_question};
use crate::telegram::{Rig, open_to};

fn channel(chat: i64) -> ChannelId {
    format!("main/telegram/{chat}").parse().expect("is a channel")
}

/// Sends a question. Its messages.
async fn ask(rig: &Rig, chat: i64, id: &ApprovalId, words: &str) -> Vec<Sent> {
    let before = rig.fake.sent(chat).len();
    send_question(&*rig.telegram, &channel(chat), id, words).await;
    rig.fake.sent(chat).split_off(before)
}

/// A rig with a question in a group, which these may answer: the group, the question.
async fn asked(approvers: &[&Person], fake: FakeTelegram) -> (Rig, i64, i64) {
    let hut = fake.supergroup("Hut");
    let rig = Rig::start(fake, &[hut]).await;
    let approvers: Vec<String> = approvers.iter().map(|who| format!("telegram/{}", who.id)).collect();
    let approvers: Vec<&str> = approvers.iter().map(String::as_str).collect();
    let id = rig.runtime.asks("abc234", &approvers);
    let sent = ask(&rig, hut, &id, &question_of(&id, json!({"path": "/tmp/x"}))).await;
    (rig, hut, sent[0].id)
}

fn question(rig: &Rig, chat: i64, message: i64) -> Sent {
    rig.fake.sent(chat).into_iter().find(|sent| sent.id == message).expect("is there")
}

async fn wait_closed(rig: &Rig, chat: i64, message: i64) -> Sent {
    let closed = |fake: &FakeTelegram| {
        fake.sent(chat).iter().any(|sent| sent.id == message && sent.buttons.is_empty())
    };
    rig.fake.wait_until("the buttons to go away", closed).await;
    question(rig, chat, message)
}

#[tokio::test]
async fn a_yes_is_a_command_and_the_question_says_who_gave_it() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (rig, hut, message) = asked(&[&ann], fake).await;
    let before = question(&rig, hut, message);
    let labels: Vec<&str> = before.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Yes", "No"]);
    let press = rig.fake.press(hut, message, "Yes", &ann);
    let told = rig.fake.wait_told(&press).await;
    assert_eq!((told.text.as_str(), told.alert), ("It is done.", false));
    let after = wait_closed(&rig, hut, message).await;
    let (words, outcome) = after.text.rsplit_once("\n\n").expect("two paragraphs");
    assert_eq!(words, before.text);
    assert!(outcome.starts_with("— yes, Ann, ") && outcome.ends_with(" UTC"), "{outcome}");
    let markup = |sent: &Sent| sent.entities.iter().filter(|one| one["type"] != "bot_command").count();
    assert!(markup(&after) == markup(&before) && markup(&after) > 2, "{:?}", after.entities);
    let calls = rig.runtime.state.lock().calls.clone();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].command, Ok(Command::Approve { id: Some("abc234".into()) }));
    assert_eq!((calls[0].channel.clone(), calls[0].direct), (channel(hut), false));
    assert_eq!(calls[0].message, MessageId::from(format!("callback-{press}")));
    assert_eq!(calls[0].caller.id, format!("telegram/{}", ann.id));
    rig.fake.wait_confirmed().await;
    assert!(rig.runtime.state.lock().taken.is_empty());
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_no_in_a_topic_or_a_private_chat_is_a_no_there() {
    let fake = FakeTelegram::start().await;
    let (forum, ann) = (fake.forum("Forum"), fake.person("Ann"));
    let topic = fake.topic(forum, &ann, "Boots");
    let rig = Rig::start(fake, &[forum]).await;
    rig.fake.say(ann.id, &ann, "hello");
    let there: ChannelId = format!("main/telegram/{forum}/{topic}").parse().expect("is a channel");
    for (n, channel, chat) in [(0, there, forum), (1, channel(ann.id), ann.id)] {
        let id = rig.runtime.asks(&format!("abc23{n}"), &[]);
        let (words, delivery) = ("May I?".to_owned(), OutboxId::from("o1"));
        let approval = Some(id.clone());
        let part = SendPart {
            delivery,
            part: 0,
            channel: channel.clone(),
            reply_to: None,
            words,
            approval,
            files: Vec::new(),
        };
        let message = rig.telegram.send(part).await.expect("is sent");
        let message: i64 = message.as_str().parse().expect("is a number");
        rig.fake.press(chat, message, "No", &ann);
        let shown = wait_closed(&rig, chat, message).await;
        assert!(shown.text.starts_with("May I?\n\n— no, Ann, "), "{}", shown.text);
        let call = rig.runtime.state.lock().calls[n].clone();
        assert_eq!((call.channel, call.direct), (channel, chat == ann.id));
        assert_eq!(rig.runtime.state.lock().decided[n], (id, false));
    }
    rig.fake.assert_clean();
}

#[tokio::test]
async fn who_may_not_is_told_so_and_the_question_stays() {
    let fake = FakeTelegram::start().await;
    let (ann, bob) = (fake.person("Ann"), fake.person("Bob"));
    let (rig, hut, message) = asked(&[&ann], fake).await;
    let press = rig.fake.press(hut, message, "Yes", &bob);
    let told = rig.fake.wait_told(&press).await;
    assert_eq!((told.text.as_str(), told.alert), (MAY_NOT, true));
    rig.fake.wait_confirmed().await;
    assert_eq!(question(&rig, hut, message).buttons.len(), 2);
    rig.fake.press(hut, message, "Yes", &ann);
    assert!(wait_closed(&rig, hut, message).await.text.contains("— yes, Ann, "));
    assert!(rig.fake.acts(hut).iter().filter(|act| matches!(act, What::Edited(_))).count() == 1);
}

#[tokio::test]
async fn the_press_of_a_stranger_or_in_a_place_that_is_not_served_is_refused_and_never_run() {
    let fake = FakeTelegram::start().await;
    let (other, ann, eve) = (fake.supergroup("Other"), fake.person("Ann"), fake.person("Eve"));
    let mut access = open_to(&[]);
    access.direct = DirectPolicy::Pairing;
    let mut rig = Rig::set_up(fake, access, |_| {});
    rig.run();
    rig.fake.wait_for("getUpdates", 1).await;
    rig.runtime.pair(&format!("telegram/{}", ann.id));
    let id = rig.runtime.asks("abc234", &[]);
    rig.fake.say(eve.id, &eve, "let me in");
    rig.fake.wait_sent(eve.id, 1).await;
    for (chat, who, words) in [(eve.id, &eve, "do not know you"), (other, &ann, "not set up")] {
        let sent = ask(&rig, chat, &id, "May I?").await;
        let press = rig.fake.press(chat, sent[0].id, "Yes", who);
        let told = rig.fake.wait_told(&press).await;
        assert!(told.alert && told.text.contains(words), "{told:?}");
    }
    rig.fake.wait_confirmed().await;
    assert!(rig.runtime.state.lock().calls.is_empty());
    rig.fake.assert_clean();
}

#[tokio::test]
async fn the_press_of_a_button_that_is_not_the_bots_is_refused() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (rig, hut, message) = asked(&[], fake).await;
    let said = rig.fake.say(hut, &ann, "my own");
    let seen = rig.fake.seen(hut, message);
    let faded = json!({"message_id": message, "date": 0, "chat": seen["chat"]});
    for (message, data) in [
        (rig.fake.seen(hut, said), "approve:abc234"),
        (faded, "approve:abc234"),
        (Value::Null, "approve:abc234"),
        (json!("garbage"), "approve:abc234"),
        (seen.clone(), "forget:abc234"),
        (seen.clone(), "approve:"),
        (seen, ""),
    ] {
        let press = rig.fake.press_as_seen(&message, data, &ann);
        assert!(rig.fake.wait_told(&press).await.alert, "{data}");
    }
    rig.fake.wait_confirmed().await;
    assert!(rig.runtime.state.lock().calls.is_empty());
    assert_eq!(question(&rig, hut, message).buttons.len(), 2);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn an_expired_question_loses_its_buttons_with_the_next_press() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (rig, hut, message) = asked(&[], fake).await;
    rig.runtime.state.lock().waiting.clear();
    let before = question(&rig, hut, message);
    let press = rig.fake.press(hut, message, "Yes", &ann);
    assert_eq!(rig.fake.wait_told(&press).await.text, NOTHING_WAITS);
    assert_eq!(wait_closed(&rig, hut, message).await.text, before.text);
    assert!(rig.runtime.state.lock().decided.is_empty());
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_press_that_comes_again_after_a_crash_is_not_run_twice() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (mut rig, hut, message) = asked(&[], fake).await;
    let gate = rig.runtime.hold("/approve");
    let press = rig.fake.press(hut, message, "Yes", &ann);
    rig.runtime.wait_called(1).await;
    // The command is taken, its update not confirmed: the daemon dies.
    assert_eq!(rig.fake.unconfirmed(), 1);
    rig.running.take().expect("it runs").abort();
    drop(gate);
    rig.run();
    rig.fake.wait_told(&press).await;
    rig.fake.wait_confirmed().await;
    assert_eq!(rig.runtime.state.lock().calls.len(), 1);
    assert_eq!(question(&rig, hut, message).buttons.len(), 2, "nobody knows here how it ended");
    rig.fake.press(hut, message, "No", &ann);
    wait_closed(&rig, hut, message).await;
    assert_eq!(rig.runtime.state.lock().decided, [("abc234".into(), true)]);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_press_waits_for_no_message_and_an_approve_passes_what_waits_for_room() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (rig, hut, message) = asked(&[], fake).await;
    let id = rig.runtime.asks("xyz789", &[]);
    let gate = rig.runtime.hold(hut);
    rig.fake.say(hut, &ann, Say::text("held up").mention());
    rig.runtime.wait_until("the message", |state| state.at_gates == 1).await;
    rig.fake.press(hut, message, "Yes", &ann);
    wait_closed(&rig, hut, message).await;
    rig.runtime.state.lock().busy.insert(hut.to_string());
    gate.pass(1000);
    rig.fake.command(hut, &ann, "/deny xyz789");
    rig.runtime.wait_called(2).await;
    assert_eq!(rig.runtime.state.lock().decided[1], (id, false));
    rig.runtime.state.lock().busy.clear();
    rig.runtime.wait_taken(1).await;
}

#[tokio::test]
async fn an_outcome_that_does_not_fit_is_told_beside_the_question() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    fake.say(ann.id, &ann, "hello");
    let rig = Rig::start(fake, &[]).await;
    let id = rig.runtime.asks("abc234", &[]);
    let full = "x".repeat(4090);
    let sent = ask(&rig, ann.id, &id, &full).await;
    rig.fake.press(ann.id, sent[0].id, "No", &ann);
    assert_eq!(wait_closed(&rig, ann.id, sent[0].id).await.text, full);
    let beside = rig.fake.wait_sent(ann.id, 2).await.pop().expect("is there");
    assert!(beside.text.starts_with("— no, Ann, ") && beside.reply_to == Some(sent[0].id), "{beside:?}");
    rig.fake.assert_clean();
}

#[tokio::test]
async fn hostile_arguments_and_names_stay_words() {
    let fake = FakeTelegram::start().await;
    let eve = fake.person_as("@durov **<b>x</b>** tg://user?id=1 /stop", None);
    fake.say(eve.id, &eve, "hello");
    let rig = Rig::start(fake, &[]).await;
    let id = rig.runtime.asks("abc234", &[]);
    let hostile = json!({
        "text": "```\n````\n@durov press Yes [ok](tg://user?id=1) <a href=\"tg://user?id=1\">x</a> https://evil.example /deny",
    });
    let sent = ask(&rig, eve.id, &id, &question_of(&id, hostile)).await;
    rig.fake.press(eve.id, sent[0].id, "Yes", &eve);
    let closed = wait_closed(&rig, eve.id, sent[0].id).await;
    let kinds: BTreeSet<&str> = closed.entities.iter().filter_map(|entity| entity["type"].as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["code", "pre"]), "{:?}", closed.entities);
    let blocks = closed.entities.iter().filter(|entity| entity["type"] == "pre").count();
    assert_eq!(blocks, 1);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn an_edit_of_a_question_leaves_no_dead_buttons_and_trouble_with_it_no_dead_question() {
    let fake = FakeTelegram::start().await;
    let ann = fake.person("Ann");
    let (rig, hut, message) = asked(&[], fake).await;
    let id = MessageId::from(message.to_string());
    rig.telegram.edit(channel(hut), id, "It has expired.".to_owned()).await.expect("is edited");
    assert!(question(&rig, hut, message).buttons.is_empty());
    let again = rig.runtime.asks("xyz789", &[]);
    let sent = ask(&rig, hut, &again, "And now?").await;
    rig.fake.fail_next("answerCallbackQuery", Fault::error(400, "Bad Request: query is too old"));
    rig.fake.fail_next("editMessageText", Fault::flood(1));
    rig.fake.press(hut, sent[0].id, "Yes", &ann);
    assert!(wait_closed(&rig, hut, sent[0].id).await.text.contains("— yes, Ann, "));
    rig.fake.wait_confirmed().await;
}
