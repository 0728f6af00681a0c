//! The types of updates, as far as they are read.
//!
//! teloxide's own types are strict: one field of an unknown shape (a malformed MIME type, a new kind of entity) makes
//! the whole message unreadable. These types require only a message's id, chat and date, and ignore whatever else they
//! cannot read.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::lenient;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Update {
    Message(Box<Message>),
    Edited(Box<Message>),
    /// The bot's membership in a chat changed.
    Membership(Box<Membership>),
    Callback(Box<Callback>),
    /// A person's reactions to a message changed.
    Reaction(Box<ReactionChange>),
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
    if let Some(change) = fields.remove("message_reaction") {
        let read = serde_json::from_value(change);
        return (id, read.map_or_else(|_| bad("message_reaction"), |change| Ok(Update::Reaction(change))));
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
    /// For the chat of a person, such as one who posts a story.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) first_name: Option<String>,
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
    /// For a `text_link`: the address behind the words.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) url: Option<String>,
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
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) entities: Vec<Entity>,
}

/// The described fields of content that is neither text nor a file, such as a poll, a place or an invoice.
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
    pub(super) last_name: Option<String>,
    pub(super) phone_number: Option<String>,
    pub(super) address: Option<String>,
    /// Where a venue is.
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) location: Option<Box<Thing>>,
    pub(super) description: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) total_amount: Option<i64>,
    pub(super) prize_description: Option<String>,
    pub(super) winner_count: Option<i64>,
    pub(super) star_count: Option<i64>,
    pub(super) data: Option<String>,
    pub(super) url: Option<String>,
    /// For a story, whose it is.
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) chat: Option<Chat>,
    /// The options of a poll.
    #[serde(deserialize_with = "lenient::list")]
    pub(super) options: Vec<Item>,
    /// The tasks of a checklist.
    #[serde(deserialize_with = "lenient::list")]
    pub(super) tasks: Vec<Item>,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) paid_media: Vec<Value>,
}

/// An option of a poll or a task of a checklist.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    pub(super) text: String,
    /// When the task was done; 0 or missing while it is open.
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) completion_date: i64,
}

/// The buttons under a message, in rows.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Keyboard {
    #[serde(deserialize_with = "lenient::list")]
    pub(super) inline_keyboard: Vec<Vec<Button>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Button {
    pub(super) text: String,
    pub(super) url: Option<String>,
}

/// A message of another chat that is replied to (`external_reply`): the content of a message, with `origin` in place of an
/// author, a number and a date.
fn external<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Message>>, D::Error> {
    let Value::Object(mut fields) = Value::deserialize(deserializer)? else { return Ok(None) };
    if let Some(origin) = fields.remove("origin") {
        fields.insert("forward_origin".to_owned(), origin);
    }
    // Its number is one of the other chat.
    for (name, none) in [("message_id", json!(0)), ("date", json!(0)), ("chat", json!({"id": 0}))] {
        fields.insert(name.to_owned(), none);
    }
    Ok(serde_json::from_value(Value::Object(fields)).ok())
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
    /// The inline bot that wrote the message; `from` chose it.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) via_bot: Option<User>,
    /// The bot that wrote the message in the name of `from`.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) sender_business_bot: Option<User>,
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
    #[serde(default, deserialize_with = "external")]
    pub(super) external_reply: Option<Box<Message>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) reply_to_story: Option<Thing>,
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
    pub(super) checklist: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) checklist_tasks_added: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) story: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) game: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) invoice: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) giveaway: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) giveaway_winners: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) paid_media: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) web_app_data: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) link_preview_options: Option<Thing>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) reply_markup: Option<Keyboard>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) forum_topic_created: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) forum_topic_edited: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) migrate_to_chat_id: Option<i64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) migrate_from_chat_id: Option<i64>,
}

impl Message {
    /// Whether it is a voice or video message, which people speak into.
    pub(super) fn is_spoken(&self) -> bool {
        self.voice.is_some() || self.video_note.is_some()
    }

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

    /// The topic that the message names, and its name: it makes or renames it, or answers the message that made it.
    pub(super) fn topic_name(&self) -> Option<(i64, &str)> {
        let named = self.forum_topic_edited.as_ref().or(self.forum_topic_created.as_ref());
        let of_root = || self.reply_to_message.as_ref()?.forum_topic_created.as_ref();
        Some((self.topic()?, named.or_else(of_root)?.get("name")?.as_str()?))
    }

    /// The bot that wrote the text, where its sender did not.
    pub(super) fn ghost_writer(&self) -> Option<&User> {
        self.via_bot.as_ref().or(self.sender_business_bot.as_ref())
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

/// Somebody changed their reactions to a message. Telegram does not tell in which topic it stands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ReactionChange {
    pub(super) chat: Chat,
    pub(super) message_id: i64,
    /// `None`: the person is anonymous.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) date: i64,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) old_reaction: Vec<ReactionKind>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) new_reaction: Vec<ReactionKind>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ReactionKind {
    /// None for custom ones, of which only an id is told, and for paid ones.
    #[serde(default)]
    pub(super) emoji: Option<String>,
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
