//! Reads request bodies, with limits on size, time and memory.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::http::StatusCode;
use cairn_api::error::ApiError;
use futures::StreamExt as _;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

/// Too large bodies are read and dropped up to this size, so that a client that is still sending gets its answer.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;

/// Longest time for a body; clients are on this machine.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Bodies up to this size are always read at once.
const SMALL_BYTES: usize = 64 * 1024;

/// KiB that larger bodies may take together while they are read. Each connection's share is the length that it announces.
const LARGE_KIB: usize = 64 * 1024;

/// Longest wait for a share.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// A body that has had its share for so long loses it while others wait.
const SHARE_LIMIT: Duration = Duration::from_secs(2);

static LARGE: Semaphore = Semaphore::const_new(LARGE_KIB);

/// How many bodies wait for a share.
static WAITING: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// Reads a body. Returns `None` if it is larger than `max_bytes`.
///
/// # Errors
/// The connection broke, the body took too long, or other large bodies left no room for it in time.
pub async fn read_body(body: Body, max_bytes: usize) -> Result<Option<Vec<u8>>, ApiError> {
    Ok(read(body, max_bytes).await?.0)
}

/// Reads a body and parses it. A large one keeps its share until it is parsed, on another thread. Returns `None` if it is
/// larger than `max_bytes`.
///
/// # Errors
/// As [`read_body`], or `parse` panicked.
pub async fn read_parsed<T: Send + 'static>(
    body: Body,
    max_bytes: usize,
    parse: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<Option<T>, ApiError> {
    let (Some(bytes), share) = read(body, max_bytes).await? else { return Ok(None) };
    let Some(share) = share else { return Ok(Some(parse(&bytes))) };
    let parsing = tokio::task::spawn_blocking(move || {
        let _share = share;
        parse(&bytes)
    });
    parsing.await.map(Some).map_err(|panic| ApiError::internal(&panic))
}

/// The body, and the share of a large one.
async fn read(
    body: Body,
    max_bytes: usize,
) -> Result<(Option<Vec<u8>>, Option<SemaphorePermit<'static>>), ApiError> {
    let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let share = announced.unwrap_or(max_bytes).min(max_bytes).div_ceil(1024).min(LARGE_KIB);
    let mut reading = Reading { chunks: body.into_data_stream(), max_bytes, bytes: Vec::new(), n_read: 0 };
    let mut given = None;
    if reading.more(SMALL_BYTES).await? {
        given = Some(share_of(share).await?);
        tokio::select! {
            biased;
            read = reading.more(DRAIN_BYTES) => read?,
            () = share_is_wanted() => return Err(ApiError::slow(SHARE_LIMIT)),
        };
    }
    Ok(((reading.n_read <= max_bytes).then_some(reading.bytes), given))
}

/// A body that waits; dropping it ends that.
struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.send_modify(|n| *n -= 1);
    }
}

async fn share_of(kib: usize) -> Result<SemaphorePermit<'static>, ApiError> {
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    if let Ok(share) = LARGE.try_acquire_many(kib) {
        return Ok(share);
    }
    WAITING.send_modify(|n| *n += 1);
    let _waiting = Waiting;
    match tokio::time::timeout(WAIT_LIMIT, LARGE.acquire_many(kib)).await {
        Ok(Ok(share)) => Ok(share),
        // The semaphore is never closed.
        Ok(Err(_)) | Err(_) => {
            let hint = "wait for the time in Retry-After, then send it again with the same `id`";
            let why = "other large requests leave no room for the body of this one";
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "busy", why, hint);
            Err(ApiError { retry_after_secs: Some(1), ..error })
        }
    }
}

/// Waits until a body has had its share for long enough, and another one waits for one.
async fn share_is_wanted() {
    tokio::time::sleep(SHARE_LIMIT).await;
    let mut waiting = WAITING.subscribe();
    // The sender is never dropped.
    let _wanted = waiting.wait_for(|n| *n > 0).await;
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
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::stream;
    use hyper::body::{Frame, SizeHint};

    use super::*;

    /// A body that begins with so many bytes, and never ends.
    fn stalled(n: usize) -> Body {
        let begun = stream::iter([Ok::<_, std::io::Error>(vec![b'x'; n])]);
        Body::from_stream(begun.chain(stream::pending()))
    }

    /// A body that begins with so many bytes, announces twice as many, and never ends.
    struct Half(Option<usize>, u64);

    impl axum::body::HttpBody for Half {
        type Data = axum::body::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
            let begun = self.0.take().map(|n| Ok(Frame::data(vec![b'x'; n].into())));
            begun.map_or(Poll::Pending, |frame| Poll::Ready(Some(frame)))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.1)
        }
    }

    /// Lets all tasks run until they wait.
    async fn settle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn len_of_whole(bytes: usize) -> Result<Option<usize>, String> {
        let read = read_body(Body::from(vec![b'x'; bytes]), 4 << 20).await;
        read.map(|whole| whole.map(|bytes| bytes.len())).map_err(|error| error.detail.code)
    }

    /// One test for what all bodies share: their room.
    #[tokio::test(start_paused = true)]
    async fn three_hundred_bodies_that_stall_hold_up_only_each_other_and_not_for_long() {
        let large = SMALL_BYTES + 1;
        assert_eq!(len_of_whole(large).await, Ok(Some(large)));
        assert_eq!(read_body(Body::from(vec![b'x'; large + 1]), large).await.unwrap(), None, "too large");
        let stall = |body: Body| tokio::spawn(read_body(body, 4 << 20));
        let halves: Vec<_> =
            (0..300).map(|_| stall(Body::new(Half(Some(large), 2 * large as u64)))).collect();
        settle().await;
        let begun = Instant::now();
        assert_eq!(len_of_whole(1 << 20).await, Ok(Some(1 << 20)), "there is room beside what they announce");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // Without a length each takes as much as a body may be.
        let stalls: Vec<_> = (0..300).map(|_| stall(stalled(large))).collect();
        settle().await;
        let begun = Instant::now();
        let small = read_body(Body::from("{}"), 1 << 20).await.unwrap();
        assert_eq!((small.as_deref(), begun.elapsed()), (Some(b"{}".as_slice()), Duration::ZERO));
        let mut tries = 0;
        while len_of_whole(1 << 20).await != Ok(Some(1 << 20)) {
            tries += 1;
        }
        assert!(tries <= 1 && begun.elapsed() <= 2 * WAIT_LIMIT, "{tries} {:?}", begun.elapsed());
        for stall in halves.into_iter().chain(stalls) {
            let error = stall.await.unwrap().unwrap_err();
            assert!(["slow", "busy"].contains(&error.detail.code.as_str()), "{error:?}");
        }
        let parsed = read_parsed(Body::from(vec![b'x'; large]), large, |bytes| {
            (bytes.len(), LARGE.available_permits() < LARGE_KIB)
        });
        assert_eq!(parsed.await.unwrap(), Some((large, true)), "it keeps its share while it is parsed");
        let error = read_body(stalled(3), 1 << 20).await.unwrap_err();
        assert_eq!((error.status.as_u16(), error.detail.code.as_str()), (408, "slow"));
        assert_eq!((LARGE.available_permits(), *WAITING.borrow()), (LARGE_KIB, 0));
    }
}
