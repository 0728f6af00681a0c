//! How an attached file enters a message: as a picture, as text (also that of documents and recordings), or by name only.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_types::message::{Part, Recording};

use crate::markup::name;

mod document;
mod download;
mod office;
mod pdf;
#[cfg(test)]
mod tests;
mod transcribe;
mod zip;

pub use document::{DocumentText, NoText, READ_DOCUMENT, READER_CPU_SECS, READER_MEMORY, read_document};
pub use download::{DownloadError, Downloads};
pub(crate) use transcribe::Recorded;
pub use transcribe::{NoWords, Transcriber, TranscriberSettings};

/// The content of a message.
#[derive(Debug, Default)]
pub struct Content {
    pub parts: Vec<Part>,
    /// Some of it was said in a voice or video message.
    pub spoken: bool,
    /// The recordings in it, where these are kept.
    pub recordings: Vec<Recording>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachLimits {
    /// Largest picture that is read, in bytes.
    pub image_bytes: usize,
    /// Largest text that is read, in bytes.
    pub text_bytes: usize,
    /// Largest PDF or office document that is read, in bytes.
    pub document_bytes: usize,
    /// The daemon's binary, which reads documents in a process of its own; `None`: they are read in this one.
    pub document_reader: Option<&'static str>,
    /// Whether pictures are read, which needs a model that takes them.
    pub images: bool,
}

impl Default for AttachLimits {
    fn default() -> Self {
        Self {
            image_bytes: 4 * 1024 * 1024,
            text_bytes: 64 * 1024,
            document_bytes: 4 * 1024 * 1024,
            document_reader: None,
            images: true,
        }
    }
}

/// The kind of a file, judged by the media type and the name that the platform states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A picture of a kind that models take.
    Image,
    Text,
    /// A recording, which may hold speech.
    Sound,
    /// A PDF or an office document.
    Document,
    Other,
}

/// A file as the platform describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment<'a> {
    pub name: &'a str,
    /// Its MIME type, where given; not trusted.
    pub media_type: Option<&'a str>,
    /// Its size in bytes, where given; not trusted.
    pub size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Pictures, texts and documents are read, and this is none of them; or the model takes no pictures.
    Kind,
    TooLarge,
    Unavailable,
    NoText(NoText),
}

impl Attachment<'_> {
    pub fn kind(&self) -> Kind {
        let essence = self.essence();
        let extension = self.name.rsplit_once('.').map_or(String::new(), |(_, end)| end.to_ascii_lowercase());
        let unsaid = essence.is_empty() || essence == "application/octet-stream";
        if is_image_type(&essence) || (unsaid && is_among(IMAGE_EXTENSIONS, &extension)) {
            return Kind::Image;
        }
        let is_text = essence.starts_with("text/")
            || is_among(TEXT_TYPES, &essence)
            || essence.ends_with("+json")
            || essence.ends_with("+xml")
            || is_among(TEXT_EXTENSIONS, &extension)
            || (unsaid && is_among(TEXT_NAMES, &self.name.to_ascii_lowercase()));
        let is_sound = essence.starts_with("audio/") || (unsaid && is_among(SOUND_EXTENSIONS, &extension));
        let is_document =
            is_among(DOCUMENT_TYPES, &essence) || (unsaid && is_among(DOCUMENT_EXTENSIONS, &extension));
        match () {
            () if is_document => Kind::Document,
            () if is_text => Kind::Text,
            () if is_sound => Kind::Sound,
            () => Kind::Other,
        }
    }

    /// The MIME type without its parameters, in lower case; empty if none is given.
    fn essence(&self) -> String {
        self.media_type.and_then(|all| all.split(';').next()).unwrap_or("").trim().to_ascii_lowercase()
    }

    /// The most bytes to fetch.
    ///
    /// # Errors
    /// Why the file is not fetched.
    pub fn wanted(&self, limits: &AttachLimits) -> Result<usize, Unread> {
        let most = match self.kind() {
            Kind::Image if limits.images => limits.image_bytes,
            Kind::Text => limits.text_bytes,
            Kind::Document => limits.document_bytes,
            Kind::Image | Kind::Sound | Kind::Other => return Err(Unread::Kind),
        };
        self.within(most)
    }

    /// That limit, if the file as described fits.
    pub(crate) fn within(&self, most: usize) -> Result<usize, Unread> {
        let fits = self.size.is_none_or(|size| size <= most as u64);
        if fits { Ok(most) } else { Err(Unread::TooLarge) }
    }

    /// The file as a part of a message: its content or its text, otherwise only its name.
    pub(crate) async fn read(
        &self,
        platform: &'static str,
        limits: &AttachLimits,
        fetched: Result<Vec<u8>, Unread>,
    ) -> Part {
        match fetched {
            Ok(bytes) if self.kind() == Kind::Document => {
                document::part(platform, limits.document_reader, self, bytes).await
            }
            fetched => self.part(fetched),
        }
    }

    /// The file as a part of a message, except for documents: its content if the bytes are of the stated kind, otherwise only
    /// its name.
    pub fn part(&self, fetched: Result<Vec<u8>, Unread>) -> Part {
        let bytes = match fetched {
            Ok(bytes) => bytes,
            Err(unread) => return self.named(self.size, unread),
        };
        let size = Some(bytes.len() as u64);
        match self.kind() {
            Kind::Image => match image_type(&bytes) {
                Some(media_type) => Part::Image {
                    name: Some(self.shown_name()),
                    media_type: media_type.to_owned(),
                    data: STANDARD.encode(&bytes),
                },
                None => self.named(size, Unread::Kind),
            },
            Kind::Text => match text_of(bytes) {
                Some(text) => {
                    Part::File { name: self.shown_name(), media_type: self.shown_type(), text: Some(text) }
                }
                None => self.named(size, Unread::Kind),
            },
            Kind::Sound | Kind::Document | Kind::Other => self.named(size, Unread::Kind),
        }
    }

    /// Adds a file whose bytes are here to a message: the words of a recording, or the picture, the text or the name of another
    /// file. `spoken`: it is a voice or video message, not a file of sound.
    pub async fn take(
        &self,
        platform: &'static str,
        limits: &AttachLimits,
        transcriber: Option<&Transcriber>,
        (bytes, spoken): (Vec<u8>, bool),
        content: &mut Content,
    ) {
        match transcriber.filter(|_| self.is_sound()) {
            Some(transcriber) => {
                let heard = self.within(transcriber.max_bytes()).map(|_| bytes);
                let called = if spoken { "voice message".to_owned() } else { self.shown_name() };
                let recorded = Recorded { called: &called, attachment: self, is_message: spoken };
                transcriber.hear(platform, recorded, heard, content).await;
            }
            None => {
                let read = self.wanted(limits).map(|_| bytes);
                content.parts.push(self.read(platform, limits, read).await);
            }
        }
    }

    fn named(&self, size: Option<u64>, unread: Unread) -> Part {
        let mut notes: Vec<String> = size.map(readable).into_iter().collect();
        match unread {
            Unread::Kind => {}
            Unread::TooLarge => notes.push("too large to be read".to_owned()),
            Unread::Unavailable => notes.push("could not be fetched".to_owned()),
            Unread::NoText(NoText::Encrypted) => {
                notes.push("encrypted, no text could be read from it".to_owned());
            }
            Unread::NoText(_) => notes.push("no text could be read from it".to_owned()),
        }
        Part::File { name: self.noted(notes), media_type: self.shown_type(), text: None }
    }

    /// The name with notes behind it.
    fn noted(&self, notes: Vec<String>) -> String {
        let mut name = self.shown_name();
        if !notes.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(name, " ({})", notes.join(", "));
        }
        name
    }

    /// The name on one line; a long one is shortened in the middle and keeps its extension.
    pub(crate) fn shown_name(&self) -> String {
        match self.name.rsplit_once('.') {
            Some((stem, ending)) if self.name.chars().count() > 64 && ending.len() <= 8 => {
                name::display(&format!("{}….{ending}", stem.chars().take(54).collect::<String>()))
            }
            _ => name::display(self.name),
        }
    }

    fn shown_type(&self) -> Option<String> {
        self.media_type.map(name::display)
    }
}

