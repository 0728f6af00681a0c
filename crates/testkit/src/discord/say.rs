//! What a person, a bot or a webhook says in a channel.

use std::time::Duration;

use serde_json::Value;

use super::FakeDiscord;
use super::world::{BOT_ID, File, Message};

/// How the gateway tells of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Once,
    Twice,
    Held,
    Never,
}

/// A message in the making. Made by [`FakeDiscord::post`].
#[must_use = "it is said by `send`"]
pub struct Say<'a> {
    discord: &'a FakeDiscord,
    channel: u64,
    user: String,
    text: String,
    mention: bool,
    bot: bool,
    webhook: bool,
    reply_to: Option<u64>,
    files: Vec<File>,
    age: Option<Duration>,
    kind: Option<u64>,
    way: Way,
    embeds: Vec<Value>,
    components: Vec<Value>,
}

impl<'a> Say<'a> {
    pub(super) fn new(discord: &'a FakeDiscord, channel: u64, user: &str, text: &str) -> Self {
        Self {
            discord,
            channel,
            user: user.to_owned(),
            text: text.to_owned(),
            mention: false,
            bot: false,
            webhook: false,
            reply_to: None,
            files: Vec::new(),
            age: None,
            kind: None,
            way: Way::Once,
            embeds: Vec::new(),
            components: Vec::new(),
        }
    }

    /// Begins with a mention of the bot.
    pub fn mention_bot(mut self) -> Self {
        self.mention = true;
        self
    }

    /// Answers a message; when it is the bot's, the bot is mentioned by it, as Discord does unless told otherwise.
    pub fn reply_to(mut self, message: u64) -> Self {
        self.reply_to = Some(message);
        self
    }

    pub fn attach(mut self, name: &str, content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len() as u64;
        let (name, content_type) = (name.to_owned(), content_type.to_owned());
        self.files.push(File { id: 0, name, content_type, bytes, size });
        self
    }

    /// With a file of so many bytes, all of them zero.
    pub fn attach_zeros(mut self, name: &str, content_type: &str, size: u64) -> Self {
        let (name, content_type) = (name.to_owned(), content_type.to_owned());
        self.files.push(File { id: 0, name, content_type, bytes: Vec::new(), size });
        self
    }

    pub fn from_bot(mut self) -> Self {
        self.bot = true;
        self
    }

    pub fn from_webhook(mut self) -> Self {
        self.webhook = true;
        self
    }

    /// With a box, in the shape that Discord shows it in: <https://discord.com/developers/docs/resources/message#embed-object>.
    pub fn embed(mut self, embed: Value) -> Self {
        self.embeds.push(embed);
        self
    }

    /// With components, in the shape that Discord shows them in:
    /// <https://discord.com/developers/docs/components/reference>.
    pub fn components(mut self, components: Vec<Value>) -> Self {
        self.components = components;
        self
    }

    /// It is a system message of this type: 6 pinned, 7 somebody joined.
    pub fn system(mut self, kind: u64) -> Self {
        self.kind = Some(kind);
        self
    }

    /// It was said so long ago (and never before the newest message of the channel). Not delivered by the gateway.
    pub fn aged(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self.undelivered()
    }

    pub fn twice(mut self) -> Self {
        self.way = Way::Twice;
        self
    }

    /// The gateway tells of it when [`FakeDiscord::release`] says so.
    pub fn held(mut self) -> Self {
        self.way = Way::Held;
        self
    }

    /// The gateway never tells of it; REST has it.
    pub fn undelivered(mut self) -> Self {
        self.way = Way::Never;
        self
    }

    /// Says it. Its id.
    pub fn send(self) -> u64 {
        let shared = &self.discord.shared;
        let origin = shared.origin();
        shared.update(|state| {
            let author = state.world.user(&self.user);
            if let Some(user) = state.world.users.get_mut(&author) {
                user.bot |= self.bot;
            }
            let id = match self.age {
                Some(age) => state.world.past_id(self.channel, age),
                None => state.world.next_id(),
            };
            let content = if self.mention { format!("<@{BOT_ID}> {}", self.text) } else { self.text };
            let mut mentions = mentioned(&content);
            let answered = self.reply_to.and_then(|replied| state.world.message(self.channel, replied));
            mentions.extend(answered.map(|replied| replied.author).filter(|id| !mentions.contains(id)));
            mentions.retain(|id| state.world.users.contains_key(id));
            let everyone = content.contains("@everyone") || content.contains("@here");
            let mut files = self.files;
            for file in &mut files {
                file.id = state.world.next_id();
            }
            let message = Message {
                id,
                channel: self.channel,
                author,
                webhook: self.webhook,
                content,
                kind: self.kind.unwrap_or(if self.reply_to.is_some() { 19 } else { 0 }),
                edited: None,
                reply_to: self.reply_to,
                files,
                // A message of components only: `IS_COMPONENTS_V2`.
                flags: if self.components.is_empty() { 0 } else { 1 << 15 },
                embeds: self.embeds,
                components: self.components,
                nonce: None,
                mentions,
                everyone,
            };
            let event = state.message_event(&origin, "MESSAGE_CREATE", &message);
            state.world.channel(self.channel).messages.insert(id, message);
            match self.way {
                _ if state.is_hidden(self.channel) => {}
                Way::Once => state.gateway.dispatch(&event),
                Way::Twice => (0..2).for_each(|_| state.gateway.dispatch(&event)),
                Way::Held => state.held.push(event),
                Way::Never => {}
            }
            id
        })
    }
}

pub(super) fn mentioned(content: &str) -> Vec<u64> {
    let ids = content.split("<@").skip(1).filter_map(|piece| piece.split_once('>'));
    let mut out: Vec<u64> = Vec::new();
    for id in ids.filter_map(|(id, _)| id.trim_start_matches('!').parse().ok()) {
        if !out.contains(&id) {
            out.push(id);
        }
    }
    out
}
