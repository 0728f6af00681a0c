//! Turns a request into an [`Inbound`], or refuses it with a clear error.

use crate::http::body::read_parsed;
use cairn_api::error::ApiError;
use cairn_api::message::{MESSAGE_BYTES_MAX, MessageRequest, read_object};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, MessageId};
use cairn_types::message::{Author, Inbound, Part};
use cairn_types::ports::Refusal;
use jiff::Timestamp;

use super::LocalApi;
use super::files::{check_files, content_of, too_large};

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

/// Reads a message with its files.
pub(super) async fn read(api: &LocalApi, body: Body) -> Result<MessageRequest, ApiError> {
    // A character of text takes at most six bytes of JSON (`\u0000`), three bytes of a file four.
    let text_bytes = api.max_text_bytes.saturating_mul(6).saturating_add(64 * 1024);
    let most = text_bytes.saturating_add(MESSAGE_BYTES_MAX.div_ceil(3) * 4);
    let request = read_parsed(body, most, read_object::<MessageRequest>).await?.ok_or_else(too_large)?;
    request.map_err(|why| {
        ApiError::malformed(format!(
            "the body is not a message: {why}; expected {{\"user\": \"…\", \"text\": \"…\"}} in UTF-8"
        ))
    })
}

/// Refuses a channel in which nobody can talk here.
///
/// # Errors
/// It is a channel of a chat network, or of an agent that is not configured.
pub fn check_channel(api: &LocalApi, channel: &ChannelId) -> Result<(), ApiError> {
    check_local(channel)?;
    let agent = channel.agent();
    let is_known = api.config.now().config.agents.iter().any(|known| known.id == agent);
    if is_known { Ok(()) } else { Err(Refusal::UnknownAgent(agent).into()) }
}

fn check_local(channel: &ChannelId) -> Result<(), ApiError> {
    if channel.platform() == LOCAL_PLATFORM {
        return Ok(());
    }
    Err(ApiError::malformed(format!(
        "{channel} is a channel of {}; messages are sent there, not here",
        channel.platform()
    )))
}

/// Checks a message, then reads its files: recordings are only transcribed for a message that is otherwise in order.
pub(super) async fn inbound(
    api: &LocalApi,
    channel: &str,
    request: MessageRequest,
) -> Result<Inbound, ApiError> {
    let channel = resolve(api, channel, request.agent.as_deref())?;
    check_channel(api, &channel)?;
    check_name("user", &request.user)?;
    check_files(&request.files)?;
    let is_blank = request.text.trim().is_empty();
    if !is_blank || request.files.is_empty() {
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
    let files = content_of(api, &channel.agent(), request.files).await;
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
    check_local(&channel)?;
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
