//! The outbox: what is owed to chat networks, what they would not take, and what nobody knows the fate of.

use axum::Json;
use axum::extract::State;
use cairn_core::ids::{ChannelId, OutboxId, Seq, TurnId};
use cairn_core::ports::{Archive, DeliveryState, OutboxItem, OutboxStore, StoreError};
use cairn_platforms::local::ApiError;
use cairn_store::Store;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Admin, Shared};

/// Characters of a delivery's words that are shown.
const WORDS_SHOWN: usize = 200;

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRecord {
    /// The delivery.
    pub id: OutboxId,
    /// Where to.
    pub channel: ChannelId,
    /// The turn that it answers.
    pub turn: TurnId,
    /// The entry that is the reply; of a note, the newest entry it is about.
    pub seq: Seq,
    /// When it was journalled.
    pub at: Timestamp,
    /// Seconds since.
    pub age_seconds: u64,
    /// `owed`, `dead`, `unknown`.
    pub state: String,
    /// The platform's reason, of one that is not owed.
    pub reason: Option<String>,
    /// Parts that are there already.
    pub parts_sent: u64,
    /// Its first words.
    pub text: String,
}

/// `GET /v1/outbox`: oldest first.
pub(super) async fn list(State(admin): State<Shared>) -> Result<Json<Vec<OutboxRecord>>, ApiError> {
    let mut records = Vec::new();
    for item in items(&admin).await? {
        records.push(record(&admin, item).await?);
    }
    Ok(Json(records))
}

async fn items(admin: &Admin) -> Result<Vec<OutboxItem>, ApiError> {
    Ok(admin.store.deliveries().await?)
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
