//! Outgoing traffic: messages, edits, typing, and notices to people.

use std::sync::Arc;

use cairn_types::event::SentFile;
use cairn_types::ids::{ApprovalId, ChannelId as RuntimeChannel, MessageId as RuntimeMessage, OutboxId};
use cairn_types::ports::{FilePart, SendError, SendPart};
use cairn_types::texts::{Key, Texts};
use jiff::{SignedDuration, Timestamp};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use serenity::all::{
    ButtonStyle, ChannelId, CreateActionRow, CreateAllowedMentions, CreateButton, CreateMessage, EditMessage,
    MessageFlags, MessageId, MessageReference, MessageReferenceKind, Nonce, UserId,
};
use sha2::{Digest as _, Sha256};

use super::files::Files;
use super::places::Places;
use super::rest::{NO_HISTORY_FOR_REPLY, PAGE, Page, Rest, RestError};
use super::wire::id_at;
use crate::buttons;
use crate::inbound::ChatAddress;
use crate::link::{Link, Place};
use crate::markup::{discord as markup, split_aside};
use crate::settings::LiveChat;

/// Codes of Discord's for a message that is gone, and for a reaction that is not there or no emoji.
const UNKNOWN_MESSAGE: u32 = 10_008;
const UNKNOWN_EMOJI: u32 = 10_014;

/// Most pages of a channel's history that are read for a part.
const FIND_PAGES: usize = 10;

/// How far this machine's clock and Discord's may be apart.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

/// Most channels whose last message by the bot is remembered; beyond it the least recently used one is dropped.
const LAST_MAX: usize = 50_000;

/// Largest file that a bot may attach where a server has no higher level, in bytes ("Uploading Files" in Discord's
/// documentation: 10 MiB).
pub(super) const FILE_MAX: u64 = 10 * 1024 * 1024;

/// Most files of a message.
const FILES_MAX: usize = 10;

/// Whether a text fits into a message, as the text above its files.
pub(super) fn is_caption(words: &str) -> bool {
    markup::split(words).len() <= 1
}

/// Files of a message: ten at most, which together are no larger than one may be.
pub(super) fn bundles(files: &[SentFile]) -> Vec<usize> {
    let mut bundles: Vec<usize> = Vec::new();
    let mut bytes = 0;
    for file in files {
        match bundles.last_mut() {
            Some(n) if *n < FILES_MAX && bytes + file.bytes <= FILE_MAX => *n += 1,
            _ => {
                bundles.push(1);
                bytes = 0;
            }
        }
        bytes += file.bytes;
    }
    bundles
}

pub(super) struct Outbox {
    rest: Arc<Rest>,
    link: Arc<Link>,
    places: Arc<Places>,
    chat: LiveChat,
    last: Mutex<LruCache<ChannelId, u64>>,
    pub(super) files: Files,
}

impl Outbox {
    pub(super) fn new(
        rest: Arc<Rest>,
        link: Arc<Link>,
        places: Arc<Places>,
        chat: LiveChat,
        files: Files,
    ) -> Self {
        Self { rest, link, places, chat, last: Mutex::new(LruCache::unbounded()), files }
    }

    /// The id of the bot's last message in a channel, if known.
    pub(super) fn last(&self, channel: ChannelId) -> Option<u64> {
        self.last.lock().get(&channel).copied()
    }

    pub(super) fn said_last(&self, channel: ChannelId, id: u64) {
        let mut last = self.last.lock();
        let known = last.get_or_insert_mut(channel, || id);
        *known = (*known).max(id);
        if last.len() > LAST_MAX {
            last.pop_lru();
        }
    }

    /// Sends a message, with its files if it has any.
    async fn post(
        &self,
        channel: ChannelId,
        message: &CreateMessage,
        files: &[FilePart],
    ) -> Result<MessageId, RestError> {
        if files.is_empty() {
            self.rest.send(channel, message).await
        } else {
            self.rest.send_files(channel, message, files).await
        }
    }

    /// The texts in a channel.
    fn texts(&self, channel: &RuntimeChannel, id: ChannelId) -> Arc<Texts> {
        let chat = self.chat.get();
        let at = self.places.known(id).map(|channel_ref| ChatAddress::from(&channel_ref));
        chat.texts(&channel.agent(), at.and_then(|at| at.language(&chat.access)).as_deref())
    }

