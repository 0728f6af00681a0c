//! Retention by hand.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use cairn_platforms::local::ApiError;
use serde::{Deserialize, Serialize};

use super::Shared;
use crate::keeper::{Keeper, RetainRecord};

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
        admin.house()?;
    }
    let keeper = Keeper::of(&admin.store, &admin.roster.loaded().config, &admin.clock);
    Ok(Json(keeper.pass(request.dry_run).await?))
}
