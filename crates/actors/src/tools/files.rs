//! Files on their way to a chat: pictures, sounds and other files of tool results are kept as artifacts, and their delivery is
//! journalled together with the result.

use std::sync::Arc;

use cairn_types::event::{ArtifactEvent, DeliveryEvent, Event, SentFile};
use cairn_types::ids::{
    ArtifactId, ChannelId, LOCAL_PLATFORM, MessageId, OPENAI_PLATFORM, OutboxId, Seq, TurnId,
};
use cairn_types::message::{Artifact, FileNote, Recording};
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;
use cairn_types::texts::{Key, Saying};
use cairn_types::tool::OutputFile;

use crate::handle::ChannelHandle;
use crate::ports::Ports;
use crate::tasks::off_thread;

/// Longest name of a file, in characters.
const NAME_CHARS: usize = 100;

/// Why a file is not sent to a chat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsendable {
    /// The platform takes no files.
    #[error("people here see files by their names alone")]
    NoFiles,
    #[error("{platform} takes files of up to {} from bots, and this one has {}", size(*max), size(*bytes))]
    TooLarge { platform: String, max: u64, bytes: u64 },
}

impl Unsendable {
    /// What people are told of the file; `None`: they see its name.
    fn told(&self, name: &str) -> Option<Saying> {
        let Self::TooLarge { platform, max, bytes } = self else { return None };
        let told = Key::FileTooLarge.with("name", name).with("platform", platform.as_str());
        Some(told.with("max", size(*max)).with("bytes", size(*bytes)))
    }
}

/// A number of bytes as people read it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Checks that the platform of a channel takes a file of this size.
pub(crate) fn check(ports: &Ports, channel: &ChannelId, bytes: u64) -> Result<(), Unsendable> {
    if channel.platform() == LOCAL_PLATFORM {
        // Clients of the OpenAI-compatible endpoint are given words alone.
        let of_client = channel.chat().split_once('.').is_some_and(|(first, _)| first == OPENAI_PLATFORM);
        return if of_client { Err(Unsendable::NoFiles) } else { Ok(()) };
    }
    // A platform that does not run now is asked by its adapter when it does.
    let Some(platform) = ports.platform(channel) else { return Ok(()) };
    let max = platform.file_max().ok_or(Unsendable::NoFiles)?;
    let platform = platform.name().to_owned();
    if bytes > max { Err(Unsendable::TooLarge { platform, max, bytes }) } else { Ok(()) }
}

/// A name for people that is safe as the name of a file: the last part of a path or an address, without anything that ends
/// a name or a header.
pub(super) fn clean_name(name: &str) -> Option<String> {
    let name = name.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let fits = |c: &char| !c.is_control() && !['"', ':', '<', '>', '|', '*', '[', ']', '`', '@'].contains(c);
    let chars: Vec<char> = name.chars().filter(fits).collect();
    // The end of a long name has its kind.
    let name: String = chars[chars.len().saturating_sub(NAME_CHARS)..].iter().collect();
    let name = name.trim().trim_start_matches('.').to_owned();
    (!name.is_empty()).then_some(name)
}

/// The usual ending of a file of this type.
fn extension(media_type: &str) -> &'static str {
    match media_type {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/ogg" | "audio/opus" => "ogg",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" => "m4a",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "video/mp4" => "mp4",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/gzip" => "gz",
        "application/zip" => "zip",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        media_type if media_type.starts_with("text/") => "txt",
        _ => "bin",
    }
}

/// Keeps a file of a tool's result as an artifact, which still has to be journalled.
pub(crate) async fn keep(
    ports: &Ports,
    handle: &ChannelHandle,
    id: ArtifactId,
    tool: &str,
    file: OutputFile,
) -> Result<Artifact, StoreError> {
    let name = file.name.as_deref().and_then(clean_name);
    let name = name.unwrap_or_else(|| format!("{id}.{}", extension(&file.media_type)));
    let note = FileNote { name, media_type: file.media_type };
    keep_as(ports, handle, id, tool, note, Arc::from(file.data)).await
}

