//! The server of a model, for all wire formats: its address, its key, its connections.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;

use cairn_types::model::{ModelError, ModelInfo, RefusalCause};
use cairn_types::ports::Unanswered;
use cairn_types::wire::format::WireFormat;
use cairn_types::wire::{address, body};

use crate::options::{BadModel, ServerOptions};
use crate::remedy::Remedy;

/// A daemon that starts does not wait longer for a server that may be down.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// Most bytes of an answer about models; OpenRouter's list of all its models has under a megabyte.
const MAX_LIST_BYTES: usize = 8 << 20;

/// How a wire format is spoken over HTTP.
pub(crate) struct Format {
    /// Those that its client speaks.
    pub(crate) formats: &'static [WireFormat],
    /// The header that carries the key.
    pub(crate) key_header: HeaderName,
    /// What stands before the key in its header.
    pub(crate) key_prefix: &'static str,
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// What a look at a model's server found. Nothing of it says whether the model answers: only a request does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Something answered over HTTP, within a few seconds.
    pub answered: bool,
    /// The server's clock, from its header `Date`, in whole seconds.
    pub date: Option<Timestamp>,
    /// Its list of models has this one. `None` where it lists none, or cannot be asked.
    pub listed: Option<bool>,
    /// It asks for a key, or for another one.
    pub refuses_key: bool,
}

/// What a server says at an address.
pub(crate) struct Reply {
    pub(crate) success: bool,
    /// It would say the same again: neither busy nor in trouble, nor waiting for another key.
    pub(crate) lasting: bool,
    /// It answered 401 or 403.
    pub(crate) refuses_key: bool,
    pub(crate) date: Option<Timestamp>,
    /// What it said, where that is JSON.
    pub(crate) value: Option<Value>,
}

/// A model's server. The connection pool is made with the first request.
pub(crate) struct Server {
    pub(crate) options: ServerOptions,
    pub(crate) info: ModelInfo,
    base_url: Url,
    headers: HeaderMap,
    client: OnceLock<Result<Client, String>>,
    /// Those known to be needed; a guess holds until then.
    remedies: Mutex<BTreeMap<Remedy, Option<Instant>>>,
    /// It has marked the end of an answer that it streamed.
    marks_ends: AtomicBool,
    /// An answer without such a mark was taken for whole.
    took_unmarked: AtomicBool,
    /// Answers begin amid reasoning, as a chat template opens it in the prompt.
    amid: AtomicBool,
    /// Calls came as text.
    has_written: AtomicBool,
}

