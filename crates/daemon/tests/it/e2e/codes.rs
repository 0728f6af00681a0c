//! Exit codes, and errors that say what to do.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use cairn_testkit::free_address;

use crate::e2e::as_a_stranger;
use crate::home;

#[track_caller]
fn explains(stderr: &str, words: &[&str]) {
    assert!(stderr.starts_with("error: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "`{word}` in: {stderr}");
    }
}

#[test]
fn version_and_help_of_every_command_are_there() {
    let home = home();
    assert!(home.cairn(&["--version"]).ended(0).stdout.starts_with("cairn "));
    let commands: [&[&str]; 38] = [
        &[],
        &["run"],
        &["chat"],
        &["import"],
        &["status"],
        &["channels"],
        &["context"],
        &["history"],
        &["search"],
        &["compact"],
        &["tune"],
        &["new"],
        &["memory", "list"],
        &["memory", "search"],
        &["memory", "show"],
        &["memory", "add"],
        &["memory", "edit"],
        &["memory", "unite"],
        &["memory", "forget"],
        &["pair", "list"],
        &["pair", "approve"],
        &["pair", "revoke"],
        &["outbox", "list"],
        &["outbox", "retry"],
        &["outbox", "drop"],
        &["store", "verify"],
        &["store", "rebuild"],
        &["store", "backup"],
        &["store", "restore"],
        &["store", "retain"],
        &["forget-user"],
        &["reload"],
        &["doctor"],
        &["init"],
        &["completions"],
        &["man"],
        &["config", "schema"],
        &["config", "check"],
    ];
    for command in commands {
        let mut args = command.to_vec();
        args.push("--help");
        let help = home.cairn(&args).ended(0).stdout;
        for option in ["Example", "--config", "--state", "--json"] {
            assert!(help.contains(option), "{command:?} lacks {option}: {help}");
        }
    }
    for asked in [&["help"][..], &["help", "--help"], &["help", "-h"]] {
        assert!(home.cairn(asked).ended(0).stdout.contains("cairn demo"), "{asked:?}");
    }
}

#[test]
fn wrong_usage_and_configuration_end_with_2() {
    let home = home();
    home.cairn(&["bogus"]).ended(2);
    home.cairn(&["history"]).ended(2);
    home.cairn(&["history", "main", "--limit", "0"]).ended(2);
    home.cairn(&["memory", "list", "--kind", "nonsense"]).ended(2);
    home.cairn(&["memory", "list", "--scope", "nonsense"]).ended(2);
    explains(&home.cairn(&["context", "no such name"]).ended(2).stderr, &["A-Za-z0-9"]);
    explains(&home.cairn(&["chat", "--agent", "nobody"]).ended(2).stderr, &["nobody", "main"]);
    let bad = home.file("bad.toml", "[defaults]\ncontext_windw = 3\n");
    let bad = bad.to_str().unwrap();
    for args in [["status", "--config", bad], ["config", "check", bad]] {
        explains(&home.cairn(&args).ended(2).stderr, &["context_windw", "context_window"]);
    }
}

#[test]
fn what_is_not_there_ends_with_4() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    for args in [
        &["context", "nowhere"][..],
        &["history", "nowhere"],
        &["search", "nowhere", "hello"],
        &["compact", "nowhere"],
        &["new", "nowhere"],
        &["context", "other/local/main"],
        &["memory", "show", "m0000000000000000"],
        &["memory", "edit", "m0000000000000000", "text"],
        &["memory", "unite", "m0000000000000000", "m0000000000000001"],
        &["memory", "forget", "m0000000000000000"],
        &["history", "main", "--from", "1000"],
        &["history", "main", "--from", "2", "--to", "1"],
        &["memory", "add", "x", "--kind", "fact", "--scope", "agent", "--agent", "nobody"],
    ] {
        explains(&home.cairn(args).ended(4).stderr, &["no ", "hint: "]);
    }
    // A range without an end is told without one.
    let run = home.cairn(&["history", "main", "--from", "1000"]).ended(4);
    explains(&run.stderr, &["no entries from 1000 on in main/local/main: its entries go from 1 to 2"]);
}

