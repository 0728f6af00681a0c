//! Renders the model's Markdown for each network, and cleans incoming names. Rendered text is inert: it mentions
//! nobody, loads nothing, and hides no address behind other text.

use cairn_types::ports::SPLIT_AT_ONCE;

pub mod discord;
pub mod name;
mod table;
pub mod telegram;

/// An invisible character without width. It breaks up text that a platform would read as a mention or a command.
pub(crate) const JOINER: char = '\u{2060}';

/// Shown for a text that has no visible content.
const NOTHING: &str = "…";

/// Splits a text without holding up the runtime's threads. Of a text whose split panics nothing is left.
pub(crate) async fn split_aside(
    words: &str,
    split: impl FnOnce(&str) -> Vec<String> + Send + 'static,
) -> Vec<String> {
    if words.len() <= SPLIT_AT_ONCE {
        return split(words);
    }
    let words = words.to_owned();
    tokio::task::spawn_blocking(move || split(&words)).await.unwrap_or_default()
}

/// The Markdown extensions for replies.
pub(crate) fn options() -> pulldown_cmark::Options {
    pulldown_cmark::Options::ENABLE_STRIKETHROUGH | pulldown_cmark::Options::ENABLE_TABLES
}

/// Control characters, and characters that change the direction of writing.
pub(crate) fn steers(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// The language of a code block, from its info string.
pub(crate) fn language(info: &str) -> Option<String> {
    let word = info.split([' ', ',', '{', '\t']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
    (!word.is_empty() && word.len() <= 32 && word.chars().all(plain)).then(|| word.to_lowercase())
}
