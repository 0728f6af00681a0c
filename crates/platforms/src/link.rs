//! How the connection to a platform is: one cell that the adapter writes and `cairn status` reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_core::ports::{AdapterFailure, Clock, LinkState, PlatformStatus};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Most chats with a trouble of their own; past it the one that has been there longest is dropped from the list.
const TROUBLES_MAX: usize = 32;

/// The status of one platform. Cheap to share: all of it is behind one short lock.
pub struct Link {
    platform: &'static str,
    clock: Arc<dyn Clock>,
    cell: Mutex<Cell>,
    queue: AtomicU64,
}

struct Cell {
    state: LinkState,
    name: Option<String>,
    reason: Option<String>,
    hint: Option<String>,
    connected_since: Option<Timestamp>,
    last_inbound: Option<Timestamp>,
    last_outbound: Option<Timestamp>,
    latency: Option<Duration>,
    /// Oldest first; one for each place.
    troubles: VecDeque<(String, String)>,
}

impl Link {
    /// A link that is not connected yet.
    pub fn new(platform: &'static str, clock: Arc<dyn Clock>) -> Self {
        let cell = Cell {
            state: LinkState::Connecting,
            name: None,
            reason: None,
            hint: None,
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency: None,
            troubles: VecDeque::new(),
        };
        Self { platform, clock, cell: Mutex::new(cell), queue: AtomicU64::new(0) }
    }

    /// The connection is in another state. What is wrong with it is forgotten once it is connected, and replaced by
    /// a newer failure.
    pub fn set(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        let mut cell = self.cell.lock();
        match state {
            LinkState::Connected => {
                if cell.state != LinkState::Connected {
                    cell.connected_since = Some(self.clock.now());
                }
                (cell.reason, cell.hint) = (None, None);
            }
            LinkState::Connecting | LinkState::Reconnecting | LinkState::Failed | LinkState::Stopped => {
                cell.connected_since = None;
                cell.latency = None;
            }
        }
        if let Some(failure) = failure {
            cell.reason = Some(failure.reason.clone());
            cell.hint = Some(failure.hint.clone()).filter(|hint| !hint.is_empty());
        }
        cell.state = state;
        drop(cell);
        let connected = if state == LinkState::Connected { 1.0 } else { 0.0 };
        metrics::gauge!("cairn_platform_connected", "platform" => self.platform).set(connected);
    }

    pub fn set_name(&self, name: impl Into<String>) {
        self.cell.lock().name = Some(name.into());
    }

    pub fn inbound(&self) {
        let now = self.clock.now();
        self.cell.lock().last_inbound = Some(now);
        metrics::counter!("cairn_platform_inbound_total", "platform" => self.platform).increment(1);
    }

    pub fn outbound(&self) {
        let now = self.clock.now();
        self.cell.lock().last_outbound = Some(now);
        metrics::counter!("cairn_platform_outbound_total", "platform" => self.platform).increment(1);
    }

    pub fn latency(&self, time: Duration) {
        self.cell.lock().latency = Some(time);
        metrics::histogram!("cairn_platform_latency_seconds", "platform" => self.platform)
            .record(time.as_secs_f64());
    }

    /// So many events wait to be taken in.
    pub fn set_queue(&self, waiting: u64) {
        self.queue.store(waiting, Ordering::Relaxed);
        metrics::gauge!("cairn_platform_queue", "platform" => self.platform).set(waiting as f64);
    }

    /// Something does not work in one chat. True when that is news.
    pub fn trouble(&self, place: &str, reason: &str) -> bool {
        let mut cell = self.cell.lock();
        let before = cell.troubles.iter_mut().find(|(known, _)| known == place);
        match before {
            Some((_, known)) if known == reason => false,
            Some((_, known)) => {
                reason.clone_into(known);
                true
            }
            None => {
                if cell.troubles.len() == TROUBLES_MAX {
                    cell.troubles.pop_front();
                }
                cell.troubles.push_back((place.to_owned(), reason.to_owned()));
                true
            }
        }
    }

    /// It works again in that chat. True when there was a trouble.
    pub fn clear(&self, place: &str) -> bool {
        let mut cell = self.cell.lock();
        let before = cell.troubles.len();
        cell.troubles.retain(|(known, _)| known != place);
        cell.troubles.len() < before
    }

    pub fn state(&self) -> LinkState {
        self.cell.lock().state
    }

    /// All of it, for `cairn status`.
    pub fn status(&self) -> PlatformStatus {
        let cell = self.cell.lock();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        PlatformStatus {
            platform: self.platform.to_owned(),
            state: cell.state,
            name: cell.name.clone(),
            reason: cell.reason.clone(),
            hint: cell.hint.clone(),
            connected_since: cell.connected_since,
            last_inbound: cell.last_inbound,
            last_outbound: cell.last_outbound,
            latency_ms: cell.latency.map(millis),
            queue: self.queue.load(Ordering::Relaxed),
            troubles: cell.troubles.iter().map(|(place, reason)| format!("{place}: {reason}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_testkit::clock::TestClock;
    use jiff::SignedDuration;

    use super::*;

    fn link() -> (Arc<TestClock>, Link) {
        let clock = Arc::new(TestClock::default());
        (clock.clone(), Link::new("discord", clock))
    }

    fn failure() -> AdapterFailure {
        AdapterFailure { reason: "no route".to_owned(), hint: "look".to_owned(), lasting: false }
    }

    #[test]
    fn connected_since_counts_from_the_connection_and_ends_with_it() {
        let (clock, link) = link();
        link.set(LinkState::Connected, None);
        let since = link.status().connected_since.expect("is connected");
        clock.advance(SignedDuration::from_secs(9));
        link.set(LinkState::Connected, None);
        assert_eq!(link.status().connected_since, Some(since));
        link.set(LinkState::Reconnecting, Some(&failure()));
        assert_eq!(link.status().connected_since, None);
        assert_eq!(link.status().reason.as_deref(), Some("no route"));
    }

    #[test]
    fn a_failure_is_shown_until_it_is_connected_again() {
        let (_, link) = link();
        link.set(LinkState::Failed, Some(&failure()));
        link.set(LinkState::Connecting, None);
        assert_eq!(link.status().hint.as_deref(), Some("look"));
        link.set(LinkState::Connected, None);
        assert_eq!((link.status().reason, link.status().hint), (None, None));
    }

    #[test]
    fn troubles_are_one_for_each_place_and_bounded() {
        let (_, link) = link();
        assert!(link.trouble("channel 1", "may not write"));
        assert!(!link.trouble("channel 1", "may not write"));
        assert!(link.trouble("channel 1", "is gone"));
        assert_eq!(link.status().troubles, ["channel 1: is gone"]);
        for n in 2..100 {
            link.trouble(&format!("channel {n}"), "is gone");
        }
        assert_eq!(link.status().troubles.len(), TROUBLES_MAX);
        assert!(link.clear("channel 99"));
        assert!(!link.clear("channel 99"));
        assert_eq!(link.status().troubles.len(), TROUBLES_MAX - 1);
    }
}
