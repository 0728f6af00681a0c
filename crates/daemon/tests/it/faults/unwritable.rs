//! Folders that cannot be written, and things in the place of others.

use cairn_testkit::daemon::Client;
use cairn_testkit::home::Home;

use crate::faults::home::{SMALL, lived_in};
use crate::faults::room::{Room, without_room};
use crate::{CAIRN, home};

/// A command in the room, on that home's state.
fn cairn(home: &Home, args: &str) -> String {
    format!("CAIRN_STATE={} HOME={} {CAIRN} {args}", home.state().display(), home.path("").display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_state_folder_is_read_and_what_changes_it_is_a_clear_error() {
    let Some(mut room) = Room::open() else { return without_room() };
    let home = home();
    lived_in(&home).await;
    let state = home.state().display().to_string();
    room.must(&format!("mount --bind {state} {state} && mount -o remount,ro,bind {state}"));
    let tmp = home.path("tmp");
    std::fs::create_dir(&tmp).unwrap();
    for (args, words) in
        [("history main", "Number 29"), ("search Number", "Number"), ("store verify", "\"ok\"")]
    {
        let command = format!("TMPDIR={} {}", tmp.display(), cairn(&home, &format!("{args} --json")));
        assert!(room.must(&command).contains(words), "{args}");
    }
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "nothing is left");
    for args in ["run", "store verify --quarantine", "store rebuild", "store restore /nowhere --force"] {
        let (code, said) = room.run(&cairn(&home, args)).unwrap();
        assert_eq!(code, 1, "{args}: {said}");
        for words in ["error: ", "Read-only file system", &state, "hint: "] {
            assert!(said.contains(words), "{args}: no `{words}` in {said}");
        }
        assert!(!said.contains("panicked"), "{args}: {said}");
    }
    room.must(&format!("umount {state}"));
    assert!(room.must(&cairn(&home, "history main --json")).contains("Number 29"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_folder_that_cannot_be_written_is_a_clear_error() {
    let Some(mut room) = Room::open() else { return without_room() };
    let home = home();
    lived_in(&home).await;
    let journal = home.state().join("journal").display().to_string();
    room.must(&format!("mount --bind {journal} {journal} && mount -o remount,ro,bind {journal}"));
    let (code, said) = room.run(&cairn(&home, "run")).unwrap();
    assert_eq!(code, 1, "{said}");
    for words in ["error: ", "Read-only file system", &journal, "hint: "] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    // Reading needs no room in the journal.
    assert!(room.must(&cairn(&home, "history main --json")).contains("Number 29"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_may_not_write_where_a_backup_shall_go_says_what_to_do() {
    let Some(mut room) = Room::open() else { return without_room() };
    let home = home();
    lived_in(&home).await;
    let srv = home.path("srv");
    std::fs::create_dir_all(&srv).unwrap();
    let (shown, log) = (srv.display().to_string(), home.path("log").display().to_string());
    // As under ProtectSystem=strict: the daemon sees that folder read-only.
    room.must(&format!("mount --bind {shown} {shown} && mount -o remount,ro,bind {shown}"));
    room.must(&format!("{} >{log} 2>&1 </dev/null &", cairn(&home, "run")));
    let client = Client::new(&home.state().join("cairn.sock"));
    let ready = async {
        while client.get("/v1/health").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(cairn_testkit::daemon::PATIENCE, ready).await.unwrap();
    let told = home.cairn(&["store", "backup", &format!("{shown}/monday")]);
    told.told(1, &["cannot write to", "Read-only file system", "ReadWritePaths="]);
    assert_eq!(std::fs::read_dir(&srv).unwrap().count(), 0);
    assert!(client.say("main", "are you there?").await.unwrap().0.is_success());
}

#[test]
fn what_is_in_the_place_of_something_else_is_told() {
    let home = home();
    home.file("file", "");
    std::fs::create_dir_all(home.path("config.d")).unwrap();
    let config = home.path("config.d").display().to_string();
    for args in
        [&["run", "--config", &config][..], &["status", "--config", &config], &["config", "check", &config]]
    {
        home.cairn(args).told(2, &["config.d", "irectory"]);
    }
    let file = home.path("file").display().to_string();
    home.cairn(&["run", "--state", &file]).told(1, &[&file]);
    home.cairn(&["store", "restore", "nowhere", "--state", &file]).told(1, &[&file]);
    // A file where the journal's folder should be.
    std::fs::create_dir_all(home.state()).unwrap();
    std::fs::write(home.state().join("journal"), "").unwrap();
    home.cairn(&["run"]).told(1, &["journal"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_becomes_a_folder_leaves_the_daemon_as_it_is_and_stops_the_next_start() {
    let home = home();
    let config = home.file("config.toml", SMALL);
    let daemon = home.daemon(Some(&config)).await;
    std::fs::remove_file(&config).unwrap();
    std::fs::create_dir(&config).unwrap();
    assert!(daemon.client().say("main", "are you there?").await.unwrap().0.is_success());
    assert!(daemon.stop().await.unwrap().success());
    home.cairn(&["run", "--config", &config.display().to_string()]).told(2, &["config.toml", "irectory"]);
}
