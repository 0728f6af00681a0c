//! JSON as servers send it. Those whose language has strings of UTF-16 may cut an answer between the two halves of a character,
//! and send `\ud83d` in one chunk and `\ude00` in the next one: JSON by its grammar, and no Unicode string.

use std::borrow::Cow;

use serde_json::Value;

/// What came, and whether strings in it have [`half`]s of characters.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) has_halves: bool,
}

/// Reads JSON; halves of characters stand in its strings by their [`half`]s.
///
/// # Errors
/// It is no JSON for another reason.
pub(crate) fn parse(data: &[u8]) -> Result<Parsed, serde_json::Error> {
    match serde_json::from_slice(data) {
        Ok(value) => Ok(Parsed { value, has_halves: false }),
        Err(error) => {
            let Some((text, has_halves)) = with_halves(data) else { return Err(error) };
            serde_json::from_str(&text).map(|value| Parsed { value, has_halves })
        }
    }
}

/// Reads JSON that nothing follows; halves of characters become U+FFFD.
///
/// # Errors
/// It is no JSON for another reason.
pub(crate) fn parse_whole(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match with_halves(text.as_bytes()) {
        Some((text, _)) => serde_json::from_str(&text.replace(is_half, "\u{fffd}")),
        None => Err(error),
    })
}

/// Where the 2048 halves of characters stand: in a part of Unicode without any meaning of its own.
const HALVES: u32 = 0x10_f000;

/// What stands for a half of a character, by its code unit.
fn half(unit: u32) -> Option<char> {
    char::from_u32(HALVES + (unit - 0xd800))
}

fn is_half(c: char) -> bool {
    (HALVES..HALVES + 0x800).contains(&u32::from(c))
}

/// The code unit of UTF-16 that a half stands for.
fn unit(c: char) -> u16 {
    (u32::from(c) - HALVES + 0xd800) as u16
}

/// How an escape of a character begins that itself stands for a half.
const ESCAPED_HALVES: [&[u8]; 2] = [b"\\udbfc", b"\\udbfd"];

/// A text with what stands for them in the place of escapes that are half a character. `None`: it has none, or is no UTF-8. False
/// beside it: halves are lost, since the text uses these characters itself.
fn with_halves(data: &[u8]) -> Option<(String, bool)> {
    let text = std::str::from_utf8(data).ok()?;
    let is_escaped = |part: &[u8]| ESCAPED_HALVES.iter().any(|escape| part.eq_ignore_ascii_case(escape));
    let is_ours = !text.contains(is_half) && !data.windows(ESCAPED_HALVES[0].len()).any(is_escaped);
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut any) = (text, false);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match escape(rest) {
            Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(escape), Some(0xdc00..=0xdfff)) => 12,
            Some(lone @ 0xd800..=0xdfff) => {
                any = true;
                out.push(half(lone).filter(|_| is_ours).unwrap_or('\u{fffd}'));
                rest = &rest[6..];
                continue;
            }
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    any.then_some((out, is_ours))
}

/// The number of a `\u` escape with which a text begins.
fn escape(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
    all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// Joins the pieces of one text: a half that ends a piece waits for its other half.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// The code unit that waits.
    waiting: Option<u16>,
}

impl Joined {
    /// What can be told of the text, given its next piece.
    pub(crate) fn next<'t>(&mut self, piece: &'t str, has_halves: bool) -> Cow<'t, str> {
        if piece.is_empty() || (!has_halves && self.waiting.is_none()) {
            return Cow::Borrowed(piece);
        }
        let mut out = String::with_capacity(piece.len() + 4);
        for c in piece.chars() {
            if has_halves && is_half(c) {
                let units = [self.waiting.take().unwrap_or_default(), unit(c)];
                match char::decode_utf16(units).next() {
                    Some(Ok(whole)) if units[0] != 0 => out.push(whole),
                    _ => {
                        out.extend((units[0] != 0).then_some('\u{fffd}'));
                        self.wait(units[1], &mut out);
                    }
                }
            } else {
                out.extend(self.end());
                out.push(c);
            }
        }
        Cow::Owned(out)
    }

    /// A first half waits; another one is lost.
    fn wait(&mut self, unit: u16, out: &mut String) {
        if (0xd800..0xdc00).contains(&unit) {
            self.waiting = Some(unit);
        } else {
            out.push('\u{fffd}');
        }
    }

    /// What is left of a half to which the other one never came.
    pub(crate) fn end(&mut self) -> Option<char> {
        self.waiting.take().map(|_| '\u{fffd}')
    }
}

