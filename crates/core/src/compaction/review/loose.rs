//! Numbers and names that stand in a sentence like other words: looked for only where a summary is compared with its source.

use std::collections::HashSet;
use std::ops::Range;

use super::COUNTED_DIGITS;
use crate::compaction::identifiers::{Kind, find};

/// Fewest letters of a name.
const NAME_LETTERS: usize = 3;

/// Texts of so many words show whether their language writes other words than names with a capital.
const MANY_WORDS: usize = 30;

/// What joins letters and digits to more than a word or a number: a date, a time, a path.
const JOINS: [char; 7] = ['-', '/', ':', '.', '_', '@', '\\'];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Loose<'a> {
    Number(&'a str),
    Name(&'a str),
}

impl<'a> Loose<'a> {
    /// Its kind and its words, as lists show them.
    pub(super) fn parts(self) -> (&'static str, &'a str) {
        match self {
            Self::Number(text) => (Kind::Number.name(), text),
            Self::Name(text) => ("name", text),
        }
    }
}

struct Word<'a> {
    at: usize,
    text: &'a str,
    /// A capital says nothing there: it begins a sentence or stands in code or in a heading.
    is_any: bool,
}

/// What [`find`] does not find: plain numbers, and capitalised words within sentences. Each once.
pub(super) fn loose(text: &str) -> Vec<Loose<'_>> {
    let exact = find(text).into_iter().filter(|found| found.kind != Kind::Error);
    let exact: Vec<Range<usize>> = exact.map(|found| found.at..found.at + found.text.len()).collect();
    let words = words(text);
    let has_names = tells_names(&words);
    let mut seen = HashSet::new();
    let known = |word: &&Word<'_>| {
        let next = exact.partition_point(|range| range.end <= word.at);
        exact.get(next).is_some_and(|range| range.start < word.at + word.text.len())
    };
    let loose = words.iter().filter(|word| !known(word)).filter_map(|word| {
        if is_number(word.text) {
            Some(Loose::Number(word.text))
        } else {
            (has_names && is_name(word)).then_some(Loose::Name(word.text))
        }
    });
    loose.filter(|found| seen.insert(*found)).collect()
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut is_fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            is_fenced = !is_fenced;
        }
        words_of_line(line, at, is_fenced || bare.starts_with('#'), &mut words);
        at += line.len();
    }
    words
}

fn words_of_line<'a>(line: &'a str, at: usize, is_any: bool, words: &mut Vec<Word<'a>>) {
    let mut begins = true;
    let mut idx = 0;
    while let Some(c) = line[idx..].chars().next() {
        if !c.is_alphanumeric() {
            let goes_on =
                c.is_whitespace() || matches!(c, ',' | ')' | '-' | '–' | '—' | '&' | '+' | '\'' | '’');
            begins = begins || !goes_on;
            idx += c.len_utf8();
            continue;
        }
        let rest = &line[idx..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && !JOINS.contains(&c)).unwrap_or(rest.len());
        let text = rest[..end].trim_end_matches(JOINS);
        words.push(Word { at: at + idx, text, is_any: is_any || begins });
        // The number of a list's item is no beginning of a sentence yet.
        begins = begins && text.bytes().all(|b| b.is_ascii_digit());
        idx += text.len();
    }
}

fn is_number(text: &str) -> bool {
    text.len() >= COUNTED_DIGITS && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_name(word: &Word<'_>) -> bool {
    !word.is_any
        && word.text.starts_with(char::is_uppercase)
        && word.text.chars().all(|c| c.is_alphabetic() || c == '-')
        && word.text.chars().filter(|c| *c != '-').count() >= NAME_LETTERS
        // Capitals alone are loud or an abbreviation.
        && word.text.chars().any(char::is_lowercase)
}

/// Whether a capital tells names from other words there.
fn tells_names(words: &[Word<'_>]) -> bool {
    let n_words = words.iter().filter(|word| word.text.starts_with(char::is_alphabetic)).count();
    let n_names = words.iter().filter(|word| is_name(word)).count();
    let has_small = words.iter().any(|word| word.text.starts_with(char::is_lowercase));
    has_small && (n_words < MANY_WORDS || n_names * 5 <= n_words)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::counted("it has 455 rows for 47 people", &["455", "47"])]
    #[case::one_digit("within 3 days", &[])]
    #[case::each_once("47 and 47.", &["47"])]
    #[case::dates_and_times("on 2026-11-20 at 14:30, or 2026-11-20T14:30Z", &[])]
    #[case::found_by_their_shape("1,450 euros, 16GB, 47%, #4711, 123456789, src/a-47.rs", &[])]
    #[case::in_code("```\n455 Rows of Berlin\n```", &["455"])]
    #[case::in_an_error("error: it has 455 rows", &["455"])]
    #[case::within_a_sentence("we met Anna in Lisbon", &["Anna", "Lisbon"])]
    #[case::possessive("it is Anna's, not Anna-Lena's", &["Anna", "Anna-Lena"])]
    #[case::accents("we met Érico and Ångström", &["Érico", "Ångström"])]
    #[case::beginnings("Anna came. Bob left! Carl: \"Dora\"\nEmil\n- Fritz\n1. Gerd\n2) Hans\n(Ida) went", &[])]
    #[case::heading("## The Next Steps\nand so on", &[])]
    #[case::too_short("so I and Bo did", &[])]
    #[case::loud("that is VERY bad", &[])]
    #[case::all_capitalised("The Third One Best", &[])]
    #[case::no_capitals("wir 東京 で", &[])]
    #[case::parts_of_more("see Foo/Bar and a:Anna and the @Anna", &[])]
    fn numbers_and_names_of_sentences_are_found(#[case] text: &str, #[case] expected: &[&str]) {
        let found: Vec<&str> = loose(text).into_iter().map(|found| found.parts().1).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn where_many_words_have_a_capital_none_is_a_name() {
        let text = "der Hund und die Katze ".repeat(8);
        assert_eq!(loose(&text), []);
        let text = format!("we met Anna there {}", "and so on ".repeat(12));
        assert_eq!(loose(&text), [Loose::Name("Anna")]);
    }
}
