//! The model's words in Discord's terms.

/// Discord's limit of a message, in characters.
const MESSAGE_MAX: usize = 2000;

/// Words in parts that fit.
pub(super) fn split(words: &str) -> Vec<String> {
    words.chars().collect::<Vec<_>>().chunks(MESSAGE_MAX).map(|part| part.iter().collect()).collect()
}

/// A part as Discord is to show it.
pub(super) fn render(words: &str) -> String {
    words.to_owned()
}

/// A name without what would disturb.
pub(super) fn name(shown: &str) -> String {
    shown.chars().filter(|c| !c.is_control()).take(64).collect()
}
