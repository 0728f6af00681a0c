//! The socket: every status of the message call, records, paging, events.

use cairn_testkit::daemon::Client;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::one_model;
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::home;

async fn post(client: &Client, channel: &str, body: Value) -> (u16, Value) {
    let path = format!("/v1/channels/{channel}/messages");
    let (status, answer) = client.ask("POST", &path, &body).await.unwrap();
    (status.as_u16(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_refused_with_the_right_status() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    let path = "/v1/channels/main/messages";
    let bodies: [(Vec<u8>, u16); 9] = [
        (br#"{"user":"a","text":"hi","txt":"hi"}"#.to_vec(), 400),
        (b"nonsense".to_vec(), 400),
        (br#"{"user":"a","text":"\ud800"}"#.to_vec(), 400),
        (br#"{"user":"a","text":"a\u0000"}"#.to_vec(), 400),
        (b"{\"user\":\"a\",\"text\":\"\xff\"}".to_vec(), 400),
        (json!({ "user": "a", "text": "x".repeat(1_000_000) }).to_string().into(), 413),
        (json!({ "user": "a", "text": " ".repeat(1_000_000) }).to_string().into(), 413),
        (json!({ "user": "a", "text": "" }).to_string().into(), 422),
        (json!({ "user": "a", "text": " ".repeat(200_000) }).to_string().into(), 422),
    ];
    for (body, expected) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let (status, answer) = client.raw("POST", path, "application/json", body).await.unwrap();
        assert_eq!(status.as_u16(), expected, "{shown}");
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        for key in ["code", "message", "hint"] {
            assert!(!answer["error"][key].as_str().unwrap().is_empty(), "{shown}: {answer}");
        }
    }
    let body = json!({ "user": "a", "text": "x", "agent": "nobody" });
    assert_eq!(post(&client, "main", body).await.0, 404);
    assert_eq!(client.get("/v1/channels").await.unwrap(), json!([]), "a refused message leaves no channel");

    let first = post(&client, "main", json!({ "user": "a", "text": "hello", "id": "m1" })).await;
    assert_eq!(first.0, 200, "{first:?}");
    let again = post(&client, "main", json!({ "user": "a", "text": "hello", "id": "m1" })).await;
    assert_eq!(again, first, "a repeated id gets the stored answer");
    assert_eq!(post(&client, "main", json!({ "user": "a", "text": "other", "id": "m1" })).await.0, 409);
    let full_name = post(&client, "main%2Flocal%2Fmain", json!({ "user": "a", "text": "x" })).await;
    assert_eq!((full_name.0, &full_name.1["turn"]), (200, &json!("t2")), "both names are one channel");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_hide_in_their_words_is_shown_by_every_command() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    let hidden = "pay \u{202e}lap\u{200b} now\u{9b}2J";
    let body = json!({ "user": "a\u{202e}nn", "text": hidden });
    assert_eq!(post(&client, "main", body).await.0, 200);
    let is_shown =
        |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || "\u{202e}\u{200b}".contains(c)));
    for args in [
        &["history", "main"] as &[&str],
        &["search", "main", "pay"],
        &["channels"],
        &["memory", "list"],
        &["context", "main"],
        &["history", "main", "--json"],
        &["channels", "--json"],
    ] {
        let shown = home.cairn(args).ended(0).stdout;
        assert!(is_shown(&shown), "{args:?}: {shown:?}");
    }
    assert!(home.cairn(&["history", "main"]).stdout.contains("pay \\u{202e}lap\\u{200b} now\\u{9b}2J"));
    let history = home.json(&["history", "main"]);
    assert_eq!(history[0]["parts"][0]["text"], hidden, "JSON has the same words");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_stopped_and_failed_turns_have_their_status() {
    let model = FakeModel::start().await;
    let home = home();
    let limits = "[limits]\nchannel_queue = 1\nmodel_attempts = 1\n\n";
    let config = home.config(&format!("{limits}{}", one_model(&model.base_url(), 32_000)));
    let daemon = home.daemon(Some(&config)).await;
    let client = daemon.client();

    let gate = model.hold(Kind::Reply);
    let held = tokio::spawn({
        let client = client.clone();
        async move { post(&client, "main", json!({ "user": "a", "text": "one" })).await }
    });
    model.wait_for(Kind::Reply, 1).await;
    // One is in its turn, one waits: the third finds the queue full.
    let path = "/v1/channels/main/messages";
    let body = json!({ "user": "a", "text": "two" }).to_string().into_bytes();
    let waiting = client.send("POST", path, "text/event-stream", body.clone()).await.unwrap();
    assert_eq!(waiting.status(), StatusCode::OK);
    let busy = client.send("POST", path, "application/json", body).await.unwrap();
    assert_eq!(busy.status(), StatusCode::TOO_MANY_REQUESTS);
    let retry_after: u64 = busy.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(retry_after >= 1);

    let (status, stopped) = client.ask("POST", "/v1/channels/main/stop", &Value::Null).await.unwrap();
    assert_eq!((status, &stopped["stopped"]), (StatusCode::OK, &json!(true)));
    let (status, answer) = held.await.unwrap();
    assert_eq!((status, &answer["error"]["code"]), (499, &json!("stopped")));
    gate.open();
    // The one that waited has its turn next; only after it the next answer is scripted.
    let answered = waiting.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&answered).contains("event: reply"), "{answered:?}");

    model.push(Kind::Reply, Answer::error(404, "no"));
    let (status, answer) = post(&client, "other", json!({ "user": "a", "text": "x" })).await;
    assert_eq!(status, 502, "{answer}");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_have_every_key_of_the_contract() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    client.say("main", "we decided to sail on Tuesday").await.unwrap();
    let keys = |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let has = |record: &Value, expected: &str| {
        for key in expected.split(' ') {
            assert!(keys(record).iter().any(|found| found == key), "{key} in {record}");
        }
    };
    let context = client.get("/v1/channels/main/context").await.unwrap();
    has(
        &context,
        "channel agent model window_tokens window_source output_reserve_tokens generation usage_ratio tier \
         thresholds regions summaries markers run outcomes correction cached_share",
    );
    has(&context["thresholds"], "background aggressive emergency");
    has(&context["regions"], "system tools summaries sealed live recalled pending");
    has(&context["regions"]["live"], "tokens entries");
    has(&context["correction"], "estimated reported ratio");
    assert_eq!(context["channel"], "main/local/main");
    assert_eq!(context["tier"], "calm");
    let regions = context["regions"].as_object().unwrap();
    let tokens: u64 = regions
        .iter()
        .filter(|(name, _)| *name != "pending")
        .map(|(_, region)| region["tokens"].as_u64().unwrap())
        .sum();
    let usable =
        context["window_tokens"].as_u64().unwrap() - context["output_reserve_tokens"].as_u64().unwrap();
    let ratio = context["usage_ratio"].as_f64().unwrap();
    assert!((ratio - tokens as f64 / usable as f64).abs() < 1e-9, "{context}");

    let history = client.get("/v1/channels/main/history").await.unwrap();
    has(&history[0], "seq turn generation at role author message parts tool_calls tool_call_id tokens place");
    assert_eq!(history[0]["place"], "live");
    has(
        &client.get("/v1/channels").await.unwrap()[0],
        "channel agent platform state entries usage_ratio tier summaries last_at",
    );
    let hits = client.get("/v1/channels/main/search?q=sail").await.unwrap();
    has(&hits[0], "seq score at author text kind id");
    assert_eq!(hits[0]["text"], "we decided to sail on Tuesday");
    let status = client.get("/v1/status").await.unwrap();
    assert_eq!(status["state_dir"], home.state().to_str().unwrap());
    assert_eq!(client.get("/v1/health").await.unwrap()["status"], "ok");
    let record = home.json(&["context", "main"]);
    assert_eq!(keys(&record), keys(&context), "the command line shows the same record");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_paged_by_the_last_seq() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    for n in 0..5 {
        client.say("main", &format!("message {n}")).await.unwrap();
    }
    let whole = client.get("/v1/channels/main/history").await.unwrap();
    let mut paged = Vec::new();
    let mut from = 1;
    loop {
        let page = client.get(&format!("/v1/channels/main/history?from={from}&limit=3")).await.unwrap();
        let page = page.as_array().unwrap().clone();
        let Some(last) = page.last() else { break };
        from = last["seq"].as_u64().unwrap() + 1;
        paged.extend(page);
    }
    assert_eq!(Value::from(paged), whole);
    let part = client.get("/v1/channels/main/history?from=2&to=3").await.unwrap();
    let seqs: Vec<_> = part.as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [2, 3]);
    for bad in ["limit=0", "limit=x", "from=-1"] {
        let path = format!("/v1/channels/main/history?{bad}");
        let (status, _) = client.ask("GET", &path, &Value::Null).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let (status, _) = client.ask("GET", "/v1/nonsense", &Value::Null).await.unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = client.ask("DELETE", "/v1/channels", &Value::Null).await.unwrap();
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(daemon.stop().await.unwrap().success());
}

/// All pages of a list, by the header that names what the next one comes after.
async fn pages(client: &Client, path: &str) -> Vec<Vec<Value>> {
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("{path}?limit=2{after}");
        let answer = client.send("GET", &path, "application/json", Vec::new()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let next = answer.headers().get("cairn-next").map(|next| next.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        pages.push(serde_json::from_slice(&body).unwrap());
        let Some(next) = next else { return pages };
        after = format!("&after={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_by_the_header_that_says_where_they_go_on() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    for (name, text) in [
        ("a.b", "Ann rows."),
        ("a", "Bo sails."),
        ("b", "Cy swims."),
        ("c", "Di dives."),
        ("d", "Ed drifts."),
    ] {
        client.say(name, "hello").await.unwrap();
        let body = json!({ "text": text, "kind": "fact", "scope": "agent" });
        assert_eq!(client.ask("POST", "/v1/memories", &body).await.unwrap().0, StatusCode::OK);
    }
    for path in ["/v1/channels", "/v1/memories"] {
        let whole = client.get(path).await.unwrap();
        let pages = pages(&client, path).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1], "{path}");
        assert_eq!(Value::from(pages.concat()), whole, "{path}");
    }
    assert_eq!(pages(&client, "/v1/outbox").await, [Vec::<Value>::new()]);
    for bad in [
        "channels?limit=0",
        "memories?after=x",
        "memories?q=a&after=1.0",
        "outbox?after=x",
        "tools/log?after=x",
    ] {
        let (status, told) = client.ask("GET", &format!("/v1/{bad}"), &Value::Null).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {told}");
    }
    assert_eq!(client.get("/v1/status").await.unwrap()["channels"], 5);
    assert!(daemon.stop().await.unwrap().success());

    let whole = home.json(&["channels"]);
    let cut = home.cairn(&["channels", "--limit", "3"]).ended(0);
    assert_eq!(cut.stdout.lines().count(), 1 + 3, "{cut:?}");
    assert!(cut.stderr.contains("--after main/local/b"), "{cut:?}");
    let rest = home.json(&["channels", "--after", "main/local/b"]);
    assert_eq!(rest.as_array().unwrap()[..], whole.as_array().unwrap()[3..]);
    let last = whole[4]["channel"].as_str().unwrap();
    assert_eq!(home.cairn(&["channels", "--after", last]).ended(0).stdout, "nothing comes after that\n");
    home.cairn(&["memory", "list", "--after", "x"]).told(2, &["no place in this list", "--after"]);
    let cut = home.cairn(&["memory", "list", "--limit", "2"]).ended(0);
    let place = cut.stderr.split("--after ").nth(1).unwrap().split_whitespace().next().unwrap();
    let rest = home.json(&["memory", "list", "--after", place]);
    assert_eq!(rest.as_array().unwrap()[..], home.json(&["memory", "list"]).as_array().unwrap()[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_listed_alike_awake_asleep_and_after_a_kill() {
    let home = home();
    let daemon = home.daemon(None).await;
    let listed = |state: &str| {
        let mut listed = home.json(&["channels"])[0].clone();
        assert_eq!(listed["state"], state);
        assert_eq!(listed["usage_ratio"], home.json(&["context", "main"])["usage_ratio"]);
        listed.as_object_mut().unwrap().remove("state");
        listed
    };
    daemon.client().say("main", "hello").await.unwrap();
    let awake = listed("awake");
    assert_eq!(awake["entries"], 2);
    // No snapshot is kept of what a kill ends.
    daemon.kill().await.unwrap();
    assert_eq!(listed("asleep"), awake);
    assert_eq!(listed("asleep"), awake, "now from the snapshot that the list has kept");
    let daemon = home.daemon(None).await;
    assert_eq!(listed("asleep"), awake);
    assert_eq!(daemon.client().get("/v1/status").await.unwrap()["awake"], 0, "a list wakes nobody");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_streams_as_events_and_watchers_hear_of_the_turn() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    let mut watch = client.events().await.unwrap();
    let body = json!({ "user": "a", "text": "hello", "id": "m1" }).to_string().into_bytes();
    let (status, bytes) =
        client.raw("POST", "/v1/channels/main/messages", "text/event-stream", body).await.unwrap();
    assert_eq!(status, StatusCode::OK);
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!((names.first(), names.last()), (Some(&"accepted"), Some(&"reply")), "{text}");
    assert!(names.contains(&"delta"), "{text}");
    let started = watch.wait_for("turn_started", |_| true).await.unwrap();
    assert_eq!((&started["channel"], &started["turn"]), (&json!("main/local/main"), &json!("t1")));
    let ended = watch.wait_for("turn_ended", |_| true).await.unwrap();
    assert_eq!(ended["turn"], "t1");
    assert!(daemon.stop().await.unwrap().success());
}
