//! The Discord adapter.
//!
//! `gateway` keeps the connection over which events arrive. `inbox` sorts them into queues by channel and passes them
//! to the runtime. `outbox` sends. `rest` is the API that all of them use. `wire` has the event types, `places` knows
//! which thread belongs to which channel, `words` turns a message into text. A message is durable in the runtime before
//! the next one of its channel is handled; messages not taken in before a stop are read again per channel.

mod checkup;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod inbox;
mod outbox;
mod places;
mod rest;
mod rights;
mod wire;
mod words;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::event::SentFile;
use cairn_types::ids::{ChannelId as RuntimeChannel, MessageId as RuntimeMessage};
use cairn_types::ports::{
    Adapter, AdapterFailure, AdapterPorts, FilePart, LinkState, Mark, PairingStore, Platform, PlatformStatus,
    PlatformTraits, SendError, SendPart, StoreError, Trouble,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serenity::all::ChannelId;

use self::files::Files;
use self::gateway::{Addresses, Gateway, Sessions, bad_token};
use self::inbox::{InboundHandler, Inbox};
use self::outbox::{Outbox, number};
use self::places::Places;
use self::rest::{REFUSED_MAX, Rest, RestError, STOP_AT};
use crate::fence::Fence;
use crate::link::Link;
use crate::pause::Pauses;
use crate::settings::{ChatSettings, LiveChat};

pub use self::checkup::checkup;
pub use self::gateway::BadAddress;
pub use self::rest::Refusals;

/// The platform name of a bot that has no name of its own.
const NAME: &str = "discord";

/// Discord shows typing for ten seconds.
const TYPING_EVERY: Duration = Duration::from_secs(8);

/// Within this time a send is repeated with its nonce. Discord remembers nonces for some minutes.
const REPEAT_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// First and longest pause before a failed question to the runtime is repeated.
const ARCHIVE_PAUSE: Duration = Duration::from_secs(1);
const ARCHIVE_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Pause before a refused token is checked again.
const TOKEN_CHECK_PAUSE: Duration = Duration::from_secs(1);

pub const DISCORD_API: &str = "https://discord.com";

/// The adapter's settings. [`Discord::new`] checks them.
#[derive(Clone)]
pub struct DiscordSettings {
    /// The bot's platform in channel ids.
    pub platform: &'static str,
    /// The bot's token, with or without the `Bot ` prefix.
    pub token: SecretString,
    /// The API's address: scheme and host, optionally a port, without `/api/v10`. If it is not [`DISCORD_API`], the
    /// token is sent nowhere else.
    pub api_url: String,
    /// The gateway's address (`wss://…`); `None`: the API tells. With this or another `api_url`, a gateway on another
    /// host is refused.
    pub gateway_url: Option<String>,
    /// The host of attachments (`https://…`); `None`: Discord's hosts, and `api_url`.
    pub cdn_url: Option<String>,
    /// The number of shards; `None`: as many as Discord recommends.
    pub shards: Option<u32>,
    /// Counts requests that Discord refused, shared by all bots of this process.
    pub refusals: Refusals,
    /// Whether requests may be sent at the moment.
    pub fence: Fence,
    /// The file that keeps sessions from a stop to the next start; `None`: sessions are not kept.
    pub sessions: Option<PathBuf>,
    /// Access rules and display settings.
    pub chat: ChatSettings,
}

impl DiscordSettings {
    pub fn new(token: SecretString, chat: ChatSettings) -> Self {
        Self {
            platform: NAME,
            token,
            api_url: DISCORD_API.to_owned(),
            gateway_url: None,
            cdn_url: None,
            shards: None,
            refusals: Refusals::default(),
            fence: Fence::default(),
            sessions: None,
            chat,
        }
    }

    fn addresses(&self) -> Result<Addresses, BadAddress> {
        Addresses::new(&self.api_url, self.gateway_url.as_deref(), self.cdn_url.as_deref())
    }
}

/// An error in the settings.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The token is empty or contains invalid characters.
    #[error("the token of Discord is not one: copy it as a whole, without quotes or line breaks")]
    Token,
    #[error("the HTTP client for Discord cannot be made: {0}")]
    Client(String),
}

/// State shared by inbox and outbox.
#[derive(Clone)]
struct Parts {
    chat: LiveChat,
    pairing_store: Arc<dyn PairingStore>,
    rest: Arc<Rest>,
    link: Arc<Link>,
    places: Arc<Places>,
    outbox: Arc<Outbox>,
}

/// The Discord adapter, for one bot.
pub struct Discord {
    parts: Parts,
    addresses: Addresses,
    token: SecretString,
    shards: Option<u32>,
    sessions: Arc<Sessions>,
}