/// Keeps a recording that came with a message, likewise.
pub(crate) async fn keep_recording(
    ports: &Ports,
    handle: &ChannelHandle,
    id: ArtifactId,
    message: &MessageId,
    recording: &Recording,
) -> Result<Artifact, StoreError> {
    let Recording { name, media_type, data } = recording;
    let name = clean_name(name).unwrap_or_else(|| format!("{id}.{}", extension(media_type)));
    let note = FileNote { name, media_type: (*media_type).to_owned() };
    let kept = keep_as(ports, handle, id, "", note, Arc::clone(data)).await?;
    Ok(Artifact { sent_in: Some(message.clone()), ..kept })
}

async fn keep_as(
    ports: &Ports,
    handle: &ChannelHandle,
    id: ArtifactId,
    tool: &str,
    note: FileNote,
    data: Arc<[u8]>,
) -> Result<Artifact, StoreError> {
    let (bytes, hashed) = (data.len() as u64, Arc::clone(&data));
    let sha256 = off_thread(move || checksum(&hashed)).await.map_err(|panic| StoreError::Io {
        action: "hash the file",
        path: note.name.clone(),
        message: panic.to_string(),
    })?;
    if let Err(error) = ports.store.put_artifact(&handle.id, &id, data).await {
        metrics::counter!("cairn_artifacts_lost_total").increment(1);
        return Err(error);
    }
    tracing::info!(channel = %handle.id, artifact = %id, tool, bytes, media_type = note.media_type,
        "a file was stored as an artifact");
    metrics::counter!("cairn_artifacts_stored_total").increment(1);
    metrics::counter!("cairn_artifact_bytes_total").increment(bytes);
    let now = ports.now();
    Ok(Artifact {
        id,
        tool: tool.to_owned(),
        message: None,
        sent_in: None,
        bytes,
        sha256: Some(sha256),
        lines: 0,
        stored_at: now,
        used_at: now,
        expired_at: None,
        lost: false,
        file: Some(note),
    })
}

/// An artifact as it is sent: a file under its own name, a text as a text file.
pub(crate) fn as_sent(artifact: &Artifact) -> SentFile {
    let (name, media_type) = match &artifact.file {
        Some(file) => (file.name.clone(), file.media_type.clone()),
        None => (format!("{}.txt", artifact.id), "text/plain".to_owned()),
    };
    SentFile { artifact: artifact.id.clone(), name, media_type, bytes: artifact.bytes, alt: None }
}

/// The intent to send files to the channel's chat, with this text. `key` tells it from others of the turn. `None`: no turn
/// is open.
pub(super) fn intent(
    handle: &ChannelHandle,
    key: &str,
    words: String,
    files: Vec<SentFile>,
) -> Option<Event> {
    let delivery_id = |turn: &TurnId| OutboxId::from(format!("{}:{turn}:file:{key}", handle.id));
    handle.read(|conversation| {
        let open = conversation.open_turn.as_ref()?;
        Some(Event::Delivery(DeliveryEvent::Intended {
            id: delivery_id(&open.id),
            turn: open.id.clone(),
            seq: Seq(conversation.next_seq.0.saturating_sub(1)),
            note: Some(words),
            approval: None,
            reply_to: open.reply_to.clone(),
            edits: None,
            draft: false,
            files,
        }))
    })
}

/// In a local channel nothing is sent: takes out the deliveries of files, whose files people find with the result. A caption
/// becomes part of its file's description.
pub(super) fn to_stay(channel: &ChannelId, events: &mut Vec<Event>) -> Vec<SentFile> {
    let mut staying = Vec::new();
    if channel.platform() != LOCAL_PLATFORM {
        return staying;
    }
    events.retain_mut(|event| match event {
        Event::Delivery(DeliveryEvent::Intended { note, files, .. }) if !files.is_empty() => {
            let caption = note.take().filter(|caption| !caption.trim().is_empty());
            if let Some(first) = files.first_mut() {
                let described: Vec<String> = caption.into_iter().chain(first.alt.take()).collect();
                first.alt = Some(described.join("\n")).filter(|described| !described.is_empty());
            }
            staying.append(files);
            false
        }
        _ => true,
    });
    staying
}

/// What becomes of the files of one result.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The artifacts that are stored, to be journalled before the result.
    pub(super) stored: Vec<Event>,
    /// One line for the model about each file.
    pub(super) notes: Vec<String>,
    files: Vec<SentFile>,
    /// What people are told of files that cannot be sent.
    told: Vec<Saying>,
}

