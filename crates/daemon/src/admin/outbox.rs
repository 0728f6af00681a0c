//! The outbox: what is owed to chat networks, what they would not take, and what nobody knows the fate of.

use axum::Json;
use axum::extract::State;
use cairn_core::ids::{ChannelId, OutboxId, Seq, TurnId};
use cairn_core::ports::{DeliveryState, OutboxItem, Store as _, StoreError};
use cairn_platforms::local::ApiError;
use cairn_store::Store;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::params::{Segment, segment};
use super::{Admin, Shared, house_error};

/// Characters of a delivery's words that are shown.
const WORDS_SHOWN: usize = 200;

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRecord {
    pub id: OutboxId,
    pub channel: ChannelId,
    pub turn: TurnId,
    /// The entry that is the reply; of a note, the newest entry it is about.
    pub seq: Seq,
    pub at: Timestamp,
    /// Seconds since.
    pub age_seconds: u64,
    /// `owed`, `dead`, `unknown`.
    pub state: String,
    /// The platform's reason, of one that is not owed.
    pub reason: Option<String>,
    pub parts_sent: u64,
    pub text: String,
}

/// How many deliveries platforms have not confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxCounts {
    pub owed: u64,
    /// The platform will not take them.
    pub dead: u64,
    pub unknown: u64,
}

impl OutboxCounts {
    pub(super) fn of(items: &[OutboxItem]) -> Self {
        let mut counts = Self::default();
        for item in items {
            match item.state {
                DeliveryState::Owed => counts.owed += 1,
                DeliveryState::Dead { .. } => counts.dead += 1,
                DeliveryState::Unknown { .. } => counts.unknown += 1,
            }
        }
        counts
    }
}

/// `GET /v1/outbox`: oldest first.
pub(super) async fn list(State(admin): State<Shared>) -> Result<Json<Vec<OutboxRecord>>, ApiError> {
    let mut records = Vec::new();
    for item in items(&admin).await? {
        records.push(record(&admin, item).await?);
    }
    Ok(Json(records))
}

/// `POST /v1/outbox/{id}/retry`: it is owed again, from its first part that is not there.
pub(super) async fn retry(State(admin): State<Shared>, id: Segment) -> Result<Json<OutboxRecord>, ApiError> {
    let (before, id) = known(&admin, id).await?;
    admin.runtime()?.retry_delivery(&id).await.map_err(house_error)?;
    // It may have been sent since.
    let now = items(&admin).await?.into_iter().find(|item| item.id == id);
    let item = now.unwrap_or(OutboxItem { state: DeliveryState::Owed, ..before });
    Ok(Json(record(&admin, item).await?))
}

/// `DELETE /v1/outbox/{id}`: gives it up, and answers with what it was.
pub(super) async fn drop(State(admin): State<Shared>, id: Segment) -> Result<Json<OutboxRecord>, ApiError> {
    let (item, id) = known(&admin, id).await?;
    admin.runtime()?.drop_delivery(&id).await.map_err(house_error)?;
    Ok(Json(record(&admin, item).await?))
}

async fn known(admin: &Admin, id: Segment) -> Result<(OutboxItem, OutboxId), ApiError> {
    let id = OutboxId::from(segment(id)?);
    match items(admin).await?.into_iter().find(|item| item.id == id) {
        Some(item) => Ok((item, id)),
        None => Err(no_such_delivery(&id)),
    }
}

async fn items(admin: &Admin) -> Result<Vec<OutboxItem>, ApiError> {
    match &admin.runtime {
        Some(runtime) => runtime.deliveries().await.map_err(house_error),
        None => Ok(admin.store.deliveries().await?),
    }
}

/// The error of a delivery that is not owed.
pub(super) fn no_such_delivery(id: &OutboxId) -> ApiError {
    ApiError::not_found(
        "no_such_delivery",
        format!("no delivery {id}"),
        "`cairn outbox list` lists what is owed, dead or of unknown fate",
    )
}

async fn record(admin: &Admin, item: OutboxItem) -> Result<OutboxRecord, ApiError> {
    let text = words(&admin.store, &item).await?;
    let age = admin.clock.now().duration_since(item.at).as_secs();
    let (state, reason) = match item.state {
        DeliveryState::Owed => ("owed", None),
        DeliveryState::Dead { reason } => ("dead", Some(reason)),
        DeliveryState::Unknown { reason } => ("unknown", Some(reason)),
    };
    Ok(OutboxRecord {
        id: item.id,
        channel: item.channel,
        turn: item.turn,
        seq: item.seq,
        at: item.at,
        age_seconds: u64::try_from(age).unwrap_or(0),
        state: state.to_owned(),
        reason,
        parts_sent: item.sent.len() as u64,
        text: text.chars().take(WORDS_SHOWN).collect(),
    })
}

/// The words of a note, or of the reply that is to be delivered.
async fn words(store: &Store, item: &OutboxItem) -> Result<String, StoreError> {
    if let Some(note) = &item.note {
        return Ok(note.clone());
    }
    let entries = store.entries(&item.channel, item.seq, item.seq, 1).await?;
    Ok(entries.first().map(|entry| entry.text()).unwrap_or_default())
}
