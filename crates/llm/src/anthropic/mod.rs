//! Anthropic's messages, as spoken by Anthropic and by servers that offer the same calls.

pub(crate) mod assemble;
pub(crate) mod request;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::header::HeaderName;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use cairn_types::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};
use cairn_types::ports::{ChatModel, ServerWindow, Unanswered};
use cairn_types::wire::format::WireFormat;

use crate::options::{BadModel, ServerOptions};
use crate::send;
use crate::server::{Format, Look, Server};
use crate::window::{self, listed_window};

/// The version of the format that we speak.
const VERSION: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

/// Has the server leave out thinking that does not stand behind its own request, where it would refuse it otherwise:
/// <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>. What is configured stays.
fn bind_loosely(options: &mut ServerOptions) {
    const BETA: &str = "thinking-binding-controls-2026-08-01";
    let is_own = options.base_url.trim().starts_with("https://api.anthropic.com");
    if !is_own || !binds_thinking(&options.model) {
        return;
    }
    let Some(Value::Object(thinking)) = options.extra_body.get_mut("thinking") else { return };
    if thinking.get("type").is_some_and(|kind| kind == "disabled") || thinking.contains_key("block_binding") {
        return;
    }
    thinking.insert("block_binding".to_owned(), json!({"prefix_mismatch_behavior": "drop_block"}));
    let beta = |(name, _): &&mut (String, SecretString)| name.eq_ignore_ascii_case("anthropic-beta");
    match options.extra_headers.iter_mut().find(beta) {
        Some((_, betas)) => *betas = format!("{},{BETA}", betas.expose_secret()).into(),
        None => options.extra_headers.push(("anthropic-beta".to_owned(), BETA.into())),
    }
}

/// Whether a Claude ties its thinking to what stands before it: those from 5.1 on. A name is `claude-FAMILY-MAJOR-MINOR`, a
/// date may follow.
fn binds_thinking(model: &str) -> bool {
    let Some((_, name)) = model.split_once("claude-") else { return false };
    let numbers = name.split(['-', '.', '@', ':']).filter(|part| part.len() < 3);
    let mut numbers = numbers.filter_map(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 1)
}

/// A model behind a server of Anthropic's messages.
pub struct Anthropic {
    server: Arc<Server>,
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Anthropic {
    /// Takes the options. Sends nothing yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub fn new(mut options: ServerOptions) -> Result<Self, BadModel> {
        bind_loosely(&mut options);
        let format = Format {
            formats: &[WireFormat::Anthropic],
            key_header: HeaderName::from_static("x-api-key"),
            key_prefix: "",
            headers: VERSION,
        };
        Ok(Self { server: Arc::new(Server::new(options, &format)?) })
    }

    /// Looks at the server: one request, for the model. Servers that only speak the format list none.
    pub async fn look(&self) -> Look {
        let address = self.server.address(&["models", &self.server.options.model]);
        let Some(reply) = self.server.ask(address).await else { return Look::default() };
        let listed = reply.success.then_some(true);
        Look { answered: true, date: reply.date, listed, refuses_key: reply.refuses_key }
    }

    /// Looks at the server's list, and returns the names of its models as well: one request, for the first 20
    /// (<https://docs.claude.com/en/api/models-list>).
    pub async fn models(&self) -> (Look, Vec<String>) {
        window::list(&self.server).await
    }

    /// Asks the server about the model, and where it tells of none alone, for its list.
    async fn ask_window(&self) -> Result<ServerWindow, Unanswered> {
        let address = self.server.address(&["models", &self.server.options.model]);
        match self.server.get(address).await?.as_ref().and_then(listed_window) {
            Some(window) => Ok(ServerWindow::Listed(window)),
            None => window::ask(&self.server).await,
        }
    }
}

impl ChatModel for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.server.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>> {
        Box::pin(self.ask_window())
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let wire = self.server.options.wire(WireFormat::Anthropic, "");
        send::stream(self.server.clone(), wire, request)
    }
}

#[cfg(test)]
mod tests;
