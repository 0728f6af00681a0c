//! The root: starts router and outbox, and starts them again after a pause when they fail.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::backoff::pause_after;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::failure;
use crate::liveness::{Liveness, listen};
use crate::outbox::Outbox;
use crate::router::{Router, RouterArgs};
use crate::shared::{Phase, Shared};

/// Failures further apart than that do not add up.
const CALM_AFTER: Duration = Duration::from_secs(60);

/// Longest pause before an actor is started again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often an actor failed of late.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    n: u32,
    last: Option<Instant>,
}

impl Crashes {
    /// Counts a failure and says how long to pause.
    pub(crate) fn pause(&mut self, base: Duration) -> Duration {
        let now = Instant::now();
        if self.last.is_none_or(|last| now - last > CALM_AFTER) {
            self.n = 0;
        }
        self.last = Some(now);
        self.n += 1;
        pause_after(self.n, base, PAUSE_MAX)
    }
}

pub(crate) enum SupervisorMsg {
    /// The pause after a failure is over.
    StartRouter,
    /// See `StartRouter`.
    StartOutbox,
    Liveness {
        by: Instant,
        reply: oneshot::Sender<Liveness>,
    },
}

pub(crate) struct Supervisor;

/// Its children and their failures.
pub(crate) struct SupervisorState {
    shared: Arc<Shared>,
    /// Turns that the next router finds open were cut short.
    interrupted: bool,
    router: Option<ActorId>,
    router_crashes: Crashes,
    outbox: Option<ActorId>,
    outbox_crashes: Crashes,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        shared: Arc<Shared>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let mut state = SupervisorState {
            interrupted: !shared.deps.clean_stop,
            shared,
            router: None,
            router_crashes: Crashes::default(),
            outbox: None,
            outbox_crashes: Crashes::default(),
        };
        state.start_outbox(&myself).await?;
        state.start_router(&myself).await?;
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
            SupervisorMsg::Liveness { by, reply } => {
                let shared = Arc::clone(&state.shared);
                // Beside the supervisor, which stays free; who asked and went does not mind.
                let listen = async move { drop(reply.send(listen(shared, by).await)) };
                state.shared.tasks.spawn("pulse", listen);
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
        if state.shared.phase() == Phase::Stopping {
            return Ok(());
        }
        let base = state.shared.limits().restart_pause;
        if state.router == Some(who) {
            state.shared.set_router(None);
            let pause = state.router_crashes.pause(base);
            tracing::error!(
                reason,
                ?pause,
                "the router failed; it and all channels start again after a pause"
            );
            state.shared.count_restart("router");
            myself.send_after(pause, || SupervisorMsg::StartRouter);
        } else if state.outbox == Some(who) {
            state.shared.set_outbox(None);
            let pause = state.outbox_crashes.pause(base);
            tracing::error!(reason, ?pause, "the outbox failed; it starts again after a pause");
            state.shared.count_restart("outbox");
            myself.send_after(pause, || SupervisorMsg::StartOutbox);
        }
        Ok(())
    }
}

impl SupervisorState {
    async fn start_router(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let args = RouterArgs { shared: Arc::clone(&self.shared), interrupted: self.interrupted };
        let (router, _) = Router::spawn_linked(None, Router, args, myself.get_cell()).await?;
        self.router = Some(router.get_id());
        // Whatever is open when this one fails was cut short by that.
        self.interrupted = true;
        self.shared.set_router(Some(router));
        Ok(())
    }

    async fn start_outbox(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let (outbox, _) =
            Outbox::spawn_linked(None, Outbox, Arc::clone(&self.shared), myself.get_cell()).await?;
        self.outbox = Some(outbox.get_id());
        self.shared.set_outbox(Some(outbox));
        Ok(())
    }
}
