//! `sendMessage`, `editMessageText`, `sendChatAction`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::buttons;
use super::entities::{self, Entity};
use super::methods::Ctx;
use super::rules::Rule;
use super::wire::{Params, Refusal};
use super::world::{Ban, Chat, ChatKind, Stored};
use super::{Act, What};

/// Longest text, in UTF-16 units.
const TEXT_MAX_UNITS: usize = 4096;

/// Most messages per minute in a group, where rates are limited.
const GROUP_PER_MINUTE: usize = 20;

const MINUTE: Duration = Duration::from_secs(60);

/// What the bot wants to say, checked.
struct Words {
    text: String,
    given: Vec<Value>,
    detected: Vec<Value>,
}

pub(super) fn send_message(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let chat = writable(ctx, params)?;
    let thread = thread_of(ctx, chat, params)?;
    may_send_now(ctx, chat)?;
    let words = words(ctx, params)?;
    let reply_to = reply_of(ctx, chat, params)?;
    let keyboard = buttons::keyboard(ctx, params)?;
    let id = ctx.state.new_message_id(chat);
    let mut json = json!({
        "message_id": id, "from": ctx.state.bot.json(), "chat": ctx.state.chat(chat).json(), "date": ctx.now,
        "text": words.text,
    });
    put_entities(&mut json, &words);
    buttons::put(&mut json, keyboard);
    if let Some(thread) = thread {
        json["message_thread_id"] = thread.into();
        json["is_topic_message"] = true.into();
    }
    if let Some(replied) = reply_to {
        json["reply_to_message"] = shallow(&ctx.state.chat(chat).messages[&replied].json);
    }
    let stored = Stored { mine: true, thread, json: json.clone(), edits: Vec::new() };
    ctx.state.chat(chat).messages.insert(id, stored);
    ctx.state.acts.push(Act { chat, thread, what: What::Sent(id) });
    Ok(json)
}

/// A message as others refer to it: without what it refers to itself.
pub(super) fn shallow(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(fields) = message.as_object_mut() {
        fields.remove("reply_to_message");
    }
    message
}

fn put_entities(json: &mut Value, words: &Words) {
    let all: Vec<Value> = words.given.iter().chain(&words.detected).cloned().collect();
    if !all.is_empty() {
        json["entities"] = all.into();
    }
}

pub(super) fn edit_message_text(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let (chat, id) = editable(ctx, params)?;
    let words = words(ctx, params)?;
    let keyboard = buttons::keyboard(ctx, params)?;
    edit(ctx, chat, id, |json| {
        if let Some(fields) = json.as_object_mut() {
            fields.remove("entities");
        }
        json["text"] = words.text.clone().into();
        put_entities(json, &words);
        buttons::put(json, keyboard);
    })
}

/// The message of a request that changes one, if a change may be made now.
pub(super) fn editable(ctx: &mut Ctx<'_>, params: &Params) -> Result<(i64, i64), Refusal> {
    let chat = writable(ctx, params)?;
    let Some(id) = params.integer("message_id") else {
        ctx.violate(Rule::Shape, "message_id is missing");
        return Err(Refusal::bad("message identifier is not specified"));
    };
    may_send_now(ctx, chat)?;
    Ok((chat, id))
}

/// Changes a message of the bot's own.
pub(super) fn edit(
    ctx: &mut Ctx<'_>,
    chat: i64,
    id: i64,
    change: impl FnOnce(&mut Value),
) -> Result<Value, Refusal> {
    let now = ctx.now;
    let Some(stored) = ctx.state.chat(chat).messages.get_mut(&id) else {
        return Err(Refusal::bad("message to edit not found"));
    };
    if !stored.mine {
        ctx.violate(Rule::Foreign, format!("message {id} of chat {chat} is not the bot's"));
        return Err(Refusal::bad("message can't be edited"));
    }
    let mut json = stored.json.clone();
    change(&mut json);
    let same = |name: &str| json.get(name) == stored.json.get(name);
    let same_words = same("text") && same("entities");
    if same_words && same("reply_markup") {
        return Err(Refusal::bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a \
             current content and reply markup of the message",
        ));
    }
    json["edit_date"] = now.into();
    if !same_words {
        stored.edits.push(json["text"].as_str().unwrap_or_default().to_owned());
    }
    stored.json = json.clone();
    let thread = stored.thread;
    ctx.state.acts.push(Act { chat, thread, what: What::Edited(id) });
    Ok(json)
}

