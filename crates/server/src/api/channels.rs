//! Channels: lists them, shows their contents, and runs commands on them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cairn_actors::{AgentRuntime, Compaction, RoomMade};
use cairn_api::error::ApiError;
use cairn_core::agent::AgentSettings;
use cairn_core::artifact::{NoArtifact, named, readable};
use cairn_core::conversation::{Conversation, Outline};
use cairn_core::store_port::ChannelLine;
use cairn_core::store_port::Store as _;
use cairn_core::window::Frame;
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::message::Artifact;
use cairn_types::ports::{LineRange, StoreError};
use cairn_types::tier::Tier;
use serde::Deserialize;

use crate::api::shared::{
    Admin, Body, Channel, LIMIT_MAX, ListParams, Page, Params, Shared, limit_or, no_such_agent, runtime_error,
};
use cairn_api::records::{
    ArtifactPage, ArtifactRecord, ChannelRecord, CompactRecord, ContextRecord, GaugeRecord,
    NewGenerationRecord, RoomRecord, StopRecord, Wakefulness,
};

/// Most bytes per page of an artifact.
const PAGE_MAX_BYTES: usize = 1024 * 1024;

/// Default number of lines per page of an artifact.
const PAGE_LINES: u64 = 1_000;

/// `GET /v1/channels`: sorted by name, from the index. For awake channels the state in memory is shown; no channel is
/// woken.
pub async fn list(
    State(admin): State<Shared>,
    Params(query): Params<ListParams>,
) -> Result<Page<ChannelRecord>, ApiError> {
    let limit = limit_or(query.limit, LIMIT_MAX)?;
    let after = query.after.map(|name| admin.resolve(&name)).transpose()?;
    let lines = admin.store.channel_lines(after, limit + 1).await?;
    let Page { items, next } = Page::of(lines, limit, |line| line.channel.to_string());
    let mut list = List::of(&admin).await?;
    let mut records = Vec::with_capacity(items.len());
    for line in items {
        records.push(list.record(line).await?);
    }
    Ok(Page { items: records, next })
}

/// State that is shared while the lines of a list are built.
struct List<'a> {
    admin: &'a Admin,
    agents: Vec<AgentRuntime>,
    /// The settings of the previous line, and the size of their fixed part of the window.
    framed: Option<(Arc<AgentSettings>, Frame)>,
    keeps_snapshots: bool,
}

impl<'a> List<'a> {
    async fn of(admin: &'a Admin) -> Result<Self, ApiError> {
        Ok(Self { admin, agents: admin.runtimes().await?, framed: None, keeps_snapshots: true })
    }

    async fn record(&mut self, line: ChannelLine) -> Result<ChannelRecord, ApiError> {
        let awake = self.admin.runtime.as_ref().and_then(|runtime| runtime.outline(&line.channel));
        let (state, outline) = match (awake, &line.outline) {
            (Some(outline), _) => (Wakefulness::Awake, outline),
            (None, Some(outline)) => (Wakefulness::Asleep, outline.clone()),
            (None, None) => (Wakefulness::Asleep, self.restored(&line.channel).await?),
        };
        let (summaries, sizes) = (outline.summaries, outline.sizes);
        let conversation = outline.without_entries(line.channel.clone());
        let settings = self.settings(&conversation)?;
        let frame = self.frame(&settings);
        let usage = sizes.usage(frame, &conversation.correction(&settings.model), &settings);
        Ok(ChannelRecord::of(line, state, usage, summaries, conversation.name))
    }

    /// The outline of a sleeping channel without a current snapshot, as after a crash. A new snapshot is kept for the
    /// next list.
    async fn restored(&mut self, channel: &ChannelId) -> Result<Outline, ApiError> {
        let store = &self.admin.store;
        let conversation = match store.restore(channel).await {
            Ok(Some(conversation)) => conversation,
            Err(error) if !matches!(error, StoreError::Damaged { .. }) => return Err(error.into()),
            // A channel that cannot be read must not hide the others.
            unreadable => {
                let error = unreadable.err().map(|error| error.to_string());
                tracing::warn!(%channel, error,
                    "a channel's conversation cannot be read; it is listed with an empty window; `cairn store \
                     verify` shows details");
                return Ok(Outline::of(&Conversation::new(channel.clone())));
            }
        };
        let outline = Outline::of(&conversation);
        if self.keeps_snapshots
            && let Err(error) = store.keep_snapshot(Arc::new(conversation)).await
        {
            // If keeping a snapshot fails once, the other lines do not try it.
            self.keeps_snapshots = false;
            tracing::warn!(%channel, %error,
                "a snapshot could not be saved; the next list of channels takes as long");
        }
        Ok(outline)
    }

