//! What the Discord adapter is told by the configuration.

use secrecy::SecretString;

use crate::settings::ChatSettings;

pub const DISCORD_API: &str = "https://discord.com";

/// The adapter's settings. Plain data; `Discord::new` checks it.
#[derive(Clone)]
pub struct DiscordSettings {
    /// The bot's token, with or without `Bot ` before it.
    pub token: SecretString,
    /// Where the API is: scheme and host, with a port where need be, without `/api/v10`. With another one than
    /// [`DISCORD_API`] the token goes nowhere else.
    pub api_url: String,
    /// Where the gateway is (`wss://…`); none: where the API says. With it, or another `api_url`, a gateway address
    /// of another host is refused.
    pub gateway_url: Option<String>,
    /// Whom it hears, what it takes in, how it shows answers.
    pub chat: ChatSettings,
}

impl DiscordSettings {
    pub fn new(token: SecretString, chat: ChatSettings) -> Self {
        Self { token, api_url: DISCORD_API.to_owned(), gateway_url: None, chat }
    }
}
