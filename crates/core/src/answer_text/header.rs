//! Our own message header at the beginning of an answer, which small models repeat: `[name | 2026-11-26 23:38] `.

use super::marks::Begins;
use cairn_types::text::escape::{NAME_MAX, escape_name};

/// The date and time of a header; a 9 stands for any digit.
const TIME: &str = "9999-99-99 99:99";

/// How a text begins with a header of exactly the form that [`cairn_types::message`] writes, and a blank or a line break behind it.
pub(super) fn echoed(text: &str) -> Begins<()> {
    let Some(rest) = text.strip_prefix('[') else { return Begins::No };
    let is_of_name = |c: char| !c.is_control() && !matches!(c, '[' | ']' | '|' | '<' | '>' | '`');
    let name_end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
    let name = &rest[..name_end];
    if name.chars().count() > NAME_MAX + 1 || name.starts_with(' ') {
        return Begins::No;
    }
    let behind = &rest[name_end..];
    if behind.is_empty() {
        return Begins::Perhaps;
    }
    let is_name = |name: &str| escape_name(name) == name;
    let (Some(behind), Some(true)) = (behind.strip_prefix('|'), name.strip_suffix(' ').map(is_name)) else {
        return Begins::No;
    };
    let mut chars = behind.chars();
    for want in " ".chars().chain(TIME.chars()).chain("]".chars()) {
        match chars.next() {
            None => return Begins::Perhaps,
            Some(c) if c == want || (want == '9' && c.is_ascii_digit()) => {}
            Some(_) => return Begins::No,
        }
    }
    match chars.next() {
        None => Begins::Perhaps,
        Some(c) if c.is_whitespace() => Begins::Whole(text.len() - chars.as_str().len() - c.len_utf8(), ()),
        Some(_) => Begins::No,
    }
}
