//! The request: from bytes to an [`Inbound`], or to a clear refusal.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, MessageId};
use cairn_types::message::{Author, Inbound, Part};
use futures::StreamExt;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{ApiError, LocalApi};

/// A body is read to its end up to this size, so that a client which is still writing gets its answer.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;

/// Longest `user` and `id`, in bytes.
const NAME_MAX_BYTES: usize = 128;

/// The body of `POST /v1/channels/{C}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    pub user: String,
    pub text: String,
    /// The message's id; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, where the channel is a bare name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When it was said, RFC 3339; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Makes ids for messages that bring none: unique within the daemon and across its restarts.
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
    // A character of text is at most six bytes of JSON (`\u0000`).
    let bytes = read_body(body, api.max_text_bytes.saturating_mul(6).saturating_add(64 * 1024))
        .await?
        .ok_or_else(|| ApiError::too_large(api.max_text_bytes))?;
    let request: MessageRequest = read_object(&bytes).map_err(|why| {
        ApiError::malformed(format!(
            "the body is not a message: {why}; expected {{\"user\": \"…\", \"text\": \"…\"}} in UTF-8"
        ))
    })?;
    check(api, channel, request)
}

/// Reads a JSON object.
///
/// # Errors
/// What is wrong and where. A list of values in the order of the fields is no object.
pub fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if begins.is_some_and(|byte| *byte != b'{') {
        return Err("it is not a JSON object".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        if text.contains("hex escape") {
            return format!("{text} (half of a surrogate pair, such as \\ud800, is no character)");
        }
        text
    })
}

fn check(api: &LocalApi, channel: &str, request: MessageRequest) -> Result<Inbound, ApiError> {
    let channel = resolve(api, channel, request.agent.as_deref())?;
    check_name("user", &request.user)?;
    if request.text.len() > api.max_text_bytes {
        return Err(ApiError::too_large(api.max_text_bytes));
    }
    if request.text.contains('\0') {
        return Err(ApiError::malformed("the text has a NUL character; leave it out"));
    }
    if request.text.trim().is_empty() {
        return Err(ApiError::empty());
    }
    let now = api.clock.now();
    let at = match &request.at {
        Some(at) => at.parse::<Timestamp>().map_err(|error| {
            ApiError::malformed(format!("`at` is no time: {error}; write it like 2026-11-20T10:00:00Z"))
        })?,
        None => now,
    };
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
        parts: vec![Part::text(request.text)],
        addressed: true,
        direct: false,
        reply_to: None,
        provenance: cairn_types::message::Provenance::default(),
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

pub(super) fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
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

/// Longest that a body may take to come in: clients are on this machine.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// A body up to this size is read at once, whatever else is being read.
const SMALL_BYTES: usize = 64 * 1024;

/// Larger bodies that are read at once: what they hold in memory is bounded, however many clients begin one.
const LARGE_AT_ONCE: usize = 16;

static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);

/// Reads a body of at most `max_bytes`; `None` when it is larger.
///
/// # Errors
/// The connection broke, or the body did not come in time.
pub async fn read_body(body: Body, max_bytes: usize) -> Result<Option<Vec<u8>>, ApiError> {
    let mut reading = Reading { chunks: body.into_data_stream(), max_bytes, bytes: Vec::new(), n_read: 0 };
    if reading.more(SMALL_BYTES).await? {
        // It is never closed.
        let _permit = LARGE.acquire().await;
        reading.more(DRAIN_BYTES).await?;
    }
    Ok((reading.n_read <= max_bytes).then_some(reading.bytes))
}

struct Reading {
    chunks: BodyDataStream,
    max_bytes: usize,
    bytes: Vec<u8>,
    n_read: usize,
}

impl Reading {
    /// Reads on until there are more than `until` bytes: true; or to the end.
    async fn more(&mut self, until: usize) -> Result<bool, ApiError> {
        let deadline = Instant::now() + BODY_LIMIT;
        while self.n_read <= until {
            let next = tokio::time::timeout_at(deadline, self.chunks.next()).await;
            let Some(chunk) = next.map_err(|_elapsed| ApiError::slow(BODY_LIMIT))? else { return Ok(false) };
            let chunk = chunk.map_err(|error| ApiError::malformed(format!("the body broke off: {error}")))?;
            self.n_read = self.n_read.saturating_add(chunk.len());
            if self.n_read <= self.max_bytes {
                self.bytes.extend_from_slice(&chunk);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    /// A body that begins with so many bytes, and never ends.
    fn stalled(n: usize) -> Body {
        let begun = stream::iter([Ok::<_, std::io::Error>(vec![b'x'; n])]);
        Body::from_stream(begun.chain(stream::pending()))
    }

    /// One test for what all bodies share: their places.
    #[tokio::test(start_paused = true)]
    async fn large_bodies_that_stall_hold_up_only_each_other_and_not_for_long() {
        let large = SMALL_BYTES + 1;
        let whole = read_body(Body::from(vec![b'x'; large]), large).await.unwrap();
        assert_eq!(whole.map(|bytes| bytes.len()), Some(large));
        assert_eq!(read_body(Body::from(vec![b'x'; large + 1]), large).await.unwrap(), None, "too large");
        let stalls: Vec<_> =
            (0..LARGE_AT_ONCE).map(|_| tokio::spawn(read_body(stalled(large), 1 << 20))).collect();
        tokio::task::yield_now().await;
        assert_eq!(LARGE.available_permits(), 0);
        let begun = Instant::now();
        let small = read_body(Body::from("{}"), 1 << 20).await.unwrap();
        assert_eq!((small.as_deref(), begun.elapsed()), (Some(b"{}".as_slice()), Duration::ZERO));
        let waits = read_body(Body::from(vec![b'x'; large]), 1 << 20).await.unwrap();
        assert_eq!((waits.map(|bytes| bytes.len()), begun.elapsed()), (Some(large), BODY_LIMIT));
        for stall in stalls {
            let error = stall.await.unwrap().unwrap_err();
            assert_eq!((error.status.as_u16(), error.detail.code.as_str()), (408, "slow"));
        }
        let error = read_body(stalled(3), 1 << 20).await.unwrap_err();
        assert_eq!(error.detail.code, "slow");
    }
}
