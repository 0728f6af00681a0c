//! What has been answered before: read from the channel's history.

use std::collections::{HashMap, HashSet};

use axum::http::StatusCode;
use cairn_core::ids::ChannelId;
use cairn_core::message::Role;

use crate::cli::client::{CallError, Client, with_params};
use crate::cli::connect::channel_path;
use crate::cli::failure::Failure;
use crate::records::EntryRecord;

const PAGE: usize = 2_000;

/// The ids of messages whose turn ended with a reply.
pub(super) async fn answered(client: &Client, channel: &ChannelId) -> Result<HashSet<String>, Failure> {
    let mut turns: HashMap<String, (Vec<String>, bool)> = HashMap::new();
    let mut from = 1_u64;
    loop {
        let params = [("from", Some(from.to_string())), ("limit", Some(PAGE.to_string()))];
        let path = with_params(&channel_path(channel, "history"), &params);
        let page: Vec<EntryRecord> = match client.get(&path).await {
            Ok(page) => page,
            Err(CallError::Api { status: StatusCode::NOT_FOUND, .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let Some(last) = page.iter().filter_map(|entry| entry.seq).max() else {
            break;
        };
        for entry in &page {
            note(&mut turns, entry);
        }
        from = last.0 + 1;
    }
    Ok(turns.into_values().filter(|(_, answered)| *answered).flat_map(|(ids, _)| ids).collect())
}

fn note(turns: &mut HashMap<String, (Vec<String>, bool)>, entry: &EntryRecord) {
    if entry.seq.is_none() {
        return;
    }
    let (ids, answered) = turns.entry(entry.turn.to_string()).or_default();
    match entry.role {
        Role::User => ids.extend(entry.message.as_ref().map(ToString::to_string)),
        // An answer that still wants tools is not the last word of its turn.
        Role::Assistant => *answered = entry.tool_calls.is_empty(),
        Role::Tool => *answered = false,
    }
}
