//! `cairn tune`: figures for a file and a channel, TOML that is a configuration, clear errors.

use cairn_testkit::rig::one_model;
use serde_json::Value;

use crate::home;

/// So many messages, each of some twenty tokens or of some two hundred, a minute apart.
fn talk(n: usize) -> String {
    let line = |idx: usize| {
        let text = "the third flat near the river had two balconies and a lemon tree ".repeat(1 + idx % 10);
        let at = format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + idx / 1440, idx / 60 % 24, idx % 60);
        serde_json::json!({ "user": "ann", "text": text, "at": at }).to_string()
    };
    (0..n).map(|idx| line(idx) + "\n").collect()
}

#[test]
fn a_file_is_tried_against_candidates_and_the_best_is_a_configuration() {
    let home = home();
    let config = one_model("http://127.0.0.1:9/v1", 32_000);
    home.config(&config);
    let file = home.file("talk.jsonl", talk(1_500));
    let file = file.to_str().unwrap();
    let fast = "background_threshold=0.6,background_fraction=0.6,aggressive_fraction=0.6";
    let args = ["tune", file, "--prices", "anthropic", "--candidate", fast];
    let run = home.cairn(&args).ended(0);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    for words in [
        "1,500 turns",
        "billed: input tokens that a turn",
        "kept",
        "current",
        "long tasks (0.70)",
        "needs context (0.90)",
        "best at equal",
    ] {
        assert!(run.stdout.contains(words), "{words} in {}", run.stdout);
    }
    let json = home.json(&args);
    let candidates = json["candidates"].as_array().unwrap();
    assert_eq!(candidates[0]["name"], "current");
    assert!(candidates.iter().any(|candidate| candidate["name"] == fast));
    for candidate in candidates {
        let share = |key: &str| candidate[key].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share("cached_share")) && (0.0..=1.0).contains(&share("retention")));
        assert!(share("billed_per_turn") > 0.0 && share("mean_tokens") <= share("max_tokens"));
        assert!(share("max_tokens") <= 31_000.0, "over the window: {candidate}");
    }
    home.config(&format!("{config}{}", json["toml"].as_str().unwrap()));
    home.cairn(&["config", "check"]).ended(0);
    assert!(!home.state().exists(), "trying settings made a state folder");
}

#[test]
fn a_channel_is_read_with_its_answers() {
    let home = home();
    let file = home.file("talk.jsonl", talk(12));
    home.cairn(&["import", "--answer", file.to_str().unwrap(), "--channel", "flats"]).ended(0);
    let json = home.json(&["tune", "flats"]);
    assert_eq!((&json["turns"], &json["agent"]), (&Value::from(12), &Value::from("main")));
    let text = home.cairn(&["tune", "flats"]).ended(0).stdout;
    assert!(text.contains("nothing to choose"), "{text}");
}

#[test]
fn what_cannot_be_tuned_is_explained() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    home.file("empty.jsonl", "\n");
    home.file("one.jsonl", talk(1));
    home.file("bad.jsonl", format!("{}not json\n", talk(2)));
    home.file("half.jsonl", format!("{}{{\"user\":\"ann\"}}\n", talk(1)));
    home.file("talk.jsonl", talk(5));
    let cases: [(&[&str], i32, &[&str]); 10] = [
        (&["empty.jsonl"], 1, &["empty.jsonl is empty", "expected"]),
        (&["one.jsonl"], 1, &["too short", "1 turn"]),
        (&["main"], 1, &["too short", "1 turn"]),
        (&["bad.jsonl"], 1, &["line 3", "not a JSON object", "expected"]),
        (&["half.jsonl"], 1, &["line 2", "`text`"]),
        (&["nowhere.jsonl"], 1, &["nowhere.jsonl", "not there"]),
        (&["nowhere"], 4, &["nowhere", "no file"]),
        (&["talk.jsonl", "--agent", "nobody"], 2, &["nobody", "main"]),
        (&["talk.jsonl", "--candidate", "fan_ot=3"], 2, &["fan_ot", "fan_out"]),
        (&["talk.jsonl", "--candidate", "background_threshold=0.99"], 2, &["aggressive_threshold"]),
    ];
    for (args, code, words) in cases {
        let run = home.cairn(&[&["tune"], args].concat()).ended(code);
        for word in words {
            assert!(run.stderr.contains(word), "{args:?}: `{word}` in {}", run.stderr);
        }
        assert!(run.stderr.contains("hint: "), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_channel_with_runs_is_simulated_with_runs_as_they_were() {
    let home = home();
    home.config("[defaults]\ncontext_window = 6000\n");
    let line = |idx: usize| {
        let text = format!("flat {idx} near the river had two balconies and a lemon tree ").repeat(8);
        let at = format!("2026-01-01T00:{:02}:{:02}Z", idx / 60, idx % 60);
        serde_json::json!({ "user": "ann", "text": text, "at": at }).to_string() + "\n"
    };
    let file = home.file("talk.jsonl", (0..90).map(line).collect::<String>());
    let file = file.to_str().unwrap();
    let report = home.json(&["import", "--answer", file, "--channel", "flats"]);
    assert_eq!(report[0]["emergencies"], 0, "{report}");
    let json = home.json(&["tune", "flats"]);
    let runs = &json["runs"];
    assert!(runs["measured"].as_u64().unwrap() > 0 && runs["summaries"].as_u64().unwrap() > 0, "{runs}");
    assert!(runs["run_ms"].as_u64().unwrap() < 20_000, "{runs}");
    let current = &json["candidates"][0];
    assert_eq!(current["emergencies"], 0, "there were none: {current}");
    let text = home.cairn(&["tune", "flats"]).ended(0).stdout;
    assert!(text.contains("the median of the last") && text.contains("of the size asked for"), "{text}");
    let assumed = home.cairn(&["tune", file]).ended(0).stdout;
    assert!(assumed.contains("runs: assumed to take 20.0 s: the history has no runs"), "{assumed}");
    let assumed = home.json(&["tune", file]);
    assert_eq!(
        (&assumed["runs"]["measured"], &assumed["runs"]["run_ms"]),
        (&Value::from(0), &Value::from(20_000))
    );
}
