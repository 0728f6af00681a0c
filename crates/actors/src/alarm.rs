//! The alarm: waits until the next reminder is due, and then has its channel fire it.
//!
//! It has no state of its own: reminders are in the journal, and the channel fires each of them once. An alarm that restarts
//! reads when the next one is due.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::store_port::Due;
use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::messages::{AlarmMsg, Create, Request, RouterMsg};
use crate::shared::Shared;

/// Longest sleep. The wall clock may be set while it sleeps, and a channel may have had to put off what was due.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Alarm;

pub(crate) struct AlarmState {
    shared: Shared,
    /// When the next reminder is due.
    next: Option<Timestamp>,
    /// The store is being read.
    is_looking: bool,
    /// Reminders changed since.
    is_outdated: bool,
    timer: Option<JoinHandle<()>>,
}

impl Actor for Alarm {
    type Msg = AlarmMsg;
    type State = AlarmState;
    type Arguments = Shared;

    async fn pre_start(
        &self,
        myself: ActorRef<AlarmMsg>,
        shared: Shared,
    ) -> Result<AlarmState, ActorProcessingErr> {
        let mut state = AlarmState { shared, next: None, is_looking: false, is_outdated: false, timer: None };
        state.look(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<AlarmMsg>,
        message: AlarmMsg,
        state: &mut AlarmState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AlarmMsg::Changed => state.look(&myself),
            AlarmMsg::Tick if state.next.is_some_and(|next| next <= state.shared.ports.now()) => {
                state.look(&myself);
            }
            AlarmMsg::Tick => state.sleep(&myself),
            AlarmMsg::Found(due) => state.found(&myself, due),
            AlarmMsg::Ping { reply } => drop(reply.send(())),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<AlarmMsg>,
        state: &mut AlarmState,
    ) -> Result<(), ActorProcessingErr> {
        state.stop_timer();
        Ok(())
    }
}

impl AlarmState {
    /// Reads what is due; retries until the store answers.
    fn look(&mut self, myself: &ActorRef<AlarmMsg>) {
        self.is_outdated = self.is_looking;
        if std::mem::replace(&mut self.is_looking, true) {
            return;
        }
        let (ports, live) = (Arc::clone(&self.shared.ports), Arc::clone(&self.shared.live));
        let alarm = myself.clone();
        self.shared.lifecycle.tasks.spawn("find due reminders", async move {
            let due = loop {
                match ports.store.due(ports.now()).await {
                    Ok(due) => break due,
                    Err(error) => {
                        tracing::error!(%error, "cannot list due reminders; trying again");
                        tokio::time::sleep(live.limits().store_retry_pause).await;
                    }
                }
            };
            // The next alarm reads it again.
            let _ = alarm.send_message(AlarmMsg::Found(due));
        });
    }

    fn found(&mut self, myself: &ActorRef<AlarmMsg>, due: Due) {
        self.is_looking = false;
        if std::mem::take(&mut self.is_outdated) {
            return self.look(myself);
        }
        // Those that are due now are looked at again with the next one, or after a sleep, unless they change before.
        let now = self.shared.ports.now();
        self.next = match (due.channels.is_empty(), due.next) {
            (true, next) => next,
            (false, next) => {
                let next = next.filter(|next| *next > now);
                Some(next.map_or(now + SLEEP_MAX, |next| next.min(now + SLEEP_MAX)))
            }
        };
        for channel in due.channels {
            let request = Request::FireDue;
            let message = RouterMsg::Deliver { channel, create: Create::No, request };
            self.shared.directory.tell_router(message);
        }
        self.sleep(myself);
    }

    /// Sleeps until the next reminder is due, but not for long at once.
    fn sleep(&mut self, myself: &ActorRef<AlarmMsg>) {
        let Some(next) = self.next else { return self.stop_timer() };
        let left = Duration::try_from(next.duration_since(self.shared.ports.now())).unwrap_or_default();
        self.sleep_for(myself, left.min(SLEEP_MAX));
    }

    fn sleep_for(&mut self, myself: &ActorRef<AlarmMsg>, length: Duration) {
        self.stop_timer();
        let alarm = myself.clone();
        self.timer = Some(tokio::spawn(async move {
            tokio::time::sleep(length).await;
            // An alarm that has failed starts again.
            let _ = alarm.send_message(AlarmMsg::Tick);
        }));
    }

    fn stop_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

impl Drop for AlarmState {
    fn drop(&mut self) {
        self.stop_timer();
    }
}
