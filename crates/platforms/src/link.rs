//! The connection status of a platform, written by its adapter and read by `cairn status`.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::{AdapterFailure, CaughtUp, Clock, LinkState, PlatformStatus, Shards, Trouble};
use parking_lot::Mutex;

/// Most places with a trouble of their own; beyond it the oldest one is dropped from the list.
const TROUBLES_MAX: usize = 32;

/// The place of the trouble that nothing can be sent.
const SENDING: &str = "sending";

/// Where something does not work, as in [`Trouble`].
pub struct Place {
    words: String,
    chat: Option<String>,
}

impl Place {
    pub fn in_chat(what: &'static str, chat: impl Display) -> Self {
        Self { words: format!("{what} {chat}"), chat: Some(chat.to_string()) }
    }
}

impl From<&'static str> for Place {
    fn from(what: &'static str) -> Self {
        Self { words: what.to_owned(), chat: None }
    }
}

/// The status of one platform. Cheap to share: one short lock guards it.
pub struct Link {
    platform: &'static str,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    status: PlatformStatus,
    /// Oldest first; at most one per place.
    troubles: VecDeque<Trouble>,
    /// The number of connections, or their last known number.
    n_shards: u32,
}

impl State {
    /// The number of connections that are down. `shards`: `None` for a platform with one connection, or a stopped one.
    fn n_down(&mut self, is_connected: bool, shards: Option<&Shards>) -> usize {
        match shards {
            Some(shards) => {
                self.n_shards = shards.total;
                shards.down.len()
            }
            None if is_connected => {
                self.n_shards = 1;
                0
            }
            None => self.n_shards as usize,
        }
    }
}

impl Link {
    /// A link that is not connected yet.
    pub fn new(platform: &'static str, clock: Arc<dyn Clock>) -> Self {
        let status = PlatformStatus {
            platform: platform.to_owned(),
            state: LinkState::Connecting,
            name: None,
            reason: None,
            hint: None,
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            shards: None,
            troubles: Vec::new(),
            caught_up: None,
            invalid_requests: None,
        };
        let state = State { status, troubles: VecDeque::new(), n_shards: 1 };
        Self { platform, clock, state: Mutex::new(state) }
    }

    /// Sets the connection's state. Connecting clears the failure; a newer failure replaces it.
    pub fn set(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        self.set_sharded(state, failure, None);
    }

    /// Sets the state of a platform that has several connections. Failures are handled as in [`Self::set`].
    pub fn set_sharded(&self, state: LinkState, failure: Option<&AdapterFailure>, shards: Option<Shards>) {
        let mut locked = self.state.lock();
        let is_connected = state == LinkState::Connected;
        let n_down = locked.n_down(is_connected, shards.as_ref());
        let status = &mut locked.status;
        match state {
            LinkState::Connected => {
                if status.state != LinkState::Connected {
                    status.connected_since = Some(self.clock.now());
                }
                (status.reason, status.hint) = (None, None);
            }
            LinkState::Connecting | LinkState::Reconnecting | LinkState::Failed | LinkState::Stopped => {
                (status.connected_since, status.latency_ms) = (None, None);
            }
        }
        if let Some(failure) = failure {
            status.reason = Some(failure.reason.clone());
            status.hint = Some(failure.hint.clone()).filter(|hint| !hint.is_empty());
        }
        status.state = state;
        status.shards = shards;
        let connected = if is_connected { 1.0 } else { 0.0 };
        metrics::gauge!("cairn_platform_connected", "platform" => self.platform).set(connected);
        metrics::gauge!("cairn_platform_shards_down", "platform" => self.platform).set(n_down as f64);
    }

