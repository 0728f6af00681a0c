//! Who is let in: pairing, and places that are always or never answered.

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
    let wrong = rig.cairn_with(&["pair", "approve", "NOSUCH22"]).await;
    assert_eq!(wrong.code, Some(4), "{wrong:?}");
    assert!(wrong.stderr.contains("NOSUCH22"), "{}", wrong.stderr);
    let run = rig.cairn_with(&["pair", "approve", &code]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
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
    let run = rig.cairn_with(&["pair", "revoke", &format!("discord/{alice}")]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    rig.discord.say(chat, "alice", "and now?");
    let sent = rig.discord.wait_sent(chat, 5).await;
    assert_ne!(code_in(&sent[4].content), code);
    assert_eq!(rig.requests().len(), 2);
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
