//! The dashboard and the alert rules name only metrics that a daemon has.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::sight::exposition::Exposition;
use crate::sight::figures::scrape;

fn deploy(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)).unwrap()
}

/// What a query names: words with our prefixes.
fn named(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("cairn_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

async fn fresh() -> Exposition {
    let home = crate::home();
    let daemon = home.daemon(None).await;
    let now = scrape(&daemon.client()).await;
    assert!(daemon.stop().await.unwrap().success());
    now
}

/// All queries below a value of a dashboard.
fn queries(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(query)) = object.get("expr") {
                out.push(query.clone());
            }
            object.values().for_each(|value| queries(value, out));
        }
        Value::Array(list) => list.iter().for_each(|value| queries(value, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_the_dashboard_and_the_alerts_name_is_there() {
    let now = fresh().await;
    let board: Value = serde_json::from_str(&deploy("grafana/cairn.json")).unwrap();
    let mut asked = Vec::new();
    queries(&board, &mut asked);
    assert!(asked.len() > 25, "{} queries", asked.len());
    let rules = deploy("prometheus/cairn.rules.yml");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("expr:")).map(str::to_owned);
    let n_board = asked.len();
    asked.extend(alerts);
    assert!(asked.len() >= n_board + 10, "too few alerts: {}", asked.len() - n_board);
    for query in &asked {
        for name in named(query) {
            assert!(now.knows(&name), "`{name}` is no metric: {query}");
        }
        let is_balanced = |open, close| query.matches(open).count() == query.matches(close).count();
        assert!(is_balanced('(', ')') && is_balanced('{', '}') && is_balanced('[', ']'), "{query}");
    }
}

#[test]
fn every_alert_says_what_is_wrong_and_what_to_do() {
    let rules = deploy("prometheus/cairn.rules.yml");
    let alerts: Vec<&str> = rules.split("- alert:").skip(1).collect();
    assert!(alerts.len() >= 10, "{} alerts", alerts.len());
    for alert in alerts {
        for key in ["expr:", "severity:", "summary:", "description:"] {
            assert!(alert.contains(key), "no {key} in {alert}");
        }
    }
}

#[test]
fn panels_do_not_overlap_and_take_their_datasource_from_the_variable() {
    let board: Value = serde_json::from_str(&deploy("grafana/cairn.json")).unwrap();
    assert!(board["schemaVersion"].as_u64().unwrap() >= 39);
    let panels = board["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is there twice: {panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} lies over another panel", panel["title"]);
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{}", panel["title"]);
        }
    }
}
