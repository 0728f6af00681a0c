//! The types of updates, as far as they are read.
//!
//! teloxide's own types are strict: one field of an unknown shape (a malformed MIME type, a new kind of entity) makes
//! the whole message unreadable. These types require only a message's id, chat and date, and ignore whatever else they
//! cannot read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lenient;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Update {
    Message(Box<Message>),
    Edited(Box<Message>),
    /// The bot's membership in a chat changed.
    Membership(Box<Membership>),
    Callback(Box<Callback>),
}

/// An update that cannot be read or is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadableUpdate {
    /// The kind of the update; `none` if it has none.
    pub(super) kind: &'static str,
    /// Why, without any text that people wrote.
    pub(super) why: &'static str,
}

/// The number of an update, whatever else is in it.
pub(super) fn number(update: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct Numbered {
        update_id: i64,
    }
    serde_json::from_str::<Numbered>(update.get()).ok().map(|numbered| numbered.update_id)
}

/// Reads an update as it arrived; see [`read`].
pub(super) fn parse(update: &RawValue) -> (Option<i64>, Result<Update, UnreadableUpdate>) {
    match serde_json::from_str(update.get()) {
        Ok(value) => read(value),
        Err(_) => {
            let why = "a text in it has half of a character, or a number in it has no end";
            (number(update), Err(UnreadableUpdate { kind: "unparsable", why }))
        }
    }
}

/// Reads one update: its number, if it has one, and its content.
pub(super) fn read(value: Value) -> (Option<i64>, Result<Update, UnreadableUpdate>) {
    let id = value.get("update_id").and_then(Value::as_i64);
    let Value::Object(mut fields) = value else {
        return (id, Err(UnreadableUpdate { kind: "none", why: "no object" }));
    };
    let bad =
        |kind| Err(UnreadableUpdate { kind, why: "a part that is needed is missing or of another shape" });
    if let Some(message) = fields.remove("message") {
        let read = serde_json::from_value(message);
        return (id, read.map_or_else(|_| bad("message"), |message| Ok(Update::Message(message))));
    }
    if let Some(message) = fields.remove("edited_message") {
        let read = serde_json::from_value(message);
        return (id, read.map_or_else(|_| bad("edited_message"), |message| Ok(Update::Edited(message))));
    }
    if let Some(change) = fields.remove("my_chat_member") {
        let read = serde_json::from_value(change);
        return (id, read.map_or_else(|_| bad("my_chat_member"), |change| Ok(Update::Membership(change))));
    }
    if let Some(callback) = fields.remove("callback_query") {
        let read = serde_json::from_value(callback);
        return (id, read.map_or_else(|_| bad("callback_query"), |callback| Ok(Update::Callback(callback))));
    }
    (id, Err(UnreadableUpdate { kind: "none", why: "of no kind that was asked for" }))
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
    /// `private`, `group`, `supergroup`, `channel`.
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) title: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) first_name: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) last_name: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) username: Option<String>,
    /// For the bot itself: whether it gets all messages in groups.
    #[serde(default)]
    pub(super) can_read_all_group_messages: bool,
}

/// A marked range of a text, such as a mention or bold. Offsets are in UTF-16 units.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: usize,
    pub(super) length: usize,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) user: Option<User>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) language: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct PhotoSize {
    pub(super) file_id: String,
    #[serde(default)]
    pub(super) width: u64,
    #[serde(default)]
    pub(super) height: u64,
    #[serde(default)]
    pub(super) file_size: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FileRef {
    pub(super) file_id: String,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) file_size: Option<u64>,
    pub(super) duration: Option<u64>,
    pub(super) title: Option<String>,
    pub(super) emoji: Option<String>,
}

/// The origin of a forwarded message.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Origin {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sender_user: Option<User>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sender_user_name: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sender_chat: Option<Chat>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) chat: Option<Chat>,
}

/// The quoted part of the message that is replied to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Quote {
    pub(super) text: String,
}

/// The described fields of a poll, a place or a contact.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Thing {
    pub(super) question: Option<String>,
    pub(super) title: Option<String>,
    pub(super) emoji: Option<String>,
    pub(super) value: Option<i64>,
    pub(super) latitude: Option<f64>,
    pub(super) longitude: Option<f64>,
    pub(super) first_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Message {
    pub(super) message_id: i64,
    pub(super) chat: Chat,
    pub(super) date: i64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) edit_date: Option<i64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) message_thread_id: Option<i64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) is_topic_message: bool,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) from: Option<User>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sender_chat: Option<Chat>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) entities: Vec<Entity>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) caption: Option<String>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) caption_entities: Vec<Entity>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) reply_to_message: Option<Box<Message>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) quote: Option<Quote>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) forward_origin: Option<Origin>,
    /// The album that it is part of.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) media_group_id: Option<String>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) photo: Vec<PhotoSize>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) document: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) animation: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) audio: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) voice: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) video: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) video_note: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sticker: Option<FileRef>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) poll: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) venue: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) location: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) contact: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) dice: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) forum_topic_created: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) migrate_to_chat_id: Option<i64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) migrate_from_chat_id: Option<i64>,
}

impl Message {
    /// The text or caption, with its entities.
    pub(super) fn words(&self) -> (&str, &[Entity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text, &self.entities),
            (None, Some(caption)) => (caption, &self.caption_entities),
            (None, None) => ("", &[]),
        }
    }

    /// The forum topic; `None` in the General topic and outside forums, where this field only links replies.
    pub(super) fn topic(&self) -> Option<i64> {
        self.message_thread_id.filter(|_| self.is_topic_message)
    }

    /// Whether it is in a private chat with the bot.
    pub(super) fn is_direct(&self) -> bool {
        self.chat.kind == "private"
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Callback {
    pub(super) id: String,
    pub(super) from: User,
    /// The message with the button; for old messages only its number and chat.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) message: Option<Message>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) data: Option<String>,
}

/// The bot's membership in a chat changed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Membership {
    pub(super) chat: Chat,
    pub(super) new_chat_member: Member,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Member {
    /// `member`, `administrator`, `restricted`, `left`, `kicked`.
    pub(super) status: String,
    #[serde(default)]
    pub(super) can_send_messages: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MenuEntry {
    pub(super) command: String,
    pub(super) description: String,
}
