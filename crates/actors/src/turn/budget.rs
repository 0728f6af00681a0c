//! How long a turn may take. The clock stands still while it waits for a model that does not answer.

use std::time::Duration;

use cairn_core::ports::TurnFailure;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::failure;

pub(super) struct Budget {
    limit: Duration,
    /// When it is over; none while the clock stands still.
    deadline: watch::Sender<Option<Instant>>,
    /// Why there is no answer yet, while no model answers.
    why: Mutex<Option<TurnFailure>>,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, deadline: watch::Sender::new(Some(Instant::now() + limit)), why: Mutex::default() }
    }

    /// Notes why there is no answer yet; none: a model has answered.
    pub(super) fn note(&self, why: Option<TurnFailure>) {
        *self.why.lock() = why;
    }

    /// What a turn fails with whose time is over.
    pub(super) fn failure(&self) -> TurnFailure {
        self.why.lock().clone().unwrap_or_else(|| failure::too_long(self.limit))
    }

    pub(super) fn hold(&self) {
        self.deadline.send_replace(None);
    }

    /// It restarts, if the clock stood still.
    pub(super) fn go_on(&self) {
        self.deadline.send_if_modified(|deadline| {
            let held = deadline.is_none();
            deadline.get_or_insert_with(|| Instant::now() + self.limit);
            held
        });
    }

    pub(super) async fn is_over(&self) {
        let mut changes = self.deadline.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            let over = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender is this.
                _ = changes.changed() => {}
            }
        }
    }
}
