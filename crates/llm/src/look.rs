//! A look at a model's server without a conversation: is it there, does it list the model, what does its clock say.

use jiff::Timestamp;

use crate::anthropic::Anthropic;
use crate::openai::OpenAi;
use crate::window::{entry_of, has_entries};

/// What a look at a model's server found. Nothing of it says whether the model answers: only a request does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Something answered over HTTP, within a few seconds.
    pub answered: bool,
    /// The server's clock, from its header `Date`, in whole seconds.
    pub date: Option<Timestamp>,
    /// Its list of models has this one. `None` where it lists none, or cannot be asked.
    pub listed: Option<bool>,
}

impl OpenAi {
    /// Looks at the server: one request, for its list of models.
    pub async fn look(&self) -> Look {
        let told = self.server().ask(self.server().address(&["models"])).await;
        let Some(told) = told else { return Look::default() };
        let list = told.value.filter(|list| told.success && has_entries(list));
        let model = &self.server().options.model;
        let listed = list.map(|list| entry_of(&list, model).is_some());
        Look { answered: true, date: told.date, listed }
    }
}

impl Anthropic {
    /// Looks at the server: one request, for the model. Servers that only speak the format list none.
    pub async fn look(&self) -> Look {
        let address = self.server().address(&["models", &self.server().options.model]);
        let Some(told) = self.server().ask(address).await else { return Look::default() };
        Look { answered: true, date: told.date, listed: told.success.then_some(true) }
    }
}
