//! Shared by all calls: the parts of the daemon, the extractors for path, query and body, and errors.

use cairn_api::lists::NEXT;
use std::sync::Arc;

use crate::http::body::read_body;
use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use cairn_actors::{AgentRuntime, Runtime, RuntimeError};
use cairn_api::error::ApiError;
use cairn_api::message::read_object;
use cairn_core::agent::AgentSettings;
use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store as _;
use cairn_store::{BackupError, Store};
use cairn_types::event::{Event, NewRecord};
use cairn_types::ids::{AgentId, ChannelId, OutboxId};
use cairn_types::ports::{Adapter, Clock};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::page_access::Access;
use crate::parts::agents::AgentRegistry;
use crate::parts::people::DaemonPairings;
use crate::parts::restart::RestartHandle;
use crate::reload::Reloader;
use cairn_api::records::Identity;

/// Default number of items in a list.
const LIMIT_DEFAULT: usize = 100;

pub(super) const LIMIT_MAX: usize = 10_000;

/// The query of a list: at most `limit` items, starting after the place named by the previous page.
#[derive(Debug, Deserialize)]
pub struct ListParams {
    pub limit: Option<usize>,
    pub after: Option<String>,
}

/// Largest request body, in bytes.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

pub struct Admin {
    pub store: Store,
    /// The actors; `None` if the store was opened for reading.
    pub runtime: Option<Runtime>,
    pub agent_registry: Arc<AgentRegistry>,
    pub people: Arc<DaemonPairings>,
    /// The chat networks in use; empty without a daemon and for a daemon inside a command.
    pub adapters: Arc<[Arc<dyn Adapter>]>,
    /// Reloads the configuration; `None` without a daemon and for a daemon inside a command.
    pub reloader: Option<Arc<Reloader>>,
    /// Restarts the daemon; `None` without a daemon and for a daemon inside a command.
    pub restart_handle: Option<RestartHandle>,
    pub clock: Arc<dyn Clock>,
    /// Access to the page; `None` if it is disabled.
    pub page: Option<Arc<Access>>,
    pub identity: Identity,
    /// Longest text of a memory, in bytes.
    pub max_text_bytes: usize,
}

pub type Shared = Arc<Admin>;

impl Admin {
    /// The channel with a name from a request.
    pub fn resolve(&self, name: &str) -> Result<ChannelId, ApiError> {
        Ok(ChannelId::resolve(name, self.agent_registry.default_agent())?)
    }

    /// A conversation, and whether its channel is awake.
    pub async fn conversation(&self, channel: &ChannelId) -> Result<(Arc<Conversation>, bool), ApiError> {
        let found = match &self.runtime {
            Some(runtime) => runtime.conversation(channel).await.map_err(runtime_error)?,
            None => self.store.restore(channel).await?.map(|conversation| (Arc::new(conversation), false)),
        };
        found.ok_or_else(|| no_such_channel(channel))
    }

    /// What people see as the name of a channel's chat; `None`: none is known, or the conversation cannot be read.
    pub async fn chat_name(&self, channel: &ChannelId) -> Option<String> {
        if let Some(outline) = self.runtime.as_ref().and_then(|runtime| runtime.outline(channel)) {
            return outline.name;
        }
        let found = self.conversation(channel).await;
        found.ok().and_then(|(conversation, _awake)| conversation.name.clone())
    }

    /// A conversation with its settings: those of its agent, on the model to whose window it keeps.
    pub async fn with_settings(
        &self,
        channel: &ChannelId,
    ) -> Result<(Arc<Conversation>, Arc<AgentSettings>), ApiError> {
        let (conversation, _awake) = self.conversation(channel).await?;
        let settings = self.settings(&conversation).await?;
        Ok((conversation, settings.ok_or_else(|| no_such_agent(&channel.agent()))?))
    }

    /// The settings of a conversation; `None` if its agent is not configured.
    pub async fn settings(
        &self,
        conversation: &Conversation,
    ) -> Result<Option<Arc<AgentSettings>>, ApiError> {
        let agent = self.agent(&conversation.channel.agent()).await?;
        Ok(agent.map(|agent| agent.settings(conversation)))
    }

    pub(super) async fn agent(&self, id: &AgentId) -> Result<Option<AgentRuntime>, ApiError> {
        self.agent_registry.agent(id).await.map_err(|error| bad_model(&error))
    }

    pub(super) async fn runtimes(&self) -> Result<Vec<AgentRuntime>, ApiError> {
        self.agent_registry.runtimes().await.map_err(|error| bad_model(&error))
    }

    /// The runtime, for calls that change something. An error if the store was opened for reading.
    pub fn runtime(&self) -> Result<&Runtime, ApiError> {
        self.runtime.as_ref().ok_or_else(|| {
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "no daemon runs on this state",
                "start one with `cairn run`",
            )
        })
    }

    /// Journals a change of a memory and waits until the views show it.
    pub(super) async fn journal(&self, event: Event) -> Result<(), ApiError> {
        self.journal_all(vec![event]).await
    }

    /// Journals changes of memories in one write and waits until the views show them.
    pub(super) async fn journal_all(&self, events: Vec<Event>) -> Result<(), ApiError> {
        self.runtime()?;
        let at = self.clock.now();
        let records = events.into_iter().map(|event| NewRecord { channel: None, at, event });
        self.store.append(records.collect()).await?;
        self.store.settle().await?;
        Ok(())
    }
}

/// The only parameter of the path.
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(text)| Self(text)).map_err(|error| ApiError::malformed(error.body_text()))
    }
}

/// The channel in the path, and the second parameter if the path has one.
pub struct Channel<T = ()>(pub ChannelId, pub T);

