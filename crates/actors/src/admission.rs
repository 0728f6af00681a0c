//! Shares of people in the calls of models: who waits for theirs, as [`Shares`] decides.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_core::shares::{Shares, Ticket};
use cairn_types::ports::Clock;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::live::Live;

#[derive(Default)]
pub(crate) struct CallShares(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    shares: Shares,
    /// Who is told that their call begins.
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
    next: Ticket,
}

/// A call's place, from its wish to its end: it is given back when this is dropped, at whichever point.
pub(crate) struct CallSlot {
    shares: Arc<CallShares>,
    live: Arc<Live>,
    clock: Arc<dyn Clock>,
    person: String,
    ticket: Ticket,
    turn: Option<oneshot::Receiver<()>>,
}

impl CallSlot {
    /// Takes a place for a call of that person.
    pub(crate) fn of(
        shares: Arc<CallShares>,
        live: Arc<Live>,
        clock: Arc<dyn Clock>,
        person: String,
    ) -> Self {
        let (share, now) = (live.limits().user_calls_at_once, clock.now());
        let mut queue = shares.0.lock();
        let ticket = queue.next;
        queue.next += 1;
        let turn = (!queue.shares.begin(&person, ticket, share, now)).then(|| {
            let (told, turn) = oneshot::channel();
            queue.waiting.insert(ticket, told);
            turn
        });
        drop(queue);
        Self { shares, live, clock, person, ticket, turn }
    }

    pub(crate) fn waits(&self) -> bool {
        self.turn.is_some()
    }

    /// Waits until the call may begin.
    pub(crate) async fn begin(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let since = Instant::now();
        // Its sender is kept until it is told.
        let _told = turn.await;
        self.turn = None;
        metrics::histogram!("cairn_share_wait_seconds").record(since.elapsed().as_secs_f64());
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let (share, now) = (self.live.limits().user_calls_at_once, self.clock.now());
        let mut queue = self.shares.0.lock();
        queue.waiting.remove(&self.ticket);
        for begun in queue.shares.end(&self.person, self.ticket, share, now) {
            if let Some(told) = queue.waiting.remove(&begun) {
                // Who has just left gives the place back by itself.
                let _ = told.send(());
            }
        }
    }
}
