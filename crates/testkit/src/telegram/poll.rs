//! `getUpdates`: the long poll, with its rules for offsets and rivals.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Shared;
use super::wire::{Params, Refusal};
use super::world::State;

/// An offset further ahead of the newest update than this is taken for one of other times.
const AHEAD_MAX: i64 = 10;

const TIMEOUT_MAX_SECS: u64 = 50;

pub(super) async fn get_updates(shared: &Arc<Shared>, params: &Params) -> Result<Value, Refusal> {
    let limit = params.integer("limit").map_or(100, |limit| usize::try_from(limit).unwrap_or(100));
    let limit = limit.clamp(1, 100);
    let timeout = params.integer("timeout").and_then(|secs| u64::try_from(secs).ok()).unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(timeout.min(TIMEOUT_MAX_SECS));
    let offset = params.integer("offset").unwrap_or(0);
    let mut changed = shared.state.changes();
    let mine = shared.update(|state| {
        if let Some(Value::Array(kinds)) = params.json("allowed_updates") {
            state.allowed = Some(kinds.iter().filter_map(|kind| Some(kind.as_str()?.to_owned())).collect());
        }
        if state.webhook.is_none() && state.other_pollers == 0 {
            confirm(state, offset);
        }
        state.newest_poll += 1;
        state.newest_poll
    });
    loop {
        if let Some(answer) = look(&shared.state.lock(), mine, limit) {
            return answer;
        }
        let waited = tokio::time::timeout_at(deadline, changed.changed()).await;
        if !matches!(waited, Ok(Ok(()))) {
            return Ok(Value::Array(Vec::new()));
        }
    }
}

/// What a poll is told now; `None`: it waits.
fn look(state: &State, mine: u64, limit: usize) -> Option<Result<Value, Refusal>> {
    if state.webhook.is_some() {
        let text = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the \
                    webhook first";
        return Some(Err(Refusal::new(409, text)));
    }
    if state.newest_poll != mine || state.other_pollers > 0 {
        let text = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is \
                    running";
        return Some(Err(Refusal::new(409, text)));
    }
    if state.holds > 0 || state.queue.is_empty() {
        return None;
    }
    Some(Ok(state.queue.iter().take(limit).map(|waiting| waiting.json.clone()).collect()))
}

/// Forgets what an offset confirms.
fn confirm(state: &mut State, offset: i64) {
    if offset < 0 {
        let keep = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        let n = state.queue.len().saturating_sub(keep);
        state.queue.drain(..n);
    } else if offset > state.next_update + AHEAD_MAX {
        // Of the time before the ids began again: the server begins at the head, and forgets only what that offset
        // has just confirmed.
        let before = state.queue.iter().position(|waiting| waiting.id + 1 == offset);
        state.queue.drain(..before.map_or(0, |at| at + 1));
    } else if offset > 0 {
        let before = state.queue.iter().rposition(|waiting| waiting.id < offset);
        state.queue.drain(..before.map_or(0, |at| at + 1));
    }
    if offset > 0 {
        state.confirmed = offset;
    }
}
