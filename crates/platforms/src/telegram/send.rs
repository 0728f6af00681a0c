//! Outgoing traffic: messages, edits, typing, and what their answers tell about a chat.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::people::access::ChatPlace;
use cairn_types::ports::SendError;
use cairn_types::texts::Texts;
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use teloxide::payloads::{EditMessageText, SendChatAction, SendMessage, SetMessageReaction};
use teloxide::types::{
    ChatAction, ChatId, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity, MessageId as Number,
    ReactionType, Recipient, ReplyMarkup, ReplyParameters, ThreadId,
};
use tokio::time::Instant;

use super::Telegram;
use super::api::CallError;
use super::pace::Write;
use crate::link::Place;
use crate::markup::telegram::{self as rendering, Rendered};

/// Longest time for an answer by Telegram.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The meaning of a failed write for its message.
pub(super) fn send_error(error: CallError) -> SendError {
    let reason = error.to_string();
    match error {
        CallError::Api { code: 400 | 403 | 413, description, .. } => SendError::Refused(description),
        // The bot cannot send at the moment: the message is kept.
        CallError::Api { retry_after, .. } => SendError::Later { after: retry_after, reason },
        CallError::Connect(_) => SendError::Later { after: None, reason },
        // 503: the server takes no requests now, and did not take this one (RFC 9110, 15.6.4).
        CallError::Garbled { status: 300..500 | 503, .. } => SendError::Later { after: None, reason },
        CallError::Broken(_) | CallError::Garbled { .. } => SendError::Unknown(reason),
    }
}

fn thread(place: ChatTopic) -> Option<ThreadId> {
    place.1.and_then(|thread| i32::try_from(thread).ok()).map(|thread| ThreadId(Number(thread)))
}

pub(super) fn chat(place: ChatTopic) -> Recipient {
    Recipient::Id(ChatId(place.0))
}

pub(super) fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

impl Telegram {
    /// The runtime's id of a message. A chat that moved numbers its messages anew while its channel stays, so the id
    /// includes the new chat's id.
    pub(super) fn runtime_id(&self, chat: i64, message: i64) -> MessageId {
        let moved = self.pairing_store.home_of(self.platform(), &chat.to_string()) != chat.to_string();
        MessageId::from(if moved { format!("{chat}:{message}") } else { message.to_string() })
    }

    /// A message's number in a chat. `None`: it belongs to the chat's earlier id.
    pub(super) fn number(&self, chat: i64, message: &MessageId) -> Option<Number> {
        let (said, number) = match message.as_str().split_once(':') {
            Some((_, number)) => (message.as_str(), number),
            None => (message.as_str(), message.as_str()),
        };
        let number: i32 = number.parse().ok()?;
        (self.runtime_id(chat, i64::from(number)).as_str() == said).then_some(Number(number))
    }

    /// The current chat and topic of a channel.
    pub(super) fn place(&self, channel: &ChannelId) -> Result<ChatTopic, SendError> {
        let bad = || SendError::Refused(format!("`{channel}` is no chat on Telegram"));
        let chat = self.pairing_store.address_of(self.platform(), channel.chat());
        let chat = chat.parse().map_err(|_| bad())?;
        let thread = channel.thread().map(str::parse).transpose().map_err(|_| bad())?;
        Ok((chat, thread))
    }

    /// The texts in a channel.
    pub(super) fn texts_in(&self, channel: &ChannelId, (id, topic): ChatTopic) -> Arc<Texts> {
        let chat = self.chat.get();
        let (chat_id, thread) = (id.to_string(), topic.map(|topic| topic.to_string()));
        let at = |chat| ChatPlace::Group { server: None, chat, thread: thread.as_deref() };
        // The configuration may still name it by its first id.
        let of =
            chat.access.language_at(at(&chat_id)).or_else(|| chat.access.language_at(at(channel.chat())));
        chat.texts(&channel.agent(), of)
    }

