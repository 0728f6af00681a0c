//! A fake server of transcriptions and of recordings. It takes the published forms and refuses whatever else comes.
//!
//! Of recordings: <https://platform.openai.com/docs/api-reference/audio/createSpeech>: JSON with `model`, `input` of at most 4,096
//! characters, a `voice` of its own, and `response_format`, `speed`, `instructions` if wanted.
//!
//! The form: <https://platform.openai.com/docs/api-reference/audio/createTranscription>, as multipart of RFC 7578: a `file`
//! with a name that ends as one of the formats that are taken, a `model`, and `language` and `response_format` if wanted.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::gate::{Gate, Gates, pass};
use crate::watched::{Watched, listen};

/// Largest file that is taken, in bytes.
const FILE_MAX: usize = 25 << 20;

const ENDINGS: [&str; 9] = ["flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm"];

const FORMATS: [&str; 5] = ["json", "text", "srt", "verbose_json", "vtt"];

/// Most characters of a text that is to be spoken.
const INPUT_CHARS: usize = 4_096;

const VOICES: [&str; 11] =
    ["alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse"];

/// A request that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub file_name: String,
    pub sound: Vec<u8>,
    /// All fields but the file.
    pub fields: BTreeMap<String, String>,
    pub authorization: Option<String>,
}

/// A request for a recording that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    pub model: String,
    pub input: String,
    pub voice: String,
    pub authorization: Option<String>,
}

#[derive(Default)]
struct Seen {
    heard: Vec<Heard>,
    spoken: Vec<Spoken>,
    wrong: Vec<String>,
}

#[derive(Default)]
struct Shared {
    seen: Watched<Seen>,
    answers: Mutex<VecDeque<Result<String, u16>>>,
    recordings: Mutex<VecDeque<Result<Vec<u8>, u16>>>,
    gates: Gates<()>,
    mouths: Gates<()>,
}

pub struct FakeSpeech {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for FakeSpeech {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeSpeech {
    /// # Panics
    /// No address is free.
    pub async fn start() -> Self {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .route("/v1/audio/transcriptions", post(transcribe))
            .route("/v1/audio/speech", post(speak))
            .layer(DefaultBodyLimit::max(FILE_MAX + (1 << 20)))
            .with_state(shared.clone());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the fake of speech stopped");
            }
        });
        Self { address, shared, server }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The words of the next recording; without any it is `words of N bytes`.
    pub fn say(&self, words: &str) {
        self.shared.answers.lock().push_back(Ok(words.to_owned()));
    }

    /// The next recording gets this status.
    pub fn fail(&self, status: u16) {
        self.shared.answers.lock().push_back(Err(status));
    }

    /// Holds recordings.
    pub fn hold(&self) -> Gate {
        self.shared.gates.close(())
    }

    /// Waits for so many recordings.
    pub async fn wait_heard(&self, n: usize) -> Vec<Heard> {
        let find = || Some(self.heard()).filter(|heard| heard.len() >= n);
        self.shared.seen.wait("recordings", find, || format!("{:?}", self.shared.seen.lock().wrong)).await
    }

    /// The next recording; without any it is [`FakeSpeech::OPUS`].
    pub fn record(&self, sound: &[u8]) {
        self.shared.recordings.lock().push_back(Ok(sound.to_vec()));
    }

    /// The next request for a recording gets this status.
    pub fn stay_silent(&self, status: u16) {
        self.shared.recordings.lock().push_back(Err(status));
    }

    /// Holds recordings of answers.
    pub fn hold_speech(&self) -> Gate {
        self.shared.mouths.close(())
    }

    /// The beginning of an Opus stream in Ogg (RFC 3533, section 6; RFC 7845, section 5.1): a page with one segment.
    pub const OPUS: &[u8] =
        b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x13OpusHead\x01\x01\0\0\x80\xbb\0\0\0\0\0";

    /// Waits for so many requests for recordings.
    pub async fn wait_spoken(&self, n: usize) -> Vec<Spoken> {
        let find = || Some(self.spoken()).filter(|spoken| spoken.len() >= n);
        self.shared.seen.wait("speech", find, || format!("{:?}", self.shared.seen.lock().wrong)).await
    }

    pub fn spoken(&self) -> Vec<Spoken> {
        self.shared.seen.lock().spoken.clone()
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.shared.seen.lock().heard.clone()
    }

