//! From the configuration to the adapters of the chat networks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cairn_platforms::discord::{self, Discord, DiscordSettings, Refusals};
use cairn_platforms::fence::Fence;
use cairn_platforms::settings::{CatchUp, ChatSettings, LiveChat};
use cairn_platforms::telegram::{self, Telegram, TelegramSettings};
use cairn_store::Store;
use cairn_types::ids::AgentId;
use cairn_types::ports::{Adapter, PairingStore, StoreError};
use jiff::SignedDuration;
use parking_lot::Mutex;
use secrecy::SecretString;

use crate::parts::people::DaemonPairings;
use cairn_config::{Bot, Config, Loaded, Network, NetworkKind};

#[derive(Debug, thiserror::Error)]
pub enum BadNetwork {
    #[error(transparent)]
    Discord(#[from] discord::BadSettings),
    #[error(transparent)]
    Telegram(#[from] telegram::BadSettings),
}

/// The adapters of a daemon, and what of their settings may change while they run.
#[derive(Default)]
pub struct Networks {
    pub adapters: Vec<Arc<dyn Adapter>>,
    /// Whom they hear, what they take in, how they show answers.
    pub chats: Chats,
    /// What is served for Telegram to send updates to, by address.
    pub webhooks: BTreeMap<SocketAddr, Router>,
}

/// By platform what its adapter is told by the configuration.
pub type Chats = BTreeMap<&'static str, LiveChat>;

/// Tells the adapters that run what the configuration says now.
pub fn tell(chats: &Chats, config: &Config) {
    for (platform, live) in chats {
        if let Some(bot) = config.bot(platform) {
            live.set(chat(bot.network, config));
        }
    }
}

/// Journals who is heard where from here on, for the networks that read again what was said before.
///
/// # Errors
/// The journal cannot be written.
pub async fn note_access(
    chats: &Chats,
    config: &Config,
    pairings: &DaemonPairings,
) -> Result<(), StoreError> {
    for platform in chats.keys() {
        if let Some(bot) = config.bot(platform).filter(|bot| bot.kind == NetworkKind::Discord) {
            pairings.set_access(platform, &bot.network.policy(&config.default_agent())).await?;
        }
    }
    Ok(())
}

/// A platform's name for the rest of the process: labels of metrics and every message that comes in hold it. There are no
/// more than the configuration has ever had bots.
fn kept(platform: String) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock();
    if let Some(known) = kept.get(platform.as_str()) {
        return known;
    }
    let platform: &'static str = platform.leak();
    kept.insert(platform);
    platform
}

/// What an adapter keeps from a planned stop to the next start is in files that end so, in the state folder.
const SESSIONS: &str = "-sessions.json";

/// How long the database may take for them: without them new sessions begin.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Leaves what adapters have kept to whichever node leads next. A node that does not lead any more leaves nothing.
pub async fn hand_over(store: &Store, state: &Path) {
    if !store.leads() {
        return;
    }
    for (name, path) in sessions(state).await {
        let handed = async {
            let from = path.clone();
            let bytes = on_disk(move || fs::read(from)).await?;
            if store.hand_over(&name, bytes).await.map_err(io::Error::other)? {
                on_disk(move || fs::remove_file(path)).await?;
            }
            Ok::<_, io::Error>(())
        };
        match tokio::time::timeout(HAND_OVER, handed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(name, %error, "sessions could not be handed over; new ones begin")
            }
            Err(_) => tracing::warn!(name, "sessions could not be handed over in time; new ones begin"),
        }
    }
}

/// Takes what the adapters of the leader before have kept.
pub async fn take_over(store: &Store, state: &Path) {
    if store.lease().is_some() {
        // A planned stop hands its sessions over: those that are here are of an earlier time.
        for (name, path) in sessions(state).await {
            if let Err(error) = on_disk(move || fs::remove_file(path)).await {
                tracing::warn!(name, %error, "old sessions could not be removed");
            }
        }
    }
    let taken = match tokio::time::timeout(HAND_OVER, store.take_over()).await {
        Ok(Ok(taken)) => taken,
        Ok(Err(error)) => return tracing::warn!(%error, "sessions could not be taken over; new ones begin"),
        Err(_) => return tracing::warn!("sessions could not be taken over in time; new ones begin"),
    };
    for (name, bytes) in taken.into_iter().filter(|(name, _)| name.ends_with(SESSIONS) && !name.contains('/'))
    {
        let path = state.join(&name);
        if let Err(error) = on_disk(move || write(&path, &bytes)).await {
            tracing::warn!(name, %error, "sessions could not be taken over; new ones begin");
        }
    }
}

