//! What is said in a recording, by a server that speaks OpenAI's `/audio/transcriptions`.
//!
//! The form: <https://platform.openai.com/docs/api-reference/audio/createTranscription>. Groq, LocalAI, and whisper.cpp's
//! server with `--inference-path /v1/audio/transcriptions` take the same. Servers judge a recording by the end of its name.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::message::{Part, Recording};
use cairn_types::wire::body::{self, BodyError};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{Attachment, Content, Kind, Unread};
use crate::multipart::Multipart;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;

/// Most bytes of words that are taken from a recording: more than two hours of speech.
const WORDS_MAX: usize = 128 << 10;

/// Ends of names that servers take: <https://platform.openai.com/docs/guides/speech-to-text>.
const TAKEN: &str = "flac mp3 mp4 mpeg mpga m4a ogg wav webm";

/// How to reach the server.
#[derive(Debug, Clone)]
pub struct TranscriberSettings {
    /// Up to and without `/audio/transcriptions`.
    pub base_url: String,
    pub key: Option<SecretString>,
    pub model: String,
    /// An ISO 639-1 code; `None`: the server finds out.
    pub language: Option<String>,
    /// Longest wait for the words of one recording.
    pub time_limit: Duration,
    /// Largest recording, in bytes.
    pub max_bytes: usize,
    /// Recordings are kept with their messages.
    pub keep: bool,
}

/// Why there are no words. The text has neither words nor addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWords {
    #[error("no client can be made for its address")]
    Address,
    #[error("the server answered {0}")]
    Status(u16),
    #[error("{0}")]
    Transport(&'static str),
    #[error("its answer is not the JSON of a transcription")]
    Garbled,
    #[error("no words were heard")]
    Silence,
}

impl NoWords {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Address | Self::Transport(_) => "unreachable",
            Self::Status(_) => "refused",
            Self::Garbled => "garbled",
            Self::Silence => "silence",
        }
    }
}

/// A recording in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded<'a> {
    /// How the message names it.
    pub(crate) called: &'a str,
    pub(crate) attachment: &'a Attachment<'a>,
    /// It is a voice or video message, not a file of sound.
    pub(crate) is_message: bool,
}

/// Turns recordings into words.
#[derive(Debug)]
pub struct Transcriber {
    client: Client,
    url: Url,
    settings: TranscriberSettings,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
}

impl Transcriber {
    /// # Errors
    /// The address is none, or the HTTP client cannot be built.
    pub fn new(settings: TranscriberSettings) -> Result<Self, NoWords> {
        let url = format!("{}/audio/transcriptions", settings.base_url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| NoWords::Address)?;
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let client = client.build().map_err(|_| NoWords::Address)?;
        Ok(Self { client, url, settings })
    }

    /// Largest recording, in bytes.
    pub fn max_bytes(&self) -> usize {
        self.settings.max_bytes
    }

    /// The words of a recording, as text of at most 128 KiB.
    ///
    /// # Errors
    /// The server cannot be reached in time, refuses, answers something else, or heard nothing.
    pub async fn words(&self, attachment: &Attachment<'_>, sound: Vec<u8>) -> Result<String, NoWords> {
        let (content_type, form) = self.form(ending(attachment), sound).finish().await;
        let mut request = self.client.post(self.url.clone()).timeout(self.settings.time_limit);
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = request.header(CONTENT_TYPE, content_type).body(form).send().await;
        let response = response.map_err(|error| transport(&error))?;
        if !response.status().is_success() {
            return Err(NoWords::Status(response.status().as_u16()));
        }
        let bytes = body::read_whole(response.bytes_stream(), ANSWER_MAX).await;
        let bytes = bytes.map_err(|short| match short {
            BodyError::TooLarge => NoWords::Garbled,
            BodyError::Broken(error) => transport(&error),
        })?;
        let Answer { text } = serde_json::from_slice(&bytes).map_err(|_| NoWords::Garbled)?;
        let words = plain(&text);
        if words.is_empty() { Err(NoWords::Silence) } else { Ok(words) }
    }

    fn form(&self, ending: &str, sound: Vec<u8>) -> Multipart {
        let mut form = Multipart::new();
        form.field("model", None, &self.settings.model);
        form.field("response_format", None, "json");
        if let Some(language) = &self.settings.language {
            form.field("language", None, language);
        }
        form.file("file", &format!("sound.{ending}"), "application/octet-stream", sound);
        form
    }