    /// Sends one message with these buttons, and returns its id.
    pub(super) async fn write(
        &self,
        mut place: ChatTopic,
        words: &str,
        reply_to: Option<&MessageId>,
        keyboard: Option<InlineKeyboardMarkup>,
    ) -> Result<MessageId, SendError> {
        let Rendered { text, entities } = rendering::render(words);
        if text.trim().is_empty() {
            return Err(SendError::Refused("there is nothing in it to send".to_owned()));
        }
        self.take(place, Write::Message)?;
        let mut payload = SendMessage::new(chat(place), text);
        payload.entities = Some(entities).filter(|entities: &Vec<MessageEntity>| !entities.is_empty());
        payload.link_preview_options = Some(no_preview());
        payload.message_thread_id = thread(place);
        payload.reply_markup = keyboard.map(ReplyMarkup::InlineKeyboard);
        payload.reply_parameters = reply_to
            .and_then(|message| self.number(place.0, message))
            .map(|message| ReplyParameters::new(message).allow_sending_without_reply());
        let mut answer = self.api.call(&payload, CALL_TIMEOUT).await;
        if payload.entities.is_some() && answer.as_ref().is_err_and(faults_entities) {
            tracing::warn!(
                chat = place.0,
                "Telegram refused the markup of a message; it is sent as plain text"
            );
            (payload.text, payload.entities) = (rendering::plain(words), None);
            answer = self.api.call(&payload, CALL_TIMEOUT).await;
        }
        if let Some(moved) = answer.as_ref().err().and_then(moved_to) {
            self.moved(place.0, moved).await?;
            place.0 = moved;
            payload.chat_id = chat(place);
            payload.reply_parameters = None;
            answer = self.api.call(&payload, CALL_TIMEOUT).await;
        }
        // The message that it replies to may be gone: not every server heeds `allow_sending_without_reply`, and the words
        // differ. Where the cause was another one, the second send fails as well.
        let is_refused = matches!(&answer, Err(CallError::Api { code: 400, .. }));
        if is_refused && payload.reply_parameters.take().is_some() {
            answer = self.api.call(&payload, CALL_TIMEOUT).await;
        }
        self.sent_as(place, answer)
    }

    /// The id of a message that was sent, or what a failure means for it.
    pub(super) fn sent_as(
        &self,
        place: ChatTopic,
        answer: Result<Value, CallError>,
    ) -> Result<MessageId, SendError> {
        let result = answer.map_err(|error| match &error {
            // After another server error it may have been sent: Telegram's documentation says nothing of them.
            CallError::Api { code: 500..=502 | 504.., .. } => {
                self.unsent(SendError::Unknown(error.to_string()))
            }
            _ => self.unsent(self.failed(place, error)),
        })?;
        self.link.outbound();
        self.works(place.0);
        // An album is answered with its messages.
        let messages = result.as_array().map_or(std::slice::from_ref(&result), Vec::as_slice);
        let sent: Vec<i64> =
            messages.iter().filter_map(|message| message.get("message_id").and_then(Value::as_i64)).collect();
        sent.iter().for_each(|message| self.sent.note(place, *message));
        let first = sent.first();
        let first =
            first.ok_or_else(|| SendError::Unknown("telegram named no message in its answer".to_owned()))?;
        Ok(self.runtime_id(place.0, *first))
    }

    /// Replaces the text of a message by the bot and removes its buttons.
    pub(super) async fn rewrite(
        &self,
        place: ChatTopic,
        message: &MessageId,
        words: &str,
    ) -> Result<(), SendError> {
        let Some(message) = self.number(place.0, message) else {
            return Err(SendError::Refused(format!(
                "`{message}` is no message of chat {} on Telegram",
                place.0
            )));
        };
        let Rendered { text, entities } = rendering::render(words);
        self.take(place, Write::Edit)?;
        let mut payload = EditMessageText::new(chat(place), message, text);
        payload.entities = Some(entities).filter(|entities: &Vec<MessageEntity>| !entities.is_empty());
        payload.link_preview_options = Some(no_preview());
        let mut answer = self.api.call(&payload, CALL_TIMEOUT).await;
        if payload.entities.is_some() && answer.as_ref().is_err_and(faults_entities) {
            (payload.text, payload.entities) = (rendering::plain(words), None);
            answer = self.api.call(&payload, CALL_TIMEOUT).await;
        }
        if let Some(moved) = answer.as_ref().err().and_then(moved_to) {
            self.moved(place.0, moved).await?;
            return Err(SendError::Refused("its chat has moved; the message stayed behind".to_owned()));
        }
        self.edited(place, answer)
    }

