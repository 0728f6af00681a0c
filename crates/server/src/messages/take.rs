//! Turns a request into an [`Inbound`], or refuses it with a clear error.

use crate::http::body::read_body;
use cairn_api::error::ApiError;
use cairn_api::message::{MessageRequest, read_object};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use cairn_platforms::attach::Content;
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, MessageId};
use cairn_types::message::{Author, Inbound, Part};
use jiff::Timestamp;

use super::LocalApi;

/// Longest `user` and `id`, in bytes.
const NAME_MAX_BYTES: usize = 128;

/// Makes ids for messages without one, unique also across restarts of the daemon.
#[derive(Debug)]
pub struct Mint {
    salt: u64,
    n_minted: AtomicU64,
}

impl Default for Mint {
    fn default() -> Self {
        Self { salt: RandomState::new().build_hasher().finish(), n_minted: AtomicU64::new(0) }
    }
}

impl Mint {
    pub fn next(&self, now: Timestamp) -> MessageId {
        let n = self.n_minted.fetch_add(1, Ordering::Relaxed);
        MessageId::from(format!("c{:x}-{:08x}-{n}", now.as_millisecond(), self.salt as u32))
    }
}

pub(super) async fn take(api: &LocalApi, channel: &str, body: Body) -> Result<Inbound, ApiError> {
    // A character of text takes at most six bytes of JSON (`\u0000`).
    let bytes = read_body(body, api.max_text_bytes.saturating_mul(6).saturating_add(64 * 1024))
        .await?
        .ok_or_else(|| ApiError::too_large(api.max_text_bytes))?;
    let request: MessageRequest = read_object(&bytes).map_err(|why| {
        ApiError::malformed(format!(
            "the body is not a message: {why}; expected {{\"user\": \"…\", \"text\": \"…\"}} in UTF-8"
        ))
    })?;
    check(api, channel, request, Content::default())
}

/// Checks a message. `files`: the parts of files that came with it; then its text may be empty.
pub(super) fn check(
    api: &LocalApi,
    channel: &str,
    request: MessageRequest,
    files: Content,
) -> Result<Inbound, ApiError> {
    let channel = resolve(api, channel, request.agent.as_deref())?;
    check_name("user", &request.user)?;
    let is_blank = request.text.trim().is_empty();
    if !is_blank || files.parts.is_empty() {
        check_text(&request.text, api.max_text_bytes)?;
    }
    let text = Some(Part::text(request.text)).filter(|_| !is_blank);
    let now = api.clock.now();
    let at = request.at.as_deref().map_or(Ok(now), read_time)?;
    let message = match request.id {
        Some(id) => {
            check_name("id", &id)?;
            MessageId::from(id)
        }
        None => api.mint.next(now),
    };
    Ok(Inbound {
        channel,
        message,
        author: Author { id: format!("{LOCAL_PLATFORM}/{}", request.user), name: request.user },
        at,
        parts: text.into_iter().chain(files.parts).collect(),
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        reply_to: None,
        provenance: cairn_types::message::Provenance::default(),
        spoken: files.spoken,
        recordings: files.recordings,
        gather: cairn_types::message::Gather::default(),
    })
}

pub(super) fn resolve(api: &LocalApi, name: &str, agent: Option<&str>) -> Result<ChannelId, ApiError> {
    let agent = agent.map(AgentId::from);
    let channel = ChannelId::resolve(name, agent.as_ref().unwrap_or(&api.default_agent))?;
    if channel.platform() != LOCAL_PLATFORM {
        return Err(ApiError::malformed(format!(
            "{channel} is a channel of {}; messages are sent there, not here",
            channel.platform()
        )));
    }
    match agent {
        Some(agent) if agent != channel.agent() => Err(ApiError::malformed(format!(
            "`agent` is {agent}, but the channel {channel} is one of {}; leave `agent` out",
            channel.agent()
        ))),
        _ => Ok(channel),
    }
}

/// Checks the text of a message.
pub(crate) fn check_text(text: &str, max_bytes: usize) -> Result<(), ApiError> {
    if text.len() > max_bytes {
        return Err(ApiError::too_large(max_bytes));
    }
    if text.contains('\0') {
        return Err(ApiError::malformed("the text has a NUL character; remove it"));
    }
    if text.trim().is_empty() { Err(ApiError::empty()) } else { Ok(()) }
}

/// Reads when a message was said.
pub(crate) fn read_time(at: &str) -> Result<Timestamp, ApiError> {
    at.parse::<Timestamp>().map_err(|error| {
        ApiError::malformed(format!("`at` is not a valid time: {error}; write it like 2026-11-20T10:00:00Z"))
    })
}

pub(crate) fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
    if name.trim().is_empty() {
        return Err(ApiError::malformed(format!("`{field}` is empty")));
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(ApiError::malformed(format!("`{field}` is longer than {NAME_MAX_BYTES} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(ApiError::malformed(format!("`{field}` has a control character")));
    }
    Ok(())
}
