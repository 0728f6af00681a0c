//! The handler that takes updates in, and helpers for an update's sender and chat.

use std::sync::Arc;

use cairn_types::ids::MessageId;
use tokio::sync::{Semaphore, mpsc};

use super::Telegram;
use super::content::Speaker;
use super::send::ChatTopic;
use super::wire::{Callback, Message, Update, User};
use super::words;
use crate::chat_queues::{ChatQueues, Tasks};
use crate::inbound::{Access, ChatAddress, InboundPath, Sender};

/// When a message is answered, if it asks for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    /// Together with a later missed message.
    WithLater,
    /// Not answered, only kept as context: it is too old, or beyond the number of missed messages.
    Never,
}

/// An update to take in.
pub(super) struct Job {
    pub(super) update: Update,
    pub(super) due: Due,
    pub(super) done: Done,
}

/// Tells the poller, when dropped, that an update is done: its content is durable, or it was ignored.
pub(super) struct Done {
    pub(super) update: i64,
    pub(super) poller: mpsc::Sender<i64>,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The channel has room for every open update. Without a poller the result is not needed.
        let _ = self.poller.try_send(self.update);
    }
}

/// Everything that handling an update needs.
#[derive(Clone)]
pub(super) struct InboundHandler {
    pub(super) telegram: Arc<Telegram>,
    pub(super) path: Arc<InboundPath>,
    pub(super) notices: Arc<Semaphore>,
    pub(super) me: Arc<User>,
    pub(super) chat_queues: Arc<ChatQueues<ChatTopic, Job>>,
    pub(super) tasks: Tasks,
}

impl Telegram {
    pub(super) fn message_id(&self, message: &Message) -> MessageId {
        self.runtime_id(message.chat.id, message.message_id)
    }
}

/// Applies the access rules to a message's author.
pub(super) fn judge(path: &InboundPath, me: &User, message: &Message, speaker: &Speaker) -> Access {
    path.judge(&sender(speaker, me), words::calls(message, me), &address(message))
}

pub(super) fn sender(speaker: &Speaker, me: &User) -> Sender {
    let Speaker { id, name, bot, .. } = speaker;
    Sender { id: id.to_string(), name: name.clone(), bot: *bot, myself: *id == me.id }
}

pub(super) fn address(message: &Message) -> ChatAddress {
    ChatAddress {
        server: None,
        chat: message.chat.id.to_string(),
        thread: message.topic().map(|topic| topic.to_string()),
        title: message.chat.title.clone(),
        direct: message.is_direct(),
    }
}

pub(super) fn topic_of(message: &Message) -> ChatTopic {
    (message.chat.id, message.topic())
}

pub(super) fn press_id(callback: &Callback) -> MessageId {
    MessageId::from(format!("callback-{}", callback.id))
}
