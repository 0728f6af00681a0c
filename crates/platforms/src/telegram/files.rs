//! Files on their way out: which method takes which file, and the form of the request.
//!
//! Limits by the Bot API: photos of up to 10 MB whose width and height are at most 10,000 together, other files of up to 50 MB,
//! captions of up to 1,024 characters ("Sending files", `sendPhoto`, `sendDocument`, `sendVoice`, `sendAudio`,
//! `sendMediaGroup`).

use std::sync::Arc;
use std::time::Duration;

use cairn_types::event::SentFile;
use cairn_types::ids::MessageId;
use cairn_types::ports::{FilePart, SendError};
use serde_json::{Value, json};

use super::Telegram;
use super::api::CallError;
use super::pace::Write;
use super::send::{ChatTopic, moved_to};
use crate::markup::telegram::{self as rendering, Rendered};
use crate::multipart::Multipart;

/// Largest file that a bot may send, in bytes.
pub(super) const FILE_MAX: u64 = 50_000_000;

/// Largest photo, in bytes. A larger picture is sent as a document.
const PHOTO_MAX: u64 = 10_000_000;

/// Longest caption, in UTF-16 units.
const CAPTION_UNITS: usize = 1024;

/// Most files of an album.
const ALBUM_MAX: usize = 10;

/// Longest time for sending files.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// How a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Photo,
    /// Music: a player with a title.
    Audio,
    /// A voice note; never in an album.
    Voice,
    Document,
}

impl Kind {
    fn of(file: &SentFile) -> Self {
        match file.media_type.as_str() {
            "image/png" | "image/jpeg" | "image/webp" if file.bytes <= PHOTO_MAX => Self::Photo,
            "audio/ogg" | "audio/opus" => Self::Voice,
            "audio/mpeg" | "audio/mp3" | "audio/mp4" | "audio/m4a" | "audio/x-m4a" => Self::Audio,
            _ => Self::Document,
        }
    }

    /// The method, and its parameter for the file.
    fn method(self) -> (&'static str, &'static str) {
        match self {
            Self::Photo => ("sendPhoto", "photo"),
            Self::Audio => ("sendAudio", "audio"),
            Self::Voice => ("sendVoice", "voice"),
            Self::Document => ("sendDocument", "document"),
        }
    }
}

/// Whether a text fits as a caption.
pub(super) fn is_caption(words: &str) -> bool {
    rendering::render(words).text.encode_utf16().count() <= CAPTION_UNITS
}

/// Albums: successive files of one kind, whose sizes do not exceed the limit of a single file together.
pub(super) fn bundles(files: &[SentFile]) -> Vec<usize> {
    let mut bundles = Vec::new();
    let mut open: Option<(Kind, u64)> = None;
    for file in files {
        let kind = Kind::of(file);
        match (&mut open, bundles.last_mut()) {
            (Some((of, bytes)), Some(n))
                if *of == kind
                    && kind != Kind::Voice
                    && *n < ALBUM_MAX
                    && *bytes + file.bytes <= FILE_MAX =>
            {
                *n += 1;
                *bytes += file.bytes;
            }
            _ => {
                bundles.push(1);
                open = Some((kind, file.bytes));
            }
        }
    }
    bundles
}

/// Whether Telegram refused a picture as a photo: for its dimensions, or because it is none that it can read.
fn faults_photo(error: &CallError) -> bool {
    matches!(error, CallError::Api { code: 400, description, .. }
        if description.contains("PHOTO_") || description.contains("IMAGE_PROCESS_FAILED"))
}

/// A request to send files.
struct Upload<'a> {
    place: ChatTopic,
    files: &'a [FilePart],
    caption: Rendered,
    reply_to: Option<i32>,
    as_documents: bool,
}

