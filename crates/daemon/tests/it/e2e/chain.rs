//! A chain of models from outside: who answers, why, and what the status says.

use cairn_testkit::daemon::Daemon;
use cairn_testkit::free_address;
use cairn_testkit::home::Home;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::one_model;
use serde_json::{Value, json};

use crate::home;

/// Two models and one agent that tries them in order.
fn pair(first: &str, second: &str, limits: &str) -> String {
    let model = |id: &str, base_url: &str, more: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\nprovider = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"{id}\"\n\
             max_output_tokens = 1024\n{more}\n"
        )
    };
    format!(
        "[limits]\n{limits}\n{}{}[[agents]]\nid = \"main\"\nmodels = [\"first\", \"second\"]\n",
        model("first", first, ""),
        model("second", second, "context_window = 64000\n")
    )
}

/// The chain as `cairn status --json` shows it.
fn chain(home: &Home) -> Vec<Value> {
    let status = home.status();
    status["agents"][0]["chain"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_model_answers_where_the_first_fails_and_the_status_says_why() {
    let limited = Answer::error(429, "slow down").header("retry-after", "900");
    let rows = [
        (Some(Answer::error(503, "no free slots")), "overloaded"),
        (Some(limited), "rate_limited"),
        (Some(Answer::error(401, "bad key")), "auth"),
        (None, "transport"),
    ];
    for (answer, code) in rows {
        let (home, second) = (home(), FakeModel::start().await);
        let first = match answer {
            Some(answer) => {
                let first = FakeModel::builder().advertise(64_000).start().await;
                first.push(Kind::Reply, answer);
                Some(first)
            }
            None => None,
        };
        let dead = || "http://127.0.0.1:9/v1".to_owned();
        let base_url = first.as_ref().map_or_else(dead, FakeModel::base_url);
        let config = home.config(&pair(&base_url, &second.base_url(), ""));
        let daemon = home.daemon(Some(&config)).await;
        for text in ["hello", "still there?"] {
            let (status, reply) = daemon.client().say("main", text).await.unwrap();
            assert_eq!(status, 200, "{code}: {reply}");
            assert_eq!(reply["model"], "second", "{code}: {reply}");
        }
        if let Some(first) = &first {
            assert_eq!(first.tally(Kind::Reply).arrived, 1, "{code}: it was skipped");
        }
        let shown = chain(&home);
        assert_eq!((&shown[0]["state"], &shown[0]["error"]), (&json!("cooling"), &json!(code)), "{shown:?}");
        assert!(shown[0]["until"].is_string() && shown[0]["why"].is_string(), "{shown:?}");
        assert_eq!((&shown[1]["state"], &shown[1]["why"]), (&json!("answers"), &json!("`first` is cooling")));
        assert_eq!(
            (&shown[1]["window_tokens"], &shown[1]["window_source"]),
            (&json!(64_000), &json!("model"))
        );
        let text = home.cairn(&["status"]).ended(0).stdout;
        assert!(text.contains("cooling until ") && text.contains(" because "), "{text}");
        let line = text.lines().find(|line| line.contains("  second  ")).unwrap();
        assert!(line.contains("main") && line.contains("64,000"), "{text}");
        let context = home.json(&["context", "main"]);
        assert_eq!(context["model"], "second");
        assert!(context["model_reason"].as_str().unwrap().starts_with("`first`"), "{context}");
        second.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_model_answers_again_when_its_cool_down_is_over() {
    let (home, first, second) = (home(), FakeModel::start().await, FakeModel::start().await);
    let limits = "model_cool_down_secs = 0\nmodel_limited_secs = 0\nmodel_cool_down_max_secs = 0\n";
    let config = home.config(&pair(&first.base_url(), &second.base_url(), limits));
    let daemon = home.daemon(Some(&config)).await;
    first.push(Kind::Reply, Answer::error(503, "no free slots"));
    let mut models = Vec::new();
    for text in ["one", "two", "three"] {
        models.push(daemon.client().say("main", text).await.unwrap().1["model"].clone());
    }
    assert_eq!(models, ["second", "first", "first"]);
    let shown = chain(&home);
    assert_eq!((&shown[0]["state"], &shown[1]["state"]), (&json!("answers"), &json!("ready")));
    assert_eq!((&shown[0]["why"], &shown[0]["error"]), (&json!("first of the chain"), &Value::Null));
    let context = home.cairn(&["context", "main"]).ended(0).stdout;
    assert!(context.contains("first answers: "), "{context}");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_model_that_broke_are_taken_back() {
    let (home, first, second) = (home(), FakeModel::start().await, FakeModel::start().await);
    let config = home.config(&pair(&first.base_url(), &second.base_url(), ""));
    let daemon = home.daemon(Some(&config)).await;
    // A server that is known to mark the ends of its answers.
    assert_eq!(daemon.client().say("main", "hi").await.unwrap().1["model"], "first");
    first.push(Kind::Reply, Answer::text("these words are cut off in their middle").truncated());
    let (status, reply) = daemon.client().say("main", "hello").await.unwrap();
    assert_eq!((status.as_u16(), &reply["model"]), (200, &json!("second")), "{reply}");
    assert!(!reply["reply"].as_str().unwrap().contains("cut off"), "{reply}");
    let history = home.cairn(&["history", "main", "--json"]).ended(0).stdout;
    assert!(!history.contains("these words"), "{history}");
}

/// The server of a machine that boots answers later than the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_could_not_be_asked_for_is_known_once_the_server_answers() {
    for provider in ["openai", "anthropic"] {
        let home = home();
        let address = free_address();
        let config = home.config(&format!(
            "[[models]]\nid = \"late\"\nprovider = \"{provider}\"\nbase_url = \"http://{address}/v1\"\nmodel = \"late\"\n\
             max_output_tokens = 1024\n\n[[agents]]\nid = \"main\"\nmodels = [\"late\"]\n"
        ));
        let daemon = home.daemon(Some(&config)).await;
        assert_eq!(chain(&home)[0]["window_tokens"], 8_192, "{provider}");
        let log = home.log();
        assert!(log.contains("the size of its window is unknown"), "{log}");
        let model = FakeModel::builder().address(address).advertise(48_000).start().await;
        let (status, reply) = daemon.client().say("main", "hello").await.unwrap();
        assert_eq!(status, 200, "{reply}");
        let known = async {
            while chain(&home)[0]["window_source"] != "server" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), known).await.unwrap();
        assert_eq!(chain(&home)[0]["window_tokens"], 48_000, "{provider}");
        let context = home.json(&["context", "main"]);
        assert_eq!(context["window_tokens"], 48_000, "the conversation has it, too: {context}");
        model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_whose_server_lists_a_small_window_is_passed_over() {
    let (home, second) = (home(), FakeModel::start().await);
    let first = FakeModel::builder().advertise(15_999).start().await;
    let config = home.config(&pair(&first.base_url(), &second.base_url(), ""));
    let daemon = home.daemon(Some(&config)).await;
    assert_eq!(daemon.client().say("main", "hello").await.unwrap().1["model"], "second");
    let shown = chain(&home);
    assert_eq!((&shown[0]["state"], &shown[0]["window_source"]), (&json!("passed_over"), &json!("server")));
    assert!(shown[0]["why"].as_str().unwrap().contains("min_tokens = 16000"), "{shown:?}");
    assert_eq!(first.tally(Kind::Reply).arrived, 0);
    // Set explicitly, the same window is used.
    assert!(daemon.stop().await.unwrap().success());
    let text = pair(&first.base_url(), &second.base_url(), "")
        .replace("model = \"first\"\n", "model = \"first\"\ncontext_window = 15999\n");
    let config = home.config(&text);
    let said = home.cairn(&["config", "check"]).ended(0);
    let all = format!("{}{}", said.stdout, said.stderr);
    assert!(all.contains("the window of `first` is small: 15999 tokens"), "{all}");
    let daemon = home.daemon(Some(&config)).await;
    assert_eq!(daemon.client().say("main", "hello").await.unwrap().1["model"], "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_correction_of_estimates_outlives_a_restart_and_is_shown() {
    let (home, first, second) = (home(), FakeModel::start().await, FakeModel::start().await);
    let config = home.config(&pair(&first.base_url(), &second.base_url(), ""));
    let daemon = home.daemon(Some(&config)).await;
    daemon.client().say("main", "hello").await.unwrap();
    let before = home.json(&["context", "main"]);
    assert!(before["correction"]["reported"].as_u64().unwrap() > 0, "{before}");
    daemon.kill().await.unwrap();
    let _daemon = home.daemon(Some(&config)).await;
    let after = home.json(&["context", "main"]);
    assert_eq!(before["correction"], after["correction"]);
    let text = home.cairn(&["context", "main"]).ended(0).stdout;
    assert!(text.contains("token estimates  ×") && text.contains(" reported)\n"), "{text}");
}

async fn metrics(daemon: &Daemon) -> String {
    let text = daemon.client().raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap().1;
    String::from_utf8(text.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_message_waits_for_a_model_server_that_starts_again() {
    let home = home();
    let address = free_address();
    let limits =
        "[limits]\nmodel_cool_down_secs = 0\nmodel_limited_secs = 0\nmodel_cool_down_max_secs = 0\n\n";
    let config = home.config(&format!("{limits}{}", one_model(&format!("http://{address}/v1"), 32_000)));
    let daemon = home.daemon(Some(&config)).await;
    let message = json!({ "user": "ann", "text": "hello", "id": "m1" });
    let mut events = daemon.client().talk("main", &message).await.unwrap();
    let waiting = events.wait_for("waiting", |_| true).await.unwrap();
    assert!(waiting["message"].as_str().unwrap().contains("cannot reach the model's server"), "{waiting}");
    let well = |n: u32| format!("cairn_agent_models_well{{agent=\"main\"}} {n}");
    let now = metrics(&daemon).await;
    assert!(now.contains(&well(0)), "{now}");
    let loading = Answer::error(503, "Loading model");
    let model = FakeModel::builder().address(address).start().await;
    model.push(Kind::Reply, loading);
    let reply = events.wait_for("reply", |_| true).await.unwrap();
    assert_eq!(reply["message"], "m1", "{reply}");
    let now = metrics(&daemon).await;
    assert!(now.contains(&well(1)), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_that_is_sent_again_stands_once_in_the_history() {
    let (home, model) = (home(), FakeModel::start().await);
    let config = home.config(&one_model(&model.base_url(), 32_000));
    let mut daemon = home.daemon(Some(&config)).await;
    let message = json!({ "user": "ann", "text": "hello", "id": "m1" });
    let path = "/v1/channels/main/messages";
    for _ in 0..2 {
        model.push(Kind::Reply, Answer::error(404, "no"));
        assert_eq!(daemon.client().ask("POST", path, &message).await.unwrap().0, 502);
        daemon.kill().await.unwrap();
        daemon = home.daemon(Some(&config)).await;
    }
    let (status, reply) = daemon.client().ask("POST", path, &message).await.unwrap();
    assert_eq!(status, 200, "{reply}");
    let again = daemon.client().ask("POST", path, &message).await.unwrap();
    assert_eq!((status, &again.1["reply"]), (again.0, &reply["reply"]), "the stored answer");
    let history = home.json(&["history", "main"]);
    let roles: Vec<_> = history.as_array().unwrap().iter().map(|entry| entry["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant"], "{history}");
    let verified = home.json(&["store", "verify"]);
    assert_eq!(verified["ok"], true, "{verified}");
}

/// A streamed answer whose server reports this usage.
fn reporting(text: &str, usage: &Value) -> Answer {
    let chunk = |choices: Value, usage: &Value| json!({"id": "1", "object": "chat.completion.chunk", "choices": choices, "usage": usage});
    let said = json!([{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]);
    let (said, counted) = (chunk(said, &Value::Null), chunk(json!([]), usage));
    Answer::raw(200, "text/event-stream", format!("data: {said}\n\ndata: {counted}\n\ndata: [DONE]\n\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_that_cannot_be_true_spends_no_cap_and_teaches_nothing() {
    let (home, model) = (home(), FakeModel::start().await);
    let text = format!("[limits]\nspend_per_day = 5.0\n{}", one_model(&model.base_url(), 32_000));
    let prices = "context_window = 32000\ninput_price = 1.0\noutput_price = 1.0\n";
    let config = home.config(&text.replace("context_window = 32000\n", prices));
    let daemon = home.daemon(Some(&config)).await;
    daemon.client().say("main", "hello").await.unwrap();
    let before = home.json(&["context", "main"]);
    for usage in [
        json!({"prompt_tokens": u64::MAX, "completion_tokens": 5}),
        json!({"prompt_tokens": 40, "completion_tokens": u64::MAX}),
        json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}),
    ] {
        model.push(Kind::Reply, reporting("fine", &usage));
        let (status, reply) = daemon.client().say("main", "and now?").await.unwrap();
        assert_eq!(status, 200, "{usage}: {reply}");
        assert!(reply["usage"]["input_tokens"].as_u64().unwrap() < 10_000, "{usage}: {reply}");
        assert!(reply["usage"]["output_tokens"].as_u64().unwrap() < 100, "{usage}: {reply}");
    }
    let context = home.json(&["context", "main"]);
    assert_eq!(before["correction"], context["correction"]);
    let counted = metrics(&daemon).await;
    assert!(counted.contains("cairn_usage_disbelieved_total{model=\"main\"} 3"), "{counted}");
    assert!(daemon.stop().await.unwrap().success());
    let daemon = home.daemon(Some(&config)).await;
    let (status, reply) = daemon.client().say("main", "still there?").await.unwrap();
    assert_eq!(status, 200, "{reply}");
    let status = home.status();
    let spent = status["spend"]["today"].as_f64().unwrap();
    assert!(spent > 0.0 && spent < 0.1, "{status}");
}
