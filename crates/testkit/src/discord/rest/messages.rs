//! Messages: sending, changing, taking away, fetching; typing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::places::seen;
use super::refusal::Refusal;
use super::{Outcome, Path, components, content};
use crate::clock::wall_time;
use crate::discord::serve::Call;
use crate::discord::world::{Access, Act, BOT_ID, File, Message, Nonce, Sent, Upload, kind};
use crate::discord::{Rule, Shared, State, shapes};

const MAX_FETCH: u64 = 100;

/// Largest file that a bot may attach: 10 MiB ("Uploading Files").
const MAX_FILE_BYTES: usize = 10 << 20;

/// How long a nonce is remembered.
const NONCE_WINDOW: Duration = Duration::from_secs(180);

/// A channel that the bot may write in.
fn writable(state: &State, id: u64) -> Result<(), Refusal> {
    let channel = seen(state, id)?;
    match channel.access {
        Access::Blocked => Err(Refusal::blocked()),
        Access::ReadOnly => Err(Refusal::missing_permissions()),
        _ if channel.kind == kind::FORUM => Err(Refusal::no_text_channel()),
        _ => Ok(()),
    }
}

/// Refuses files that are too large.
fn fitting(shared: &Shared, uploads: &[Upload]) -> Result<(), Refusal> {
    match uploads.iter().find(|file| file.bytes.len() > MAX_FILE_BYTES) {
        Some(file) => {
            shared.violation(Rule::Length, format!("a file of {} bytes", file.bytes.len()));
            Err(Refusal::too_large())
        }
        None => Ok(()),
    }
}

/// The files of a message as it has them.
fn kept(state: &mut State, uploads: &[Upload]) -> Vec<File> {
    let file = |upload: &Upload| File {
        id: state.world.next_id(),
        name: upload.name.clone(),
        content_type: upload.content_type.clone(),
        bytes: upload.bytes.clone(),
        size: upload.bytes.len() as u64,
    };
    uploads.iter().map(file).collect()
}

pub(super) fn send(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    let (body, files) = super::read(shared, call)?;
    let uploads = super::uploads(call);
    fitting(shared, &uploads)?;
    let origin = shared.origin();
    shared.update(|state| {
        writable(state, path.major)?;
        let words = content::words(state, &body, &files, None)?;
        let nonce = content::nonce(state, &body)?;
        let reply_to = reference(state, &body, path.major)?;
        if body["enforce_nonce"] == true
            && let Some(nonce) = &nonce
            && let Some(earlier) = repeated(state, nonce, path.major, &words.content)
        {
            return Ok((200, shapes::message(&state.world, &origin, &earlier, 1)));
        }
        let id = state.world.next_id();
        let components = words.components.unwrap_or_default();
        if let (true, Some(nonce)) = (body["enforce_nonce"] == true, &nonce) {
            let known = Nonce { message: id, channel: path.major, at: Instant::now() };
            state.world.nonces.insert(nonce.clone(), known);
        }
        let kept = kept(state, &uploads);
        let message = Message {
            id,
            channel: path.major,
            author: BOT_ID,
            webhook: false,
            content: words.content.clone(),
            kind: if reply_to.is_some() { 19 } else { 0 },
            edited: None,
            reply_to,
            files: kept,
            embeds: words.embeds.clone(),
            components: components.clone(),
            flags: words.flags,
            nonce: (!body["nonce"].is_null()).then(|| body["nonce"].clone()),
            mentions: Vec::new(),
            everyone: false,
        };
        state.world.sent.push(Sent {
            id,
            channel: path.major,
            wordings: vec![words.content.clone()],
            content: words.content,
            nonce,
            repeats: 0,
            unshown: None,
            reply_to,
            allowed_mentions: words.allowed_mentions,
            flags: words.flags,
            embeds: words.embeds,
            buttons: components::buttons(&components),
            files,
            uploads,
            pinged: words.pinged,
            deleted: false,
            at: Instant::now(),
        });
        state.world.channel(path.major).acts.push(Act::Sent(id));
        let shown = shapes::message(&state.world, &origin, &message, 1);
        state.post(&origin, message);
        Ok((200, shown))
    })
}

