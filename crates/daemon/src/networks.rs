//! From the configuration to the adapters of the chat networks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::ids::AgentId;
use cairn_core::ports::{Adapter, Registry};
use cairn_platforms::discord::{self, Discord, DiscordSettings};
use cairn_platforms::settings::{CatchUp, ChatSettings};
use cairn_platforms::telegram::{self, Telegram, TelegramSettings};
use jiff::SignedDuration;
use secrecy::SecretString;

use crate::config::{Config, Loaded, Network, NetworkKind};

/// Which chat networks a daemon serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All that the configuration has: `cairn run`.
    Networks,
    /// None but the local platform: a daemon inside a command. What is owed to networks stays owed.
    Local,
}

/// Why an adapter cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BadNetwork {
    /// Discord's settings.
    #[error(transparent)]
    Discord(#[from] discord::BadSettings),
    /// Telegram's settings.
    #[error(transparent)]
    Telegram(#[from] telegram::BadSettings),
}

/// What every adapter is made from.
struct Parts<'c> {
    network: &'c Network,
    token: SecretString,
    chat: ChatSettings,
    registry: Arc<dyn Registry>,
}

/// The adapters of all networks that are used. None of them is connected yet.
///
/// # Errors
/// Settings that no adapter can be made from.
pub fn adapters(loaded: &Loaded, registry: &Arc<dyn Registry>) -> Result<Vec<Arc<dyn Adapter>>, BadNetwork> {
    let mut out = Vec::new();
    for kind in NetworkKind::ALL {
        let network = loaded.config.network(kind).filter(|network| network.enabled);
        // A token that cannot be read has stopped `cairn run` before (`Loaded::check_tokens`).
        let (Some(network), Some(token)) = (network, loaded.token(kind)) else { continue };
        let parts = Parts {
            network,
            token: token.clone(),
            chat: chat(network, &loaded.config),
            registry: Arc::clone(registry),
        };
        out.push(match kind {
            NetworkKind::Discord => parts.discord()?,
            NetworkKind::Telegram => parts.telegram()?,
        });
    }
    Ok(out)
}

/// The agents whose model takes pictures.
fn agents_that_see(config: &Config) -> BTreeSet<AgentId> {
    let sees = |model: &str| config.model(model).is_some_and(|model| model.images);
    config.agents.iter().filter(|agent| sees(agent.model())).map(|agent| agent.id.clone()).collect()
}

impl Parts<'_> {
    fn discord(self) -> Result<Arc<dyn Adapter>, BadNetwork> {
        let network = self.network;
        let settings = DiscordSettings::new(self.token, self.chat);
        let settings = DiscordSettings {
            api_url: network.api_url.clone().unwrap_or(settings.api_url),
            gateway_url: network.gateway_url.clone(),
            ..settings
        };
        Ok(Arc::new(Discord::new(settings, self.registry)?))
    }

    fn telegram(self) -> Result<Arc<dyn Adapter>, BadNetwork> {
        let network = self.network;
        let settings = TelegramSettings::new(self.token, self.chat);
        let settings =
            TelegramSettings { api_url: network.api_url.clone().unwrap_or(settings.api_url), ..settings };
        Ok(Arc::new(Telegram::new(settings, self.registry)?))
    }
}

/// What both networks are told alike.
fn chat(network: &Network, config: &Config) -> ChatSettings {
    ChatSettings {
        access: network.policy(&config.default_agent()),
        images: agents_that_see(config),
        image_max_bytes: kib(network.image_kib),
        text_max_bytes: kib(network.text_file_kib),
        draft_every: draft_every(network),
        catch_up: CatchUp {
            max_age: SignedDuration::from_hours(network.catch_up_hours.cast_signed()),
            max_messages: count(network.catch_up_messages),
        },
    }
}

fn draft_every(network: &Network) -> Option<Duration> {
    network.drafts.then(|| Duration::from_millis(network.draft_interval_ms))
}

fn kib(n: u64) -> usize {
    count(n << 10)
}

fn count(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
