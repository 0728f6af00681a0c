//! Who is let in: pairing, lists, places.

use crate::discord::rig::{ROOM, Rig, Setup};

/// The code in what a stranger was told.
fn code_in(text: &str) -> String {
    let found = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| word.len() >= 6 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()));
    found.unwrap_or_else(|| panic!("no code in {text}")).to_owned()
}

#[tokio::test]
async fn a_stranger_is_told_a_code_and_answered_once_an_operator_lets_them_in() {
    let mut rig = Rig::start().await;
    let (alice, chat) = (rig.discord.user("alice"), rig.discord.dm("alice"));
    rig.discord.say(chat, "alice", "hello, let me in");
    let told = rig.discord.wait_sent(chat, 1).await;
    let code = code_in(&told[0].content);
    // They are not told again at once.
    rig.discord.say(chat, "alice", "hello?");
    let list = rig.json_of(&["pair", "list"]).await;
    assert_eq!(list[0]["user"], format!("discord/{alice}"));
    assert_eq!(list[0]["state"], "waiting");
    let run = rig.cairn_with(&["pair", "approve", &code]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    let sent = rig.discord.wait_sent(chat, 2).await;
    assert!(sent[1].content.contains("let in"), "{}", sent[1].content);
    rig.discord.say(chat, "alice", "now answer me");
    let sent = rig.discord.wait_sent(chat, 3).await;
    assert_eq!(sent[2].content, "echo: now answer me");
    assert!(rig.requests().iter().all(|request| !request.contains("let me in")));
    // It lasts.
    rig.kill().await;
    rig.back().await;
    rig.discord.say(chat, "alice", "still me");
    assert_eq!(rig.discord.wait_sent(chat, 4).await[3].content, "echo: still me");
    let run = rig.cairn_with(&["pair", "revoke", &format!("discord/{alice}")]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    rig.discord.say(chat, "alice", "and now?");
    let sent = rig.discord.wait_sent(chat, 5).await;
    assert_ne!(code_in(&sent[4].content), code);
    assert_eq!(rig.requests().len(), 2);
    rig.assert_clean();
}

#[tokio::test]
async fn a_wrong_code_lets_nobody_in() {
    let rig = Rig::start().await;
    let run = rig.cairn_with(&["pair", "approve", "NOSUCH22"]).await;
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.stderr.contains("NOSUCH22"), "{}", run.stderr);
}

#[tokio::test]
async fn a_private_chat_needs_no_mention_and_a_list_no_code() {
    let rig = Setup::default().build().await;
    let (alice, chat) = (rig.discord.user("alice"), rig.discord.dm("alice"));
    let mut rig = rig.with_keys(&format!("direct = \"allowlist\"\nusers = [{alice}]"));
    rig.back().await;
    rig.discord.say(rig.discord.dm("mallory"), "mallory", "let me in");
    rig.discord.say(chat, "alice", "hello");
    assert_eq!(rig.discord.wait_sent(chat, 1).await[0].content, "echo: hello");
    rig.ask(ROOM, "alice", "barrier").await;
    assert!(rig.discord.sent(rig.discord.dm("mallory")).is_empty());
    rig.assert_clean();
}

#[tokio::test]
async fn what_no_list_names_is_not_served() {
    let rig = Rig::start().await;
    rig.discord.guild(900);
    rig.discord.channel(900, 901);
    rig.discord.post(901, "mallory", "answer me").mention_bot().send();
    rig.ask(ROOM, "alice", "barrier").await;
    rig.registered().await;
    let refused = rig.command(901, "mallory", "status", &[]).await;
    assert!(refused.ephemeral, "{refused:?}");
    assert!(rig.discord.sent(901).is_empty());
    let channels = rig.client().get("/v1/channels").await.unwrap();
    assert!(!channels.to_string().contains("901"), "{channels}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_place_may_be_answered_always_or_never() {
    let keys = "[[discord.places]]\nchat = 101\nrespond = \"all\"\n\n[[discord.places]]\nchat = 102\nrespond = \"never\"";
    let rig = Setup { tables: keys.to_owned(), ..Setup::default() }.start().await;
    rig.discord.post(102, "alice", "never heard").mention_bot().send();
    rig.discord.say(ROOM, "alice", "no mention here");
    assert_eq!(rig.discord.wait_sent(ROOM, 1).await[0].content, "echo: no mention here");
    assert!(rig.discord.sent(102).is_empty());
    rig.assert_clean();
}
