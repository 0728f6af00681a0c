//! OpenAI's chat completions, as spoken by OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio and many others; and the
//! client of these servers, which speaks [`crate::responses`] as well.

pub(crate) mod assemble;
mod calls;
pub(crate) mod request;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName};

use cairn_types::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};
use cairn_types::ports::{ChatModel, ServerWindow, Unanswered};
use cairn_types::wire::address::is_of_azure;
use cairn_types::wire::format::WireFormat;

use crate::options::{BadModel, ServerOptions};
use crate::server::{Format, Look, Server};
use crate::{send, window};

/// A model behind an OpenAI-compatible server.
pub struct OpenAi {
    server: Arc<Server>,
    format: WireFormat,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("server", &self.server).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Takes the options of a server that is asked over chat completions. Sends nothing yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub fn new(options: ServerOptions) -> Result<Self, BadModel> {
        Self::over(WireFormat::Openai, options)
    }

    /// Takes the options of a server that is asked over the Responses API, or over chat completions if it does not have
    /// that. Sends nothing yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub fn with_responses(options: ServerOptions) -> Result<Self, BadModel> {
        Self::over(WireFormat::Responses, options)
    }

    fn over(format: WireFormat, options: ServerOptions) -> Result<Self, BadModel> {
        let (key_header, key_prefix) = match is_azure(&options.base_url) {
            true => (HeaderName::from_static("api-key"), ""),
            false => (AUTHORIZATION, "Bearer "),
        };
        let formats = &[WireFormat::Openai, WireFormat::Responses];
        let server = Server::new(options, &Format { formats, key_header, key_prefix, headers: &[] })?;
        request::known_wants(&server).into_iter().for_each(|remedy| server.needs_from_the_start(remedy));
        Ok(Self { server: Arc::new(server), format })
    }

    /// Looks at the server: one request, for its list of models.
    pub async fn look(&self) -> Look {
        window::list(&self.server).await.0
    }

    /// Looks at the server, and returns the names of its models as well: one request.
    pub async fn models(&self) -> (Look, Vec<String>) {
        window::list(&self.server).await
    }

    /// The largest window that the model can be loaded with, where the server tells it (Ollama, LM Studio).
    pub async fn trained_window(&self) -> Option<u64> {
        window::trained(&self.server).await
    }

    /// OpenAI's own newer models refuse `max_tokens`; many other servers know nothing else.
    fn limit_key(&self) -> &'static str {
        let address = self.server.base_url();
        if address.host_str() == Some("api.openai.com") || is_azure(address.as_str()) {
            "max_completion_tokens"
        } else {
            "max_tokens"
        }
    }
}

/// Whether an address is one of Azure, where keys go into a header of their own, or of a gateway that speaks as Azure does
/// (`?api-version=`): <https://learn.microsoft.com/azure/ai-services/openai/reference>.
fn is_azure(base_url: &str) -> bool {
    let Ok(url) = base_url.trim().parse::<Url>() else { return false };
    let is_host = url.host_str().is_some_and(is_of_azure);
    is_host || url.query_pairs().any(|(key, _)| key == "api-version")
}

impl ChatModel for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.server.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>> {
        Box::pin(window::ask(&self.server))
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let wire = self.server.options.wire(self.format, self.limit_key());
        send::stream(self.server.clone(), wire, request)
    }
}

#[cfg(test)]
mod tests;
