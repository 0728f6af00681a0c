//! The root supervisor: starts router, outbox and alarm, restarts them after a pause when they fail, and checks for the watchdog
//! whether every actor still takes messages.

use std::sync::Arc;

use futures::future::join_all;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::alarm::Alarm;
use crate::directory::Directory;
use crate::failure;
use crate::messages::{AlarmMsg, ChannelMsg, CompactorMsg, OutboxMsg, RouterMsg};
use crate::outbox::{Outbox, OutboxArgs};
use crate::pace::Crashes;
use crate::router::{Router, RouterArgs};
use crate::shared::Shared;

/// Silent actors that are listed by name.
const NAMED_MAX: usize = 5;

/// Which actors still take messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Liveness {
    /// Actors that answered, or that are known to be down: their supervisor restarts them.
    pub heard: usize,
    /// Names of actors that did not answer in time: they hang, or the machine does.
    pub silent: Vec<String>,
}

impl Liveness {
    pub fn is_whole(&self) -> bool {
        self.silent.is_empty()
    }

    /// The names of the silent actors, shortened.
    pub fn told(&self) -> String {
        let named = self.silent.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        match self.silent.len().saturating_sub(NAMED_MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

pub(crate) enum SupervisorMsg {
    /// Starts the router again, after a pause.
    StartRouter,
    /// Starts the outbox again, after a pause.
    StartOutbox,
    /// Starts the alarm again, after a pause.
    StartAlarm,
    Liveness {
        by: Instant,
        reply: oneshot::Sender<Liveness>,
    },
}

pub(crate) struct Supervisor;

/// Its children and their failures.
pub(crate) struct SupervisorState {
    shared: Shared,
    /// Turns that the next router finds open were interrupted.
    interrupted: bool,
    router: Option<ActorId>,
    router_crashes: Crashes,
    outbox: Option<ActorId>,
    outbox_crashes: Crashes,
    alarm: Option<ActorId>,
    alarm_crashes: Crashes,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = RouterArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        args: RouterArgs,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let mut state = SupervisorState {
            interrupted: args.interrupted,
            shared: args.shared,
            router: None,
            router_crashes: Crashes::default(),
            outbox: None,
            outbox_crashes: Crashes::default(),
            alarm: None,
            alarm_crashes: Crashes::default(),
        };
        state.start_outbox(&myself).await?;
        state.start_router(&myself).await?;
        state.start_alarm(&myself).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::StartRouter => state.start_router(&myself).await,
            SupervisorMsg::StartOutbox => state.start_outbox(&myself).await,
            SupervisorMsg::StartAlarm => state.start_alarm(&myself).await,
            SupervisorMsg::Liveness { by, reply } => {
                let directory = Arc::clone(&state.shared.directory);
                // In a task, so that the supervisor stays free. A dropped receiver is ignored.
                let ask_all = async move { drop(reply.send(liveness(&directory, by).await)) };
                state.shared.lifecycle.tasks.spawn("liveness", ask_all);
                Ok(())
            }
        }
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let (who, reason) = match event {
            SupervisionEvent::ActorFailed(who, error) => (who.get_id(), failure::of_actor(&error)),
            SupervisionEvent::ActorTerminated(who, _, reason) => (who.get_id(), reason.unwrap_or_default()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if state.shared.lifecycle.is_stopping() {
            return Ok(());
        }
        let base = state.shared.live.limits().restart_pause;
        if state.router == Some(who) {
            state.shared.directory.set_router(None);
            let pause = state.router_crashes.pause(base);
            tracing::error!(reason, ?pause, "the router failed; it and all channels restart after a pause");
            state.shared.lifecycle.count_restart("router");
            myself.send_after(pause, || SupervisorMsg::StartRouter);
        } else if state.outbox == Some(who) {
            state.shared.directory.set_outbox(None);
            let pause = state.outbox_crashes.pause(base);
            tracing::error!(reason, ?pause, "the outbox failed; it restarts after a pause");
            state.shared.lifecycle.count_restart("outbox");
            myself.send_after(pause, || SupervisorMsg::StartOutbox);
        } else if state.alarm == Some(who) {
            state.shared.directory.set_alarm(None);
            let pause = state.alarm_crashes.pause(base);
            tracing::error!(reason, ?pause, "the reminder alarm failed; it restarts after a pause");
            state.shared.lifecycle.count_restart("alarm");
            myself.send_after(pause, || SupervisorMsg::StartAlarm);
        }
        Ok(())
    }
}

impl SupervisorState {
    async fn start_router(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let args = RouterArgs { shared: self.shared.clone(), interrupted: self.interrupted };
        let (router, _) = Router::spawn_linked(None, Router, args, myself.get_cell()).await?;
        self.router = Some(router.get_id());
        // If this router fails, open turns are interrupted by that.
        self.interrupted = true;
        self.shared.directory.set_router(Some(router));
        Ok(())
    }

    async fn start_outbox(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let (outbox, _) =
            Outbox::spawn_linked(None, Outbox, OutboxArgs::of(&self.shared), myself.get_cell()).await?;
        self.outbox = Some(outbox.get_id());
        self.shared.directory.set_outbox(Some(outbox));
        Ok(())
    }

    async fn start_alarm(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let (alarm, _) = Alarm::spawn_linked(None, Alarm, self.shared.clone(), myself.get_cell()).await?;
        self.alarm = Some(alarm.get_id());
        self.shared.directory.set_alarm(Some(alarm));
        Ok(())
    }
}

/// Asks every actor for a sign of life. A dropped reply means that the actor has just ended, which its supervisor knows.
async fn liveness(directory: &Directory, by: Instant) -> Liveness {
    let mut asked = Vec::new();
    let mut ask = |name: String, send: &dyn Fn(oneshot::Sender<()>)| {
        let (reply, answer) = oneshot::channel();
        send(reply);
        asked.push((name, answer));
    };
    ask("router".to_owned(), &|reply| {
        let _down = directory.tell_router(RouterMsg::Ping { reply });
    });
    ask("outbox".to_owned(), &|reply| directory.tell_outbox(OutboxMsg::Ping { reply }));
    ask("alarm".to_owned(), &|reply| directory.tell_alarm(AlarmMsg::Ping { reply }));
    for handle in directory.handles() {
        ask(format!("channel {}", handle.id), &|reply| handle.tell_channel(ChannelMsg::Ping { reply }));
        ask(format!("compactor of {}", handle.id), &|reply| {
            handle.tell_compactor(CompactorMsg::Ping { reply })
        });
    }
    let answers = asked
        .into_iter()
        .map(|(name, answer)| async move { timeout_at(by, answer).await.is_err().then_some(name) });
    let silent: Vec<_> = join_all(answers).await;
    let n_asked = silent.len();
    let silent: Vec<_> = silent.into_iter().flatten().collect();
    Liveness { heard: n_asked - silent.len(), silent }
}
