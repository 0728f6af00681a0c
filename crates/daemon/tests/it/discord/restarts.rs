//! Downtime and `kill -9` at awkward moments: what was missed is answered as one turn a channel, each message exactly once.

use cairn_testkit::discord::{Fault, Route};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

#[tokio::test]
async fn what_was_said_while_the_daemon_was_away_is_one_turn_a_channel() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.ask(OTHER_ROOM, "alice", "before").await;
    rig.stop().await;
    rig.discord.forget_sessions();
    for n in 0..5 {
        rig.discord.say(ROOM, "bob", &format!("chatter {n}"));
        rig.discord.post(ROOM, "alice", &format!("missed {n}")).mention_bot().send();
    }
    rig.discord.say(OTHER_ROOM, "bob", "nobody asked");
    rig.back().await;
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    rig.ask(ROOM, "alice", "after").await;
    rig.ask(OTHER_ROOM, "alice", "after").await;
    assert_eq!((rig.discord.sent(ROOM).len(), rig.discord.sent(OTHER_ROOM).len()), (3, 2), "{sent:?}");
    let requests = rig.requests();
    let request = requests.iter().find(|request| request.contains("missed 4")).unwrap();
    for n in 0..5 {
        assert_eq!(request.matches(&format!("missed {n}")).count(), 1, "{request}");
        assert_eq!(request.matches(&format!("chatter {n}")).count(), 1, "{request}");
    }
    assert!(requests.last().unwrap().contains("nobody asked"), "{}", requests.last().unwrap());
    rig.assert_clean();
}

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

#[tokio::test]
async fn whoever_was_no_member_when_they_spoke_is_not_heard_after_a_restart() {
    let mut rig = Setup::default().keys("members = []").build().await;
    let only_alice = format!("members = [{}]", rig.discord.user("alice"));
    rig.configure("members = []", &only_alice);
    rig.run().await;
    rig.discord.wait_ready().await;
    rig.discord.post(ROOM, "bob", "shut out before").mention_bot().send();
    rig.ask(ROOM, "alice", "before").await;
    rig.discord.post(ROOM, "bob", "shut out after").mention_bot().send();
    rig.ask(OTHER_ROOM, "alice", "barrier").await;
    rig.kill().await;
    rig.discord.forget_sessions();
    rig.discord.post(ROOM, "alice", "missed").mention_bot().send();
    rig.configure(&only_alice, "members = []");
    rig.back().await;
    assert_eq!(rig.discord.wait_sent(ROOM, 2).await[1].content, "echo: missed");
    rig.ask(ROOM, "bob", "let in").await;
    let done = rig.wait_platform("caught up", |platform| platform["caught_up"].is_object()).await;
    assert_eq!(
        (&done["caught_up"]["messages"], &done["caught_up"]["read"]),
        (&1.into(), &2.into()),
        "{done}"
    );
    assert!(rig.requests().iter().all(|request| !request.contains("shut out")), "{:?}", rig.requests());
    let shown = rig.cairn_with(&["status"]).await.stdout;
    assert!(shown.contains("caught up 2") && shown.contains(": 1 message; 2 chats read, "), "{shown}");
    assert!(rig.log().contains("caught up with missed messages"), "{}", rig.log());
    rig.assert_clean();
}

#[tokio::test]
async fn rules_that_a_reload_brought_count_from_then_on() {
    let mut rig = Setup::default().keys("members = []").build().await;
    let only_alice = format!("members = [{}]", rig.discord.user("alice"));
    rig.configure("members = []", &only_alice);
    rig.run().await;
    rig.discord.wait_ready().await;
    rig.discord.post(ROOM, "bob", "shut out").mention_bot().send();
    rig.ask(ROOM, "alice", "before").await;
    rig.configure(&only_alice, "members = []");
    rig.cairn_with(&["reload"]).await.ended(0);
    rig.stop().await;
    rig.discord.forget_sessions();
    rig.discord.post(ROOM, "bob", "missed").mention_bot().send();
    rig.back().await;
    assert_eq!(rig.discord.wait_sent(ROOM, 2).await[1].content, "echo: missed");
    assert!(rig.requests().iter().all(|request| !request.contains("shut out")), "{:?}", rig.requests());
    rig.assert_clean();
}

#[tokio::test]
async fn what_was_deleted_while_the_daemon_was_away_is_in_no_request_any_more() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    let gone = rig.discord.say(ROOM, "bob", "the code is xyzzy");
    let accepted = async || {
        rig.json_of(&["history", "main/discord/101"]).await.to_string().contains("xyzzy").then_some(())
    };
    rig.until("it is taken in", accepted).await;
    rig.stop().await;
    rig.discord.forget_sessions();
    rig.discord.delete(ROOM, &[gone]);
    rig.discord.post(ROOM, "alice", "missed").mention_bot().send();
    rig.back().await;
    rig.discord.wait_sent(ROOM, 2).await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("missed") && !request.contains("xyzzy"), "{request}");
    let done = rig.wait_platform("caught up", |platform| platform["caught_up"].is_object()).await;
    assert_eq!(done["caught_up"]["deleted"], 1, "{done}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_private_chat_that_was_never_heard_in_is_caught_up_from_when_its_person_was_let_in() {
    let mut rig = Rig::start().await;
    let chat = rig.discord.dm("alice");
    rig.discord.say(chat, "alice", "hello, let me in");
    let told = rig.discord.wait_sent(chat, 1).await;
    let code = told[0].content.split('`').nth(1).unwrap().to_owned();
    rig.cairn_with(&["pair", "approve", &code]).await.ended(0);
    rig.discord.wait_sent(chat, 2).await;
    rig.stop().await;
    rig.discord.forget_sessions();
    rig.discord.say(chat, "alice", "are you there?");
    rig.back().await;
    let sent = rig.discord.wait_sent(chat, 3).await;
    assert_eq!(sent[2].content, "echo: are you there?");
    assert!(rig.requests().iter().all(|request| !request.contains("let me in")), "{:?}", rig.requests());
    // From here on the chat is known by what was said there.
    rig.stop().await;
    rig.discord.forget_sessions();
    rig.discord.say(chat, "alice", "and now?");
    rig.back().await;
    assert_eq!(rig.discord.wait_sent(chat, 4).await[3].content, "echo: and now?");
    rig.assert_clean();
}
