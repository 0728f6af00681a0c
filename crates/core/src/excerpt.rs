//! The part of a text that stands around the words that were searched for.

/// What stands where a text was cut.
const CUT: char = '…';

/// So much of a text, in characters, around most of the words that were found; on one line. `marks`: where these words are, in
/// bytes, in order.
pub fn around(text: &str, marks: &[(usize, usize)], max_chars: usize) -> String {
    shown(text, range(text, marks, max_chars))
}

/// The bytes of [`around`]; never within a character, and not within a word where the room allows it.
pub fn range(text: &str, marks: &[(usize, usize)], max_chars: usize) -> (usize, usize) {
    let mut bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let n_chars = bounds.len();
    if n_chars <= max_chars {
        return (0, text.len());
    }
    bounds.push(text.len());
    let from = first_char(&bounds[..n_chars], marks, max_chars);
    let (begin, end) = (bounds[from], bounds[from + max_chars]);
    let (word_begin, word_end) = (word_from(text, begin), word_to(text, end));
    // One word may be longer than the room.
    if word_begin < word_end { (word_begin, word_end) } else { (begin, end) }
}

/// A part of a text on one line, with a mark where it was cut.
pub fn shown(text: &str, (begin, end): (usize, usize)) -> String {
    let words: Vec<&str> = text.get(begin..end).unwrap_or_default().split_whitespace().collect();
    let mut shown = words.join(" ");
    if begin > 0 {
        shown.insert(0, CUT);
    }
    if end < text.len() {
        shown.push(CUT);
    }
    shown
}

/// The first character of the window that has the most of the words, with the rest of the room on both sides of them.
fn first_char(starts: &[usize], marks: &[(usize, usize)], max_chars: usize) -> usize {
    let char_of = |byte: usize| starts.partition_point(|start| *start < byte);
    let at: Vec<(usize, usize)> = marks.iter().map(|(from, to)| (char_of(*from), char_of(*to))).collect();
    let mut best = (0, 0, 0);
    let mut first = 0;
    for (last, (_, to)) in at.iter().enumerate() {
        while first < last && to.saturating_sub(at[first].0) > max_chars {
            first += 1;
        }
        let n = last - first + 1;
        if n > best.0 {
            best = (n, at[first].0, *to);
        }
    }
    let (_, from, to) = best;
    let spare = max_chars.saturating_sub(to.saturating_sub(from));
    let last = starts.len() - max_chars;
    from.saturating_sub(spare / 2).min(last)
}

/// The beginning of the next word, if a cut is within one.
fn word_from(text: &str, at: usize) -> usize {
    let within = at > 0 && !text[..at].ends_with(char::is_whitespace);
    if !within {
        return at;
    }
    text[at..].find(char::is_whitespace).map_or(at, |gap| at + gap)
}

/// The end of the word before, if a cut is within one.
fn word_to(text: &str, at: usize) -> usize {
    let within = at < text.len() && !text[at..].starts_with(char::is_whitespace);
    if !within {
        return at;
    }
    text[..at].rfind(char::is_whitespace).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TEXT: &str =
        "We took the old ferry to the harbour at noon.\nThe bread was stale. At night the ferry was late.";

    fn marks(text: &str, words: &[&str]) -> Vec<(usize, usize)> {
        let found = words.iter().flat_map(|word| text.match_indices(word));
        let mut marks: Vec<_> = found.map(|(at, word)| (at, at + word.len())).collect();
        marks.sort_unstable();
        marks
    }

    #[rstest]
    #[case::whole(&["ferry"], 200, "We took the old ferry to the harbour at noon. The bread was stale. At night the ferry was late.")]
    #[case::in_the_middle(&["bread"], 24, "…The bread was…")]
    #[case::at_the_end(&["late"], 20, "…the ferry was late.")]
    #[case::nothing_is_marked(&[], 22, "We took the old ferry…")]
    #[case::where_most_is(&["ferry", "night", "late"], 34, "…At night the ferry was late.")]
    fn an_excerpt_stands_around_what_was_found(
        #[case] words: &[&str],
        #[case] max_chars: usize,
        #[case] shown: &str,
    ) {
        assert_eq!(around(TEXT, &marks(TEXT, words), max_chars), shown);
    }

    #[test]
    fn no_text_breaks_it() {
        let long = "é".repeat(1_000);
        for text in ["", " ", "é\u{1f980}", &long, "a\u{0}b c", &"\n".repeat(999)] {
            for (from, to) in [(0, 1), (1, 2), (900, 9_000), (usize::MAX - 1, usize::MAX)] {
                for max_chars in [0, 1, 7, 300] {
                    let shown = around(text, &[(from, to)], max_chars);
                    assert!(
                        shown.chars().count() <= max_chars.min(text.chars().count()) + 2,
                        "{text}: {shown}"
                    );
                }
            }
        }
    }
}
