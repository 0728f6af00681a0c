//! Long words in parts.

use std::cell::Cell;

use cairn_types::testing::hostile;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn over(limit: usize) -> impl Fn(&str) -> Option<usize> {
    move |text| text.char_indices().nth(limit).map(|(at, _)| at)
}

fn by_chars(text: &str, limit: usize) -> Vec<String> {
    split(text, limit, &over(limit))
}

#[rstest]
#[case::short("Hello.", 20, &["Hello."])]
#[case::blank(" \n ", 20, &[])]
#[case::paragraphs("One two.\n\nThree four.\n\nFive.", 24, &["One two.\n\nThree four.", "Five."])]
#[case::paragraphs_before_lines("One.\n\nTwo two\nthree", 12, &["One.", "Two two", "three"])]
#[case::lines_before_sentences("One. Two.\nThree. Four.", 18, &["One. Two.", "Three. Four."])]
#[case::sentences_before_words("It rains a lot. We stay in.", 22, &["It rains a lot.", "We stay in."])]
#[case::words("alpha beta gamma", 11, &["alpha beta", "gamma"])]
#[case::within_a_word("abcdefghij", 4, &["abcd", "efgh", "ij"])]
#[case::never_within_a_grapheme("👩‍👩‍👧👩‍👩‍👧e\u{301}e\u{301}", 6, &["👩‍👩‍👧", "👩‍👩‍👧", "e\u{301}e\u{301}"])]
#[case::a_heading_stays_with_its_text("Intro.\n\n# Head\n\nBody text", 16, &["Intro.", "# Head\n\nBody", "text"])]
#[case::emphasis_is_left_whole("aaa **bbb ccc** ddd", 12, &["aaa", "**bbb ccc**", "ddd"])]
#[case::inline_code_is_left_whole("use `let x = 1` now", 13, &["use", "`let x = 1`", "now"])]
#[case::a_link_is_left_whole("see [the page](http://x) now", 22, &["see", "[the page](http://x)", "now"])]
#[case::emphasis_that_is_too_long("**aaa bbb ccc ddd**", 10, &["**aaa bbb", "ccc ddd**"])]
#[case::lists_at_their_items("- aaa aaa\n  - bbb\n  - ccc", 17, &["- aaa aaa\n  - bbb", "- ccc"])]
fn text_is_cut(#[case] text: &str, #[case] limit: usize, #[case] parts: &[&str]) {
    assert_eq!(by_chars(text, limit), parts);
}

#[rstest]
#[case::closed_and_reopened("```rust\naaa\nbbb\nccc\n```\nend", 22, &["```rust\naaa\nbbb\n```", "```rust\nccc\n```\nend"])]
#[case::tildes("~~~\naaaa aaaa\nbbbb bbbb\n~~~", 20, &["~~~\naaaa aaaa\n~~~", "~~~\nbbbb bbbb\n~~~"])]
#[case::a_longer_fence("````md\n```\nin in\n```\nout out\n````", 26, &["````md\n```\nin in\n```\n````", "````md\nout out\n````"])]
#[case::left_open("```py\nprint(1)", 40, &["```py\nprint(1)\n```"])]
#[case::left_open_and_long("```\naaaa aaaa\nbbbb bbbb", 20, &["```\naaaa aaaa\n```", "```\nbbbb bbbb\n```"])]
#[case::indentation_of_code_is_kept("```\naaaa aaaa:\n    bbbb bbbb\n```", 22, &["```\naaaa aaaa:\n```", "```\n    bbbb bbbb\n```"])]
#[case::in_a_list("- a:\n  ```\n  aaaa aaaa\n  bbbb bbbb\n  ```\n- b", 28, &["- a:\n  ```\n  aaaa aaaa\n  ```", "```\nbbbb bbbb\n```\n- b"])]
#[case::in_a_quote("> ```\n> aaaa aaaa\n> bbbb bbbb\n> ```", 26, &["> ```\n> aaaa aaaa\n> ```", "> ```\n> bbbb bbbb\n> ```"])]
#[case::no_room_for_fences("```a-long-language\naaa\n```", 10, &["```a-long-", "language", "aaa\n```"])]
#[case::nothing_but_a_fence("```", 10, &["```"])]
fn fences_are_closed_and_reopened(#[case] text: &str, #[case] limit: usize, #[case] parts: &[&str]) {
    assert_eq!(by_chars(text, limit), parts);
}

