//! Decodes the body of an answer as text.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::error::FetchError;

/// Bytes at the start that are checked for binary content, and searched for an encoding named in HTML.
const SNIFFED: usize = 1_024;

/// Text types besides `text/*`, `*+json`, `*+xml` and `*+yaml`.
const TEXT_TYPES: [&str; 14] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/json5",
    "application/ndjson",
    "application/sql",
    "application/toml",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// The content type of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentType {
    /// `type/subtype` in lower case; `None` if the answer names none.
    pub(super) essence: Option<String>,
    charset: Option<&'static Encoding>,
}

impl ContentType {
    /// Parses the header. Types that are not text are an error.
    pub(super) fn of(header: Option<&str>) -> Result<Self, FetchError> {
        let Some(header) = header.map(str::trim).filter(|header| !header.is_empty()) else {
            return Ok(Self { essence: None, charset: None });
        };
        let mut parts = header.split(';');
        let essence: String = parts
            .next()
            .unwrap_or_default()
            .trim()
            .chars()
            .take(100)
            .collect::<String>()
            .to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
        });
        let suffix = |suffix: &&str| essence.ends_with(*suffix);
        let text = essence.starts_with("text/")
            || TEXT_TYPES.contains(&essence.as_str())
            || ["+json", "+xml", "+yaml"].iter().any(suffix);
        // SVG is text, but shows a picture.
        if !text || essence == "image/svg+xml" {
            return Err(FetchError::Type(essence));
        }
        Ok(Self {
            charset: charset.and_then(|name| Encoding::for_label(name.as_bytes())),
            essence: Some(essence),
        })
    }

    pub(super) fn is_html(&self) -> bool {
        matches!(self.essence.as_deref(), Some("text/html" | "application/xhtml+xml"))
    }

    /// Decodes the bytes. `cut`: the end is missing.
    pub(super) fn decode(&self, bytes: &[u8], cut: bool) -> Result<String, FetchError> {
        let head = &bytes[..bytes.len().min(SNIFFED)];
        let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
        let named = marked.or(self.charset).or_else(|| self.is_html().then(|| named_within(head)).flatten());
        let wide = named == Some(UTF_16LE) || named == Some(UTF_16BE);
        if !wide && head.contains(&0) {
            return Err(FetchError::Binary);
        }
        let encoding = named.unwrap_or_else(|| guess(bytes));
        let (text, _, _) = encoding.decode(bytes);
        // The last character may be cut in two.
        let text = if cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
        Ok(text.replace('\0', ""))
    }
}

/// Without a named encoding: UTF-8 if valid, otherwise Windows-1252, the most common old encoding.
fn guess(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => WINDOWS_1252,
        Ok(_) | Err(_) => UTF_8,
    }
}

/// The encoding named in a `meta` tag.
fn named_within(head: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, after) = head.split_once("charset=")?;
    let name = after.trim_start_matches(['"', '\'']);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))?;
    let encoding = Encoding::for_label(&name.as_bytes()[..end])?;
    // The tag was readable as ASCII, so the page cannot be UTF-16.
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("text/plain", true)]
    #[case("Text/HTML; charset=utf-8", true)]
    #[case("application/json", true)]
    #[case("application/ld+json", true)]
    #[case("application/atom+xml; charset=utf-8", true)]
    #[case("application/vnd.oai.openapi+yaml", true)]
    #[case("application/javascript", true)]
    #[case("application/octet-stream", false)]
    #[case("application/pdf", false)]
    #[case("application/zip", false)]
    #[case("image/png", false)]
    #[case("image/svg+xml", false)]
    #[case("nonsense", false)]
    fn only_text_is_taken(#[case] header: &str, #[case] text: bool) {
        assert_eq!(ContentType::of(Some(header)).is_ok(), text);
    }

    #[rstest]
    #[case(Some("text/plain; charset=utf-8"), "grün".as_bytes(), "grün")]
    #[case(Some("text/plain; charset=\"ISO-8859-1\""), b"gr\xfcn", "grün")]
    #[case(Some("text/plain; charset=Shift_JIS"), b"\x93\xfa\x96\x7b", "日本")]
    #[case(Some("text/plain; charset=made-up"), "grün".as_bytes(), "grün")]
    #[case(Some("text/plain; charset=utf-16le"), b"g\0r\0", "gr")]
    #[case(Some("text/plain"), b"\xff\xfeg\0r\0", "gr")]
    #[case(Some("text/plain"), b"\xef\xbb\xbfgr", "gr")]
    #[case(Some("text/plain"), b"gr\xfcn", "grün")]
    #[case(None, "grün".as_bytes(), "grün")]
    #[case(Some("text/html"), b"<meta charset=\"iso-8859-2\"> \xb1", "<meta charset=\"iso-8859-2\"> ą")]
    #[case(Some("text/html"), b"<meta charset=utf-16> gr", "<meta charset=utf-16> gr")]
    #[case(Some("text/plain"), b"<meta charset=\"iso-8859-2\"> \xb1", "<meta charset=\"iso-8859-2\"> ±")]
    fn text_is_read_in_its_encoding(#[case] header: Option<&str>, #[case] bytes: &[u8], #[case] text: &str) {
        assert_eq!(ContentType::of(header).unwrap().decode(bytes, false).unwrap(), text);
    }

    #[rstest]
    #[case(None)]
    #[case(Some("text/plain"))]
    #[case(Some("application/json; charset=utf-8"))]
    fn what_has_zero_bytes_is_no_text(#[case] header: Option<&str>) {
        let read = ContentType::of(header).unwrap().decode(b"\x7fELF\0\0", false);
        assert_eq!(read, Err(FetchError::Binary));
    }

    #[test]
    fn a_character_cut_in_two_is_left_out() {
        let bytes = &"grün ü".as_bytes()[..7];
        for header in [None, Some("text/plain; charset=utf-8")] {
            assert_eq!(ContentType::of(header).unwrap().decode(bytes, true).unwrap(), "grün ");
        }
    }
}
