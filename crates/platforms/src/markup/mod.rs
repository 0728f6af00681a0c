//! The model's Markdown as each network shows it, and names as they come in. What leaves is inert: nobody is mentioned,
//! nothing is loaded, and no address hides behind other words.

pub mod discord;
pub mod name;
mod table;
pub mod telegram;

/// Unseen and without width: parts what a platform would take for a mention or a command.
pub(crate) const JOINER: char = '\u{2060}';

/// Stands for a text of which nothing can be shown.
const NOTHING: &str = "…";

/// The extensions of Markdown that replies are read with.
pub(crate) fn options() -> pulldown_cmark::Options {
    pulldown_cmark::Options::ENABLE_STRIKETHROUGH | pulldown_cmark::Options::ENABLE_TABLES
}

/// Characters that steer the terminal or the direction of writing and are no text.
pub(crate) fn steers(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// The language of a code block, from the words behind its opening fence.
fn language(info: &str) -> Option<String> {
    let word = info.split([' ', ',', '{', '\t']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
    (!word.is_empty() && word.len() <= 32 && word.chars().all(plain)).then(|| word.to_lowercase())
}
