//! What the adapter is told by whoever sets it up.

use std::collections::BTreeSet;
use std::time::Duration;

use cairn_core::access::AccessPolicy;
use cairn_core::ids::AgentId;
use jiff::SignedDuration;
use reqwest::Url;
use secrecy::SecretString;

/// Telegram's own server.
pub const API_URL: &str = "https://api.telegram.org";

/// How the adapter connects, whom it hears, and what it takes in.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    /// The bot's token, as BotFather gives it.
    pub token: SecretString,
    /// The server; without `/bot…` at its end. The token goes to no other, and past every proxy unless it is
    /// Telegram's own.
    pub api_url: String,
    /// Who is served where.
    pub access: AccessPolicy,
    /// Agents with a model that takes pictures; for the others pictures are only named.
    pub images: BTreeSet<AgentId>,
    /// Largest picture that is taken in, in bytes.
    pub image_max_bytes: usize,
    /// Largest text file whose words are taken in, in bytes.
    pub text_max_bytes: usize,
    /// Least time between two edits of a draft; none: drafts are not shown.
    pub draft_every: Option<Duration>,
    /// What is still answered after downtime.
    pub catch_up: CatchUp,
    /// How long the server holds a poll open while there is nothing new.
    pub poll_timeout: Duration,
}

/// What is still answered after downtime. What is older, or more, is kept as context without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    /// Messages up to this age.
    pub max_age: SignedDuration,
    /// So many of a channel, the newest, among those that come in together.
    pub max_messages: usize,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { max_age: SignedDuration::from_hours(24), max_messages: 100 }
    }
}

impl TelegramSettings {
    /// A bot on Telegram's own server, with everything else at its default.
    pub fn new(token: SecretString, access: AccessPolicy) -> Self {
        Self {
            token,
            api_url: API_URL.to_owned(),
            access,
            images: BTreeSet::new(),
            image_max_bytes: 4 << 20,
            text_max_bytes: 64 << 10,
            draft_every: None,
            catch_up: CatchUp::default(),
            poll_timeout: Duration::from_secs(50),
        }
    }
}

/// Settings that no adapter can be made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The server's address is none.
    #[error("telegram: `api_url` is not an http(s) address: {0}")]
    Address(String),
    /// The token cannot be one.
    #[error("telegram: the token is empty or has white space in it; copy it anew from @BotFather")]
    Token,
    /// The HTTP client could not be made.
    #[error("telegram: no HTTP client: {0}")]
    Client(String),
}

/// Reads the server's address.
pub(super) fn address(text: &str) -> Result<Url, BadSettings> {
    let url = Url::parse(text).map_err(|error| BadSettings::Address(error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        _ => Err(BadSettings::Address("it begins with neither http:// nor https://".to_owned())),
    }
}
