//! Falling asleep and stopping.

use std::sync::Arc;

use cairn_core::compaction::Decision;
use tokio::time::Instant;

use super::{ChannelMsg, ChannelState, Reply};
use crate::compactor::CompactorMsg;
use crate::failure;
use crate::router::RouterMsg;

impl ChannelState {
    /// Something came: the channel stays awake.
    pub(super) fn stir(&mut self) {
        self.last_active = Instant::now();
        if std::mem::take(&mut self.falling) {
            // A run that was proposed meanwhile was not taken.
            self.handle.tell_compactor(CompactorMsg::Look);
        }
    }

    /// Asks the router to let the channel sleep when nothing happened for long and nothing is under way.
    pub(super) fn tick(&mut self) {
        let limit = self.shared.limits().idle_after;
        let quiet = self.last_active.elapsed();
        if quiet >= limit && self.may_sleep() {
            self.falling = true;
            let (channel, who, received) = (self.handle.id.clone(), self.myself.get_id(), self.received);
            self.shared.tell_router(RouterMsg::Idle { channel, who, received });
        }
        let wait = if quiet < limit { limit - quiet } else { limit };
        self.myself.send_after(wait, || ChannelMsg::Tick);
    }

    fn may_sleep(&self) -> bool {
        if self.current.is_some() || self.unsaved.is_some() || self.handle.subscribers.is_awaited() {
            return false;
        }
        let (now, settings) = (self.shared.now(), self.handle.settings());
        self.handle.read(|conversation| {
            conversation.open_turn.is_none()
                && conversation.run.is_none()
                && matches!(self.handle.due(conversation, &settings, now), Decision::Idle)
        })
    }

    /// Starts no more turns; `done` is answered when none is open.
    pub(super) fn drain(&mut self, done: Reply<()>) {
        self.draining = true;
        self.drained.push(done);
        if self.current.is_none() && self.unsaved.is_none() {
            self.tell_drained();
        }
    }

    /// Answers who waits for the open turn to end.
    pub(super) fn tell_drained(&mut self) {
        if self.current.is_none() && self.unsaved.is_none() {
            for done in self.drained.drain(..) {
                let _ = done.send(());
            }
        }
    }

    /// Drops the open turn's task; the turn stays open in the journal.
    pub(super) fn abandon(&mut self) {
        self.draining = true;
        self.cancel_turn();
        self.handle.subscribers.close(&failure::stopping());
        self.tell_drained();
    }

    /// Keeps a snapshot, in a task of its own: it is only a cache.
    pub(super) fn keep_snapshot(&mut self) {
        let snapshot = Arc::new(self.handle.snapshot());
        if snapshot.last_n == self.snapshot_n {
            return;
        }
        self.snapshot_n = snapshot.last_n;
        self.since_snapshot = 0;
        let store = Arc::clone(&self.shared.deps.store);
        self.shared.tasks.spawn("keep a snapshot", async move {
            if let Err(error) = store.keep_snapshot(snapshot).await {
                tracing::warn!(%error, "a conversation's snapshot was not kept; its next start takes longer");
            }
        });
    }
}
