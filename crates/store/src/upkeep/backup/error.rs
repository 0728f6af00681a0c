//! Why a backup is not made or not restored.

use cairn_types::ports::StoreError;

/// Why a backup was not made or not restored. Nothing was changed.
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
    pub(super) fn refused(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into(), hint: hint.into() }
    }
}
