//! Backups and restores by the command line.

use std::time::Duration;

use cairn_testkit::daemon::PATIENCE;
use serde_json::Value;

use crate::faults::home::{files, lived_in, settled, shown};
use crate::home;

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_daemon_restores_to_what_it_showed() {
    let home = home();
    lived_in(&home).await;
    let config = home.path("config.toml");
    let daemon = home.daemon(Some(&config)).await;
    settled(&daemon.client()).await;
    let before = shown(&daemon.client()).await.unwrap();
    let report = home.json(&["store", "backup", "monday"]);
    assert_eq!(report["dir"], home.path("monday").display().to_string(), "it is made absolute");
    assert_eq!(report["segments"], 3);
    assert_eq!(report["records"], report["last_record"]);
    home.cairn(&["store", "backup", "monday"]).told(1, &["not empty"]);
    home.cairn(&["store", "backup", "state/inside"]).told(1, &["within the state folder"]);
    daemon.client().say("main", "said after the backup").await.unwrap();
    home.cairn(&["store", "restore", "monday", "--force"]).told(3, &["in use"]);
    assert!(daemon.stop().await.unwrap().success());

    home.cairn(&["store", "restore", "monday"]).told(1, &["there is a state", "--force"]);
    let report = home.json(&["store", "restore", "monday", "--force"]);
    let aside = report["moved_to"].as_str().unwrap();
    assert!(files(std::path::Path::new(aside)).len() > 3, "{report}");
    let daemon = home.daemon(Some(&config)).await;
    assert_eq!(shown(&daemon.client()).await.unwrap(), before);
    assert_eq!(daemon.client().get("/v1/store/verify").await.unwrap()["ok"], true);
    assert!(daemon.stop().await.unwrap().success());

    // Without a daemon, and into a folder that is not there.
    assert!(home.cairn(&["store", "backup", "tuesday"]).ended(0).stdout.starts_with("backed up to "));
    let elsewhere = home.path("elsewhere").display().to_string();
    let told = home.cairn(&["store", "restore", "tuesday", "--state", &elsewhere]).ended(0);
    assert!(told.stdout.starts_with("restored "), "{told:?}");
    let history = home.json(&["history", "main", "--state", &elsewhere, "--limit", "1000"]);
    assert_eq!(history, before["/v1/channels/main/history?limit=10000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_ends_with_5_and_changes_nothing() {
    let home = home();
    lived_in(&home).await;
    home.cairn(&["store", "backup", "monday"]).ended(0);
    let segment = files(&home.path("monday/journal")).remove(1);
    let text = std::fs::read_to_string(&segment).unwrap().replacen("river", "rivet", 1);
    std::fs::write(&segment, text).unwrap();
    let before = files(&home.state());
    home.cairn(&["store", "restore", "monday", "--force"]).told(5, &["the backup is damaged", "line "]);
    home.cairn(&["store", "restore", "monday", "--state", "new"]).told(5, &["the backup is damaged"]);
    assert!(!home.path("new").exists());
    assert_eq!(files(&home.state()), before);
    home.cairn(&["store", "restore", "nowhere", "--force"]).told(1, &["no whole backup"]);
    home.cairn(&["store", "backup", "x", "--state", "nowhere"]).told(1, &["no state in"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_during_backups_leave_a_whole_one_or_none_and_the_state_as_it_was() {
    let home = home();
    lived_in(&home).await;
    let config = home.path("config.toml");
    let (mut whole, mut broken_off, mut pause) = (0, 0, Duration::ZERO);
    for n in 0..20 {
        if n >= 10 && whole > 0 && broken_off > 0 {
            break;
        }
        let daemon = home.daemon(Some(&config)).await;
        let before = shown(&daemon.client()).await.unwrap();
        let dir = home.path(&format!("backup-{n}"));
        let call = serde_json::json!({ "dir": dir });
        let client = daemon.client();
        let made = tokio::spawn(async move { client.ask("POST", "/v1/store/backup", &call).await });
        // The first kill comes at once. Each pause is twice as long as the last one, until a backup is whole before the kill.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).max(Duration::from_micros(100));
        daemon.kill().await.unwrap();
        let answered = tokio::time::timeout(PATIENCE, made).await.unwrap().unwrap();
        if dir.exists() {
            whole += 1;
            let state = home.path(&format!("restored-{n}")).display().to_string();
            home.cairn(&["store", "restore", &dir.display().to_string(), "--state", &state]).ended(0);
            let history = home.json(&["history", "main", "--state", &state, "--limit", "1000"]);
            assert_eq!(history, before["/v1/channels/main/history?limit=10000"]);
        } else {
            broken_off += 1;
            assert!(!answered.is_ok_and(|(status, _)| status.is_success()), "it was said to be made");
            home.cairn(&["store", "backup", &dir.display().to_string()]).ended(0);
        }
        let verified = home.json(&["store", "verify"]);
        assert_eq!(verified["ok"], Value::Bool(true), "{verified}");
    }
    assert!(whole > 0 && broken_off > 0, "{whole} whole, {broken_off} broken off");
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_during_restores_leave_the_old_state_or_the_new_one() {
    let home = home();
    lived_in(&home).await;
    home.cairn(&["store", "backup", "old"]).ended(0);
    let history = || home.json(&["history", "main", "--limit", "1000"]);
    let old = history();
    let daemon = home.daemon(None).await;
    daemon.client().say("main", "said after the backup").await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
    home.cairn(&["store", "backup", "new"]).ended(0);
    let new = history();
    assert_ne!(old, new);
    for n in 0..20_u64 {
        let backup = ["old", "new"][(n % 2) as usize];
        let before = history();
        let mut child = home.command(&["store", "restore", backup, "--force"]).spawn().unwrap();
        tokio::time::sleep(Duration::from_micros(5_000 + n * 3_000)).await;
        // It may have ended by itself.
        let _ended = child.kill();
        child.wait().unwrap();
        let after = history();
        let wanted = if backup == "old" { &old } else { &new };
        assert!(after == before || after == *wanted, "a mix after kill {n}");
        assert_eq!(home.json(&["store", "verify"])["ok"], true);
    }
}
