//! The store as a whole: verify, back up, apply retention, erase a person.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_core::erasure::check_person;
use cairn_core::store_port::Store as _;
use cairn_store::Progress;
use cairn_types::ports::StoreError;
use serde::Deserialize;

use crate::api::shared::{Body, Params, Shared, backup_error, no_daemon};
use crate::api::watch::{StopWhenDropped, wants_events, watch};
use crate::parts::retention::RetentionJob;
use cairn_api::records::{ErasuresRecord, ForgetRecord, ForgetRequest, RetainRecord, RetainRequest};

/// `GET /v1/store/verify`: checks the whole open store, which takes as long as reading it. `quick=true` checks only
/// what was added since the last check.
pub(super) async fn verify(
    State(admin): State<Shared>,
    Params(query): Params<VerifyParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let progress = Progress::default();
    let (store, watched) = (admin.store.clone(), progress.clone());
    let work = async move { Ok::<_, ApiError>(store.verify_watched(query.quick, &watched).await?) };
    if wants_events(&headers) {
        return Ok(watch(progress, work));
    }
    let _stop = StopWhenDropped(progress);
    Ok(Json(work.await?).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct VerifyParams {
    #[serde(default)]
    quick: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupBody {
    dir: PathBuf,
}

/// `POST /v1/store/backup`: answers when the backup is complete. The backup continues if the client disconnects, unless
/// it asked for events.
pub(super) async fn backup(
    State(admin): State<Shared>,
    headers: HeaderMap,
    Body(body): Body<BackupBody>,
) -> Result<Response, ApiError> {
    let progress = Progress::default();
    let (store, at, watched) = (admin.store.clone(), admin.clock.now(), progress.clone());
    let work = async move { store.backup_watched(body.dir, at, &watched).await.map_err(backup_error) };
    if wants_events(&headers) {
        return Ok(watch(progress, work));
    }
    // In its own task, which does not end if the client disconnects.
    let made = tokio::spawn(work).await.map_err(|error| ApiError::internal(&error))??;
    Ok(Json(made).into_response())
}

/// `POST /v1/store/retain`: one retention pass; answers when it is done.
pub(super) async fn retain(
    State(admin): State<Shared>,
    Body(RetainRequest { dry_run }): Body<RetainRequest>,
) -> Result<Json<RetainRecord>, ApiError> {
    if !dry_run {
        admin.runtime()?;
    }
    let job = RetentionJob::of(&admin.store, &admin.agent_registry.loaded().config, &admin.clock);
    Ok(Json(job.pass(dry_run).await?))
}

/// `POST /v1/people/forget`: 202 once it has started; the daemon restarts for it.
pub(super) async fn forget(
    State(admin): State<Shared>,
    headers: HeaderMap,
    Body(request): Body<ForgetRequest>,
) -> Result<Response, ApiError> {
    check_person(&request.user).map_err(|error| ApiError::malformed(error.to_string()))?;
    admin.runtime()?;
    let (progress, dry_run) = (Progress::default(), request.dry_run);
    let watched = progress.clone();
    let work = async move { asked(&admin, &request, &watched).await };
    if wants_events(&headers) {
        return Ok(watch(progress, work));
    }
    let _stop = StopWhenDropped(progress);
    let status = if dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(work.await?)).into_response())
}

/// Surveys a person's data, and requests its erasure unless it is a dry run.
async fn asked(
    admin: &Shared,
    request: &ForgetRequest,
    progress: &Progress,
) -> Result<ForgetRecord, ApiError> {
    let person = request.user.trim();
    let maintenance = match request.dry_run {
        true => admin.store.maintenance().await?,
        false => admin.store.try_maintenance().ok_or_else(|| {
            conflict(
                "busy",
                "the journal's segments are being copied or rewritten",
                "try again when the backup, the retention pass or the other erasure is done",
            )
        })?,
    };
    let (maintenance, figures) = admin.store.survey_erasure(maintenance, person, progress).await?;
    let figures = figures.ok_or_else(|| {
        ApiError::not_found(
            "no_such_person",
            format!("nothing is stored about {person}"),
            "write the id as PLATFORM/USER; `cairn history C --json` shows it as author",
        )
    })?;
    let at = admin.clock.now();
    let record = ForgetRecord { at, figures };
    if request.dry_run {
        return Ok(record);
    }
    if admin.reloader.is_none() {
        return Err(no_daemon(
            "a daemon inside a command cannot restart",
            "wait until the command has ended",
        ));
    }
    if !admin.store.ask_erasure(maintenance, person, at).await.map_err(not_asked)? {
        return Err(conflict(
            "erasure_pending",
            "another erasure is still pending",
            "ask again when it is done: see GET /v1/people/erased",
        ));
    }
    Ok(record)
}

fn conflict(code: &'static str, message: &'static str, hint: &'static str) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, code, message, hint)
}

fn not_asked(error: StoreError) -> ApiError {
    match error {
        StoreError::DiskFull { .. } => ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "disk_full",
            "there is no room to rewrite the journal beside itself; nothing was changed",
            "free as much disk space as the journal takes, then try again",
        ),
        error => error.into(),
    }
}

/// `GET /v1/people/erased`.
pub(super) async fn erased(State(admin): State<Shared>) -> Result<Json<ErasuresRecord>, ApiError> {
    let erasures = admin.store.registry().await?.erasures;
    let progress = admin.store.erasure_progress().now();
    Ok(Json(ErasuresRecord { pending: admin.store.is_erasure_pending(), progress, erasures }))
}
