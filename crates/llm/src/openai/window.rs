//! The window as an OpenAI-compatible server lists it.

use super::OpenAi;
use crate::window::{entry_of, listed_window, number};

/// The window that a model was trained with; llama.cpp may have been started with a smaller one.
const TRAINED: &str = "/meta/n_ctx_train";

impl OpenAi {
    /// Asks the server for its list of models; `None` when it does not answer or does not say.
    pub(super) async fn ask_window(&self) -> Option<u64> {
        let list = self.server.get(self.server.address(&["models"])).await?;
        let model = entry_of(&list, &self.server.options.model)?;
        if let Some(window) = listed_window(model) {
            return Some(window);
        }
        let trained = number(model, TRAINED)?;
        let mut props = self.server.base_url().clone();
        props.set_path("/props");
        let in_use = match self.server.get(props).await {
            Some(props) => number(&props, "/default_generation_settings/n_ctx"),
            None => None,
        };
        Some(in_use.unwrap_or(trained))
    }
}
