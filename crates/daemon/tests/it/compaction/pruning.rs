//! Results of tools give way before any message is summarised.

use cairn_testkit::model::{Answer, FakeModel, Kind, lasting_text_of};
use cairn_testkit::rig::Rig;
use serde_json::{Value, json};

use crate::compaction::rig::{LONG, configured, history, words};

const WINDOW: u64 = 12_000;

const PRUNING: &str = "[defaults.pruning]\nshrink_bytes = 600\n";

/// A turn in which the model reads the first messages again.
async fn read_again(rig: &Rig) {
    rig.model.push(Kind::Reply, Answer::call("history_read", json!({ "from": 1, "to": 8 })));
    rig.say("what did we say at the beginning?").await;
}

/// The messages of a request without what stands at the tail: those go on from turn to turn.
fn lasting(request: &Value) -> Vec<Value> {
    let mut messages = request["messages"].as_array().unwrap().clone();
    for message in messages.iter_mut().filter(|message| message["content"].is_string()) {
        message["content"] = lasting_text_of(message).into();
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn results_shrink_at_the_threshold_no_run_starts_and_the_history_is_whole() {
    let model = FakeModel::builder().window(WINDOW);
    let mut rig = configured("openai", model, WINDOW, PRUNING).await;
    let mut events = rig.events().await;
    for n in 0..4 {
        rig.say(&format!("{LONG} ({n})")).await;
    }
    let mut turns = 0;
    while rig.context().await["pruned"]["results"] == 0 {
        read_again(&rig).await;
        turns += 1;
        assert!(turns < 60, "nothing was pruned: {}", rig.context().await);
    }
    let told = events.wait_for("pruned", |_| true).await.unwrap();
    assert_eq!(told["cause"], "pressure", "{told}");
    assert!(told["tokens_before"].as_f64().unwrap() >= 0.8 * 11_000.0, "{told}");
    assert!(told["tokens_after"].as_f64().unwrap() < 0.8 * 11_000.0, "{told}");
    read_again(&rig).await;
    let context = rig.context().await;
    assert_eq!(
        (&context["run"], &context["outcomes"]),
        (&Value::Null, &json!([])),
        "a run started: {context}"
    );
    assert!(context["summaries"].as_array().unwrap().is_empty());
    assert!(context["pruned"]["tokens_won"].as_u64() > Some(1_000), "{context}");
    let requests = rig.model.requests_of(Kind::Reply);
    assert!(words(requests.last().unwrap()).contains("[truncated: output exceeded context limit]"));
    let breaks = requests.windows(2).filter(|two| !lasting(&two[1]).starts_with(&lasting(&two[0]))).count();
    assert_eq!(breaks, 1, "the prefix changed more than once");
    let before = history(&rig).await;
    let results: Vec<_> = before.values().filter(|entry| entry["role"] == "tool").collect();
    assert_eq!(results.len(), turns + 1);
    for result in &results {
        let text = result["parts"][0]["text"].as_str().unwrap();
        assert!(text.contains("(3)") && text.len() > 2_000, "what is kept was shortened: {text}");
    }
    let context = rig.context().await;
    rig.crash().await;
    assert_eq!(rig.context().await, context, "another window after a crash");
    assert_eq!(history(&rig).await, before);
    rig.say("still there?").await;
    rig.model.assert_clean();
}
