//! Starting again what failed: channels from the archive, compactors beside them, each after a pause.

use std::sync::Arc;

use cairn_core::ids::ChannelId;
use ractor::{Actor as _, ActorId, ActorRef};

use super::{Part, RouterMsg, RouterState, Slot, Waking, refuse_all};
use crate::compactor::{Compactor, CompactorArgs};
use crate::runtime::RuntimeError;
use crate::shared::Phase;

impl RouterState {
    /// Refuses what waits, and tries again when something is unfinished there.
    pub(super) fn put_off(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        channel: ChannelId,
        mut waking: Waking,
        error: RuntimeError,
    ) {
        refuse_all(std::mem::take(&mut waking.queue), &error);
        if waking.must {
            let pause = waking.crashes.pause(self.shared.limits().store_retry_pause);
            self.wake(myself, channel, waking, pause);
        }
    }

    /// Starts the compactor of a channel that is awake and has none.
    pub(super) async fn start_compactor(&mut self, myself: &ActorRef<RouterMsg>, channel: &ChannelId) {
        let Some(Slot::Awake(awake)) = self.slots.get_mut(channel) else { return };
        let Some(handle) = self.shared.handle(channel).filter(|_| awake.compactor.is_none()) else { return };
        let args = CompactorArgs { shared: Arc::clone(&self.shared), handle };
        match Compactor::spawn_linked(None, Compactor, args, myself.get_cell()).await {
            Ok((compactor, _)) => {
                self.who.insert(compactor.get_id(), (channel.clone(), Part::Compactor));
                awake.compactor = Some(compactor);
            }
            Err(error) => {
                let pause = awake.compactor_crashes.pause(self.shared.limits().restart_pause);
                tracing::error!(%channel, %error, ?pause, "cannot start the compactor; trying again");
                let channel = channel.clone();
                myself.send_after(pause, || RouterMsg::StartCompactor(channel));
            }
        }
    }

    /// A channel's actor failed: it starts again from the archive, after a pause.
    pub(super) fn recover(&mut self, myself: &ActorRef<RouterMsg>, channel: &ChannelId, reason: &str) {
        let Some(Slot::Awake(mut awake)) = self.slots.remove(channel) else { return };
        awake.token.cancel();
        self.who.remove(&awake.channel.get_id());
        if self.shared.phase() == Phase::Stopping {
            return;
        }
        let pause = awake.crashes.pause(self.shared.limits().restart_pause);
        tracing::error!(%channel, reason, ?pause, "a channel failed; it starts again from the store");
        self.shared.count_restart("channel");
        let waking = Waking {
            queue: Vec::new(),
            must: true,
            interrupted: true,
            crashes: awake.crashes,
            compactor: awake.compactor,
        };
        self.wake(myself, channel.clone(), waking, pause);
    }

    pub(super) fn recover_compactor(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        who: ActorId,
        channel: &ChannelId,
        reason: &str,
    ) {
        self.who.remove(&who);
        match self.slots.get_mut(channel) {
            Some(Slot::Awake(awake)) => {
                awake.compactor = None;
                let pause = awake.compactor_crashes.pause(self.shared.limits().restart_pause);
                tracing::error!(%channel, reason, ?pause, "a compactor failed; it starts again after a pause");
                self.shared.count_restart("compactor");
                let channel = channel.clone();
                myself.send_after(pause, || RouterMsg::StartCompactor(channel));
            }
            Some(Slot::Waking(waking)) => waking.compactor = None,
            None => {}
        }
    }
}
