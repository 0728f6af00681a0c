//! The files in which other programs hand out conversations. Pure.

use cairn_api::message::ImportedMessage;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::jsonl;

/// A form of such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// `result.json` of Telegram Desktop: a chat, or all chats
    Telegram,
    /// JSON of DiscordChatExporter
    Discord,
    /// `conversations.json` of ChatGPT
    Chatgpt,
    /// `conversations.json` of Claude
    Claude,
    /// A session of OpenClaw: JSON lines
    Openclaw,
    /// Cairn's JSON lines, as for `cairn replay`, and those of `cairn history --json`
    Lines,
}

/// Who reads as what: what the files themselves do not say.
#[derive(Debug, Clone, Default)]
pub(super) struct Roles {
    /// Name or id of whoever's messages are answers of the agent.
    pub(super) bot: Option<String>,
    /// The person who talked with a model.
    pub(super) user: String,
}

/// A conversation of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Talk {
    pub(super) id: String,
    pub(super) title: String,
    /// A private chat.
    pub(super) direct: bool,
    /// In their order.
    pub(super) messages: Vec<ImportedMessage>,
    /// Messages without words or attachments, such as notes of the network that somebody joined.
    pub(super) left_out: u64,
}

/// The form of a file, by its first keys.
pub(super) fn detect(bytes: &[u8]) -> Option<Format> {
    #[derive(Deserialize)]
    struct Whole {
        guild: Option<IgnoredAny>,
        channel: Option<IgnoredAny>,
        chats: Option<IgnoredAny>,
        messages: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct OfModel {
        mapping: Option<IgnoredAny>,
        chat_messages: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct OneLine {
        #[serde(rename = "type")]
        kind: Option<String>,
        user: Option<IgnoredAny>,
        parts: Option<IgnoredAny>,
    }
    if let Ok(Whole { guild, channel, chats, messages }) = serde_json::from_slice(bytes) {
        let is_discord = (guild.is_some() || channel.is_some()) && messages.is_some();
        if is_discord {
            return Some(Format::Discord);
        }
        if messages.is_some() || chats.is_some() {
            return Some(Format::Telegram);
        }
    }
    if let Ok(talks) = serde_json::from_slice::<Vec<OfModel>>(bytes)
        && let Some(first) = talks.first()
    {
        return match first {
            OfModel { mapping: Some(_), .. } => Some(Format::Chatgpt),
            OfModel { chat_messages: Some(_), .. } => Some(Format::Claude),
            OfModel { .. } => None,
        };
    }
    let line = bytes.split(|byte| *byte == b'\n').find(|line| !line.iter().all(u8::is_ascii_whitespace))?;
    let OneLine { kind, user, parts } = serde_json::from_slice(line).ok()?;
    match kind.as_deref() {
        Some("session") => Some(Format::Openclaw),
        _ => (user.is_some() || parts.is_some()).then_some(Format::Lines),
    }
}

/// The conversations of a file.
///
/// # Errors
/// Where it does not have that form, and what is wrong there.
pub(super) fn read(format: Format, bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    let talks = match format {
        Format::Telegram => telegram(bytes, roles)?,
        Format::Discord => discord(bytes, roles)?,
        Format::Chatgpt => chatgpt(bytes, roles)?,
        Format::Claude => claude(bytes, roles)?,
        Format::Openclaw => openclaw(bytes, roles)?,
        Format::Lines => lines(bytes)?,
    };
    Ok(talks.into_iter().map(once).collect())
}

/// Each id once: the first counts.
fn once(mut talk: Talk) -> Talk {
    let mut ids = std::collections::HashSet::new();
    talk.messages.retain(|message| ids.insert(message.id.clone()));
    talk
}

fn json_error(error: serde_json::Error) -> String {
    error.to_string()
}

/// A message, unless it says nothing.
fn message(id: String, at: Timestamp, who: Option<(String, String)>, lines: Vec<String>, talk: &mut Talk) {
    let text = lines.join("\n").replace('\0', "");
    if text.trim().is_empty() {
        talk.left_out += 1;
        return;
    }
    let (user, name) = who.unzip();
    let name = name.map(|name| bounded(&name));
    talk.messages.push(ImportedMessage {
        id,
        at: at.to_string(),
        user: user.map(|user| bounded(&user)),
        name,
        text,
    });
}

/// A name of at most 128 bytes without control characters.
fn bounded(name: &str) -> String {
    let mut bounded = String::new();
    for char in name.chars().map(|char| if char.is_control() { ' ' } else { char }) {
        if bounded.len() + char.len_utf8() > 128 {
            break;
        }
        bounded.push(char);
    }
    if bounded.trim().is_empty() { "somebody".to_owned() } else { bounded }
}

/// The person, or `None` for the one whose messages are answers.
fn person(platform: &str, id: &str, name: &str, roles: &Roles) -> Option<(String, String)> {
    let is_bot = roles.bot.as_deref().is_some_and(|bot| bot == id || bot == name);
    (!is_bot).then(|| (format!("{platform}/{id}"), name.to_owned()))
}

fn attachment(kind: &str, name: &str) -> String {
    if name.is_empty() { format!("[{kind}]") } else { format!("[{kind}: {name}]") }
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

fn telegram(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
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
    let mut said = std::collections::HashMap::new();
    for one in chat.messages {
        if one.kind != "message" {
            talk.left_out += 1;
            continue;
        }
        let at = telegram_time(&one)
            .ok_or_else(|| format!("message {}: `date` is no time: {}", one.id, one.date))?;
        // A deleted account has no name.
        let name = one.from.clone().unwrap_or_else(|| "somebody".to_owned());
        let id = one.from_id.as_deref().unwrap_or("unknown");
        let id = id
            .strip_prefix("user")
            .filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
            .unwrap_or(id);
        let who = person("telegram", id, &name, roles);
        let mut words = Vec::new();
        if let Some(to) = one.reply_to_message_id {
            words.push(reply_to(said.get(&to).cloned()));
        }
        if let Some(kind) = telegram_attachment(&one) {
            words.push(kind);
        }
        let text = one.text.words();
        said.insert(one.id, (name, text.clone()));
        words.extend((!text.trim().is_empty()).then_some(text));
        let is_reply_alone = words.len() == 1 && one.reply_to_message_id.is_some();
        message(one.id.to_string(), at, who, if is_reply_alone { Vec::new() } else { words }, &mut talk);
    }
    Ok(talk)
}

fn telegram_time(message: &TelegramMessage) -> Option<Timestamp> {
    if let Some(secs) = &message.date_unixtime {
        return Timestamp::from_second(secs.parse().ok()?).ok();
    }
    // Exports of earlier versions have local times without a zone.
    let local: jiff::civil::DateTime = message.date.parse().ok()?;
    Some(local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
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
fn reply_to(said: Option<(String, String)>) -> String {
    const QUOTED_CHARS: usize = 120;
    let Some((name, text)) = said else { return "[in reply to somebody: the message is gone]".to_owned() };
    let short: String = text.chars().take(QUOTED_CHARS).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("[in reply to {}: \"{}{more}\"]", bounded(&name), short.replace(['\n', '\r'], " "))
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

fn discord(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    #[derive(Deserialize)]
    struct Export {
        channel: DiscordPlace,
        messages: Vec<DiscordMessage>,
    }
    let Export { channel, messages } = serde_json::from_slice(bytes).map_err(json_error)?;
    let direct = channel.kind == "DirectTextChat";
    let (id, title) = (channel.id, channel.name);
    let mut talk = Talk { id, title, direct, messages: Vec::new(), left_out: 0 };
    let mut said = std::collections::HashMap::new();
    for one in messages {
        // Others tell that somebody joined, pinned a message, started a thread.
        if !matches!(
            one.kind.as_str(),
            "Default" | "Reply" | "19" | "ChatInputCommand" | "ContextMenuCommand"
        ) {
            talk.left_out += 1;
            continue;
        }
        let name = one.author.nickname.filter(|name| !name.is_empty()).unwrap_or(one.author.name.clone());
        let who = match person("discord", &one.author.id, &one.author.name, roles) {
            Some((id, _)) => Some((id, name.clone())).filter(|_| roles.bot.as_ref() != Some(&name)),
            None => None,
        };
        let mut words = Vec::new();
        if let Some(to) =
            one.reference.and_then(|reference| reference.message_id).filter(|_| one.kind != "Default")
        {
            words.push(reply_to(said.get(&to).cloned()));
        }
        let n_before = words.len();
        words.extend((!one.content.trim().is_empty()).then(|| one.content.clone()));
        words.extend(one.attachments.iter().map(|file| attachment("file", &file.file_name)));
        words.extend(one.stickers.iter().map(|sticker| attachment("sticker", &sticker.name)));
        said.insert(one.id.clone(), (name, one.content));
        let words = if words.len() == n_before { Vec::new() } else { words };
        message(one.id, one.timestamp, who, words, &mut talk);
    }
    Ok(vec![talk])
}

#[derive(Deserialize)]
struct GptTalk {
    #[serde(default)]
    title: Option<String>,
    #[serde(default, alias = "id")]
    conversation_id: Option<String>,
    mapping: std::collections::HashMap<String, GptNode>,
    #[serde(default)]
    current_node: Option<String>,
    #[serde(default)]
    create_time: Option<f64>,
}

#[derive(Deserialize)]
struct GptNode {
    #[serde(default)]
    message: Option<GptMessage>,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    children: Vec<String>,
}

#[derive(Deserialize)]
struct GptMessage {
    id: String,
    author: GptAuthor,
    #[serde(default)]
    create_time: Option<f64>,
    #[serde(default)]
    content: Option<GptContent>,
    #[serde(default)]
    metadata: GptMetadata,
}

#[derive(Deserialize)]
struct GptAuthor {
    role: String,
}

#[derive(Deserialize)]
struct GptContent {
    #[serde(default)]
    parts: Vec<serde_json::Value>,
}

#[derive(Deserialize, Default)]
struct GptMetadata {
    #[serde(default)]
    is_visually_hidden_from_conversation: bool,
    #[serde(default)]
    attachments: Vec<GptFile>,
}

#[derive(Deserialize)]
struct GptFile {
    #[serde(default)]
    name: String,
}

fn chatgpt(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    let talks: Vec<GptTalk> = serde_json::from_slice(bytes).map_err(json_error)?;
    talks.into_iter().enumerate().map(|(idx, talk)| gpt_talk(idx, talk, roles)).collect()
}

fn gpt_talk(idx: usize, mut from: GptTalk, roles: &Roles) -> Result<Talk, String> {
    let id = from.conversation_id.unwrap_or_else(|| format!("conversation-{}", idx + 1));
    let title = from.title.filter(|title| !title.is_empty()).unwrap_or_else(|| id.clone());
    let mut talk = Talk { id, title, direct: true, messages: Vec::new(), left_out: 0 };
    // The branch that was shown last, from its end to the root; regenerated answers are other branches.
    let newest_leaf = || {
        let leaves = from.mapping.iter().filter(|(_, node)| node.children.is_empty());
        let time = |node: &GptNode| node.message.as_ref().and_then(|one| one.create_time).unwrap_or_default();
        leaves.max_by(|one, other| time(one.1).total_cmp(&time(other.1))).map(|(id, _)| id.clone())
    };
    let mut next = from.current_node.clone().or_else(newest_leaf);
    let mut branch = Vec::new();
    // Each node once, so that a circle ends.
    while let Some(node) = next.and_then(|id| from.mapping.remove(&id)) {
        branch.extend(node.message);
        next = node.parent;
    }
    let mut at = from.create_time.unwrap_or_default();
    for one in branch.into_iter().rev() {
        at = one.create_time.unwrap_or(at);
        let who = match one.author.role.as_str() {
            "user" => Some((format!("local/{}", roles.user), roles.user.clone())),
            "assistant" => None,
            _ => continue,
        };
        if one.metadata.is_visually_hidden_from_conversation {
            continue;
        }
        let parts = one.content.map(|content| content.parts).unwrap_or_default();
        let mut words: Vec<String> =
            one.metadata.attachments.iter().map(|file| attachment("file", &file.name)).collect();
        words.extend(parts.into_iter().filter_map(|part| match part {
            serde_json::Value::String(text) => Some(text).filter(|text| !text.is_empty()),
            serde_json::Value::Object(fields) => {
                let is_picture = fields.get("content_type").is_some_and(|kind| kind == "image_asset_pointer");
                is_picture.then(|| attachment("picture", ""))
            }
            _ => None,
        }));
        let time = Timestamp::from_millisecond((at * 1_000.0) as i64);
        let time =
            time.map_err(|_| format!("message {} of \"{}\": its time is out of range", one.id, talk.title))?;
        message(one.id, time, who, words, &mut talk);
    }
    Ok(talk)
}

#[derive(Deserialize)]
struct ClaudeTalk {
    uuid: String,
    #[serde(default)]
    name: String,
    chat_messages: Vec<ClaudeMessage>,
}

#[derive(Deserialize)]
struct ClaudeMessage {
    uuid: String,
    sender: String,
    created_at: Timestamp,
    #[serde(default)]
    text: String,
    #[serde(default)]
    content: Vec<ClaudePart>,
    #[serde(default)]
    attachments: Vec<ClaudeFile>,
    #[serde(default)]
    files: Vec<ClaudeFile>,
}

#[derive(Deserialize)]
struct ClaudePart {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
struct ClaudeFile {
    #[serde(default)]
    file_name: String,
}

fn claude(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    let talks: Vec<ClaudeTalk> = serde_json::from_slice(bytes).map_err(json_error)?;
    let talk = |from: ClaudeTalk| {
        let title = if from.name.is_empty() { from.uuid.clone() } else { from.name };
        let mut talk = Talk { id: from.uuid, title, direct: true, messages: Vec::new(), left_out: 0 };
        for one in from.chat_messages {
            let who =
                (one.sender != "assistant").then(|| (format!("local/{}", roles.user), roles.user.clone()));
            let files = one.attachments.iter().chain(&one.files);
            let mut words: Vec<String> = files.map(|file| attachment("file", &file.file_name)).collect();
            let said =
                one.content.into_iter().filter(|part| part.kind == "text").filter_map(|part| part.text);
            let said: Vec<String> = said.filter(|text| !text.is_empty()).collect();
            words.extend(if said.is_empty() { vec![one.text] } else { said });
            words.retain(|words| !words.is_empty());
            message(one.uuid, one.created_at, who, words, &mut talk);
        }
        talk
    };
    Ok(talks.into_iter().map(talk).collect())
}

fn openclaw(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        id: String,
        #[serde(default)]
        timestamp: Option<Timestamp>,
        #[serde(default)]
        message: Option<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        role: String,
        #[serde(default)]
        content: Words,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Plain(String),
        Parts(Vec<ClaudePart>),
    }
    impl Default for Words {
        fn default() -> Self {
            Self::Plain(String::new())
        }
    }
    let lines =
        jsonl::each(bytes, |_, line| serde_json::from_slice::<Line>(line).map_err(|error| error.to_string()));
    let lines = lines.map_err(|(line_no, why)| format!("line {line_no}: {why}"))?;
    let id = lines.iter().find(|line| line.kind == "session").map(|line| line.id.clone()).unwrap_or_default();
    let mut talk = Talk { title: id.clone(), id, direct: true, messages: Vec::new(), left_out: 0 };
    for (idx, line) in lines.into_iter().enumerate() {
        let Some(said) = line.message.filter(|_| line.kind == "message") else { continue };
        let who = match said.role.as_str() {
            "user" => Some((format!("local/{}", roles.user), roles.user.clone())),
            "assistant" => None,
            _ => continue,
        };
        let at = line.timestamp.ok_or_else(|| format!("line {}: it has no `timestamp`", idx + 1))?;
        let words = match said.content {
            Words::Plain(text) => vec![text],
            Words::Parts(parts) => {
                parts.into_iter().filter(|part| part.kind == "text").filter_map(|part| part.text).collect()
            }
        };
        let id = if line.id.is_empty() { format!("l{}", idx + 1) } else { line.id };
        message(id, at, who, words, &mut talk);
    }
    Ok(vec![talk])
}

/// Lines as for `cairn replay`, where an answer has `"role": "assistant"`, or as `cairn history --json` prints them.
fn lines(bytes: &[u8]) -> Result<Vec<Talk>, String> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default, alias = "message")]
        id: Option<String>,
        #[serde(default)]
        seq: Option<u64>,
        #[serde(default)]
        at: Option<Timestamp>,
        #[serde(default)]
        role: Option<String>,
        #[serde(default)]
        user: Option<String>,
        #[serde(default)]
        author: Option<Author>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        parts: Vec<ClaudePart>,
    }
    #[derive(Deserialize)]
    struct Author {
        id: String,
        name: String,
    }
    let mut talk = Talk {
        id: "lines".to_owned(),
        title: "lines".to_owned(),
        direct: false,
        messages: Vec::new(),
        left_out: 0,
    };
    let mut last = Timestamp::UNIX_EPOCH;
    let read = jsonl::each(bytes, |line_no, line| {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        // Without a time it was said right after what stands before it.
        let at = line.at.unwrap_or(last);
        last = at;
        let is_answer = line.role.as_deref() == Some("assistant");
        if !is_answer && line.role.as_deref().is_some_and(|role| role != "user") {
            talk.left_out += 1;
            return Ok(());
        }
        let author = line.author.map(|author| (author.id, author.name));
        let author = author.or(line.user.map(|user| match user.split_once('/') {
            Some((_, bare)) => (user.clone(), bare.to_owned()),
            None => (format!("local/{user}"), user),
        }));
        if !is_answer && author.is_none() {
            return Err("neither `user` nor `author` is there, and `role` is not \"assistant\"".to_owned());
        }
        let said = line.parts.into_iter().filter_map(|part| part.text);
        let words: Vec<String> = line.text.into_iter().chain(said).collect();
        let id =
            line.id.or(line.seq.map(|seq| format!("seq-{seq}"))).unwrap_or_else(|| format!("l{line_no}"));
        message(id, at, author.filter(|_| !is_answer), words, &mut talk);
        Ok(())
    });
    read.map_err(|(line_no, why)| format!("line {line_no}: {why}"))?;
    Ok(vec![talk])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(talk: &Talk) -> Vec<String> {
        let one = |one: &ImportedMessage| {
            let who = one.user.as_deref().unwrap_or(">");
            format!("{} {who} {} {}", one.id, one.at, one.text)
        };
        talk.messages.iter().map(one).collect()
    }

    #[track_caller]
    fn check(format: Format, bytes: &str, bot: Option<&str>, expected: &[&str]) -> Talk {
        assert_eq!(detect(bytes.as_bytes()), Some(format));
        let roles = Roles { bot: bot.map(str::to_owned), user: "ann".to_owned() };
        let mut talks = read(format, bytes.as_bytes(), &roles).unwrap();
        let talk = talks.remove(0);
        assert_eq!(shown(&talk), expected);
        talk
    }

    #[test]
    fn telegram_desktop() {
        let file = r#"{"name": "Sailing", "type": "private_supergroup", "id": 77, "messages": [
          {"id": 1, "type": "service", "date": "2024-01-01T10:00:00", "actor": "Ann", "action": "create_group", "text": ""},
          {"id": 2, "type": "message", "date": "2024-01-01T11:00:00", "date_unixtime": "1704103200", "from": "Ann",
           "from_id": "user7", "text": ["see ", {"type": "link", "text": "https://a.example"}, "!"], "text_entities": []},
          {"id": 3, "type": "message", "date_unixtime": "1704103260", "from": "Rook", "from_id": "user9", "text": "nice",
           "reply_to_message_id": 2},
          {"id": 4, "type": "message", "date_unixtime": "1704103320", "from": null, "from_id": "user8", "text": "",
           "photo": "photos/1.jpg", "width": 3},
          {"id": 5, "type": "message", "date": "2024-01-01T12:00:00", "from": "Ben", "from_id": "channel5", "text": "",
           "file": "f", "file_name": "plan.pdf"},
          {"id": 5, "type": "message", "date": "2024-01-01T12:00:00", "from": "Ben", "from_id": "channel5", "text": "twice"}
        ]}"#;
        let expected = [
            "2 telegram/7 2024-01-01T10:00:00Z see https://a.example!",
            "3 > 2024-01-01T10:01:00Z [in reply to Ann: \"see https://a.example!\"]\nnice",
            "4 telegram/8 2024-01-01T10:02:00Z [photo]",
            "5 telegram/channel5 2024-01-01T12:00:00Z [file: plan.pdf]",
        ];
        let talk = check(Format::Telegram, file, Some("Rook"), &expected);
        assert_eq!((talk.title.as_str(), talk.direct, talk.left_out), ("Sailing", false, 1));
        let all =
            format!("{{\"about\": \"x\", \"chats\": {{\"about\": \"y\", \"list\": [{file}, {file}]}}}}");
        let roles = Roles::default();
        assert_eq!(read(Format::Telegram, all.as_bytes(), &roles).unwrap().len(), 2);
        let broken = file.replace("1704103260", "soon");
        let error = read(Format::Telegram, broken.as_bytes(), &roles).unwrap_err();
        assert!(error.starts_with("message 3: `date`"), "{error}");
    }

    #[test]
    fn discord_chat_exporter() {
        let file = r#"{"guild": {"id": "1", "name": "Club"}, "channel": {"id": "22", "type": "GuildTextChat", "name": "deck"},
          "messages": [
          {"id": "100", "type": "Default", "timestamp": "2024-01-01T12:00:00.5+02:00", "content": "ahoy",
           "author": {"id": "7", "name": "ann", "nickname": "Ann", "isBot": false}, "attachments": [], "stickers": []},
          {"id": "101", "type": "Reply", "timestamp": "2024-01-01T10:01:00+00:00", "content": "hello",
           "author": {"id": "9", "name": "rook", "isBot": true}, "reference": {"messageId": "100"},
           "attachments": [{"id": "5", "url": "https://x", "fileName": "map.png", "fileSizeBytes": 3}]},
          {"id": "102", "type": "GuildMemberJoin", "timestamp": "2024-01-01T10:02:00+00:00", "content": "Joined.",
           "author": {"id": "8", "name": "ben"}}
        ], "messageCount": 3}"#;
        let expected = [
            "100 discord/7 2024-01-01T10:00:00.5Z ahoy",
            "101 > 2024-01-01T10:01:00Z [in reply to Ann: \"ahoy\"]\nhello\n[file: map.png]",
        ];
        let talk = check(Format::Discord, file, Some("9"), &expected);
        assert_eq!((talk.messages[0].name.as_deref(), talk.left_out), (Some("Ann"), 1));
    }

    #[test]
    fn chatgpt_shows_the_branch_that_was_shown_last() {
        let file = r#"[{"title": "Boats", "create_time": 1704103200.0, "conversation_id": "c1", "current_node": "d", "mapping": {
          "r": {"id": "r", "message": null, "parent": null, "children": ["s"]},
          "s": {"id": "s", "parent": "r", "children": ["a"], "message": {"id": "s", "author": {"role": "system"},
                "create_time": null, "content": {"content_type": "text", "parts": [""]}, "metadata": {}}},
          "a": {"id": "a", "parent": "s", "children": ["b", "d"], "message": {"id": "a", "author": {"role": "user"},
                "create_time": 1704103201.5, "content": {"content_type": "multimodal_text",
                "parts": [{"content_type": "image_asset_pointer"}, "which boat?"]}, "metadata": {}}},
          "b": {"id": "b", "parent": "a", "children": [], "message": {"id": "b", "author": {"role": "assistant"},
                "create_time": 1704103202.0, "content": {"content_type": "text", "parts": ["the old answer"]}}},
          "d": {"id": "d", "parent": "a", "children": [], "message": {"id": "d", "author": {"role": "assistant"},
                "create_time": 1704103203.0, "content": {"content_type": "text", "parts": ["a sloop"]}, "metadata": {}}}
        }}]"#;
        let expected =
            ["a local/ann 2024-01-01T10:00:01.5Z [picture]\nwhich boat?", "d > 2024-01-01T10:00:03Z a sloop"];
        let talk = check(Format::Chatgpt, file, None, &expected);
        assert_eq!((talk.title.as_str(), talk.id.as_str(), talk.direct), ("Boats", "c1", true));
    }

    #[test]
    fn claude_openclaw_and_lines() {
        let file = r#"[{"uuid": "u1", "name": "", "created_at": "2024-01-01T10:00:00Z", "account": {"uuid": "x"}, "chat_messages": [
          {"uuid": "m1", "text": "hi", "content": [{"type": "text", "text": "hi"}], "sender": "human",
           "created_at": "2024-01-01T10:00:00.123456+00:00", "attachments": [{"file_name": "a.txt", "file_size": 3}], "files": []},
          {"uuid": "m2", "text": "hello", "content": [], "sender": "assistant", "created_at": "2024-01-01T10:00:05Z"}]}]"#;
        let expected =
            ["m1 local/ann 2024-01-01T10:00:00.123456Z [file: a.txt]\nhi", "m2 > 2024-01-01T10:00:05Z hello"];
        check(Format::Claude, file, None, &expected);
        let file = r#"{"type":"session","version":3,"id":"s9","timestamp":"2024-01-01T10:00:00.000Z","cwd":"/"}
{"type":"message","id":"e1","parentId":null,"timestamp":"2024-01-01T10:00:01Z","message":{"role":"user","content":"hi"}}
{"type":"message","id":"e2","parentId":"e1","timestamp":"2024-01-01T10:00:02Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"…"},{"type":"text","text":"hello"},{"type":"toolCall","name":"x"}]}}
{"type":"message","id":"e3","timestamp":"2024-01-01T10:00:03Z","message":{"role":"toolResult","content":[{"type":"text","text":"3"}]}}"#;
        let expected = ["e1 local/ann 2024-01-01T10:00:01Z hi", "e2 > 2024-01-01T10:00:02Z hello"];
        check(Format::Openclaw, file, None, &expected);
        let file = r#"{"user": "ann", "text": "hi", "at": "2024-01-01T10:00:00Z", "id": "m1"}
{"role": "assistant", "text": "hello"}

{"seq": 9, "role": "user", "at": "2024-01-02T10:00:00Z", "message": "k1", "author": {"id": "telegram/7", "name": "Ann"}, "parts": [{"type": "text", "text": "again"}]}
{"role": "tool", "parts": []}"#;
        let expected = [
            "m1 local/ann 2024-01-01T10:00:00Z hi",
            "l2 > 2024-01-01T10:00:00Z hello",
            "k1 telegram/7 2024-01-02T10:00:00Z again",
        ];
        check(Format::Lines, file, None, &expected);
        let error =
            read(Format::Lines, b"{\"user\": \"a\", \"text\": \"x\"}\n{\"text\": \"y\"}", &Roles::default());
        assert!(error.unwrap_err().starts_with("line 2: neither"));
        for other in ["", "[]", "{}", "hello", "[{\"a\": 1}]"] {
            assert_eq!(detect(other.as_bytes()), None, "{other}");
        }
    }
}
