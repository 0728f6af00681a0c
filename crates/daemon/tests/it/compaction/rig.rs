//! A daemon with a small window, and looks at where its words are.

use std::collections::BTreeMap;

use cairn_testkit::daemon::Events;
use cairn_testkit::model::{Builder, FakeModel};
use cairn_testkit::rig::{Rig, model_table};
use serde_json::{Value, json};

/// The window of the tests, in tokens: small, so that few messages fill it.
pub(crate) const WINDOW: u64 = 6_000;

/// A message that fills some of the window.
pub(crate) const LONG: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the \
    river, with two balconies and a lemon tree, for 1,450 euros a month from 1 June on; the second had more light \
    but no lift, and the fifth was sold while we stood in its kitchen.";

pub(crate) async fn start() -> Rig {
    with(FakeModel::builder().window(WINDOW)).await
}

pub(crate) async fn with(model: Builder) -> Rig {
    configured("openai", model, WINDOW, "").await
}

/// With that wire format and window, and more keys of the agent, or tables of configuration.
pub(crate) async fn configured(provider: &str, model: Builder, window: u64, more: &str) -> Rig {
    let model = model.start().await;
    let table = model_table("main", &model.base_url(), window);
    let wire = match provider {
        "responses" => "provider = \"openai\"\napi = \"responses\"".to_owned(),
        provider => format!("provider = \"{provider}\""),
    };
    let config = format!(
        "[defaults.compaction]\nretry_base_ms = 1\n\n{table}{wire}\n\n[[agents]]\nid = \"main\"\n\
         models = [\"main\"]\n{more}"
    );
    Rig::start(crate::home(), model, &config).await
}

/// Talks until a run is under way; the events from before it.
pub(crate) async fn talk_until_run(rig: &Rig) -> Events {
    let mut events = rig.events().await;
    let n_ended = |context: &Value| context["outcomes"].as_array().unwrap().len();
    let before = rig.client().get(&rig.path_of("context")).await.map_or(0, |context| n_ended(&context));
    for n in 0..200 {
        rig.say(&format!("{LONG} ({n})")).await;
        let context = rig.context().await;
        if !context["run"].is_null() || n_ended(&context) > before {
            events.wait_for("run_started", |_| true).await.unwrap();
            return events;
        }
    }
    panic!("no run after 200 messages: {}", rig.context().await);
}

pub(crate) async fn run_ended(events: &mut Events) -> Value {
    events.wait_for("run_ended", |_| true).await.unwrap()
}

/// The whole history, each number once and in order, by its number.
pub(crate) async fn history(rig: &Rig) -> BTreeMap<u64, Value> {
    let list = rig.get(&rig.path_of("history?limit=10000")).await;
    let entries = list.as_array().unwrap();
    let seqs: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the history has a gap or a double");
    seqs.into_iter().zip(entries.iter().cloned()).collect()
}

/// Context and history of the same moment: what is done behind the last reply may come between two questions.
async fn still(rig: &Rig) -> (Value, BTreeMap<u64, Value>) {
    let of = |context: &Value| (context["summaries"].clone(), context["markers"].clone());
    let mut before = rig.context().await;
    loop {
        let history = history(rig).await;
        let after = rig.context().await;
        if of(&before) == of(&after) {
            return (after, history);
        }
        before = after;
    }
}

/// Every entry is in the place that the context says: under a summary, under a marker, sealed or live.
pub(crate) async fn check_places(rig: &Rig) {
    let (context, history) = still(rig).await;
    let within = |item: &Value, seq: u64| {
        (item["from_seq"].as_u64().unwrap()..=item["to_seq"].as_u64().unwrap()).contains(&seq)
    };
    for (seq, entry) in &history {
        let mut places = Vec::new();
        let summaries = context["summaries"].as_array().unwrap().iter();
        places.extend(
            summaries
                .filter(|item| within(item, *seq))
                .map(|item| format!("summary:{}", item["id"].as_str().unwrap())),
        );
        let markers = context["markers"].as_array().unwrap().iter();
        places.extend(markers.filter(|item| within(item, *seq)).map(|_| "marker".to_owned()));
        let place = entry["place"].as_str().unwrap();
        match places.as_slice() {
            [] => assert!(["live", "sealed"].contains(&place), "{seq} is {place}"),
            [only] => assert_eq!(place, only),
            several => panic!("{seq} is in several places: {several:?}"),
        }
    }
}

/// All words of a request, as the model gets them.
pub(crate) fn words(request: &Value) -> String {
    request["messages"].to_string()
}

/// A body for a message with an id of its own.
pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({ "user": "anna", "text": text, "id": id })
}
