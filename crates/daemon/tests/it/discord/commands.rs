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
        "approve",
        "ban",
        "compact",
        "context",
        "deny",
        "export",
        "forget",
        "forgetme",
        "help",
        "memory",
        "new",
        "pair",
        "private",
        "remember",
        "remind",
        "reminders",
        "status",
        "stop",
        "unban",
        "undo",
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
