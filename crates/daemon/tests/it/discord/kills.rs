//! `kill -9` at awkward moments: each message is answered exactly once.

use cairn_testkit::discord::{Fault, Route};
use cairn_testkit::model::{Answer, Kind};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig};

/// Whatever was to come has come; so many messages are in the room.
async fn assert_sent(rig: &Rig, n: usize) {
    rig.ask(OTHER_ROOM, "zoe", "barrier").await;
    assert_eq!(rig.discord.sent(ROOM).len(), n, "{:?}\n{}", rig.discord.sent(ROOM), rig.log());
    let owed = async || {
        let list = rig.json_of(&["outbox", "list"]).await;
        list.as_array().unwrap().is_empty().then_some(())
    };
    rig.until("nothing is owed", owed).await;
    assert!(!rig.discord.is_typing(ROOM));
    rig.assert_clean();
}

#[tokio::test]
async fn killed_while_the_model_thinks() {
    let mut rig = Rig::start().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.discord.post(ROOM, "alice", "think").mention_bot().send();
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.kill().await;
    gate.open();
    rig.back().await;
    assert_eq!(rig.discord.wait_sent(ROOM, 1).await[0].content, "echo: think");
    assert_sent(&rig, 1).await;
}

#[tokio::test]
async fn killed_before_the_message_has_left() {
    let mut rig = Rig::start().await;
    let gate = rig.discord.hold(Route::Send);
    rig.discord.fail_next(Route::Send, Fault::Nothing);
    rig.discord.post(ROOM, "alice", "say it").mention_bot().send();
    rig.discord.wait_for(Route::Send, 1).await;
    rig.kill().await;
    gate.open();
    rig.back().await;
    let sent = rig.discord.wait_sent(ROOM, 1).await;
    assert_eq!((sent[0].content.as_str(), sent[0].repeats), ("echo: say it", 0));
    assert_sent(&rig, 1).await;
}

#[tokio::test]
async fn killed_after_the_message_is_there_and_before_the_answer_came() {
    let mut rig = Rig::start().await;
    rig.discord.fail_next(Route::Send, Fault::HungAnswer);
    rig.discord.post(ROOM, "alice", "say it").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.kill().await;
    rig.back().await;
    rig.discord.wait_for(Route::Send, 2).await;
    rig.discord.wait_until("the repeat", |discord| discord.sent(ROOM)[0].repeats == 1).await;
    assert_sent(&rig, 1).await;
}

#[tokio::test]
async fn killed_between_two_parts() {
    let mut rig = Rig::start().await;
    let reply: String =
        (0..60).map(|n| format!("Paragraph {n} {}\n\n", "goes on and on. ".repeat(6))).collect();
    rig.model.push(Kind::Reply, Answer::text(reply.trim()));
    let gate = rig.discord.hold(Route::Send);
    rig.discord.post(ROOM, "alice", "tell me").mention_bot().send();
    rig.discord.wait_for(Route::Send, 1).await;
    gate.pass(1);
    rig.discord.wait_for(Route::Send, 2).await;
    rig.kill().await;
    drop(gate);
    rig.back().await;
    let whole = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).last().is_some_and(|sent| sent.content.contains("Paragraph 59"))
    };
    rig.discord.wait_until("the last part", whole).await;
    let sent = rig.discord.sent(ROOM);
    let all: String = sent.iter().map(|sent| sent.content.clone() + "\n").collect();
    for n in 0..60 {
        assert_eq!(all.matches(&format!("Paragraph {n} ")).count(), 1, "{all}");
    }
    assert_sent(&rig, sent.len()).await;
}

#[tokio::test]
async fn killed_with_messages_on_their_way_in() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    for n in 0..30 {
        rig.discord.say(ROOM, "bob", &format!("chatter-{n}-"));
    }
    rig.discord.post(ROOM, "alice", "the question").mention_bot().send();
    rig.kill().await;
    rig.back().await;
    rig.discord.wait_sent(ROOM, 2).await;
    rig.ask(ROOM, "alice", "after").await;
    let request = rig.requests().pop().unwrap();
    let places: Vec<Option<usize>> = (0..30).map(|n| request.find(&format!("chatter-{n}-"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {request}");
    let doubles = (0..30).filter(|n| request.matches(&format!("chatter-{n}-")).count() != 1).count();
    assert_eq!(doubles, 0, "{request}");
    assert_sent(&rig, 3).await;
}

#[tokio::test]
async fn killed_while_a_command_runs_it_is_run_once() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.registered().await;
    rig.discord.fail(Route::Webhook, Fault::Hang);
    rig.discord.slash(ROOM, "alice", "remember", &[("text", "Rex is a dog of ours")]);
    rig.discord.wait_for(Route::Webhook, 1).await;
    rig.kill().await;
    rig.discord.fail(Route::Webhook, None);
    rig.back().await;
    let found = rig.command(ROOM, "alice", "memory", &[]).await;
    assert_eq!(found.words().matches("Rex is a dog of ours").count(), 1, "{}", found.words());
    assert_sent(&rig, 1).await;
}
