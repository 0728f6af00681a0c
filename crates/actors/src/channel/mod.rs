//! The channel's actor: the only writer of its conversation.
//!
//! Every change goes the same way: a pure decision names the events, the journal makes them durable, then they are folded
//! in under the write lock. Turns and runs are tasks beside the actor, which propose their changes to it.

mod client_lists;
mod deliveries;
mod imports;
mod next_turn;
mod reminders;
mod report;
mod requests;
mod runs;
mod state;
mod turns;
mod voice;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::messages::ChannelMsg;
use state::{ChannelState, answer};

pub(crate) use state::ChannelArgs;

pub(crate) struct Channel;

impl Actor for Channel {
    type Msg = ChannelMsg;
    type State = ChannelState;
    type Arguments = ChannelArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<ChannelMsg>,
        args: ChannelArgs,
    ) -> Result<ChannelState, ActorProcessingErr> {
        Ok(ChannelState::new(myself, args))
    }

    async fn post_start(
        &self,
        _myself: ActorRef<ChannelMsg>,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        state.resume().await
    }

    async fn handle(
        &self,
        _myself: ActorRef<ChannelMsg>,
        message: ChannelMsg,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        // Boxed, so that an idle actor does not hold the memory for handling a message.
        Box::pin(handle(message, state)).await
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<ChannelMsg>,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        // A stop saves all snapshots together, for as long as there is time.
        if !state.shared.lifecycle.is_stopping() {
            state.save_snapshot();
        }
        Ok(())
    }
}

async fn handle(message: ChannelMsg, state: &mut ChannelState) -> Result<(), ActorProcessingErr> {
    match message {
        ChannelMsg::Request(request) => {
            state.received += 1;
            state.note_activity();
            state.handle_request(request).await?;
        }
        ChannelMsg::Step { attempt, events, reply } => {
            drop(reply.send(answer(state.step(attempt, events).await)?));
        }
        ChannelMsg::MakeRoom { attempt, settings, cause, reply } => {
            drop(reply.send(answer(state.make_room(attempt, &settings, cause).await)?));
        }
        ChannelMsg::Join { attempt, reply } => {
            drop(reply.send(answer(state.join(attempt).await)?));
        }
        ChannelMsg::TurnDone { attempt, ended } => state.turn_done(attempt, *ended).await?,
        ChannelMsg::Yield { attempt } => state.yield_turn(attempt),
        ChannelMsg::Spent { model, usage, is_estimate, trace, reservation } => {
            state.spent(model, usage, is_estimate, trace).await?;
            drop(reservation);
        }
        ChannelMsg::Retry => state.retry().await?,
        ChannelMsg::Propose => state.propose().await?,
        ChannelMsg::FinishRun { run, draft } => state.finish_run(&run, draft).await?,
        ChannelMsg::Checkpoint { run, checkpoint, reply } => {
            let journalled = state.checkpoint(&run, *checkpoint).await?;
            // Dropped receivers are ignored.
            let _ = reply.send(journalled);
        }
        ChannelMsg::FailAttempt { run, attempt, reason, retry_after_ms } => {
            state.fail_attempt(&run, attempt, &reason, retry_after_ms).await?;
        }
        ChannelMsg::GiveUpRun { run, outcome, reason } => state.give_up_run(&run, outcome, &reason).await?,
        ChannelMsg::TellLoss => state.tell_loss().await?,
        ChannelMsg::Tick => state.tick(),
        ChannelMsg::Sleep => state.request_sleep(),
        ChannelMsg::Expire => state.expire().await?,
        ChannelMsg::Ping { reply } => drop(reply.send(())),
        ChannelMsg::Drain { done } => state.drain(done),
        ChannelMsg::Abandon { done } => {
            state.abandon().await?;
            let _ = done.send(());
        }
    }
    Ok(())
}
