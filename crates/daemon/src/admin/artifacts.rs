//! Artifacts: large results of tools, kept outside of the window. Looking at one here does not count as reading it.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use cairn_core::artifact::{NoArtifact, readable};
use cairn_core::ports::{LineRange, Store as _};
use cairn_platforms::local::ApiError;
use serde::Deserialize;

use super::Shared;
use super::params::{Params, Segment, params, segment};
use crate::records::{ArtifactPage, ArtifactRecord};

/// Most bytes of one page.
const PAGE_MAX_BYTES: usize = 1024 * 1024;

/// Lines of a page unless asked otherwise.
const COUNT_DEFAULT: u64 = 1_000;

#[derive(Debug, Deserialize)]
pub(super) struct PageParams {
    from: Option<u64>,
    count: Option<u64>,
    offset: Option<u64>,
}

/// `GET /v1/channels/{C}/artifacts`: all of the channel's, oldest first; those that expired, too.
pub(super) async fn list(
    State(admin): State<Shared>,
    channel: Segment,
) -> Result<Json<Vec<ArtifactRecord>>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let mut records: Vec<_> = conversation.artifacts.values().map(ArtifactRecord::of).collect();
    records.sort_by(|a, b| {
        (a.stored_at, a.id.as_str().len(), &a.id).cmp(&(b.stored_at, b.id.as_str().len(), &b.id))
    });
    Ok(Json(records))
}

/// `GET /v1/channels/{C}/artifacts/{id}`: lines of one.
pub(super) async fn show(
    State(admin): State<Shared>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Params<PageParams>,
) -> Result<Json<ArtifactPage>, ApiError> {
    let Path((channel, id)) = path.map_err(|error| ApiError::malformed(error.body_text()))?;
    let channel = admin.resolve(&channel)?;
    let PageParams { from, count, offset } = params(query)?;
    let (from, count) = (from.unwrap_or(1), count.unwrap_or(COUNT_DEFAULT));
    if from == 0 || count == 0 {
        return Err(ApiError::malformed("`from` and `count` go from 1 on"));
    }
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let artifact = readable(&conversation, &id, from).map_err(no_artifact)?;
    let range = LineRange { from, offset: offset.unwrap_or(0), count, max_bytes: PAGE_MAX_BYTES };
    let found = admin.store.artifact_lines(&channel, &artifact.id, range).await?;
    let found = found.ok_or_else(|| {
        ApiError::not_found(
            "artifact_lost",
            format!("the file of artifact {} of {channel} is missing", artifact.id),
            "`cairn store verify` lists what is missing",
        )
    })?;
    Ok(Json(ArtifactPage::of(&artifact, from, found)))
}

fn no_artifact(error: NoArtifact) -> ApiError {
    let (code, hint) = match error {
        NoArtifact::Unknown { .. } => {
            ("no_such_artifact", "`cairn artifact list C` lists those of a channel")
        }
        NoArtifact::Left { .. } => ("artifact_expired", "`cairn history` shows the message whole"),
        NoArtifact::Expired { .. } => {
            ("artifact_expired", "artifact_days and artifact_mib under result_guard say when they do")
        }
        NoArtifact::PastItsEnd { .. } => ("no_such_range", "lines are counted from 1"),
    };
    ApiError::not_found(code, error.to_string(), hint)
}
