//! People: having one erased.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cairn_core::erasure::check_person;
use cairn_core::event::ErasureFigures;
use cairn_core::pairing_store::Erasure;
use cairn_core::ports::{Store as _, StoreError};
use cairn_platforms::local::ApiError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Shared;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForgetRequest {
    /// `PLATFORM/USER`.
    pub user: String,
    #[serde(default)]
    pub dry_run: bool,
}

/// An erasure that is asked for: it is carried out when the daemon has restarted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForgetRecord {
    /// When it was asked for: the erasure that is told later has the same.
    pub at: Timestamp,
    /// What goes, as far as it was there now.
    #[serde(flatten)]
    pub figures: ErasureFigures,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErasuresRecord {
    pub pending: bool,
    /// Those that are done, oldest first.
    pub erasures: Vec<Erasure>,
}

/// `POST /v1/people/forget`.
pub(super) async fn forget(
    State(admin): State<Shared>,
    request: Result<Json<ForgetRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = request.map_err(|error| ApiError::malformed(error.body_text()))?;
    let person = check_person(&request.user).map_err(|error| ApiError::malformed(error.to_string()))?;
    admin.runtime()?;
    let lease = match request.dry_run {
        true => admin.store.maintenance().await?,
        false => admin.store.try_maintenance().ok_or_else(busy)?,
    };
    let (lease, figures) = admin.store.survey_erasure(lease, person).await?;
    let figures = figures.ok_or_else(|| no_such_person(person))?;
    let at = admin.clock.now();
    let record = Json(ForgetRecord { at, figures });
    if request.dry_run {
        return Ok(record.into_response());
    }
    let Some(restart_handle) = &admin.restart_handle else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "no_daemon",
            "a daemon inside a command cannot restart",
            "wait until the command has ended",
        ));
    };
    if !admin.store.ask_erasure(lease, person, at).await.map_err(not_asked)? {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "erasure_pending",
            "another erasure is asked for and not done yet",
            "ask again when it is: GET /v1/people/erased says so",
        ));
    }
    tracing::info!("a person is to be erased: restarting for it");
    restart_handle.restart();
    Ok((StatusCode::ACCEPTED, record).into_response())
}

fn busy() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "busy",
        "the journal's segments are being copied or rewritten",
        "try again when the backup, the retention pass or the other erasure is done",
    )
}

fn not_asked(error: StoreError) -> ApiError {
    match error {
        StoreError::DiskFull { .. } => ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "disk_full",
            "there is no room for the journal to be rewritten beside itself; nothing was changed",
            "make as much room on the disk as the journal takes, then try again",
        ),
        error => error.into(),
    }
}

fn no_such_person(person: &str) -> ApiError {
    ApiError::not_found(
        "no_such_person",
        format!("nothing is known of {person}"),
        "write the id as PLATFORM/USER; `cairn history C --json` shows it as author",
    )
}

/// `GET /v1/people/erased`.
pub(super) async fn erased(State(admin): State<Shared>) -> Result<Json<ErasuresRecord>, ApiError> {
    let erasures = admin.store.registry().await?.erasures;
    Ok(Json(ErasuresRecord { pending: admin.store.is_erasure_pending(), erasures }))
}
