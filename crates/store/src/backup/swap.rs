//! One state in the place of another: prepared, decided by one rename, then carried to its end, however often it is
//! cut short.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;
use jiff::Timestamp;

use crate::disk::{io_error, make_dir, remove_dir, replace, sync_dir};
use crate::format;

const STAGE: &str = "restore.new";

/// The same, when it is whole: from then on it is the state.
const READY: &str = "restore.ready";

/// The file in it that names the folder for what was there before.
pub(super) const ASIDE: &str = "aside";

/// Folders for what was there before begin so.
const BEFORE: &str = "before-restore-";

/// What a restored state has, each of them always.
const NEW: [&str; 3] = ["journal", "artifacts", format::FILE];

const DERIVED: [&str; 5] = ["views", "index", "quarantine", "views.damaged", "index.damaged"];

/// Whether that entry of a state folder is part of the state; sockets, the lock and what others put there are not.
fn belongs(name: &str) -> bool {
    NEW.contains(&name) || DERIVED.contains(&name) || name.starts_with(format::BEFORE)
}

pub(super) fn stage(state: &Path) -> PathBuf {
    state.join(STAGE)
}

/// Whether a state was begun in that folder.
pub fn is_begun(state: &Path) -> bool {
    state.join("journal").exists() || is_pending(state)
}

/// Whether a restore is decided and not yet carried to its end.
pub(crate) fn is_pending(state: &Path) -> bool {
    state.join(READY).exists()
}

/// A name that is free, for what is there now.
pub(super) fn aside_name(state: &Path, at: Timestamp) -> String {
    let name = format!("{BEFORE}{}", at.strftime("%Y%m%dT%H%M%SZ"));
    let free = |name: &String| !state.join(name).exists();
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or(name)
}

/// Decides: from here on the state is the new one.
///
/// # Errors
/// It cannot be renamed; then the state is the old one.
pub(super) fn decide(state: &Path) -> Result<(), StoreError> {
    let ready = state.join(READY);
    replace(&ready, &stage(state)).map_err(io_error("rename", &ready))
}

/// Carries a restore that is decided to its end. Returns where the state before it is, when there was one. Whoever calls
/// it holds the state's lock.
///
/// # Errors
/// Something cannot be moved; the next call goes on.
pub(crate) fn finish(state: &Path) -> Result<Option<PathBuf>, StoreError> {
    carry(state, &mut |from, to| fs::rename(from, to))
}

/// How something is moved; another way in tests.
type Move<'a> = &'a mut dyn FnMut(&Path, &Path) -> io::Result<()>;

fn carry(state: &Path, rename: Move<'_>) -> Result<Option<PathBuf>, StoreError> {
    let ready = state.join(READY);
    let name = match fs::read_to_string(ready.join(ASIDE)) {
        Ok(name) => name,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The name is the last to go: nothing, or an empty folder, is left.
            remove_dir(&ready)?;
            return Ok(None);
        }
        Err(error) => return Err(io_error("read", &ready)(error)),
    };
    let aside = state.join(name.trim());
    move_old(state, &ready, &aside, rename)?;
    for name in NEW {
        move_there(&ready.join(name), &state.join(name), rename)?;
    }
    let end = || {
        sync_dir(state)?;
        fs::remove_file(ready.join(ASIDE))?;
        fs::remove_dir(&ready)?;
        sync_dir(state)
    };
    end().map_err(io_error("remove", &ready))?;
    let aside = aside.exists().then_some(aside);
    let kept = aside.as_ref().map(|aside| aside.display().to_string());
    tracing::warn!(kept, "a backup was put in the place of the state; views and index are rebuilt");
    Ok(aside)
}

/// Moves what was there before out of the way. What is new is told from it by whether it still waits in `ready`.
fn move_old(state: &Path, ready: &Path, aside: &Path, rename: Move<'_>) -> Result<(), StoreError> {
    let fail = io_error("list", state);
    for entry in fs::read_dir(state).map_err(&fail)? {
        let name = entry.map_err(&fail)?.file_name();
        let Some(name) = name.to_str().filter(|name| belongs(name)) else { continue };
        let is_new = NEW.contains(&name) && !ready.join(name).exists();
        if !is_new {
            make_dir(aside)?;
            own_like(aside, state)?;
            move_there(&state.join(name), &aside.join(name), rename)?;
        }
    }
    if aside.exists() {
        sync_dir(aside).map_err(io_error("sync", aside))?;
    }
    sync_dir(state).map_err(io_error("sync", state))
}

/// What root makes in the state of another is that other's.
fn own_like(dir: &Path, state: &Path) -> Result<(), StoreError> {
    let owner = fs::metadata(state).map_err(io_error("read", state))?;
    if !rustix::process::geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    chown(dir, Some(owner.uid()), Some(owner.gid())).map_err(io_error("own", dir))
}

/// Moves something, unless it was moved before.
fn move_there(from: &Path, to: &Path, rename: Move<'_>) -> Result<(), StoreError> {
    match rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("move", from)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn put(dir: &Path, name: &str, words: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, words).unwrap();
    }

    fn files(dir: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(dir).unwrap() {
            let (path, name) = {
                let entry = entry.unwrap();
                (entry.path(), entry.file_name().into_string().unwrap())
            };
            if path.is_dir() {
                found.extend(
                    files(&path).into_iter().map(|(below, words)| (format!("{name}/{below}"), words)),
                );
            } else {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
        found
    }

    fn decided() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["journal/1", "journal/2", "artifacts/c/a1", "format", "views/db", "index/meta", "mine.txt"]
        {
            put(dir.path(), name, "old");
        }
        for name in ["journal/1", "format"] {
            put(&stage(dir.path()), name, "new");
        }
        fs::create_dir_all(stage(dir.path()).join("artifacts")).unwrap();
        put(&stage(dir.path()), ASIDE, "before-restore-x");
        decide(dir.path()).unwrap();
        dir
    }

    #[test]
    fn cut_short_after_any_move_it_comes_to_the_same_end() {
        let whole = decided();
        let moved = finish(whole.path()).unwrap();
        assert_eq!(moved, Some(whole.path().join("before-restore-x")));
        let after = files(whole.path());
        let has =
            |name: &str, words: &str| assert_eq!(after.get(name).map(String::as_str), Some(words), "{name}");
        has("journal/1", "new");
        has("format", "new");
        has("mine.txt", "old");
        for name in ["journal/1", "journal/2", "artifacts/c/a1", "format", "views/db", "index/meta"] {
            has(&format!("before-restore-x/{name}"), "old");
        }
        assert_eq!(after.len(), 9, "{after:?}");
        assert!(whole.path().join("artifacts").is_dir() && !is_pending(whole.path()));

        for n_moves in 0..9 {
            let cut = decided();
            let mut left = n_moves;
            let stopped = carry(cut.path(), &mut |from, to| {
                if left == 0 {
                    return Err(io::Error::other("killed"));
                }
                left -= 1;
                fs::rename(from, to)
            });
            assert_eq!(stopped.is_err(), n_moves < 8, "{n_moves} moves");
            assert!(is_begun(cut.path()), "what is there is never taken for nothing");
            finish(cut.path()).unwrap();
            assert_eq!(files(cut.path()), after, "cut short after {n_moves} moves");
        }
    }
}