/// The message that is answered, if any.
fn reference(state: &mut State, body: &Value, channel: u64) -> Result<Option<u64>, Refusal> {
    let reference = &body["message_reference"];
    if reference.is_null() {
        return Ok(None);
    }
    let number = |name: &str| match &reference[name] {
        Value::String(text) => text.parse::<u64>().ok(),
        other => other.as_u64(),
    };
    let elsewhere = number("channel_id").is_some_and(|named| named != channel);
    let found = number("message_id").filter(|id| state.world.message(channel, *id).is_some());
    match found.filter(|_| !elsewhere) {
        Some(id) => Ok(Some(id)),
        None if let Some(refusal) = &state.stray_replies => Err(refusal.clone()),
        None if reference["fail_if_not_exists"] == false => Ok(None),
        None => {
            Err(Refusal::form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message"))
        }
    }
}

/// The message that was sent with the same nonce a short while ago.
fn repeated(state: &mut State, nonce: &str, channel: u64, content: &str) -> Option<Message> {
    let known = state.world.nonces.get(nonce).filter(|known| known.at.elapsed() < NONCE_WINDOW)?;
    let known = known.clone();
    if known.channel != channel {
        state.violation(Rule::Nonce, format!("the nonce `{nonce}` stands for messages in two channels"));
    }
    if let Some(sent) = state.world.sent.iter_mut().find(|sent| sent.id == known.message) {
        sent.repeats += 1;
        sent.unshown = (sent.content != content).then(|| content.to_owned());
    }
    state.world.message(known.channel, known.message).cloned()
}

fn own(state: &mut State, path: &Path) -> Result<Message, Refusal> {
    writable(state, path.major)?;
    let found = state.world.message(path.major, path.minor).cloned().ok_or_else(Refusal::unknown_message)?;
    if found.author == BOT_ID {
        return Ok(found);
    }
    state.violation(Rule::Foreign, format!("message {} is somebody else's", path.minor));
    Err(Refusal::foreign_message())
}

pub(super) fn edit(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    let (body, files) = super::read(shared, call)?;
    let origin = shared.origin();
    shared.update(|state| {
        let message = own(state, path)?;
        let message = change(state, &origin, message, &body, &files)?;
        Ok((200, shapes::message(&state.world, &origin, &message, 1)))
    })
}

/// Gives a message of the bot's what a request says.
pub(super) fn change(
    state: &mut State,
    origin: &str,
    mut message: Message,
    body: &Value,
    files: &[String],
) -> Result<Message, Refusal> {
    let old = content::Old { content: message.content.clone(), flags: message.flags };
    let words = content::words(state, body, files, Some(old))?;
    message.content.clone_from(&words.content);
    message.flags = words.flags;
    message.edited = Some(wall_time());
    message.components = words.components.unwrap_or(message.components);
    if let Some(sent) = state.world.sent.iter_mut().find(|sent| sent.id == message.id) {
        sent.content.clone_from(&words.content);
        sent.unshown = None;
        sent.wordings.push(words.content);
        sent.pinged.extend(words.pinged);
        sent.flags = words.flags;
        sent.buttons = components::buttons(&message.components);
    }
    let channel = state.world.channel(message.channel);
    channel.acts.push(Act::Edited(message.id));
    channel.messages.insert(message.id, message.clone());
    let event = state.message_event(origin, "MESSAGE_UPDATE", &message);
    state.gateway.dispatch(&event);
    Ok(message)
}

pub(super) fn delete(shared: &Shared, path: &Path) -> Outcome {
    shared.update(|state| {
        own(state, path)?;
        let channel = state.world.channel(path.major);
        channel.messages.remove(&path.minor);
        channel.deleted_last = channel.deleted_last.max(Some(path.minor));
        channel.acts.push(Act::Deleted(path.minor));
        if let Some(sent) = state.world.sent.iter_mut().find(|sent| sent.id == path.minor) {
            sent.deleted = true;
        }
        Ok((204, Value::Null))
    })
}

pub(super) fn fetch(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    let origin = shared.origin();
    shared.update(|state| {
        let channel = seen(state, path.major)?;
        if channel.kind == kind::FORUM {
            return Err(Refusal::no_text_channel());
        }
        let show = |message: &Message| {
            let mut body = shapes::message(&state.world, &origin, message, 1);
            // `nonce` may be missing ("Message Object" in Discord's documentation); a history shows none.
            if let Some(fields) = body.as_object_mut() {
                fields.remove("nonce");
            }
            let to_bot = message.author == BOT_ID || message.mentions.contains(&BOT_ID);
            if !state.content_allowed && channel.guild.is_some() && !to_bot {
                shapes::without_content(&mut body);
            }
            body
        };
        if path.rest.is_empty() {
            let found = channel.messages.get(&path.minor).ok_or_else(Refusal::unknown_message)?;
            return Ok((200, show(found)));
        }
        let limit = call.number("limit").unwrap_or(50);
        if limit == 0 || limit > MAX_FETCH {
            let text = format!("a fetch of {limit} messages");
            state.violation(Rule::Shape, text);
            return Err(Refusal::form("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100."));
        }
        if channel.access == Access::NoHistory {
            return Ok((200, json!([])));
        }
        let limit = limit as usize;
        // `after` gives those that follow at once, the others the newest; all are told newest first.
        let list: Vec<Value> = match (call.number("after"), call.number("before")) {
            (Some(after), _) => {
                let next: Vec<&Message> =
                    channel.messages.range(after + 1..).take(limit).map(|(_, message)| message).collect();
                next.into_iter().rev().map(show).collect()
            }
            (None, Some(before)) => {
                channel.messages.range(..before).rev().take(limit).map(|(_, message)| show(message)).collect()
            }
            (None, None) => channel.messages.values().rev().take(limit).map(show).collect(),
        };
        Ok((200, list.into()))
    })
}

/// A reaction of the bot: an emoji as percent escapes, or `name:id` of a custom one
/// (<https://docs.discord.com/developers/resources/message#create-reaction>).
pub(super) fn react(shared: &Shared, path: &Path) -> Outcome {
    let (method, emoji) = path.rest.split_once(' ').unwrap_or_default();
    shared.update(|state| {
        let channel = seen(state, path.major)?;
        if !channel.messages.contains_key(&path.minor) {
            return Err(Refusal::unknown_message());
        }
        if matches!(channel.access, Access::ReadOnly | Access::NoHistory) {
            return Err(Refusal::missing_permissions());
        }
        let decoded = percent_decode(emoji);
        let is_escaped = emoji.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%_-".contains(&byte));
        let is_custom = decoded.split_once(':').is_some_and(|(_, id)| id.parse::<u64>().is_ok());
        if !is_escaped || decoded.is_empty() || (decoded.is_ascii() && !is_custom) {
            state.violation(Rule::Shape, format!("a reaction `{emoji}`"));
            return Err(Refusal::new(400, 10014, "Unknown Emoji"));
        }
        let marks = state.world.reactions.entry((path.major, path.minor)).or_default();
        let there = marks.iter().rev().find_map(|(emoji, is_on)| (*emoji == decoded).then_some(*is_on));
        let is_on = method == "PUT";
        if !is_on && there != Some(true) {
            return Err(Refusal::new(404, 10014, "Unknown Emoji"));
        }
        marks.push((decoded, is_on));
        Ok((204, json!(null)))
    })
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &others[2..];
            }
            None => {
                out.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn typing(shared: &Shared, path: &Path) -> Outcome {
    shared.update(|state| {
        writable(state, path.major)?;
        state.world.channel(path.major).acts.push(Act::Typing);
        Ok((204, json!(null)))
    })
}
