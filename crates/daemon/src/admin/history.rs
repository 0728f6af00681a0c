//! Raw words: the history of a channel, and the search in it.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cairn_core::ids::Seq;
use cairn_core::memory::Scope;
use cairn_core::ports::{HitKind, Query, Store as _};
use cairn_core::tokens::Correction;
use cairn_platforms::local::ApiError;
use serde::Deserialize;

use super::Shared;
use super::params::{Params, Segment, limit, params, segment};
use crate::records::{EntryRecord, pending_records};

#[derive(Debug, Deserialize)]
pub(super) struct HistoryParams {
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SearchParams {
    q: Option<String>,
    limit: Option<usize>,
    kind: Option<String>,
}

/// `GET /v1/channels/{C}/history`: entries of all generations in order; after the last of them, what is pending.
pub(super) async fn history(
    State(admin): State<Shared>,
    channel: Segment,
    query: Params<HistoryParams>,
) -> Result<Json<Vec<EntryRecord>>, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let HistoryParams { from, to, limit: asked } = params(query)?;
    let limit = limit(asked)?;
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let next_seq = conversation.next_seq.0;
    let (from, last) = (from.unwrap_or(1), to.unwrap_or(u64::MAX));
    if from > last || from > next_seq {
        let there_is = match next_seq {
            1 => "it has no entries yet".to_owned(),
            next_seq => format!("its entries go from 1 to {}", next_seq - 1),
        };
        let upto = to.map_or_else(|| "on".to_owned(), |to| format!("to {to}"));
        return Err(ApiError::not_found(
            "no_such_range",
            format!("no entries from {from} {upto} in {channel}: {there_is}"),
            "a next page starts at the last `seq` + 1",
        ));
    }
    let correction = match admin.known_settings(&conversation).await? {
        Some(settings) => conversation.correction(&settings.model),
        None => Correction::default(),
    };
    let entries = admin.store.entries(&channel, Seq(from), Seq(last), limit).await?;
    let mut records: Vec<_> =
        entries.iter().map(|entry| EntryRecord::of(entry, &conversation, &correction)).collect();
    if to.is_none() && records.len() < limit {
        let room = limit - records.len();
        records.extend(pending_records(&conversation, &correction).into_iter().take(room));
    }
    Ok(Json(records))
}

/// Header of a search's answer: records of the journal whose words are not in the index yet. Not there: all are.
pub(crate) const UNINDEXED: &str = "cairn-unindexed";

/// `GET /v1/channels/{C}/search`: best first.
pub(super) async fn search(
    State(admin): State<Shared>,
    channel: Segment,
    query: Params<SearchParams>,
) -> Result<Response, ApiError> {
    let channel = admin.resolve(&segment(channel)?)?;
    let SearchParams { q, limit: asked, kind } = params(query)?;
    let limit = limit(asked)?;
    let kind = kind.as_deref().map(hit_kind).transpose()?;
    let text = q.unwrap_or_default();
    if text.trim().is_empty() {
        return Err(ApiError::malformed("`q` is empty; give the words to search for"));
    }
    // Also for a channel that was never seen: an unknown channel is an error, not an empty result.
    admin.conversation(&channel).await?;
    let scopes = vec![Scope::Agent, Scope::learnt_in(&channel, None)];
    let query = Query { channel, text, kind, scopes, limit, settled: true };
    let (hits, lacks) = admin.store.found(query).await?;
    Ok(match lacks {
        0 => Json(hits).into_response(),
        lacks => ([(UNINDEXED, lacks.to_string())], Json(hits)).into_response(),
    })
}

fn hit_kind(name: &str) -> Result<HitKind, ApiError> {
    match name {
        "entry" => Ok(HitKind::Entry),
        "summary" => Ok(HitKind::Summary),
        "memory" => Ok(HitKind::Memory),
        _ => Err(ApiError::malformed(format!(
            "`{name}` is not a kind of result; the kinds are entry, summary, memory"
        ))),
    }
}
