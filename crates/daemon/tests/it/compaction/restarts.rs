//! Restarts at inconvenient moments, and views that are gone.

use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::Rig;
use serde_json::{Value, json};

use crate::compaction::rig::{LONG, WINDOW, check_places, history, run_ended, start, talk_until_run, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_crash_cut_short_is_resumed() {
    let mut rig = start().await;
    let gate = rig.model.hold(Kind::Compaction);
    let _events = talk_until_run(&rig).await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let run = rig.context().await["run"]["id"].clone();
    rig.crash().await;
    rig.model.wait_for(Kind::Compaction, 2).await;
    assert_eq!(rig.context().await["run"]["id"], run);
    let mut events = rig.events().await;
    gate.open();
    let ended = run_ended(&mut events).await;
    assert_eq!((&ended["run"], &ended["outcome"]), (&run, &"committed".into()));
    check_places(&rig).await;
    rig.say("go on").await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_crash_cut_short_is_answered_after_it() {
    let mut rig = start().await;
    rig.say("hello").await;
    let gate = rig.model.hold(Kind::Reply);
    let client = rig.client();
    let asked = tokio::spawn(async move { client.say("main", "are you there?").await });
    rig.model.wait_for(Kind::Reply, 2).await;
    rig.crash().await;
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    let mut events = rig.events().await;
    rig.model.wait_for(Kind::Reply, 3).await;
    gate.open();
    events.wait_for("turn_ended", |_| true).await.unwrap();
    let history = history(&rig).await;
    assert_eq!(history.len(), 4);
    assert!(history[&4]["parts"][0]["text"].as_str().unwrap().contains("are you there?"), "{}", history[&4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_crashes_in_one_turn_send_it_to_the_dead_letters() {
    let mut rig = start().await;
    let _gate = rig.model.hold(Kind::Reply);
    let client = rig.client();
    let asked = tokio::spawn(async move { client.say("main", "crash me").await });
    for n in 1..=3 {
        rig.model.wait_for(Kind::Reply, n).await;
        rig.crash().await;
    }
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    let ended = rig.until(&rig.path_of("turns/last/explain"), |turn| turn["outcome"] != "open").await;
    assert_eq!(ended["outcome"], "dead_lettered", "{ended}");
    assert_eq!(rig.model.tally(Kind::Reply).arrived, 3, "it was not given up");
    let history = history(&rig).await;
    assert_eq!(history[&1]["parts"][0]["text"], "crash me", "its words stay in the history");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_views_and_index_everything_is_as_before() {
    let memory = json!({ "kind": "fact", "text": "Anna likes the third flat.", "importance": 0.8 });
    let model = FakeModel::builder().window(WINDOW).memories(vec![memory]);
    let mut rig = with(model).await;
    let mut events = talk_until_run(&rig).await;
    run_ended(&mut events).await;
    rig.say(LONG).await;
    let see = async |rig: &Rig| -> (Value, Value, Value) {
        let memories = rig.get("/v1/memories").await;
        let history = rig.get("/v1/channels/main/history?limit=10000").await;
        (rig.context().await, memories, history)
    };
    rig.restart().await;
    let before = see(&rig).await;
    assert!(!before.1.as_array().unwrap().is_empty(), "the run saved no memory");
    rig.stop().await;
    for view in ["views", "index"] {
        std::fs::remove_dir_all(rig.state().join(view)).unwrap();
    }
    rig.run().await;
    let after = see(&rig).await;
    assert_eq!(before.0, after.0, "the context");
    assert_eq!(before.1, after.1, "the memories");
    assert_eq!(before.2, after.2, "the history");
}
