//! Simpler requests: if a model's server refuses a request for an unknown reason, it is asked with less and less, so that
//! no refusal silences a channel (`cairn_core::withheld`).

use cairn_core::notice::{Withheld, note_of_withheld};
use cairn_core::withheld::{narrowed, widened};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::SeqRange;
use cairn_types::model::{Attempt, ModelError};
use cairn_types::ports::TurnFailure;

use super::state::Turn;
use super::tries::Tries;

impl Turn {
    /// Simplifies the next request after the server refused it and no other model is well: first with less of the history,
    /// at last with nothing but the message. False: nothing more can be left out.
    pub(super) async fn simplify(
        &mut self,
        error: &ModelError,
        tries: &mut Tries,
    ) -> Result<bool, TurnFailure> {
        if !error.may_be_of_content() || tries.simpler.attempt == Attempt::Bare {
            return Ok(false);
        }
        let model = self.settings.model.clone();
        let before = match tries.simpler.withheld.last() {
            Some(last) => *last,
            None => self.args.handle.read(|conversation| conversation.withheld.get(&model).copied()),
        };
        let wider = self.args.handle.read(|conversation| widened(conversation, before));
        if tries.simpler.withheld.is_empty() {
            tries.simpler.withheld.push(before);
        }
        match wider {
            Some(range) => {
                tries.simpler.withheld.push(Some(range));
                tries.simpler.attempt = Attempt::Trimmed;
                self.withhold(Some(range)).await?;
            }
            None => {
                tries.simpler.attempt = Attempt::Bare;
                self.withhold(tries.simpler.withheld[0]).await?;
            }
        }
        Ok(true)
    }

    async fn withhold(&mut self, range: Option<SeqRange>) -> Result<(), TurnFailure> {
        let model = self.settings.model.clone();
        self.step(vec![Event::Turn(TurnEvent::HistoryWithheld { model, range })]).await
    }

    /// Journals what has to stay left out after the model has answered, and tells the chat.
    pub(super) async fn tell_withheld(&mut self, tries: &Tries) -> Result<(), TurnFailure> {
        let (model, channel) = (&self.settings.model, &self.args.handle.id);
        let what = match (tries.simpler.attempt, tries.simpler.withheld.as_slice()) {
            (Attempt::Bare, _) => Withheld::All,
            (Attempt::Trimmed, [.., before, Some(answered)]) => {
                let range = narrowed(*answered, *before);
                tracing::warn!(%channel, model, from_seq = %range.from_seq, to_seq = %range.to_seq,
                    "the model's server refuses part of the history; this range is left out of requests to it");
                self.withhold(Some(range)).await?;
                Withheld::Part
            }
            _ => return Ok(()),
        };
        let (model, channel) = (&self.settings.model, &self.args.handle.id);
        if what == Withheld::All {
            tracing::warn!(%channel, model,
                "the model's server refuses the conversation; the last message was sent and answered alone");
        }
        metrics::counter!("cairn_history_withheld_total", "model" => model.clone()).increment(1);
        let note = self.args.handle.read(|conversation| note_of_withheld(conversation, &self.settings, what));
        match note {
            Some(note) => self.step(vec![note]).await,
            None => Ok(()),
        }
    }
}
