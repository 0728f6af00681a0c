//! Explains a past compaction run: what happened in it, and its requests, rebuilt from the journal.

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::trace::{Gap, RunStory, run_story};
use cairn_types::event::RunWork;
use cairn_types::ids::ChannelId;
use cairn_types::model::Usage;

use crate::api::explain::{CallParams, Wanted, call_record, one_prompt};
use crate::api::shared::{Admin, Channel, Params, Shared};
use cairn_api::records::{CallOf, FailedAttempt, PromptRecord, RunExplanation};

/// `GET /v1/channels/{C}/runs/{R}/explain`.
pub async fn explain(
    State(admin): State<Shared>,
    Channel(channel, run): Channel<String>,
) -> Result<Json<RunExplanation>, ApiError> {
    let story = story_of(&admin, &channel, &run).await?;
    let mut calls = Vec::with_capacity(story.calls.len());
    for (idx, call) in story.calls.iter().enumerate() {
        calls.push(call_record(&admin, idx, call, None).await?);
    }
    let RunStory { run, failed, chunks, end, .. } = story;
    let mut missing = Vec::new();
    let of_models = end.iter().flat_map(|(_, end)| end.spent.values()).any(|usage| usage.tokens() > 0);
    if calls.is_empty() && of_models {
        missing.push(Gap::NoTrace.to_string());
    }
    let sources = match run.work {
        RunWork::Merge { sources, .. } => sources,
        RunWork::Sealed | RunWork::Truncated => Vec::new(),
    };
    let costs = || calls.iter().filter_map(|call| call.trace.as_ref()?.cost);
    let ended = end.as_ref().map(|(_, end)| end);
    let failed = failed.into_iter().map(|(at, attempt, reason)| FailedAttempt { at, attempt, reason });
    let chat_name = admin.chat_name(&channel).await;
    Ok(Json(RunExplanation {
        chat_name,
        trigger: run.trigger,
        from_seq: run.from_seq,
        to_seq: run.to_seq,
        messages: run.messages,
        sources,
        instruction: run.instruction,
        started_at: run.started_at,
        ended_at: end.as_ref().map(|(at, _)| *at),
        outcome: ended.map(|end| end.outcome),
        reason: ended.and_then(|end| end.reason.clone()),
        summary: ended.and_then(|end| Some(end.summary.as_ref()?.id.clone())),
        memories: ended.map_or(0, |end| end.memories.len() as u64),
        tokens_before: run.tokens_before,
        tokens_after: ended.map(|end| end.tokens_after),
        chunks: chunks.len() as u64,
        failed: failed.collect(),
        usage: calls.iter().fold(Usage::default(), |sum, call| sum + call.usage),
        cost: costs().next().map(|_| costs().sum()),
        currency: admin.agent_registry.loaded().config.limits.currency.clone(),
        calls,
        missing,
        run: run.id,
        channel,
    }))
}

/// `GET /v1/channels/{C}/runs/{R}/prompt`: the request of call number `call`, by default the last one.
pub async fn prompt(
    State(admin): State<Shared>,
    Channel(channel, run): Channel<String>,
    Params(CallParams { call }): Params<CallParams>,
) -> Result<Json<PromptRecord>, ApiError> {
    let story = story_of(&admin, &channel, &run).await?;
    let n_calls = story.calls.len();
    let idx = call.unwrap_or(n_calls).checked_sub(1).filter(|idx| *idx < n_calls).ok_or_else(|| {
        let message = match call {
            Some(call) => format!("run {run} has no call {call}: it has {n_calls}"),
            None => format!("no model was called in run {run}, as far as the journal knows"),
        };
        ApiError::not_found("no_such_call", message, "`cairn explain C --run ID` lists the calls of a run")
    })?;
    let at = story.calls[idx].trace.iter().map(|trace| trace.at_n).collect();
    let conversation = admin.store.conversations_at(&channel, at).await?.pop();
    let of = CallOf::Run(story.run.id.clone());
    let wanted = Wanted { of, calls: &story.calls, idx, told: None, talk: story.talk(idx) };
    one_prompt(&admin, &channel, wanted, conversation).await.map(Json)
}

async fn story_of(admin: &Admin, channel: &ChannelId, run: &str) -> Result<RunStory, ApiError> {
    // Reports an unknown channel as such, not as an unknown run.
    admin.conversation(channel).await?;
    let records = admin.store.run_records(channel, run.into()).await?;
    run_story(&records).ok_or_else(|| {
        ApiError::not_found(
            "no_such_run",
            format!("no compaction run `{run}` in {channel}"),
            "`cairn context C` lists the runs of a channel",
        )
    })
}
