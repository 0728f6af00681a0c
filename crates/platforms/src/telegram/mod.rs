//! The Telegram adapter, over the Bot API.
//!
//! - `poll` is the loop that asks for updates, with `offset_tracker` (what may be confirmed);
//! - `webhook` is the other way in: Telegram sends each update, and repeats it until it was taken in;
//! - `backfill` says what of a downtime is answered, and that it is answered at once;
//! - `updates` takes one update in: who says it (`content`) and what they say (`words`, `content`);
//! - `callbacks` takes the buttons in, which answer what the bot asks;
//! - `send` is what leaves, `pace` how often, `notice` what is said outside of conversations;
//! - `api` and `wire` are the Bot API's calls and what it answers; `checkup` asks for `cairn doctor` how the bot is.
//!
//! Telegram keeps updates for a day and gives them until they are confirmed, so nothing about them is stored here. It
//! does not tell bots of deleted messages: what was said stays, unless its author edits it.

mod api;
mod backfill;
mod callbacks;
mod checkup;
mod content;
mod fetch;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod notice;
mod offset_tracker;
mod pace;
mod poll;
mod send;
mod updates;
mod webhook;
mod wire;
mod words;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cairn_types::event::SentFile;
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::people::access::UNLISTED;
use cairn_types::ports::{
    Adapter, AdapterFailure, AdapterPorts, FilePart, LinkState, Mark, PairingStore, Platform, PlatformStatus,
    PlatformTraits, SendError, SendPart,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;
use reqwest::Url;
use secrecy::SecretString;

use self::api::Api;
pub use self::checkup::checkup;
use self::pace::Pace;
use self::send::{ChatTopic, OwnMessages, place_of};
use self::webhook::Webhook;
use self::wire::{Chat, Message};
use crate::fence::Fence;
use crate::link::Link;
use crate::markup::name::display;
use crate::markup::telegram as rendering;
use crate::settings::{ChatSettings, LiveChat};

/// The platform name in channel ids.
const NAME: &str = "telegram";

/// Telegram shows typing for five seconds.
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// Most topics whose names are remembered.
const TOPICS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Most unlisted groups whose id is logged.
const UNLISTED_MAX: usize = 256;

/// Most unlisted groups in the status.
const UNLISTED_SHOWN: usize = 8;

pub const API_URL: &str = "https://api.telegram.org";

/// The adapter's settings.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    /// The bot's platform in channel ids.
    pub platform: &'static str,
    /// The bot's token, as BotFather gives it.
    pub token: SecretString,
    /// The server, without `/bot…`. The token is sent to no other, and never through a proxy unless this is Telegram's
    /// own.
    pub api_url: String,
    /// The public https address to which Telegram sends updates; `None`: updates are polled.
    pub webhook_url: Option<String>,
    /// Whether requests may be sent at the moment.
    pub fence: Fence,
    /// Access rules and display settings.
    pub chat: ChatSettings,
    /// How long the server holds a poll open while there are no updates.
    pub poll_timeout: Duration,
    /// How often the state of the webhook is checked.
    pub look_every: Duration,
}

impl TelegramSettings {
    pub fn new(token: SecretString, chat: ChatSettings) -> Self {
        Self {
            platform: NAME,
            token,
            api_url: API_URL.to_owned(),
            webhook_url: None,
            fence: Fence::default(),
            chat,
            poll_timeout: Duration::from_secs(50),
            look_every: Duration::from_secs(60),
        }
    }
}

/// An error in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The server's address is invalid.
    #[error("telegram: `api_url` is not an http(s) address: {0}")]
    Address(String),
    /// The webhook's address is invalid.
    #[error("telegram: `webhook_url` is not an https address without a query: {0}")]
    Webhook(String),
    /// The token is invalid.
    #[error("telegram: the token is empty or has white space in it; copy it again from @BotFather")]
    Token,
    /// The HTTP client cannot be built.
    #[error("telegram: no HTTP client: {0}")]
    Client(String),
}

pub struct Telegram {
    chat: LiveChat,
    poll_timeout: Duration,
    webhook: Option<Arc<Webhook>>,
    pairing_store: Arc<dyn PairingStore>,
    api: Api,
    link: Link,
    pace: Pace,
    sent: OwnMessages,
    /// Names of topics, the latest ones.
    topics: Mutex<LruCache<ChatTopic, String>>,
    unlisted: Mutex<BTreeSet<i64>>,
}

impl Telegram {
    /// Checks the settings. Does not connect.
    ///
    /// # Errors
    /// The token or an address is invalid, or the HTTP client cannot be built.
    pub fn new(
        settings: TelegramSettings,
        pairing_store: Arc<dyn PairingStore>,
    ) -> Result<Self, BadSettings> {
        let api = Api::new(&settings)?;
        let webhook = Webhook::of(&settings)?.map(Arc::new);
        let link = Link::new(settings.platform, pairing_store.clock());
        Ok(Self {
            chat: LiveChat::new(settings.chat),
            poll_timeout: settings.poll_timeout,
            webhook,
            pairing_store,
            api,
            link,
            pace: Pace::default(),
            sent: OwnMessages::default(),
            topics: Mutex::new(LruCache::new(TOPICS_MAX)),
            unlisted: Mutex::default(),
        })
    }

