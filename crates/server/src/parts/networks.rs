//! Creates the adapters of the chat networks from the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cairn_platforms::attach::{NoWords, Transcriber, TranscriberSettings};
use cairn_platforms::bridge::{self, Bridge, BridgeSettings};
use cairn_platforms::discord::{self, Discord, DiscordSettings, Refusals};
use cairn_platforms::fence::Fence;
use cairn_platforms::private_file;
use cairn_platforms::settings::{CatchUp, ChatSettings, LiveChat, Marks};
use cairn_platforms::speech::{Speech, SpeechSettings};
use cairn_platforms::telegram::{self, Telegram, TelegramSettings};
use cairn_store::Store;
use cairn_types::ids::AgentId;
use cairn_types::ports::{Adapter, NoSpeech, PairingStore, Speaker, StoreError};
use jiff::SignedDuration;
use parking_lot::Mutex;
use secrecy::SecretString;

use crate::parts::OWN_BINARY;
use crate::parts::people::DaemonPairings;
use cairn_config::{Bot, Config, Loaded, Network, NetworkKind, reaction};

#[derive(Debug, thiserror::Error)]
pub enum BadNetwork {
    #[error(transparent)]
    Discord(#[from] discord::BadSettings),
    #[error(transparent)]
    Telegram(#[from] telegram::BadSettings),
    #[error(transparent)]
    Bridge(#[from] bridge::BadSettings),
    #[error("[transcribe]: {0}")]
    Transcriber(NoWords),
    #[error("[speak]: {0}")]
    Speech(NoSpeech),
}

/// The adapters of a daemon, and the parts that can change or are served elsewhere.
#[derive(Default)]
pub struct Networks {
    pub adapters: Vec<Arc<dyn Adapter>>,
    /// Their replaceable settings.
    pub chats: Chats,
    /// What turns recordings into words, for the local platform.
    pub transcriber: Option<Arc<Transcriber>>,
    /// The webhook routes for Telegram, by listening address.
    pub webhooks: BTreeMap<SocketAddr, Router>,
    /// The calls of bridges, for the socket.
    pub bridges: Router,
    /// The calls of bridges by listening address, of those that have one.
    pub bridge_addresses: BTreeMap<SocketAddr, Router>,
}

/// The replaceable settings of each adapter, by platform.
pub type Chats = BTreeMap<&'static str, LiveChat>;

/// Passes the current configuration to the running adapters.
pub fn tell(chats: &Chats, config: &Config) {
    for (platform, live) in chats {
        if let Some(bot) = config.bot(platform) {
            // As at the start: a change of [transcribe] needs a restart.
            let transcriber = live.get().transcriber.clone();
            live.set(ChatSettings { transcriber, ..chat(bot, config) });
        }
    }
}

/// Journals the access rules in effect from now on, for networks that read missed messages.
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

/// Leaks a platform's name once: metric labels and every message refer to it. There are at most as many as the
/// configuration has ever had bots.
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

/// The ending of the files in the state folder that keep an adapter's sessions until the next start.
const SESSIONS: &str = "-sessions.json";

/// Longest time for the database to store or return sessions; without them new ones are started.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Stores the adapters' sessions in the database for the next leader. Does nothing if this node no longer leads.
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
                tracing::warn!(name, %error, "sessions could not be handed over; new ones start")
            }
            Err(_) => tracing::warn!(name, "sessions could not be handed over in time; new ones start"),
        }
    }
}

/// Fetches the sessions that the previous leader handed over.
pub async fn take_over(store: &Store, state: &Path) {
    if store.lease().is_some() {
        // A planned stop hands over its sessions, so files found here are outdated.
        for (name, path) in sessions(state).await {
            if let Err(error) = on_disk(move || fs::remove_file(path)).await {
                tracing::warn!(name, %error, "old sessions could not be removed");
            }
        }
    }
    let taken = match tokio::time::timeout(HAND_OVER, store.take_over()).await {
        Ok(Ok(taken)) => taken,
        Ok(Err(error)) => return tracing::warn!(%error, "sessions could not be taken over; new ones start"),
        Err(_) => return tracing::warn!("sessions could not be taken over in time; new ones start"),
    };
    for (name, bytes) in taken.into_iter().filter(|(name, _)| name.ends_with(SESSIONS) && !name.contains('/'))
    {
        let path = state.join(&name);
        if let Err(error) = on_disk(move || private_file::write(&path, &bytes)).await {
            tracing::warn!(name, %error, "sessions could not be taken over; new ones start");
        }
    }
}

