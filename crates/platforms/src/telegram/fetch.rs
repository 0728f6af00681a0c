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
use crate::attach::{AttachLimits, Attachment, Transcriber, Unread};

const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest time to fetch a file; its message waits, and so do later ones of its chat.
const FETCH_TIMEOUT: Duration = Duration::from_secs(40);

/// Largest file that Telegram's own server hands to a bot: <https://core.telegram.org/bots/api#getfile>.
const GET_FILE_MAX: u64 = 20 << 20;

/// Pause before a failed fetch is repeated.
const PAUSE: Duration = Duration::from_secs(1);

impl Telegram {
    /// A message's attachments as parts. A file that is too large, of an unsupported kind, or cannot be fetched is only
    /// named. `hear`: recordings are transcribed.
    pub(super) async fn parts_of(&self, attached: Vec<Attached>, agent: &AgentId, hear: bool) -> Vec<Part> {
        let chat = self.chat.get();
        let transcriber = chat.transcriber.as_deref().filter(|_| hear);
        let limits = chat.attach_limits(chat.images.contains(agent));
        let mut parts = Vec::with_capacity(attached.len());
        for item in attached {
            parts.push(match item {
                Attached::Photo(sizes) => self.photo(sizes, &limits).await,
                Attached::Document(file) => self.document(&file, &limits, transcriber).await,
                Attached::Sound { name, file } => self.sound(name, &file, transcriber).await,
                Attached::Named { name, media_type } => Part::File { name, media_type, text: None },
            });
        }
        parts
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

    async fn document(
        &self,
        file: &FileRef,
        limits: &AttachLimits,
        transcriber: Option<&Transcriber>,
    ) -> Part {
        let name = file.file_name.as_deref().unwrap_or("document");
        let attachment = Attachment { name, media_type: file.mime_type.as_deref(), size: file.file_size };
        if transcriber.is_some() && attachment.is_sound() {
            return self.sound(attachment.shown_name(), file, transcriber).await;
        }
        self.part(&attachment, &file.file_id, limits).await
    }

    /// A recording as its words.
    async fn sound(&self, called: String, file: &FileRef, transcriber: Option<&Transcriber>) -> Part {
        let Some(transcriber) = transcriber else {
            return Part::File { name: called, media_type: file.mime_type.clone(), text: None };
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
        transcriber.part(self.link.platform(), &called, &attachment, fetched).await
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
