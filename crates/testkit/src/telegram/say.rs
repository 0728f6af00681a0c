//! What people say, and what they send with it.

use serde_json::{Value, json};

use super::entities::detect;
use super::methods::unique;
use super::world::{File, Person, State};

#[derive(Debug, Clone, Default)]
pub struct Say {
    pub(super) text: String,
    entities: Vec<Value>,
    mention: bool,
    pub(super) reply_to: Option<i64>,
    pub(super) topic: Option<i64>,
    attachment: Option<Attachment>,
    pub(super) bot: bool,
    pub(super) age_secs: i64,
    pub(super) extra: Value,
}

/// Something that is sent with words, or alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Attachment {
    Photo(Vec<u8>),
    Document {
        name: String,
        mime: String,
        bytes: Vec<u8>,
    },
    /// A file that is only said to be there, with so many bytes.
    Huge {
        name: String,
        /// Its size, in bytes.
        size: u64,
    },
    Sticker(String),
    /// A voice message of so many seconds.
    Voice(u32),
}

impl From<&str> for Say {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Say {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Say {
    /// Words; names behind `@`, commands and addresses in them become entities, as with the real server.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn mention(mut self) -> Self {
        self.mention = true;
        self
    }

    /// Marks the first occurrence of a name as that person: a mention of somebody without a username.
    pub fn text_mention(mut self, person: &Person) -> Self {
        let at = self.text.find(&person.name).unwrap_or_else(|| panic!("{} is not in the text", person.name));
        let offset = self.text[..at].encode_utf16().count();
        let length = person.name.encode_utf16().count();
        let user = person.json();
        self.entities
            .push(json!({ "type": "text_mention", "offset": offset, "length": length, "user": user }));
        self
    }

    pub fn reply_to(mut self, message: i64) -> Self {
        self.reply_to = Some(message);
        self
    }

    pub fn topic(mut self, topic: i64) -> Self {
        self.topic = Some(topic);
        self
    }

    /// With a picture, a file or the like; the words become its caption.
    pub fn with(mut self, attachment: Attachment) -> Self {
        self.attachment = Some(attachment);
        self
    }

    pub fn by_bot(mut self) -> Self {
        self.bot = true;
        self
    }

    pub fn age_secs(mut self, secs: i64) -> Self {
        self.age_secs = secs;
        self
    }

    /// More fields of the message, or others in place of the usual ones.
    pub fn extra(mut self, fields: Value) -> Self {
        self.extra = fields;
        self
    }

    /// The fields of the message that hold what is said.
    pub(super) fn content(&self, state: &mut State) -> Value {
        let own = state.bot.username.clone().unwrap_or_default();
        let (text, shift) = if self.mention {
            (format!("@{own} {}", self.text), own.encode_utf16().count() + 2)
        } else {
            (self.text.clone(), 0)
        };
        let mut entities = self.entities.clone();
        for entity in &mut entities {
            let offset = entity["offset"].as_u64().unwrap_or(0) + shift as u64;
            entity["offset"] = offset.into();
        }
        entities.extend(detect(&text, &[]));
        entities.sort_by_key(|entity| entity["offset"].as_u64());
        let mut json = json!({});
        let (words, marks) = match &self.attachment {
            Some(attachment) => {
                attach(&mut json, attachment, state);
                ("caption", "caption_entities")
            }
            None => ("text", "entities"),
        };
        if !text.is_empty() {
            json[words] = text.into();
            if !entities.is_empty() {
                json[marks] = entities.into();
            }
        }
        json
    }
}

fn new_file(state: &mut State, folder: &str, ending: &str, bytes: Vec<u8>, size: u64) -> String {
    let n = state.next_file;
    state.next_file += 1;
    let id = format!("AgACAgIAAxkBAAIB{n:010}");
    state.files.insert(id.clone(), File { path: format!("{folder}/file_{n}{ending}"), size, bytes });
    id
}

fn size_of(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

fn attach(json: &mut Value, attachment: &Attachment, state: &mut State) {
    let file =
        |id: &str, size: u64| json!({ "file_id": id, "file_unique_id": unique(id), "file_size": size });
    match attachment {
        Attachment::Photo(bytes) => {
            let thumbnail = b"thumbnail".to_vec();
            let mut sizes = Vec::new();
            for (width, bytes) in [(90, &thumbnail), (320, &thumbnail), (1280, bytes)] {
                let id = new_file(state, "photos", ".jpg", bytes.clone(), size_of(bytes));
                let mut size = file(&id, size_of(bytes));
                size["width"] = width.into();
                size["height"] = (width * 3 / 4).into();
                sizes.push(size);
            }
            json["photo"] = sizes.into();
        }
        Attachment::Document { name, mime, bytes } => {
            let ending = name.rfind('.').map_or("", |at| &name[at..]);
            let id = new_file(state, "documents", ending, bytes.clone(), size_of(bytes));
            let mut document = file(&id, size_of(bytes));
            document["file_name"] = name.clone().into();
            document["mime_type"] = mime.clone().into();
            json["document"] = document;
        }
        Attachment::Huge { name, size } => {
            let id = new_file(state, "documents", "", Vec::new(), *size);
            let mut document = file(&id, *size);
            document["file_name"] = name.clone().into();
            document["mime_type"] = "application/octet-stream".into();
            json["document"] = document;
        }
        Attachment::Sticker(emoji) => {
            let id = new_file(state, "stickers", ".webp", b"sticker".to_vec(), 7);
            let mut sticker = file(&id, 7);
            for (name, value) in [
                ("width", json!(512)),
                ("height", json!(512)),
                ("emoji", json!(emoji)),
                ("set_name", json!("cairns")),
                ("is_animated", json!(false)),
                ("is_video", json!(false)),
                ("type", json!("regular")),
            ] {
                sticker[name] = value;
            }
            json["sticker"] = sticker;
        }
        Attachment::Voice(secs) => {
            let id = new_file(state, "voice", ".oga", b"voice".to_vec(), 5);
            let mut voice = file(&id, 5);
            voice["duration"] = (*secs).into();
            voice["mime_type"] = "audio/ogg".into();
            json["voice"] = voice;
        }
    }
}