    /// # Panics
    /// A request was none of a published form.
    pub fn assert_clean(&self) {
        let wrong = self.shared.seen.lock().wrong.clone();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

async fn speak(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let spoken = match asked(&headers, &body) {
        Ok(spoken) => spoken,
        Err(why) => {
            shared.seen.update(|seen| seen.wrong.push(why.clone()));
            let error = json!({"error": {"message": why, "type": "invalid_request_error"}});
            return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
        }
    };
    shared.seen.update(|seen| seen.spoken.push(spoken));
    pass(shared.mouths.of(&())).await;
    let recording = shared.recordings.lock().pop_front().unwrap_or(Ok(FakeSpeech::OPUS.to_vec()));
    match recording {
        Ok(sound) => ([("content-type", "audio/opus")], sound).into_response(),
        Err(status) => StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY).into_response(),
    }
}

/// Reads a request for a recording, or says what is wrong with it.
fn asked(headers: &HeaderMap, body: &[u8]) -> Result<Spoken, String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header("content-type") != Some("application/json") {
        return Err("the content type is not application/json".to_owned());
    }
    let asked: serde_json::Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let known = ["model", "input", "voice", "response_format", "speed", "instructions", "stream_format"];
    if let Some(other) = asked.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("a field `{other}` that there is not"));
    }
    let text = |key: &str| asked.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |key: &str| text(key).map(str::to_owned).ok_or(format!("`{key}` is missing"));
    let (model, input, voice) = (needed("model")?, needed("input")?, needed("voice")?);
    if input.chars().count() > INPUT_CHARS {
        return Err("`input` is longer than 4096 characters".to_owned());
    }
    if !VOICES.contains(&voice.as_str()) {
        return Err(format!("there is no voice `{voice}`"));
    }
    if text("response_format") != Some("opus") {
        return Err("this fake speaks Opus alone".to_owned());
    }
    Ok(Spoken { model, input, voice, authorization: header("authorization").map(str::to_owned) })
}

async fn transcribe(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let heard = match heard(&headers, &body) {
        Ok(heard) => heard,
        Err(why) => {
            shared.seen.update(|seen| seen.wrong.push(why.clone()));
            let error = json!({"error": {"message": why, "type": "invalid_request_error"}});
            return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
        }
    };
    let made_up = format!("words of {} bytes", heard.sound.len());
    shared.seen.update(|seen| seen.heard.push(heard));
    pass(shared.gates.of(&())).await;
    let answer = shared.answers.lock().pop_front().unwrap_or(Ok(made_up));
    match answer {
        Ok(text) => axum::Json(json!({ "text": text })).into_response(),
        Err(status) => StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY).into_response(),
    }
}

/// Reads a form, or says what is wrong with it.
fn heard(headers: &HeaderMap, body: &[u8]) -> Result<Heard, String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let boundary =
        header("content-type").and_then(|value| value.strip_prefix("multipart/form-data; boundary="));
    let boundary = boundary.ok_or("the content type is not multipart/form-data with a boundary")?;
    // RFC 2046, section 5.1.1.
    if boundary.is_empty() || boundary.len() > 70 {
        return Err("the boundary has a length that none may have".to_owned());
    }
    let (mut fields, mut file) = (BTreeMap::new(), None);
    for part in parts(boundary, body)? {
        let at = find(part, b"\r\n\r\n").ok_or("a part without the end of its headers")?;
        let (head, content) = (&part[..at], &part[at + 4..]);
        let head = std::str::from_utf8(head).map_err(|_| "headers of a part that are not text")?;
        let disposition = head.lines().find_map(|line| line.strip_prefix("Content-Disposition: form-data; "));
        let disposition = disposition.ok_or("a part without a disposition")?;
        let name = quoted(disposition, "name").ok_or("a part without a name")?;
        match (name, quoted(disposition, "filename")) {
            ("file", Some(file_name)) if file.is_none() => {
                let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
                if !ENDINGS.contains(&ending) {
                    return Err(format!("the file `{file_name}` has a format that is not taken"));
                }
                if content.is_empty() || content.len() > FILE_MAX {
                    return Err(format!("the file has {} bytes", content.len()));
                }
                file = Some((file_name.to_owned(), content.to_vec()));
            }
            ("model" | "language" | "response_format" | "prompt" | "temperature", None) => {
                let text =
                    String::from_utf8(content.to_vec()).map_err(|_| format!("`{name}` is not text"))?;
                if fields.insert(name.to_owned(), text).is_some() {
                    return Err(format!("`{name}` comes twice"));
                }
            }
            (other, _) => return Err(format!("a field `{other}` that there is not, or that comes twice")),
        }
    }
    let (file_name, sound) = file.ok_or("`file` is missing")?;
    if fields.get("model").is_none_or(String::is_empty) {
        return Err("`model` is missing".to_owned());
    }
    if fields.get("language").is_some_and(|code| code.len() != 2) {
        return Err("`language` is not a code of ISO 639-1".to_owned());
    }
    if fields.get("response_format").is_some_and(|format| !FORMATS.contains(&format.as_str())) {
        return Err("`response_format` is none of the formats".to_owned());
    }
    let authorization = header("authorization").map(str::to_owned);
    Ok(Heard { file_name, sound, fields, authorization })
}

/// The parts between the boundaries.
fn parts<'a>(boundary: &str, body: &'a [u8]) -> Result<Vec<&'a [u8]>, String> {
    let first = format!("--{boundary}\r\n");
    let mut rest = body.strip_prefix(first.as_bytes()).ok_or("it does not begin with the boundary")?;
    let (between, mut out) = (format!("\r\n--{boundary}"), Vec::new());
    loop {
        let at = find(rest, between.as_bytes()).ok_or("a part without an end")?;
        out.push(&rest[..at]);
        rest = &rest[at + between.len()..];
        if rest == b"--\r\n" || rest == b"--" {
            return Ok(out);
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("a boundary without the end of its line")?;
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn quoted<'a>(disposition: &'a str, key: &str) -> Option<&'a str> {
    let mut all = disposition.split("; ").filter_map(|pair| pair.split_once('='));
    all.find(|(name, _)| *name == key)?.1.strip_prefix('"')?.strip_suffix('"')
}