impl FromRequestParts<Shared> for Channel {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, admin: &Shared) -> Result<Self, ApiError> {
        let Segment(name) = Segment::from_request_parts(parts, admin).await?;
        Ok(Self(admin.resolve(&name)?, ()))
    }
}

impl FromRequestParts<Shared> for Channel<String> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, admin: &Shared) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, admin).await;
        let Path((name, id)) = path.map_err(|error| ApiError::malformed(error.body_text()))?;
        Ok(Self(admin.resolve(&name)?, id))
    }
}

/// One page of a list.
pub struct Page<T> {
    pub items: Vec<T>,
    /// The `after` of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The first `limit` items. If there are more, `next` is the place of the last item returned.
    pub(super) fn of(mut found: Vec<T>, limit: usize, place: impl FnOnce(&T) -> String) -> Self {
        let goes_on = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| goes_on).map(place);
        Self { items: found, next }
    }
}

impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        let next = self.next.map(|next| [(NEXT, utf8_percent_encode(&next, NON_ALPHANUMERIC).to_string())]);
        (next, Json(self.items)).into_response()
    }
}

/// The parameters of the query.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(params)| Self(params)).map_err(|error| ApiError::malformed(error.body_text()))
    }
}

/// A JSON body; an empty one is read as `{}`.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let bytes = read_body(request.into_body(), BODY_MAX_BYTES).await?;
        let bytes = bytes.ok_or_else(|| ApiError::too_large(BODY_MAX_BYTES))?;
        let bytes = if bytes.is_empty() { b"{}".as_slice() } else { &bytes };
        let read = read_object(bytes).map(Self);
        read.map_err(|why| ApiError::malformed(format!("the body cannot be read: {why}")))
    }
}

/// The number of items: the default if none is given, and at most [`LIMIT_MAX`].
pub(super) fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    limit_or(asked, LIMIT_DEFAULT)
}

/// The number of items: `default` if none is given, and at most [`LIMIT_MAX`].
pub(super) fn limit_or(asked: Option<usize>, default: usize) -> Result<usize, ApiError> {
    match asked {
        Some(0) => Err(ApiError::malformed("`limit` is 0; it must be from 1 to 10000")),
        asked => Ok(asked.unwrap_or(default).min(LIMIT_MAX)),
    }
}

/// The error for an invalid `after`.
pub(super) fn no_such_place(after: &str) -> ApiError {
    ApiError::malformed(format!(
        "`after` is `{after}`, which is no place in this list; the page before it names one: on the command line as \
         --after, over HTTP in the header {NEXT}"
    ))
}

pub(super) fn no_such_channel(channel: &ChannelId) -> ApiError {
    ApiError::not_found(
        "no_such_channel",
        format!("no channel {channel}: it has no messages"),
        "`cairn channels` lists the channels",
    )
}

pub(super) fn no_such_agent(agent: &AgentId) -> ApiError {
    ApiError::not_found(
        "no_such_agent",
        format!("no agent `{agent}` is configured"),
        "`cairn config show` lists the agents",
    )
}

pub(super) fn no_such_delivery(id: &OutboxId) -> ApiError {
    ApiError::not_found(
        "no_such_delivery",
        format!("no delivery {id}"),
        "`cairn outbox list` lists the unconfirmed deliveries",
    )
}

pub(super) fn bad_model(error: &cairn_llm::BadModel) -> ApiError {
    ApiError::malformed(error.to_string())
}

/// The error for a call that a daemon inside a command does not support.
pub(super) fn no_daemon(message: &'static str, hint: &'static str) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "no_daemon", message, hint)
}

pub(crate) fn runtime_error(error: RuntimeError) -> ApiError {
    let message = error.to_string();
    match error {
        RuntimeError::NoSuchChannel(channel) => no_such_channel(&channel),
        RuntimeError::UnknownAgent(agent) => no_such_agent(&agent),
        RuntimeError::NoSuchDelivery(id) => no_such_delivery(&id),
        RuntimeError::Store(error) => error.into(),
        RuntimeError::Limited(_) => ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "limited",
            message,
            "raise spend_per_day under [limits]",
        ),
        RuntimeError::Instruction(_) => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "instruction_too_long",
            message,
            "put instructions for every summary into `instructions` under [agents.compaction]",
        ),
        RuntimeError::Reminder(_) => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "bad_reminder",
            message,
            "`cairn reminder list` shows the reminders",
        ),
        RuntimeError::Answering(_) => ApiError::new(
            StatusCode::CONFLICT,
            "answering",
            message,
            "try again when it is done; messages that were imported before are skipped",
        ),
        RuntimeError::NothingToUndo(_) => ApiError::new(
            StatusCode::CONFLICT,
            "nothing_to_undo",
            message,
            "`cairn history` shows what there is",
        ),
        RuntimeError::Stopping
        | RuntimeError::Interrupted(_)
        | RuntimeError::NoAgent
        | RuntimeError::Spawn { .. } => ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            if matches!(error, RuntimeError::Stopping) { "stopping" } else { "unavailable" },
            message,
            "try again in a moment; the daemon's log has details",
        ),
    }
}

/// The error of a failed backup or restore, for the API and the command line.
pub fn backup_error(error: BackupError) -> ApiError {
    let message = error.to_string();
    match error {
        BackupError::Refused { code, hint, .. } => ApiError::new(StatusCode::CONFLICT, code, message, hint),
        BackupError::Damaged { .. } => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "damaged",
            message,
            "nothing was changed; use another backup",
        ),
        BackupError::DiskFull { .. } => ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "disk_full",
            message,
            "free some space there, or use a folder on another disk",
        ),
        BackupError::Store(error) => error.into(),
    }
}
