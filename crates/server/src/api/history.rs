//! A channel's history, from either end.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::conversation::Conversation;
use cairn_store::HistoryPage;
use cairn_types::ids::{ChannelId, Seq, TurnId};
use cairn_types::message::Entry;
use cairn_types::people::said::{HistoryQuery, SaidFilter};
use cairn_types::text::when::When;
use cairn_types::tokens::Correction;
use serde::Deserialize;

use crate::api::files::is_gone;
use crate::api::shared::{Admin, Channel, Page, Params, Shared, limit};
use cairn_api::records::{EndRecord, EntryRecord, ReactionRecord, pending_records};

#[derive(Debug, Default, Deserialize)]
pub struct HistoryParams {
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub limit: Option<usize>,
    pub tail: Option<usize>,
    pub since: Option<String>,
    pub until: Option<String>,
    pub user: Option<String>,
    pub turn: Option<TurnId>,
}

/// `GET /v1/channels/{C}/history`: the entries of all sessions, oldest first, followed by pending messages.
pub async fn history(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    Params(asked): Params<HistoryParams>,
) -> Result<Page<EntryRecord>, ApiError> {
    let query = admin.history_query(&asked)?;
    let (conversation, _awake) = admin.conversation(&channel).await?;
    check_range(&asked, &channel, conversation.next_seq.0)?;
    let correction = match admin.settings(&conversation).await? {
        Some(settings) => conversation.correction(&settings.model),
        None => Correction::default(),
    };
    let pending = pending(&asked, &query, &conversation, &correction);
    let query = match &asked.turn {
        None => query,
        Some(turn) => match admin.store.turn_range(&channel, turn).await? {
            Some((first, last)) => {
                HistoryQuery { from: query.from.max(first), to: query.to.min(last), ..query }
            }
            // The turn is pending and has no entry yet.
            None if !pending.is_empty() => HistoryQuery { to: Seq(0), ..query },
            None => return Err(no_such_turn(turn, &channel)),
        },
    };
    // Pending messages are not paged: all of them follow the last entry. A channel's queue limits their number.
    let n_pending = pending.len();
    // Pending messages are the newest, so fewer entries fit.
    let of_entries = if query.newest { query.limit.saturating_sub(n_pending) } else { query.limit };
    let most = query.limit;
    let newest = query.newest;
    let page = admin.store.history(&channel, HistoryQuery { limit: of_entries, ..query }).await?;
    let HistoryPage { entries, mut next } = page;
    let mut items = admin.entry_records(&channel, &entries, &conversation, &correction).await?;
    if newest || (next.is_none() && items.len() < most) {
        items.extend(pending);
    } else if next.is_none() && n_pending > 0 {
        next = Some(conversation.next_seq);
    }
    Ok(Page { items, next: next.map(|seq| seq.to_string()) })
}

impl Admin {
    fn history_query(&self, asked: &HistoryParams) -> Result<HistoryQuery, ApiError> {
        if asked.limit.is_some() && asked.tail.is_some() {
            return Err(ApiError::malformed("`limit` and `tail` cannot be combined: give one of them"));
        }
        Ok(HistoryQuery {
            from: Seq(asked.from.unwrap_or(1)),
            to: Seq(asked.to.unwrap_or(u64::MAX)),
            said: SaidFilter {
                since: self.when(asked.since.as_deref())?.map(|when| when.from),
                until: self.when(asked.until.as_deref())?.map(|when| when.to),
                user: asked.user.clone(),
            },
            limit: limit(asked.limit.or(asked.tail))?,
            newest: asked.tail.is_some(),
        })
    }

    /// Parses a time in a query.
    pub(super) fn when(&self, text: Option<&str>) -> Result<Option<When>, ApiError> {
        text.map(|text| When::read(text, self.clock.now()).map_err(ApiError::malformed)).transpose()
    }

    async fn entry_records(
        &self,
        channel: &ChannelId,
        entries: &[Arc<Entry>],
        conversation: &Conversation,
        correction: &Correction,
    ) -> Result<Vec<EntryRecord>, ApiError> {
        let mut ends = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => self.store.turn_ends(channel, first.seq, last.seq).await?,
            _ => HashMap::new(),
        };
        let reactions = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => self.store.reactions(channel, first.seq, last.seq).await?,
            _ => HashMap::new(),
        };
        let prices = self.agent_registry.loaded().config.prices();
        let record = |entry: &Arc<Entry>| {
            let end = ends.remove(&entry.seq).map(|end| EndRecord::of(end, &prices));
            let reactions = reactions.get(&entry.seq).into_iter().flatten().map(ReactionRecord::of).collect();
            EntryRecord { end, reactions, ..EntryRecord::of(entry, conversation, correction) }
        };
        let mut records: Vec<EntryRecord> = entries.iter().map(record).collect();
        for file in records.iter_mut().flat_map(|record| &mut record.files) {
            file.gone = is_gone(self, channel, &file.file.artifact).await?;
        }
        Ok(records)
    }
}

/// The pending messages that match the query, in order. None if `to` is given.
fn pending(
    asked: &HistoryParams,
    query: &HistoryQuery,
    conversation: &Conversation,
    correction: &Correction,
) -> Vec<EntryRecord> {
    if asked.to.is_some() {
        return Vec::new();
    }
    let fits = |n: usize, record: &EntryRecord| {
        let author = conversation.pending.get(n).map(|pending| &pending.author);
        query.said.fits(record.at, author) && asked.turn.as_ref().is_none_or(|turn| *turn == record.turn)
    };
    let records = pending_records(conversation, correction).into_iter().enumerate();
    records.filter(|(n, record)| fits(*n, record)).map(|(_, record)| record).collect()
}

fn check_range(asked: &HistoryParams, channel: &ChannelId, next_seq: u64) -> Result<(), ApiError> {
    let (from, last) = (asked.from.unwrap_or(1), asked.to.unwrap_or(u64::MAX));
    if from <= last && from <= next_seq {
        return Ok(());
    }
    let range = match next_seq {
        1 => "it has no entries yet".to_owned(),
        next_seq => format!("its entries go from 1 to {}", next_seq - 1),
    };
    let upto = asked.to.map_or_else(|| "on".to_owned(), |to| format!("to {to}"));
    Err(ApiError::not_found(
        "no_such_range",
        format!("no entries from {from} {upto} in {channel}: {range}"),
        "the next page starts at the last `seq` + 1",
    ))
}

fn no_such_turn(turn: &TurnId, channel: &ChannelId) -> ApiError {
    ApiError::not_found(
        "no_such_turn",
        format!("there is no turn {turn} in {channel}"),
        "`cairn history C` shows the turns of a channel with their ids",
    )
}
