//! Root's commands on the state of another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;
use std::process::Command;

use crate::e2e::home::{self, Home};

/// The user and the group `nobody`, wherever there are any.
const NOBODY: u32 = 65_534;

/// What `error:` says where the owner cannot get to their state, and no view of the file system can be made.
const BARRED: &[&str] = &["user (65534)", "can be entered by root alone"];

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
    all(&fs::canonicalize(path).unwrap(), &mut |path| {
        assert_eq!(fs::symlink_metadata(path).unwrap().uid(), user, "{}", path.display());
    });
}

fn is_root(home: &Home) -> bool {
    fs::metadata(home.path("")).unwrap().uid() == 0
}

/// A home in which something was said, with a configuration for its owner's eyes alone.
fn spoken_in() -> Home {
    let home = home::new();
    let config = home.config("[defaults]\ncontext_window = 40000\n");
    mode(&config, 0o600);
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    mode(&home.state(), 0o700);
    home
}

/// Commands that read, write and make things anew.
fn works(home: &Home) {
    let owner = fs::metadata(home.state()).unwrap().uid();
    assert_eq!(home.cairn(&["store", "verify", "--json"]).ended(0).json()["ok"], true);
    home.cairn(&["store", "rebuild"]).ended(0);
    home.cairn(&["memory", "add", "Tea is good.", "--kind", "fact", "--scope", "agent"]).ended(0);
    home.cairn_with(&["chat"], b"hello again\n").ended(0);
    assert_eq!(home.cairn(&["history", "main", "--json"]).ended(0).json().as_array().unwrap().len(), 4);
    let context = home.cairn(&["context", "main", "--json"]).ended(0).json();
    assert_eq!(context["window_tokens"], 40_000, "the configuration is read as whoever gives the command");
    fs::remove_dir_all(home.state().join("index")).unwrap();
    assert_eq!(home.cairn(&["search", "main", "again", "--json"]).ended(0).json()[0]["text"], "hello again");
    all_is_of(owner, &home.state());
}

#[test]
fn a_state_of_ones_own_is_worked_on_as_oneself() {
    let home = spoken_in();
    works(&home);
    all_is_of(fs::metadata(home.path("")).unwrap().uid(), &home.state());
}

#[test]
fn root_works_on_the_state_of_another_as_its_owner() {
    let home = spoken_in();
    if !is_root(&home) {
        // Only root can: for everybody else the state of another is closed.
        let told = home.cairn(&["store", "verify", "--state", "/proc/1/root/state"]);
        assert!(told.code == 1 && told.stderr.contains("ermission denied"), "{told:?}");
        return;
    }
    give(&home.state(), NOBODY);
    mode(&home.path(""), 0o755);
    works(&home);
    all_is_of(NOBODY, &home.state());

    // A backup is written by the owner, too.
    home.cairn(&["store", "backup", "monday"]).told(1, &["as user 65534", "cannot write to"]);
    fs::create_dir(home.path("backups")).unwrap();
    give(&home.path("backups"), NOBODY);
    home.cairn(&["store", "backup", "backups/monday"]).ended(0);
    all_is_of(NOBODY, &home.path("backups"));
}

#[test]
fn a_state_in_a_folder_that_root_alone_may_enter_is_reached_as_its_owner() {
    let home = spoken_in();
    mode(&home.path(""), 0o700);
    if !is_root(&home) {
        works(&home);
        return;
    }
    // As systemd keeps the states of dynamic users: a link to a folder in one that is closed.
    let kept = home.path("private/cairn");
    fs::create_dir_all(home.path("private")).unwrap();
    fs::rename(home.state(), &kept).unwrap();
    std::os::unix::fs::symlink("private/cairn", home.state()).unwrap();
    give(&kept, NOBODY);
    let may_mount =
        Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|done| done.status.success());
    if may_mount {
        works(&home);
        assert!(home.path("config.toml").exists(), "only the command sees other mounts");
    } else {
        home.cairn(&["store", "verify"]).told(1, BARRED);
    }
    all_is_of(NOBODY, &kept);
}
