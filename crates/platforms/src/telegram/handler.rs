//! What takes an update in, and whom and what an update is of.

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
    /// With a later one that was missed with it.
    WithLater,
    /// Not: it is too old, or one of too many, and kept as context.
    Never,
}

/// An update, and how it is to be taken.
pub(super) struct Job {
    pub(super) update: Update,
    pub(super) due: Due,
    pub(super) done: Done,
}

/// Tells the poller, once it is dropped, that an update is done: what it says is durable, or of no use.
pub(super) struct Done {
    pub(super) update: i64,
    pub(super) poller: mpsc::Sender<i64>,
}

impl Drop for Done {
    fn drop(&mut self) {
        // There is room for all that can be under way; without a poller nobody waits for it.
        let _ = self.poller.try_send(self.update);
    }
}

/// What an update needs to be taken in.
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

/// What the access rules say of who speaks.
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
        direct: message.is_direct(),
    }
}

pub(super) fn topic_of(message: &Message) -> ChatTopic {
    (message.chat.id, message.topic())
}

pub(super) fn press_id(callback: &Callback) -> MessageId {
    MessageId::from(format!("callback-{}", callback.id))
}