    /// The time by the clock of its states.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// The platform's name in channel ids.
    pub fn platform(&self) -> &'static str {
        self.platform
    }

    pub fn set_name(&self, name: impl Into<String>) {
        self.state.lock().status.name = Some(name.into());
    }

    pub fn inbound(&self) {
        self.state.lock().status.last_inbound = Some(self.clock.now());
        metrics::counter!("cairn_platform_inbound_total", "platform" => self.platform).increment(1);
    }

    /// Records that a message was sent.
    pub fn outbound(&self) {
        self.state.lock().status.last_outbound = Some(self.clock.now());
        metrics::counter!("cairn_platform_outbound_total", "platform" => self.platform).increment(1);
        if self.clear(SENDING) {
            tracing::info!(platform = self.platform, "messages can be sent again");
        }
    }

    /// Records that messages cannot be sent at the moment.
    pub fn unsent(&self, reason: &str) {
        if self.trouble(SENDING, &format!("messages wait: {reason}")) {
            tracing::warn!(platform = self.platform, reason, "messages cannot be sent; they wait");
        }
    }

    pub fn latency(&self, time: Duration) {
        self.state.lock().status.latency_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        metrics::histogram!("cairn_platform_latency_seconds", "platform" => self.platform)
            .record(time.as_secs_f64());
    }

    /// Sets the number of events that wait to be taken in.
    pub fn set_queue(&self, waiting: u64) {
        self.state.lock().status.queue = waiting;
        metrics::gauge!("cairn_platform_queue", "platform" => self.platform).set(waiting as f64);
    }

    /// Records the result of catching up.
    pub fn caught_up(&self, done: CaughtUp) {
        self.state.lock().status.caught_up = Some(done);
    }

    /// Records a trouble in one place. Returns whether it is new.
    pub fn trouble(&self, place: impl Into<Place>, reason: &str) -> bool {
        let Place { words: place, chat } = place.into();
        let troubles = &mut self.state.lock().troubles;
        match troubles.iter_mut().find(|known| known.place == place) {
            Some(known) if known.why == reason => return false,
            Some(known) => reason.clone_into(&mut known.why),
            None => {
                if troubles.len() == TROUBLES_MAX {
                    troubles.pop_front();
                }
                troubles.push_back(Trouble { place, chat, why: reason.to_owned() });
            }
        }
        true
    }

    /// Removes the trouble of a place. Returns whether there was one.
    pub fn clear(&self, place: impl Into<Place>) -> bool {
        let place = place.into().words;
        let troubles = &mut self.state.lock().troubles;
        let before = troubles.len();
        troubles.retain(|known| known.place != place);
        troubles.len() < before
    }

    /// The ids of the chats with a trouble of that kind, oldest first.
    pub fn chats_in_trouble(&self, what: &str) -> Vec<String> {
        let state = self.state.lock();
        let of_kind = state.troubles.iter().filter(|trouble| trouble.place.starts_with(what));
        of_kind.filter_map(|trouble| trouble.chat.clone()).collect()
    }

    pub fn state(&self) -> LinkState {
        self.state.lock().status.state
    }

    /// The full status, for `cairn status`.
    pub fn status(&self) -> PlatformStatus {
        let State { status, troubles, .. } = &*self.state.lock();
        PlatformStatus { troubles: troubles.iter().cloned().collect(), ..status.clone() }
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
    fn a_platform_that_stops_has_all_its_connections_down() {
        let (_, link) = link();
        let n_down = |is_connected, shards: Option<&Shards>| link.state.lock().n_down(is_connected, shards);
        assert_eq!((n_down(false, None), n_down(true, None)), (1, 0));
        assert_eq!(n_down(false, Some(&Shards { total: 4, down: vec![2] })), 1);
        assert_eq!((n_down(false, None), n_down(false, None)), (4, 4));
        assert_eq!((n_down(true, None), n_down(false, None)), (0, 1), "one connection is enough by now");
    }

    #[test]
    fn troubles_are_one_for_each_place_and_bounded() {
        let (_, link) = link();
        let channel = |n: u32| Place::in_chat("channel", n);
        assert!(link.trouble(channel(1), "may not write"));
        assert!(!link.trouble(channel(1), "may not write"));
        assert!(link.trouble(channel(1), "is gone"));
        let (place, chat) = ("channel 1".to_owned(), Some("1".to_owned()));
        assert_eq!(link.status().troubles, [Trouble { place, chat, why: "is gone".to_owned() }]);
        for n in 2..100 {
            link.trouble(channel(n), "is gone");
        }
        assert_eq!(link.status().troubles.len(), TROUBLES_MAX);
        assert!(link.clear(channel(99)));
        assert!(!link.clear(channel(99)));
        assert_eq!(link.status().troubles.len(), TROUBLES_MAX - 1);
    }
}
