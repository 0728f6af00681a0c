//! What a turn without a whole answer leaves behind: its words, why it ended, and what it cost; and what is spent, from
//! outside.

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::home::Home;
use cairn_testkit::model::{Answer, FakeModel, Kind, text_of};
use cairn_testkit::rig::one_model;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::home;

const WORDS: &str = "The first half of this answer is said, and the second half of it never will be said.";

/// How the words begin that are said.
const SAID: &str = "The first half of this answer";

/// A model with prices, and a cap of the day.
fn config(model: &FakeModel, cap: f64) -> String {
    let prices = "context_window = 32000\ninput_price = 1.0\noutput_price = 2.0\n";
    let text = one_model(&model.base_url(), 32_000).replace("context_window = 32000\n", prices);
    format!("[limits]\nspend_per_day = {cap:?}\nmodel_attempts = 1\n{text}")
}

/// Asks, and stops the answer once its first words are there.
async fn stopped(client: &Client, text: &str) {
    let mut events = client.talk("main", &json!({ "user": "ann", "text": text })).await.unwrap();
    let mut said = String::new();
    while !said.contains("said,") {
        let delta = events.wait_for("delta", |_| true).await.unwrap();
        said.push_str(delta["text"].as_str().unwrap());
    }
    let (status, stopped) = client.ask("POST", "/v1/channels/main/stop", &Value::Null).await.unwrap();
    assert_eq!((status, &stopped["stopped"]), (StatusCode::OK, &json!(true)));
    events.wait_for("error", |error| error["error"]["code"] == "stopped").await.unwrap();
}

fn last_entry(home: &Home) -> Value {
    home.json(&["history", "main"]).as_array().unwrap().last().unwrap().clone()
}

