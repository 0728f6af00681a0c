//! Reads page bodies without a connection, for `crates/fuzz`.

use url::Url;

use super::html;
use super::text::ContentType;

/// The text of a body with this content type. `None`: it is not text.
pub fn page(content_type: Option<&str>, bytes: &[u8], cut: bool) -> Option<String> {
    let kind = ContentType::of(content_type).ok()?;
    let text = kind.decode(bytes, cut).ok()?;
    let base = Url::parse("https://example.org/a/b").ok()?;
    Some(if kind.is_html() { html::text(&text, &base) } else { text })
}
