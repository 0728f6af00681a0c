//! Words that carry meaning: split, lowercased, stemmed, without stop words. Memories are compared by them and digests cover
//! them.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// Words without a meaning of their own. Pronouns are not among them ("he likes tea" is not "she likes tea"), nor
/// negations, nor `will` and `may`, which are also names.
const STOP_WORDS: [&str; 77] = [
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but",
    "by", "can", "could", "did", "do", "does", "doing", "done", "each", "else", "for", "from", "get", "gets",
    "got", "had", "has", "have", "having", "how", "if", "in", "into", "is", "just", "of", "on", "or", "out",
    "quite", "really", "shall", "should", "so", "some", "such", "than", "that", "the", "then", "there",
    "these", "this", "those", "though", "to", "too", "up", "very", "was", "well", "were", "what", "when",
    "where", "which", "while", "who", "whom", "why", "with", "would",
];

/// Pronouns and chat fillers: they tell persons apart, but no topic.
const PRONOUNS: [&str; 50] = [
    "go", "going", "haha", "he", "hello", "her", "hers", "hey", "hi", "him", "his", "i", "it", "its",
    "itself", "know", "like", "lol", "lot", "me", "mine", "much", "my", "myself", "oh", "ok", "okay", "one",
    "our", "ours", "she", "sure", "thank", "thanks", "their", "theirs", "them", "they", "thing", "think",
    "us", "we", "will", "wow", "yeah", "yes", "you", "your", "yours", "yourself",
];

/// Length of the longest word of the lists: longer ones are not looked up.
const LISTED_MAX: usize = 8;

/// Longest word that is stemmed, in bytes. No word of a language is longer; a longer one stays as it is written, since
/// stemming takes time quadratic in the length.
const STEMMED_MAX: usize = 64;

fn is_in(list: &[&str], word: &str) -> bool {
    word.len() <= LISTED_MAX && list.binary_search(&word).is_ok()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The word, lowercased and stemmed.
    pub stem: String,
    /// It is written with a capital inside a sentence: a name, most likely.
    pub name: bool,
    pub number: bool,
}

/// The words of a text that tell it from others, in order: lowercased, without accents, stemmed as English, without stop
/// words.
///
/// Runs of scripts that write no gaps between words (Chinese, Japanese, Thai and their like) come as pairs of
/// characters. Negations are kept: `n't` becomes `not`.
pub fn content_words(text: &str) -> Vec<String> {
    terms(text, |_| true).into_iter().map(|term| term.stem).collect()
}

/// The words of a text that name its topics: as [`content_words`], without pronouns and chat fillers.
pub fn topic_words(text: &str) -> Vec<String> {
    topic_terms(text).into_iter().map(|term| term.stem).collect()
}

/// The terms of [`topic_words`], with what their spelling shows; `text` is one sentence.
pub fn topic_terms(text: &str) -> Vec<Term> {
    terms(text, |word| !is_in(&PRONOUNS, word))
}

fn terms(text: &str, keep: impl Fn(&str) -> bool) -> Vec<Term> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut terms = Vec::new();
    for (place, raw) in raw_words(text).enumerate() {
        let mut lower = raw.to_lowercase();
        if lower.contains('’') {
            lower = lower.replace('’', "'");
        }
        let (word, negated) = without_contraction(&lower);
        let number = raw.bytes().any(|byte| byte.is_ascii_digit());
        if raw.chars().next().is_some_and(is_gapless) {
            push_pairs(&lower, &mut terms);
        } else if !word.is_empty() && !is_in(&STOP_WORDS, word) && keep(word) {
            let name = place > 0 && !number && raw.chars().next().is_some_and(char::is_uppercase);
            let word = unaccented(word);
            let as_written = number || word.len() > STEMMED_MAX;
            let stem = if as_written { word.into_owned() } else { stemmer.stem(&word).into_owned() };
            terms.push(Term { stem, name, number });
        }
        if negated {
            terms.push(Term { stem: "not".to_owned(), name: false, number: false });
        }
    }
    terms
}

/// A word without the accents of its Latin and Greek letters: people leave them out. Elsewhere marks make other letters.
fn unaccented(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return word.into();
    }
    let has_accents =
        |c: char| matches!(c, '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{1e00}'..='\u{1fff}');
    let mut plain = String::with_capacity(word.len());
    for c in word.chars() {
        if has_accents(c) {
            decompose_canonical(c, |part| plain.extend(Some(part).filter(|part| !is_combining_mark(*part))));
        } else if !('\u{300}'..='\u{36f}').contains(&c)
            || plain.ends_with(|last: char| !last.is_ascii() && !has_accents(last))
        {
            plain.push(c);
        }
    }
    plain.into()
}