    /// Adds a recording to a message: its words, or only its name; and its sound, where that is kept.
    pub(crate) async fn hear(
        &self,
        platform: &'static str,
        recorded: Recorded<'_>,
        fetched: Result<Vec<u8>, Unread>,
        content: &mut Content,
    ) {
        let Recorded { called, attachment, is_message } = recorded;
        if let (true, Ok(sound)) = (self.settings.keep, &fetched) {
            content.recordings.push(recording(called, attachment, sound));
        }
        let (outcome, part) = match fetched {
            Ok(sound) => match self.words(attachment, sound).await {
                Ok(words) => ("heard", Part::transcribed(called, &words)),
                Err(NoWords::Silence) => ("silence", named(called, attachment, "no words were heard")),
                Err(error) => {
                    tracing::warn!(platform, %error, "a recording could not be transcribed; it is only named");
                    (error.outcome(), named(called, attachment, "could not be transcribed"))
                }
            },
            Err(Unread::TooLarge) => ("too_large", named(called, attachment, "too large to be transcribed")),
            Err(Unread::Kind | Unread::Unavailable | Unread::NoText(_)) => {
                ("unavailable", named(called, attachment, "could not be fetched"))
            }
        };
        metrics::counter!("cairn_transcriptions_total", "platform" => platform, "outcome" => outcome)
            .increment(1);
        content.spoken |= is_message && outcome == "heard";
        content.parts.push(part);
    }
}

/// A recording as it is kept. Its type is by its ending: what a network says of it is not trusted.
fn recording(called: &str, attachment: &Attachment<'_>, sound: &[u8]) -> Recording {
    let ending = ending(attachment);
    let name = match attachment.shown_name() {
        name if attachment.name.trim().is_empty() || name.is_empty() => format!("{called}.{ending}"),
        name => name,
    };
    let media_type = match ending {
        "flac" => "audio/flac",
        "mp3" | "mpeg" | "mpga" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "wav" => "audio/wav",
        "webm" => "audio/webm",
        _ => "audio/ogg",
    };
    Recording { name, media_type, data: Arc::from(sound) }
}

fn named(called: &str, attachment: &Attachment<'_>, note: &str) -> Part {
    Part::File { name: format!("{called} ({note})"), media_type: attachment.shown_type(), text: None }
}

/// The end of a name under which servers take a recording.
fn ending(attachment: &Attachment<'_>) -> &'static str {
    let known = |ending: &str| TAKEN.split(' ').find(|taken| *taken == ending);
    let of_name = attachment.name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    let of_type = match attachment.essence().as_str() {
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" | "audio/aac" => Some("m4a"),
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/flac" | "audio/x-flac" => Some("flac"),
        "audio/webm" | "video/webm" => Some("webm"),
        "video/mp4" => Some("mp4"),
        _ => None,
    };
    of_name.and_then(|end| known(&end)).or(of_type).unwrap_or("ogg")
}

/// Words as plain text: no control characters but line breaks, and no more than [`WORDS_MAX`] bytes.
fn plain(text: &str) -> String {
    let clean = text.trim().chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let mut words = String::new();
    for c in clean {
        if words.len() + c.len_utf8() > WORDS_MAX {
            words.push('…');
            break;
        }
        words.push(c);
    }
    words
}

fn transport(error: &reqwest::Error) -> NoWords {
    NoWords::Transport(match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "there is no connection to the server",
        _ => "the connection broke",
    })
}

impl Attachment<'_> {
    /// Whether it is a recording.
    pub(crate) fn is_sound(&self) -> bool {
        self.kind() == Kind::Sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_gets_an_ending_that_servers_take() {
        for (name, media_type, expected) in [
            ("voice.oga", Some("audio/ogg"), "ogg"),
            ("voice-message.ogg", None, "ogg"),
            ("Song.MP3", Some("audio/mpeg"), "mp3"),
            ("", Some("audio/x-m4a; rate=1"), "m4a"),
            ("", Some("video/mp4"), "mp4"),
            ("a\".b\r\nc", Some("audio/opus"), "ogg"),
        ] {
            assert_eq!(ending(&Attachment { name, media_type, size: None }), expected, "{name}");
        }
    }

    #[test]
    fn words_are_bounded_and_plain() {
        assert_eq!(plain(" one\u{0}\u{1b}[2J\ntwo "), "one  [2J\ntwo");
        assert_eq!(plain(&"é".repeat(WORDS_MAX)).len(), WORDS_MAX + '…'.len_utf8());
    }
}
