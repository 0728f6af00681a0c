//! The text of documents: PDFs and office files. They are parsed one at a time in the process, off the runtime's threads, within
//! bounds of size, text and time: who sends them is not trusted.

use std::time::{Duration, Instant};

use cairn_types::message::Part;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Attachment, Unread, office, pdf};

/// Most bytes of text that are taken from a document.
pub(super) const TEXT_MAX: usize = 512 << 10;

/// Longest time for one document, looked at between its pages.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Longest time that a message waits for the text of a document, other documents before it included.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Held by the thread that reads, even if nobody waits for it any more.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Why a document has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
    #[error("reading it panicked")]
    Panicked,
}

impl NoText {
    fn outcome(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Broken => "broken",
            Self::Blank => "blank",
            Self::Slow => "slow",
            Self::Panicked => "panicked",
        }
    }
}

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// At most 512 KiB.
    pub text: String,
    /// What of the document it is, such as `pages 1 to 120 of 300`; `None`: all of it.
    pub part: Option<String>,
}

/// Reads the text of a PDF or an office document, in bounded time. It may panic: what it calls is not ours.
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

async fn read_aside(bytes: Vec<u8>) -> Result<DocumentText, NoText> {
    let read = async {
        // It is never closed.
        let permit = ONE_AT_A_TIME.acquire().await.map_err(|_closed| NoText::Slow)?;
        let work = move || {
            let _permit = permit;
            read_document(&bytes)
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(NoText::Panicked))
    };
    timeout(WAIT_MAX, read).await.unwrap_or(Err(NoText::Slow))
}

/// A document as a part of a message: its text, or its name with the reason why there is none.
pub(super) async fn part(platform: &'static str, attachment: &Attachment<'_>, bytes: Vec<u8>) -> Part {
    let size = bytes.len() as u64;
    let (outcome, part) = match read_aside(bytes).await {
        Ok(DocumentText { text, part }) => {
            let outcome = if part.is_some() { "cut" } else { "read" };
            let name = attachment.noted(part.into_iter().collect());
            (outcome, Part::File { name, media_type: attachment.shown_type(), text: Some(text) })
        }
        Err(why) => {
            tracing::info!(platform, bytes = size, %why, "a document without text that can be read; it is only named");
            (why.outcome(), attachment.named(Some(size), Unread::NoText(why)))
        }
    };
    metrics::counter!("cairn_documents_total", "platform" => platform, "outcome" => outcome).increment(1);
    part
}

#[cfg(test)]
mod tests;
