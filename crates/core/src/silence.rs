//! Staying silent in a group: one agreed token in the place of an answer.

use std::borrow::Cow;

use cairn_types::message::{Entry, Part, Role};

/// An answer of this token alone posts nothing. The agent is told of it in groups.
pub const SILENCE: &str = "SAY_NOTHING";

/// Whether a text is the token and nothing else but markup and punctuation.
pub fn is_silence(text: &str) -> bool {
    text.contains(SILENCE) && is_bare(&text.replace(SILENCE, ""))
}

/// Whether the agent said nothing by that entry: what is read of the history leaves it out.
pub fn is_silent(entry: &Entry) -> bool {
    entry.role == Role::Assistant
        && entry.tool_calls.is_empty()
        && matches!(entry.parts.as_slice(), [Part::Text { text }] if is_silence(text))
}

/// A text without the token, wherever it stands as a word, and without the markup around it.
pub fn without_silence(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SILENCE) {
        rest = after;
        let is_word = !before.ends_with(is_of_word) && !after.starts_with(is_of_word);
        if !is_word {
            kept.extend([before, SILENCE]);
            continue;
        }
        let opens = before.bytes().rev().take_while(|byte| MARKUP.contains(byte)).count();
        let closes = after.bytes().take_while(|byte| MARKUP.contains(byte)).count();
        let n = opens.min(closes);
        kept.push_str(&before[..before.len() - n]);
        rest = &after[n..];
        if kept.is_empty() || kept.ends_with(char::is_whitespace) {
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept.trim().to_owned())
}

/// The part of an answer under way that may be shown: without the token, and without a last word that may become it.
pub fn shown(text: &str) -> Cow<'_, str> {
    let begins = text.trim_end_matches(|c: char| !c.is_whitespace()).len();
    let last = text[begins..].trim_matches(is_bare_char);
    let seen = if SILENCE.starts_with(last) { &text[..begins] } else { text };
    let seen = without_silence(seen);
    if is_bare(&seen) { Cow::Borrowed("") } else { seen }
}

/// Markup, quotes and brackets that models put around a word.
const MARKUP: &[u8] = b"`*\"'[]()<>";

/// A text of markup, punctuation and spaces.
fn is_bare(text: &str) -> bool {
    text.chars().all(is_bare_char)
}

fn is_bare_char(c: char) -> bool {
    c.is_whitespace() || u8::try_from(c).is_ok_and(|byte| MARKUP.contains(&byte) || b".,;:!".contains(&byte))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("SAY_NOTHING", true)]
    #[case::spaces("\n  SAY_NOTHING \n", true)]
    #[case::code("`SAY_NOTHING`", true)]
    #[case::bold("**SAY_NOTHING**", true)]
    #[case::quoted("\"SAY_NOTHING.\"", true)]
    #[case::sentence("SAY_NOTHING.", true)]
    #[case::twice("SAY_NOTHING\nSAY_NOTHING", true)]
    #[case::fenced("```\nSAY_NOTHING\n```", true)]
    #[case::empty("", false)]
    #[case::other_words("I SAY_NOTHING of it.", false)]
    #[case::part_of_a_word("SAY_NOTHING_AT_ALL", false)]
    #[case::part("SAY_", false)]
    #[case::lower_case("say_nothing", false)]
    fn the_token_alone_is_silence(#[case] text: &str, #[case] silent: bool) {
        assert_eq!(is_silence(text), silent);
    }

    #[rstest]
    #[case::behind("Noted.\n\nSAY_NOTHING.", "Noted.")]
    #[case::before("SAY_NOTHING\n\nNoted.", "Noted.")]
    #[case::within("Yes, **SAY_NOTHING** at noon.", "Yes,  at noon.")]
    #[case::twice("SAY_NOTHING\nNoted. SAY_NOTHING", "Noted.")]
    #[case::part_of_a_word("The flag is SAY_NOTHING_AT_ALL.", "The flag is SAY_NOTHING_AT_ALL.")]
    #[case::none("At noon.", "At noon.")]
    fn the_token_is_taken_out_of_other_words(#[case] text: &str, #[case] left: &str) {
        assert_eq!(without_silence(text), left);
    }

    #[test]
    fn no_part_of_the_token_is_shown_while_it_is_written() {
        for (text, seen) in [
            ("SAY_NOTHING", ""),
            ("`SAY_NOTHING`", ""),
            ("Noted. SAY_NOTHING", "Noted."),
            ("Noted.\n\n**SAY_NOTHING**", "Noted."),
            ("```\nSAY_NOTHING\n```", ""),
        ] {
            for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let shown = shown(&text[..at]);
                assert!(seen.starts_with(shown.trim()), "{:?} shows {shown:?}", &text[..at]);
            }
        }
    }

    #[rstest]
    #[case("Say hello", "Say hello")]
    #[case("It is at S", "It is at ")]
    #[case("It is at Sea", "It is at Sea")]
    #[case("f(SAY", "f(SAY")]
    fn other_words_are_shown(#[case] text: &str, #[case] seen: &str) {
        assert_eq!(shown(text), seen);
    }

    proptest! {
        #[test]
        fn texts_without_the_token_stay_as_they_are(text in "[A-Z_a-z`*. \n]{0,60}") {
            prop_assume!(!text.contains(SILENCE));
            prop_assert_eq!(without_silence(&text), text.as_str());
            prop_assert!(text.starts_with(shown(&text).as_ref()));
            let ended = format!("{text}end ");
            prop_assert_eq!(shown(&ended), ended.as_str());
        }

        #[test]
        fn nothing_is_left_of_the_token(before in "[a-z`*. \n]{0,20}", after in "([ .`*\n][a-z`*. \n]{0,20})?") {
            let text = format!("{before} {SILENCE}{after}");
            prop_assert!(!without_silence(&text).contains("SAY"));
            for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
                prop_assert!(!shown(&text[..at]).contains('S'));
            }
        }
    }
}