/// How long a remedy that was guessed is believed: what was refused may have been something else.
const GUESS_HOLDS: Duration = Duration::from_secs(24 * 3600);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Server {
    /// Takes the options, asks nothing of anybody yet.
    ///
    /// # Errors
    /// The address is no HTTP address, or the key cannot be sent.
    pub(crate) fn new(options: ServerOptions, format: &Format) -> Result<Self, BadModel> {
        let base_url = checked_url(&options, format.formats)?;
        let mut headers = HeaderMap::new();
        for (name, value) in format.headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = &options.api_key {
            let bad = |_| BadModel::ApiKey { id: options.id.clone() };
            let text = format!("{}{}", format.key_prefix, key.expose_secret().trim());
            let mut value = HeaderValue::from_str(&text).map_err(bad)?;
            value.set_sensitive(true);
            headers.insert(format.key_header.clone(), value);
        }
        for (name, value) in &options.extra_headers {
            let bad = || BadModel::Header { id: options.id.clone(), name: name.clone() };
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let info = ModelInfo {
            id: options.id.clone(),
            context_window: options.context_window,
            max_output_tokens: options.max_output_tokens,
            images: options.images,
            tools: options.tools,
        };
        let remedies =
            Mutex::new((!options.stream).then_some((Remedy::NoStream, None)).into_iter().collect());
        let (marks_ends, took_unmarked) = <(AtomicBool, AtomicBool)>::default();
        let (amid, has_written) = <(AtomicBool, AtomicBool)>::default();
        let client = OnceLock::new();
        Ok(Self {
            options,
            info,
            base_url,
            headers,
            client,
            remedies,
            marks_ends,
            took_unmarked,
            amid,
            has_written,
        })
    }

    /// Whether the server must be asked so.
    pub(crate) fn needs(&self, remedy: Remedy) -> bool {
        let until = self.remedies.lock().get(&remedy).copied();
        until.is_some_and(|until| until.is_none_or(|until| Instant::now() < until))
    }

    /// Asks so from the beginning.
    pub(crate) fn needs_from_the_start(&self, remedy: Remedy) {
        self.remedies.lock().insert(remedy, None);
    }

    /// Asks so from now on. `why`: what the server did.
    pub(crate) fn learn(&self, remedy: Remedy, why: &'static str) {
        self.note(remedy, None, why);
    }

    /// Asks so no longer.
    pub(crate) fn unlearn(&self, remedy: Remedy) {
        self.remedies.lock().remove(&remedy);
    }

    /// Asks so for a day: without it a request was taken that was refused with it, by that error.
    pub(crate) fn guess(&self, remedy: Remedy, error: &ModelError) {
        let key = match error {
            ModelError::BadRequest { message: said, .. } if remedy == Remedy::NoExtra => self.named_key(said),
            _ => None,
        };
        let why = match key {
            Some(key) => format!("it refused `{key}` and took the request without"),
            None => "it refused a request and took it without".to_owned(),
        };
        self.note(remedy, Some(Instant::now() + GUESS_HOLDS), &why);
    }

    fn note(&self, remedy: Remedy, until: Option<Instant>, why: &str) {
        let before = self.remedies.lock().insert(remedy, until);
        if before.is_none_or(|before| before.is_some()) {
            tracing::warn!(model = %self.info.id, remedy = remedy.name(), why, "{}", remedy.told());
            metrics::counter!("cairn_model_remedies_total", "model" => self.info.id.clone(), "remedy" => remedy.name())
                .increment(1);
        }
    }

    /// It has marked the end of an answer.
    pub(crate) fn marks_ends(&self) {
        self.marks_ends.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_marked_ends(&self) -> bool {
        self.marks_ends.load(Ordering::Relaxed)
    }

    /// An answer whose end it has not marked was taken for whole. That is told once.
    pub(crate) fn takes_unmarked(&self) {
        if !self.took_unmarked.swap(true, Ordering::Relaxed) {
            tracing::info!(
                model = %self.info.id,
                "the model's server sends neither a finish reason nor [DONE]; an answer counts as complete when \
                 its stream ends without an error"
            );
        }
    }

    /// Whether answers begin amid reasoning, with no tag before it.
    pub(crate) fn begins_amid(&self) -> bool {
        self.amid.load(Ordering::Relaxed)
    }

    /// Notes whether an answer began so.
    pub(crate) fn learn_amid(&self, amid: bool) {
        if self.amid.swap(amid, Ordering::Relaxed) != amid && amid {
            tracing::info!(
                model = %self.info.id,
                "answers start with reasoning without an opening tag; from now on nothing is shown before the \
                 closing tag; start the server with its reasoning parser"
            );
        }
    }

    /// Notes that a tool call came as text.
    pub(crate) fn note_written(&self, is_sound: bool) {
        let (model, outcome) = (self.info.id.clone(), if is_sound { "run" } else { "rejected" });
        metrics::counter!("cairn_written_calls_total", "model" => model, "outcome" => outcome).increment(1);
        if !self.has_written.swap(true, Ordering::Relaxed) {
            tracing::info!(
                model = %self.info.id,
                "tool calls arrive as text and are parsed from it; a server with a parser for this model's calls \
                 is safer"
            );
        }
    }

    /// A request with that body to where answers come from.
    ///
    /// # Errors
    /// No connection pool can be made.
    pub(crate) fn post(&self, format: WireFormat, body: String) -> Result<RequestBuilder, ModelError> {
        let request = self.client()?.post(self.address(path(format))).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json");
        Ok(request.header(ACCEPT, "text/event-stream, application/json").body(body))
    }

    /// What stands at an address, if it is JSON.
    ///
    /// # Errors
    /// Nothing comes soon, or nothing that would last.
    pub(crate) async fn get(&self, url: Url) -> Result<Option<Value>, Unanswered> {
        let reply = self.ask(url).await.filter(|reply| reply.lasting).ok_or(Unanswered)?;
        let answer = reply.value.filter(|_| reply.success);
        if answer.is_none() {
            tracing::debug!(model = %self.info.id, "the model's server lists no window; set context_window");
        }
        Ok(answer)
    }

    /// What a server says at an address, whether it likes the question or not; `None` when nothing comes soon.
    pub(crate) async fn ask(&self, url: Url) -> Option<Reply> {
        self.reply(self.client().ok()?.get(url)).await
    }

    /// What a server answers to a question at an address, if it is JSON.
    pub(crate) async fn query(&self, url: Url, question: &Value) -> Option<Value> {
        let request = self.client().ok()?.post(url).header(CONTENT_TYPE, "application/json");
        let reply = self.reply(request.body(question.to_string())).await?;
        reply.value.filter(|_| reply.success)
    }

    async fn reply(&self, request: RequestBuilder) -> Option<Reply> {
        let request = request.headers(self.headers.clone());
        let asked = async {
            let response = request.send().await.ok()?;
            let (success, lasting) = (response.status().is_success(), is_lasting(response.status()));
            let refuses_key = matches!(response.status().as_u16(), 401 | 403);
            let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
            let bytes = body::read_whole(response.bytes_stream(), MAX_LIST_BYTES).await.ok()?;
            Some(Reply { success, lasting, refuses_key, date, value: serde_json::from_slice(&bytes).ok() })
        };
        tokio::time::timeout(ASK_TIMEOUT, asked).await.ok().flatten()
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
    pub(crate) fn address(&self, path: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// An address of the server's own API, which is beside the `/v1` of the wire formats.
    pub(crate) fn own_address(&self, path: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        let is_versioned = url.path().trim_end_matches('/').ends_with("/v1");
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            if is_versioned {
                segments.pop();
            }
            segments.extend(path);
        }
        url
    }

    /// The server's address as configured.
    pub(crate) fn base_url(&self) -> &Url {
        &self.base_url
    }

    /// Takes the key, and what else may be secret, out of what the server says about it.
    pub(crate) fn without_key(&self, error: ModelError) -> ModelError {
        let headers = self.options.extra_headers.iter().map(|(_, value)| value);
        headers.chain(self.options.api_key.as_ref()).fold(error, without_key)
    }

    /// The key of the configuration that the words of a server name.
    fn named_key(&self, said: &str) -> Option<&String> {
        let is_named = |key: &&String| {
            said.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word == *key)
        };
        self.options.extra_body.keys().find(is_named)
    }

    /// What a server refuses, with the key of the configuration that it seems to refuse it for.
    pub(crate) fn with_cause(&self, error: ModelError) -> ModelError {
        let ModelError::BadRequest { message: said, .. } = &error else { return error };
        match self.named_key(said) {
            Some(key) => ModelError::BadRequest {
                message: format!(
                    "{said}; the configuration sets `{key}` for the model `{}`: remove or change it",
                    self.info.id
                ),
                cause: RefusalCause::Field,
            },
            None => error,
        }
    }
}

/// Where requests go, after the base address.
fn path(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::Openai | WireFormat::Offline => &["chat", "completions"],
        WireFormat::Responses => &["responses"],
        WireFormat::Anthropic => &["messages"],
    }
}

/// Whether a server that answers so would answer so again. Of a key that it refuses, the account may be mended.
fn is_lasting(status: StatusCode) -> bool {
    !status.is_server_error() && !matches!(status.as_u16(), 401 | 403 | 408 | 425 | 429)
}

fn checked_url(options: &ServerOptions, formats: &[WireFormat]) -> Result<Url, BadModel> {
    let bad = |reason: &str| BadModel::BaseUrl {
        id: options.id.clone(),
        // An address may carry a password before its host.
        base_url: options.base_url.rsplit('@').next().unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    };
    let url = address::parse(options.base_url.trim()).map_err(|trouble| bad(&format!("it {trouble}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it must begin with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "it must not hold a name or password; the key goes into api_key_env or api_key_file",
        ));
    }
    let calls: Vec<String> = formats.iter().map(|format| format!("/{}", path(*format).join("/"))).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    match address::whole_call(&url, &calls) {
        Some(call) => Err(bad(&format!("it must end before {call}"))),
        None => Ok(url),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error with all its causes, without the address: its query may hold a key.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
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

/// A shorter text is no secret.
const SECRET_MIN: usize = 4;

/// The text without the key; without its beginning, too, where the text was cut off within it.
fn struck(text: &str, key: &str) -> String {
    let text = text.replace(key, "[key]");
    let Some(cut) = text.strip_suffix('…') else { return text };
    let begun =
        (SECRET_MIN..key.len()).rev().filter_map(|n| key.get(..n)).find_map(|begun| cut.strip_suffix(begun));
    match begun {
        Some(rest) => format!("{rest}[key]…"),
        None => text,
    }
}

fn without_key(error: ModelError, key: &SecretString) -> ModelError {
    let key = key.expose_secret().trim();
    // A header such as `1` is no secret, and would take every figure out of an error.
    if key.len() < SECRET_MIN {
        return error;
    }
    let clean = |text: String| struck(&text, key);
    match error {
        ModelError::ContextOverflow { message, limit } => {
            ModelError::ContextOverflow { message: clean(message), limit }
        }
        ModelError::NoTools(text) => ModelError::NoTools(clean(text)),
        ModelError::RateLimited { message, retry_after } => {
            ModelError::RateLimited { message: clean(message), retry_after }
        }
        ModelError::Overloaded { message, retry_after } => {
            ModelError::Overloaded { message: clean(message), retry_after }
        }
        ModelError::Failed(text) => ModelError::Failed(clean(text)),
        ModelError::Auth(text) => ModelError::Auth(clean(text)),
        ModelError::BadRequest { message, cause } => {
            ModelError::BadRequest { message: clean(message), cause }
        }
        error @ (ModelError::Timeout(_)
        | ModelError::CutOff(_)
        | ModelError::Declined
        | ModelError::Filtered) => error,
        ModelError::Transport(text) => ModelError::Transport(clean(text)),
        ModelError::Broken(text) => ModelError::Broken(clean(text)),
        ModelError::Protocol(text) => ModelError::Protocol(clean(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::struck;

    #[test]
    fn neither_a_key_nor_its_beginning_at_the_end_of_a_cut_text_is_passed_on() {
        assert_eq!(struck("bad key sk-12345678, sorry", "sk-12345678"), "bad key [key], sorry");
        assert_eq!(struck("bad key sk-1234…", "sk-12345678"), "bad key [key]…");
        assert_eq!(struck("it is the ask…", "sk-12345678"), "it is the ask…");
    }
}
