//! Hints of the store, each followed: what an error says to do next gets the user on.

use std::path::Path;

use cairn_testkit::disk::{Calls, Disk, Fault};
use cairn_testkit::home::Run;
use serde_json::json;

use crate::faults::home::{copy, lived_in};
use crate::home;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_error_says_to_remove_is_all_that_was_in_the_way() {
    let marker =
        |format: u32| json!({ "format": format, "written_by": env!("CARGO_PKG_VERSION") }).to_string();
    let garbled = "{\"form".to_owned();
    for (name, text) in [
        ("format", garbled.clone()),
        ("format", marker(0)),
        ("format", marker(6)),
        ("erasure.json", garbled.clone()),
    ] {
        let home = home();
        lived_in(&home).await;
        std::fs::write(home.state().join(name), text).unwrap();
        home.cairn(&["run"]).told(1, &[name, "remove the file"]);
        std::fs::remove_file(home.state().join(name)).unwrap();
        let daemon = home.daemon(None).await;
        assert!(daemon.client().say("main", "and now?").await.unwrap().0.is_success(), "{name}");
        if name == "erasure.json" {
            home.cairn(&["forget-user", "local/anna", "--yes"]).ended(0);
        }
        assert!(daemon.stop().await.unwrap().success());
        assert_eq!(home.json(&["store", "verify"])["ok"], true, "{name}");
    }
}

#[test]
fn an_artifact_that_is_gone_is_gone_on_without() {
    let home = home();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures/format-2"), &home.state());
    std::fs::remove_file(home.state().join("artifacts/main%2Flocal%2Fmain/a1")).unwrap();
    let verified = home.cairn(&["store", "verify", "--json"]).ended(5).json();
    let problem = verified["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("artifact a1") && problem.contains("`cairn store verify --quarantine`"),
        "{problem}"
    );
    home.cairn(&["store", "verify", "--quarantine"]).ended(0);
    assert_eq!(home.json(&["store", "verify"])["problems"], json!([]));
    let hint = "it was given up as lost; a backup may have it";
    home.cairn(&["artifact", "show", "main", "a1"]).told(4, &["a1 are lost", "call the tool again", hint]);
    let listed = home.cairn(&["artifact", "list", "main"]).ended(0).stdout;
    let states: Vec<_> =
        listed.lines().map(|row| row.split("  ").last().unwrap_or_default().trim()).collect();
    assert_eq!(states, ["state", "lost", "expired 2026-01-01"], "{listed}");
    assert_eq!(home.json(&["artifact", "list", "main"])[0]["lost"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_and_a_restore_that_are_refused_go_on_as_their_hints_say() {
    let home = home();
    lived_in(&home).await;
    let path = |name: &str| home.path(name).display().to_string();
    // A daemon makes the first, and each error comes with its own exit code and hint over the socket, too.
    for with_daemon in [true, false] {
        let daemon = if with_daemon { Some(home.daemon(None).await) } else { None };
        let name = |name: &str| path(&format!("{name}-{with_daemon}"));
        let made = home.cairn(&["store", "backup", &format!("{}/monday", name("new"))]);
        made.told(1, &["does not exist", &format!("mkdir -p {}", name("new"))]);
        std::fs::create_dir_all(name("new")).unwrap();
        let made = home.cairn(&["store", "backup", &format!("{}/monday", name("new"))]).ended(0);
        assert_eq!(made.stderr, "", "no bar where no terminal is");
        home.cairn(&["store", "backup", &format!("{}/monday", name("new"))]).told(1, &["does not exist yet"]);
        home.cairn(&["store", "backup", &format!("{}/tuesday", name("new"))]).ended(0);
        std::fs::create_dir_all(format!("{}.partial/mine", name("way"))).unwrap();
        home.cairn(&["store", "backup", &name("way")]).told(1, &["is in the way", "move it away"]);
        std::fs::rename(format!("{}.partial", name("way")), name("mine")).unwrap();
        home.cairn(&["store", "backup", &name("way")]).ended(0);
        let inside = home.state().join("backup").display().to_string();
        home.cairn(&["store", "backup", &inside]).told(1, &["within the state folder", "elsewhere"]);
        if let Some(daemon) = daemon {
            home.cairn(&["store", "rebuild"]).told(3, &["in use", "stop it"]);
            assert!(daemon.stop().await.unwrap().success());
            home.cairn(&["store", "rebuild"]).ended(0);
        }
    }
    let backup = path("new-true/monday");
    home.cairn(&["store", "restore", &backup]).told(1, &["there is a state in", "--force"]);
    // A state that a later version has written is told to be replaced by a backup from before it.
    std::fs::write(home.state().join("format"), json!({ "format": 9, "written_by": "9.0" }).to_string())
        .unwrap();
    home.cairn(&["run"]).told(1, &["written by cairn 9.0", "restore an older backup"]);
    home.cairn(&["store", "restore", &backup, "--force"]).ended(0);
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_check_is_asked_of_a_daemon_or_made_without_one() {
    let home = home();
    lived_in(&home).await;
    let last = home.json(&["store", "verify"])["journal"]["last"].as_u64().unwrap();
    let daemon = home.daemon(None).await;
    assert!(daemon.client().say("main", "and now?").await.unwrap().0.is_success());
    let quick = home.json(&["store", "verify", "--quick"]);
    assert_eq!((&quick["ok"], &quick["since"]), (&json!(true), &json!(last)));
    assert!(daemon.stop().await.unwrap().success());
    let told = home.cairn(&["store", "verify", "--quick"]).ended(0);
    assert!(told.stdout.contains("were checked before"), "{told:?}");
    home.cairn(&["store", "verify", "--quick", "--quarantine"]).ended(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_gets_too_few_threads_says_what_to_allow_and_works_when_it_is_allowed() {
    let home = home();
    lived_in(&home).await;
    let disk = Disk::new(&home.path("")).unwrap();
    for from in [1, 2, 5] {
        disk.fail_at(&Calls { part: "thread", kinds: "p", bytes: "", from }, Fault::NoFiles).unwrap();
        let run = Run::from(home.command(&["run"]).envs(disk.vars()).output().unwrap());
        run.told(1, &["start the threads", "TasksMax=", "ulimit -v and -u"]);
    }
    disk.mend().unwrap();
    home.command(&["history", "main"]).envs(disk.vars()).output().map(Run::from).unwrap().ended(0);
}

#[test]
fn whoever_verifies_a_damaged_store_is_told_a_command_that_mends_it() {
    let home = home();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures/format-2"), &home.state());
    let segment = home.state().join("journal/00000000000000000001.jsonl");
    let spoiled = std::fs::read_to_string(&segment).unwrap().replacen("\"n\":3,", "\"n\":3;", 1);
    std::fs::write(&segment, spoiled).unwrap();
    let verified = home.cairn(&["store", "verify"]).ended(5);
    assert!(verified.stderr.contains("hint: `cairn store verify --quarantine`"), "{verified:?}");
    home.cairn(&["store", "verify", "--quarantine"]);
    home.cairn(&["store", "verify"]).ended(0);
}
