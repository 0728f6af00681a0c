//! The text of documents: PDFs and office files. Who sends them is not trusted, and the libraries that parse them bound neither
//! memory nor time, so they are read one at a time by a process of their own, which the daemon's binary becomes: see
//! [`READ_DOCUMENT`].

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cairn_types::message::Part;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Attachment, Unread, office, pdf};

/// The first argument with which the daemon's binary reads a document from its input and prints as JSON what
/// [`read_document`] gives.
pub const READ_DOCUMENT: &str = "read-document";

/// Seconds of the processor that the process may take.
pub const READER_CPU_SECS: u64 = 15;

/// Memory that it may take for its data, in bytes.
pub const READER_MEMORY: u64 = 256 << 20;

/// Most bytes of text that are taken from a document.
pub(super) const TEXT_MAX: usize = 512 << 10;

/// Longest time for one document, looked at between its pages.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Longest time for the process that reads one.
const READER_MAX: Duration = Duration::from_secs(20);

/// Longest time that a message waits for the text of a document, other documents before it included.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Most bytes that the process prints: its text, as JSON.
const PRINTED_MAX: u64 = 8 * TEXT_MAX as u64;

/// The signal to a process that is over its time of the processor.
const SIGXCPU: i32 = 24;

static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Why a document has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoText {
    #[error("it is encrypted")]
    Encrypted,
    #[error("it is damaged, or of another kind")]
    Broken,
    /// A scan, or fonts that do not say which characters they show.
    #[error("it holds no text")]
    Blank,
    #[error("reading it took too long")]
    Slow,
    #[error("the process that reads it failed, or needed too much memory")]
    Failed,
}

impl NoText {
    fn outcome(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Broken => "broken",
            Self::Blank => "blank",
            Self::Slow => "slow",
            Self::Failed => "failed",
        }
    }
}

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentText {
    /// At most 512 KiB.
    pub text: String,
    /// What of the document it is, such as `pages 1 to 120 of 300`; `None`: all of it.
    pub part: Option<String>,
}

/// Reads the text of a PDF or an office document. It may panic, and take any time and memory: what it calls is not ours.
///
/// # Errors
/// There is none that can be read.
pub fn read_document(bytes: &[u8]) -> Result<DocumentText, NoText> {
    let mut draft = Draft { text: String::new(), until: Instant::now() + TIME_LIMIT, is_full: false };
    let is_zip = bytes.starts_with(b"PK\x03\x04");
    let part = if is_zip { office::read(bytes, &mut draft) } else { pdf::read(bytes, &mut draft) }?;
    let text = tidy(&draft.text);
    if !text.is_empty() {
        return Ok(DocumentText { text, part });
    }
    Err(if draft.is_late() { NoText::Slow } else { NoText::Blank })
}

/// The text so far, and until when more may be added.
pub(super) struct Draft {
    text: String,
    until: Instant,
    is_full: bool,
}

impl Draft {
    pub(super) fn push(&mut self, piece: &str) {
        let room = TEXT_MAX - self.text.len();
        self.is_full |= piece.len() > room;
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    /// Whether nothing more is to be read.
    pub(super) fn is_over(&self) -> bool {
        self.is_full || self.is_late()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Lines without control characters and without blanks at their ends, and no two empty ones in a row.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        let line = line.trim_end();
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// Reads it aside. `reader`: the daemon's binary; without one it is read in this process.
async fn read_aside(reader: Option<&str>, bytes: Vec<u8>) -> Result<DocumentText, NoText> {
    let read = async {
        // It is never closed.
        let _permit = ONE_AT_A_TIME.acquire().await.map_err(|_closed| NoText::Slow)?;
        match reader {
            Some(reader) => timeout(READER_MAX, read_by(reader, &bytes)).await.unwrap_or(Err(NoText::Slow)),
            None => {
                let read = tokio::task::spawn_blocking(move || read_document(&bytes));
                read.await.unwrap_or(Err(NoText::Failed))
            }
        }
    };
    timeout(WAIT_MAX, read).await.unwrap_or(Err(NoText::Slow))
}

/// Has a process read it. It is killed when nobody waits for it any more.
async fn read_by(reader: &str, bytes: &[u8]) -> Result<DocumentText, NoText> {
    let mut command = Command::new(reader);
    command.arg(READ_DOCUMENT).env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: std::io::Error| {
        tracing::warn!(%error, "the process that reads documents failed");
        NoText::Failed
    };
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end before it has read all.
        if let Err(error) = stdin.write_all(bytes).await {
            tracing::debug!(%error, "a document was not read to its end");
        }
    }
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(PRINTED_MAX).read_to_end(&mut printed).await.map_err(failed)?;
    }
    let status = child.wait().await.map_err(failed)?;
    match status.signal() {
        Some(SIGXCPU) => Err(NoText::Slow),
        _ => serde_json::from_slice(&printed).unwrap_or(Err(NoText::Failed)),
    }
}

/// A document as a part of a message: its text, or its name with the reason why there is none.
pub(super) async fn part(
    platform: &'static str,
    reader: Option<&str>,
    attachment: &Attachment<'_>,
    bytes: Vec<u8>,
) -> Part {
    let size = bytes.len() as u64;
    let (outcome, part) = match read_aside(reader, bytes).await {
        Ok(DocumentText { text, part }) => {
            let outcome = if part.is_some() { "cut" } else { "read" };
            let name = attachment.noted(part.into_iter().collect());
            (outcome, Part::File { name, media_type: attachment.shown_type(), text: Some(text) })
        }
        Err(why) => {
            tracing::info!(platform, bytes = size, %why, "no text could be read from a document; it is only named");
            (why.outcome(), attachment.named(Some(size), Unread::NoText(why)))
        }
    };
    metrics::counter!("cairn_documents_total", "platform" => platform, "outcome" => outcome).increment(1);
    part
}

#[cfg(test)]
mod tests;
