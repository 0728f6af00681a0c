//! Where a backup goes: whether it may, and the folder beside it in which it is made.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::BackupError;
use super::manifest;
use crate::files::disk::{io_error, remove_dir, replace, sync_folders};

/// How the folder ends in which a backup is made.
const PARTIAL: &str = "partial";

pub(super) struct Target {
    parent: PathBuf,
    dir: PathBuf,
    pub(super) partial: PathBuf,
    /// Keeps others from removing it; none: its disk knows no locks.
    _in_use: Option<File>,
}

impl Target {
    /// Looks at the place, and makes an empty folder beside it.
    ///
    /// # Errors
    /// The place is taken, within the state folder, a mount of its own, or cannot be written.
    pub(super) fn prepare(dir: &Path, state: &Path) -> Result<Self, BackupError> {
        let target = Self::look(dir, state)?;
        let (partial, parent) = (&target.partial, &target.parent);
        clear(partial)?;
        let made = fs::DirBuilder::new().mode(0o700).create(partial);
        made.map_err(|error| unwritable(parent, &error))?;
        let in_use = lock(partial);
        clear_others(parent, partial);
        Ok(Self { _in_use: in_use, ..target })
    }

    fn look(dir: &Path, state: &Path) -> Result<Self, BackupError> {
        let shown = dir.display();
        let another = "name a folder that does not exist yet, or an empty one";
        if !dir.is_absolute() {
            let message = format!("{shown} is not an absolute path");
            return Err(BackupError::refused("bad_dir", message, "name the folder from / on"));
        }
        let (Some(name), Some(parent)) = (dir.file_name(), dir.parent()) else {
            return Err(BackupError::refused(
                "bad_dir",
                format!("{shown} names no folder of its own"),
                another,
            ));
        };
        let real = |path: &Path| fs::canonicalize(path).map_err(|error| unreachable_dir(path, &error));
        let parent = real(parent)?;
        let target = parent.join(name);
        if target.starts_with(real(state)?) {
            return Err(BackupError::refused(
                "inside_state",
                format!("{shown} is within the state folder"),
                "a backup beside what it is of is lost with it: name a folder elsewhere, best on another disk",
            ));
        }
        match fs::symlink_metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreachable_dir(&target, &error)),
            Ok(there) if !there.is_dir() => {
                return Err(BackupError::refused("not_empty", format!("{shown} is not a folder"), another));
            }
            Ok(there) => {
                let mut inside = fs::read_dir(&target).map_err(|error| unreachable_dir(&target, &error))?;
                if inside.next().is_some() {
                    return Err(BackupError::refused("not_empty", format!("{shown} is not empty"), another));
                }
                let beside = fs::metadata(&parent).map_err(|error| unreachable_dir(&parent, &error))?;
                if there.dev() != beside.dev() {
                    return Err(BackupError::refused(
                        "is_mount",
                        format!("{shown} is where a disk is mounted, and nothing can be renamed to it"),
                        "name a folder within it that does not exist yet",
                    ));
                }
            }
        }
        let mut beside = name.to_owned();
        beside.push(format!(".{PARTIAL}"));
        let partial = parent.join(beside);
        Ok(Self { parent, dir: target, partial, _in_use: None })
    }

    /// Gives the backup its name; all in it is durable.
    pub(super) fn finish(&self) -> Result<(), BackupError> {
        let finish = || {
            sync_folders(&self.partial)?;
            replace(&self.dir, &self.partial)
        };
        Ok(finish().map_err(io_error("rename the backup to", &self.dir))?)
    }

    /// Removes what is there of a backup that is given up.
    pub(super) fn give_up(&self) {
        if let Err(error) = remove_dir(&self.partial) {
            tracing::warn!(%error, "the files of an abandoned backup could not be removed");
        }
    }
}

/// What is in a backup.
const OURS: [&str; 5] = [JOURNAL, "artifacts", crate::files::format::FILE, manifest::BEGUN, manifest::FILE];

const JOURNAL: &str = "journal";

/// Removes what is left of a backup that was broken off, and nothing else.
fn clear(partial: &Path) -> Result<(), BackupError> {
    let Ok(inside) = fs::read_dir(partial) else { return Ok(()) };
    for entry in inside {
        let entry = entry.map_err(io_error("list", partial))?;
        if !OURS.iter().any(|name| entry.file_name() == *name) {
            return Err(BackupError::refused(
                "not_empty",
                format!("{} is in the way", partial.display()),
                "move it away, or name another folder",
            ));
        }
    }
    Ok(remove_dir(partial)?)
}

/// Locks the folder of a backup that is being made; `None`: it is locked, or its disk knows no locks.
fn lock(partial: &Path) -> Option<File> {
    let folder = File::open(partial).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Removes backups beside this one that a kill broke off: nobody holds them, and nothing else is in them.
fn clear_others(parent: &Path, own: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_backup = path.extension().is_some_and(|end| end == PARTIAL) && path.join(JOURNAL).is_dir();
        if path == own || !is_backup {
            continue;
        }
        let Some(_held) = lock(&path) else { continue };
        match clear(&path) {
            Ok(()) => tracing::info!(dir = %path.display(), "removed an interrupted backup"),
            Err(error) => tracing::warn!(%error, "an interrupted backup could not be removed"),
        }
    }
}

fn unreachable_dir(path: &Path, error: &io::Error) -> BackupError {
    if error.kind() == io::ErrorKind::NotFound {
        let message = format!("the folder {} does not exist", path.display());
        return BackupError::refused(
            "bad_dir",
            message,
            format!("make it first: mkdir -p {}", path.display()),
        );
    }
    unwritable(path, error)
}

fn unwritable(parent: &Path, error: &io::Error) -> BackupError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return BackupError::DiskFull { path: parent.display().to_string() };
    }
    let user = rustix::process::geteuid().as_raw();
    BackupError::refused(
        "not_writable",
        format!("cairn, as user {user}, cannot write to {}: {error}", parent.display()),
        format!(
            "let that user write there; a daemon under systemd (ProtectSystem=strict) also needs \
             `ReadWritePaths={}` in its unit (`systemctl edit cairn`); or stop the daemon, then the command copies by itself",
            parent.display()
        ),
    )
}
