//! Reads updates without a connection, for `crates/fuzz`.

use serde_json::Value;

use super::callbacks::with_outcome;
use super::content::{self, Attached};
use super::handler::address;
use super::updates::queue_of;
use super::wire::{self, Message, Update, User};
use super::words;

/// A message as the runtime would get it.
#[derive(Debug)]
pub struct Heard {
    pub chat: String,
    pub author: String,
    pub words: String,
    /// The names of attachments, which are not fetched.
    pub files: Vec<String>,
}

/// Reads an update as the poller and the chat queue do. Returns its number and the message in it, if any.
pub fn update(value: Value) -> (Option<i64>, Option<Heard>) {
    let (id, read) = wire::read(value);
    let Ok(update) = read else { return (id, None) };
    let _queue = queue_of(&update);
    let heard = match update {
        Update::Message(message) | Update::Edited(message) => heard(&message),
        Update::Membership(_) | Update::Reaction(_) => None,
        Update::Callback(callback) => {
            let _button = callback.data.as_deref().and_then(crate::buttons::read);
            let _presser = content::presser(&callback.from);
            callback.message.as_ref().and_then(heard)
        }
    };
    (id, heard)
}

fn heard(message: &Message) -> Option<Heard> {
    let me = User {
        id: 99,
        is_bot: true,
        first_name: "Cairn".to_owned(),
        last_name: None,
        username: Some("cairn_bot".to_owned()),
        can_read_all_group_messages: false,
    };
    let quoted = content::quoted(message, &me, super::NAME);
    let _given = (words::command(message, &me), words::calls(message, &me), quoted);
    let _closed = with_outcome(message, "— yes, Ann, 10:00 UTC");
    let (latest, long) = (content::words(message, &me, true), content::words(message, &me, false));
    let files = content::attached(message).into_iter().map(|file| match file {
        Attached::Photo(_) => "photo".to_owned(),
        Attached::Document(_) => "document".to_owned(),
        Attached::Sound { name, .. } | Attached::Named { name, .. } => name,
    });
    Some(Heard {
        chat: address(message).chat,
        author: content::speaker(message)?.name,
        words: if long.len() >= latest.len() { long } else { latest },
        files: files.collect(),
    })
}