/// Joins the halves in all strings of a value; those without the other one become U+FFFD.
pub(crate) fn settle(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(is_half) => {
            let mut joined = Joined::default();
            let mut whole = joined.next(text, true).into_owned();
            whole.extend(joined.end());
            *text = whole;
        }
        Value::Array(list) => list.iter_mut().for_each(settle),
        Value::Object(fields) => fields.values_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of these pieces, each a JSON string.
    fn joined(pieces: &[&str]) -> String {
        let mut joined = Joined::default();
        let mut text = String::new();
        for piece in pieces {
            let parsed = parse(piece.as_bytes()).unwrap();
            text.push_str(&joined.next(parsed.value.as_str().unwrap(), parsed.has_halves));
        }
        text.extend(joined.end());
        text
    }

    #[test]
    fn halves_of_characters_are_joined_over_pieces() {
        let cases: [(&[&str], &str); 15] = [
            (&[r#""Done \ud83d""#, r#""\ude00 bye""#], "Done \u{1f600} bye"),
            (&[r#""a\uD83D""#, r#""""#, r#""\uDE00""#], "a\u{1f600}"),
            (&[r#""\ud83d\ude00\ud83d""#, r#""\ude01\ud83d\ude02""#], "\u{1f600}\u{1f601}\u{1f602}"),
            (&[r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ude01""#], "\u{1f600}\u{1f601}"),
            (&[r#""a\ud83d""#], "a\u{fffd}"),
            (&[r#""a\ud83d b""#], "a\u{fffd} b"),
            (&[r#""a\ude00b""#], "a\u{fffd}b"),
            (&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b"),
            (&[r#""a\ud83d""#, r#""\ud83d""#, r#""\ude00""#], "a\u{fffd}\u{1f600}"),
            (&[r#""\ude00\ud83d""#, r#""\ude00""#], "\u{fffd}\u{1f600}"),
            (&[r#""\\ud83d \"\\\ud83d""#, r#""\ude00""#], "\\ud83d \"\\\u{1f600}"),
            (&[r#""é\ud83d\n""#, r#""ü""#], "é\u{fffd}\nü"),
            // Where a text uses what stands for halves, they are lost, and nothing else is.
            (&["\"\u{10f03d}\"", "\"\u{10f200}\""], "\u{10f03d}\u{10f200}"),
            (&["\"\u{10f03d}\\ud83d\"", "\"\\ude00\u{10f200}\""], "\u{10f03d}\u{fffd}\u{fffd}\u{10f200}"),
            (&[r#""\uDBFC\uDC3D\ud83d""#], "\u{10f03d}\u{fffd}"),
        ];
        for (pieces, text) in cases {
            assert_eq!(joined(pieces), text, "{pieces:?}");
        }
    }

    #[test]
    fn every_cut_of_a_text_in_utf16_says_the_same() {
        let text = "a\u{1f980}é\u{1f600}\u{1f601}\u{10abcd}z\u{fffd}";
        let units: Vec<u16> = text.encode_utf16().collect();
        for first in 0..=units.len() {
            for second in first..=units.len() {
                let escaped = [&units[..first], &units[first..second], &units[second..]].map(|units| {
                    let all: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                    format!("\"{all}\"")
                });
                let pieces: Vec<&str> = escaped.iter().map(String::as_str).collect();
                assert_eq!(joined(&pieces), text, "{pieces:?}");
            }
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in ["", "{", r#""\ud83d"#, r#""\ud83"#, r#""\u""#, "\"\\", "<html>", r#"{"a": \ud83d}"#] {
            assert!(parse(text.as_bytes()).is_err() && parse_whole(text).is_err(), "{text}");
        }
        assert!(parse(b"\"\xff\\ud83d\"").is_err());
        assert_eq!(parse_whole(r#"{"a": "x\ud83d", "b": "\ude00"}"#).unwrap()["a"], "x\u{fffd}");
    }
}