fn check_stopped(home: &Home) -> f64 {
    let entry = last_entry(home);
    assert_eq!(entry["role"], "assistant", "{entry}");
    let texts: Vec<_> = entry["parts"].as_array().unwrap().iter().map(|part| part["text"].clone()).collect();
    assert!(texts[0].as_str().unwrap().starts_with(SAID), "{entry}");
    assert_eq!(texts[1], "[cut short here: the turn was stopped]");
    let end = &entry["end"];
    assert_eq!((&end["outcome"], &end["model"]), (&json!("stopped"), &json!("main")), "{entry}");
    let tokens = |key: &str| end["usage"][key].as_u64().unwrap();
    assert!(tokens("input_tokens") > 100 && tokens("output_tokens") > 5, "{entry}");
    let cost = end["cost"].as_f64().unwrap();
    assert!((cost - (tokens("input_tokens") + 2 * tokens("output_tokens")) as f64 / 1e6).abs() < 1e-12);
    cost
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_keeps_its_words_its_reason_and_its_cost_and_counts_for_the_cap() {
    let (home, model) = (home(), FakeModel::start().await);
    let daemon = home.daemon(Some(&home.config(&config(&model, 1e-6)))).await;
    model.push(Kind::Reply, Answer::text(WORDS).hanging());
    stopped(&daemon.client(), "tell me all").await;
    let cost = check_stopped(&home);
    let shown = home.cairn(&["history", "main"]).stdout;
    assert!(shown.lines().any(|line| line.ends_with("  stopped")), "{shown}");
    assert!(shown.contains(" tokens of main, 0.00"), "less than a cent is shown: {shown}");

    let (status, refused) = daemon.client().say("main", "go on").await.unwrap();
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "the cap counts it: {refused}");
    assert!(daemon.stop().await.unwrap().success());

    // Another daemon knows it from the journal.
    let daemon = home.daemon(Some(&home.config(&config(&model, 5.0)))).await;
    assert_eq!(check_stopped(&home), cost);
    let today = home.status()["spend"]["today"].as_f64().unwrap();
    assert!((today - cost).abs() < 1e-12, "{today} {cost}");
    let (status, reply) = daemon.client().say("main", "go on").await.unwrap();
    assert_eq!(status, StatusCode::OK, "{reply}");
    let request = model.requests_of(Kind::Reply).pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let partial = text_of(&messages[messages.len() - 2]);
    assert!(partial.starts_with(SAID) && partial.contains("[cut short here:"), "{partial}");
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_answer_is_in_the_history_with_its_error_and_is_given_again_when_its_message_comes_again() {
    let (home, model) = (home(), FakeModel::start().await);
    let daemon = home.daemon(Some(&home.config(&config(&model, 5.0)))).await;
    let error = json!({"message": "no more of this", "type": "authentication_error", "code": "invalid"});
    model.push(Kind::Reply, Answer::text(WORDS).failing(error));
    let message = json!({ "user": "ann", "text": "tell me all", "id": "m1" });
    let path = "/v1/channels/main/messages";
    let (status, failed) = daemon.client().ask("POST", path, &message).await.unwrap();
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{failed}");
    let entry = last_entry(&home);
    assert_eq!(entry["parts"][1]["text"], "[cut short here: the turn failed]", "{entry}");
    assert_eq!(entry["end"]["outcome"], "failed", "{entry}");
    assert!(entry["end"]["message"].as_str().unwrap().contains("no more of this"), "{entry}");
    assert!(entry["end"]["cost"].as_f64().unwrap() > 0.0, "{entry}");

    let (status, reply) = daemon.client().ask("POST", path, &message).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{reply}");
    let request = model.requests_of(Kind::Reply).pop().unwrap();
    assert!(!request.to_string().contains(SAID), "what is given again is not shown to the model: {request}");
    assert_eq!(last_entry(&home)["end"]["outcome"], "answered");
}

fn sums(home: &Home, by: &str) -> Vec<(String, u64, u64)> {
    let lines = home.json(&["spend", "--by", by]);
    let line = |line: &Value| {
        let names = by.split(',').map(|by| line[by].as_str().unwrap_or_default().to_owned());
        let count = |key: &str| line[key].as_u64().unwrap();
        (names.collect::<Vec<_>>().join(" "), count("calls"), count("estimated"))
    };
    lines.as_array().unwrap().iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spent_is_told_apart_by_person_channel_and_purpose() {
    let (home, model) = (home(), FakeModel::start().await);
    let daemon = home.daemon(Some(&home.config(&config(&model, 5.0)))).await;
    let say = async |daemon: &Daemon, channel: &str, user: &str| {
        let message = json!({ "user": user, "text": "hello" });
        let path = format!("/v1/channels/{channel}/messages");
        let (status, reply) = daemon.client().ask("POST", &path, &message).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{reply}");
    };
    say(&daemon, "main", "ann").await;
    say(&daemon, "main", "bob").await;
    say(&daemon, "other", "ann").await;
    // A server that reports no usage costs what we estimate.
    let silent =
        json!({"choices": [{"message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}]});
    model.push(Kind::Reply, Answer::raw(200, "application/json", silent.to_string()));
    say(&daemon, "other", "bob").await;
    let row = |name: &str, calls, estimated| (name.to_owned(), calls, estimated);
    assert_eq!(sums(&home, "person"), [row("local/ann", 2, 0), row("local/bob", 2, 1)]);
    let channels = [row("main/local/main", 2, 0), row("main/local/other", 2, 1)];
    assert_eq!(sums(&home, "channel"), channels);
    assert_eq!(sums(&home, "agent,purpose,model"), [row("main answer main", 4, 1)]);
    let text = home.cairn(&["spend", "--by", "purpose"]).stdout;
    assert!(text.contains("cost") && text.contains("0.00"), "{text}");
    let total = home.json(&["spend"])[0]["cost"].as_f64().unwrap();
    let today = home.status()["spend"]["today"].as_f64().unwrap();
    assert!((total - today).abs() < 1e-12, "{total} {today}");

    assert!(daemon.stop().await.unwrap().success());
    assert_eq!(sums(&home, "person").len(), 2, "without a daemon, too");
    let nobody = home.json(&["spend", "--from", "2020-01-01", "--to", "2020-12-31"]);
    assert_eq!(nobody, json!([]));
}
