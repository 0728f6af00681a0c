//! Refusals without a reason: if no request as large was ever taken, the refusal is first assumed to be about size. Whether
//! a smaller request succeeds shows if it was. The conversation remembers that, so that a message which is refused for its
//! content shrinks the window only once.

use cairn_types::event::ModelNews;
use cairn_types::model::{Attempt, ModelError, RefusalCause};
use cairn_types::ports::TurnFailure;
use cairn_types::window_bounds::WindowBounds;

use super::state::Turn;
use super::tries::Tries;

impl Turn {
    /// Whether a refusal of a request of this size is assumed to be about size.
    pub(super) fn suspects_size(&self, error: &ModelError, tokens: u64, tries: &Tries) -> bool {
        let is_whole = tries.attempt() == Attempt::Whole;
        let listed = self.configured(&self.settings.model).listed_tokens();
        is_whole && is_unexplained(error) && tries.suspicion.falls_on(&self.taken_so_far(), listed, tokens)
    }

    /// The bounds of the model's window, as this conversation and this daemon know them.
    fn taken_so_far(&self) -> WindowBounds {
        let model = &self.settings.model;
        let bounds = self.args.handle.read(|conversation| conversation.bounds.get(model).copied());
        self.args.shared.live.models.bounds(model, bounds.unwrap_or_default())
    }

    /// Shortens the request, to be sent again.
    pub(super) async fn suspect_size(
        &mut self,
        error: &ModelError,
        tokens: u64,
        tries: &mut Tries,
    ) -> Result<(), TurnFailure> {
        let model = self.settings.model.clone();
        metrics::counter!("cairn_overflows_total", "model" => model.clone()).increment(1);
        tracing::warn!(
            model,
            error = error.in_brief(),
            tokens,
            taken = self.taken_so_far().taken,
            "the model's server refused a request without a reason; none as large has been accepted, so the \
             request is shortened and sent again"
        );
        tries.suspicion.note(tokens);
        self.shrink(tokens).await
    }

    /// Notes that the model took a request after a larger one was refused. `as_it_was`: only its size was changed.
    pub(super) async fn size_proved(
        &mut self,
        as_it_was: bool,
        tries: &mut Tries,
    ) -> Result<(), TurnFailure> {
        match std::mem::take(&mut tries.suspicion).proved().filter(|_| as_it_was) {
            Some(tokens) => {
                let model = self.settings.model.clone();
                self.bound(&model, tokens, true).await
            }
            None => Ok(()),
        }
    }

    /// Notes that the model refused a request of this size, too.
    pub(super) async fn size_disproved(
        &mut self,
        error: &ModelError,
        tokens: u64,
        tries: &mut Tries,
    ) -> Result<(), TurnFailure> {
        if !is_unexplained(error) {
            return Ok(());
        }
        match std::mem::take(&mut tries.suspicion).disproved(&self.taken_so_far(), tokens) {
            Some(bounds) => {
                let (model, bounds) = (self.settings.model.clone(), Some(bounds));
                self.learn(ModelNews { model, bounds, ..ModelNews::default() }, None).await
            }
            None => Ok(()),
        }
    }
}

/// Whether the server's refusal gives no reason that is known.
pub(crate) fn is_unexplained(error: &ModelError) -> bool {
    matches!(error, ModelError::BadRequest { cause: RefusalCause::Unknown, .. })
}