#[test]
fn looking_around_makes_no_state() {
    let home = home();
    for (args, code) in [
        (&["status"][..], 1),
        (&["channels"], 0),
        (&["context", "main"], 4),
        (&["history", "main"], 4),
        (&["search", "main", "x"], 4),
        (&["compact", "main"], 4),
        (&["new", "main"], 4),
        (&["memory", "list"], 0),
        (&["memory", "search", "x"], 0),
        (&["memory", "show", "m0000000000000000"], 4),
        (&["memory", "edit", "m0000000000000000", "x"], 4),
        (&["memory", "unite", "m0000000000000000", "m0000000000000001"], 4),
        (&["memory", "forget", "m0000000000000000"], 4),
        (&["store", "verify"], 1),
        (&["store", "verify", "--quarantine"], 1),
        (&["store", "rebuild"], 1),
    ] {
        let run = home.cairn(args).ended(code);
        assert!(run.stderr.contains("there is no state in"), "{args:?}: {run:?}");
        assert!(!home.state().exists(), "{args:?} made a state folder");
    }
    assert_eq!(home.json(&["channels"]), serde_json::json!([]));
    let status = home.status();
    assert_eq!((&status["running"], &status["state"]), (&false.into(), &"stopped".into()));
    assert_eq!(status["agents"][0]["id"], "main");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_on_the_same_state_ends_with_3() {
    let home = home();
    let port = free_address().port();
    // The address that the first has for its figures is no reason of its own.
    let config = home.config(&format!("[admin]\nlisten = \"127.0.0.1:{port}\"\n"));
    let daemon = home.daemon(Some(&config)).await;
    let run = home.cairn(&["run"]).ended(3);
    explains(&run.stderr, &["in use", "process", "hint: "]);
    assert!(daemon.stop().await.unwrap().success());
}

#[test]
fn a_start_waits_for_a_command_that_has_the_state_open() {
    let home = home();
    home.cairn_with(&["chat"], b"one\n").ended(0);
    let lock = File::options().read(true).write(true).open(home.state().join("lock")).unwrap();
    lock.lock().unwrap();
    let mut run = home.command(&["run"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut until = |words: &str| log.any(|line| line.unwrap().contains(words));
    assert!(until("waiting until it ends"));
    lock.unlock().unwrap();
    assert!(until("ready"));
    let told = Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    assert!(told.success() && run.wait().unwrap().success());
}

#[test]
fn a_damaged_journal_ends_with_5_and_verify_names_the_place() {
    let home = home();
    home.cairn_with(&["chat"], b"one\ntwo\nthree\n").ended(0);
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
    let journal = home.state().join("journal");
    let segment = std::fs::read_dir(&journal).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("one", "0ne", 1)).unwrap();
    std::fs::remove_dir_all(home.state().join("views")).unwrap();

    let run = home.cairn(&["channels"]).ended(5);
    explains(&run.stderr, &["line ", "cairn store verify"]);
    let run = home.cairn(&["store", "verify", "--json"]).ended(5);
    assert_eq!(run.json()["ok"], false);
    assert!(!run.json()["problems"].as_array().unwrap().is_empty());
    home.cairn(&["store", "verify", "--quarantine"]);
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
    home.cairn(&["channels"]).ended(0);
}

#[test]
fn an_unusable_state_folder_is_a_clear_error() {
    let home = home();
    let file = home.file("file", "");
    let run = home.cairn(&["status", "--state", file.to_str().unwrap()]).ended(1);
    explains(&run.stderr, &["file", "hint: "]);

    let long = home.state().join("x".repeat(120));
    let run = home.cairn_with(&["chat", "--state", long.to_str().unwrap()], b"hi\n").ended(2);
    explains(&run.stderr, &["107", "hint: name a state folder with a shorter path by --state"]);
    assert!(!run.stderr.contains("config check"), "{run:?}");
}

#[test]
fn who_may_not_read_the_state_is_told_whose_it_is() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    for args in [&["channels"][..], &["history", "main"], &["store", "verify"], &["chat"]] {
        let Some(run) = as_a_stranger(&home, args) else { return };
        let words =
            ["you may not read the state; it belongs to the user root (", "sudo -u root cairn", "group"];
        explains(&run.ended(1).stderr, &words);
    }
}

#[test]
fn a_wrong_value_of_an_option_is_told_by_the_option() {
    let home = home();
    let add = ["memory", "add", "Ada drinks tea.", "--kind", "fact", "--scope", "agent"];
    let with = |more: &[&'static str]| [&add[..], more].concat();
    for (args, words) in [
        (with(&["--importance", "3"]), &["--importance", "from 0 to 1"][..]),
        (with(&["--importance", "-0.3"]), &["--importance", "from 0 to 1"]),
        (vec!["memory", "add", " ", "--kind", "fact", "--scope", "agent"], &["TEXT", "must not be empty"]),
        (vec!["memory", "edit", "m0000000000000000", ""], &["TEXT"]),
        (vec!["memory", "list", "--limit", "-1"], &["--limit", "from 1 to 10000"]),
        (vec!["memory", "list", "--kind", "fats"], &["--kind", "fact", "todo"]),
        (vec!["history", "main", "--limit", "10001"], &["--limit", "from 1 to 10000"]),
        (vec!["history", "main", "--from", "-1"], &["--from", "of at least 0"]),
        (vec!["artifact", "show", "main", "a1", "--from", "-1"], &["--from", "of at least 1"]),
        (vec!["tools", "log", "--limit", "-1"], &["--limit", "from 1 to 10000"]),
        (vec!["chat", "--user", ""], &["--user"]),
        (vec!["chat", "--user", " "], &["--user", "such as ann"]),
    ] {
        let run = home.cairn(&args).ended(2);
        explains(&run.stderr, words);
        assert!(!run.stderr.contains(".md"), "{run:?}");
    }
}

#[test]
fn the_hint_of_a_wrong_config_file_leads_to_its_reference() {
    let home = home();
    for (text, hint) in [
        ("[commands]\nrestart = \"everyone\"\n", "known keys here: operators"),
        ("colour = true\n", "known keys here: watch"),
        ("[commands]\nsotp = \"everyone\"\n", "did you mean `stop`?"),
    ] {
        let file = home.file("wrong.toml", text);
        let run = home.cairn(&["config", "check", file.to_str().unwrap()]).ended(2);
        explains(&run.stderr, &[hint, " explains every key"]);
        assert!(!run.stderr.contains("`cairn config check` checks"), "{run:?}");
    }
}

#[test]
fn secrets_of_the_state_are_for_its_owner_alone() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    let mode = std::fs::metadata(home.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    assert!(!home.state().join("cairn.sock").exists(), "the socket is removed at the end");
}
