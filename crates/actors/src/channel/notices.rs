//! What the chat is told beside answers, as notes that the outbox owes.

use std::time::Duration;

use cairn_core::event::{CompactionEvent, Event, Record};
use cairn_core::notice::{self, Due};

use super::journal::Fault;
use super::{ChannelMsg, ChannelState};
use crate::notice::Notice;

impl ChannelState {
    /// These events, with the notes that the ends of runs among them make due.
    pub(super) fn with_notes(&mut self, events: Vec<Event>) -> Vec<Event> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let mut conversation = self.handle.snapshot();
        if let Some(run) = &mut conversation.run {
            run.tell |= self.told_of.contains(&run.id);
        }
        notice::with_notes(&conversation, &settings, events, now)
    }

    /// What left view at once, in this way or that, is reported; of an emergency the chat is told where no summary follows.
    pub(super) fn watch_losses(&self, records: &[Record]) {
        for record in records {
            match &record.event {
                Event::Compaction(CompactionEvent::EmergencyApplied { .. }) => self.expect_loss(),
                Event::Compaction(CompactionEvent::WindowSlid {
                    messages,
                    tokens_before,
                    tokens_after,
                    ..
                }) => {
                    self.report_slide(*messages, *tokens_before, *tokens_after);
                }
                _ => {}
            }
        }
    }

    fn report_slide(&self, messages: u64, tokens_before: u64, tokens_after: u64) {
        let channel = self.handle.id.clone();
        metrics::counter!("cairn_slides_total").increment(1);
        tracing::info!(%channel, messages, tokens_before, tokens_after,
            "the window slid: the oldest turns left it; they stay in the history");
        self.shared.notify(Notice::WindowSlid { channel, messages, tokens_before, tokens_after });
    }

    /// Looks again when the chat may have to be told of what was lost from view.
    pub(super) fn expect_loss(&self) {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let wait = match self.handle.read(|conversation| notice::due(conversation, &settings, now)) {
            Due::Nothing => return,
            Due::At(at) => Duration::try_from(at.duration_since(now)).unwrap_or_default(),
            Due::Now(_) => Duration::ZERO,
        };
        // A little more, so that a clock that counts milliseconds has surely passed the time.
        self.myself.send_after(wait + Duration::from_millis(1), || ChannelMsg::TellLoss);
    }

    /// Tells the chat of what was lost from view, if it is time.
    pub(super) async fn tell_loss(&mut self) -> Result<(), Fault> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        match self.handle.read(|conversation| notice::due(conversation, &settings, now)) {
            Due::Nothing => {}
            Due::At(_) => self.expect_loss(),
            Due::Now(event) => {
                if self.commit(vec![*event]).await?.is_err() {
                    let pause = self.shared.limits().store_retry_pause;
                    self.myself.send_after(pause, || ChannelMsg::TellLoss);
                }
            }
        }
        Ok(())
    }
}
