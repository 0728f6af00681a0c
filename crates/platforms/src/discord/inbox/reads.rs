//! Paces the reads of channels: few at a time, and none for a while after one failed, since all of them ask one server.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::discord::rest::RestError;
use crate::link::Link;
use crate::pause::Pauses;

/// Most reads at the same time.
const READS_MAX: usize = 4;

/// First and longest pause after a failed read.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The status entry while reads fail.
const READING: &str = "reading";

struct Pace {
    pauses: Pauses,
    /// No read starts before this.
    next: Instant,
}

pub(in crate::discord) struct Reads {
    permits: Semaphore,
    pace: Mutex<Pace>,
}

impl Default for Reads {
    fn default() -> Self {
        let pace = Pace { pauses: Pauses::new(FIRST_PAUSE, LONGEST_PAUSE), next: Instant::now() };
        Self { permits: Semaphore::new(READS_MAX), pace: Mutex::new(pace) }
    }
}

impl Reads {
    /// Repeats a read until Discord answers. Waiting for a rate limit takes no other read's place.
    ///
    /// # Errors
    /// Discord refuses it. A refused token says nothing about the channel, so the read is repeated.
    pub(super) async fn answered<T, F>(&self, link: &Link, read: impl Fn() -> F) -> Result<T, RestError>
    where
        F: Future<Output = Result<T, RestError>>,
    {
        loop {
            match self.once(&read).await {
                Err(RestError::Limited { after }) => tokio::time::sleep(after).await,
                Err(error) if error.is_passing() || error == RestError::Unauthorized => {
                    self.failed(link, &error)
                }
                answered => {
                    self.over(link);
                    return answered;
                }
            }
        }
    }

    async fn once<T, F>(&self, read: impl Fn() -> F) -> Result<T, RestError>
    where
        F: Future<Output = Result<T, RestError>>,
    {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        loop {
            let next = self.pace.lock().next;
            if next <= Instant::now() {
                break;
            }
            tokio::time::sleep_until(next).await;
        }
        read().await
    }

    /// Starts a pause, unless another read that failed at the same time did.
    fn failed(&self, link: &Link, error: &RestError) {
        let now = Instant::now();
        let pace = &mut *self.pace.lock();
        if pace.next <= now {
            pace.next = now + pace.pauses.next();
        }
        if link.trouble(READING, &format!("missed messages cannot be read yet: {error}")) {
            tracing::warn!(platform = link.platform(), %error, "missed messages cannot be read yet; trying again");
        }
    }

    fn over(&self, link: &Link) {
        let pace = &mut *self.pace.lock();
        pace.pauses.reset();
        pace.next = Instant::now();
        if link.clear(READING) {
            tracing::info!(platform = link.platform(), "missed messages can be read again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use cairn_testkit::clock::TestClock;
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_channels_together_ask_ever_more_slowly_while_reads_fail_and_at_once_when_they_work() {
        let (reads, link) = (Reads::default(), Link::new("discord", Arc::new(TestClock::default())));
        let (asked, began) = (AtomicUsize::new(0), Instant::now());
        let read = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            let is_over = began.elapsed() >= Duration::from_secs(45);
            if is_over { Ok(()) } else { Err(RestError::Unknown("status 500".to_owned())) }
        };
        let all = join_all((0..31).map(|_| reads.answered(&link, &read)));
        let looking = async {
            tokio::time::sleep(Duration::from_secs(44)).await;
            (asked.load(Ordering::Relaxed), link.status().troubles)
        };
        let (done, (in_vain, troubles)) = tokio::join!(all, looking);
        assert!(done.iter().all(Result::is_ok) && in_vain <= 10 * READS_MAX, "{in_vain}");
        assert_eq!(troubles[0].to_string(), "reading: missed messages cannot be read yet: status 500");
        assert_eq!(link.status().troubles, []);
        assert!(began.elapsed() < Duration::from_secs(45) + LONGEST_PAUSE, "{:?}", began.elapsed());
        let refused = RestError::unknown_channel();
        let told = reads.answered(&link, || async { Err::<(), _>(refused.clone()) }).await;
        assert_eq!(told, Err(refused.clone()), "a refusal is an answer");
    }
}
