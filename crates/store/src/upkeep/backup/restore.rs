//! Putting a backup in the place of a state: checked, staged within the state folder, decided by one rename, then carried to its
//! end, however often it is cut short.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cairn_types::event::Record;
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::error::BackupError;
use super::manifest::{Item, Manifest};
use super::{RestoreReport, records_behind};
use crate::cluster::marker::Marker;
use crate::files::disk::{
    VERIFIED, blocking, io_error, make_dir, put, remove_dir, replace, sync_dir, sync_folders,
};
use crate::files::format;
use crate::files::lock::StateLock;
use crate::journal::segment;

/// A state that is being put together.
const STAGE: &str = "restore.new";

/// The folder of a restore when it is whole: from then on it is the state.
const READY: &str = "restore.ready";

/// The file in it that names the folder for what was there before.
const ASIDE: &str = "aside";

/// Folders for what was there before begin so.
const BEFORE: &str = "before-restore-";

/// What a restored state has, each of them always.
const NEW: [&str; 3] = ["journal", "artifacts", format::FILE];

const DERIVED: [&str; 7] =
    ["views", "index", "quarantine", "views.damaged", "index.damaged", "checked", VERIFIED];

/// Whether that entry of a state folder is part of the state; sockets, the lock and what others put there are not.
fn belongs(name: &str) -> bool {
    NEW.contains(&name) || DERIVED.contains(&name) || name.starts_with(format::BEFORE)
}

/// Puts the backup in `from` into the state folder `state`, which must be empty or not there; with `force` the state that
/// is there is moved to a folder within, which the report names. All of the backup is checked first. A kill at any moment
/// leaves the old state or the new one. Views and index are rebuilt at the next start. `at`: now.
///
/// # Errors
/// The state is in use or not empty; the backup is damaged, or of a newer version. Nothing was changed then.
pub async fn restore_dir(
    from: PathBuf,
    state: PathBuf,
    force: bool,
    at: Timestamp,
) -> Result<RestoreReport, BackupError> {
    blocking("a restore", move || restore(&from, &state, force, at)).await
}

fn restore(from: &Path, state: &Path, force: bool, at: Timestamp) -> Result<RestoreReport, BackupError> {
    // Who uses the state is told before the backup is read, which may take long.
    let is_new = !state.exists();
    let lock = if is_new { None } else { Some(StateLock::take(state)?) };
    if lock.is_some() {
        if Marker::read(state)?.is_some() {
            return Err(BackupError::refused(
                "state_is_copy",
                format!("the journal in {} is a copy of one in a database", state.display()),
                "restore into another folder (--state), and move that into an empty database with `cairn store move \
                 --to-database`",
            ));
        }
        finish(state)?;
        if !force && is_begun(state) {
            return Err(BackupError::refused(
                "state_exists",
                format!("there is a state in {}", state.display()),
                "name another one by --state, or have this one moved aside by --force",
            ));
        }
    }
    let manifest = Manifest::read(from)?;
    let records = check(from, &manifest)?;
    let _lock = match lock {
        Some(lock) => lock,
        None => {
            make_dir(state)?;
            StateLock::take(state)?
        }
    };
    let aside = aside_name(state, at);
    stage(from, &manifest, state, &aside)?;
    decide(state)?;
    let moved_to = finish(state)?;
    Ok(RestoreReport {
        dir: from.to_owned(),
        state: state.to_owned(),
        created_at: manifest.created_at,
        version: manifest.version,
        last_record: manifest.last_record,
        records,
        files: manifest.files.len() as u64,
        bytes: manifest.files.iter().map(|item| item.bytes).sum(),
        moved_to,
    })
}

