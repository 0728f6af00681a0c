//! Reads request bodies, with limits on size, time and memory.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use cairn_api::error::ApiError;
use futures::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Too large bodies are read and dropped up to this size, so that a client that is still sending gets its answer.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;

/// Longest time for a body; clients are on this machine.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Bodies up to this size are always read at once.
const SMALL_BYTES: usize = 64 * 1024;

/// Number of larger bodies that are read at the same time, which limits the memory they take.
const LARGE_AT_ONCE: usize = 16;

static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);

/// Reads a body. Returns `None` if it is larger than `max_bytes`.
///
/// # Errors
/// The connection broke, or the body took too long.
pub async fn read_body(body: Body, max_bytes: usize) -> Result<Option<Vec<u8>>, ApiError> {
    let mut reading = Reading { chunks: body.into_data_stream(), max_bytes, bytes: Vec::new(), n_read: 0 };
    if reading.more(SMALL_BYTES).await? {
        // The semaphore is never closed.
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
    /// Reads until there are more than `until` bytes, or to the end. Returns true if there may be more.
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