impl Upload<'_> {
    fn kind(&self) -> Kind {
        if self.as_documents {
            Kind::Document
        } else {
            self.files.first().map_or(Kind::Document, |part| Kind::of(&part.file))
        }
    }

    /// The method and its form.
    fn form(&self) -> (&'static str, Multipart) {
        let (method, field) = self.kind().method();
        let mut form = Multipart::new();
        form.field("chat_id", None, &self.place.0.to_string());
        if let Some(thread) = self.place.1 {
            form.field("message_thread_id", None, &thread.to_string());
        }
        if let Some(reply_to) = self.reply_to {
            let reply = json!({ "message_id": reply_to, "allow_sending_without_reply": true });
            form.field("reply_parameters", None, &reply.to_string());
        }
        let entities = json!(self.caption.entities);
        let has_entities = !self.caption.entities.is_empty();
        if let [FilePart { file, data }] = self.files {
            if !self.caption.text.is_empty() {
                form.field("caption", None, &self.caption.text);
            }
            if has_entities {
                form.field("caption_entities", None, &entities.to_string());
            }
            form.file(field, &file.name, &file.media_type, Arc::clone(data));
            return (method, form);
        }
        let media: Vec<Value> = (0..self.files.len())
            .map(|n| {
                let mut item = json!({ "type": field, "media": format!("attach://file{n}") });
                if n == 0 && !self.caption.text.is_empty() {
                    item["caption"] = self.caption.text.clone().into();
                    if has_entities {
                        item["caption_entities"] = entities.clone();
                    }
                }
                item
            })
            .collect();
        form.field("media", None, &Value::from(media).to_string());
        for (n, FilePart { file, data }) in self.files.iter().enumerate() {
            form.file(&format!("file{n}"), &file.name, &file.media_type, Arc::clone(data));
        }
        ("sendMediaGroup", form)
    }
}

impl Telegram {
    /// Sends files as one message, or as an album, and returns the id of its first message.
    pub(super) async fn write_files(
        &self,
        place: ChatTopic,
        files: &[FilePart],
        words: &str,
        reply_to: Option<&MessageId>,
    ) -> Result<MessageId, SendError> {
        // An album counts as one message for our own pace; Telegram's answer says where that is too fast.
        self.take(place, Write::Message)?;
        let reply_to = reply_to.and_then(|message| self.number(place.0, message)).map(|number| number.0);
        let caption = if words.trim().is_empty() {
            Rendered { text: String::new(), entities: Vec::new() }
        } else {
            rendering::render(words)
        };
        let mut upload = Upload { place, files, caption, reply_to, as_documents: false };
        let mut answer = self.upload(&upload).await;
        if answer.as_ref().is_err_and(faults_photo) {
            tracing::info!(chat = place.0, "Telegram refused a picture as a photo; it is sent as a document");
            upload.as_documents = true;
            answer = self.upload(&upload).await;
        }
        if let Some(moved) = answer.as_ref().err().and_then(moved_to) {
            self.moved(upload.place.0, moved).await?;
            upload.place.0 = moved;
            upload.reply_to = None;
            answer = self.upload(&upload).await;
        }
        // The message that it replies to may be gone.
        let is_refused = matches!(&answer, Err(CallError::Api { code: 400, .. }));
        if is_refused && upload.reply_to.take().is_some() {
            answer = self.upload(&upload).await;
        }
        self.sent_as(upload.place, answer)
    }

    async fn upload(&self, upload: &Upload<'_>) -> Result<Value, CallError> {
        let (method, form) = upload.form();
        self.api.call_form(method, form, UPLOAD_TIMEOUT).await
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], &[])]
    #[case(&[("image/png", 5), ("image/jpeg", 5), ("audio/ogg", 1), ("audio/ogg", 1)], &[2, 1, 1])]
    #[case(&[("image/png", 5), ("image/png", PHOTO_MAX + 1), ("application/pdf", 7)], &[1, 2])]
    #[case(&[("application/pdf", FILE_MAX), ("application/pdf", 1)], &[1, 1])]
    #[case(&[("image/png", 1); 23], &[10, 10, 3])]
    fn albums_have_one_kind(#[case] given: &[(&str, u64)], #[case] expected: &[usize]) {
        let file = |(media_type, bytes): &(&str, u64)| SentFile {
            artifact: "a1".into(),
            name: "a".to_owned(),
            media_type: (*media_type).to_owned(),
            bytes: *bytes,
            alt: None,
        };
        let files: Vec<SentFile> = given.iter().map(file).collect();
        assert_eq!(bundles(&files), expected);
    }
}
