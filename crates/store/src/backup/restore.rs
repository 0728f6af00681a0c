//! Putting a backup in the place of a state.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;
use jiff::Timestamp;

use super::manifest::Manifest;
use super::pass::Pass;
use super::{BackupError, RestoreReport, died, swap, work};
use crate::disk::{io_error, make_dir, remove_dir, sync_dir};
use crate::journal::open::last_n;
use crate::lock::StateLock;

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
    let work = move || restore(&from, &state, force, at);
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(died(&error)))
}

fn restore(from: &Path, state: &Path, force: bool, at: Timestamp) -> Result<RestoreReport, BackupError> {
    // Who uses the state is told before the backup is read, which may take long.
    let is_new = !state.exists();
    let lock = if is_new { None } else { Some(StateLock::take_any(state)?) };
    if lock.is_some() {
        swap::finish(state)?;
        if !force && swap::is_begun(state) {
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
            StateLock::take_any(state)?
        }
    };
    let aside = swap::aside_name(state, at);
    stage(from, &manifest, state, &aside)?;
    swap::decide(state)?;
    let moved_to = swap::finish(state)?;
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
    let listed: BTreeMap<&str, _> = manifest.files.iter().map(|item| (item.path.as_str(), item)).collect();
    let journal = from.join("journal");
    let mut order: Vec<String> = Vec::new();
    if journal.is_dir() {
        order.extend(work::segments(&journal)?.into_iter().map(|(_, name)| format!("journal/{name}")));
    }
    for name in &order {
        if !listed.contains_key(name.as_str()) {
            return Err(damaged(&from.join(name), "the manifest does not name it".to_owned()));
        }
    }
    let rest = listed.keys().filter(|name| !order.iter().any(|known| known == *name));
    let rest: Vec<String> = rest.map(|name| (*name).to_owned()).collect();
    let (mut last, mut records) = (0, 0);
    for name in order.iter().chain(&rest) {
        let Some(item) = listed.get(name.as_str()) else { continue };
        let path = from.join(name);
        let passed = Pass::open(&path, None, None).and_then(|pass| {
            if !order.contains(name) {
                return pass.bytes();
            }
            pass.records(|record| {
                work::follows(record, last)?;
                last = last_n(&record.event, record.n);
                records += 1;
                Ok(())
            })
        });
        let passed = passed.map_err(|error| match error {
            StoreError::Damaged { line, message, .. } => damaged(&path, format!("line {line}: {message}")),
            StoreError::Io { message, .. } => damaged(&path, message),
            error => error.into(),
        })?;
        if passed.bytes != item.bytes {
            let told = format!("it has {} bytes instead of {}", passed.bytes, item.bytes);
            return Err(damaged(&path, told));
        }
        if passed.sha256 != item.sha256 {
            return Err(damaged(&path, "its checksum does not match".to_owned()));
        }
    }
    if last != manifest.last_record {
        let told = format!("it ends with record {last} instead of {}", manifest.last_record);
        return Err(damaged(&journal, told));
    }
    Ok(records)
}

/// Copies the backup to a folder within the state folder, durably.
fn stage(from: &Path, manifest: &Manifest, state: &Path, aside: &str) -> Result<(), BackupError> {
    let stage = swap::stage(state);
    remove_dir(&stage)?;
    let filled = fill(from, manifest, &stage, aside).and_then(|()| Ok(give_to_owner(&stage, state)?));
    if filled.is_err()
        && let Err(error) = remove_dir(&stage)
    {
        tracing::warn!(%error, "what there is of a restore that was given up is still there");
    }
    filled
}

fn fill(from: &Path, manifest: &Manifest, stage: &Path, aside: &str) -> Result<(), BackupError> {
    make_dir(&stage.join("journal"))?;
    make_dir(&stage.join("artifacts"))?;
    for item in &manifest.files {
        let (source, target) = (from.join(&item.path), stage.join(&item.path));
        if let Some(folder) = target.parent() {
            make_dir(folder)?;
        }
        let passed = Pass::open(&source, None, Some(&target))?.bytes()?;
        if passed.sha256 != item.sha256 {
            let message = "it changed while it was read".to_owned();
            return Err(BackupError::Damaged { path: source.display().to_string(), message });
        }
    }
    let note = stage.join(swap::ASIDE);
    fs::write(&note, aside).map_err(io_error("write", &note))?;
    Ok(each(stage, &mut |path| work::sync(path)).map_err(io_error("sync", stage))?)
}

/// What root restores belongs to whom the state folder belongs to: the daemon, who must be able to read it.
fn give_to_owner(stage: &Path, state: &Path) -> Result<(), StoreError> {
    let owner = fs::metadata(state).map_err(io_error("read", state))?;
    if !rustix::process::geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    each(stage, &mut |path| chown(path, Some(owner.uid()), Some(owner.gid()))).map_err(io_error("own", stage))
}

/// Does something with a folder and all in it, the innermost first.
fn each(path: &Path, work: &mut impl FnMut(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            each(&entry?.path(), work)?;
        }
        sync_dir(path)?;
    }
    work(path)
}
