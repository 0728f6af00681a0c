//! OpenAI's chat completions, as spoken by OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, LM Studio and many others.

mod answer;
mod assemble;
mod request;
mod window;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;

use cairn_core::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};
use cairn_core::ports::ChatModel;

/// How long to wait for a server. There is no limit for a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Duration,
    /// From the request to the first byte of the answer. Without streaming that is the whole answer; with it, the
    /// reading of the prompt, which takes a small machine minutes.
    pub first: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(300),
            idle: Duration::from_secs(60),
        }
    }
}

/// A model behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct OpenAiOptions {
    /// Its id in the configuration.
    pub id: String,
    /// The server's address up to and with `/v1`.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key; none is sent when there is none.
    pub api_key: Option<SecretString>,
    /// Its window in tokens, when set in the configuration.
    pub context_window: Option<u64>,
    /// Most tokens of an answer, when set in the configuration.
    pub max_output_tokens: Option<u64>,
    /// It takes pictures; otherwise they are only named.
    pub images: bool,
    /// It takes tools; otherwise calls of the past are told in words.
    pub tools: bool,
    /// Ask for the answer piece by piece.
    pub stream: bool,
    /// How long to wait.
    pub timeouts: Timeouts,
}

impl OpenAiOptions {
    /// A streaming model with tools, without pictures, without a key.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            context_window: None,
            max_output_tokens: None,
            images: false,
            tools: true,
            stream: true,
            timeouts: Timeouts::default(),
        }
    }
}

/// Options by which no server can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModel {
    /// The address is none.
    #[error("model `{id}`: base_url = {base_url:?}: {reason}, such as \"http://127.0.0.1:8080/v1\"")]
    BaseUrl {
        /// The model's id.
        id: String,
        /// What was given.
        base_url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The key cannot be sent.
    #[error(
        "model `{id}`: the key has a line break or another character that no header takes; check its file"
    )]
    ApiKey {
        /// The model's id.
        id: String,
    },
}

/// A model behind an OpenAI-compatible server. The connection pool is made with the first request.
pub struct OpenAi {
    options: Arc<OpenAiOptions>,
    info: ModelInfo,
    base_url: Url,
    authorization: Option<HeaderValue>,
    client: OnceLock<Result<Client, String>>,
    window: OnceCell<Option<u64>>,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("info", &self.info).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Takes the options, asks nothing of anybody yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub fn new(options: OpenAiOptions) -> Result<Self, BadModel> {
        let base_url = checked_url(&options)?;
        let authorization = match &options.api_key {
            Some(key) => {
                let bad = |_| BadModel::ApiKey { id: options.id.clone() };
                let mut value =
                    HeaderValue::from_str(&format!("Bearer {}", key.expose_secret().trim())).map_err(bad)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let info = ModelInfo {
            id: options.id.clone(),
            context_window: options.context_window,
            max_output_tokens: options.max_output_tokens,
            images: options.images,
            tools: options.tools,
        };
        Ok(Self {
            options: Arc::new(options),
            info,
            base_url,
            authorization,
            client: OnceLock::new(),
            window: OnceCell::new(),
        })
    }

    /// The connection pool, made on first use: its root certificates would weigh on an idle daemon. A proxy from the
    /// environment is passed over for servers on this machine.
    fn client(&self) -> Result<&Client, ModelError> {
        let built = self.client.get_or_init(|| {
            let builder = Client::builder()
                .connect_timeout(self.options.timeouts.connect)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("cairn/", env!("CARGO_PKG_VERSION")));
            let builder = if is_loopback(&self.base_url) { builder.no_proxy() } else { builder };
            builder.build().map_err(|error| causes(&error))
        });
        built.as_ref().map_err(|error| ModelError::Transport(error.clone()))
    }

    /// An address of the server: the path goes on, a query (as Azure has one) stays.
    fn address(&self, path: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// OpenAI's own newer models refuse `max_tokens`; many other servers know nothing else.
    fn limit_key(&self) -> &'static str {
        let own = |host: &str| host == "api.openai.com" || host.ends_with(".openai.azure.com");
        if self.base_url.host_str().is_some_and(own) { "max_completion_tokens" } else { "max_tokens" }
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }
}

impl ChatModel for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async { *self.window.get_or_init(|| self.ask_window()).await })
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let n_messages = request.messages.len();
        let body = request::body(&self.options, self.limit_key(), &request).to_string();
        let sending = self.client().map(|client| {
            self.authorized(client.post(self.address(&["chat", "completions"])))
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .header(reqwest::header::ACCEPT, "text/event-stream, application/json")
                .body(body)
        });
        answer::stream(sending, self.options.clone(), n_messages).boxed()
    }
}

fn checked_url(options: &OpenAiOptions) -> Result<Url, BadModel> {
    let bad = |reason| BadModel::BaseUrl {
        id: options.id.clone(),
        // An address may carry a password before its host.
        base_url: options.base_url.rsplit('@').next().unwrap_or_default().to_owned(),
        reason,
    };
    let url: Url = options.base_url.trim().parse().map_err(|_| bad("it must be a full address"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("it must begin with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "it must not hold a name or password; the key goes into api_key_env or api_key_file",
        ));
    }
    if url.path().trim_end_matches('/').ends_with("/chat/completions") {
        return Err(bad("it must end before /chat/completions"));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error with all its causes, without the address: its query may hold a key.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = match error.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_connect() => "no connection".to_owned(),
        Some(error) if error.is_body() || error.is_decode() => "the connection broke".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => error.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
