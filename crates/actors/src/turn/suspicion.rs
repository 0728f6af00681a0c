//! A refusal for which the server gives no reason: where no request as large was taken, it is taken for one of size before anything
//! else. What becomes of the smaller request shows whether it was; the conversation keeps that, so that a message which is refused
//! for itself costs the window once.

use cairn_types::event::ModelNews;
use cairn_types::model::{Attempt, ModelError, RefusalCause};
use cairn_types::ports::TurnFailure;
use cairn_types::window_bounds::WindowBounds;

use super::state::Turn;
use super::tries::Tries;

impl Turn {
    /// Whether a refusal of a request of so many tokens is taken for one of its size.
    pub(super) fn suspects_size(&self, error: &ModelError, tokens: u64, tries: &Tries) -> bool {
        let is_whole = tries.attempt() == Attempt::Whole;
        let listed = self.configured(&self.settings.model).listed_tokens();
        is_whole && is_unexplained(error) && tries.suspicion.falls_on(&self.taken_so_far(), listed, tokens)
    }

    /// What the model has taken, as far as this conversation and this daemon know.
    fn taken_so_far(&self) -> WindowBounds {
        let model = &self.settings.model;
        let bounds = self.args.handle.read(|conversation| conversation.bounds.get(model).copied());
        self.args.shared.live.models.bounds(model, bounds.unwrap_or_default())
    }

    /// Has the request made smaller, and sent again.
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
            "the model's server gives no reason for its refusal of a request as large as any that it took: the request is \
             shortened and sent again"
        );
        tries.suspicion.note(tokens);
        self.shrink(tokens).await
    }

    /// The model has taken a request after another one was suspected of its size. `as_it_was`: nothing but its size was changed.
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

    /// The model has refused a request of so many tokens as well.
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

/// The server refuses the request, and its words say nothing that is known.
pub(crate) fn is_unexplained(error: &ModelError) -> bool {
    matches!(error, ModelError::BadRequest { cause: RefusalCause::Unknown, .. })
}