/// The names and paths of the session files.
async fn sessions(state: &Path) -> Vec<(String, PathBuf)> {
    let state = state.to_owned();
    let listed = on_disk(move || {
        let files = fs::read_dir(state)?.flatten();
        let named = files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()));
        Ok(named.filter(|(name, _)| name.ends_with(SESSIONS)).collect())
    });
    listed.await.unwrap_or_default()
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The adapters of all enabled bots, not connected yet. Their sessions are kept in `state`; they send no requests while
/// `fence` is closed.
///
/// # Errors
/// Invalid settings.
pub fn adapters(
    loaded: &Loaded,
    people: &Arc<dyn PairingStore>,
    state: &Path,
    fence: &Fence,
) -> Result<Networks, BadNetwork> {
    let transcriber = transcriber(loaded).transpose().map_err(BadNetwork::Transcriber)?.map(Arc::new);
    let (mut out, all_refusals) = (Networks::default(), Refusals::default());
    for bot in loaded.config.bots().filter(|bot| bot.network.enabled) {
        let platform = kept(bot.platform());
        // For `cairn run` a missing token is an error at the start (`Loaded::check_tokens`).
        let Some(token) = loaded.token(platform).cloned() else { continue };
        let people = Arc::clone(people);
        let (adapter, chat): (Arc<dyn Adapter>, LiveChat) = match bot.kind {
            NetworkKind::Discord => {
                let settings = discord_settings(&loaded.config, bot, token);
                let sessions = Some(state.join(format!("{platform}{SESSIONS}")));
                let (refusals, fence) = (all_refusals.clone(), fence.clone());
                let settings = DiscordSettings { platform, sessions, refusals, fence, ..settings };
                let discord = Discord::new(settings, people)?;
                let chat = discord.chat();
                (Arc::new(discord), chat)
            }
            NetworkKind::Telegram => {
                let settings = telegram_settings(&loaded.config, bot, token);
                let telegram =
                    Telegram::new(TelegramSettings { platform, fence: fence.clone(), ..settings }, people)?;
                if let (Some(address), Some(router)) = (bot.network.webhook_address(), telegram.webhook()) {
                    let others = out.webhooks.remove(&address).unwrap_or_default();
                    out.webhooks.insert(address, others.merge(router));
                }
                let chat = telegram.chat();
                (Arc::new(telegram), chat)
            }
            NetworkKind::Bridge => {
                let kept = Some(state.join(format!("{platform}{SESSIONS}")));
                let (fence, chat) = (fence.clone(), chat(bot, &loaded.config));
                let bridge = Bridge::new(BridgeSettings { platform, token, fence, kept, chat }, people)?;
                let (live, bridge) = (bridge.chat(), Arc::new(bridge));
                if let Some(address) = bot.network.bridge_address() {
                    let others = out.bridge_addresses.remove(&address).unwrap_or_default();
                    out.bridge_addresses.insert(address, others.merge(bridge.routes()));
                }
                out.bridges = std::mem::take(&mut out.bridges).merge(bridge.routes());
                (bridge, live)
            }
        };
        chat.set(ChatSettings { transcriber: transcriber.clone(), ..ChatSettings::clone(&chat.get()) });
        out.adapters.push(adapter);
        out.chats.insert(platform, chat);
    }
    out.transcriber = transcriber;
    Ok(out)
}

/// What turns recordings into words, if it is configured.
pub fn transcriber(loaded: &Loaded) -> Option<Result<Transcriber, NoWords>> {
    let config = &loaded.config.transcribe;
    let model = config.model.clone()?;
    Some(Transcriber::new(TranscriberSettings {
        base_url: config.base_url.clone(),
        key: loaded.service_key("transcribe").cloned(),
        model,
        language: config.language.clone(),
        time_limit: Duration::from_secs(config.timeout_secs),
        max_bytes: kib(config.max_mib << 10),
        keep: config.keep,
    }))
}