    pub(super) fn edited(&self, place: ChatTopic, answer: Result<Value, CallError>) -> Result<(), SendError> {
        match answer {
            Ok(_) => {}
            Err(CallError::Api { description, .. }) if description.contains("message is not modified") => {}
            Err(error) => return Err(self.unsent(self.failed(place, error))),
        }
        self.link.outbound();
        Ok(())
    }

    pub(super) async fn type_in(&self, place: ChatTopic) -> Result<(), SendError> {
        if let Some(after) = self.pace.blocked(place.0, Instant::now()) {
            return Err(too_fast(after));
        }
        let mut payload = SendChatAction::new(chat(place), ChatAction::Typing);
        payload.message_thread_id = thread(place);
        let answer = self.api.call(&payload, CALL_TIMEOUT).await;
        answer.map(drop).map_err(|error| self.failed(place, error))
    }

    /// Sets the bot's only reaction to a message, or takes it away. A rate limit holds up nothing else in the chat.
    pub(super) async fn react(
        &self,
        place: ChatTopic,
        message: &MessageId,
        emoji: Option<&str>,
    ) -> Result<(), SendError> {
        // A message of the chat's earlier id cannot be reached.
        let Some(message) = self.number(place.0, message) else { return Ok(()) };
        if let Some(after) = self.pace.blocked(place.0, Instant::now()) {
            return Err(too_fast(after));
        }
        let mut payload = SetMessageReaction::new(chat(place), message);
        let reaction = emoji.map(|emoji| ReactionType::Emoji { emoji: emoji.to_owned() });
        payload.reaction = Some(reaction.into_iter().collect());
        match self.api.call(&payload, CALL_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(CallError::Api { code: 400, description, .. }) if is_gone(&description) => Ok(()),
            Err(error) => Err(send_error(error)),
        }
    }

    pub(super) fn take(&self, place: ChatTopic, write: Write) -> Result<(), SendError> {
        self.pace.take(place.0, write, Instant::now()).map_err(too_fast)
    }

    /// Records that a chat became a supergroup, under a new id.
    pub(super) async fn moved(&self, from: i64, to: i64) -> Result<(), SendError> {
        tracing::info!(from, to, "a Telegram chat has a new id; its conversation continues");
        let noted =
            self.pairing_store.migrate(self.platform().to_owned(), from.to_string(), to.to_string()).await;
        noted.map_err(|error| SendError::Later { after: None, reason: error.to_string() })
    }

    /// Records what a failed call says about its chat.
    fn failed(&self, place: ChatTopic, error: CallError) -> SendError {
        if let CallError::Api { code: 429, retry_after: Some(wait), .. } = &error {
            self.pace.block(place.0, *wait, Instant::now());
        }
        if let CallError::Api { code: 403, description, .. } = &error {
            self.barred(place.0, description);
        }
        send_error(error)
    }

    /// Records in the status that a message waits, or may be lost, because of the connection or the server.
    fn unsent(&self, error: SendError) -> SendError {
        if matches!(error, SendError::Later { after: None, .. } | SendError::Unknown(_)) {
            self.link.unsent(&error.to_string());
        }
        error
    }

