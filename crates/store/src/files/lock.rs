//! The lock of the state folder: one process owns it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use cairn_types::ports::StoreError;

use super::disk::io_error;

/// Held while the store is open. The system releases it when the process ends, however it ends.
pub(crate) struct StateLock {
    file: File,
}

impl Drop for StateLock {
    /// Closing the file is not enough: a process that is being started beside holds it, too, until it becomes another program.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the state's lock could not be released");
        }
    }
}

impl StateLock {
    /// Takes the lock of a state, whatever its format, and writes the process id into it.
    ///
    /// # Errors
    /// [`StoreError::InUse`] with the owner's process id, or [`StoreError::Io`].
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
                let pid = if known { pid.trim().to_owned() } else { "unknown".to_owned() };
                return Err(StoreError::InUse { path: dir.display().to_string(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(io_error("write", &path))?;
        Ok(Self { file })
    }
}