/// What turns answers into recordings, if it is configured.
pub fn speech(loaded: &Loaded) -> Option<Result<Speech, NoSpeech>> {
    let config = &loaded.config.speak;
    let model = config.model.clone()?;
    Some(Speech::new(SpeechSettings {
        base_url: config.base_url.clone(),
        key: loaded.service_key("speak").cloned(),
        model,
        voice: config.voice.clone(),
        time_limit: Duration::from_secs(config.timeout_secs),
    }))
}

/// The same for the runtime.
///
/// # Errors
/// Its address is none.
pub fn speaker(loaded: &Loaded) -> Result<Option<Arc<dyn Speaker>>, BadNetwork> {
    let speech = speech(loaded).transpose().map_err(BadNetwork::Speech)?;
    Ok(speech.map(|speech| Arc::new(speech) as _))
}

/// The agents whose first model takes pictures.
pub(crate) fn agents_that_see(config: &Config) -> BTreeSet<AgentId> {
    let sees = |model: &str| config.model(model).is_some_and(|model| model.images);
    config.agents.iter().filter(|agent| sees(agent.model())).map(|agent| agent.id.clone()).collect()
}

fn discord_settings(config: &Config, bot: Bot<'_>, token: SecretString) -> DiscordSettings {
    let settings = DiscordSettings::new(token, chat(bot, config));
    let network = bot.network;
    let api_url = network.api_url.clone().unwrap_or_else(|| settings.api_url.clone());
    let (gateway_url, cdn_url) = (network.gateway_url.clone(), network.cdn_url.clone());
    DiscordSettings { api_url, gateway_url, cdn_url, shards: network.shards, ..settings }
}

fn telegram_settings(config: &Config, bot: Bot<'_>, token: SecretString) -> TelegramSettings {
    let settings = TelegramSettings::new(token, chat(bot, config));
    let network = bot.network;
    let api_url = network.api_url.clone().unwrap_or_else(|| settings.api_url.clone());
    TelegramSettings { api_url, webhook_url: network.webhook_url.clone(), ..settings }
}

/// Checks a bot's account without running its adapter.
///
/// # Errors
/// Invalid settings.
pub async fn checkup(
    config: &Config,
    bot: Bot<'_>,
    token: SecretString,
) -> Result<Vec<cairn_platforms::checkup::Checked>, BadNetwork> {
    Ok(match bot.kind {
        NetworkKind::Discord => discord::checkup(&discord_settings(config, bot, token)).await?,
        NetworkKind::Telegram => telegram::checkup(&telegram_settings(config, bot, token)).await?,
        NetworkKind::Bridge => bridge::checkup(kept(bot.platform()), &token),
    })
}

/// The settings that both networks share.
fn chat(Bot { kind, network }: Bot<'_>, config: &Config) -> ChatSettings {
    ChatSettings {
        access: network.policy(&config.default_agent()),
        languages: config.agents.iter().map(|agent| (agent.id.clone(), agent.languages.clone())).collect(),
        marks: marks(kind, network),
        bots_per_minute: network.bots_per_minute,
        images: agents_that_see(config),
        image_max_bytes: kib(network.image_kib),
        text_max_bytes: kib(network.text_file_kib),
        document_max_bytes: kib(network.document_kib),
        document_reader: Some(OWN_BINARY),
        transcriber: None,
        draft_every: draft_every(network),
        long_code_parts: count(u64::from(network.long_code_parts)),
        gather: Duration::from_millis(network.gather_ms),
        catch_up: CatchUp {
            max_age: SignedDuration::from_hours(network.catch_up_hours.cast_signed()),
            max_messages: count(network.catch_up_messages),
        },
    }
}

/// The reactions that mark messages, which the check of the configuration has accepted.
fn marks(kind: NetworkKind, network: &Network) -> Marks {
    let emoji = |text: &Option<String>| text.as_deref().and_then(|text| reaction(kind, text).ok());
    Marks {
        seen: emoji(&network.reaction_seen),
        working: emoji(&network.reaction_working),
        failed: emoji(&network.reaction_failed),
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
