//! Backups: made while everything runs, checked before they are put back.
//!
//! A backup is a prefix of the journal up to one durable record, with every artifact that this prefix names, the state's
//! format and a manifest. What derives from the journal is not in it: it is made again. It is written to a folder beside its
//! place (`NAME.partial`) and renamed when all of it is durable, so that one that was broken off never looks like a whole one.

mod manifest;
mod pass;
mod place;
mod restore;
pub(crate) mod swap;
mod work;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use cairn_core::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use restore::restore_dir;

use crate::store::Store;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    pub dir: PathBuf,
    pub created_at: Timestamp,
    /// The version of the program that made it.
    pub version: String,
    /// Number of the last journal record in it; 0: none.
    pub last_record: u64,
    pub records: u64,
    pub segments: u64,
    pub artifacts: u64,
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Artifacts that the journal names and whose files are gone, for people.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    pub dir: PathBuf,
    pub state: PathBuf,
    pub created_at: Timestamp,
    /// The version of the program that made it.
    pub version: String,
    /// Number of the last journal record; 0: none.
    pub last_record: u64,
    pub records: u64,
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where the state that was there before is now; none: there was none.
    pub moved_to: Option<PathBuf>,
}

/// Why a backup was not made or not put back. Nothing was changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupError {
    Refused {
        code: &'static str,
        message: String,
        hint: String,
    },
    /// The backup is not as it was written.
    Damaged {
        path: String,
        message: String,
    },
    /// The disk that is copied to is full.
    DiskFull {
        path: String,
    },
    /// The state cannot be read, or what is copied not written.
    Store(StoreError),
}

impl std::fmt::Display for BackupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { message, .. } => f.write_str(message),
            Self::Damaged { path, message } => write!(f, "the backup is damaged: {path}: {message}"),
            Self::DiskFull { path } => write!(f, "the disk that holds {path} is full; nothing was copied"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        match error {
            // Only what is copied to is written.
            StoreError::DiskFull { path } => Self::DiskFull { path },
            error => Self::Store(error),
        }
    }
}

impl BackupError {
    fn refused(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into(), hint: hint.into() }
    }
}

impl Store {
    /// Copies the state as it is now to `dir`, an absolute path of a folder that is empty or not there yet. Replies go on
    /// meanwhile; erasures and retention wait, and files of artifacts that expire go when it is done. It goes on to its end
    /// when nobody waits for it any more. `at`: now.
    ///
    /// # Errors
    /// See [`BackupError`]; what was copied so far is removed.
    pub async fn backup(&self, dir: PathBuf, at: Timestamp) -> Result<BackupReport, BackupError> {
        let lease = self.maintenance().await?;
        if self.inner.erasing.load(Ordering::Acquire) {
            let message = "a person is about to be erased, who would be in the backup";
            return Err(BackupError::refused("busy", message, "try again when the daemon has restarted"));
        }
        let inner = self.inner.clone();
        let work = move || {
            let _lease = lease;
            work::back_up(&inner, &dir, at)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let outcome = done.unwrap_or_else(|error| Err(died(&error)));
        let told = if outcome.is_ok() { "done" } else { "failed" };
        metrics::counter!("cairn_backups_total", "outcome" => told).increment(1);
        match &outcome {
            Ok(report) => tracing::info!(
                dir = %report.dir.display(), records = report.records, files = report.files,
                bytes = report.bytes, "made a backup"
            ),
            Err(error) => tracing::error!(%error, "a backup was not made"),
        }
        outcome
    }
}

fn died(error: &tokio::task::JoinError) -> BackupError {
    StoreError::View { view: "store", message: format!("the work failed: {error}") }.into()
}
