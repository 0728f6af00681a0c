//! The same over Anthropic's messages: talk, calls, compaction, and what comes from the provider's cache.

use cairn_testkit::model::{Answer, FakeModel, Kind, Streaming, Wire};
use serde_json::json;

use crate::compaction::rig::{LONG, WINDOW, check_places, configured, run_ended, talk_until_run};

#[tokio::test(flavor = "multi_thread")]
async fn talk_calls_and_compaction_are_well_formed_and_read_from_the_cache() {
    let rig = configured("anthropic", FakeModel::builder().window(WINDOW), WINDOW, "").await;
    let reply = rig.say("hello").await;
    assert!(reply["reply"].as_str().unwrap().contains("echo: hello"), "{reply}");
    rig.model.push(
        Kind::Reply,
        Answer::call("history_search", json!({"query": "hello"}))
            .and_call("memory_search", json!({"query": "hello"})),
    );
    rig.model.push(Kind::Reply, Answer::text("you said hello"));
    let reply = rig.say("what did I say?").await;
    assert_eq!(reply["reply"], "you said hello");
    assert!(reply["usage"]["cached_tokens"].as_u64().unwrap() > 0, "{reply}");

    let mut events = talk_until_run(&rig).await;
    assert_eq!(run_ended(&mut events).await["outcome"], "committed");
    rig.say(LONG).await;
    let last = rig.model.seen().pop().unwrap();
    let raw = last.raw.unwrap();
    assert_eq!(
        (last.wire, raw["system"].as_array().unwrap().len()),
        (Wire::Anthropic, 3),
        "prompt, guide and a summary"
    );
    assert!(raw["system"][2]["text"].as_str().unwrap().contains("[Compaction Summary]"));
    let share = rig.context().await["cached_share"].as_f64().unwrap();
    assert!(share > 0.5, "{share} of the tokens came from the cache");
    check_places(&rig).await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_streaming_is_used_without() {
    for provider in ["anthropic", "openai"] {
        let model = FakeModel::builder().window(WINDOW).streaming(Streaming::Refused);
        let rig = configured(provider, model, WINDOW, "").await;
        for n in 0..3 {
            let reply = rig.say(&format!("hello {n}")).await;
            assert!(reply["reply"].as_str().unwrap().contains(&format!("echo: hello {n}")), "{reply}");
        }
        assert_eq!(rig.model.tally(Kind::Reply).arrived, 4, "one request was refused");
        rig.model.assert_clean();
    }
}
