//! Anthropic's messages, as spoken by Anthropic and by servers that offer the same calls.

mod assemble;
pub(crate) mod request;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::header::HeaderName;
use tokio::sync::OnceCell;

use cairn_core::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};
use cairn_core::ports::{ChatModel, Unanswered};
use cairn_core::trace::WireFormat;

use crate::answer;
use crate::options::{BadModel, ServerOptions};
use crate::server::{Format, Look, Server};
use crate::window::{self, listed_window};

/// What puts an answer together.
pub(crate) fn assembler() -> impl answer::Assemble {
    assemble::Assembler::default()
}

/// The version of the format that we speak.
const VERSION: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

/// A model behind a server of Anthropic's messages.
pub struct Anthropic {
    server: Arc<Server>,
    window: OnceCell<Option<u64>>,
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Anthropic {
    /// Takes the options, asks nothing of anybody yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub fn new(options: ServerOptions) -> Result<Self, BadModel> {
        let format = Format {
            path: &["messages"],
            key_header: HeaderName::from_static("x-api-key"),
            key_prefix: "",
            headers: VERSION,
        };
        Ok(Self { server: Arc::new(Server::new(options, &format)?), window: OnceCell::new() })
    }

    /// Looks at the server: one request, for the model. Servers that only speak the format list none.
    pub async fn look(&self) -> Look {
        let address = self.server.address(&["models", &self.server.options.model]);
        let Some(reply) = self.server.ask(address).await else { return Look::default() };
        Look { answered: true, date: reply.date, listed: reply.success.then_some(true) }
    }

    /// Asks the server about the model, and where it tells of none alone, for its list; `None` when neither names the
    /// window.
    async fn ask_window(&self) -> Result<Option<u64>, Unanswered> {
        let address = self.server.address(&["models", &self.server.options.model]);
        match self.server.get(address).await?.as_ref().and_then(listed_window) {
            Some(window) => Ok(Some(window)),
            None => window::of_list(&self.server).await,
        }
    }
}

impl ChatModel for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.server.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<Option<u64>, Unanswered>> {
        Box::pin(async { self.window.get_or_try_init(|| self.ask_window()).await.copied() })
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let wire = self.server.options.wire(WireFormat::Anthropic, "");
        answer::stream(self.server.clone(), wire, &request, assemble::Assembler::default())
    }
}

#[cfg(test)]
mod tests;
