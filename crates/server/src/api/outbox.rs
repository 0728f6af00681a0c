//! The outbox: deliveries that are pending, refused by a chat network, or of unknown outcome.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::store_port::Store as _;
use cairn_store::Store;
use cairn_types::ids::OutboxId;
use cairn_types::ports::{DeliveryState, OutboxItem, StoreError};

use crate::api::shared::{
    Admin, LIMIT_MAX, ListParams, Page, Params, Segment, Shared, limit_or, no_such_delivery, no_such_place,
    runtime_error,
};
use cairn_api::records::OutboxRecord;

/// Longest text of a delivery that is shown, in characters.
const WORDS_SHOWN: usize = 200;

/// `GET /v1/outbox`: oldest first.
pub async fn list(
    State(admin): State<Shared>,
    Params(query): Params<ListParams>,
) -> Result<Page<OutboxRecord>, ApiError> {
    let limit = limit_or(query.limit, LIMIT_MAX)?;
    let after = query.after.map(|after| after.parse().map_err(|_| no_such_place(&after))).transpose()?;
    let found = admin.store.delivery_page(after, limit + 1).await?;
    let Page { items, next } = Page::of(found, limit, |(n, _)| n.to_string());
    let mut records = Vec::with_capacity(items.len());
    let mut names = BTreeMap::new();
    for (_, item) in items {
        if !names.contains_key(&item.channel) {
            names.insert(item.channel.clone(), admin.chat_name(&item.channel).await);
        }
        let name = names.get(&item.channel).cloned().flatten();
        records.push(record(&admin, item, name).await?);
    }
    Ok(Page { items: records, next })
}

/// `POST /v1/outbox/{id}/retry`: sends a delivery again, starting with the first part that did not arrive.
pub async fn retry(
    State(admin): State<Shared>,
    Segment(id): Segment,
) -> Result<Json<OutboxRecord>, ApiError> {
    let id = OutboxId::from(id);
    let before = item(&admin, &id).await?;
    admin.runtime()?.retry_delivery(&before.channel, &id).await.map_err(runtime_error)?;
    // It may be sent by now.
    let now = admin.store.delivery(&id).await?;
    let item = now.unwrap_or(OutboxItem { state: DeliveryState::Owed, ..before });
    let name = admin.chat_name(&item.channel).await;
    Ok(Json(record(&admin, item, name).await?))
}

/// `DELETE /v1/outbox/{id}`: drops a delivery and returns its last state.
pub async fn drop(State(admin): State<Shared>, Segment(id): Segment) -> Result<Json<OutboxRecord>, ApiError> {
    let id = OutboxId::from(id);
    let item = item(&admin, &id).await?;
    admin.runtime()?.drop_delivery(&item.channel, &id).await.map_err(runtime_error)?;
    let name = admin.chat_name(&item.channel).await;
    Ok(Json(record(&admin, item, name).await?))
}

async fn item(admin: &Admin, id: &OutboxId) -> Result<OutboxItem, ApiError> {
    admin.store.delivery(id).await?.ok_or_else(|| no_such_delivery(id))
}

async fn record(
    admin: &Admin,
    item: OutboxItem,
    chat_name: Option<String>,
) -> Result<OutboxRecord, ApiError> {
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
        chat_name,
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

/// The text of a note, or of the reply to deliver.
async fn words(store: &Store, item: &OutboxItem) -> Result<String, StoreError> {
    let text = match &item.note {
        Some(note) => note.clone(),
        None => {
            let entries = store.entries(&item.channel, item.seq, item.seq, 1).await?;
            entries.first().map(|entry| entry.text()).unwrap_or_default()
        }
    };
    let files = item.files.iter().map(|file| format!("[file: {}]", file.name));
    Ok(files.fold(text, |text, file| if text.is_empty() { file } else { format!("{text} {file}") }))
}