const ACTIONS: [&str; 11] = [
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];

pub(super) fn send_chat_action(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let chat = writable(ctx, params)?;
    let thread = thread_of(ctx, chat, params)?;
    let action = params.text("action").unwrap_or_default();
    if !ACTIONS.contains(&action.as_str()) {
        ctx.violate(Rule::Shape, format!("unknown action `{action}`"));
        return Err(Refusal::bad("wrong parameter action in request"));
    }
    ctx.state.acts.push(Act { chat, thread, what: What::Typing });
    Ok(true.into())
}

/// The chat that is written to, if the bot may write there.
pub(super) fn writable(ctx: &mut Ctx<'_>, params: &Params) -> Result<i64, Refusal> {
    let id = known(ctx, params)?;
    let chat = ctx.state.chat(id);
    let place = if chat.kind == ChatKind::Group { "group" } else { "supergroup" };
    match chat.ban {
        Some(Ban::Blocked) => Err(Refusal::new(403, "Forbidden: bot was blocked by the user")),
        Some(Ban::Kicked) => {
            Err(Refusal::new(403, format!("Forbidden: bot was kicked from the {place} chat")))
        }
        Some(Ban::Muted) => Err(Refusal::bad("not enough rights to send text messages to the chat")),
        None => Ok(id),
    }
}

/// The chat of a request, if the bot knows it.
pub(super) fn known(ctx: &mut Ctx<'_>, params: &Params) -> Result<i64, Refusal> {
    if params.get("chat_id").is_none() {
        ctx.violate(Rule::Shape, "chat_id is missing");
        return Err(Refusal::bad("chat_id is empty"));
    }
    let chat = params.integer("chat_id").and_then(|id| ctx.state.chats.get(&id));
    let chat = chat.ok_or_else(|| Refusal::bad("chat not found"))?;
    match chat.migrated_to {
        Some(new) => Err(Refusal::bad("group chat was upgraded to a supergroup chat")
            .with(json!({ "migrate_to_chat_id": new }))),
        None => Ok(chat.id),
    }
}

pub(super) fn thread_of(ctx: &mut Ctx<'_>, chat: i64, params: &Params) -> Result<Option<i64>, Refusal> {
    let Some(thread) = params.integer("message_thread_id") else { return Ok(None) };
    match ctx.state.chat(chat).topics.get(&thread) {
        Some(topic) if topic.closed => Err(Refusal::bad("TOPIC_CLOSED")),
        Some(_) => Ok(Some(thread)),
        None => Err(Refusal::bad("message thread not found")),
    }
}

pub(super) fn reply_of(ctx: &mut Ctx<'_>, chat: i64, params: &Params) -> Result<Option<i64>, Refusal> {
    let Some(reply) = params.json("reply_parameters") else {
        return Ok(params.integer("reply_to_message_id"));
    };
    let Some(id) = reply.get("message_id").and_then(Value::as_i64) else {
        ctx.violate(Rule::Shape, "reply_parameters have no message_id");
        return Err(Refusal::bad("can't parse reply parameters"));
    };
    if ctx.state.chat(chat).messages.contains_key(&id) {
        return Ok(Some(id));
    }
    let may_be_gone = reply.get("allow_sending_without_reply").and_then(Value::as_bool) == Some(true);
    if may_be_gone && !ctx.state.strict_replies {
        return Ok(None);
    }
    Err(Refusal::bad("message to be replied not found"))
}

