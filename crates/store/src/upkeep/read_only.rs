//! A state on a read-only file system. Nobody can change it, so it is read without its lock: through a folder of its own in which
//! the journal and the artifacts are those of the state, and views and index are made for the one command that reads.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use cairn_types::ports::StoreError;
use rustix::fs::Access;
use rustix::io::Errno;

use super::erasure::is_asked;
use crate::files::disk::{io_error, remove_dir};
use crate::files::format;
use crate::options::StoreOptions;
use crate::upkeep::backup::restore;

/// The folder through which a read-only state is read. It goes with this value, so the store is closed before.
#[derive(Debug)]
pub struct ReadOnlyState {
    dir: PathBuf,
}

impl ReadOnlyState {
    /// Options that open the state to read it: those given, unless its folder is on a read-only file system and nothing has to
    /// be finished in it first.
    ///
    /// # Errors
    /// The folder in the place of the state cannot be made.
    pub fn stand_in(options: StoreOptions) -> Result<(StoreOptions, Option<Self>), StoreError> {
        let state = &options.dir;
        let is_read_only = rustix::fs::access(state, Access::WRITE_OK) == Err(Errno::ROFS);
        if options.database.is_some() || !is_read_only || restore::is_pending(state) || is_asked(state)? {
            return Ok((options, None));
        }
        format::refuse_newer(state)?;
        let read_only = Self::make(state)?;
        tracing::warn!(
            state = %state.display(), made_in = %read_only.dir.display(),
            "the state is on a read-only file system; views and index are rebuilt for this command"
        );
        Ok((StoreOptions { dir: read_only.dir.clone(), ..options }, Some(read_only)))
    }

    fn make(state: &Path) -> Result<Self, StoreError> {
        let state = fs::canonicalize(state).map_err(io_error("read", state))?;
        let mut unique = [0; 8];
        getrandom::fill(&mut unique).map_err(|error| StoreError::Io {
            action: "name",
            path: std::env::temp_dir().display().to_string(),
            message: error.to_string(),
        })?;
        let dir = std::env::temp_dir().join(format!("cairn-read-{:016x}", u64::from_le_bytes(unique)));
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(io_error("make", &dir))?;
        let read_only = Self { dir };
        let dir = &read_only.dir;
        fs::copy(state.join(format::FILE), dir.join(format::FILE))
            .map_err(io_error("read", &state.join(format::FILE)))?;
        for folder in ["journal", "artifacts"] {
            let of_state = state.join(folder);
            if of_state.is_dir() {
                symlink(&of_state, dir.join(folder)).map_err(io_error("link", dir))?;
            }
        }
        Ok(read_only)
    }
}

impl Drop for ReadOnlyState {
    fn drop(&mut self) {
        if let Err(error) = remove_dir(&self.dir) {
            tracing::warn!(%error, "the temporary folder for a read-only state could not be removed");
        }
    }
}
