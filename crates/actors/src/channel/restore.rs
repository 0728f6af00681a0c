//! Taking up again what a restart found unfinished.

use cairn_core::conversation::MAX_INTERRUPTIONS;
use cairn_core::event::{Event, TurnEvent};
use ractor::ActorProcessingErr;

use super::closing::{close_calls, stamp};
use super::journal::Fault;
use super::{ChannelMsg, ChannelState};
use crate::compactor::CompactorMsg;
use crate::turn::note_id;

/// Unclean stops after which a turn is given up whose chat was told that it waits for a model. It may be open for days
/// through no fault of its own; but should it be what fails each time, that must come to an end, too.
const MAX_WHILE_WAITING: u32 = 10 * MAX_INTERRUPTIONS;

impl ChannelState {
    /// The open turn runs again, or goes to the dead letters; pending messages and the run follow.
    pub(super) async fn take_up(&mut self) -> Result<(), ActorProcessingErr> {
        let settings = &self.handle.settings();
        self.tier = self.handle.read(|conversation| cairn_core::window::measure(conversation, settings).tier);
        self.myself.send_after(self.shared.limits().idle_after, || ChannelMsg::Tick);
        self.expect_loss();
        let open = self.handle.read(|conversation| conversation.open_turn.clone());
        if let Some(open) = open {
            let mut events = self.handle.read(|conversation| {
                let mut results = close_calls(&self.shared, conversation, "interrupted by a restart");
                stamp(conversation, &mut results);
                results
            });
            let mut interruptions = open.interruptions;
            if self.interrupted {
                interruptions += 1;
                events.push(Event::Turn(TurnEvent::Interrupted { turn: open.id.clone() }));
                tracing::warn!(channel = %self.handle.id, turn = %open.id, interruptions,
                    "a turn was cut short by a failure; it is taken up again");
            }
            // The store may be unwell: then this actor fails and is started again after a pause.
            self.commit(events).await??;
            let told = open.notes.contains(&note_id(&self.handle.id, &open.id));
            if interruptions >= if told { MAX_WHILE_WAITING } else { MAX_INTERRUPTIONS } {
                self.give_up_turn(interruptions).await?;
            }
        }
        self.expire_at_wake().await?;
        self.go_on().await?;
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(())
    }

    async fn give_up_turn(&mut self, interruptions: u32) -> Result<(), Fault> {
        let Some(closing) = self.dead_lettered() else { return Ok(()) };
        tracing::error!(channel = %self.handle.id, turn = %closing.turn(), interruptions,
            "a turn went to the dead letters: each time it was open, everything failed; its words are in the history");
        self.close(closing).await.map(drop)
    }
}
