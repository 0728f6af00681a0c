//! What the Discord adapter is told by the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use cairn_core::access::AccessPolicy;
use cairn_core::ids::AgentId;
use jiff::SignedDuration;
use secrecy::SecretString;

use crate::attach::AttachLimits;

/// Where Discord's own API is.
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
    /// Who may talk, and where.
    pub access: AccessPolicy,
    /// Agents whose models take pictures; for all others a picture is only named.
    pub images: BTreeSet<AgentId>,
    /// Largest picture that is read, in bytes; larger ones are only named.
    pub image_max_bytes: usize,
    /// Largest text file that is read, in bytes; larger ones are only named.
    pub text_max_bytes: usize,
    /// Least time between two edits of a draft; none: drafts are not shown.
    pub draft_every: Option<Duration>,
    /// How much of what was missed is fetched.
    pub catch_up: CatchUp,
}

/// How much is fetched of what was said while the daemon was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    /// Nothing older than this.
    pub max_age: SignedDuration,
    /// In a channel at most so many messages, the newest.
    pub max_messages: usize,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { max_age: SignedDuration::from_hours(24), max_messages: 200 }
    }
}

impl DiscordSettings {
    /// Settings with this token and these rules, all else by default.
    pub fn new(token: SecretString, access: AccessPolicy) -> Self {
        let attach = AttachLimits::default();
        Self {
            token,
            api_url: DISCORD_API.to_owned(),
            gateway_url: None,
            access,
            images: BTreeSet::new(),
            image_max_bytes: attach.image_bytes,
            text_max_bytes: attach.text_bytes,
            draft_every: None,
            catch_up: CatchUp::default(),
        }
    }
}