    /// The settings that can be replaced while the adapter runs.
    pub fn chat(&self) -> LiveChat {
        self.chat.clone()
    }

    /// The HTTP routes of the webhook, if there is one: the path of `webhook_url`.
    pub fn webhook(&self) -> Option<Router> {
        self.webhook.as_ref().map(webhook::router)
    }

    fn platform(&self) -> &'static str {
        self.link.platform()
    }

    /// The server's time, by which messages are dated.
    fn now(&self) -> Timestamp {
        self.api.server_now().unwrap_or_else(|| self.pairing_store.clock().now())
    }

    /// Notes the name of a topic, where a message tells it.
    fn note_topic(&self, message: &Message) {
        let Some((topic, name, is_first)) = message.topic_name() else { return };
        let (mut topics, of) = (self.topics.lock(), (message.chat.id, Some(topic)));
        // Every message of a topic replies to its first one, whatever it was called since.
        if !(is_first && topics.contains(&of)) {
            topics.put(of, display(name));
        }
    }

    /// What people see as the name of a message's group, with its topic. `None`: in a topic whose name was not told yet.
    fn name_of(&self, message: &Message) -> Option<String> {
        let group = display(message.chat.title.as_deref()?);
        match message.topic() {
            None => Some(group),
            Some(topic) => {
                let mut topics = self.topics.lock();
                topics.get(&(message.chat.id, Some(topic))).map(|name| format!("{group} › {name}"))
            }
        }
    }

    /// Records an ignored message. The id of each ignored group is logged once, so that it can be listed; the first few that are
    /// on no list are in the status.
    fn passed_over(&self, chat: &Chat, direct: bool, why: &'static str) {
        let (mut unlisted, title) = (self.unlisted.lock(), chat.title.as_deref().unwrap_or_default());
        let chat = chat.id;
        if !direct && unlisted.len() < UNLISTED_MAX && unlisted.insert(chat) {
            if why == UNLISTED && unlisted.len() <= UNLISTED_SHOWN {
                let title = display(title);
                let reason = format!(
                    "the group \"{title}\" is not served: mention the bot there for a code, or list it in `chats`"
                );
                self.link.trouble(place_of(chat), &reason);
            }
            tracing::info!(
                chat,
                why,
                "messages of a Telegram group are ignored; to serve it, add its id to `chats`"
            );
        }
    }
}

impl Platform for Telegram {
    fn name(&self) -> &'static str {
        self.platform()
    }

    fn traits(&self) -> PlatformTraits {
        let chat = self.chat.get();
        PlatformTraits {
            typing_every: TYPING_EVERY,
            repeat_within: None,
            draft_every: chat.draft_every,
            marks: chat.marks.any(),
        }
    }

    fn split(&self, words: &str) -> Vec<String> {
        rendering::split(words)
    }

    fn first_part(&self, words: &str) -> Option<String> {
        rendering::first(words)
    }

    fn take_out_code(&self, words: &str) -> (String, Vec<FilePart>) {
        rendering::take_out_code(words, self.chat.get().long_code(self.file_max()))
    }

    fn file_max(&self) -> Option<u64> {
        Some(files::FILE_MAX)
    }

    fn is_caption(&self, words: &str) -> bool {
        files::is_caption(words)
    }

    fn bundles(&self, files: &[SentFile]) -> Vec<usize> {
        files::bundles(files)
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move {
            let place = self.place(&part.channel)?;
            if !part.files.is_empty() {
                return self.write_files(place, &part.files, &part.words, part.reply_to.as_ref()).await;
            }
            let texts = || self.texts_in(&part.channel, place);
            let keyboard = part.approval.as_ref().and_then(|id| callbacks::keyboard(id, &texts()));
            self.write(place, &part.words, part.reply_to.as_ref(), keyboard).await
        })
    }

    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move { self.rewrite(self.place(&channel)?, &message, &words).await })
    }

    fn mark(
        &self,
        channel: ChannelId,
        message: MessageId,
        from: Option<Mark>,
        to: Option<Mark>,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            let chat = self.chat.get();
            match chat.marks.step(from, to) {
                Some((_, emoji)) => self.react(self.place(&channel)?, &message, emoji).await,
                None => Ok(()),
            }
        })
    }

    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move { self.type_in(self.place(&channel)?).await })
    }

    fn status(&self) -> PlatformStatus {
        self.link.status()
    }
}

impl Adapter for Telegram {
    fn run(self: Arc<Self>, ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure> {
        Box::pin(poll::run(self, ports))
    }

    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        self.link.set(state, failure);
    }
}

fn address(text: &str) -> Result<Url, BadSettings> {
    let url = Url::parse(text).map_err(|error| BadSettings::Address(error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        _ => Err(BadSettings::Address("it begins with neither http:// nor https://".to_owned())),
    }
}
