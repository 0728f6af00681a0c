//! Exports of talks with models: ChatGPT's, Claude's, and sessions of OpenClaw.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Roles, Talk, attachment, json_error, message};
use crate::jsonl::{self, TextPart};

#[derive(Deserialize)]
struct GptTalk {
    #[serde(default)]
    title: Option<String>,
    /// Newer exports have both, with one value.
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    id: Option<String>,
    mapping: HashMap<String, GptNode>,
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
    parts: Vec<Value>,
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

pub(super) fn chatgpt(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
    let talks: Vec<GptTalk> = serde_json::from_slice(bytes).map_err(json_error)?;
    talks.into_iter().enumerate().map(|(idx, talk)| gpt_talk(idx, talk, roles)).collect()
}

fn gpt_talk(idx: usize, mut from: GptTalk, roles: &Roles) -> Result<Talk, String> {
    let id = from.conversation_id.or(from.id).unwrap_or_else(|| format!("conversation-{}", idx + 1));
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
            Value::String(text) => Some(text).filter(|text| !text.is_empty()),
            Value::Object(fields) => {
                let is_picture = fields.get("content_type").is_some_and(|kind| kind == "image_asset_pointer");
                is_picture.then(|| attachment("picture", ""))
            }
            _ => None,
        }));
        let time = Timestamp::from_millisecond((at * 1_000.0) as i64);
        let time =
            time.map_err(|_| format!("message {} of \"{}\": its time is out of range", one.id, talk.title))?;
        message(&mut talk, (one.id, time), who, None, words);
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
    content: Vec<TextPart>,
    #[serde(default)]
    attachments: Vec<ClaudeFile>,
    #[serde(default)]
    files: Vec<ClaudeFile>,
}

#[derive(Deserialize)]
struct ClaudeFile {
    #[serde(default)]
    file_name: String,
}

pub(super) fn claude(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
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
            message(&mut talk, (one.uuid, one.created_at), who, None, words);
        }
        talk
    };
    Ok(talks.into_iter().map(talk).collect())
}

pub(super) fn openclaw(bytes: &[u8], roles: &Roles) -> Result<Vec<Talk>, String> {
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
        Parts(Vec<TextPart>),
    }
    impl Default for Words {
        fn default() -> Self {
            Self::Plain(String::new())
        }
    }
    let lines = jsonl::each(bytes, |_, line| jsonl::object::<Line>(line))?;
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
        message(&mut talk, (id, at), who, None, words);
    }
    Ok(vec![talk])
}
