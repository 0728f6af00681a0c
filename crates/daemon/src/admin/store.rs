//! Backups of the running daemon.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use cairn_platforms::local::ApiError;
use cairn_store::{BackupError, BackupReport};
use serde::{Deserialize, Serialize};

use super::Shared;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupCall {
    dir: PathBuf,
}

/// `POST /v1/store/backup`: answers when the backup is whole. It goes on when the client leaves.
pub(super) async fn backup(
    State(admin): State<Shared>,
    call: Result<Json<BackupCall>, JsonRejection>,
) -> Result<Json<BackupReport>, ApiError> {
    let Json(call) = call.map_err(|error| ApiError::malformed(error.body_text()))?;
    let (store, at) = (admin.store.clone(), admin.clock.now());
    // A task of its own: a client that hangs up breaks nothing off.
    let made = tokio::spawn(async move { store.backup(call.dir, at).await }).await;
    made.map_err(|error| ApiError::internal(&error))?.map(Json).map_err(backup_error)
}

/// A backup that was not made or not put back, as the API and the command line tell it.
pub(crate) fn backup_error(error: BackupError) -> ApiError {
    let message = error.to_string();
    match error {
        BackupError::Refused { code, hint, .. } => ApiError::new(StatusCode::CONFLICT, code, message, hint),
        BackupError::Damaged { .. } => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "damaged",
            message,
            "nothing was changed; take another backup",
        ),
        BackupError::DiskFull { .. } => ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "disk_full",
            message,
            "make room there, or name a folder on another disk",
        ),
        BackupError::Store(error) => error.into(),
    }
}