/// The files in which adapters keep sessions, with their names.
async fn sessions(state: &Path) -> Vec<(String, PathBuf)> {
    let state = state.to_owned();
    let listed = on_disk(move || {
        let files = fs::read_dir(state)?.flatten();
        let named = files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()));
        Ok(named.filter(|(name, _)| name.ends_with(SESSIONS)).collect())
    });
    listed.await.unwrap_or_default()
}

/// For nobody else's eyes: with the token, a session can be taken over.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?.write_all(bytes)?;
    fs::rename(beside, path)
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The adapters of all bots that are used. None of them is connected yet. What they keep for the next start is in `state`;
/// they ask nothing while `fence` is closed.
///
/// # Errors
/// Settings that no adapter can be made from.
pub fn adapters(
    loaded: &Loaded,
    people: &Arc<dyn PairingStore>,
    state: &Path,
    fence: &Fence,
) -> Result<Networks, BadNetwork> {
    let (mut out, all_refusals) = (Networks::default(), Refusals::default());
    for bot in loaded.config.bots().filter(|bot| bot.network.enabled) {
        let platform = kept(bot.platform());
        // A token that cannot be read has stopped `cairn run` before (`Loaded::check_tokens`).
        let Some(token) = loaded.token(platform).cloned() else { continue };
        let people = Arc::clone(people);
        let (adapter, chat): (Arc<dyn Adapter>, LiveChat) = match bot.kind {
            NetworkKind::Discord => {
                let settings = discord_settings(&loaded.config, bot.network, token);
                let sessions = Some(state.join(format!("{platform}{SESSIONS}")));
                let (refusals, fence) = (all_refusals.clone(), fence.clone());
                let settings = DiscordSettings { platform, sessions, refusals, fence, ..settings };
                let discord = Discord::new(settings, people)?;
                let chat = discord.chat();
                (Arc::new(discord), chat)
            }
            NetworkKind::Telegram => {
                let settings = telegram_settings(&loaded.config, bot.network, token);
                let telegram =
                    Telegram::new(TelegramSettings { platform, fence: fence.clone(), ..settings }, people)?;
                if let (Some(address), Some(router)) = (bot.network.webhook_address(), telegram.webhook()) {
                    let others = out.webhooks.remove(&address).unwrap_or_default();
                    out.webhooks.insert(address, others.merge(router));
                }
                let chat = telegram.chat();
                (Arc::new(telegram), chat)
            }
        };
        out.adapters.push(adapter);
        out.chats.insert(platform, chat);
    }
    Ok(out)
}

/// The agents whose model takes pictures.
fn agents_that_see(config: &Config) -> BTreeSet<AgentId> {
    let sees = |model: &str| config.model(model).is_some_and(|model| model.images);
    config.agents.iter().filter(|agent| sees(agent.model())).map(|agent| agent.id.clone()).collect()
}

fn discord_settings(config: &Config, network: &Network, token: SecretString) -> DiscordSettings {
    let settings = DiscordSettings::new(token, chat(network, config));
    let api_url = network.api_url.clone().unwrap_or_else(|| settings.api_url.clone());
    let (gateway_url, cdn_url) = (network.gateway_url.clone(), network.cdn_url.clone());
    DiscordSettings { api_url, gateway_url, cdn_url, shards: network.shards, ..settings }
}

fn telegram_settings(config: &Config, network: &Network, token: SecretString) -> TelegramSettings {
    let settings = TelegramSettings::new(token, chat(network, config));
    let api_url = network.api_url.clone().unwrap_or_else(|| settings.api_url.clone());
    TelegramSettings { api_url, webhook_url: network.webhook_url.clone(), ..settings }
}

/// Checks a bot, without connecting it.
///
/// # Errors
/// Settings that no adapter can be made from.
pub async fn checkup(
    config: &Config,
    bot: Bot<'_>,
    token: SecretString,
) -> Result<Vec<cairn_platforms::checkup::Checked>, BadNetwork> {
    Ok(match bot.kind {
        NetworkKind::Discord => discord::checkup(&discord_settings(config, bot.network, token)).await?,
        NetworkKind::Telegram => telegram::checkup(&telegram_settings(config, bot.network, token)).await?,
    })
}

/// The settings that both networks have.
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
