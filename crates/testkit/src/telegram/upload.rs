//! `sendPhoto`, `sendDocument`, `sendAudio`, `sendVoice` and `sendMediaGroup`, with files that are uploaded in the request
//! ("Sending files", "InputMedia" in the documentation of the Bot API).

use serde_json::{Value, json};

use super::entities;
use super::methods::{Ctx, unique};
use super::rules::Rule;
use super::send::{may_send_now, reply_of, shallow, thread_of, writable};
use super::wire::{Params, Refusal};
use super::world::{File, Stored};
use super::{Act, FakeTelegram, What};
use crate::multipart::FormPart;

/// Longest caption, in UTF-16 units.
const CAPTION_MAX_UNITS: usize = 1024;

const PHOTO_MAX_BYTES: usize = 10_000_000;

const FILE_MAX_BYTES: usize = 50_000_000;

/// A file that the bot sent, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    pub message: i64,
    /// `photo`, `document`, `audio` or `voice`.
    pub kind: String,
    pub name: String,
    pub media_type: String,
    pub caption: String,
    /// The album that it belongs to.
    pub album: Option<String>,
    pub reply_to: Option<i64>,
    pub bytes: Vec<u8>,
}

impl FakeTelegram {
    /// The files that the bot sent to a chat, in order.
    pub fn uploads(&self, chat: i64) -> Vec<Uploaded> {
        let state = self.shared.state.lock();
        let messages = state.chats.get(&chat).into_iter().flat_map(|chat| &chat.messages);
        let text = |json: &Value, name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let mine = messages.filter(|(_, message)| message.mine);
        let uploaded = mine.filter_map(|(id, message)| {
            let kind = KINDS.iter().find(|kind| !message.json[**kind].is_null())?;
            let sent = &message.json[*kind];
            let one = if sent.is_array() { &sent[0] } else { sent };
            let album = message.json["media_group_id"].as_str().map(str::to_owned);
            Some(Uploaded {
                message: *id,
                kind: (*kind).to_owned(),
                name: text(&message.json["of_test"], "name"),
                media_type: text(&message.json["of_test"], "media_type"),
                caption: text(&message.json, "caption"),
                album,
                reply_to: message.json.pointer("/reply_to_message/message_id").and_then(Value::as_i64),
                bytes: state.files[one["file_id"].as_str()?].bytes.clone(),
            })
        });
        uploaded.collect()
    }
}

const KINDS: [&str; 4] = ["photo", "document", "audio", "voice"];

/// A caption with its entities.
struct Caption {
    text: String,
    entities: Vec<Value>,
}

pub(super) fn send_file(ctx: &mut Ctx<'_>, kind: &str, params: &Params) -> Result<Value, Refusal> {
    let chat = writable(ctx, params)?;
    let thread = thread_of(ctx, chat, params)?;
    may_send_now(ctx, chat)?;
    let file = params.1.iter().find(|file| file.name == kind).cloned();
    let stray = params.1.len() > 1;
    let Some(file) = file.filter(|_| !stray) else {
        ctx.violate(Rule::Shape, format!("exactly one file, in the field `{kind}`, is expected"));
        return Err(Refusal::bad(format!("there is no {kind} in the request")));
    };
    check(ctx, kind, &file)?;
    let caption = caption(ctx, &Value::Object(params.0.clone()))?;
    let reply_to = reply_of(ctx, chat, params)?;
    Ok(store(ctx, (chat, thread), kind, &file, &caption, reply_to, None))
}

pub(super) fn send_media_group(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let chat = writable(ctx, params)?;
    let thread = thread_of(ctx, chat, params)?;
    may_send_now(ctx, chat)?;
    let Some(Value::Array(media)) = params.json("media") else {
        ctx.violate(Rule::Shape, "media is no list");
        return Err(Refusal::bad("can't parse media"));
    };
    if !(2..=10).contains(&media.len()) || params.1.len() != media.len() {
        ctx.violate(Rule::Shape, format!("{} media and {} files", media.len(), params.1.len()));
        return Err(Refusal::bad("wrong number of media"));
    }
    let first = media[0]["type"].as_str().unwrap_or_default().to_owned();
    let mut all = Vec::new();
    for item in &media {
        let kind = item["type"].as_str().unwrap_or_default();
        // Documents and audio files are grouped with their like alone; videos are none of ours.
        if kind != first || !["photo", "document", "audio"].contains(&kind) {
            ctx.violate(Rule::Shape, format!("an album of `{first}` with `{kind}`"));
            return Err(Refusal::bad("media group has wrong types"));
        }
        let field = item["media"].as_str().and_then(|media| media.strip_prefix("attach://"));
        let Some(file) = field.and_then(|field| params.1.iter().find(|file| file.name == field)).cloned()
        else {
            ctx.violate(Rule::Shape, format!("there is no file for {item}"));
            return Err(Refusal::bad("can't find the file"));
        };
        check(ctx, kind, &file)?;
        let caption = caption(ctx, item)?;
        all.push((kind.to_owned(), file, caption));
    }
    let reply_to = reply_of(ctx, chat, params)?;
    let album = format!("album{}", ctx.n);
    let sent = all
        .iter()
        .map(|(kind, file, caption)| store(ctx, (chat, thread), kind, file, caption, reply_to, Some(&album)));
    Ok(sent.collect())
}

