//! Retention by hand.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use cairn_platforms::local::ApiError;
use serde::{Deserialize, Serialize};

use super::Shared;
use crate::retention_job::{RetainRecord, RetentionJob};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RetainRequest {
    #[serde(default)]
    pub dry_run: bool,
}

/// `POST /v1/store/retain`: a pass, whose end is waited for.
pub(super) async fn retain(
    State(admin): State<Shared>,
    request: Result<Json<RetainRequest>, JsonRejection>,
) -> Result<Json<RetainRecord>, ApiError> {
    let Json(request) = request.map_err(|error| ApiError::malformed(error.body_text()))?;
    if !request.dry_run {
        admin.runtime()?;
    }
    let retention_job = RetentionJob::of(&admin.store, &admin.agent_registry.loaded().config, &admin.clock);
    Ok(Json(retention_job.pass(request.dry_run).await?))
}