    /// The settings of a channel. If its agent is no longer configured, the first agent's are used, so that the list
    /// stays complete.
    fn settings(&self, conversation: &Conversation) -> Result<Arc<AgentSettings>, ApiError> {
        let find = |id: &AgentId| self.agents.iter().find(|agent| agent.id == *id);
        if let Some(agent) = find(&conversation.channel.agent()) {
            return Ok(agent.settings(conversation));
        }
        let first = self.admin.agent_registry.default_agent();
        find(first).map(|agent| Arc::clone(agent.first_settings())).ok_or_else(|| no_such_agent(first))
    }

    /// The size of the settings' fixed part of a window. It is computed once for consecutive lines with the same
    /// settings.
    fn frame(&mut self, settings: &Arc<AgentSettings>) -> Frame {
        match &self.framed {
            Some((known, frame)) if Arc::ptr_eq(known, settings) => *frame,
            _ => {
                let frame = Frame::of(settings);
                self.framed = Some((Arc::clone(settings), frame));
                frame
            }
        }
    }
}

/// `GET /v1/channels/{C}/context`.
pub async fn context(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
) -> Result<Json<ContextRecord>, ApiError> {
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let agent = admin.agent(&channel.agent()).await?.ok_or_else(|| no_such_agent(&channel.agent()))?;
    let (settings, answering) = (agent.settings(&conversation), agent.serving_settings(&conversation));
    let artifacts = admin.store.artifacts(&channel, false).await?;
    let mut record = ContextRecord::of(&conversation, &settings, &answering.model, &artifacts);
    for recalled in &mut record.recalled {
        if let Some(memory) = admin.store.memory(&recalled.id).await? {
            (recalled.kind, recalled.text) = (Some(memory.kind), Some(memory.text));
        }
    }
    Ok(Json(record))
}

/// `GET /v1/channels/{C}/artifacts`: all artifacts of the channel, oldest first, including expired ones.
pub(super) async fn artifacts(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
) -> Result<Json<Vec<ArtifactRecord>>, ApiError> {
    // An unknown channel is an error, not an empty list.
    admin.conversation(&channel).await?;
    let artifacts = admin.store.artifacts(&channel, true).await?;
    let mut records: Vec<_> = artifacts.iter().map(ArtifactRecord::of).collect();
    records.sort_by(|a, b| {
        (a.stored_at, a.id.as_str().len(), &a.id).cmp(&(b.stored_at, b.id.as_str().len(), &b.id))
    });
    Ok(Json(records))
}

#[derive(Debug, Deserialize)]
pub(super) struct PageParams {
    from: Option<u64>,
    count: Option<u64>,
    offset: Option<u64>,
}

/// `GET /v1/channels/{C}/artifacts/{id}`: lines of an artifact. Does not count as reading it.
pub(super) async fn artifact(
    State(admin): State<Shared>,
    Channel(channel, id): Channel<String>,
    Params(query): Params<PageParams>,
) -> Result<Json<ArtifactPage>, ApiError> {
    let (from, count) = (query.from.unwrap_or(1), query.count.unwrap_or(PAGE_LINES));
    if from == 0 || count == 0 {
        return Err(ApiError::malformed("`from` and `count` start at 1"));
    }
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let found = admin.store.artifact(&channel, &named(&id)).await?;
    let artifact = readable(found, conversation.newest_artifact, &id, from).map_err(no_artifact)?;
    let offset = query.offset.unwrap_or(0);
    let range = LineRange { from, offset, count, max_bytes: PAGE_MAX_BYTES };
    let found = admin.store.artifact_lines(&channel, &artifact, range).await?;
    let found = found.ok_or_else(|| lost_artifact(&channel, &artifact))?;
    Ok(Json(ArtifactPage::of(&artifact, from, found)))
}

