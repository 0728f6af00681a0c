//! What the adapter is told by whoever sets it up.

use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use crate::settings::ChatSettings;

pub const API_URL: &str = "https://api.telegram.org";

/// How the adapter connects, and what it does.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    /// The bot's token, as BotFather gives it.
    pub token: SecretString,
    /// The server; without `/bot…` at its end. The token goes to no other, and past every proxy unless it is
    /// Telegram's own.
    pub api_url: String,
    /// Whom it hears, what it takes in, how it shows answers.
    pub chat: ChatSettings,
    /// How long the server holds a poll open while there is nothing new.
    pub poll_timeout: Duration,
}

impl TelegramSettings {
    pub fn new(token: SecretString, chat: ChatSettings) -> Self {
        Self { token, api_url: API_URL.to_owned(), chat, poll_timeout: Duration::from_secs(50) }
    }
}

/// Settings that no adapter can be made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The server's address is none.
    #[error("telegram: `api_url` is not an http(s) address: {0}")]
    Address(String),
    /// The token cannot be one.
    #[error("telegram: the token is empty or has white space in it; copy it again from @BotFather")]
    Token,
    /// The HTTP client could not be made.
    #[error("telegram: no HTTP client: {0}")]
    Client(String),
}

pub(super) fn address(text: &str) -> Result<Url, BadSettings> {
    let url = Url::parse(text).map_err(|error| BadSettings::Address(error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        _ => Err(BadSettings::Address("it begins with neither http:// nor https://".to_owned())),
    }
}