impl Discord {
    /// Checks the settings. Does not connect.
    ///
    /// # Errors
    /// The token or an address is invalid, or the HTTP client cannot be built.
    pub fn new(settings: DiscordSettings, pairing_store: Arc<dyn PairingStore>) -> Result<Self, BadSettings> {
        let addresses = settings.addresses()?;
        let token = bare_token(&settings.token).ok_or(BadSettings::Token)?;
        let rest = bot_rest(&settings, &addresses)?;
        let (rest, link) = (Arc::new(rest), Arc::new(Link::new(settings.platform, pairing_store.clock())));
        let chat = LiveChat::new(settings.chat);
        let files = Files::new(settings.platform, addresses.api(), addresses.own(), addresses.cdn())
            .map_err(|error| BadSettings::Client(error.to_string()))?;
        let places = Arc::new(Places::default());
        let outbox = Arc::new(Outbox::new(rest.clone(), link.clone(), places.clone(), chat.clone(), files));
        let parts = Parts { chat, pairing_store, rest, link, places, outbox };
        let last_record = parts.pairing_store.last_record();
        let sessions = Sessions::new(settings.platform, settings.sessions, &token, &addresses, last_record);
        let sessions = Arc::new(sessions);
        Ok(Self { parts, addresses, token, shards: settings.shards, sessions })
    }

    /// The settings that can be replaced while the adapter runs.
    pub fn chat(&self) -> LiveChat {
        self.parts.chat.clone()
    }

    /// The private chats with the bot, which no server lists: those that the runtime has, and those of paired people
    /// who have not written since. Retries while the runtime cannot answer.
    async fn private_chats(&self, ports: &AdapterPorts) -> HashSet<ChannelId> {
        let known = until_known(self.name(), || ports.intake.private_chats(self.name())).await;
        let paired = self.parts.pairing_store.paired_chats(self.name());
        let known = known.iter().map(RuntimeChannel::chat).chain(paired.iter().map(String::as_str));
        known.filter_map(number).map(ChannelId::new).collect()
    }

    /// Returns when the token is refused twice in a row. A single refusal may be a fault of Discord or a proxy.
    async fn token_is_bad(&self) -> AdapterFailure {
        let rest = &self.parts.rest;
        loop {
            rest.token_rejected().await;
            tokio::time::sleep(TOKEN_CHECK_PAUSE).await;
            if rest.patiently(|| rest.me()).await == Err(RestError::Unauthorized) {
                return bad_token();
            }
            rest.forget_rejection();
            tracing::warn!(
                platform = self.name(),
                "Discord refused the bot's token once, but accepts it now; continuing"
            );
        }
    }

    async fn serve(&self, ports: AdapterPorts) -> AdapterFailure {
        self.parts.link.set(LinkState::Connecting, None);
        self.parts.rest.forget_rejection();
        let private_chats = self.private_chats(&ports).await;
        self.sessions.take_up(&self.parts.places, self.parts.pairing_store.clock().now());
        let inbound = InboundHandler::new(self.parts.clone(), ports, private_chats, self.sessions.clone());
        let inbox = Inbox::new(Arc::new(inbound));
        let gateway = Gateway {
            rest: self.parts.rest.clone(),
            link: self.parts.link.clone(),
            sessions: self.sessions.clone(),
            addresses: self.addresses.clone(),
            bot_token: self.token.clone(),
            shards: self.shards,
        };
        let failure = tokio::select! {
            failure = gateway.run(inbox) => failure,
            failure = self.token_is_bad() => failure,
        };
        self.parts.link.set(LinkState::Failed, Some(&failure));
        failure
    }
}

/// Repeats a question to the runtime until it is answered.
async fn until_known<'a, T>(platform: &str, ask: impl Fn() -> BoxFuture<'a, Result<T, StoreError>>) -> T {
    let mut pauses = Pauses::new(ARCHIVE_PAUSE, ARCHIVE_PAUSE_MAX);
    loop {
        match ask().await {
            Ok(known) => return known,
            Err(error) => {
                tracing::warn!(platform, %error, "cannot read which message was accepted last; trying again");
                tokio::time::sleep(pauses.next()).await;
            }
        }
    }
}

fn bot_rest(settings: &DiscordSettings, addresses: &Addresses) -> Result<Rest, BadSettings> {
    let token = bare_token(&settings.token).ok_or(BadSettings::Token)?;
    let bot_token = SecretString::from(format!("Bot {}", token.expose_secret()));
    let shared = (settings.refusals.clone(), settings.fence.clone());
    Rest::new(settings.platform, bot_token, addresses.api(), addresses.own(), shared)
        .map_err(|error| BadSettings::Client(error.without_url().to_string()))
}

