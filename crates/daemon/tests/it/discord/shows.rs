//! What people see while and beyond the plain answer: drafts, pictures, limits.

use std::time::Duration;

use cairn_testkit::model::{Answer, Kind};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

const STORY: &str = "Once upon a time there was a cairn on a pass, and whoever went by put a stone on it, so that \
    it grew, stone by stone, year by year, until nobody could miss the way any more, not even in the thickest fog.";

/// Answers are shown while they are written.
fn drafting() -> Setup {
    Setup::default().keys("drafts = true\ndraft_interval_ms = 500")
}

#[tokio::test]
async fn a_draft_grows_into_the_answer_in_one_message() {
    let rig = drafting().start().await;
    rig.model.push(Kind::Reply, Answer::text(STORY).paced(Duration::from_millis(200)));
    let id = rig.discord.post(ROOM, "alice", "tell me a story").mention_bot().send();
    let whole = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).first().is_some_and(|sent| sent.content == STORY)
    };
    rig.discord.wait_until("the whole story", whole).await;
    rig.ask(OTHER_ROOM, "alice", "barrier").await;
    let sent = rig.discord.sent(ROOM);
    assert_eq!((sent.len(), sent[0].reply_to), (1, Some(id)));
    assert!(sent[0].wordings.len() > 2, "{:?}", sent[0].wordings);
    rig.assert_clean();
}

#[tokio::test]
async fn a_draft_that_a_kill_left_behind_becomes_the_answer() {
    let mut rig = drafting().start().await;
    rig.model.push(Kind::Reply, Answer::text(STORY).hanging());
    rig.discord.post(ROOM, "alice", "tell me a story").mention_bot().send();
    let draft = rig.discord.wait_sent(ROOM, 1).await.remove(0);
    rig.kill().await;
    rig.back().await;
    let done = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).iter().any(|sent| sent.content == "echo: tell me a story")
    };
    rig.discord.wait_until("the answer", done).await;
    rig.ask(OTHER_ROOM, "alice", "barrier").await;
    let shown: Vec<u64> =
        rig.discord.sent(ROOM).iter().filter(|sent| !sent.deleted).map(|sent| sent.id).collect();
    assert_eq!(shown, [draft.id], "{:?}", rig.discord.sent(ROOM));
    rig.assert_clean();
}

#[tokio::test]
async fn an_edit_that_calls_the_bot_is_answered() {
    let rig = Rig::start().await;
    let id = rig.discord.say(ROOM, "alice", "what is a cairn?");
    let text = format!("<@{}> what is a cairn?", cairn_testkit::discord::BOT_ID);
    rig.discord.edit(ROOM, id, &text);
    let sent = rig.discord.wait_sent(ROOM, 1).await;
    assert_eq!(sent[0].reply_to, Some(id));
    rig.assert_clean();
}

#[tokio::test]
async fn whoever_is_over_a_limit_is_told_once() {
    let tables = "[limits]\nuser_messages_per_hour = 2\n".to_owned();
    let rig = Setup { tables, ..Setup::default() }.start().await;
    rig.ask(ROOM, "alice", "one").await;
    rig.ask(ROOM, "alice", "two").await;
    rig.discord.post(ROOM, "alice", "three").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 3).await;
    assert!(sent[2].content.contains("within an hour"), "{}", sent[2].content);
    rig.discord.post(ROOM, "alice", "four").mention_bot().send();
    // Others are none the worse.
    let id = rig.discord.post(ROOM, "bob", "and me?").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 4).await;
    assert_eq!((sent.len(), sent[3].reply_to), (4, Some(id)), "{sent:?}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_picture_goes_to_a_model_that_takes_pictures() {
    let rig = Setup::default().build().await;
    let mut rig = rig.with_model_keys("images = true");
    rig.back().await;
    let picture = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0];
    let post = rig.discord.post(ROOM, "alice", "what is on it?").mention_bot();
    post.attach("cat.png", "image/png", picture).send();
    rig.discord.wait_sent(ROOM, 1).await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("data:image/png;base64,iVBORw0KGgo"), "{request}");
    let post = rig.discord.post(OTHER_ROOM, "alice", "and on this?").mention_bot();
    post.attach_zeros("poster.png", "image/png", 100 << 20).send();
    rig.discord.wait_sent(OTHER_ROOM, 1).await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("poster.png") && !request.contains("base64"), "{request}");
    rig.assert_clean();
}