    pub(super) async fn send(&self, part: SendPart) -> Result<RuntimeMessage, SendError> {
        let channel = self.address(&part.channel)?;
        let files = part.files.as_slice();
        let mut message = message(&part.words, nonce(&part.delivery, part.part));
        if !files.is_empty() && part.words.trim().is_empty() {
            message = message.content("");
        }
        let buttons = |approval| buttons_for(approval, &self.texts(&part.channel, channel));
        if let Some(row) = part.approval.as_ref().and_then(buttons) {
            message = message.components(vec![row]);
        }
        let reply_to = part.reply_to.as_ref().and_then(|id| number(id.as_str())).map(MessageId::new);
        let reply = reply_to.map(|to| message.clone().reference_message(reference(channel, to)));
        let sent = match &reply {
            None => self.post(channel, &message, files).await,
            Some(reply) => match self.post(channel, reply, files).await {
                Err(error) if is_of_reply(&error) => self.post(channel, &message, files).await,
                sent => sent,
            },
        };
        let sent = self.noted(channel, sent)?;
        self.said_last(channel, sent.get());
        Ok(RuntimeMessage::new(sent.to_string()))
    }

    /// Looks in a channel for a part that may have been sent. `after`: a message before it; `since`: when it was first
    /// attempted; `now`: this machine's time.
    pub(super) async fn find(
        &self,
        part: &SendPart,
        after: Option<&RuntimeMessage>,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Option<RuntimeMessage>, SendError> {
        let channel = self.address(&part.channel)?;
        let me = self.rest.me().await?;
        let me = me["id"].as_str().and_then(number).ok_or_else(|| unreadable_answer("who the bot is"))?;
        let wanted = Wanted::of(part, me);
        // From the known message on, which shows that the history can be read at all.
        let after = after.and_then(|message| number(message.as_str()));
        let mut from = match after {
            Some(after) => after - 1,
            None => id_at(since.checked_sub(CLOCKS_APART).unwrap_or(Timestamp::UNIX_EPOCH)),
        };
        let mut is_visible = self.places.may_read(channel, UserId::new(me), now) == Some(true);
        for _ in 0..FIND_PAGES {
            let page = self.rest.messages(channel, Page::After(from)).await?;
            // The part before it may have the same text.
            let mut found = page.iter().filter_map(|message| wanted.id_in(message));
            if let Some(found) = found.find(|id| Some(*id) != after) {
                return Ok(Some(RuntimeMessage::new(found.to_string())));
            }
            is_visible |= !page.is_empty();
            if page.len() < PAGE {
                is_visible = is_visible || self.is_direct(channel).await?;
                // Where the bot may not read the history, Discord shows an empty one.
                let hidden = || SendError::Refused("the bot may not read the channel's history".to_owned());
                return if is_visible { Ok(None) } else { Err(hidden()) };
            }
            from = page
                .iter()
                .filter_map(id_of)
                .max()
                .ok_or_else(|| unreadable_answer("a channel's messages"))?;
        }
        Err(SendError::Refused("too much was said since to find it".to_owned()))
    }

    async fn is_direct(&self, channel: ChannelId) -> Result<bool, SendError> {
        let place = self.places.find(&self.rest, channel, None).await?;
        Ok(place.is_some_and(|place| place.is_direct()))
    }

    /// Replaces the text of a message by the bot and removes its buttons.
    pub(super) async fn edit(
        &self,
        channel: &RuntimeChannel,
        message: &RuntimeMessage,
        words: &str,
    ) -> Result<(), SendError> {
        let channel = self.address(channel)?;
        let message = number(message.as_str())
            .map(MessageId::new)
            .ok_or_else(|| SendError::Refused("the message has no id of Discord's".to_owned()))?;
        let edit = EditMessage::new()
            .content(markup::render(words))
            .components(Vec::new())
            .allowed_mentions(nobody())
            .flags(MessageFlags::SUPPRESS_EMBEDS);
        let edited = self.rest.edit(channel, message, &edit).await;
        self.noted(channel, edited)
    }

    /// Takes one reaction of the bot away and adds another. What is gone already is as wanted.
    pub(super) async fn react(
        &self,
        channel: &RuntimeChannel,
        message: &RuntimeMessage,
        (from, to): (Option<&str>, Option<&str>),
    ) -> Result<(), SendError> {
        let channel = self.address(channel)?;
        let Some(message) = number(message.as_str()).map(MessageId::new) else { return Ok(()) };
        let is_gone = |error: &RestError| {
            matches!(error, RestError::Refused { code: UNKNOWN_MESSAGE | UNKNOWN_EMOJI, .. })
        };
        if let Some(from) = from {
            self.rest.unreact(channel, message, from).await.or_else(|error| match is_gone(&error) {
                true => Ok(()),
                false => Err(error),
            })?;
        }
        let Some(to) = to else { return Ok(()) };
        match self.rest.react(channel, message, to).await {
            Err(RestError::Refused { code: UNKNOWN_MESSAGE, .. }) => Ok(()),
            reacted => Ok(reacted?),
        }
    }

    pub(super) async fn typing(&self, channel: &RuntimeChannel) -> Result<(), SendError> {
        let channel = self.address(channel)?;
        Ok(self.rest.typing(channel).await?)
    }

    /// Sends a text that is not the model's answer. Best effort.
    pub(super) async fn notice(&self, channel: ChannelId, about: MessageId, words: &str) {
        let key = OutboxId::new(format!("notice {about}"));
        for (n, part) in split_aside(words, markup::split).await.iter().enumerate() {
            let message = message(part, nonce(&key, u32::try_from(n).unwrap_or(u32::MAX)));
            let reply = message.clone().reference_message(reference(channel, about));
            let sent = match self.rest.patiently(|| self.rest.send(channel, &reply)).await {
                Err(error) if is_of_reply(&error) => {
                    self.rest.patiently(|| self.rest.send(channel, &message)).await
                }
                sent => sent,
            };
            if let Err(error) = self.noted(channel, sent) {
                tracing::warn!(
                    platform = self.link.platform(),
                    channel = channel.get(),
                    error = error.code(),
                    "a notice could not be sent"
                );
                return;
            }
        }
    }

    /// The Discord channel of a runtime channel. An error if it is known to be gone.
    fn address(&self, channel: &RuntimeChannel) -> Result<ChannelId, SendError> {
        let channel = address(channel)?;
        if self.places.is_gone(channel) { Err(RestError::unknown_channel().into()) } else { Ok(channel) }
    }

    fn noted<T>(&self, channel: ChannelId, result: Result<T, RestError>) -> Result<T, SendError> {
        let place = Place::in_chat("channel", channel);
        match &result {
            Ok(_) => {
                self.link.outbound();
                self.link.clear(place);
            }
            Err(error @ RestError::Refused { status: 403 | 404, .. }) => {
                if error.is_unknown_channel() {
                    self.places.set_gone(channel);
                }
                if self.link.trouble(place, &error.to_string()) {
                    tracing::warn!(
                        platform = self.link.platform(),
                        channel = channel.get(),
                        error = error.in_brief(),
                        "a channel accepts no messages"
                    );
                }
            }
            Err(RestError::Limited { .. } | RestError::Refused { .. }) => {}
            Err(error) => self.link.unsent(&error.to_string()),
        }
        Ok(result?)
    }
}

/// Allows no mentions, so that a message notifies nobody.
pub(super) fn nobody() -> CreateAllowedMentions {
    CreateAllowedMentions::new().empty_users().empty_roles().replied_user(false)
}

/// The buttons under the question for an approval.
fn buttons_for(approval: &ApprovalId, texts: &Texts) -> Option<CreateActionRow> {
    let [yes, no] = buttons::data(approval)?;
    let button = |data: String, label, style| CreateButton::new(data).label(texts.say(label)).style(style);
    Some(CreateActionRow::Buttons(vec![
        button(yes, Key::ButtonYes, ButtonStyle::Success),
        button(no, Key::ButtonNo, ButtonStyle::Secondary),
    ]))
}

fn message(words: &str, nonce: String) -> CreateMessage {
    CreateMessage::new()
        .content(markup::render(words))
        .nonce(Nonce::String(nonce))
        .enforce_nonce(true)
        .allowed_mentions(nobody())
        .flags(MessageFlags::SUPPRESS_EMBEDS)
}

/// Whether a send may have failed because it was a reply: the bot may not reply there, or the message is gone. It is then
/// sent without a reference, since some servers ignore `fail_if_not_exists`, and each has a status and a code of its own for
/// it. Where the cause was another one, the second send fails as well.
fn is_of_reply(error: &RestError) -> bool {
    match error {
        RestError::Refused { code: NO_HISTORY_FOR_REPLY, .. } => true,
        RestError::Refused { status: 400 | 404, .. } => !error.is_unknown_channel(),
        _ => false,
    }
}

/// A part that is looked for in a channel.
struct Wanted {
    author: u64,
    nonce: String,
    content: String,
    reply_to: Option<u64>,
    /// Sizes of its files.
    files: Vec<u64>,
}

impl Wanted {
    fn of(part: &SendPart, author: u64) -> Self {
        let reply_to = part.reply_to.as_ref().and_then(|id| number(id.as_str()));
        let nonce = nonce(&part.delivery, part.part);
        let is_blank = part.words.trim().is_empty();
        let content = if is_blank { String::new() } else { markup::render(&part.words) };
        let files = part.files.iter().map(|part| part.file.bytes).collect();
        Self { author, nonce, content, reply_to, files }
    }

