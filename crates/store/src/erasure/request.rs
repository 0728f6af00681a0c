//! What is asked for, on disk until it is done: so that an erasure that was begun is ended, whatever comes between.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::{io_error, make_dir, put, sync_dir};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Nothing has been changed yet, as far as anybody knows.
    Asked {
        /// Who, `PLATFORM/USER`.
        person: String,
        at: Timestamp,
    },
    /// The journal without them is whole beside the one with them, and only has to take its place. Who it was stands
    /// here no more.
    Staged,
}

fn file(dir: &Path) -> PathBuf {
    dir.join("erasure.json")
}

/// What is asked for there.
///
/// # Errors
/// It cannot be read: then nobody knows, and the store stays closed.
pub(crate) fn read(dir: &Path) -> Result<Option<Request>, StoreError> {
    let path = file(dir);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Io {
            action: "read",
            path: path.display().to_string(),
            message: format!(
                "{error}; it was written by another hand: ask for the erasure again and remove it"
            ),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", &path)(error)),
    }
}

pub(crate) fn write(dir: &Path, request: &Request) -> Result<(), StoreError> {
    make_dir(dir)?;
    let path = file(dir);
    put(&path, |file| file.write_all(&serde_json::to_vec(request)?)).map_err(io_error("write", &path))
}

pub(crate) fn remove(dir: &Path) -> Result<(), StoreError> {
    for path in [file(dir), dir.join("erasure.json.new")] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &path)(error));
            }
            _ => {}
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}