/// The token without `Bot ` and white space; `None` if it is not valid.
fn bare_token(token: &SecretString) -> Option<SecretString> {
    let token = token.expose_secret().trim();
    let after_word =
        token.strip_prefix("Bot").filter(|rest| !rest.starts_with(|c: char| c.is_ascii_graphic()));
    let token = after_word.unwrap_or(token).trim();
    let sound = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    sound.then(|| SecretString::from(token))
}

/// The status text for this many refused requests.
fn refusals_trouble(n_refused: u64) -> Option<&'static str> {
    match n_refused {
        0..REFUSED_MAX => None,
        REFUSED_MAX..STOP_AT => Some(
            "requests: too many were refused lately, so refused ones wait; Discord locks out clients that continue",
        ),
        STOP_AT.. => Some(
            "requests: far too many were refused lately, so all of them wait; Discord locks out clients that continue",
        ),
    }
}

impl Platform for Discord {
    fn name(&self) -> &'static str {
        self.parts.link.platform()
    }

    fn traits(&self) -> PlatformTraits {
        let chat = self.parts.chat.get();
        PlatformTraits {
            typing_every: TYPING_EVERY,
            repeat_within: Some(REPEAT_WITHIN),
            draft_every: chat.draft_every,
            marks: chat.marks.any(),
        }
    }

    fn split(&self, words: &str) -> Vec<String> {
        crate::markup::discord::split(words)
    }

    fn first_part(&self, words: &str) -> Option<String> {
        crate::markup::discord::first(words)
    }

    fn take_out_code(&self, words: &str) -> (String, Vec<FilePart>) {
        let long = self.parts.chat.get().long_code(self.file_max());
        crate::markup::discord::take_out_code(words, long)
    }

    fn file_max(&self) -> Option<u64> {
        Some(outbox::FILE_MAX)
    }

    fn is_caption(&self, words: &str) -> bool {
        outbox::is_caption(words)
    }

    fn bundles(&self, files: &[SentFile]) -> Vec<usize> {
        outbox::bundles(files)
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<RuntimeMessage, SendError>> {
        self.parts.outbox.send(part).boxed()
    }

    fn find(
        &self,
        part: SendPart,
        after: Option<RuntimeMessage>,
        since: Timestamp,
    ) -> BoxFuture<'_, Result<Option<RuntimeMessage>, SendError>> {
        let now = self.parts.pairing_store.clock().now();
        async move { self.parts.outbox.find(&part, after.as_ref(), since, now).await }.boxed()
    }

    fn edit(
        &self,
        channel: RuntimeChannel,
        message: RuntimeMessage,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        async move { self.parts.outbox.edit(&channel, &message, &words).await }.boxed()
    }

    fn mark(
        &self,
        channel: RuntimeChannel,
        message: RuntimeMessage,
        from: Option<Mark>,
        to: Option<Mark>,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        async move {
            let chat = self.parts.chat.get();
            match chat.marks.step(from, to) {
                Some(step) => self.parts.outbox.react(&channel, &message, step).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn typing(&self, channel: RuntimeChannel) -> BoxFuture<'_, Result<(), SendError>> {
        async move { self.parts.outbox.typing(&channel).await }.boxed()
    }

    fn status(&self) -> PlatformStatus {
        let mut status = self.parts.link.status();
        let n_refused = self.parts.rest.n_refused();
        status.invalid_requests = Some(n_refused);
        status.troubles.extend(refusals_trouble(n_refused).map(|line| Trouble::from(line.to_owned())));
        status
    }
}

impl Adapter for Discord {
    fn run(self: Arc<Self>, ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure> {
        async move { self.serve(ports).await }.boxed()
    }

    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        self.parts.link.set(state, failure);
        if state == LinkState::Stopped {
            let pairing_store = &self.parts.pairing_store;
            self.sessions.keep(&self.parts.places, pairing_store.last_record(), pairing_store.clock().now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_which_requests_wait() {
        let told = |n| refusals_trouble(n).unwrap_or_default();
        assert_eq!(told(REFUSED_MAX - 1), "");
        assert!(told(REFUSED_MAX).contains("refused ones wait"));
        assert!(told(STOP_AT - 1).contains("refused ones wait"));
        assert!(told(STOP_AT).contains("all of them wait"));
    }

    #[test]
    fn a_token_is_taken_with_or_without_its_word_and_nothing_else_is_one() {
        let bare = |text: &str| bare_token(&SecretString::from(text)).map(|t| t.expose_secret().to_owned());
        assert_eq!(bare("Bot abc.def"), Some("abc.def".to_owned()));
        assert_eq!(bare(" abc.def\n"), Some("abc.def".to_owned()));
        for none in ["", "Bot ", "ab cd", "ab\u{1f600}", "a\nb"] {
            assert_eq!(bare(none), None, "{none:?}");
        }
    }
}
