//! The window as an OpenAI-compatible server lists it.

use cairn_core::ports::Unanswered;

use super::OpenAi;
use crate::window::{entry_of, listed_window, number};

/// The window that a model was trained with; llama.cpp may have been started with a smaller one.
const TRAINED: &str = "/meta/n_ctx_train";

impl OpenAi {
    /// Asks the server for its list of models; `None` when that does not name the window.
    pub(super) async fn ask_window(&self) -> Result<Option<u64>, Unanswered> {
        let list = self.server.get(self.server.address(&["models"])).await?;
        let Some(model) = list.as_ref().and_then(|list| entry_of(list, &self.server.options.model)) else {
            return Ok(None);
        };
        let trained = match (listed_window(model), number(model, TRAINED)) {
            (Some(window), _) => return Ok(Some(window)),
            (None, Some(trained)) => trained,
            (None, None) => return Ok(None),
        };
        let mut props = self.server.base_url().clone();
        props.set_path("/props");
        let props = self.server.get(props).await.ok().flatten();
        let in_use = props.and_then(|props| number(&props, "/default_generation_settings/n_ctx"));
        Ok(Some(in_use.unwrap_or(trained)))
    }
}
