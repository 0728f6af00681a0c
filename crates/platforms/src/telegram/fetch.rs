//! Attachments: which are fetched and which are only named.

use std::time::Duration;

use cairn_types::ids::AgentId;
use cairn_types::message::Part;
use serde_json::Value;
use teloxide::payloads::GetFile;
use teloxide::types::FileId;

use super::Telegram;
use super::api::CallError;
use super::content::Attached;
use super::wire::{FileRef, PhotoSize};
use crate::attach::{AttachLimits, Attachment, Content, Recorded, Transcriber, Unread};

const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest time to fetch a file; its message waits, and so do later ones of its chat.
const FETCH_TIMEOUT: Duration = Duration::from_secs(40);

/// Largest file that Telegram's own server hands to a bot: <https://core.telegram.org/bots/api#getfile>.
const GET_FILE_MAX: u64 = 20 << 20;

/// Pause before a failed fetch is repeated.
const PAUSE: Duration = Duration::from_secs(1);

impl Telegram {
    /// Adds a message's attachments. A file that is too large, of an unsupported kind, or cannot be fetched is only named.
    /// `hear`: recordings are transcribed.
    pub(super) async fn read(
        &self,
        attached: Vec<Attached>,
        agent: &AgentId,
        hear: bool,
        content: &mut Content,
    ) {
        let chat = self.chat.get();
        let transcriber = chat.transcriber.as_deref().filter(|_| hear);
        let limits = chat.attach_limits(chat.images.contains(agent));
        for item in attached {
            let part = match item {
                Attached::Photo(sizes) => self.photo(sizes, &limits).await,
                Attached::Document(file) => {
                    let name = file.file_name.as_deref().unwrap_or("document");
                    let (media_type, size) = (file.mime_type.as_deref(), file.file_size);
                    let attachment = Attachment { name, media_type, size };
                    if transcriber.is_some() && attachment.is_sound() {
                        self.sound(&attachment.shown_name(), false, &file, transcriber, content).await;
                        continue;
                    }
                    self.part(&attachment, &file.file_id, &limits).await
                }
                Attached::Sound { name, is_message, file } => {
                    self.sound(&name, is_message, &file, transcriber, content).await;
                    continue;
                }
                Attached::Named { name, media_type } => Part::File { name, media_type, text: None },
            };
            content.parts.push(part);
        }
    }

    /// Fetches the largest size within the limit. Telegram's photos are always JPEG.
    async fn photo(&self, sizes: Vec<PhotoSize>, limits: &AttachLimits) -> Part {
        let fits = |size: &&PhotoSize| size.file_size.is_none_or(|bytes| bytes <= limits.image_bytes as u64);
        let area = |size: &&PhotoSize| size.width.saturating_mul(size.height);
        let best = sizes.iter().filter(fits).max_by_key(area).or_else(|| sizes.iter().min_by_key(area));
        let size = best.and_then(|size| size.file_size);
        let attachment = Attachment { name: "photo.jpg", media_type: Some("image/jpeg"), size };
        self.part(&attachment, best.map_or("", |size| &size.file_id), limits).await
    }

    /// Adds a recording, with its words.
    async fn sound(
        &self,
        called: &str,
        is_message: bool,
        file: &FileRef,
        transcriber: Option<&Transcriber>,
        content: &mut Content,
    ) {
        let Some(transcriber) = transcriber else {
            let (name, media_type) = (called.to_owned(), file.mime_type.clone());
            return content.parts.push(Part::File { name, media_type, text: None });
        };
        let name = file.file_name.as_deref().unwrap_or_default();
        // A video message has no type, and is an MP4.
        let is_video = called.starts_with("video");
        let media_type = file.mime_type.as_deref().or(is_video.then_some("video/mp4"));
        let attachment = Attachment { name, media_type, size: file.file_size };
        let fetched = match attachment.within(transcriber.max_bytes()) {
            Ok(most) => match self.fetch(&file.file_id, most).await {
                Err(Unread::Unavailable) if file.file_size.is_some_and(|size| size > GET_FILE_MAX) => {
                    tracing::warn!(
                        platform = self.link.platform(),
                        "a recording is over 20 MB, Telegram's limit for bots; it is only named"
                    );
                    Err(Unread::TooLarge)
                }
                fetched => fetched,
            },
            Err(unread) => Err(unread),
        };
        let recorded = Recorded { called, attachment: &attachment, is_message };
        transcriber.hear(self.link.platform(), recorded, fetched, content).await;
    }

    async fn part(&self, attachment: &Attachment<'_>, file: &str, limits: &AttachLimits) -> Part {
        let fetched = match attachment.wanted(limits) {
            Ok(most) => self.fetch(file, most).await,
            Err(unread) => Err(unread),
        };
        attachment.read(self.link.platform(), limits, fetched).await
    }

    async fn fetch(&self, file: &str, most: usize) -> Result<Vec<u8>, Unread> {
        for last in [false, true] {
            let error = match self.fetch_once(file, most).await {
                Ok(bytes) => return bytes.ok_or(Unread::TooLarge),
                Err(error) => error,
            };
            let final_word = matches!(error, CallError::Api { code: 400..429, .. });
            if last || final_word {
                metrics::counter!("cairn_attachments_failed_total", "platform" => self.link.platform())
                    .increment(1);
                tracing::warn!(%error, "an attachment could not be fetched from Telegram; it is only named");
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Unread::Unavailable)
    }

    async fn fetch_once(&self, file: &str, most: usize) -> Result<Option<Vec<u8>>, CallError> {
        let found = self.api.call(&GetFile::new(FileId(file.to_owned())), CALL_TIMEOUT).await?;
        match found.get("file_path").and_then(Value::as_str) {
            Some(path) => self.api.download(path, most, FETCH_TIMEOUT).await,
            None => Err(CallError::Garbled {
                status: 200,
                what: "an answer to getFile without a path".to_owned(),
            }),
        }
    }
}
