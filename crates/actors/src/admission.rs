//! The queue for model calls: each person has a share of the calls at work, as [`Shares`] decides; further calls wait.

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
    /// Told when their call may start.
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
    next: Ticket,
}

/// A call's slot, which is given back when this is dropped.
pub(crate) struct CallSlot {
    shares: Arc<CallShares>,
    live: Arc<Live>,
    clock: Arc<dyn Clock>,
    person: String,
    ticket: Ticket,
    turn: Option<oneshot::Receiver<()>>,
}

impl CallSlot {
    /// Takes a slot for a person's call, or a place in the queue.
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

    /// Waits until the call may start.
    pub(crate) async fn begin(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let since = Instant::now();
        // The sender stays in the queue until the call may start.
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
                // A call that was dropped meanwhile gives its slot back by itself.
                let _ = told.send(());
            }
        }
    }
}
