//! Exports of chat networks: Telegram Desktop's and DiscordChatExporter's.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Roles, Talk, attachment, bounded, json_error, message};

/// The person, under the last of the names; `None` for the one whose messages are answers, by id or any name.
fn person(platform: &str, id: &str, names: &[&str], roles: &Roles) -> Option<(String, String)> {
    let is_bot = roles.bot.as_deref().is_some_and(|bot| bot == id || names.contains(&bot));
    let name = names.last().copied().unwrap_or(id);
    (!is_bot).then(|| (format!("{platform}/{id}"), name.to_owned()))
}

#[derive(Deserialize)]
struct TelegramChat {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    id: i64,
    messages: Vec<TelegramMessage>,
}

#[derive(Deserialize)]
struct TelegramMessage {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    date_unixtime: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    from_id: Option<String>,
    #[serde(default)]
    text: TelegramText,
    #[serde(default)]
    reply_to_message_id: Option<i64>,
    #[serde(default)]
    photo: Option<IgnoredAny>,
    #[serde(default)]
    file: Option<IgnoredAny>,
    #[serde(default)]
    file_name: Option<String>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    sticker_emoji: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TelegramText {
    Plain(String),
    Pieces(Vec<TelegramPiece>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TelegramPiece {
    Plain(String),
    Marked { text: String },
}

impl Default for TelegramText {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

impl TelegramText {
    fn words(self) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Pieces(pieces) => pieces
                .into_iter()
                .map(|piece| match piece {
                    TelegramPiece::Plain(text) | TelegramPiece::Marked { text } => text,
                })
                .collect(),
        }
    }
}

pub(super) fn telegram(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    #[derive(Deserialize)]
    struct Chats {
        list: Vec<TelegramChat>,
    }
    #[derive(Deserialize)]
    struct All {
        chats: Chats,
    }
    #[derive(Deserialize)]
    struct Probe {
        chats: Option<IgnoredAny>,
    }
    let Probe { chats } = serde_json::from_slice(bytes).map_err(json_error)?;
    let chats = match chats {
        Some(_) => serde_json::from_slice::<All>(bytes).map_err(json_error)?.chats.list,
        None => vec![serde_json::from_slice::<TelegramChat>(bytes).map_err(json_error)?],
    };
    chats.into_iter().map(|chat| telegram_chat(chat, roles)).collect()
}

fn telegram_chat(chat: TelegramChat, roles: &Roles) -> Result<Talk, String> {
    let direct = matches!(chat.kind.as_str(), "personal_chat" | "bot_chat" | "saved_messages");
    let title = chat.name.unwrap_or_else(|| chat.kind.clone());
    let mut talk = Talk { id: chat.id.to_string(), title, direct, messages: Vec::new(), left_out: 0 };
    let mut said = HashMap::new();
    for one in chat.messages {
        if one.kind != "message" {
            talk.left_out += 1;
            continue;
        }
        let at = telegram_time(&one)
            .ok_or_else(|| format!("message {}: `date` is not a valid time: {}", one.id, one.date))?;
        // A deleted account has no name.
        let name = one.from.clone().unwrap_or_else(|| "somebody".to_owned());
        let id = one.from_id.as_deref().unwrap_or("unknown");
        let id = id
            .strip_prefix("user")
            .filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
            .unwrap_or(id);
        let who = person("telegram", id, &[&name], roles);
        let before = one.reply_to_message_id.map(|to| reply_to(said.get(&to)));
        let mut words: Vec<String> = telegram_attachment(&one).into_iter().collect();
        let text = one.text.words();
        said.insert(one.id, (name, text.clone()));
        words.extend((!text.trim().is_empty()).then_some(text));
        message(&mut talk, (one.id.to_string(), at), who, before, words);
    }
    Ok(talk)
}

fn telegram_time(message: &TelegramMessage) -> Option<Timestamp> {
    if let Some(secs) = &message.date_unixtime {
        return Timestamp::from_second(secs.parse().ok()?).ok();
    }
    // Exports of earlier versions have local times without a zone.
    let local: DateTime = message.date.parse().ok()?;
    Some(local.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp())
}

fn telegram_attachment(message: &TelegramMessage) -> Option<String> {
    let name = message.file_name.as_deref().unwrap_or_default();
    if let Some(emoji) = &message.sticker_emoji {
        return Some(attachment("sticker", emoji));
    }
    if message.photo.is_some() {
        return Some(attachment("photo", ""));
    }
    message.file.as_ref()?;
    let kind = message.media_type.as_deref().unwrap_or("file").replace('_', " ");
    Some(attachment(&kind, name))
}

/// What stands before an answer to a message, as in live chats.
fn reply_to(said: Option<&(String, String)>) -> String {
    const QUOTED_CHARS: usize = 120;
    let Some((name, text)) = said else { return "[in reply to somebody: the message is gone]".to_owned() };
    let short: String = text.chars().take(QUOTED_CHARS).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("[in reply to {}: \"{}{more}\"]", bounded(name), short.replace(['\n', '\r'], " "))
}

#[derive(Deserialize)]
struct DiscordPlace {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct DiscordAuthor {
    id: String,
    name: String,
    #[serde(default)]
    nickname: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscordFile {
    #[serde(default)]
    file_name: String,
}

#[derive(Deserialize)]
struct DiscordSticker {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscordReference {
    #[serde(default)]
    message_id: Option<String>,
}

#[derive(Deserialize)]
struct DiscordMessage {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    timestamp: Timestamp,
    #[serde(default)]
    content: String,
    author: DiscordAuthor,
    #[serde(default)]
    attachments: Vec<DiscordFile>,
    #[serde(default)]
    stickers: Vec<DiscordSticker>,
    #[serde(default)]
    reference: Option<DiscordReference>,
}

pub(super) fn discord(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    #[derive(Deserialize)]
    struct Export {
        channel: DiscordPlace,
        messages: Vec<DiscordMessage>,
    }
    let Export { channel, messages } = serde_json::from_slice(bytes).map_err(json_error)?;
    let direct = channel.kind == "DirectTextChat";
    let (id, title) = (channel.id, channel.name);
    let mut talk = Talk { id, title, direct, messages: Vec::new(), left_out: 0 };
    let mut said = HashMap::new();
    for one in messages {
        // Others tell that somebody joined, pinned a message, started a thread.
        if !matches!(
            one.kind.as_str(),
            "Default" | "Reply" | "19" | "ChatInputCommand" | "ContextMenuCommand"
        ) {
            talk.left_out += 1;
            continue;
        }
        let nickname = one.author.nickname.filter(|name| !name.is_empty());
        let name = nickname.unwrap_or_else(|| one.author.name.clone());
        let who = person("discord", &one.author.id, &[&one.author.name, &name], roles);
        let to = one.reference.and_then(|reference| reference.message_id).filter(|_| one.kind != "Default");
        let before = to.map(|to| reply_to(said.get(&to)));
        let mut words: Vec<String> =
            (!one.content.trim().is_empty()).then(|| one.content.clone()).into_iter().collect();
        words.extend(one.attachments.iter().map(|file| attachment("file", &file.file_name)));
        words.extend(one.stickers.iter().map(|sticker| attachment("sticker", &sticker.name)));
        said.insert(one.id.clone(), (name, one.content));
        message(&mut talk, (one.id, one.timestamp), who, before, words);
    }
    Ok(vec![talk])
}
