//! The format of a state folder: `format` in it says which one it is and who wrote it, as
//! `{"format":2,"written_by":"0.1.0"}`.
//!
//! | format | means |
//! | --- | --- |
//! | 1 | no file `format`; journal segments are plain, numbers without gaps, lines have `"v":1` |
//! | 2 | journal segments may be compressed, numbers may have gaps; new lines have `"v":2` |
//!
//! An older program that knows of no file `format` stops at the first line of a later version, by its name.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use cairn_types::ports::StoreError;
use serde::{Deserialize, Serialize};

use super::disk::{io_error, put};

/// The format that this program writes, and the newest that it knows.
pub(crate) const FORMAT: u32 = 2;

/// The format of states that have no marker.
pub(crate) const UNMARKED: u32 = 1;

/// The marker's name in a state folder and in a backup.
pub(crate) const FILE: &str = "format";

/// Prefix of folders with a copy of the journal from before an upgrade.
pub(crate) const BEFORE: &str = "before-format-";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) format: u32,
    /// The version of the program that gave the state this format.
    pub(crate) written_by: String,
}

/// Checks that this program may use the state. Changes nothing.
///
/// # Errors
/// [`StoreError::Newer`]; the marker cannot be read.
pub(crate) fn refuse_newer(dir: &Path) -> Result<(), StoreError> {
    match read(dir)? {
        Some(marker) if marker.format > FORMAT => Err(StoreError::Newer {
            path: format!("the state in {}", dir.display()),
            format: marker.format,
            written_by: marker.written_by,
            known: FORMAT,
        }),
        _ => Ok(()),
    }
}

/// Reads the marker of a folder; `None`: there is none. A marker that no program writes counts as damaged.
pub(crate) fn read(dir: &Path) -> Result<Option<Marker>, StoreError> {
    let path = dir.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        // What is in the folder's place is told when the folder is made.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let damaged = |why: String| StoreError::Io {
        action: "read",
        path: path.display().to_string(),
        message: format!(
            "it does not say what format the state has ({why}); remove the file: the journal's lines carry their versions"
        ),
    };
    let marker: Marker = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let is_beyond_ours = marker.format > FORMAT && marker.written_by == env!("CARGO_PKG_VERSION");
    if marker.format <= UNMARKED || is_beyond_ours {
        return Err(damaged(format!("cairn {} writes no format {}", marker.written_by, marker.format)));
    }
    Ok(Some(marker))
}

/// Writes the marker of a folder.
pub(crate) fn mark(dir: &Path, format: u32) -> Result<(), StoreError> {
    let marker = Marker { format, written_by: env!("CARGO_PKG_VERSION").to_owned() };
    let path = dir.join(FILE);
    let mut bytes = serde_json::to_vec(&marker).map_err(|error| StoreError::Io {
        action: "encode",
        path: path.display().to_string(),
        message: error.to_string(),
    })?;
    bytes.push(b'\n');
    put(&path, |file| file.write_all(&bytes)).map_err(io_error("write", &path))
}
