//! `kill -9` at awkward moments: each message is answered exactly once.

use cairn_testkit::discord::{Fault, Route};
use cairn_testkit::model::{Answer, Kind};

use crate::discord::house::{House, OTHER_ROOM, ROOM};

/// Whatever was to come has come; so many messages are in the room.
async fn assert_sent(house: &House, n: usize) {
    house.ask(OTHER_ROOM, "zoe", "barrier").await;
    assert_eq!(house.discord.sent(ROOM).len(), n, "{:?}\n{}", house.discord.sent(ROOM), house.log());
    let owed = async || {
        let list = house.json_of(&["outbox", "list"]).await;
        list.as_array().unwrap().is_empty().then_some(())
    };
    house.until("nothing is owed", owed).await;
    assert!(!house.discord.is_typing(ROOM));
    house.assert_clean();
}

#[tokio::test]
async fn killed_while_the_model_thinks() {
    let mut house = House::start().await;
    let gate = house.model.hold(Kind::Reply);
    house.discord.post(ROOM, "alice", "think").mention_bot().send();
    house.model.wait_for(Kind::Reply, 1).await;
    house.kill().await;
    gate.open();
    house.back().await;
    assert_eq!(house.discord.wait_sent(ROOM, 1).await[0].content, "echo: think");
    assert_sent(&house, 1).await;
}

#[tokio::test]
async fn killed_before_the_message_has_left() {
    let mut house = House::start().await;
    let gate = house.discord.hold(Route::Send);
    house.discord.fail_next(Route::Send, Fault::Nothing);
    house.discord.post(ROOM, "alice", "say it").mention_bot().send();
    house.discord.wait_for(Route::Send, 1).await;
    house.kill().await;
    gate.open();
    house.back().await;
    let sent = house.discord.wait_sent(ROOM, 1).await;
    assert_eq!((sent[0].content.as_str(), sent[0].repeats), ("echo: say it", 0));
    assert_sent(&house, 1).await;
}

#[tokio::test]
async fn killed_after_the_message_is_there_and_before_the_answer_came() {
    let mut house = House::start().await;
    house.discord.fail_next(Route::Send, Fault::HungAnswer);
    house.discord.post(ROOM, "alice", "say it").mention_bot().send();
    house.discord.wait_sent(ROOM, 1).await;
    house.kill().await;
    house.back().await;
    house.discord.wait_for(Route::Send, 2).await;
    house.discord.wait_until("the repeat", |discord| discord.sent(ROOM)[0].repeats == 1).await;
    assert_sent(&house, 1).await;
}

#[tokio::test]
async fn killed_between_two_parts() {
    let mut house = House::start().await;
    let reply: String =
        (0..60).map(|n| format!("Paragraph {n} {}\n\n", "goes on and on. ".repeat(6))).collect();
    house.model.push(Kind::Reply, Answer::text(reply.trim()));
    let gate = house.discord.hold(Route::Send);
    house.discord.post(ROOM, "alice", "tell me").mention_bot().send();
    house.discord.wait_for(Route::Send, 1).await;
    gate.pass(1);
    house.discord.wait_for(Route::Send, 2).await;
    house.kill().await;
    drop(gate);
    house.back().await;
    let whole = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).last().is_some_and(|sent| sent.content.contains("Paragraph 59"))
    };
    house.discord.wait_until("the last part", whole).await;
    let sent = house.discord.sent(ROOM);
    let all: String = sent.iter().map(|sent| sent.content.clone() + "\n").collect();
    for n in 0..60 {
        assert_eq!(all.matches(&format!("Paragraph {n} ")).count(), 1, "{all}");
    }
    assert_sent(&house, sent.len()).await;
}

#[tokio::test]
async fn killed_with_messages_on_their_way_in() {
    let mut house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    for n in 0..30 {
        house.discord.say(ROOM, "bob", &format!("chatter-{n}-"));
    }
    house.discord.post(ROOM, "alice", "the question").mention_bot().send();
    house.kill().await;
    house.back().await;
    house.discord.wait_sent(ROOM, 2).await;
    house.ask(ROOM, "alice", "after").await;
    let request = house.requests().pop().unwrap();
    let places: Vec<Option<usize>> = (0..30).map(|n| request.find(&format!("chatter-{n}-"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {request}");
    let doubles = (0..30).filter(|n| request.matches(&format!("chatter-{n}-")).count() != 1).count();
    assert_eq!(doubles, 0, "{request}");
    assert_sent(&house, 3).await;
}

#[tokio::test]
async fn killed_while_a_command_runs_it_is_run_once() {
    let mut house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    house.registered().await;
    house.discord.fail(Route::Webhook, Fault::Hang);
    house.discord.slash(ROOM, "alice", "remember", &[("text", "Rex is a dog of ours")]);
    house.discord.wait_for(Route::Webhook, 1).await;
    house.kill().await;
    house.discord.fail(Route::Webhook, None);
    house.back().await;
    let found = house.command(ROOM, "alice", "memory", &[]).await;
    assert_eq!(found.words().matches("Rex is a dog of ours").count(), 1, "{}", found.words());
    assert_sent(&house, 1).await;
}