pub(super) fn lost_artifact(channel: &ChannelId, artifact: &Artifact) -> ApiError {
    ApiError::not_found(
        "artifact_lost",
        format!("the file of artifact {} of {channel} is missing or damaged", artifact.id),
        "`cairn store verify` lists missing files; a backup may have it",
    )
}

pub(super) fn no_artifact(error: NoArtifact) -> ApiError {
    let (code, hint) = match error {
        NoArtifact::Unknown { .. } => {
            ("no_such_artifact", "`cairn artifact list C` lists the artifacts of a channel")
        }
        NoArtifact::Left { .. } => ("artifact_expired", "`cairn history` shows the whole message"),
        NoArtifact::Expired { .. } => {
            ("artifact_expired", "artifact_days and artifact_mib under [result_guard] set when they expire")
        }
        NoArtifact::Lost { .. } => ("artifact_lost", "it was given up as lost; a backup may have it"),
        NoArtifact::PastItsEnd { .. } => ("no_such_range", "lines are counted from 1"),
    };
    ApiError::not_found(code, error.to_string(), hint)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactBody {
    instruction: Option<String>,
    #[serde(default)]
    wait: bool,
}

/// `POST /v1/channels/{C}/compact`: 202 with the run, or with `wait` 200 with its outcome and summary. 200 without a
/// run if there is nothing to compact (`nothing` says why) or if room was made without a run (`made`).
pub(super) async fn compact(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    Body(body): Body<CompactBody>,
) -> Result<Response, ApiError> {
    let CompactBody { instruction, wait } = body;
    if instruction.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(ApiError::malformed("`instruction` has a NUL character; remove it"));
    }
    let instruction = instruction.filter(|text| !text.trim().is_empty());
    let runtime = admin.runtime()?;
    let ticket = match runtime.compact(&channel, instruction, false).await.map_err(runtime_error)? {
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
    let (run, queued) = (Some(ticket.run.clone()), ticket.queued);
    let begun = CompactRecord { run, queued, ..CompactRecord::default() };
    if !wait {
        return Ok((StatusCode::ACCEPTED, Json(begun)).into_response());
    }
    let Some(end) = ticket.ended.await else {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            format!("run {} will not end: the conversation was archived, or the daemon stops", ticket.run),
            "`cairn context` shows its outcome",
        ));
    };
    let record = CompactRecord {
        run: Some(end.run.clone()),
        outcome: Some(end.outcome),
        end: Some(end.to_outcome()),
        summary: end.summary.map(|summary| summary.text),
        ..begun
    };
    Ok(Json(record).into_response())
}

/// `POST /v1/channels/{C}/new`.
pub(super) async fn new(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
) -> Result<Json<NewGenerationRecord>, ApiError> {
    let generation = admin.runtime()?.new_generation(&channel).await.map_err(runtime_error)?;
    Ok(Json(NewGenerationRecord { channel, generation }))
}

/// `POST /v1/channels/{C}/stop`.
pub(super) async fn stop(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
) -> Result<Json<StopRecord>, ApiError> {
    let stopped = admin.runtime()?.stop_turn(&channel).await.map_err(runtime_error)?;
    Ok(Json(StopRecord { channel, stopped }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitBody {
    below: Option<Tier>,
}

/// `POST /v1/channels/{C}/wait` `{"below": TIER}`: returns when the channel's tier is below TIER, or when no run is in
/// progress or due. Without `below` it returns at once.
pub(super) async fn wait(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    Body(body): Body<WaitBody>,
) -> Result<Json<GaugeRecord>, ApiError> {
    if let Some(below) = body.below {
        admin.runtime()?.wait_calm(&channel, below).await;
    }
    let (conversation, settings) = admin.with_settings(&channel).await?;
    Ok(Json(GaugeRecord::of(&conversation, &settings)))
}