/// Refuses what Telegram refuses of a file.
fn check(ctx: &mut Ctx<'_>, kind: &str, file: &FormPart) -> Result<(), Refusal> {
    if file.file_name.as_deref().unwrap_or_default().is_empty() || file.data.is_empty() {
        ctx.violate(Rule::Shape, "a file without a name, or without bytes");
        return Err(Refusal::bad("file must be non-empty"));
    }
    let max = if kind == "photo" { PHOTO_MAX_BYTES } else { FILE_MAX_BYTES };
    if file.data.len() > max {
        ctx.violate(Rule::Length, format!("a {kind} of {} bytes", file.data.len()));
        return Err(Refusal::new(413, "Request Entity Too Large"));
    }
    let is_picture =
        [b"\x89PNG".as_slice(), b"\xff\xd8\xff", b"RIFF"].iter().any(|magic| file.data.starts_with(magic));
    if kind == "photo" && !is_picture {
        return Err(Refusal::bad("IMAGE_PROCESS_FAILED"));
    }
    if kind == "voice" && !file.data.starts_with(b"OggS") {
        ctx.violate(Rule::Shape, "a voice note that is not in Ogg");
    }
    Ok(())
}

fn caption(ctx: &mut Ctx<'_>, of: &Value) -> Result<Caption, Refusal> {
    let text = of["caption"].as_str().unwrap_or_default().to_owned();
    let units = text.encode_utf16().count();
    if units > CAPTION_MAX_UNITS {
        ctx.violate(Rule::Length, format!("a caption of {units} UTF-16 units"));
        return Err(Refusal::bad("message caption is too long"));
    }
    if !of["parse_mode"].is_null() {
        ctx.violate(Rule::ParseMode, format!("parse_mode is {}", of["parse_mode"]));
    }
    let given = match &of["caption_entities"] {
        Value::Null => Vec::new(),
        Value::Array(given) => given.clone(),
        // A field of a form is a text with JSON in it.
        Value::String(text) => serde_json::from_str(text).map_err(|_| {
            ctx.violate(Rule::Shape, "caption_entities are no list");
            Refusal::bad("can't parse entities")
        })?,
        _ => return Err(Refusal::bad("can't parse entities")),
    };
    entities::check(&text, &given).map_err(|error| {
        ctx.violate(Rule::Entities, error);
        Refusal::bad("ENTITY_BOUNDS_INVALID")
    })?;
    Ok(Caption { text, entities: given })
}

fn store(
    ctx: &mut Ctx<'_>,
    (chat, thread): (i64, Option<i64>),
    kind: &str,
    file: &FormPart,
    caption: &Caption,
    reply_to: Option<i64>,
    album: Option<&str>,
) -> Value {
    let n = ctx.state.next_file;
    ctx.state.next_file += 1;
    let file_id = format!("BQACAgIAAxkDAAIB{n:010}");
    let size = file.data.len() as u64;
    let kept = File { path: format!("sent/file_{n}"), size, bytes: file.data.clone() };
    ctx.state.files.insert(file_id.clone(), kept);
    let id = ctx.state.new_message_id(chat);
    let mut sent = json!({ "file_id": file_id, "file_unique_id": unique(&file_id), "file_size": size });
    let (name, media_type) = (file.file_name.clone().unwrap_or_default(), file.content_type.clone());
    match kind {
        "photo" => sent = json!([sent]),
        _ => {
            sent["file_name"] = name.clone().into();
            sent["mime_type"] = media_type.clone().into();
        }
    }
    let mut json = json!({
        "message_id": id, "from": ctx.state.bot.json(), "chat": ctx.state.chat(chat).json(), "date": ctx.now,
        // Of a photo Telegram shows neither; a test looks at them.
        "of_test": { "name": name, "media_type": media_type },
    });
    json[kind] = sent;
    if !caption.text.is_empty() {
        json["caption"] = caption.text.clone().into();
        json["caption_entities"] = caption.entities.clone().into();
    }
    if let Some(album) = album {
        json["media_group_id"] = album.into();
    }
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
    json
}