/// Rates: those that a test set, and those of every chat where the test asked for them.
pub(super) fn may_send_now(ctx: &mut Ctx<'_>, chat: i64) -> Result<(), Refusal> {
    let now = Instant::now();
    let limited = ctx.limit_rates;
    let chat = ctx.state.chat(chat);
    if let Some(until) = chat.quiet_until {
        if now < until {
            let left = until - now;
            let text = format!("chat {}: {} ms too early", chat.id, left.as_millis());
            ctx.violate(Rule::RetryAfter, text);
            return Err(Refusal::flood(left.as_secs() + 1));
        }
        chat.quiet_until = None;
    }
    if let Some(secs) = chat.flood.take() {
        chat.quiet_until = Some(now + Duration::from_secs(secs));
        return Err(Refusal::flood(secs));
    }
    if limited && let Some(wait) = over_rate(chat, now) {
        let secs = wait.as_secs() + 1;
        chat.quiet_until = Some(now + Duration::from_secs(secs));
        return Err(Refusal::flood(secs));
    }
    chat.sent_at.push_back(now);
    Ok(())
}

fn over_rate(chat: &mut Chat, now: Instant) -> Option<Duration> {
    while chat.sent_at.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
        chat.sent_at.pop_front();
    }
    if let Some(last) = chat.sent_at.back()
        && now.duration_since(*last) < Duration::from_secs(1)
    {
        return Some(Duration::from_millis(500));
    }
    let full = !chat.is_private() && chat.sent_at.len() >= GROUP_PER_MINUTE;
    chat.sent_at.front().filter(|_| full).map(|first| MINUTE - now.duration_since(*first))
}

/// The text and its entities, by all rules.
fn words(ctx: &mut Ctx<'_>, params: &Params) -> Result<Words, Refusal> {
    let text = params.text("text").unwrap_or_default();
    let units = text.encode_utf16().count();
    if text.trim().is_empty() {
        ctx.violate(Rule::Length, "the text is empty");
        return Err(Refusal::bad("message text is empty"));
    }
    if units > TEXT_MAX_UNITS {
        ctx.violate(Rule::Length, format!("{units} UTF-16 units"));
        return Err(Refusal::bad("message is too long"));
    }
    if let Some(mode) = params.text("parse_mode") {
        ctx.violate(Rule::ParseMode, format!("parse_mode is {mode}"));
    }
    let preview = params.json("link_preview_options");
    if preview.and_then(|options| options.get("is_disabled")?.as_bool()) != Some(true) {
        ctx.violate(Rule::LinkPreview, "link_preview_options.is_disabled is not true");
    }
    let given = match params.json("entities") {
        Some(Value::Array(given)) => given,
        Some(_) => {
            ctx.violate(Rule::Shape, "entities are no list");
            return Err(Refusal::bad("can't parse entities"));
        }
        None => Vec::new(),
    };
    let checked = entities::check(&text, &given).map_err(|error| {
        ctx.violate(Rule::Entities, error);
        Refusal::bad("ENTITY_BOUNDS_INVALID")
    })?;
    let detected = entities::detect(&text, &checked);
    mentions(ctx, &text, &checked, &detected);
    Ok(Words { text, given, detected })
}

/// Nobody is mentioned, except the bot itself.
fn mentions(ctx: &mut Ctx<'_>, text: &str, given: &[Entity], detected: &[Value]) {
    for entity in given {
        let url = entity.json.get("url").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        if entity.kind == "text_mention" || entity.kind == "mention" || url.starts_with("tg://user") {
            ctx.violate(Rule::Mention, format!("an entity mentions somebody: {}", entity.json));
        }
    }
    let own = format!("@{}", ctx.state.bot.username.as_deref().unwrap_or_default());
    for found in detected.iter().filter(|found| found["type"] == "mention") {
        let at = |name: &str| found[name].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let name = entities::slice(text, at("offset"), at("offset") + at("length"));
        if !name.eq_ignore_ascii_case(&own) {
            ctx.violate(Rule::Mention, format!("the server makes a mention of `{name}`"));
        }
    }
}
