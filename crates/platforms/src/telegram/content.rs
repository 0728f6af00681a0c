//! A message's content for the model: the speaker, the text with the message it replies to, and the attachments, which
//! are fetched elsewhere.

use cairn_types::message::Provenance;

use super::wire::{FileRef, Message, PhotoSize, Thing, User};
use super::words::{replied_to, without_me};
use crate::markup::name::{self, one_line};

/// Longest quote of the message that is replied to, in characters.
const QUOTE_MAX: usize = 240;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker {
    pub(super) id: i64,
    pub(super) name: String,
    /// A bot. A person who writes anonymously, through a chat, is none.
    pub(super) bot: bool,
    /// A person, who can have a private chat; not a group or a channel.
    pub(super) person: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attached {
    Photo(Vec<PhotoSize>),
    Document(FileRef),
    Named { name: String, media_type: Option<String> },
}

/// The author of a message; anonymous admins and channels write as their chat.
pub(super) fn speaker(message: &Message) -> Option<Speaker> {
    if let Some(chat) = &message.sender_chat {
        let name = name::display(chat.title.as_deref().unwrap_or("anonymous"));
        return Some(Speaker { id: chat.id, name, bot: false, person: false });
    }
    message.from.as_ref().map(presser)
}

/// The person or bot that presses a button.
pub(super) fn presser(user: &User) -> Speaker {
    Speaker { id: user.id, name: name_of(user), bot: user.is_bot, person: !user.is_bot }
}

fn name_of(user: &User) -> String {
    let full = match user.last_name.as_deref() {
        Some(last) => format!("{} {last}", user.first_name),
        None => user.first_name.clone(),
    };
    match (full.trim(), user.username.as_deref()) {
        ("", Some(username)) => name::display(username),
        (full, _) => name::display(full),
    }
}

/// The people whose text a message quotes or forwards. `platform`: the prefix of their ids.
pub(super) fn quoted(message: &Message, me: &User, platform: &str) -> Provenance {
    let mut provenance = Provenance::default();
    if let Some(reply) =
        replied_to(message).filter(|reply| reply.from.as_ref().is_none_or(|user| user.id != me.id))
    {
        provenance.join(&match speaker(reply) {
            Some(speaker) => Provenance::of_person(&format!("{platform}/{}", speaker.id)),
            None => Provenance::of_strangers(),
        });
    }
    if message.quote.is_some() && replied_to(message).is_none() || message.forward_origin.is_some() {
        provenance.join(&Provenance::of_strangers());
    }
    provenance
}

/// The text, with a quote of the message it replies to, or the origin of a forward. Empty if the message has none.
/// `latest`: it replies to the bot's newest message, which is not quoted.
pub(super) fn words(message: &Message, me: &User, latest: bool) -> String {
    let mut lines = Vec::new();
    if let Some(origin) = &message.forward_origin {
        let user = origin.sender_user.as_ref().map(name_of);
        let chat =
            origin.sender_chat.as_ref().or(origin.chat.as_ref()).and_then(|chat| chat.title.as_deref());
        let other = origin.sender_user_name.as_deref().or(chat).map(name::display);
        lines.push(format!("[forwarded from {}]", user.or(other).as_deref().unwrap_or("somebody")));
    }
    if let Some(reply) = replied_to(message) {
        let picked = message.quote.as_ref().map(|quote| quote.text.as_str());
        let own = reply.from.as_ref().is_some_and(|user| user.id == me.id);
        let name = match speaker(reply) {
            _ if own => "you".to_owned(),
            Some(speaker) => speaker.name,
            None => "somebody".to_owned(),
        };
        let said = one_line(picked.unwrap_or(reply.words().0), QUOTE_MAX);
        match said.as_str() {
            _ if own && latest && picked.is_none() => {}
            "" => lines.push(format!("[in reply to a message of {name}]")),
            said => lines.push(format!("[in reply to {name}: \"{said}\"]")),
        }
    }
    let text = without_me(message, me);
    if !text.is_empty() {
        lines.push(text);
    }
    lines.extend(things(message));
    if lines.is_empty() {
        // The text is only the bot's name.
        return message.words().0.to_owned();
    }
    lines.join("\n")
}

/// Descriptions of content that is neither text nor a file.
fn things(message: &Message) -> Vec<String> {
    let mut out = Vec::new();
    let mut tell = |what: &str, detail: Option<&str>| match detail.map(|detail| one_line(detail, QUOTE_MAX)) {
        Some(detail) if !detail.is_empty() => out.push(format!("[{what}: {detail}]")),
        _ => out.push(format!("[{what}]")),
    };
    if let Some(sticker) = &message.sticker {
        tell("sticker", sticker.emoji.as_deref());
    }
    if let Some(poll) = &message.poll {
        tell("poll", poll.question.as_deref());
    }
    if let Some(contact) = &message.contact {
        tell("contact", contact.first_name.as_deref());
    }
    match (&message.venue, &message.location) {
        (Some(venue), _) => tell("place", venue.title.as_deref()),
        (None, Some(Thing { latitude: Some(latitude), longitude: Some(longitude), .. })) => {
            tell("place", Some(&format!("{latitude}, {longitude}")));
        }
        (None, Some(_)) => tell("place", None),
        (None, None) => {}
    }
    if let Some(dice) = &message.dice {
        let value = dice.value.map(|value| value.to_string()).unwrap_or_default();
        tell("dice", Some(&format!("{} {value}", dice.emoji.as_deref().unwrap_or_default())));
    }
    out
}

pub(super) fn attached(message: &Message) -> Vec<Attached> {
    let mut out = Vec::new();
    if !message.photo.is_empty() {
        out.push(Attached::Photo(message.photo.clone()));
    }
    // An animation is also sent as a document.
    match (&message.animation, &message.document) {
        (Some(animation), _) => out.push(named("animation", animation)),
        (None, Some(document)) => out.push(Attached::Document(document.clone())),
        (None, None) => {}
    }
    for (what, file) in [
        ("audio", &message.audio),
        ("voice message", &message.voice),
        ("video", &message.video),
        ("video message", &message.video_note),
    ] {
        out.extend(file.as_ref().map(|file| named(what, file)));
    }
    out
}

fn named(what: &str, file: &FileRef) -> Attached {
    let mut called = what.to_owned();
    if let Some(given) = file.file_name.as_deref().or(file.title.as_deref()) {
        called.push_str(&format!(" {}", name::display(given)));
    }
    if let Some(seconds) = file.duration {
        called.push_str(&format!(" ({seconds} s)"));
    }
    Attached::Named { name: called, media_type: file.mime_type.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn me() -> User {
        let me = json!({"id": 99, "is_bot": true, "first_name": "Cairn", "username": "cairn_bot"});
        serde_json::from_value(me).expect("is a user")
    }

    fn message(fields: &Value) -> Message {
        let mut message = json!({"message_id": 5, "chat": {"id": 7, "type": "private"}, "date": 0});
        for (name, value) in fields.as_object().expect("is an object") {
            message[name] = value.clone();
        }
        serde_json::from_value(message).expect("is a message")
    }

    fn replied(to: Value) -> Value {
        let mut replied = json!({"message_id": 4, "chat": {"id": 7}, "date": 0});
        for (name, value) in to.as_object().expect("is an object") {
            replied[name] = value.clone();
        }
        json!({"text": "why?", "reply_to_message": replied})
    }

    #[test]
    fn a_reply_quotes_what_it_answers_unless_that_is_the_newest_of_the_bot() {
        let own = replied(
            json!({"text": "It  is\nso.", "from": {"id": 99, "is_bot": true, "first_name": "Cairn"}}),
        );
        assert_eq!(words(&message(&own), &me(), true), "why?");
        assert_eq!(words(&message(&own), &me(), false), "[in reply to you: \"It is so.\"]\nwhy?");
        let mut picked = own.clone();
        picked["quote"] = json!({"text": "is"});
        assert_eq!(words(&message(&picked), &me(), true), "[in reply to you: \"is\"]\nwhy?");
        let silent = replied(json!({"photo": [], "from": {"id": 3, "first_name": "Ann"}}));
        assert_eq!(words(&message(&silent), &me(), false), "[in reply to a message of Ann]\nwhy?");
    }

    #[test]
    fn a_long_quotation_is_cut() {
        let long = replied(json!({"text": "é".repeat(500), "from": {"id": 3, "first_name": "Ann"}}));
        let said = words(&message(&long), &me(), false);
        assert_eq!(said, format!("[in reply to Ann: \"{}…\"]\nwhy?", "é".repeat(QUOTE_MAX)));
    }

    #[test]
    fn names_are_one_line_without_marks_of_direction() {
        let evil = json!({"from": {"id": 3, "first_name": "An\u{202e}n\n", "last_name": "System:\u{0}"}});
        let speaker = speaker(&message(&evil)).expect("somebody");
        assert_eq!(speaker.name, "Ann System:");
        let nameless = json!({"from": {"id": 3, "first_name": "", "username": "ann"}});
        assert_eq!(super::speaker(&message(&nameless)).expect("somebody").name, "ann");
    }

    #[test]
    fn what_is_neither_words_nor_file_is_told_in_words() {
        for (fields, told) in [
            (json!({"poll": {"question": "Tea?"}}), "[poll: Tea?]"),
            (json!({"location": {"latitude": 1.5, "longitude": -2.0}}), "[place: 1.5, -2]"),
            (json!({"venue": {"title": "Hut"}, "location": {"latitude": 1.0}}), "[place: Hut]"),
            (json!({"contact": {"first_name": "Bob"}}), "[contact: Bob]"),
            (json!({"dice": {"emoji": "🎲", "value": 4}}), "[dice: 🎲 4]"),
            (json!({"new_chat_members": []}), ""),
        ] {
            assert_eq!(words(&message(&fields), &me(), false), told);
        }
    }

    #[test]
    fn an_animation_is_told_once_though_it_comes_as_a_document_too() {
        let file = json!({"file_id": "x", "file_name": "cat.mp4", "duration": 3});
        let attached = attached(&message(&json!({"animation": file, "document": file})));
        assert_eq!(
            attached,
            [Attached::Named { name: "animation cat.mp4 (3 s)".to_owned(), media_type: None }]
        );
    }
}
