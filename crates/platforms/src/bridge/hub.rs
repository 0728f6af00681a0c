//! The way out to a bridge: its event stream, and what it acknowledges.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use cairn_types::ports::{AdapterFailure, LinkState};
use futures::{Stream, stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::wire::{Ack, PROTOCOL};
use crate::link::Link;

/// After this long without an acknowledgement the connection is closed, and what was handed over comes again.
pub(super) const ACK_LIMIT: Duration = Duration::from_secs(60);

/// How long a delivery waits for a bridge to connect before the outbox pauses it.
const CONNECT_WAIT: Duration = Duration::from_secs(60);

/// Events that wait to be written to a bridge; a delivery waits for room.
const EVENTS_MAX: usize = 64;

/// Most events that wait for their acknowledgement: a bridge that sends slowly has time for each.
const UNACKNOWLEDGED_MAX: usize = 8;

/// Why there is no acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAck {
    /// The bridge was certainly not handed it.
    NotHanded(String),
    /// The bridge may have it.
    Broken(String),
}

/// An open event stream.
#[derive(Clone)]
struct Session {
    events: mpsc::Sender<Event>,
    closed: CancellationToken,
}

impl Session {
    fn is(&self, other: &Self) -> bool {
        self.events.same_channel(&other.events)
    }
}

pub(super) struct Hub {
    link: Arc<Link>,
    current: watch::Sender<Option<Session>>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Ack>>>,
    room: Semaphore,
    /// Set at the stop: nobody waits for a bridge to connect.
    stopping: CancellationToken,
}

/// Removes a waiting delivery that nobody waits for any more.
struct Waiting<'h> {
    hub: &'h Hub,
    id: &'h str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.hub.waiting.lock().remove(self.id);
    }
}

impl Hub {
    pub(super) fn new(link: Arc<Link>) -> Self {
        let (current, waiting) = (watch::Sender::new(None), Mutex::default());
        let room = Semaphore::new(UNACKNOWLEDGED_MAX);
        Self { link, current, waiting, room, stopping: CancellationToken::new() }
    }

    /// From now on nobody waits for a bridge to connect.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }

    pub(super) fn is_connected(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Hands an event to the bridge and waits for its acknowledgement.
    pub(super) async fn ask(
        &self,
        id: &str,
        name: &'static str,
        data: &impl Serialize,
    ) -> Result<Ack, NoAck> {
        let absent = || NoAck::NotHanded("its bridge is not connected".to_owned());
        // Without a bridge each waits for itself; with one, for its turn.
        self.session().await.ok_or_else(absent)?;
        let _room = self.room.acquire().await.map_err(|_closed| absent())?;
        let session = self.session().await.ok_or_else(absent)?;
        let (acknowledge, mut acknowledged) = oneshot::channel();
        self.waiting.lock().insert(id.to_owned(), acknowledge);
        let _waiting = Waiting { hub: self, id };
        tokio::select! {
            biased;
            () = session.closed.cancelled() => return Err(left_before()),
            sent = session.events.send(event(name, data)) => sent.map_err(|_| left_before())?,
        }
        tokio::select! {
            biased;
            Ok(ack) = &mut acknowledged => Ok(ack),
            () = session.closed.cancelled() => {
                Err(NoAck::Broken("its bridge left before it acknowledged it".to_owned()))
            }
            () = tokio::time::sleep(ACK_LIMIT) => {
                session.closed.cancel();
                let secs = ACK_LIMIT.as_secs();
                tracing::warn!(
                    platform = self.link.platform(), secs,
                    "the bridge acknowledged nothing for too long; its connection is closed"
                );
                Err(NoAck::Broken(format!("its bridge did not acknowledge it within {secs} s")))
            }
        }
    }

    /// Hands over an event that is not acknowledged, if the bridge is connected and has room for it.
    pub(super) fn tell(&self, name: &'static str, data: &impl Serialize) {
        if let Some(session) = &*self.current.borrow() {
            // One that is left out does no harm.
            let _ = session.events.try_send(event(name, data));
        }
    }

    /// Takes an acknowledgement. Returns false if nothing waits for it.
    pub(super) fn acknowledge(&self, id: &str, ack: Ack) -> bool {
        let waiting = self.waiting.lock().remove(id);
        waiting.is_some_and(|waiting| waiting.send(ack).is_ok())
    }

    async fn session(&self) -> Option<Session> {
        let mut current = self.current.subscribe();
        let connected =
            async { current.wait_for(Option::is_some).await.ok().and_then(|session| session.clone()) };
        tokio::select! {
            biased;
            session = connected => session,
            () = self.stopping.cancelled() => None,
            () = tokio::time::sleep(CONNECT_WAIT) => None,
        }
    }

    /// Opens the event stream of a bridge. It replaces an older one, which is closed.
    pub(super) fn open(self: &Arc<Self>) -> impl Stream<Item = Result<Event, Infallible>> + Send + use<> {
        let (events, incoming) = mpsc::channel(EVENTS_MAX);
        let session = Session { events, closed: CancellationToken::new() };
        let before = self.current.send_replace(Some(session.clone()));
        if let Some(before) = before {
            before.closed.cancel();
            tracing::info!(
                platform = self.link.platform(),
                "a bridge connected again; its older connection is closed"
            );
        } else {
            tracing::info!(platform = self.link.platform(), "the bridge is connected");
        }
        self.link.set(LinkState::Connected, None);
        let open = Open { hub: Arc::clone(self), session };
        let ready = event("ready", &json!({ "protocol": PROTOCOL }));
        stream::unfold((open, incoming, Some(ready)), async |(open, mut incoming, ready)| {
            if let Some(ready) = ready {
                return Some((Ok(ready), (open, incoming, None)));
            }
            let next = tokio::select! {
                biased;
                () = open.session.closed.cancelled() => None,
                next = incoming.recv() => next,
            };
            next.map(|event| (Ok(event), (open, incoming, None)))
        })
    }

    /// Shows that no bridge is connected.
    pub(super) fn show_absent(&self, reason: String) {
        let hint = "start it; it says hello and opens `deliveries`".to_owned();
        let failure = AdapterFailure { reason, hint, lasting: false };
        self.link.set(LinkState::Reconnecting, Some(&failure));
    }
}

fn left_before() -> NoAck {
    NoAck::NotHanded("its bridge left".to_owned())
}

fn event(name: &'static str, data: &impl Serialize) -> Event {
    // What is sent are plain records, which always become JSON.
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// Closes a session when its stream ends.
struct Open {
    hub: Arc<Hub>,
    session: Session,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.session.closed.cancel();
        let is_current = self
            .hub
            .current
            .send_if_modified(|current| current.take_if(|current| current.is(&self.session)).is_some());
        let link = &self.hub.link;
        if is_current && link.state() != LinkState::Stopped {
            let since = link.now().strftime("%Y-%m-%d %H:%M:%S UTC");
            self.hub.show_absent(format!("its bridge has been disconnected since {since}"));
            tracing::warn!(platform = link.platform(), "the bridge disconnected; messages wait for it");
        }
    }
}
