//! Commands to a channel: compact, new, stop, and waiting until it is calm.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cairn_actors::{Compaction, RoomMade};
use cairn_core::tier::Tier;
use cairn_platforms::local::ApiError;
use serde::Deserialize;

use super::params::{Segment, body, segment};
use super::{Shared, house_error};
use crate::records::{CompactRecord, GaugeRecord, NewGenerationRecord, RoomRecord, StopRecord};

/// The body of `compact`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CompactBody {
    instruction: Option<String>,
    #[serde(default)]
    wait: bool,
}

/// The body of `wait`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WaitBody {
    below: Option<Tier>,
}

/// `POST /v1/channels/{C}/compact`: 202 with the run, 200 with its end and its summary when that is waited for, or with
/// `null` when there is nothing to compact, with `nothing` that says why in numbers, or room was made at once.
pub(super) async fn compact(
    State(admin): State<Shared>,
    channel: Segment,
    request: Body,
) -> Result<Response, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let CompactBody { instruction, wait } = body(request).await?;
    if instruction.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(ApiError::malformed("`instruction` has a NUL character; leave it out"));
    }
    let instruction = instruction.filter(|text| !text.trim().is_empty());
    let runtime = admin.runtime()?;
    let ticket = match runtime.compact(&channel, instruction, false).await.map_err(house_error)? {
        Compaction::Nothing(why) => {
            let record = CompactRecord { nothing: Some(why), ..CompactRecord::default() };
            return Ok(Json(record).into_response());
        }
        Compaction::Made(RoomMade { messages, tokens_before, tokens_after }) => {
            let made = Some(RoomRecord { messages, tokens_before, tokens_after });
            return Ok(Json(CompactRecord { made, ..CompactRecord::default() }).into_response());
        }
        Compaction::Run(ticket) => ticket,
    };
    if !wait {
        let (run, queued) = (Some(ticket.run), ticket.queued);
        let record = CompactRecord { run, queued, ..CompactRecord::default() };
        return Ok((StatusCode::ACCEPTED, Json(record)).into_response());
    }
    let Some(end) = ticket.ended.await else {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            format!("run {} will not end: the conversation was archived, or the daemon stops", ticket.run),
            "look at `cairn context` for what became of it",
        ));
    };
    let record = CompactRecord {
        run: Some(end.run.clone()),
        outcome: Some(end.outcome),
        end: Some(end.to_outcome()),
        queued: ticket.queued,
        summary: end.summary.map(|summary| summary.text),
        made: None,
        nothing: None,
    };
    Ok(Json(record).into_response())
}

/// `POST /v1/channels/{C}/new`.
pub(super) async fn new(
    State(admin): State<Shared>,
    channel: Segment,
) -> Result<Json<NewGenerationRecord>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let generation = admin.runtime()?.new_generation(&channel).await.map_err(house_error)?;
    Ok(Json(NewGenerationRecord { channel, generation }))
}

/// `POST /v1/channels/{C}/stop`.
pub(super) async fn stop(
    State(admin): State<Shared>,
    channel: Segment,
) -> Result<Json<StopRecord>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let stopped = admin.runtime()?.stop_turn(&channel).await.map_err(house_error)?;
    Ok(Json(StopRecord { channel, stopped }))
}

/// `POST /v1/channels/{C}/wait` `{"below": TIER}`: returns when the channel's tier is below that one, or no run is
/// under way or due. `below` absent: returns at once.
pub(super) async fn wait(
    State(admin): State<Shared>,
    channel: Segment,
    request: Body,
) -> Result<Json<GaugeRecord>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let WaitBody { below } = body(request).await?;
    if let Some(below) = below {
        admin.runtime()?.wait_calm(&channel, below).await;
    }
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let settings = admin.settings(&conversation).await?;
    Ok(Json(GaugeRecord::of(&conversation, &settings)))
}
