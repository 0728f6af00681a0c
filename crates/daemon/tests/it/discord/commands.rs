//! Slash commands: registered, put off in time, answered to the right eyes.

use cairn_testkit::discord::Answer;
use cairn_testkit::model::{FakeModel, Kind};

use crate::discord::rig::{OPERATOR, ROOM, Rig, Setup};

/// A command's name and options, and whether its answer is for its caller alone.
type Given = (&'static str, &'static [(&'static str, &'static str)], bool);

/// Commands as the operator gives them in a server, in an order in which each has something to do.
const ALL: [Given; 12] = [
    ("help", &[], false),
    ("status", &[], false),
    ("context", &[], false),
    ("remember", &[("text", "Rex is a dog of ours")], false),
    ("memory", &[("query", "Rex")], true),
    ("memory", &[], true),
    ("forget", &[("what", "Rex is a dog")], true),
    ("export", &[], true),
    ("forgetme", &[], true),
    ("compact", &[("instruction", "keep numbers")], false),
    ("undo", &[], false),
    ("stop", &[], false),
];

async fn rig() -> Rig {
    // `/undo` takes from the prefix.
    let model = FakeModel::builder().window(8_000).expect_stable_prefix(false);
    let rig = Setup { model, ..Setup::default() }.start().await;
    rig.ask(ROOM, OPERATOR, "let us begin").await;
    rig.registered().await;
    rig
}

#[tokio::test]
async fn every_command_is_registered_put_off_and_answered() {
    let rig = rig().await;
    let mut names: Vec<String> =
        rig.discord.commands().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    let expected = [
        "approve", "compact", "context", "deny", "export", "forget", "forgetme", "help", "memory", "new",
        "remember", "status", "stop", "undo",
    ];
    assert_eq!(names, expected);
    for (name, options, hidden) in ALL {
        let answer: Answer = rig.command(ROOM, OPERATOR, name, options).await;
        assert!(answer.deferred, "/{name}: {answer:?}");
        assert_eq!(answer.ephemeral, hidden, "/{name}: {answer:?}");
        assert!(!answer.words().contains("failed"), "/{name}: {}", answer.words());
    }
    let answer = rig.command(ROOM, OPERATOR, "new", &[]).await;
    assert!(answer.words().contains("archive"), "{}", answer.words());
    assert_eq!(
        rig.discord.sent(ROOM).len(),
        1,
        "commands are answered where they are given, and nowhere else"
    );
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_remembered_is_found_and_forgotten() {
    let rig = rig().await;
    rig.command(ROOM, OPERATOR, "remember", &[("text", "Rex is a dog of ours")]).await;
    let found = rig.command(ROOM, OPERATOR, "memory", &[("query", "Rex")]).await;
    assert!(found.ephemeral && found.words().contains("Rex is a dog of ours"), "{}", found.words());
    rig.command(ROOM, OPERATOR, "forget", &[("what", "Rex is a dog of ours")]).await;
    let found = rig.command(ROOM, OPERATOR, "memory", &[]).await;
    assert!(!found.words().contains("Rex is a dog of ours"), "{}", found.words());
    rig.assert_clean();
}

#[tokio::test]
async fn the_context_is_drawn_in_a_block() {
    let rig = rig().await;
    let answer = rig.command(ROOM, OPERATOR, "context", &[]).await;
    let words = answer.words();
    assert!(words.contains("```\n[") && words.contains("calm"), "{words}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_new_conversation_knows_nothing_of_the_old_one() {
    let rig = rig().await;
    rig.command(ROOM, OPERATOR, "new", &[]).await;
    rig.ask(ROOM, "alice", "what did we say?").await;
    let request = rig.requests().pop().unwrap();
    assert!(!request.contains("let us begin"), "{request}");
    rig.assert_clean();
}

#[tokio::test]
async fn undo_takes_the_last_turn_back() {
    let rig = rig().await;
    rig.ask(ROOM, "alice", "a mistake of mine").await;
    rig.command(ROOM, OPERATOR, "undo", &[]).await;
    rig.ask(ROOM, "alice", "go on").await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("let us begin") && !request.contains("a mistake of mine"), "{request}");
    rig.assert_clean();
}

#[tokio::test]
async fn stop_ends_the_answer_under_way() {
    let rig = rig().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.discord.post(ROOM, "alice", "a long story, please").mention_bot().send();
    rig.model.wait_for(Kind::Reply, 2).await;
    rig.command(ROOM, OPERATOR, "stop", &[]).await;
    rig.model.wait_until("the call is given up", |model| model.tally(Kind::Reply).abandoned == 1).await;
    gate.open();
    rig.ask(ROOM, "alice", "go on").await;
    let sent = rig.discord.sent(ROOM);
    assert!(sent.iter().all(|sent| sent.content != "echo: a long story, please"), "{sent:?}");
    assert!(!rig.discord.is_typing(ROOM));
    rig.assert_clean();
}

#[tokio::test]
async fn who_may_not_is_told_so_alone() {
    let rig = rig().await;
    let answer = rig.command(ROOM, "alice", "new", &[]).await;
    assert!(answer.words().contains("private chats"), "{}", answer.words());
    // Nothing happened.
    rig.ask(ROOM, "alice", "still there?").await;
    assert!(rig.requests().pop().unwrap().contains("let us begin"));
    rig.assert_clean();
}

#[tokio::test]
async fn a_stranger_who_gives_a_command_privately_is_told_a_code() {
    let rig = rig().await;
    let chat = rig.discord.dm("mallory");
    let answer = rig.command(chat, "mallory", "export", &[]).await;
    assert!(answer.ephemeral && answer.words().contains("cairn pair approve"), "{}", answer.words());
    rig.assert_clean();
}

#[tokio::test]
async fn a_command_is_answered_while_the_model_thinks_and_the_api_stumbles() {
    let rig = rig().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.discord.post(ROOM, "alice", "think").mention_bot().send();
    rig.model.wait_for(Kind::Reply, 2).await;
    rig.discord.fail_next(cairn_testkit::discord::Route::Webhook, cairn_testkit::discord::Fault::Status(503));
    let answer = rig.command(ROOM, OPERATOR, "status", &[]).await;
    assert!(answer.words().contains("under way"), "{}", answer.words());
    gate.open();
    rig.discord.wait_sent(ROOM, 2).await;
    rig.assert_clean();
}
