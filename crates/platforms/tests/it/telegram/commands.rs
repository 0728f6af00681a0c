//! Commands: who runs them, and who sees the answer.

use cairn_testkit::telegram::{FakeTelegram, Say};
use cairn_types::command::{COMMANDS, Command};

use crate::telegram::{Rig, open_to};

fn answers(rig: &Rig, words: &str, private: bool) {
    rig.runtime.answers(words, private);
}

#[tokio::test]
async fn commands_are_registered_once_so_that_they_complete() {
    let mut rig = Rig::start(FakeTelegram::start().await, &[]).await;
    rig.fake.wait_until("the commands", |fake| fake.commands("default").len() == COMMANDS.len()).await;
    rig.running.take().expect("it runs").abort();
    rig.run();
    rig.fake.wait_for("getMyCommands", 2).await;
    let ann = rig.fake.person("Ann");
    answers(&rig, "fine", false);
    rig.fake.command(ann.id, &ann, "/status");
    rig.fake.wait_sent(ann.id, 1).await;
    assert_eq!(rig.fake.calls("setMyCommands").len(), 1);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_command_is_run_and_its_answer_back() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    answers(&rig, "remembered", false);
    let id = rig.fake.command(ann.id, &ann, "/remember I like tea");
    let sent = rig.fake.wait_sent(ann.id, 1).await;
    assert_eq!((sent[0].text.as_str(), sent[0].reply_to), ("remembered", Some(id)));
    let call = rig.runtime.state.lock().calls[0].clone();
    assert_eq!(call.command, Ok(Command::Remember { text: "I like tea".to_owned() }));
    assert_eq!((call.message.as_str(), call.direct), (id.to_string().as_str(), true));
    assert!(rig.runtime.state.lock().taken.is_empty(), "a command is nothing said to the model");
}

#[tokio::test]
async fn an_unknown_command_gets_a_hint_privately_and_others_bots_commands_nothing() {
    let fake = FakeTelegram::start().await;
    let (hut, ann) = (fake.group("Hut"), fake.person("Ann"));
    let rig = Rig::start(fake, &[hut]).await;
    rig.fake.command(ann.id, &ann, "/dance");
    let sent = rig.fake.wait_sent(ann.id, 1).await;
    assert!(sent[0].text.contains("/help"), "{}", sent[0].text);
    rig.fake.say(hut, &ann, "/status@another_bot");
    rig.fake.say(hut, &ann, "/weather");
    rig.fake.wait_confirmed().await;
    assert!(rig.fake.sent(hut).is_empty());
    let state = rig.runtime.state.lock();
    assert!(state.calls.is_empty() && state.taken.is_empty());
}

#[tokio::test]
async fn a_private_answer_in_a_group_goes_to_the_private_chat_or_asks_for_one() {
    let fake = FakeTelegram::start().await;
    let (hut, ann, bob) = (fake.group("Hut"), fake.person("Ann"), fake.person("Bob"));
    let rig = Rig::start(fake, &[hut]).await;
    rig.fake.say(ann.id, &ann, "hello");
    rig.runtime.wait_taken(1).await;
    answers(&rig, "all about you", true);
    rig.fake.command(hut, &ann, "/export");
    assert_eq!(rig.fake.wait_sent(ann.id, 1).await[0].text, "all about you");
    assert!(rig.fake.sent(hut).is_empty());
    rig.fake.block(&bob);
    rig.fake.command(hut, &bob, "/export");
    let sent = rig.fake.wait_sent(hut, 1).await;
    assert!(sent[0].text.contains("private chat") && !sent[0].text.contains("all about"), "{}", sent[0].text);
}

#[tokio::test]
async fn a_slow_command_holds_nobody_up_and_is_answered_when_it_is_done() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let gate = rig.runtime.hold("/compact");
    answers(&rig, "compacted", false);
    rig.fake.command(ann.id, &ann, "/compact");
    rig.fake.say(ann.id, &ann, "meanwhile");
    rig.runtime.wait_taken(1).await;
    rig.fake.wait_confirmed().await;
    assert!(rig.fake.sent(ann.id).is_empty());
    gate.pass(1);
    assert_eq!(rig.fake.wait_sent(ann.id, 1).await[0].text, "compacted");
}

#[tokio::test]
async fn stop_passes_messages_that_wait_for_room() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let ann = rig.fake.person("Ann");
    rig.runtime.state.lock().busy.insert(ann.id.to_string());
    rig.fake.say(ann.id, &ann, "waits");
    rig.fake.say(ann.id, &ann, Say::text("/stop"));
    rig.run();
    rig.runtime.wait_until("the command", |state| state.calls.len() == 1).await;
    assert_eq!(rig.runtime.state.lock().calls[0].command, Ok(Command::Stop));
    rig.runtime.state.lock().busy.clear();
    rig.runtime.wait_taken(1).await;
    rig.fake.wait_confirmed().await;
}