/// Reads all of a backup. Returns its records.
fn check(from: &Path, manifest: &Manifest) -> Result<u64, BackupError> {
    let damaged =
        |path: &Path, message: String| BackupError::Damaged { path: path.display().to_string(), message };
    let told = |path: &Path, error| match error {
        StoreError::Damaged { line, message, .. } => damaged(path, format!("line {line}: {message}")),
        StoreError::Io { message, .. } => damaged(path, message),
        error => error.into(),
    };
    let journal = from.join("journal");
    let (mut last, mut records) = (0, 0);
    let segments = if journal.is_dir() { segment::list(&journal)? } else { Vec::new() };
    for first in segments {
        let path = segment::path(&journal, first);
        let file = segment::file_of(&path);
        if !manifest.files.iter().any(|item| from.join(&item.path) == file) {
            return Err(damaged(&file, "the manifest does not name it".to_owned()));
        }
        let count = |_: &Record| {
            records += 1;
            Ok(())
        };
        last = records_behind(last, &path, first, None, count).map_err(|error| told(&file, error))?;
    }
    if last != manifest.last_record {
        let message = format!("it ends with record {last} instead of {}", manifest.last_record);
        return Err(damaged(&journal, message));
    }
    for item in &manifest.files {
        let path = from.join(&item.path);
        let found = Item::copy(item.path.clone(), &path, None, None).map_err(|error| told(&path, error))?;
        if found.bytes != item.bytes {
            let message = format!("it has {} bytes instead of {}", found.bytes, item.bytes);
            return Err(damaged(&path, message));
        }
        if found.sha256 != item.sha256 {
            return Err(damaged(&path, "its checksum does not match".to_owned()));
        }
    }
    Ok(records)
}

/// Copies the backup to a folder within the state folder, durably, with the name of the folder for what is there now.
fn stage(from: &Path, manifest: &Manifest, state: &Path, aside: &str) -> Result<(), BackupError> {
    let stage = state.join(STAGE);
    remove_dir(&stage)?;
    let filled = fill(from, manifest, &stage, aside);
    if filled.is_err()
        && let Err(error) = remove_dir(&stage)
    {
        tracing::warn!(%error, "the files of an abandoned restore could not be removed");
    }
    filled
}

fn fill(from: &Path, manifest: &Manifest, stage: &Path, aside: &str) -> Result<(), BackupError> {
    make_dir(&stage.join("journal"))?;
    make_dir(&stage.join("artifacts"))?;
    for item in &manifest.files {
        let (source, target) = (from.join(&item.path), stage.join(&item.path));
        target.parent().map_or(Ok(()), make_dir)?;
        if Item::copy(item.path.clone(), &source, None, Some(&target))? != *item {
            let message = "it changed while it was read".to_owned();
            return Err(BackupError::Damaged { path: source.display().to_string(), message });
        }
    }
    let note = stage.join(ASIDE);
    put(&note, |file| file.write_all(aside.as_bytes())).map_err(io_error("write", &note))?;
    Ok(sync_folders(stage).map_err(io_error("sync", stage))?)
}

/// A state was begun in that folder. What cannot be looked into counts as there: opening it says why.
pub fn is_there(dir: &Path) -> bool {
    dir.join("journal").try_exists().unwrap_or(true) || is_begun(dir)
}

/// Whether a state was begun in that folder.
fn is_begun(state: &Path) -> bool {
    state.join("journal").exists() || is_pending(state)
}

/// Whether a restore is decided and not yet carried to its end.
pub(crate) fn is_pending(state: &Path) -> bool {
    state.join(READY).exists()
}

/// A name that is free, for what is there now.
fn aside_name(state: &Path, at: Timestamp) -> String {
    let name = format!("{BEFORE}{}", at.strftime("%Y%m%dT%H%M%SZ"));
    let free = |name: &String| !state.join(name).exists();
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or(name)
}

/// Decides: from here on the state is the new one.
fn decide(state: &Path) -> Result<(), StoreError> {
    let ready = state.join(READY);
    replace(&ready, &state.join(STAGE)).map_err(io_error("rename", &ready))
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
    tracing::warn!(kept, "a backup replaced the state; views and index are rebuilt");
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
            move_there(&state.join(name), &aside.join(name), rename)?;
        }
    }
    if aside.exists() {
        sync_dir(aside).map_err(io_error("sync", aside))?;
    }
    sync_dir(state).map_err(io_error("sync", state))
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
            put(&dir.path().join(STAGE), name, "new");
        }
        fs::create_dir_all(dir.path().join(STAGE).join("artifacts")).unwrap();
        put(&dir.path().join(STAGE), ASIDE, "before-restore-x");
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
