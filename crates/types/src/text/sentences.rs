//! Cuts text into sentences.

/// The sentences of a text, trimmed, none empty, in order. Lines are cut apart too.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| Sentences { rest: line }).map(str::trim).filter(|text| !text.is_empty())
}

struct Sentences<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Sentences<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        // Without the gap before it: it would be walked through at every full stop.
        let text = self.rest.trim_start();
        if text.is_empty() {
            return None;
        }
        let (sentence, rest) = text.split_at(end_of_sentence(text));
        self.rest = rest;
        Some(sentence)
    }
}

/// Length of the first sentence in bytes, its closing marks included.
fn end_of_sentence(line: &str) -> usize {
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '。' | '！' | '？' | '।' | '…' | '!' | '?' | '.' => {}
            _ => continue,
        }
        let mut end = at + c.len_utf8();
        while let Some((next_at, next)) = chars.next_if(|(_, next)| is_closing(*next)) {
            end = next_at + next.len_utf8();
        }
        let wide = matches!(c, '。' | '！' | '？');
        let gap = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        // Inside brackets or quotes, when the sentence goes on behind them.
        let goes_on = line[..end].ends_with([')', '"', '”', '»'])
            && line[end..].trim_start().starts_with(char::is_lowercase);
        let is_point =
            c == '.' && (is_initial_or_number(&line[..at]) || is_day_of_month(&line[..at], &line[end..]));
        if wide || (gap && !goes_on && !is_point) {
            return end;
        }
    }
    line.len()
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        '.' | '!' | '?' | '…' | '。' | '！' | '？' | '"' | '\'' | '”' | '’' | '»' | ')' | '」' | '*' | '_'
    )
}

/// The text before a full stop ends in an initial or the number of a list.
fn is_initial_or_number(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or(before);
    let initial = word.chars().count() == 1 && word != "I" && word.chars().all(char::is_uppercase);
    let list_number = word.len() == before.trim_start().len() && word.bytes().all(|b| b.is_ascii_digit());
    initial || list_number
}

/// How months begin where a point stands behind the day: "am 3. März".
const MONTHS: [&str; 16] = [
    "jan", "feb", "mär", "mar", "apr", "mai", "maj", "jun", "jul", "aug", "sep", "okt", "nov", "dez", "des",
    "dec",
];

/// The full stop stands between a day and its month.
fn is_day_of_month(before: &str, after: &str) -> bool {
    let n_digits = before.bytes().rev().take(3).take_while(u8::is_ascii_digit).count();
    let month: String = after.strip_prefix(' ').unwrap_or_default().chars().take(3).collect();
    (1..=2).contains(&n_digits) && MONTHS.contains(&month.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::sentences;

    #[test]
    fn a_long_gap_before_many_full_stops_costs_no_more_than_its_length() {
        let text = format!("{}{}", " ".repeat(1_000_000), "A. ".repeat(200_000));
        assert_eq!(sentences(&text).count(), 1);
    }

    #[rstest]
    #[case::plain("It rains. We stay in! Do you?", &["It rains.", "We stay in!", "Do you?"])]
    #[case::lines("one\n\n two \n", &["one", "two"])]
    #[case::decimals("It is 3.5 km to example.org now.", &["It is 3.5 km to example.org now."])]
    #[case::initials("On Mondays. J. Roe too.", &["On Mondays.", "J. Roe too."])]
    #[case::days_of_months("Am 3. März um neun. Es sind 3. Dann nicht.", &["Am 3. März um neun.", "Es sind 3.", "Dann nicht."])]
    #[case::list_numbers("1. Buy milk", &["1. Buy milk"])]
    #[case::closing_marks("He said \"no.\" Then (really!) he left...", &["He said \"no.\"", "Then (really!) he left..."])]
    #[case::chinese("我喜欢茶。他不喜欢！真的", &["我喜欢茶。", "他不喜欢！", "真的"])]
    #[case::nothing("  \n ", &[])]
    fn text_is_cut_where_sentences_end(#[case] text: &str, #[case] expected: &[&str]) {
        let found: Vec<_> = sentences(text).collect();
        assert_eq!(found, expected);
    }
}
