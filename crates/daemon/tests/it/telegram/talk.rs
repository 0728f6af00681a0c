//! A conversation as people see it: replies, typing, long texts, edits, drafts, models that are down.

use std::sync::atomic::Ordering;

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::{Say, Sent, What};

use super::rig::{Rig, World, texts};

#[tokio::test]
async fn a_private_message_is_answered() {
    let rig = Rig::open().await;
    let asked = rig.telegram.say(rig.alice.id, &rig.alice, "where is the quokka?");
    let sent = rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert_eq!((sent[0].text.as_str(), sent[0].reply_to), ("echo: where is the quokka?", Some(asked)));
    rig.telegram.wait_confirmed().await;
    let history = rig.json(&["history", &format!("main/telegram/{}", rig.alice.id)]).await;
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
    let author = &history[0]["author"];
    assert_eq!(author["id"], format!("telegram/{}", rig.alice.id));
    assert_eq!(author["name"], "Alice Quokka");
    rig.end().await;
}

#[tokio::test]
async fn typing_is_shown_before_the_answer_and_never_after() {
    let rig = Rig::open().await;
    let gate = rig.model.hold(Kind::Reply);
    let chat = rig.alice.id;
    rig.telegram.say(chat, &rig.alice, "think long, quokka");
    let types = |rig: &Rig| rig.telegram.acts(chat).contains(&What::Typing);
    rig.telegram.wait_until("typing", |_| types(&rig)).await;
    assert!(rig.telegram.sent(chat).is_empty());
    gate.open();
    rig.telegram.wait_sent(chat, 1).await;
    rig.delivered().await;
    let world = rig.end().await;
    let acts = world.telegram.acts(chat);
    assert!(matches!(acts.last(), Some(What::Sent(_))), "{acts:?}");
}

#[tokio::test]
async fn a_long_reply_is_split_with_its_code_kept_code() {
    let rig = Rig::open().await;
    let code: Vec<String> = (0..300).map(|n| format!("    let quokka_{n} = hop({n}); // 😀")).collect();
    let prose = "The quokka is a small **wallaby**. It lives on an island, and smiles. ".repeat(30);
    let reply = format!("{prose}\n\n```rust\n{}\n```\n\nThat is *all*.", code.join("\n"));
    rig.model.push(Kind::Reply, Answer::text(reply));
    let asked = rig.telegram.say(rig.alice.id, &rig.alice, "tell me all, quokka");
    rig.telegram
        .wait_until("the end of the reply", |telegram| {
            telegram.sent(rig.alice.id).last().is_some_and(|last| last.text.contains("That is all."))
        })
        .await;
    let sent = rig.telegram.sent(rig.alice.id);
    assert!(sent.len() > 3, "{}", sent.len());
    let replies: Vec<_> = sent.iter().map(|sent| sent.reply_to).collect();
    assert_eq!(replies.iter().flatten().collect::<Vec<_>>(), [&asked], "the first part alone replies");
    assert_eq!(replies[0], Some(asked));
    let lines: Vec<&str> = sent.iter().flat_map(|sent| sent.text.lines()).collect();
    let found: Vec<&&str> = lines.iter().filter(|line| line.contains("let quokka_")).collect();
    assert_eq!(found.len(), code.len(), "each line of code is there once");
    assert!(found.iter().zip(&code).all(|(found, line)| **found == line), "and whole, and in order");
    for part in sent.iter().filter(|sent| sent.text.contains("let quokka_")) {
        let blocks: Vec<_> = part.entities.iter().filter(|entity| entity["type"] == "pre").collect();
        assert_eq!(blocks.len(), 1, "{}", part.markdown());
        assert_eq!(blocks[0]["language"], "rust");
    }
    assert!(!sent.iter().any(|sent| sent.text.contains("```") || sent.text.contains("**")));
    rig.end().await;
}

#[tokio::test]
async fn an_edit_reaches_the_model_as_a_correction() {
    let rig = Rig::open().await;
    let message = rig.telegram.say(rig.alice.id, &rig.alice, "the quokka is called Kiki");
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    rig.telegram.edit(rig.alice.id, message, "the quokka is called Koko");
    rig.telegram.wait_confirmed().await;
    rig.ask(&rig.alice, "what is the quokka called?").await;
    let request = rig.last_request();
    let (before, after) = (request.find("Kiki"), request.rfind("Koko"));
    assert!(before.is_some() && before < after, "{request}");
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 2, "an edit is no message");
    rig.end().await;
}

#[tokio::test]
async fn what_waits_while_it_thinks_is_answered_at_once() {
    let rig = Rig::open().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(rig.alice.id, &rig.alice, "first quokka");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.say(rig.alice.id, &rig.alice, "second quokka");
    rig.telegram.say(rig.alice.id, &rig.alice, "third quokka");
    rig.telegram.wait_confirmed().await;
    gate.open();
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(texts(&sent)[0], "echo: first quokka");
    let request = rig.last_request();
    assert!(request.contains("second quokka") && request.contains("third quokka"), "{request}");
    rig.delivered().await;
    assert_eq!(rig.asked(), 2);
    rig.end().await;
}

#[tokio::test]
async fn with_all_models_down_it_says_so_and_answers_later() {
    let rig = Rig::open().await;
    rig.model_down.store(true, Ordering::SeqCst);
    let note = rig.ask(&rig.alice, "are you there, quokka?").await;
    assert!(!note.text.contains("echo"), "{note:?}");
    rig.model_down.store(false, Ordering::SeqCst);
    let is_answer = |sent: &Sent| sent.text == "echo: are you there, quokka?";
    rig.telegram.wait_until("the answer", |telegram| telegram.sent(rig.alice.id).iter().any(is_answer)).await;
    rig.delivered().await;
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 2, "one note, one answer");
    rig.end().await;
}

#[tokio::test]
async fn a_note_is_not_repeated_while_models_stay_down() {
    let rig = Rig::open().await;
    rig.model_down.store(true, Ordering::SeqCst);
    rig.ask(&rig.alice, "one quokka").await;
    rig.telegram.say(rig.alice.id, &rig.alice, "two quokkas");
    rig.telegram.wait_confirmed().await;
    let before = rig.asked();
    rig.model.wait_for(Kind::Reply, before + 1).await;
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 1);
    rig.model_down.store(false, Ordering::SeqCst);
    rig.telegram
        .wait_until("both to be answered", |_| {
            let request = rig.last_request();
            request.contains("one quokka") && request.contains("two quokkas")
        })
        .await;
    rig.end().await;
}

#[tokio::test]
async fn a_draft_is_shown_by_edits_and_ends_as_the_reply() {
    let rig = World::new().await.start("direct = \"open\"\ndrafts = true\ndraft_interval_ms = 500").await;
    let reply: Vec<String> = (0..60).map(|n| format!("quokka number {n}.")).collect();
    let reply = reply.join(" ");
    let pace = std::time::Duration::from_millis(40);
    rig.model.push(Kind::Reply, Answer::text(reply.clone()).paced(pace));
    rig.telegram.say(rig.alice.id, &rig.alice, Say::text("count, quokka"));
    rig.telegram
        .wait_until("the whole reply", |telegram| {
            telegram.sent(rig.alice.id).first().is_some_and(|sent| sent.text == reply)
        })
        .await;
    rig.delivered().await;
    let sent = rig.telegram.sent(rig.alice.id);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].edits.len() > 1, "{sent:?}");
    assert!(sent[0].edits.is_sorted_by_key(String::len), "a draft only grows: {sent:?}");
    rig.end().await;
}
