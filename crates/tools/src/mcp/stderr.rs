//! What a child writes to its standard error: always read, its last lines kept.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

const LINES_MAX: usize = 20;

/// Characters kept of a line.
const CHARS_MAX: usize = 500;

/// Bytes looked at of a line: what characters kept can take, and some that are masked.
const BYTES_MAX: usize = 4 * CHARS_MAX;

/// Shortest secret that is looked for in text.
const SECRET_MIN: usize = 6;

/// The secrets of a server, to be struck out wherever its words are shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Words such as `true` are none.
    pub(super) fn of(values: &[SecretString]) -> Self {
        let long = values.iter().filter(|value| value.expose_secret().len() >= SECRET_MIN);
        Self(long.cloned().collect())
    }

    /// The text without them, on one line without control characters, `max` characters at most.
    pub(super) fn strike(&self, text: &str, max: usize) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            let bare = secret.expose_secret();
            let bare = bare.strip_prefix("Bearer ").unwrap_or(bare);
            if bare.len() >= SECRET_MIN && text.contains(bare) {
                text = text.replace(bare, "***");
            }
        }
        let mut out = String::new();
        for c in text.chars().take(max) {
            if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
        }
        out
    }
}

/// The last lines of a server's children. Cloned, it is the same.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    /// The lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    /// The newest of them.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().back().cloned()
    }

    /// Forgets those of a child before.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn keep(&self, line: String) {
        let mut lines = self.0.lock();
        lines.push_back(line);
        if lines.len() > LINES_MAX {
            lines.pop_front();
        }
    }

    /// Reads to the end. Whatever the length of a line, little of it is held.
    pub(super) async fn read<R: AsyncRead + Unpin>(self, stderr: R, server: String, secrets: Secrets) {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            let chunk = reader.fill_buf().await.unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = BYTES_MAX.saturating_sub(line.len()).min(part.len());
            line.extend_from_slice(&part[..room]);
            let used = part.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some() {
                self.finish(&mut line, &server, &secrets);
            }
        }
        self.finish(&mut line, &server, &secrets);
    }

    fn finish(&self, line: &mut Vec<u8>, server: &str, secrets: &Secrets) {
        let words = secrets.strike(String::from_utf8_lossy(line.trim_ascii_end()).as_ref(), CHARS_MAX);
        line.clear();
        if words.is_empty() {
            return;
        }
        tracing::debug!(server, line = words, "a server's standard error");
        self.keep(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: Vec<u8>) -> Vec<String> {
        let secrets = [SecretString::from("s3cret-value")];
        let kept = LastLines::default();
        kept.clone().read(bytes.as_slice(), "files".to_owned(), Secrets::of(&secrets)).await;
        kept.lines()
    }

    #[tokio::test]
    async fn the_last_lines_are_kept_short_and_without_secrets_or_control_characters() {
        let many: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let lines = read(many.into_bytes()).await;
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 10", "line 29"));

        let lines = read(b"\x1b[31mred s3cret-value\r\n\n".to_vec()).await;
        assert_eq!(lines, ["\\u{1b}[31mred ***"]);

        let lines = read(vec![b'x'; 1_000_000]).await;
        assert_eq!(lines, ["x".repeat(500)]);
    }
}
