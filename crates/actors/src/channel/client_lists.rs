//! Lists of messages that clients of the OpenAI-compatible endpoint send: the conversation is brought to where the list stands,
//! and its last message is accepted.

use cairn_core::client_list::{ClientList, Reconciled, catch_up, reconcile};
use cairn_core::compaction::give_up;
use cairn_core::conversation::Conversation;
use cairn_types::event::{Event, RunOutcome};
use cairn_types::message::fingerprint;
use cairn_types::ports::{Admission, Refusal};

use super::requests::BUSY_RETRY_SECS;
use super::state::{ChannelState, Failed};
use crate::client_tools::ClientTools;
use crate::tasks::off_thread;

impl ChannelState {
    /// The message is durable when this returns. While an answer is under way the list is refused: nobody knows yet what the
    /// client may know of it.
    pub(super) async fn take_list(&mut self, list: &ClientList) -> Result<Admission, Failed<Refusal>> {
        if self.draining {
            return Err(Refusal::Unavailable("stopping").into());
        }
        let waits = |conversation: &Conversation| {
            conversation.open_turn.is_some() || !conversation.pending.is_empty()
        };
        if self.unsaved.is_some() || self.handle.read(waits) {
            return Err(Refusal::Busy { retry_after_secs: BUSY_RETRY_SECS }.into());
        }
        let asked = list.asked();
        self.check_limit(&asked).await?;
        // A list may be long, and the lock is for quick looks.
        let (conversation, given) = (self.handle.snapshot(), list.clone());
        let laid_beside = off_thread(move || {
            let reconciled = reconcile(&conversation, &given.listed, &given.author.id);
            let events = catch_up(&conversation, &given, &reconciled);
            (reconciled, events)
        });
        let (reconciled, mut events) = laid_beside.await.map_err(|panic| {
            tracing::error!(channel = %self.handle.id, %panic,
                "reading a client's message list panicked; please report it");
            Refusal::Unavailable("internal error")
        })?;
        if let Some(cancelled) = self.cancelled_run(&reconciled) {
            events.insert(0, cancelled);
        }
        if !events.is_empty() {
            let (channel, undone) = (&self.handle.id, reconciled.undone.len());
            tracing::info!(%channel, undone, events = events.len(),
                "a conversation was updated from its client's message list");
            metrics::counter!("cairn_openai_undone_total").increment(undone as u64);
            self.commit_past(events).await?;
        }
        self.handle.set_client_tools(ClientTools::new(list.message.clone(), list.tools.clone()));
        let print = fingerprint(&asked.author, &asked.parts);
        self.enqueue_within_limits(&asked, print, None).await
    }

    /// The end of the run under way, if it summarises what is taken back.
    fn cancelled_run(&self, reconciled: &Reconciled) -> Option<Event> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let first = reconciled.undone.last()?.from_seq;
        self.handle.read(|conversation| {
            let (_, sealed_to) = conversation.sealed_range()?;
            let reason = "what it summarises was taken back";
            let cancel = || give_up(conversation, &settings, RunOutcome::Cancelled, reason, now);
            (first <= sealed_to).then(cancel).flatten()
        })
    }
}
