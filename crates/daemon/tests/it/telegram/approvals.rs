//! Calls of tools that wait for approval, in a chat: asked with buttons, answered by them or by a reply.

use std::path::Path;

use cairn_testkit::mcp::{OverStdio, Script};
use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::{Say, Sent};
use serde_json::json;

use super::rig::{Rig, World};

/// A daemon with a tool server whose calls wait for Alice's approval.
async fn rig(folder: &Path) -> (Rig, OverStdio) {
    rig_where(folder, |_| String::new()).await
}

/// `trust`: more keys of `[defaults.trust]`, by Alice's id.
async fn rig_where(folder: &Path, trust: impl Fn(i64) -> String) -> (Rig, OverStdio) {
    let world = World::new().await;
    let server = Script::default().over_stdio(folder, "files");
    let program = Path::new(env!("CARGO_BIN_EXE_cairn")).with_file_name("fake-mcp");
    let keys = format!(
        "direct = \"open\"\n\n[defaults]\ntools = [\"files/*\"]\n\n[defaults.trust]\napprovers = [\"telegram/{}\"]\n{}\n\n\
         [[mcp]]\nid = \"files\"\ncommand = \"{}\"\nargs = {:?}\n",
        world.alice.id,
        trust(world.alice.id),
        program.display(),
        server.args(),
    );
    let rig = world.start(&keys).await;
    let (code, text) = rig.cairn(&["mcp", "approve", "files", "--yes"]).await;
    assert_eq!(code, 0, "{text}");
    (rig, server)
}

/// Alice has the model write; the bot's question.
async fn asked(rig: &Rig, n: u64) -> Sent {
    rig.model.push(Kind::Reply, Answer::call("files__write", json!({ "n": n })));
    rig.model.push(Kind::Reply, Answer::text("I see."));
    let question = rig.ask(&rig.alice, "please write").await;
    assert!(question.text.contains("files__write") && question.text.contains("\"n\""), "{question:?}");
    // A reply counts once its question is known to have been sent.
    rig.delivered().await;
    question
}

#[tokio::test]
async fn a_button_and_a_reply_answer_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, server) = rig(folder.path()).await;
    let chat = rig.alice.id;
    let question = asked(&rig, 1).await;
    assert!(server.log().effects().is_empty(), "nothing is done before the approval");
    rig.telegram.press(chat, question.id, "Yes", &rig.alice);
    server.log().wait_until("the call", |log| log.effects().len() == 1).await;
    let said = rig.telegram.wait_sent(chat, 2).await;
    assert_eq!(said[1].text, "I see.");
    // The next one: a plain word that answers another message is none, a reply to the question is.
    let question = asked(&rig, 2).await;
    rig.telegram.say(chat, &rig.alice, Say::from("yes").reply_to(said[1].id));
    rig.telegram.say(chat, &rig.alice, Say::from("no").reply_to(question.id));
    rig.until("/v1/approvals", |open| open.as_array().unwrap().is_empty()).await;
    rig.until("/v1/tools/log", |log| log.as_array().unwrap().len() == 2).await;
    let log = rig.json(&["tools", "log"]).await;
    assert_eq!((&log[0]["outcome"], &log[1]["outcome"]), (&json!("done"), &json!("denied")), "{log}");
    assert_eq!(server.log().effects().len(), 1);
    rig.delivered().await;
    rig.end().await;
}

#[tokio::test]
async fn what_an_inline_bot_wrote_for_a_trusted_person_waits_for_approval_and_is_no_approval() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, server) = rig_where(folder.path(), |alice| format!("trusted = [\"telegram/{alice}\"]")).await;
    let chat = rig.alice.id;
    rig.model.push(Kind::Reply, Answer::call("files__write", json!({ "n": 1 })));
    rig.model.push(Kind::Reply, Answer::text("I see."));
    // The shape of a message that an inline bot wrote: https://core.telegram.org/bots/api#message
    let bot = json!({"via_bot": {"id": 777, "is_bot": true, "first_name": "Pic", "username": "pic_bot"}});
    rig.telegram.say(chat, &rig.alice, Say::from("please write").extra(bot.clone()));
    let question = rig.telegram.wait_sent(chat, 1).await[0].clone();
    assert!(question.text.contains("files__write"), "{question:?}");
    rig.delivered().await;
    assert!(server.log().effects().is_empty());
    // What an inline bot writes answers nothing, neither as a reply nor as a command.
    rig.telegram.say(chat, &rig.alice, Say::from("yes").reply_to(question.id).extra(bot.clone()));
    rig.telegram.say(chat, &rig.alice, Say::from("/approve").extra(bot));
    rig.telegram.say(chat, &rig.alice, Say::from("no").reply_to(question.id));
    rig.until("/v1/tools/log", |log| log.as_array().unwrap().len() == 1).await;
    let log = rig.json(&["tools", "log"]).await;
    assert_eq!(log[0]["outcome"], "denied", "{log}");
    assert!(server.log().effects().is_empty(), "what is refused is not run");
}

#[tokio::test]
async fn what_a_trusted_person_wrote_needs_no_approval() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, server) = rig_where(folder.path(), |alice| format!("trusted = [\"telegram/{alice}\"]")).await;
    rig.model.push(Kind::Reply, Answer::call("files__write", json!({ "n": 1 })));
    rig.model.push(Kind::Reply, Answer::text("I see."));
    assert_eq!(rig.ask(&rig.alice, "please write").await.text, "I see.");
    assert_eq!(server.log().effects().len(), 1);
}
