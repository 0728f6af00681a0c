//! Files of JSON lines, read and checked completely before a command does anything; and Cairn's own lines.

use std::io::Read;
use std::path::Path;

use cairn_api::message::read_object;
use cairn_types::message::{Author, Role};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The bytes of a file, `-` for stdin.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot read {}: {error}", file.display());
        Failure::failed(message, "check the path; `-` reads stdin")
    };
    if file != Path::new("-") {
        return std::fs::read(file).map_err(unreadable);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The value of each line that is not blank.
///
/// # Errors
/// The number of the first bad line, and what is wrong with it.
pub fn each<T>(
    bytes: &[u8],
    mut read: impl FnMut(usize, &[u8]) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
        .map(|(idx, line)| read(idx + 1, line).map_err(|why| format!("line {}: {why}", idx + 1)))
        .collect()
}

/// The object in a line.
///
/// # Errors
/// There is none, or one of another type.
pub fn object<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    // The number of the line is always 1 here.
    read_object(text.as_bytes())
        .map_err(|why| format!("not a message: {}", why.replace(" at line 1 column ", ", column ")))
}

/// What a line is to look like, for errors.
pub const EXPECTED: &str = r#"expected {"user": "…", "text": "…"} or {"role": "assistant", "text": "…"}, with "at" (RFC 3339) and "id" where known"#;

/// A line of Cairn's own format, or an entry of a history in JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    #[serde(alias = "message")]
    pub id: Option<String>,
    pub seq: Option<u64>,
    pub at: Option<String>,
    pub role: Option<Role>,
    pub user: Option<String>,
    pub author: Option<Author>,
    pub text: Option<String>,
    /// As entries of a history have it.
    pub parts: Option<Vec<TextPart>>,
    pub tool_calls: Vec<serde_json::Value>,
    pub tokens: Option<u32>,
}

/// A part of a message; only texts are words.
#[derive(Debug, Deserialize)]
pub struct TextPart {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
}

impl Line {
    /// # Errors
    /// It is no such line, or one without a person or a text.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let line: Self = object(line)?;
        let is_blank = |user: &String| user.trim().is_empty();
        if line.role.is_none() && line.author.is_none() && line.user.as_ref().is_none_or(is_blank) {
            return Err("`user` is missing or empty".to_owned());
        }
        if line.text.is_none() && line.parts.is_none() && line.tokens.is_none() {
            return Err("`text` is missing".to_owned());
        }
        Ok(line)
    }

    /// When it was said, where that is known.
    ///
    /// # Errors
    /// It is no time.
    pub fn said_at(&self) -> Result<Option<Timestamp>, String> {
        let at = self.at.as_deref().map(str::parse::<Timestamp>).transpose();
        at.map_err(|error| format!("`at` is not a valid time: {error}"))
    }

    pub fn words(&mut self) -> String {
        let said = self.parts.take().into_iter().flatten().filter_map(|part| part.text);
        self.text.take().into_iter().chain(said).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        let good = r#"{"user":"a","text":"x","at":"2026-11-20T10:00:00Z","id":"m1"}"#;
        let cases = [
            ("hello", "not a message: it is not a JSON object"),
            (r#"["a","x",null,null]"#, "not a message: it is not a JSON object"),
            (r#"{"user":"a","text":"x""#, "not a message: EOF while parsing an object, column "),
            (r#"{"user":"a"}"#, "`text` is missing"),
            (r#"{"user":"a","text":"\ud800"}"#, "surrogate"),
            (r#"{"user":" ","text":"x"}"#, "`user` is missing or empty"),
            (r#"{"text":"x"}"#, "`user` is missing or empty"),
            (r#"{"user":"a","text":"x","at":"yesterday"}"#, "`at` is not a valid time"),
            (r#"{"role":"judge","text":"x"}"#, "unknown variant `judge`"),
        ];
        for (bad, expected) in cases {
            let text = format!("{good}\n\n{bad}\n");
            let read = each(text.as_bytes(), |_, line| Line::read(line)?.said_at()).unwrap_err();
            assert!(read.starts_with("line 3: ") && read.contains(expected), "{bad}: {read}");
        }
        assert!(each(b"{\"user\":\"a\xff\"}", |_, line| Line::read(line)).unwrap_err().contains("not UTF-8"));
    }
}
