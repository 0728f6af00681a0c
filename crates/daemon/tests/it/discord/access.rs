//! Who is let in: pairing, and places that are always or never answered.

use crate::discord::rig::{OPERATOR, ROOM, Rig};

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
    rig.passed_over("its author waits to be let in").await;
    let list = rig.json_of(&["pair", "list"]).await;
    assert_eq!(list[0]["user"], format!("discord/{alice}"));
    assert_eq!(list[0]["state"], "waiting");
    let wrong = rig.cairn_with(&["pair", "approve", "NOSUCH22"]).await.ended(4);
    assert!(wrong.stderr.contains("NOSUCH22"), "{}", wrong.stderr);
    rig.cairn_with(&["pair", "approve", &code]).await.ended(0);
    let sent = rig.discord.wait_sent(chat, 2).await;
    assert!(sent[1].content.contains("approved"), "{}", sent[1].content);
    rig.discord.say(chat, "alice", "now answer me");
    let sent = rig.discord.wait_sent(chat, 3).await;
    assert_eq!(sent[2].content, "echo: now answer me");
    assert!(rig.requests().iter().all(|request| !request.contains("let me in")));
    // It lasts.
    rig.kill().await;
    rig.back().await;
    rig.discord.say(chat, "alice", "still me");
    assert_eq!(rig.discord.wait_sent(chat, 4).await[3].content, "echo: still me");
    rig.cairn_with(&["pair", "revoke", &format!("discord/{alice}")]).await.ended(0);
    rig.discord.say(chat, "alice", "and now?");
    // What is said after the operator's yes would be answered.
    rig.passed_over("its pairing was revoked").await;
    rig.cairn_with(&["pair", "approve", &format!("discord/{alice}")]).await.ended(0);
    rig.discord.say(chat, "alice", "back again");
    let sent = rig.discord.wait_sent(chat, 6).await;
    assert!(sent[4].content.contains("approved"), "{}", sent[4].content);
    assert_eq!(sent[5].content, "echo: back again", "what came between was answered by nothing");
    assert_eq!(rig.requests().len(), 3);
    rig.assert_clean();
}

#[tokio::test]
async fn whoever_is_banned_is_heard_nowhere_until_the_ban_is_lifted() {
    let rig = Rig::start().await;
    let alice = rig.discord.user("alice");
    let user = format!("discord/{alice}");
    rig.discord.post(ROOM, "alice", "first").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    let ban =
        rig.command(ROOM, OPERATOR, "ban", &[("who", &format!("<@{alice}> for 3d sells watches"))]).await;
    assert!(ban.words().contains("is banned until 2"), "{}", ban.words());
    rig.discord.post(ROOM, "alice", "not heard").mention_bot().send();
    rig.passed_over("banned").await;
    let refused = rig.command(ROOM, "alice", "status", &[]).await;
    assert!(refused.words().contains("not set up"), "{}", refused.words());
    let listed = rig.json_of(&["ban"]).await;
    assert_eq!((&listed[0]["user"], &listed[0]["reason"]), (&user.as_str().into(), &"sells watches".into()));
    rig.cairn_with(&["unban", &user]).await.ended(0);
    rig.discord.post(ROOM, "alice", "heard again").mention_bot().send();
    rig.discord.wait_sent(ROOM, 2).await;
    assert!(rig.requests().iter().all(|request| !request.contains("not heard")));
    rig.cairn_with(&["ban", "alice"]).await.ended(2);
    rig.assert_clean();
}

#[tokio::test]
async fn an_operator_lets_a_stranger_in_from_a_chat() {
    let rig = Rig::start().await;
    let chat = rig.discord.dm("alice");
    rig.discord.say(chat, "alice", "hello, let me in");
    let code = code_in(&rig.discord.wait_sent(chat, 1).await[0].content);
    let waiting = rig.command(ROOM, OPERATOR, "pair", &[]).await;
    assert!(waiting.words().contains("alice") && !waiting.words().contains(&code), "{}", waiting.words());
    let denied = rig.command(ROOM, "bob", "pair", &[("code", &code)]).await;
    assert!(denied.words().contains("for operators"), "{}", denied.words());
    let approved = rig.command(ROOM, OPERATOR, "pair", &[("code", &code)]).await;
    assert!(approved.words().contains("may talk to me now"), "{}", approved.words());
    rig.discord.say(chat, "alice", "now answer me");
    assert_eq!(rig.discord.wait_sent(chat, 2).await[1].content, "echo: now answer me");
    rig.assert_clean();
}
