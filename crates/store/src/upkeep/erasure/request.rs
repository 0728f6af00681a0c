//! The file `erasure.json` of a state folder: the erasure that is asked for, until it is done.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::disk::{io_error, make_dir, put, remove_file, sync_dir};

/// Its name.
const FILE: &str = "erasure.json";

/// An erasure that is asked for, kept on disk until it is done, so that one that was started is always finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(super) enum ErasureRequest {
    /// Nothing has been changed yet, as far as anybody knows.
    Asked {
        /// Who, `PLATFORM/USER`.
        person: String,
        at: Timestamp,
    },
    /// The journal without them is whole beside the one with them, and only has to take its place. Who it was stands
    /// here no more.
    Staged {
        /// Views and index of it, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        prepared: bool,
    },
}

impl ErasureRequest {
    /// The erasure that is asked for in a state folder.
    ///
    /// # Errors
    /// The file cannot be read. The store stays closed then.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Io {
                action: "read",
                path: path.display().to_string(),
                message: format!("{error}; remove the file, start the daemon, and ask for the erasure again"),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), StoreError> {
        make_dir(dir)?;
        let path = dir.join(FILE);
        put(&path, |file| file.write_all(&serde_json::to_vec(self)?)).map_err(io_error("write", &path))
    }

    pub(super) fn remove(dir: &Path) -> Result<(), StoreError> {
        remove_file(&dir.join(FILE))?;
        remove_file(&dir.join("erasure.json.new"))?;
        sync_dir(dir).map_err(io_error("sync", dir))
    }
}

/// Called after each step: a test lets the process die there.
pub(super) type Step<'a> = &'a mut dyn FnMut(&'static str) -> Result<(), StoreError>;
