//! Root's commands on the state of another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use crate::home;

/// The user and the group `nobody`, wherever there are any.
const NOBODY: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// All below a folder, itself included.
fn all(path: &Path, each: &mut impl FnMut(&Path)) {
    each(path);
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| all(&entry.unwrap().path(), each));
    }
}

fn give(path: &Path, user: u32) {
    all(path, &mut |path| lchown(path, Some(user), Some(user)).unwrap());
}

/// Everything in the state is of its owner.
#[track_caller]
fn all_is_of(user: u32, path: &Path) {
    all(path, &mut |path| assert_eq!(fs::symlink_metadata(path).unwrap().uid(), user, "{}", path.display()));
}

#[test]
fn root_opens_no_state_of_another_and_is_told_how_to_do_it() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    let backup = home.path("backup");
    home.cairn(&["store", "backup", backup.to_str().unwrap()]).ended(0);
    if fs::metadata(home.path("")).unwrap().uid() != 0 {
        // Only root can give files away, and to everybody else the state of another is closed.
        return;
    }
    mode(&home.path(""), 0o755);
    mode(&home.state(), 0o700);
    give(&home.state(), NOBODY);
    for args in [
        &["history", "main"][..],
        &["memory", "add", "Tea is good.", "--kind", "fact", "--scope", "agent"],
        &["chat"],
        &["store", "verify"],
        &["store", "verify", "--quarantine"],
        &["store", "rebuild"],
        &["store", "backup", "monday"],
        &["forget-user", "local/ann", "--yes"],
        &["store", "restore", "backup", "--force"],
    ] {
        let words =
            ["belongs to the user ", "read files that root", "hint: run the command as that user: sudo -u "];
        home.cairn(args).told(1, &words);
    }
    all_is_of(NOBODY, &home.state());

    let as_owner = |args: &[&str]| home.command(args).uid(NOBODY).gid(NOBODY).output();
    match as_owner(&["store", "verify", "--json"]) {
        // The binary lies in a folder that is closed to others.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
        verified => {
            assert!(verified.unwrap().status.success());
            assert!(as_owner(&["store", "rebuild"]).unwrap().status.success());
            assert!(as_owner(&["history", "main"]).unwrap().status.success());
            all_is_of(NOBODY, &home.state());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn root_asks_the_daemon_of_another() {
    let home = home();
    let daemon = home.daemon(None).await;
    daemon.client().say("main", "hello").await.unwrap();
    if lchown(home.state(), Some(NOBODY), None).is_ok() {
        let history = home.json(&["history", "main"]);
        assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
        lchown(home.state(), Some(0), None).unwrap();
    }
    assert!(daemon.stop().await.unwrap().success());
}
