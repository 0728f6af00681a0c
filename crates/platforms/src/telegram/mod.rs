//! Telegram, over the Bot API.
//!
//! - `poll` is the loop that asks for updates, with `offset_tracker` (what may be confirmed) and `chat_queues` (what is under way);
//! - `missed` says what of a downtime is answered, and that it is answered at once;
//! - `visit` takes one update in: who says it (`content`), whether they are heard, what they say (`words`, `content`);
//! - `press` takes the presses of buttons in, which answer what the bot asks;
//! - `send` is what leaves, `pace` how often, `notice` what is said outside of conversations;
//! - `api` and `wire` are the Bot API's calls and what it answers; `checkup` asks for `cairn doctor` how the bot is.
//!
//! Telegram keeps updates for a day and gives them until they are confirmed, so nothing about them is stored here. It
//! does not tell bots of deleted messages: what was said stays, unless its author edits it.

mod api;
mod chat_queues;
mod checkup;
mod content;
mod fetch;
mod menu;
mod missed;
mod notice;
mod offset_tracker;
mod pace;
mod poll;
mod press;
mod send;
mod sent;
mod settings;
mod trouble;
mod visit;
mod wire;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::ids::{ChannelId, MessageId};
use cairn_core::ports::{
    Adapter, AdapterFailure, AdapterPorts, LinkState, PairingStore, Platform, PlatformStatus, PlatformTraits,
    SendError, SendPart,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use teloxide::types::{MessageEntity, MessageEntityKind};

use self::api::Api;
pub use self::checkup::checkup;
use self::pace::Pace;
use self::sent::Sent;
pub use self::settings::{API_URL, BadSettings, TelegramSettings};
use crate::link::Link;
use crate::markup::telegram::{self as rendering, Entity, EntityKind, Rendered};
use crate::settings::LiveChat;

/// The platform's name in channel ids.
const NAME: &str = "telegram";

/// Telegram shows typing for five seconds.
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// Of so many groups that are not served the log tells the id.
const UNLISTED_MAX: usize = 256;

pub struct Telegram {
    chat: LiveChat,
    poll_timeout: Duration,
    pairing_store: Arc<dyn PairingStore>,
    api: Api,
    link: Link,
    pace: Pace,
    sent: Sent,
    unlisted: Mutex<BTreeSet<i64>>,
}

impl Telegram {
    /// A bot that is not connected yet.
    ///
    /// # Errors
    /// The address or the token cannot be one.
    pub fn new(
        settings: TelegramSettings,
        pairing_store: Arc<dyn PairingStore>,
    ) -> Result<Self, BadSettings> {
        let api = Api::new(&settings)?;
        let link = Link::new(NAME, pairing_store.clock());
        Ok(Self {
            chat: LiveChat::new(settings.chat),
            poll_timeout: settings.poll_timeout,
            pairing_store,
            api,
            link,
            pace: Pace::default(),
            sent: Sent::default(),
            unlisted: Mutex::default(),
        })
    }

    /// What it is told by the configuration, to be set again while it runs.
    pub fn chat(&self) -> LiveChat {
        self.chat.clone()
    }

    fn now(&self) -> Timestamp {
        self.pairing_store.clock().now()
    }

    /// Nobody is heard there. Of each group the log tells once by which id it can be listed.
    fn passed_over(&self, chat: i64, direct: bool, why: &'static str) {
        let mut unlisted = self.unlisted.lock();
        if !direct && unlisted.len() < UNLISTED_MAX && unlisted.insert(chat) {
            tracing::info!(
                chat,
                why,
                "messages of a telegram group are passed over; to serve it, add its id to `chats`"
            );
        }
    }
}

impl Platform for Telegram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn traits(&self) -> PlatformTraits {
        PlatformTraits {
            typing_every: TYPING_EVERY,
            repeat_within: None,
            draft_every: self.chat.get().draft_every,
        }
    }

    fn split(&self, words: &str) -> Vec<String> {
        rendering::split(words)
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move {
            let place = self.place(&part.channel)?;
            let keyboard = part.approval.as_ref().and_then(press::keyboard);
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

/// The text of Markdown, and what stands for its markup.
fn markup(words: &str) -> (String, Vec<MessageEntity>) {
    let Rendered { text, entities } = rendering::render(words);
    let entity = |entity: Entity| {
        let kind = match entity.kind {
            EntityKind::Bold => MessageEntityKind::Bold,
            EntityKind::Italic => MessageEntityKind::Italic,
            EntityKind::Strikethrough => MessageEntityKind::Strikethrough,
            EntityKind::Code => MessageEntityKind::Code,
            EntityKind::Pre { language } => MessageEntityKind::Pre { language },
            EntityKind::Blockquote => MessageEntityKind::Blockquote,
        };
        MessageEntity::new(kind, entity.offset_utf16, entity.length_utf16)
    };
    (text, entities.into_iter().map(entity).collect())
}
