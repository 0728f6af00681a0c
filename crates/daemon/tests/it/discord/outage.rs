//! The models are down, or the API of Discord stumbles: nothing is lost, and people are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairn_testkit::discord::{Fault, Route};
use cairn_testkit::model::{self, FakeModel};

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

#[tokio::test]
async fn with_all_models_down_people_are_told_once_and_answered_later() {
    let down = Arc::new(AtomicBool::new(true));
    let model = FakeModel::builder().window(8_000).respond({
        let down = down.clone();
        move |_| down.load(Ordering::SeqCst).then(|| model::Answer::error(503, "overloaded"))
    });
    let mut rig = Setup { model, ..Setup::default() }.start().await;
    let id = rig.discord.post(ROOM, "alice", "are you there?").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 1).await;
    assert!(sent[0].content.contains("kept"), "{}", sent[0].content);
    assert_eq!(sent[0].reply_to, Some(id));
    // Neither a restart tells it again.
    rig.kill().await;
    rig.back().await;
    down.store(false, Ordering::SeqCst);
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    assert_eq!(sent[1].content, "echo: are you there?");
    rig.ask(ROOM, "alice", "good").await;
    assert_eq!(rig.discord.sent(ROOM).len(), 3);
    assert!(!rig.discord.is_typing(ROOM));
    rig.assert_clean();
}

#[tokio::test]
async fn a_send_that_fails_in_passing_is_repeated_until_it_is_there_once() {
    let faults = [
        Fault::Status(500),
        Fault::Html(502),
        Fault::Nothing,
        Fault::LostAnswer,
        Fault::Garbage("{".to_owned()),
    ];
    for fault in faults {
        let rig = Rig::start().await;
        rig.discord.fail_next(Route::Send, fault.clone());
        rig.ask(ROOM, "alice", "hello").await;
        rig.ask(ROOM, "alice", "again").await;
        assert_eq!(rig.discord.unmet(Route::Send), 0);
        let repeats: Vec<usize> = rig.discord.sent(ROOM).iter().map(|sent| sent.repeats).collect();
        assert_eq!(repeats, [usize::from(fault == Fault::LostAnswer), 0], "{fault:?}");
        rig.discord.wait_for(Route::Send, 3).await;
        let owed = async || {
            let list = rig.json_of(&["outbox", "list"]).await;
            list.as_array().unwrap().is_empty().then_some(())
        };
        rig.until("nothing is owed", owed).await;
        rig.assert_clean();
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_holds_no_other_channel_up() {
    let rig = Rig::start().await;
    rig.discord.rate_limit(Route::Send, Duration::from_secs(2));
    rig.discord.post(ROOM, "alice", "limited").mention_bot().send();
    rig.discord.wait_until("the refusal", |discord| discord.limited() == 1).await;
    rig.ask(OTHER_ROOM, "bob", "not limited").await;
    assert!(rig.discord.sent(ROOM).is_empty());
    assert_eq!(rig.discord.wait_sent(ROOM, 1).await[0].content, "echo: limited");
    assert_eq!(rig.discord.limited(), 1);
    rig.assert_clean();
}

#[tokio::test]
async fn a_global_rate_limit_is_waited_for_by_all() {
    let rig = Rig::start().await;
    rig.discord.rate_limit_globally(Duration::from_secs(1));
    rig.discord.post(ROOM, "alice", "one").mention_bot().send();
    rig.discord.post(OTHER_ROOM, "alice", "two").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.discord.wait_sent(OTHER_ROOM, 1).await;
    rig.assert_clean();
}

#[tokio::test]
async fn messages_in_the_real_rate_are_never_refused() {
    let discord = cairn_testkit::discord::FakeDiscord::builder().identify_every(Duration::ZERO);
    let rig = Setup { discord: discord.rate(2, Duration::from_secs(1)), ..Setup::default() }.start().await;
    for n in 0..5 {
        rig.ask(ROOM, "alice", &format!("message {n}")).await;
    }
    assert_eq!(rig.discord.limited(), 0, "the headers say when there is room");
    rig.assert_clean();
}

#[tokio::test]
async fn what_cannot_be_delivered_goes_to_the_dead_letters_and_harms_no_other_channel() {
    let rig = Rig::start().await;
    let gate = rig.model.hold(cairn_testkit::model::Kind::Reply);
    rig.discord.post(ROOM, "alice", "into the void").mention_bot().send();
    rig.model.wait_for(cairn_testkit::model::Kind::Reply, 1).await;
    rig.discord.remove(ROOM);
    gate.open();
    let dead = async || {
        let list = rig.json_of(&["outbox", "list"]).await;
        list.as_array().unwrap().iter().find(|item| item["state"] == "dead").cloned()
    };
    let item = rig.until("a dead letter", dead).await;
    assert!(item["reason"].as_str().unwrap().contains("10003"), "{item}");
    let status = rig.cairn_with(&["status"]).await.stdout;
    assert!(status.contains("outbox    1 dead") && status.contains("`cairn outbox list`"), "{status}");
    rig.ask(OTHER_ROOM, "alice", "and here?").await;
    let id = item["id"].as_str().unwrap();
    let run = rig.cairn_with(&["outbox", "drop", id]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(rig.json_of(&["outbox", "list"]).await, serde_json::json!([]));
    let none = serde_json::json!({ "owed": 0, "dead": 0, "unknown": 0 });
    assert_eq!(rig.json_of(&["status"]).await["outbox"], none);
    rig.assert_clean();
}

#[tokio::test]
async fn a_dead_letter_is_delivered_when_it_is_retried() {
    let rig = Rig::start().await;
    rig.discord.deny(ROOM);
    rig.discord.post(ROOM, "alice", "say it").mention_bot().send();
    let dead = async || {
        let list = rig.json_of(&["outbox", "list"]).await;
        list.as_array().unwrap().iter().find(|item| item["state"] == "dead").cloned()
    };
    let item = rig.until("a dead letter", dead).await;
    assert!(item["reason"].as_str().unwrap().contains("50013"), "{item}");
    let platform = rig.platform().await;
    assert_eq!(platform["state"], "connected");
    assert!(platform["troubles"].to_string().contains("101"), "{platform}");
    rig.discord.allow(ROOM);
    let run = rig.cairn_with(&["outbox", "retry", item["id"].as_str().unwrap()]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(rig.discord.wait_sent(ROOM, 1).await[0].content, "echo: say it");
    rig.wait_platform("well again", |platform| platform["troubles"] == serde_json::json!([])).await;
    rig.assert_clean();
}
