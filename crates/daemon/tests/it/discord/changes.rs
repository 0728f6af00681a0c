//! What people change afterwards: edits, deletions; and what only looks like it.

use cairn_testkit::model::{Answer, FakeModel, Kind};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

#[tokio::test]
async fn an_edit_of_what_was_answered_becomes_a_correction_at_the_tail() {
    let rig = Rig::start().await;
    let id = rig.discord.post(ROOM, "alice", "my dog is called Rex").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.discord.edit(ROOM, id, "my dog is called Max");
    rig.ask(ROOM, "bob", "what is the dog called?").await;
    let request = rig.requests().pop().unwrap();
    let (old, new) = (request.find("called Rex"), request.rfind("called Max"));
    // The bytes before stay as they were; the model is told behind them.
    assert!(old.is_some() && new > old, "{request}");
    assert_eq!(rig.discord.sent(ROOM).len(), 2, "an edit causes no answer of its own");
    rig.assert_clean();
}

#[tokio::test]
async fn an_edit_before_the_answer_is_what_the_model_reads() {
    let rig = Rig::start().await;
    let id = rig.discord.say(ROOM, "alice", "the train leaves at seven");
    rig.discord.edit(ROOM, id, "the train leaves at eight");
    rig.ask(ROOM, "bob", "when does it leave?").await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("at eight") && !request.contains("at seven"), "{request}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_preview_that_discord_adds_is_no_edit() {
    let rig = Rig::start().await;
    let id = rig.discord.post(ROOM, "alice", "see https://example.org").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.discord.unfurl(ROOM, id, "https://example.org");
    rig.ask(ROOM, "bob", "well?").await;
    let request = rig.requests().pop().unwrap();
    assert_eq!(request.matches("see https://example.org").count(), 2, "said once, echoed once: {request}");
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_deleted_before_the_answer_is_not_read() {
    let rig = Rig::start().await;
    let id = rig.discord.say(ROOM, "alice", "my password is hunter2");
    let other = rig.discord.say(ROOM, "alice", "and the other is hunter3");
    let third = rig.discord.say(ROOM, "alice", "this stays");
    rig.discord.delete(ROOM, &[id]);
    rig.discord.delete(ROOM, &[other, 5]);
    rig.ask(ROOM, "bob", "what did alice say?").await;
    let request = rig.requests().pop().unwrap();
    assert!(!request.contains("hunter"), "{request}");
    assert!(request.contains("this stays"), "{request}");
    assert!(third > other);
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_deleted_after_the_answer_is_out_of_requests_after_a_compaction() {
    let model = FakeModel::builder().window(8_000).expect_stable_prefix(false);
    let rig = Setup { model, ..Setup::default() }.start().await;
    rig.model.push(Kind::Reply, Answer::text("I see."));
    let id = rig.discord.post(ROOM, "alice", "my password is hunter2").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.discord.delete(ROOM, &[id]);
    for n in 0..6 {
        let talk = "We looked at seven flats in Lisbon and liked the third one best. ".repeat(12);
        rig.ask(ROOM, "bob", &format!("message {n}: {}", talk.trim())).await;
    }
    let wanted = id.to_string();
    let marked = async || {
        let history = rig.client().get("/v1/channels/main%2Fdiscord%2F101/history").await.ok()?;
        history.as_array()?.iter().find(|entry| entry["message"].as_str() == Some(wanted.as_str())).cloned()
    };
    assert!(rig.until("the entry", marked).await.is_object());
    let run = rig.cairn_with(&["compact", "main/discord/101", "--wait"]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(rig.model.requests_of(Kind::Compaction).len(), 1, "{run:?}");
    let n = rig.requests().len();
    rig.ask(ROOM, "bob", "what did alice say?").await;
    assert!(!rig.requests()[n].contains("hunter2"), "{}", rig.requests()[n]);
    for request in rig.model.requests_of(Kind::Compaction) {
        assert!(!request.to_string().contains("hunter2"), "{request}");
    }
    rig.discord.assert_clean();
}

#[tokio::test]
async fn a_text_file_is_read_and_a_large_one_is_only_named() {
    let rig = Rig::start().await;
    let text = "the recipe needs seven eggs";
    let post = rig.discord.post(ROOM, "alice", "read this").mention_bot();
    post.attach("recipe.txt", "text/plain; charset=utf-8", text).send();
    rig.discord.wait_sent(ROOM, 1).await;
    assert!(rig.requests()[0].contains("seven eggs"), "{}", rig.requests()[0]);
    let fetched = rig.discord.fetched();
    let post = rig.discord.post(ROOM, "alice", "and this").mention_bot();
    post.attach_zeros("huge.bin", "application/octet-stream", 100 << 20).send();
    rig.discord.wait_sent(ROOM, 2).await;
    assert!(rig.requests()[1].contains("huge.bin"), "{}", rig.requests()[1]);
    let post = rig.discord.post(OTHER_ROOM, "alice", "text?").mention_bot();
    post.attach_zeros("huge.txt", "text/plain", 100 << 20).send();
    rig.discord.wait_sent(OTHER_ROOM, 1).await;
    assert_eq!(rig.discord.fetched(), fetched);
    rig.assert_clean();
}
