//! Words marked in a text.

use maud::{Markup, html};

use cairn_api::text::plain;

/// A text with words marked, where each stands by itself and is no part of a longer one.
pub(super) fn marked(text: &str, words: &[&str]) -> Markup {
    html! {
        @for (part, is_marked) in parts(text, words) {
            @if is_marked { mark { (plain(part)) } } @else { (plain(part)) }
        }
    }
}

/// A text with parts of it marked, by the bytes at which they start and end, in order. What does not fit the text is left out.
pub(super) fn at_places(text: &str, places: &[(usize, usize)]) -> Markup {
    let (mut parts, mut at) = (Vec::new(), 0);
    for (from, to) in places {
        if *from < at || to <= from {
            continue;
        }
        let (Some(before), Some(found)) = (text.get(at..*from), text.get(*from..*to)) else { continue };
        parts.extend([(before, false), (found, true)]);
        at = *to;
    }
    parts.push((&text[at..], false));
    html! {
        @for (part, is_marked) in parts {
            @if is_marked { mark { (plain(part)) } } @else { (plain(part)) }
        }
    }
}

fn parts<'t>(text: &'t str, words: &[&str]) -> Vec<(&'t str, bool)> {
    let there: Vec<&str> =
        words.iter().copied().filter(|word| !word.is_empty() && text.contains(word)).collect();
    let mut found: Vec<(usize, usize)> = there
        .iter()
        .flat_map(|word| text.match_indices(word).map(|(at, word)| (at, at + word.len())))
        .filter(|(from, to)| stands_alone(text, *from, *to))
        .collect();
    // Where they overlap, the one that begins first and is the longest.
    found.sort_unstable_by_key(|(from, to)| (*from, std::cmp::Reverse(*to)));
    let (mut parts, mut at) = (Vec::new(), 0);
    for (from, to) in found {
        if from < at {
            continue;
        }
        parts.extend([(&text[at..from], false), (&text[from..to], true)]);
        at = to;
    }
    parts.push((&text[at..], false));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

fn stands_alone(text: &str, from: usize, to: usize) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (first, last) = (text[from..].chars().next(), text[..to].chars().next_back());
    let (before, after) = (text[..from].chars().next_back(), text[to..].chars().next());
    let goes_on = is_word(before) && is_word(first) || is_word(last) && is_word(after);
    !goes_on
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("gate 4711, not 47", &["47", "4711"], "gate [4711], not [47]")]
    #[case("14711 4711a", &["4711"], "14711 4711a")]
    #[case("/etc/cairn.toml", &["cairn", "/etc/cairn.toml"], "[/etc/cairn.toml]")]
    #[case("ä4711ö é", &["4711", "é"], "ä4711ö [é]")]
    #[case("nothing", &[], "nothing")]
    #[case("aaa", &[""], "aaa")]
    fn whole_words_are_marked_and_the_longest_wins(
        #[case] text: &str,
        #[case] words: &[&str],
        #[case] shown: &str,
    ) {
        let told =
            |(part, is_marked): (&str, bool)| if is_marked { format!("[{part}]") } else { part.to_owned() };
        assert_eq!(parts(text, words).into_iter().map(told).collect::<String>(), shown);
    }

    #[test]
    fn what_is_marked_is_text_too() {
        assert_eq!(marked("a <b> c", &["<b>"]).into_string(), "a <mark>&lt;b&gt;</mark> c");
    }
}
