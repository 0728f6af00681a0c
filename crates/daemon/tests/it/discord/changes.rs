//! What people change afterwards: edits, deletions; and what only looks like it.

use cairn_testkit::model::{Answer, FakeModel, Kind};

use crate::discord::house::{House, OTHER_ROOM, ROOM, Setup};

#[tokio::test]
async fn an_edit_of_what_was_answered_becomes_a_correction_at_the_tail() {
    let house = House::start().await;
    let id = house.discord.post(ROOM, "alice", "my dog is called Rex").mention_bot().send();
    house.discord.wait_sent(ROOM, 1).await;
    house.discord.edit(ROOM, id, "my dog is called Max");
    house.ask(ROOM, "bob", "what is the dog called?").await;
    let request = house.requests().pop().unwrap();
    let (old, new) = (request.find("called Rex"), request.rfind("called Max"));
    // The bytes before stay as they were; the model is told behind them.
    assert!(old.is_some() && new > old, "{request}");
    assert_eq!(house.discord.sent(ROOM).len(), 2, "an edit causes no answer of its own");
    house.assert_clean();
}

#[tokio::test]
async fn an_edit_before_the_answer_is_what_the_model_reads() {
    let house = House::start().await;
    let id = house.discord.say(ROOM, "alice", "the train leaves at seven");
    house.discord.edit(ROOM, id, "the train leaves at eight");
    house.ask(ROOM, "bob", "when does it leave?").await;
    let request = house.requests().pop().unwrap();
    assert!(request.contains("at eight") && !request.contains("at seven"), "{request}");
    house.assert_clean();
}

#[tokio::test]
async fn a_preview_that_discord_adds_is_no_edit() {
    let house = House::start().await;
    let id = house.discord.post(ROOM, "alice", "see https://example.org").mention_bot().send();
    house.discord.wait_sent(ROOM, 1).await;
    house.discord.unfurl(ROOM, id, "https://example.org");
    house.ask(ROOM, "bob", "well?").await;
    let request = house.requests().pop().unwrap();
    assert_eq!(request.matches("see https://example.org").count(), 2, "said once, echoed once: {request}");
    house.assert_clean();
}

#[tokio::test]
async fn what_is_deleted_before_the_answer_is_not_read() {
    let house = House::start().await;
    let id = house.discord.say(ROOM, "alice", "my password is hunter2");
    let other = house.discord.say(ROOM, "alice", "and the other is hunter3");
    let third = house.discord.say(ROOM, "alice", "this stays");
    house.discord.delete(ROOM, &[id]);
    house.discord.delete(ROOM, &[other, 5]);
    house.ask(ROOM, "bob", "what did alice say?").await;
    let request = house.requests().pop().unwrap();
    assert!(!request.contains("hunter"), "{request}");
    assert!(request.contains("this stays"), "{request}");
    assert!(third > other);
    house.assert_clean();
}

#[tokio::test]
async fn what_is_deleted_after_the_answer_is_out_of_requests_after_a_compaction() {
    let model = FakeModel::builder().window(8_000).expect_stable_prefix(false);
    let house = Setup { model, ..Setup::default() }.start().await;
    house.model.push(Kind::Reply, Answer::text("I see."));
    let id = house.discord.post(ROOM, "alice", "my password is hunter2").mention_bot().send();
    house.discord.wait_sent(ROOM, 1).await;
    house.discord.delete(ROOM, &[id]);
    for n in 0..6 {
        let talk = "We looked at seven flats in Lisbon and liked the third one best. ".repeat(12);
        house.ask(ROOM, "bob", &format!("message {n}: {}", talk.trim())).await;
    }
    let wanted = id.to_string();
    let marked = async || {
        let history = house.client().get("/v1/channels/main%2Fdiscord%2F101/history").await.ok()?;
        history.as_array()?.iter().find(|entry| entry["message"].as_str() == Some(wanted.as_str())).cloned()
    };
    assert!(house.until("the entry", marked).await.is_object());
    let run = house.cairn_with(&["compact", "main/discord/101", "--wait"]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(house.model.requests_of(Kind::Compaction).len(), 1, "{run:?}");
    let n = house.requests().len();
    house.ask(ROOM, "bob", "what did alice say?").await;
    assert!(!house.requests()[n].contains("hunter2"), "{}", house.requests()[n]);
    for request in house.model.requests_of(Kind::Compaction) {
        assert!(!request.to_string().contains("hunter2"), "{request}");
    }
    house.discord.assert_clean();
}

#[tokio::test]
async fn a_text_file_is_read_and_a_large_one_is_only_named() {
    let house = House::start().await;
    let text = "the recipe needs seven eggs";
    let post = house.discord.post(ROOM, "alice", "read this").mention_bot();
    post.attach("recipe.txt", "text/plain; charset=utf-8", text).send();
    house.discord.wait_sent(ROOM, 1).await;
    assert!(house.requests()[0].contains("seven eggs"), "{}", house.requests()[0]);
    let fetched = house.discord.fetched();
    let post = house.discord.post(ROOM, "alice", "and this").mention_bot();
    post.attach_zeros("huge.bin", "application/octet-stream", 100 << 20).send();
    house.discord.wait_sent(ROOM, 2).await;
    assert!(house.requests()[1].contains("huge.bin"), "{}", house.requests()[1]);
    let post = house.discord.post(OTHER_ROOM, "alice", "text?").mention_bot();
    post.attach_zeros("huge.txt", "text/plain", 100 << 20).send();
    house.discord.wait_sent(OTHER_ROOM, 1).await;
    assert_eq!(house.discord.fetched(), fetched);
    house.assert_clean();
}