#[test]
fn a_long_reply_with_code() {
    let reply = include_str!("tests/reply.md");
    insta::assert_snapshot!(by_chars(reply, 400).join("\n======== next part ========\n"));
}

/// How many bytes are measured to cut a text of a repeated unit.
fn measured(unit: &str, bytes: usize) -> usize {
    let text = hostile::text(unit, bytes);
    let measured = Cell::new(0);
    split(&text, 400, &|text| {
        measured.set(measured.get() + text.len());
        over(400)(text)
    });
    measured.get()
}

/// The measure is asked for each window at least once, and a window is bounded, so the work is counted in what is measured.
#[test]
fn what_is_measured_grows_with_the_text_and_no_faster() {
    for (name, unit) in hostile::UNITS {
        let (short, long) = (measured(unit, 16 * 1024), measured(unit, 128 * 1024));
        assert!(long <= 10 * short, "{name}: {short} bytes for 16 KiB, {long} for 128 KiB");
        assert!(short <= 60 * 16 * 1024, "{name}: {short} bytes for 16 KiB");
    }
}

#[test]
fn a_window_is_bounded_and_has_all_of_the_text() {
    for (name, unit) in hostile::UNITS {
        let text = hostile::text(unit, 64 * 1024);
        let (mut window, mut seen) = (Window::new(text.trim_end(), 4000), 0);
        while window.fill() {
            assert!(window.text.len() <= 8000, "{name}: {} bytes", window.text.len());
            seen += without_gaps(&window.text).len();
            window.skip_space(window.text.len());
        }
        assert_eq!(seen, without_gaps(&text).len(), "{name}");
    }
}

/// Markdown made of what is hard to cut; without fences.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,9}",
        3 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        1 => Just("    ".to_owned()),
        1 => Just(". ".to_owned()),
        1 => prop_oneof![Just("**"), Just("_"), Just("- "), Just("> "), Just("# "), Just("1. "), Just("[a](b)"), Just("|"), Just("\\")]
            .prop_map(str::to_owned),
        1 => "\\PC{1,4}".prop_map(|text| text.replace(['`', '~'], "")),
        1 => Just("👩‍👩‍👧e\u{301}\r\n\t".to_owned()),
    ];
    proptest::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

/// Numbered words in fenced code, with text between.
fn code() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("```\n"),
        Just("```rust\n"),
        Just("~~~\n"),
        Just("````\n"),
        Just("  ```py\n"),
        Just("- a\n\n  ```\n"),
        Just("> ```\n"),
        Just("\n\n"),
        Just("W "),
        Just("W\n"),
        Just("    W\n"),
        Just("> W\n"),
        Just("  W W\n"),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| {
        let mut n = 100;
        let numbered = |c: char| {
            if c != 'W' {
                return c.to_string();
            }
            n += 1;
            format!("w{n}")
        };
        pieces.concat().chars().map(numbered).collect()
    })
}

fn without_gaps(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with('w')).collect()
}

proptest! {
    #[test]
    fn nothing_is_lost_and_no_part_is_too_long(text in soup(), limit in 1usize..120) {
        let parts = by_chars(&text, limit);
        prop_assert!(parts.iter().all(|part| chars(part) <= limit && !part.trim().is_empty()), "{parts:?}");
        prop_assert_eq!(without_gaps(&parts.concat()), without_gaps(&text));
    }

    #[test]
    fn no_code_is_lost(text in code(), limit in 40usize..160) {
        let parts = by_chars(&text, limit);
        prop_assert!(parts.iter().all(|part| chars(part) <= limit), "{parts:?}");
        let joined = parts.join("\n");
        prop_assert_eq!(words(&joined), words(&text), "{:?}", parts);
    }

    #[test]
    fn any_text_has_parts_within_the_limit(text in "(```|~~~|\\PC|[ \n>a`~-]){0,200}", limit in 1usize..60) {
        let parts = by_chars(&text, limit);
        prop_assert!(parts.iter().all(|part| chars(part) <= limit && !part.trim().is_empty()), "{parts:?}");
        prop_assert_eq!(parts.is_empty(), text.trim().is_empty());
        prop_assert_eq!(first(&text, limit, &over(limit)), parts.first().cloned());
    }
}