    /// The message's id, if it is the part. Discord need not show the nonce of an older message; then the text counts, and
    /// the message must not reply to another one.
    fn id_in(&self, message: &Value) -> Option<u64> {
        let number = |value: &Value| value.as_str().and_then(number);
        let id = id_of(message).filter(|_| number(&message["author"]["id"]) == Some(self.author))?;
        let replied = number(&message["message_reference"]["message_id"]);
        let is_it = match message["nonce"].as_str() {
            Some(nonce) => nonce == self.nonce,
            None => {
                let same_text =
                    message["content"].as_str().is_some_and(|text| text.trim() == self.content.trim());
                let attached = message["attachments"].as_array().map_or(&[][..], Vec::as_slice);
                let sizes: Vec<u64> = attached.iter().filter_map(|file| file["size"].as_u64()).collect();
                same_text && sizes == self.files && (replied.is_none() || replied == self.reply_to)
            }
        };
        is_it.then_some(id)
    }
}

fn unreadable_answer(what: &str) -> SendError {
    SendError::Unknown(format!("Discord describes {what} in a way that cannot be read"))
}

/// The id of a message, even if the rest cannot be read.
pub(super) fn id_of(message: &Value) -> Option<u64> {
    message.get("id")?.as_str().and_then(number)
}

fn reference(channel: ChannelId, message: MessageId) -> MessageReference {
    MessageReference::new(MessageReferenceKind::Default, channel)
        .message_id(message)
        .fail_if_not_exists(false)
}

/// The nonce against duplicates: deterministic for a part of a delivery, at most 25 characters.
fn nonce(delivery: &OutboxId, part: u32) -> String {
    let mut hasher = Sha256::new();
    hasher.update(part.to_be_bytes());
    hasher.update(delivery.as_str().as_bytes());
    hasher.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn address(channel: &RuntimeChannel) -> Result<ChannelId, SendError> {
    let id = number(channel.thread().unwrap_or_else(|| channel.chat()));
    id.map(ChannelId::new)
        .ok_or_else(|| SendError::Refused("the channel's name has no id of Discord's in it".to_owned()))
}

pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_the_same_for_the_same_part_alone_and_short() {
        let (one, two) = (OutboxId::new("o1"), OutboxId::new("o2"));
        assert_eq!(nonce(&one, 0), nonce(&one, 0));
        assert_ne!(nonce(&one, 0), nonce(&one, 1));
        assert_ne!(nonce(&one, 0), nonce(&two, 0));
        assert!(nonce(&one, 0).len() <= 25);
    }

    #[test]
    fn what_leaves_mentions_nobody_and_shows_no_preview() {
        let body = serde_json::to_value(message("@everyone <@1> https://a.example", "n".to_owned()));
        let body = body.expect("is JSON");
        assert_eq!(body["allowed_mentions"]["parse"], serde_json::json!([]));
        assert_eq!(body["allowed_mentions"]["replied_user"], false);
        assert_eq!(body["flags"], 4);
        assert_eq!(body["enforce_nonce"], true);
    }

    #[test]
    fn a_thread_is_written_to_itself_and_a_name_that_is_no_id_is_refused() {
        let channel = |name: &str| name.parse::<RuntimeChannel>().expect("is a name");
        assert_eq!(address(&channel("main/discord/20/30")), Ok(ChannelId::new(30)));
        assert_eq!(address(&channel("main/discord/20")), Ok(ChannelId::new(20)));
        assert!(matches!(address(&channel("main/discord/0")), Err(SendError::Refused(_))));
        assert!(matches!(address(&channel("main/discord/x")), Err(SendError::Refused(_))));
    }
}