/// Cuts a text into words: letters and digits, with apostrophes inside words, and points inside numbers.
pub fn raw_words(text: &str) -> impl Iterator<Item = &str> {
    RawWords { rest: text }
}

/// The words of a text, unchanged, each with its start and end in bytes.
pub fn words_in_place(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut words = RawWords { rest: text };
    std::iter::from_fn(move || {
        let word = words.next()?;
        let end = text.len() - words.rest.len();
        Some((end - word.len(), end, word))
    })
}

struct RawWords<'a> {
    rest: &'a str,
}

impl<'a> Iterator for RawWords<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.rest.find(|c: char| is_word(c))?;
        let text = &self.rest[start..];
        let mut end = text.len();
        let mut chars = text.char_indices().peekable();
        let mut before = '\0';
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map_or('\0', |(_, next)| *next);
            let inside = match c {
                '\'' | '’' => before.is_alphabetic() && next.is_alphabetic(),
                '.' | ',' | ':' => before.is_ascii_digit() && next.is_ascii_digit(),
                _ => is_word(c) && (at == 0 || is_gapless(before) == is_gapless(c)),
            };
            if !inside {
                end = at;
                break;
            }
            before = c;
        }
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// A letter, a digit, or a mark that belongs to one.
pub fn is_word(c: char) -> bool {
    // Vowel signs and other marks of the Indian and neighbouring scripts are no letters to `char`.
    c.is_alphanumeric() || ('\u{900}'..='\u{109f}').contains(&c) || ('\u{300}'..='\u{36f}').contains(&c)
}

/// The script writes no gaps between words.
pub fn is_gapless(c: char) -> bool {
    matches!(u32::from(c),
        0xe00..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn push_pairs(run: &str, terms: &mut Vec<Term>) {
    let mut push = |stem| terms.push(Term { stem, name: false, number: false });
    let chars: Vec<char> = run.chars().collect();
    if chars.len() == 1 {
        push(run.to_owned());
    }
    chars.windows(2).for_each(|pair| push(pair.iter().collect()));
}

/// The word without `'s`, `'ll` and the like, and whether it had an `n't` (or is `cannot`).
fn without_contraction(word: &str) -> (&str, bool) {
    match word {
        "won't" => return ("will", true),
        "can't" | "cannot" | "cant" => return ("can", true),
        "dont" => return ("do", true),
        _ => {}
    }
    if let Some(word) = word.strip_suffix("n't") {
        return (word, true);
    }
    let endings = ["'s", "'ll", "'ve", "'re", "'m", "'d"];
    (endings.iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word), false)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{LISTED_MAX, PRONOUNS, STOP_WORDS, content_words, topic_words, words_in_place};

    #[test]
    fn stop_words_are_as_their_search_expects() {
        assert!(STOP_WORDS.is_sorted());
        assert!(PRONOUNS.is_sorted());
        let longest = STOP_WORDS.iter().chain(&PRONOUNS).map(|word| word.len()).max();
        assert_eq!(longest, Some(LISTED_MAX));
    }

    #[rstest]
    #[case::endings("She likes walking the dogs", "she like walk dog")]
    #[case::negation("I don't like tea, cannot stand it", "i not like tea not stand it")]
    #[case::curly_apostrophe("He won’t come", "he will not come")]
    #[case::possessive("Anna's bike", "anna bike")]
    #[case::numbers("Flight LH440 at 10:30, 3.5 hours.", "flight lh440 10:30 3.5 hour")]
    #[case::chinese("我喜欢绿茶", "我喜 喜欢 欢绿 绿茶")]
    #[case::mixed("买milk吧", "买 milk 吧")]
    #[case::hindi("मुझे चाय", "मुझे चाय")]
    #[case::accents("Zoé's café in Zürich", "zoe cafe zurich")]
    #[case::marks_behind_their_letters("Zoe\u{301}, Ελλάδα", "zoe ελλαδα")]
    #[case::letters_of_their_own("йод и\u{306}од", "йод и\u{306}од")]
    #[case::nothing("to be, or … !", "")]
    fn words_that_carry_meaning_are_kept(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(content_words(text).join(" "), expected);
    }

    #[test]
    fn what_is_too_long_for_a_word_is_not_stemmed() {
        let long = format!("{}ing", "ay".repeat(100_000));
        assert_eq!(content_words(&long), [long.as_str()]);
    }

    #[test]
    fn words_are_found_in_their_place() {
        let text = "Ünder Anna's bike: 3.5 – 买milk";
        let found: Vec<_> = words_in_place(text).map(|(from, to, _)| &text[from..to]).collect();
        assert_eq!(found, ["Ünder", "Anna's", "bike", "3.5", "买", "milk"]);
    }

    #[test]
    fn topics_leave_out_pronouns() {
        assert_eq!(topic_words("I think she does not like my blue car"), ["not", "blue", "car"]);
    }
}
