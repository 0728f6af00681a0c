//! The same over OpenAI's Responses API, whose fake keeps nothing and refuses what does not come back as it gave it.

use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, Wire};
use serde_json::{Value, json};

use crate::compaction::rig::{LONG, WINDOW, check_places, configured, run_ended, talk_until_run};

/// The items of a request that the server gave before.
fn given(seen: &Seen) -> Vec<Value> {
    let raw = seen.raw.as_ref().expect("its own form");
    let items = raw["input"].as_array().expect("a list").iter();
    items.filter(|item| item.get("id").is_some()).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_with_tools_a_compaction_that_saves_memories_and_a_restart_are_taken() {
    let saves = vec![json!({"text": "Anna likes flats by the river", "kind": "preference"})];
    let model = FakeModel::builder().window(WINDOW).memories(saves);
    let mut rig = configured("responses", model, WINDOW, "").await;
    rig.say("hello").await;
    let look = || Answer::text("I look.").and_call("history_search", json!({"query": "hello"}));
    for turn in 0..2 {
        rig.model
            .push(Kind::Reply, look().reasoning("hm").and_call("memory_search", json!({"query": "hello"})));
        rig.model.push(Kind::Reply, look());
        rig.model.push(Kind::Reply, Answer::text("you said hello"));
        let asked = rig.model.seen().len();
        let reply = rig.say(&format!("what did I say? {turn}")).await;
        assert!(reply["reply"].as_str().unwrap().ends_with("you said hello"), "{reply}");
        let n_given: Vec<usize> = rig.model.seen()[asked..].iter().map(|seen| given(seen).len()).collect();
        assert_eq!(n_given, [0, 4, 7], "within the loop, not beyond the turn");
    }

    let mut events = talk_until_run(&rig).await;
    assert_eq!(run_ended(&mut events).await["outcome"], "committed");
    let run: Vec<Seen> = rig.model.seen().into_iter().filter(|seen| seen.kind == Kind::Compaction).collect();
    let n_given: Vec<usize> = run.iter().map(|seen| given(seen).len()).collect();
    // A summary that is too long is asked for once more.
    assert!(n_given.len() > 1 && n_given[0] == 0, "{n_given:?}");
    assert!(n_given[1..].iter().all(|n| *n == 2), "in runs, too: {n_given:?}");
    assert!(rig.json(&["memory", "list"]).to_string().contains("flats by the river"));
    rig.crash().await;
    rig.model.push(Kind::Reply, look());
    rig.say(LONG).await;
    let last = rig.model.seen().pop().unwrap();
    assert_eq!((last.wire, given(&last).len()), (Wire::Responses, 3));
    assert!(last.sent.contains("[Compaction Summary]"));
    check_places(&rig).await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_it_is_asked_over_chat_completions_and_the_log_says_so_once() {
    let model = FakeModel::builder().window(WINDOW).without_responses(404);
    let rig = configured("responses", model, WINDOW, "").await;
    for n in 0..2 {
        rig.model.push(Kind::Reply, Answer::call("history_search", json!({"query": "hello"})));
        rig.say(&format!("hello {n}")).await;
    }
    let wires: Vec<Wire> = rig.model.seen().iter().map(|seen| seen.wire).collect();
    assert_eq!(wires, [&[Wire::Responses][..], &[Wire::OpenAi; 4]].concat());
    assert_eq!(rig.log().matches("has no Responses API").count(), 1, "{}", rig.log());
    rig.model.assert_clean();
}
