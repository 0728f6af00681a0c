//! Metrics from outside: on the socket and at the admin address, after some traffic.

use std::net::{SocketAddr, TcpListener};

use cairn_testkit::daemon::{Client, PATIENCE};
use cairn_testkit::free_address;
use cairn_testkit::model::{Answer, Kind};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::home;
use crate::sight::exposition::Exposition;
use crate::sight::rig::Scene;

/// A series, by its name and some of its labels, and the least that it has.
type AtLeast<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

pub(crate) async fn scrape(client: &Client) -> Exposition {
    let (status, body) = client.raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap();
    assert_eq!(status, 200);
    Exposition::parse(std::str::from_utf8(&body).unwrap())
}

/// An answer over TCP, head and body.
pub(crate) async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: cairn\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_is_counted_where_it_belongs() {
    let scene = Scene::start(home(), "level = \"info\"").await;
    scene.rig.model.push(
        Kind::Reply,
        Answer::call("files__echo", json!({ "text": "x" })).and_call("made-up", json!({})),
    );
    assert_eq!(scene.say("main", "hello").await, 200);
    assert_eq!(scene.say("main", "refuse with 400").await, 502);
    for n in 0..8 {
        assert_eq!(scene.say("long", &format!("{n} {}", "and so on ".repeat(300))).await, 200);
    }
    scene.rig.client().ask("POST", "/v1/channels/long/compact", &json!({ "wait": true })).await.unwrap();
    let anna = scene.telegram.person("Anna");
    scene.telegram.say(anna.id, &anna, "hello");
    scene.telegram.wait_sent(anna.id, 1).await;
    let delivered = [("platform", "telegram"), ("outcome", "delivered")];
    let counted = async {
        loop {
            // It is counted after it is noted as delivered, and then leaves the list.
            let now = scrape(&scene.rig.client()).await;
            if now.sum("cairn_deliveries_total", &delivered).is_some_and(|n| n >= 1.0)
                && now.sum("cairn_outbox_oldest_seconds", &[]) == Some(0.0)
            {
                break now;
            }
            tokio::task::yield_now().await;
        }
    };
    let now = tokio::time::timeout(PATIENCE, counted).await.unwrap();
    let least: [AtLeast<'_>; 24] = [
        ("cairn_turns_total", &[("agent", "main"), ("outcome", "answered")], 10.0),
        ("cairn_turns_total", &[("agent", "main"), ("outcome", "failed")], 1.0),
        ("cairn_turn_seconds_count", &[("agent", "main")], 11.0),
        ("cairn_turn_model_seconds_count", &[("agent", "main")], 11.0),
        ("cairn_turn_own_seconds_count", &[("agent", "main")], 11.0),
        ("cairn_model_seconds_count", &[("model", "fake"), ("outcome", "failed")], 1.0),
        ("cairn_tokens_total", &[("model", "fake"), ("kind", "input")], 1.0),
        ("cairn_tokens_total", &[("model", "fake"), ("kind", "output")], 1.0),
        ("cairn_cached_ratio_count", &[("model", "fake")], 10.0),
        ("cairn_usage_ratio_count", &[("agent", "main")], 11.0),
        ("cairn_runs_total", &[("trigger", "manual")], 1.0),
        ("cairn_run_seconds_count", &[("outcome", "committed")], 1.0),
        ("cairn_tool_calls_total", &[("tool", "files__echo"), ("outcome", "done")], 1.0),
        ("cairn_tool_calls_total", &[("tool", "other"), ("outcome", "refused")], 1.0),
        ("cairn_errors_total", &[("kind", "model_bad_request")], 1.0),
        ("cairn_errors_total", &[("kind", "turn_refused")], 1.0),
        ("cairn_journal_bytes", &[], 1.0),
        ("cairn_views_bytes", &[], 1.0),
        ("cairn_journal_sync_seconds_count", &[], 1.0),
        ("cairn_disk_free_bytes", &[], 1.0),
        ("cairn_adapter_state", &[("platform", "telegram"), ("state", "connected")], 1.0),
        ("cairn_platform_connected", &[("platform", "discord")], 1.0),
        ("process_resident_memory_bytes", &[], 1e6),
        ("process_open_fds", &[], 5.0),
    ];
    for (name, labels, least) in least {
        let sum = now.sum(name, labels);
        assert!(sum.is_some_and(|sum| sum >= least), "{name} {labels:?}: {sum:?} is under {least}");
    }
    for (name, is) in [
        ("cairn_ready", 1.0),
        ("cairn_scrape_ok", 1.0),
        ("cairn_emergencies_total", 0.0),
        ("cairn_journal_failures_total", 0.0),
        ("cairn_agent_models_well", 1.0),
    ] {
        assert_eq!(now.sum(name, &[]), Some(is), "{name}");
    }
    // What a turn takes is the model's share and our own, and what is cached is a part of what is sent.
    let sum = |name: &str| now.sum(name, &[]).unwrap();
    assert!(sum("cairn_turn_own_seconds_sum") <= sum("cairn_turn_seconds_sum"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_channels_make_no_more_series_than_one_hundred() {
    let home = home();
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    let mut counts = Vec::new();
    for hundred in 0..2 {
        for n in 0..100 {
            let body =
                json!({ "user": format!("person-{hundred}-{n}"), "text": "hello", "id": format!("m{n}") });
            let path = format!("/v1/channels/room-{hundred}-{n}/messages");
            let (status, answer) = client.ask("POST", &path, &body).await.unwrap();
            assert_eq!(status, 200, "{answer}");
        }
        let now = scrape(&client).await;
        assert_eq!(
            now.sum("cairn_turns_total", &[("outcome", "answered")]),
            Some(f64::from(hundred + 1) * 100.0)
        );
        for label in ["channel", "chat", "user", "message", "turn", "run", "id"] {
            assert!(now.values(label).is_empty(), "{label} is a label");
        }
        counts.push(now.series.len());
    }
    assert_eq!(counts[0], counts[1], "series grow with channels");
    assert!(counts[0] < 1_000, "{counts:?}");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_address_serves_figures_and_health_and_nothing_else() {
    let (home, address) = (home(), free_address());
    let config = home.config(&format!("[admin]\nlisten = \"{address}\"\nhosts = [\"bot.example.net\"]\n"));
    let daemon = home.daemon(Some(&config)).await;
    let metrics = ask(address, "GET /metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    assert!(
        metrics.contains("text/plain; version=0.0.4") && metrics.contains("\ncairn_ready 1\n"),
        "{metrics}"
    );
    assert!(ask(address, "GET /v1/health").await.starts_with("HTTP/1.1 200"));
    for closed in
        ["GET /v1/status", "GET /v1/channels", "GET /v1/memories", "POST /v1/channels/main/new", "GET /"]
    {
        assert!(ask(address, closed).await.starts_with("HTTP/1.1 404"), "{closed}");
    }
    assert!(ask(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    let rebound = ask(address, "GET http://evil.example/metrics").await;
    assert!(rebound.starts_with("HTTP/1.1 421") && rebound.contains("`hosts` of [admin]"), "{rebound}");
    assert!(ask(address, "GET http://bot.example.net/metrics").await.starts_with("HTTP/1.1 200"));
    assert!(daemon.stop().await.unwrap().success());
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

#[test]
fn an_address_that_is_taken_stops_the_start_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = home();
    home.config(&format!("[admin]\nlisten = \"{}\"\n", taken.local_addr().unwrap()));
    home.cairn(&["run"]).told(1, &["cannot listen at", "under [admin] to a free port"]);
}
