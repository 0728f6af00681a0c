//! The export formats of other programs. Pure.

mod models;
mod networks;

use cairn_api::message::ImportedMessage;
use cairn_types::message::Role;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::jsonl::{self, Line};
use models::{chatgpt, claude, openclaw};
use networks::{discord, telegram};

/// An export format.
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
    /// Cairn's JSON lines, and those of `cairn history --export`
    Lines,
}

/// Who wrote the answers, and the person's name, where the file does not say.
#[derive(Debug, Clone, Default)]
pub(super) struct Roles {
    /// Name or id of the user whose messages are the agent's answers.
    pub(super) bot: Option<String>,
    /// The person who talked with the model.
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
    /// Messages without text or attachments, those with the id of an earlier one, and service messages such as "somebody joined".
    pub(super) left_out: u64,
}

/// Detects the format of a file by its keys.
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
        role: Option<IgnoredAny>,
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
    let OneLine { kind, user, role } = serde_json::from_slice(line).ok()?;
    match kind.as_deref() {
        Some("session") => Some(Format::Openclaw),
        _ => (user.is_some() || role.is_some()).then_some(Format::Lines),
    }
}

/// The conversations of a file.
///
/// # Errors
/// The file is not in that format; the message says where.
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

/// Keeps the first message with each id.
fn once(mut talk: Talk) -> Talk {
    let (mut ids, n) = (std::collections::HashSet::new(), talk.messages.len());
    talk.messages.retain(|message| ids.insert(message.id.clone()));
    talk.left_out += (n - talk.messages.len()) as u64;
    talk
}

fn json_error(error: serde_json::Error) -> String {
    error.to_string()
}

/// Adds a message, unless it has no text. `before`: a line to put before the text.
fn message(
    talk: &mut Talk,
    (id, at): (String, impl Into<Option<Timestamp>>),
    who: Option<(String, String)>,
    before: Option<String>,
    words: Vec<String>,
) {
    let text = words.join("\n").replace('\0', "");
    if text.trim().is_empty() {
        talk.left_out += 1;
        return;
    }
    let text = before.map(|before| format!("{before}\n{text}")).unwrap_or(text);
    let (user, name) = who.unzip();
    let (user, name) = (user.map(|user| bounded(&user)), name.map(|name| bounded(&name)));
    let at = at.into().map(|at| at.to_string());
    talk.messages.push(ImportedMessage { id, at, user, name, text });
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

fn attachment(kind: &str, name: &str) -> String {
    if name.is_empty() { format!("[{kind}]") } else { format!("[{kind}: {name}]") }
}

/// Cairn's own lines. They have no title: the channel is `main`, as that of other commands.
fn lines(bytes: &[u8]) -> Result<Vec<Talk>, String> {
    let (id, title) = ("lines".to_owned(), "main".to_owned());
    let mut talk = Talk { id, title, direct: false, messages: Vec::new(), left_out: 0 };
    let mut last = None;
    jsonl::each(bytes, |line_no, bytes| {
        let mut line = Line::read(bytes)?;
        // Without a time it was said right after what stands before it.
        last = line.said_at()?.or(last);
        if line.role == Some(Role::Tool) {
            talk.left_out += 1;
            return Ok(());
        }
        let words = line.words();
        let author = line.author.map(|author| (author.id, author.name));
        let author = author.or(line.user.map(|user| match user.split_once('/') {
            Some((_, bare)) => (user.clone(), bare.to_owned()),
            None => (format!("local/{user}"), user),
        }));
        let who = match line.role {
            Some(Role::Assistant) => None,
            _ => Some(author.ok_or("`user` is missing")?),
        };
        let id = line.id.or(line.seq.map(|seq| format!("seq-{seq}")));
        let id = id.unwrap_or_else(|| format!("l{line_no}-{:016x}", hash(bytes)));
        message(&mut talk, (id, last), who, None, vec![words]);
        Ok(())
    })?;
    Ok(vec![talk])
}

/// FNV-1a with 64 bits: the same on every machine and in every version.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(talk: &Talk) -> Vec<String> {
        let one = |one: &ImportedMessage| {
            let who = one.user.as_deref().unwrap_or(">");
            // Without the hash in an id that derives from it.
            let id = one.id.split_once('-').map_or(one.id.as_str(), |(line, _)| line);
            format!("{id} {who} {} {}", one.at.as_deref().unwrap_or("-"), one.text)
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
        assert_eq!((talk.title.as_str(), talk.direct, talk.left_out), ("Sailing", false, 2));
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
        let file = r#"[{"title": "Boats", "create_time": 1704103200.0, "id": "c1", "conversation_id": "c1", "current_node": "d", "mapping": {
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
        assert!(error.unwrap_err().starts_with("line 2: `user`"));
        let undated = read(Format::Lines, b"{\"user\": \"a\", \"text\": \"x\"}", &Roles::default()).unwrap();
        assert_eq!(shown(&undated[0]), ["l1 local/a - x"]);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "a published value of FNV-1a");
        for other in ["", "[]", "{}", "hello", "[{\"a\": 1}]"] {
            assert_eq!(detect(other.as_bytes()), None, "{other}");
        }
    }
}
