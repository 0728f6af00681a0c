//! The file: read and checked whole before anything is sent.

use std::path::Path;

use cairn_platforms::local::{MessageRequest, read_object};
use jiff::Timestamp;
use serde::Deserialize;

use crate::cli::failure::Failure;
use crate::cli::{exit, lines};

const EXPECTED: &str = r#"expected {"user": "…", "text": "…"}, with "at" (RFC 3339) and "id" where known"#;

#[derive(Deserialize)]
struct Line {
    user: String,
    text: String,
    at: Option<String>,
    id: Option<String>,
}

/// Reads the messages of a file, `-` for stdin. Each gets an id, if it has none, that derives from line and content.
pub(super) fn read(file: &Path, max_text_bytes: usize) -> Result<Vec<MessageRequest>, Failure> {
    let (shown, bytes) = (file.display(), lines::read(file)?);
    parse(&bytes, max_text_bytes).map_err(|(line_no, reason)| {
        Failure::new(
            exit::FAILED,
            format!("{shown}, line {line_no}: {reason}"),
            format!("{EXPECTED}; nothing was sent"),
        )
    })
}

/// The messages, or the number of the first bad line and what is wrong with it.
fn parse(bytes: &[u8], max_text_bytes: usize) -> Result<Vec<MessageRequest>, (usize, String)> {
    lines::each(bytes, |line_no, line| message(line, line_no, max_text_bytes))
}

fn message(line: &[u8], line_no: usize, max_text_bytes: usize) -> Result<MessageRequest, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    let Line { user, text, at, id } =
        read_object(text.as_bytes()).map_err(|why| format!("not a message: {}", without_line(&why)))?;
    if user.trim().is_empty() {
        return Err("`user` is empty".to_owned());
    }
    if text.trim().is_empty() {
        return Err("`text` is empty".to_owned());
    }
    if text.contains('\0') {
        return Err("`text` has a NUL character".to_owned());
    }
    if text.len() > max_text_bytes {
        return Err(format!(
            "`text` is longer than {max_text_bytes} bytes (`max_message_bytes` in `[limits]`)"
        ));
    }
    if let Some(at) = &at {
        at.parse::<Timestamp>().map_err(|error| format!("`at` is no time: {error}"))?;
    }
    let id = id.unwrap_or_else(|| format!("l{line_no}-{:016x}", hash(line)));
    Ok(MessageRequest { user, text, id: Some(id), agent: None, at })
}

/// The error without its line, which is always 1 here.
fn without_line(why: &str) -> String {
    why.replace(" at line 1 column ", ", column ")
}

/// FNV-1a with 64 bits: the same on every machine and in every version.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_derive_from_line_and_content() {
        let two = br#"{"user":"a","text":"x"}
{"user":"a","text":"x"}"#;
        let messages = parse(two, 10).unwrap();
        let ids: Vec<_> = messages.iter().map(|message| message.id.clone().unwrap()).collect();
        assert_eq!(ids, ["l1-1af746b2cecc6e6e", "l2-1af746b2cecc6e6e"]);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "a published value of FNV-1a");
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        let good = r#"{"user":"a","text":"x","at":"2026-11-20T10:00:00Z","id":"m1"}"#;
        let cases = [
            ("hello", "not a message: it is not a JSON object"),
            (r#"["a","x",null,null]"#, "not a message: it is not a JSON object"),
            (r#"{"user":"a","text":"x""#, "not a message: EOF while parsing an object, column "),
            (r#"{"user":"a"}"#, "not a message: missing field `text`"),
            (r#"{"user":"a","text":"\ud800"}"#, "surrogate"),
            (r#"{"user":"a","text":"\u0000"}"#, "NUL"),
            (r#"{"user":"a","text":"  "}"#, "`text` is empty"),
            (r#"{"user":"","text":"x"}"#, "`user` is empty"),
            (r#"{"user":"a","text":"12345678901"}"#, "longer than 10 bytes"),
            (r#"{"user":"a","text":"x","at":"yesterday"}"#, "`at` is no time"),
        ];
        for (bad, expected) in cases {
            let (line_no, reason) = parse(format!("{good}\n\n{bad}\n").as_bytes(), 10).unwrap_err();
            assert_eq!(line_no, 3, "{bad}");
            assert!(reason.contains(expected), "{bad}: {reason}");
        }
    }
}
