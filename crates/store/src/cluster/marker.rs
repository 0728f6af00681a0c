//! The file `database` in a state folder: it marks the folder's journal as a copy, and says of which journal in a database.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cairn_types::ports::StoreError;
use serde::{Deserialize, Serialize};

use crate::files::disk::{io_error, put, remove_file, sync_dir};

/// The marker's name in a state folder.
const FILE: &str = "database";

/// The marker of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    /// The id of the journal.
    pub(crate) journal: String,
    /// What the events were when they were copied: rewritten ones are copied again.
    pub(crate) generation: i64,
    /// The copy counts for nothing, and is rebuilt by the next start: an erasure has begun to rewrite it, and the database does
    /// not have that yet; or a check has found that it is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_rewritten: bool,
    /// The lease that a process with this folder held last. Whoever has the folder's lock knows that it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<LastLease>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastLease {
    pub(super) id: String,
    /// Where it was held: the lock of a folder that was copied to another machine says nothing of the process with the lease.
    pub(super) place: String,
}

/// This folder on this machine, since that started.
pub(super) fn place(dir: &Path) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{} {}", boot.trim(), fs::metadata(dir).ok()?.ino()))
}

impl Marker {
    pub(super) fn new(journal: String, generation: i64) -> Self {
        Self { journal, generation, is_rewritten: false, lease: None }
    }

    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Io {
                action: "read",
                path: path.display().to_string(),
                message: format!(
                    "it does not say of which database's journal this is a copy ({error}); move the whole state folder \
                     away: the node's next start copies the journal from the database again"
                ),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(FILE);
        put(&path, |file| file.write_all(&serde_json::to_vec(self)?)).map_err(io_error("write", &path))
    }

    /// The journal in the folder is one of its own from here on.
    pub(super) fn remove(dir: &Path) -> Result<(), StoreError> {
        remove_file(&dir.join(FILE))?;
        sync_dir(dir).map_err(io_error("sync", dir))
    }
}

/// The copy in that folder is damaged: the next start rebuilds it.
pub(crate) fn doubt(dir: &Path) -> Result<(), StoreError> {
    match Marker::read(dir)? {
        Some(marker) => Marker { is_rewritten: true, ..marker }.write(dir),
        None => Ok(()),
    }
}

/// # Errors
/// [`StoreError::Elsewhere`]: the folder has a copy, which nobody may write on.
pub(crate) fn refuse(dir: &Path) -> Result<(), StoreError> {
    if Marker::read(dir)?.is_none() {
        return Ok(());
    }
    let message = format!(
        "the journal in {} is a copy of one in a database; set [store] url to that database, or bring the journal back \
         with `cairn store move --to-folder`",
        dir.display()
    );
    Err(StoreError::Elsewhere { message })
}