    /// Reports that the bot may not write in a group. Private chats are left out: anyone may block a bot.
    pub(super) fn barred(&self, chat: i64, reason: &str) {
        if chat < 0 && self.link.trouble(place_of(chat), reason) {
            tracing::warn!(
                chat,
                "the bot may not write in a Telegram group (`cairn status` shows the reason); add it again, or \
                 allow it to write"
            );
        }
    }

    pub(super) fn works(&self, chat: i64) {
        if self.link.clear(place_of(chat)) {
            tracing::info!(chat, "the problem with a Telegram group is over");
        }
    }
}

pub(super) fn place_of(chat: i64) -> Place {
    Place::in_chat("chat", chat)
}

fn too_fast(after: Duration) -> SendError {
    SendError::Later {
        after: Some(after),
        reason: "telegram takes only so many messages of a bot".to_owned(),
    }
}

/// Whether the message of a reaction is not there any more.
fn is_gone(description: &str) -> bool {
    let description = description.to_ascii_lowercase();
    ["not found", "message_id_invalid"].iter().any(|words| description.contains(words))
}

/// Whether Telegram refused the entities; nothing was sent.
fn faults_entities(error: &CallError) -> bool {
    matches!(error, CallError::Api { code: 400, description, .. } if description.contains("entit"))
}

pub(super) fn moved_to(error: &CallError) -> Option<i64> {
    match error {
        CallError::Api { migrate_to, .. } => *migrate_to,
        CallError::Connect(_) | CallError::Broken(_) | CallError::Garbled { .. } => None,
    }
}

/// Messages remembered per place.
const PER_PLACE: usize = 16;

/// Places remembered; beyond it the least recently used one is dropped, and replies there are quoted once more.
const PLACES_MAX: usize = 2048;

pub(super) type ChatTopic = (i64, Option<i64>);

/// The bot's newest messages in each place.
pub(super) struct OwnMessages(Mutex<LruCache<ChatTopic, VecDeque<i64>>>);

impl Default for OwnMessages {
    fn default() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl OwnMessages {
    pub(super) fn note(&self, place: ChatTopic, message: i64) {
        let mut places = self.0.lock();
        if places.len() >= PLACES_MAX && !places.contains(&place) {
            places.pop_lru();
        }
        let messages = places.get_or_insert_mut(place, VecDeque::new);
        if messages.len() == PER_PLACE {
            messages.pop_front();
        }
        messages.push_back(message);
    }

    /// The place in a chat where a message of the bot stands; `None`: it is not remembered.
    pub(super) fn place_of(&self, chat: i64, message: i64) -> Option<ChatTopic> {
        let places = self.0.lock();
        let has =
            |(place, messages): &(&ChatTopic, &VecDeque<i64>)| place.0 == chat && messages.contains(&message);
        places.iter().find(has).map(|(place, _)| *place)
    }

    /// Whether `replied` was the bot's newest message when `message` was written. The answer stays the same later,
    /// while both are remembered.
    pub(super) fn was_latest(&self, place: ChatTopic, replied: i64, message: i64) -> bool {
        let mut places = self.0.lock();
        let Some(messages) = places.get(&place) else { return false };
        messages.iter().filter(|sent| **sent < message).max() == Some(&replied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_before_a_message_stays_so_when_more_is_sent() {
        let (sent, place) = (OwnMessages::default(), (-7, Some(2)));
        assert!(!sent.was_latest(place, 10, 11));
        sent.note(place, 10);
        assert!(sent.was_latest(place, 10, 11));
        sent.note(place, 12);
        assert!(sent.was_latest(place, 10, 11), "an edit of 11 reads as 11 did");
        assert!(!sent.was_latest(place, 10, 13));
        assert!(!sent.was_latest((-7, None), 12, 13));
        for topic in 0..PLACES_MAX as i64 {
            sent.note((-8, Some(topic)), 10);
            assert!(sent.was_latest(place, 12, 13), "others go first");
        }
        assert!(!sent.was_latest((-8, Some(0)), 10, 11));
        assert!(sent.was_latest((-8, Some(1)), 10, 11));
    }
}
