//! `POST /v1/reload`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cairn_platforms::local::ApiError;

use super::Shared;
use crate::reload::{ReloadError, Reloaded};

/// `POST /v1/reload`: reads the configuration again. 422 when it cannot be used: all is as it was then.
pub(super) async fn reload(State(admin): State<Shared>) -> Result<Json<Reloaded>, ApiError> {
    let Some(reloader) = &admin.reloader else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "no_daemon",
            "there is nothing to reload: this is a daemon inside a command",
            "every command reads the configuration as it begins; `cairn run` reloads",
        ));
    };
    reloader.reload("cairn reload").await.map(Json).map_err(|error| {
        let (status, hint) = match &error {
            ReloadError::Config(_) | ReloadError::Model(_) | ReloadError::Level(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "nothing was changed; correct the file and reload again")
            }
            ReloadError::Stopping => {
                (StatusCode::SERVICE_UNAVAILABLE, "the next start reads the file anyway")
            }
        };
        ApiError::new(status, error.code(), error.to_string(), hint)
    })
}
