//! `cairn history --export`: the whole of a conversation as files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cairn_testkit::home::Home;
use serde_json::Value;

use crate::home;

/// Two days of talk, then a new generation with a third.
fn talk(home: &Home) {
    let line = |at: &str, text: &str| format!("{{\"user\":\"ann\",\"text\":\"{text}\",\"at\":\"{at}\"}}\n");
    let before = line("2026-01-03T10:00:00Z", "first") + &line("2026-01-04T23:59:59Z", "second");
    let file = home.file("before.jsonl", before);
    home.cairn(&["import", "--answer", file.to_str().unwrap(), "--channel", "main"]).ended(0);
    home.cairn(&["new", "main"]).ended(0);
    let file = home.file("after.jsonl", line("2026-02-01T00:00:00Z", "third"));
    home.cairn(&["import", "--answer", file.to_str().unwrap(), "--channel", "main"]).ended(0);
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_written_day_by_day_with_and_without_a_daemon() {
    let home = home();
    talk(&home);
    let dir = home.state().join("../out");
    let out = dir.to_str().unwrap();
    let wrote = home.cairn(&["history", "main", "--export", out]).ended(0).stdout;
    let days = ["2026-01-03", "2026-01-04", "2026-02-01"];
    for day in days {
        assert!(wrote.contains(&format!("dialog/{day}.jsonl  2 entries")), "{wrote}");
    }
    assert!(wrote.contains("6 entries of main/local/main in 3 files"), "{wrote}");
    let all: Vec<Value> =
        days.iter().flat_map(|day| lines(&dir.join(format!("dialog/{day}.jsonl")))).collect();
    let history = home.json(&["history", "main", "--limit", "10000"]);
    assert_eq!(Value::Array(all), history, "an export is not what the history is");

    let daemon = home.daemon(None).await;
    let (status, _) = daemon.client().say("main", "fourth").await.unwrap();
    assert_eq!(status, 200);
    let wrote = home.json(&["history", "main", "--export", out]);
    assert_eq!((&wrote["channel"], &wrote["entries"]), (&"main/local/main".into(), &8.into()), "{wrote}");
    let files = wrote["files"].as_array().unwrap();
    assert_eq!(files.len(), 4);
    let last = lines(&dir.join(files[3]["file"].as_str().unwrap()));
    assert_eq!(last[0]["parts"][0]["text"], "fourth");
    let left: Vec<_> = std::fs::read_dir(dir.join("dialog")).unwrap().collect();
    assert_eq!(left.len(), 4, "something is left over: {left:?}");
    daemon.stop().await.unwrap();
}

#[test]
fn exports_backups_and_what_is_set_aside_are_for_their_owner_alone_whatever_the_umask() {
    fn check(path: &Path) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path()));
        }
    }
    let home = home();
    talk(&home);
    let (export, backup) = (home.path("export"), home.path("backup"));
    let open = |args: &[&str]| {
        let mut open = Command::new("/bin/sh");
        let cairn = home.command(args);
        open.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(cairn.get_program()).args(args);
        open.env_clear().env("CAIRN_STATE", home.state()).env("HOME", home.path("."));
        assert!(open.stdin(Stdio::null()).status().unwrap().success(), "{args:?}");
    };
    // What an export that was cut short has left is no way in.
    std::fs::create_dir_all(export.join("dialog")).unwrap();
    let cut_short = export.join("export.new");
    std::fs::write(&cut_short, "").unwrap();
    std::fs::set_permissions(&cut_short, Permissions::from_mode(0o666)).unwrap();
    [&export, &export.join("dialog")]
        .iter()
        .for_each(|dir| std::fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap());
    open(&["history", "main", "--export", export.to_str().unwrap()]);
    open(&["history", "main", "--export", home.path("deep/new").to_str().unwrap()]);
    open(&["store", "backup", backup.to_str().unwrap()]);
    // Damage in the journal, and a torn end: both are set aside.
    let segment = home.state().join("journal/00000000000000000001.jsonl");
    let spoiled = std::fs::read_to_string(&segment).unwrap().replacen("\"n\":3,", "\"n\":3;", 1);
    std::fs::write(&segment, spoiled + "{\"crc\"").unwrap();
    open(&["store", "verify", "--quarantine"]);
    let quarantine = home.state().join("quarantine");
    assert_eq!(std::fs::read_dir(&quarantine).unwrap().count(), 2);
    [export, home.path("deep"), backup, quarantine].iter().for_each(|path| check(path));
}

#[test]
fn nothing_of_others_is_written_over() {
    let home = home();
    talk(&home);
    home.cairn_with(&["chat", "--channel", "garden"], b"hello\n").ended(0);
    let out = home.state().join("../out");
    let export = |channel: &str, code: i32| {
        home.cairn(&["history", channel, "--export", out.to_str().unwrap()]).ended(code)
    };
    export("main", 0);
    let day = out.join("dialog/2026-01-03.jsonl");
    let before = std::fs::read(&day).unwrap();
    assert!(export("garden", 1).stderr.contains("the export of main/local/main"));
    assert_eq!(std::fs::read(&day).unwrap(), before);
    export("nowhere", 4);
    std::fs::remove_file(out.join("export.json")).unwrap();
    assert!(export("main", 1).stderr.contains("unknown origin"));
    let file = home.file("file", "");
    let run = home.cairn(&["history", "main", "--export", file.to_str().unwrap()]).ended(1);
    assert!(run.stderr.contains("cannot use"), "{run:?}");
    home.cairn(&["history", "main", "--export", "x", "--from", "2"]).ended(2);
}