/// The MIME type of a picture that browsers and models show, by its first bytes; `None`: it is none.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP".as_slice());
    let known: [(bool, &str); 4] = [
        (bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "image/png"),
        (bytes.starts_with(b"\xff\xd8\xff"), "image/jpeg"),
        (bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"), "image/gif"),
        (is_webp, "image/webp"),
    ];
    known.into_iter().find_map(|(is, media_type)| is.then_some(media_type))
}

/// The bytes as text, without a byte order mark. `None` if they are not UTF-8 or contain a zero byte.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn readable(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} bytes"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let amount = bytes as f64 / unit;
    if amount < 10.0 { format!("{amount:.1} {name}") } else { format!("{amount:.0} {name}") }
}

/// Whether a type is that of a picture that browsers and models show.
pub fn is_image_type(media_type: &str) -> bool {
    is_among(IMAGE_TYPES, media_type)
}

fn is_among(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

const IMAGE_TYPES: &str = "image/png image/jpeg image/jpg image/gif image/webp";
const IMAGE_EXTENSIONS: &str = "png jpg jpeg gif webp";
const SOUND_EXTENSIONS: &str = "ogg oga opus mp3 m4a wav flac";
const DOCUMENT_EXTENSIONS: &str = "pdf docx xlsx pptx odt ods odp";
const DOCUMENT_TYPES: &str = "application/pdf application/x-pdf \
    application/vnd.openxmlformats-officedocument.wordprocessingml.document \
    application/vnd.openxmlformats-officedocument.spreadsheetml.sheet \
    application/vnd.openxmlformats-officedocument.presentationml.presentation \
    application/vnd.oasis.opendocument.text application/vnd.oasis.opendocument.spreadsheet \
    application/vnd.oasis.opendocument.presentation";
const TEXT_TYPES: &str = "application/json application/x-ndjson application/toml application/xml application/yaml \
    application/x-yaml application/javascript application/x-javascript application/typescript \
    application/x-typescript application/x-sh application/x-shellscript application/sql \
    application/graphql application/x-tex application/x-httpd-php application/x-subrip";
const TEXT_EXTENSIONS: &str = "txt text md markdown rst adoc org tex bib csv tsv log json jsonl ndjson json5 toml yaml yml xml ini \
    cfg conf properties html htm css scss svg rs py js mjs cjs jsx ts tsx vue java kt kts scala go c h \
    cc cpp hpp cs swift m rb php pl lua r jl hs ml ex exs erl clj zig nix sql sh bash zsh fish ps1 bat \
    diff patch";
const TEXT_NAMES: &str = "makefile dockerfile license readme justfile .gitignore";
