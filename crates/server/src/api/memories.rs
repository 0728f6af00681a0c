//! Memories for the operator: list, show, add, correct, unite, forget. Each change is an event in the journal.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::store_port::Store as _;
use cairn_store::MadeAt;
use cairn_types::event::{Event, MemoryEvent};
use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::{Memory, MemoryKind, MemorySave, Reach, Replaces, Scope, Source, TYPED, mint_id};
use cairn_types::ports::MemoryFilter;
use jiff::Timestamp;
use serde::Deserialize;

use crate::api::shared::{
    Admin, Body, LIMIT_MAX, Page, Params, Segment, Shared, limit, no_such_agent, no_such_place,
};
use cairn_api::records::MemoryView;

/// Default importance of a memory that a person adds.
const OPERATOR_IMPORTANCE: f64 = 0.8;

#[derive(Debug, Deserialize)]
pub struct ListParams {
    pub agent: Option<String>,
    pub scope: Option<String>,
    pub kind: Option<String>,
    pub subject: Option<String>,
    pub q: Option<String>,
    pub limit: Option<usize>,
    pub after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddBody {
    text: String,
    kind: String,
    scope: String,
    agent: Option<String>,
    subject: Option<String>,
    importance: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    pub text: Option<String>,
    pub kind: Option<String>,
    pub importance: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniteBody {
    pub others: Vec<MemoryId>,
    pub text: Option<String>,
}

/// `GET /v1/memories`: oldest first; with `q` the best match first.
pub async fn list(
    State(admin): State<Shared>,
    Params(asked): Params<ListParams>,
) -> Result<Page<Memory>, ApiError> {
    let limit = limit(asked.limit)?;
    let agents = match &asked.agent {
        Some(agent) => vec![AgentId::from(agent.as_str())],
        None => admin.agent_registry.ids(),
    };
    let filter = MemoryFilter {
        kind: asked.kind.as_deref().map(parse::<MemoryKind>).transpose()?,
        subject: asked.subject,
        query: asked.q.filter(|q| !q.trim().is_empty()),
        // One more shows whether there is another page.
        limit: limit + 1,
    };
    for agent in &agents {
        if !admin.agent_registry.knows(agent) && admin.store.memory_count(agent).await? == 0 {
            return Err(no_such_agent(agent));
        }
    }
    let scope = asked.scope.as_deref().map(parse).transpose()?;
    let after = asked.after.as_deref().map(place).transpose()?;
    if filter.query.is_none() {
        let found = admin.store.memory_page(agents, scope, filter, after).await?;
        let Page { items, next } =
            Page::of(found, limit, |((at, id), _)| format!("{}.{id}", at.as_nanosecond()));
        return Ok(Page { items: items.into_iter().map(|(_, memory)| memory).collect(), next });
    }
    if after.is_some() {
        return Err(ApiError::malformed(
            "`after` cannot be combined with `q`: a search has one page, best first",
        ));
    }
    let reach = [scope.map_or(Reach::All, Reach::Scope)];
    let mut items = admin.store.memories_of(agents, &reach, filter).await?;
    items.truncate(limit);
    Ok(Page { items, next: None })
}

/// Parses `after`: the time and id of the previous page's last memory.
fn place(after: &str) -> Result<MadeAt, ApiError> {
    let place = after.split_once('.').and_then(|(nanos, id)| {
        let created_at = Timestamp::from_nanosecond(nanos.parse().ok()?).ok()?;
        Some((created_at, MemoryId::from(id)))
    });
    place.ok_or_else(|| no_such_place(after))
}

/// `GET /v1/memories/{id}`: with its changes, and the turns that recalled it.
pub async fn show(State(admin): State<Shared>, Segment(id): Segment) -> Result<Json<MemoryView>, ApiError> {
    let memory = admin.memory(&id.into()).await?;
    let trail = admin.store.memory_trail(&memory.id).await?;
    Ok(Json(MemoryView::of(memory, trail)))
}

/// `POST /v1/memories`: adds a memory. An existing memory with this text counts one more occurrence.
pub(super) async fn add(
    State(admin): State<Shared>,
    Body(asked): Body<AddBody>,
) -> Result<Json<Memory>, ApiError> {
    let agent = asked.agent.map_or_else(|| admin.agent_registry.default_agent().clone(), AgentId::from);
    if !admin.agent_registry.knows(&agent) {
        return Err(no_such_agent(&agent));
    }
    let scope: Scope = parse(&asked.scope)?;
    let now = admin.clock.now();
    let save = MemorySave {
        agent: agent.clone(),
        scope: scope.clone(),
        kind: parse(&asked.kind)?,
        text: admin.checked_text(asked.text)?,
        subject: asked.subject.filter(|subject| !subject.trim().is_empty()),
        importance: checked_importance(asked.importance)?.unwrap_or(OPERATOR_IMPORTANCE),
        source: Source {
            channel: None,
            from_seq: None,
            to_seq: None,
            summary: None,
            model: TYPED.to_owned(),
            by: None,
            said_at: None,
            told_by: None,
        },
        sighting: format!("{TYPED}:{}", now.as_nanosecond()),
        explicit: true,
        replaces: Replaces::default(),
    };
    let fingerprint = save.fingerprint();
    admin.journal(Event::Memory(MemoryEvent::Saved(save))).await?;
    if let Some(memory) = admin.store.memory(&mint_id(&fingerprint)).await? {
        return Ok(Json(memory));
    }
    // Another memory was corrected to this text.
    let filter = MemoryFilter { limit: LIMIT_MAX, ..MemoryFilter::default() };
    let same = |memory: &Memory| memory.fingerprint() == fingerprint;
    let found = admin.store.memories(&agent, &[Reach::Scope(scope)], filter).await?.into_iter().find(same);
    found.map(Json).ok_or_else(|| ApiError::internal(&"the memory was journalled but cannot be found"))
}

/// `PATCH /v1/memories/{id}`.
pub async fn edit(
    State(admin): State<Shared>,
    Segment(id): Segment,
    Body(EditBody { text, kind, importance }): Body<EditBody>,
) -> Result<Json<Memory>, ApiError> {
    let id = MemoryId::from(id);
    let text = text.map(|text| admin.checked_text(text)).transpose()?;
    let kind = kind.as_deref().map(parse::<MemoryKind>).transpose()?;
    let importance = checked_importance(importance)?;
    if text.is_none() && kind.is_none() && importance.is_none() {
        return Err(ApiError::malformed("nothing to change; give `text`, `kind` or `importance`"));
    }
    admin.memory(&id).await?;
    admin.journal(Event::Memory(MemoryEvent::Edited { id: id.clone(), text, kind, importance })).await?;
    admin.memory(&id).await.map(Json)
}

/// `DELETE /v1/memories/{id}`: forgets a memory and returns its last state. It does not come back automatically.
pub async fn forget(State(admin): State<Shared>, Segment(id): Segment) -> Result<Json<Memory>, ApiError> {
    let memory = admin.memory(&id.into()).await?;
    forget_all(&admin, std::slice::from_ref(&memory)).await?;
    Ok(Json(memory))
}

/// Forgets memories, all of them or none. One that is gone meanwhile is no error.
///
/// # Errors
/// No daemon runs, or the journal cannot be written.
pub async fn forget_all(admin: &Admin, memories: &[Memory]) -> Result<(), ApiError> {
    let forgotten =
        |memory: &Memory| Event::Memory(MemoryEvent::Forgotten { id: memory.id.clone(), wished: true });
    admin.journal_all(memories.iter().map(forgotten).collect()).await
}

/// `POST /v1/memories/{id}/unite`: merges other memories into this one, with `text` or its own text. The others are
/// forgotten.
pub async fn unite(
    State(admin): State<Shared>,
    Segment(id): Segment,
    Body(UniteBody { others, text }): Body<UniteBody>,
) -> Result<Json<Memory>, ApiError> {
    let kept = admin.memory(&id.into()).await?;
    let mut all = Vec::with_capacity(others.len());
    for id in &others {
        all.push(admin.memory(id).await?);
    }
    let text = admin.checked_text(text.unwrap_or_else(|| kept.text.clone()))?;
    let events = cairn_core::memory::unite(&kept, &all, &text)
        .map_err(|error| ApiError::malformed(error.to_string()))?;
    admin.journal_all(events.into_iter().map(Event::Memory).collect()).await?;
    admin.memory(&kept.id).await.map(Json)
}

impl Admin {
    pub async fn memory(&self, id: &MemoryId) -> Result<Memory, ApiError> {
        let found = self.store.memory(id).await?;
        found.ok_or_else(|| {
            ApiError::not_found(
                "no_such_memory",
                format!("no memory {id}"),
                "`cairn memory list` lists the memories with their ids",
            )
        })
    }

    fn checked_text(&self, text: String) -> Result<String, ApiError> {
        if text.len() > self.max_text_bytes {
            return Err(ApiError::too_large(self.max_text_bytes));
        }
        if text.contains('\0') {
            return Err(ApiError::malformed("the text has a NUL character; remove it"));
        }
        if text.trim().is_empty() {
            return Err(ApiError::empty());
        }
        Ok(text.trim().to_owned())
    }
}

fn checked_importance(importance: Option<f64>) -> Result<Option<f64>, ApiError> {
    match importance {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            Err(ApiError::malformed(format!("`importance` is {value}; it must be from 0 to 1")))
        }
        importance => Ok(importance),
    }
}

fn parse<T: FromStr>(text: &str) -> Result<T, ApiError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| ApiError::malformed(error.to_string()))
}
