//! Restarts at inconvenient moments, and views that are gone.

use cairn_testkit::model::Kind;
use serde_json::Value;

use crate::compaction::house::{House, LONG};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_crash_cut_short_is_resumed() {
    let house = House::start("resume").await;
    let gate = house.model.hold(Kind::Compaction);
    let _events = house.talk_until_run().await;
    house.model.wait_for(Kind::Compaction, 1).await;
    let run = house.context().await["run"]["id"].clone();
    let house = house.crash().await;
    house.model.wait_for(Kind::Compaction, 2).await;
    assert_eq!(house.context().await["run"]["id"], run);
    let mut events = house.events().await;
    gate.open();
    let ended = house.run_ended(&mut events).await;
    assert_eq!((&ended["run"], &ended["outcome"]), (&run, &"committed".into()));
    house.check_places().await;
    house.say("go on").await;
    house.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_crash_cut_short_is_answered_after_it() {
    let house = House::start("open-turn").await;
    house.say("hello").await;
    let gate = house.model.hold(Kind::Reply);
    let client = house.client();
    let asked = tokio::spawn(async move { client.say("main", "are you there?").await });
    house.model.wait_for(Kind::Reply, 2).await;
    let house = house.crash().await;
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    let mut events = house.events().await;
    house.model.wait_for(Kind::Reply, 3).await;
    gate.open();
    events.wait_for("turn_ended", |_| true).await.unwrap();
    let history = house.history().await;
    assert_eq!(history.len(), 4);
    assert!(history[&4]["parts"][0]["text"].as_str().unwrap().contains("are you there?"), "{}", history[&4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_crashes_in_one_turn_send_it_to_the_dead_letters() {
    let mut house = House::start("dead-letter").await;
    let _gate = house.model.hold(Kind::Reply);
    let client = house.client();
    let asked = tokio::spawn(async move { client.say("main", "crash me").await });
    for n in 1..=3 {
        house.model.wait_for(Kind::Reply, n).await;
        house = house.crash().await;
    }
    assert!(asked.await.unwrap().is_err(), "the connection went with the daemon");
    assert_eq!(house.model.tally(Kind::Reply).arrived, 3, "it was not given up");
    let history = house.history().await;
    assert_eq!(history[&1]["parts"][0]["text"], "crash me", "its words stay in the history");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_views_and_index_everything_is_as_before() {
    let memory =
        serde_json::json!({ "kind": "fact", "text": "Anna likes the third flat.", "importance": 0.8 });
    let model = cairn_testkit::model::FakeModel::builder()
        .window(crate::compaction::house::WINDOW)
        .memories(vec![memory]);
    let house = House::with("rebuild", model).await;
    let mut events = house.talk_until_run().await;
    house.run_ended(&mut events).await;
    house.say(LONG).await;
    let see = async |house: &House| -> (Value, Value, Value) {
        let memories = house.client().get("/v1/memories").await.unwrap();
        let history = house.client().get("/v1/channels/main/history?limit=10000").await.unwrap();
        (house.context().await, memories, history)
    };
    let house = house.stop_and(|_| {}).await;
    let before = see(&house).await;
    assert!(!before.1.as_array().unwrap().is_empty(), "the run saved no memory");
    let house = house
        .stop_and(|state| {
            for view in ["views", "index"] {
                std::fs::remove_dir_all(state.join(view)).unwrap();
            }
        })
        .await;
    let after = see(&house).await;
    assert_eq!(before.0, after.0, "the context");
    assert_eq!(before.1, after.1, "the memories");
    assert_eq!(before.2, after.2, "the history");
}
