//! Restarts at inconvenient moments, and views that are gone.

use cairn_testkit::model::Kind;
use serde_json::Value;

use crate::compaction::rig::{LONG, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_crash_cut_short_is_resumed() {
    let rig = Rig::start("resume").await;
    let gate = rig.model.hold(Kind::Compaction);
    let _events = rig.talk_until_run().await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let run = rig.context().await["run"]["id"].clone();
    let rig = rig.crash().await;
    rig.model.wait_for(Kind::Compaction, 2).await;
    assert_eq!(rig.context().await["run"]["id"], run);
    let mut events = rig.events().await;
    gate.open();
    let ended = rig.run_ended(&mut events).await;
    assert_eq!((&ended["run"], &ended["outcome"]), (&run, &"committed".into()));
    rig.check_places().await;
    rig.say("go on").await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_crash_cut_short_is_answered_after_it() {
    let rig = Rig::start("open-turn").await;
    rig.say("hello").await;
    let gate = rig.model.hold(Kind::Reply);
    let client = rig.client();
    let asked = tokio::spawn(async move { client.say("main", "are you there?").await });
    rig.model.wait_for(Kind::Reply, 2).await;
    let rig = rig.crash().await;
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    let mut events = rig.events().await;
    rig.model.wait_for(Kind::Reply, 3).await;
    gate.open();
    events.wait_for("turn_ended", |_| true).await.unwrap();
    let history = rig.history().await;
    assert_eq!(history.len(), 4);
    assert!(history[&4]["parts"][0]["text"].as_str().unwrap().contains("are you there?"), "{}", history[&4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_crashes_in_one_turn_send_it_to_the_dead_letters() {
    let mut rig = Rig::start("dead-letter").await;
    let _gate = rig.model.hold(Kind::Reply);
    let client = rig.client();
    let asked = tokio::spawn(async move { client.say("main", "crash me").await });
    for n in 1..=3 {
        rig.model.wait_for(Kind::Reply, n).await;
        rig = rig.crash().await;
    }
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    assert_eq!(rig.model.tally(Kind::Reply).arrived, 3, "it was not given up");
    let history = rig.history().await;
    assert_eq!(history[&1]["parts"][0]["text"], "crash me", "its words stay in the history");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_views_and_index_everything_is_as_before() {
    let memory =
        serde_json::json!({ "kind": "fact", "text": "Anna likes the third flat.", "importance": 0.8 });
    let model = cairn_testkit::model::FakeModel::builder()
        .window(crate::compaction::rig::WINDOW)
        .memories(vec![memory]);
    let rig = Rig::with("rebuild", model).await;
    let mut events = rig.talk_until_run().await;
    rig.run_ended(&mut events).await;
    rig.say(LONG).await;
    let see = async |rig: &Rig| -> (Value, Value, Value) {
        let memories = rig.client().get("/v1/memories").await.unwrap();
        let history = rig.client().get("/v1/channels/main/history?limit=10000").await.unwrap();
        (rig.context().await, memories, history)
    };
    let rig = rig.stop_and(|_| {}).await;
    let before = see(&rig).await;
    assert!(!before.1.as_array().unwrap().is_empty(), "the run saved no memory");
    let rig = rig
        .stop_and(|state| {
            for view in ["views", "index"] {
                std::fs::remove_dir_all(state.join(view)).unwrap();
            }
        })
        .await;
    let after = see(&rig).await;
    assert_eq!(before.0, after.0, "the context");
    assert_eq!(before.1, after.1, "the memories");
    assert_eq!(before.2, after.2, "the history");
}
