//! Summaries: lists them, and shows one with its sources and omissions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::compaction::{LeftOut, SummarySource, left_out};
use cairn_core::store_port::Store as _;
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::summary::Summary;

use crate::api::shared::{Channel, Shared};
use cairn_api::records::{LeftOutRecord, SummaryLine, SummaryState, SummaryView, summary_lines};

/// Entries of a summary's range that are read at once.
const PAGE: usize = 500;

/// `GET /v1/channels/{C}/summaries`: all of the channel, from all sessions, in the order of their creation.
pub async fn list(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
) -> Result<Json<Vec<SummaryLine>>, ApiError> {
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let ends = admin.store.summaries(channel).await?;
    Ok(Json(summary_lines(&ends, |id| conversation.stack.summary(id).is_some())))
}

/// `GET /v1/channels/{C}/summaries/{id}`.
pub async fn show(
    State(admin): State<Shared>,
    Channel(channel, id): Channel<String>,
) -> Result<Json<SummaryView>, ApiError> {
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let ends = admin.store.summaries(channel.clone()).await?;
    let mut lines = summary_lines(&ends, |id| conversation.stack.summary(id).is_some());
    let missing = || {
        ApiError::not_found(
            "no_such_summary",
            format!("there is no summary {id} in {channel}"),
            "`cairn summary list C` lists the summaries of a channel",
        )
    };
    let idx = lines.iter().position(|line| line.id.as_str() == id).ok_or_else(missing)?;
    let line = lines.remove(idx);
    let found = ends
        .into_iter()
        .map(|(_, end)| end)
        .find(|end| end.summary.as_ref().is_some_and(|summary| summary.id == line.id));
    let end = found.ok_or_else(missing)?;
    let summary = end.summary.ok_or_else(missing)?;
    let is_source = |source: &SummaryLine| source.state == SummaryState::Merged(summary.id.clone());
    let mut sources: Vec<SummaryLine> = lines.into_iter().filter(is_source).collect();
    sources.sort_by_key(|source| source.from_seq);
    let (entries, wordless, left_out) = compare(&admin, &channel, &summary).await?;
    Ok(Json(SummaryView {
        channel,
        line,
        text: summary.text,
        identifiers: summary.identifiers,
        run: end.run,
        trigger: end.trigger,
        duration_ms: end.duration_ms,
        sources,
        entries,
        wordless,
        left_out,
    }))
}

/// Compares a summary with its range: the number of entries with and without text, and what it leaves out.
async fn compare(
    admin: &Shared,
    channel: &ChannelId,
    summary: &Summary,
) -> Result<(u64, u64, Vec<LeftOutRecord>), ApiError> {
    let shown = Arc::new(SummarySource::of_summaries(std::slice::from_ref(summary), []));
    let (mut entries, mut wordless, mut found) = (0, 0, LeftOut::new());
    let mut from = summary.from_seq;
    while from <= summary.to_seq {
        let page = admin.store.entries(channel, from, summary.to_seq, PAGE).await?;
        let Some(last) = page.last() else { break };
        from = Seq(last.seq.0 + 1);
        let (with_words, without): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|entry| !entry.is_deleted() && !entry.is_expired());
        (entries, wordless) = (entries + with_words.len() as u64, wordless + without.len() as u64);
        let shown = Arc::clone(&shown);
        // The text may be long, and this thread serves other requests, too.
        let compared = tokio::task::spawn_blocking(move || {
            left_out(&with_words, &shown, &mut found);
            found
        });
        found = compared.await.map_err(|error| ApiError::internal(&error))?;
    }
    Ok((entries, wordless, LeftOutRecord::all(found)))
}
