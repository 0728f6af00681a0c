//! Daemon and command line together: who answers, and what a stop leaves behind.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use cairn_testkit::daemon::Daemon;

use crate::{CAIRN, home};

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_the_running_daemon_and_pass_over_one_of_another_state() {
    let home = home();
    let daemon = home.daemon(None).await;
    daemon.client().say("main", "hello").await.unwrap();
    assert_eq!(home.json(&["channels"])[0]["state"], "awake");
    assert_eq!(home.status()["running"], true);
    home.cairn_with(&["chat"], b"again\n").ended(0);
    let long = "a-name-as-long-as-names-may-be-so-that-no-terminal-has-room-for-it";
    daemon.client().say(&long[..64], "hello").await.unwrap();
    let listed = home.cairn(&["channels"]).ended(0).stdout;
    let whole = format!("main/local/{}  -     awake", &long[..64]);
    assert!(listed.lines().any(|line| line.starts_with(&whole)), "{listed}");
    let mode = std::fs::metadata(home.state().join("cairn.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let other = crate::home();
    assert_eq!(other.json(&["channels"]), json!([]));
    assert!(daemon.stop().await.unwrap().success());
    assert_eq!(home.json(&["channels"])[0]["state"], "asleep");
    assert_eq!(home.status()["running"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_allocator_keeps_the_daemon_small_however_it_is_started_unless_somebody_says_otherwise() {
    let home = home();
    for (set, has) in
        [(&[][..], "MALLOC_ARENA_MAX=1\0"), (&[("MALLOC_ARENA_MAX", "4")], "MALLOC_ARENA_MAX=4\0")]
    {
        let daemon = Daemon::start_with(set, CAIRN.as_ref(), &home.state(), None).await.unwrap();
        let environment = std::fs::read(format!("/proc/{}/environ", daemon.pid().unwrap())).unwrap();
        let environment = String::from_utf8_lossy(&environment);
        assert!(environment.contains(has), "{environment}");
        assert!(daemon.stop().await.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_does_not_keep_commands_from_a_healthy_daemon() {
    let home = home();
    let config = home.config("[[agents]]\nid = \"helper\"\n");
    let daemon = home.daemon(Some(&config)).await;
    home.cairn_with(&["chat"], b"hello harbour\n").ended(0);
    home.config("bogus = 1\nworse = 2\n[[agents]]\nid = \"helper\"\n");
    for args in [
        &["status"][..],
        &["channels"],
        &["context", "main"],
        &["history", "main"],
        &["search", "main", "harbour"],
        &["compact", "main"],
        &["memory", "list"],
        &["memory", "add", "Ada drinks tea.", "--kind", "fact", "--scope", "agent"],
        &["pair", "list"],
        &["outbox", "list"],
        &["mcp", "list"],
        &["tools", "list"],
        &["artifact", "list", "main"],
        &["store", "verify"],
        &["store", "backup", "backup"],
        &["chat", "--agent", "helper"],
    ] {
        let run = home.cairn_with(args, b"").ended(0);
        let (warning, rest) = run.stderr.split_once('\n').unwrap();
        assert!(
            warning.starts_with("warning: ") && warning.contains("config.toml:1:1: "),
            "{args:?}: {run:?}"
        );
        assert!(warning.contains("bogus") && warning.contains("(and 1 more)"), "{args:?}: {run:?}");
        assert!(!rest.contains("bogus"), "it is told once: {run:?}");
    }
    let run = home.cairn(&["context", "main", "--json"]).ended(0);
    assert_eq!(run.json()["channel"], "helper/local/main", "the agents are the daemon's");
    home.cairn(&["chat", "--agent", "main"]).ended(2);
    // What needs the configuration itself ends as ever, and so does everything once no daemon answers.
    for args in [&["run"][..], &["config", "check"], &["store", "verify", "--quarantine"]] {
        let run = home.cairn(args).ended(2);
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("worse"), "{args:?}: {run:?}");
    }
    assert!(daemon.stop().await.unwrap().success());
    for args in [&["status"][..], &["context", "main"], &["store", "verify"], &["chat"]] {
        let run = home.cairn(args).ended(2);
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("worse"), "{args:?}: {run:?}");
    }
}

#[test]
fn a_new_generation_archives_what_was_before() {
    let home = home();
    home.cairn_with(&["chat"], b"before\n").ended(0);
    let answer = home.json(&["new", "main"]);
    assert_eq!(answer["generation"], 2);
    home.cairn_with(&["chat"], b"after\n").ended(0);
    let history = home.json(&["history", "main"]);
    assert_eq!((&history[0]["place"], &history[0]["generation"]), (&json!("archived"), &json!(1)));
    let last = history.as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["place"], &last["generation"]), (&json!("live"), &json!(2)));
}

#[test]
fn compacting_a_short_conversation_is_nothing_to_do() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    let run = home.cairn(&["compact", "main"]).ended(0);
    assert!(run.stdout.contains("nothing to compact: 2 messages in 1 turn ("), "{run:?}");
    let answer = home.json(&["compact", "main"]);
    assert_eq!((&answer["run"], &answer["nothing"]["free_messages"]), (&json!(null), &json!(0)));
}

#[test]
fn all_but_the_last_turn_is_compacted_in_a_window_that_is_nearly_empty() {
    let home = home();
    let lines: String = (0..5)
        .map(|n| {
            format!("Flat {n} in Lisbon costs 1,45{n} euros a month, {}\n", "near the river ".repeat(20))
        })
        .collect();
    home.cairn_with(&["chat"], lines.as_bytes()).ended(0);
    let answer = home.json(&["compact", "main", "--wait"]);
    assert_eq!(
        (&answer["outcome"], &answer["end"]["messages"]),
        (&json!("committed"), &json!(8)),
        "{answer}"
    );
    let again = home.cairn(&["compact", "main", "--wait"]).ended(0);
    assert!(again.stdout.contains("; 8 messages before them summarised already"), "{again:?}");
    let again = home.json(&["compact", "main", "keep the prices", "--wait"]);
    assert_eq!((&again["outcome"], &again["end"]["messages"]), (&json!("committed"), &json!(8)), "{again}");
    let context = home.json(&["context", "main"]);
    assert_eq!(context["summaries"].as_array().map(Vec::len), Some(1), "{context}");
}

#[test]
fn compacting_prints_what_came_of_it() {
    let home = home();
    home.config("[defaults]\ncontext_window = 8000\n");
    let lines: String = (0..30)
        .map(|n| {
            format!(
                "Flat {n} in Lisbon costs 1,45{n} euros a month, has two balconies and is near the river.\n"
            )
        })
        .collect();
    home.cairn_with(&["chat"], lines.as_bytes()).ended(0);
    let run = home.cairn(&["compact", "main", "keep the prices", "--wait"]).ended(0);
    let (first, summary) = run.stdout.split_once("\n\n").unwrap_or_else(|| panic!("no summary: {run:?}"));
    assert!(first.starts_with("run r1 committed: ") && first.contains(" messages, "), "{run:?}");
    assert!(first.contains(" tokens, ") && summary.contains("Lisbon"), "{run:?}");
    let run = home.cairn(&["compact", "main", &"x".repeat(4_001)]).ended(1);
    assert!(run.stderr.contains("4001 characters, 4000 at most"), "{run:?}");
}

#[test]
fn a_drawn_context_fits_its_width_and_has_no_colours_in_a_pipe() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    let drawn = home.cairn(&["context", "main"]).ended(0).stdout;
    assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
    assert!(drawn.lines().all(|line| line.chars().count() <= 100), "{drawn}");
    for word in ["main/local/main", "background", "aggressive", "emergency", "live", "calm"] {
        assert!(drawn.contains(word), "{word} in {drawn}");
    }
}