impl Outgoing {
    /// A file was kept: it is sent if it is to be, and the channel's platform takes it.
    pub(super) fn add(&mut self, ports: &Ports, channel: &ChannelId, artifact: Artifact, is_sent: bool) {
        let file = as_sent(&artifact);
        let described =
            format!("{} ({}, {}), artifact {}", file.name, file.media_type, size(file.bytes), file.artifact);
        match check(ports, channel, artifact.bytes) {
            Ok(()) if !is_sent => {
                self.notes.push(format!("[kept, not sent to the chat: {described}; send_file sends it]"));
            }
            Ok(()) => {
                self.notes.push(format!("[sent to the chat: {described}]"));
                self.files.push(file);
            }
            Err(why) => {
                self.notes.push(format!("[not sent to the chat, since {why}: {described}]"));
                if why != Unsendable::NoFiles {
                    metrics::counter!("cairn_files_too_large_total", "platform" => channel.platform().to_owned())
                        .increment(1);
                    tracing::warn!(%channel, artifact = %file.artifact, bytes = file.bytes,
                        "a file is too large to send");
                    self.told.extend(why.told(&file.name));
                }
            }
        }
        self.stored.push(Event::Artifact(ArtifactEvent::Stored { artifact }));
    }

    /// The delivery that sends them.
    pub(super) fn delivery(self, handle: &ChannelHandle, call: &str) -> Option<Event> {
        let first = self.stored.first().and_then(|event| match event {
            Event::Artifact(event) => event.ids().first().cloned(),
            _ => None,
        })?;
        if self.files.is_empty() && self.told.is_empty() {
            return None;
        }
        tracing::debug!(channel = %handle.id, call, files = self.files.len(), "files of a result are to be sent");
        let told: Vec<String> = self.told.into_iter().map(|saying| handle.say(saying)).collect();
        intent(handle, first.as_str(), told.join("\n"), self.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_and_ends_no_header() {
        for (given, name) in [
            ("file:///home/me/cat.png", Some("cat.png")),
            ("https://a.example/x/report.pdf?token=1#top", Some("report.pdf")),
            ("demo://resource/dynamic/", Some("dynamic")),
            ("..\\..\\.bashrc", Some("bashrc")),
            ("a\"\r\nX-Evil: 1", Some("aX-Evil 1")),
            ("@everyone.png", Some("everyone.png")),
            ("???", None),
            ("", None),
        ] {
            assert_eq!(clean_name(given).as_deref(), name);
        }
        assert_eq!(clean_name(&format!("{}.png", "x".repeat(500))).unwrap().len(), NAME_CHARS);
    }

    #[test]
    fn in_a_local_channel_files_stay_with_the_result() {
        let file = |alt: Option<&str>| SentFile {
            artifact: "a1".into(),
            name: "cat.png".to_owned(),
            media_type: "image/png".to_owned(),
            bytes: 3,
            alt: alt.map(str::to_owned),
        };
        let intended = |note: &str, files: Vec<SentFile>| {
            Event::Delivery(DeliveryEvent::Intended {
                id: "d1".into(),
                turn: "t1".into(),
                seq: Seq(1),
                note: Some(note.to_owned()),
                approval: None,
                reply_to: None,
                edits: None,
                draft: false,
                files,
            })
        };
        let events = vec![
            intended("Our cat", vec![file(Some("a cat")), file(None)]),
            intended("no file", Vec::new()),
            intended("", vec![file(None)]),
        ];
        let mut left = events.clone();
        let staying = to_stay(&"main/local/ann".parse().unwrap(), &mut left);
        assert_eq!(staying, [file(Some("Our cat\na cat")), file(None), file(None)]);
        assert_eq!(left, [events[1].clone()]);
        let mut sent = events.clone();
        assert_eq!(to_stay(&"main/telegram/1".parse().unwrap(), &mut sent), []);
        assert_eq!(sent, events);
    }

    #[test]
    fn sizes_are_read_by_people() {
        for (bytes, words) in [(999, "999 bytes"), (1_500, "1.5 kB"), (52_428_800, "52.4 MB")] {
            assert_eq!(size(bytes), words);
        }
    }
}
