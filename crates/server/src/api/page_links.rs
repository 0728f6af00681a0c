//! Links to the page: `cairn ui`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cairn_api::error::ApiError;
use serde::Deserialize;

use crate::api::shared::{Body, Shared};
use cairn_api::records::{PageLink, Scope};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkBody {
    #[serde(default)]
    read_only: bool,
}

/// `POST /v1/page/links`: a link that logs one browser in.
pub(super) async fn link(
    State(admin): State<Shared>,
    Body(body): Body<LinkBody>,
) -> Result<Json<PageLink>, ApiError> {
    admin.runtime()?;
    let access = admin.page.as_ref().ok_or_else(|| {
        ApiError::new(
            StatusCode::CONFLICT,
            "page_off",
            "the page is off in this daemon",
            "set `page = true` under [admin] and restart `cairn run`",
        )
    })?;
    Ok(Json(access.link(if body.read_only { Scope::Read } else { Scope::Operate })?))
}
