//! Text for the terminal: made harmless, cut to a width.

use console::{measure_text_width, truncate_str};

/// One line without control characters: what people or models wrote may not move the cursor.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    plain(&words.join(" "))
}

/// Without control characters other than line breaks and tabs.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Cut to so many columns, with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    truncate_str(text, width, "…").into_owned()
}

/// Columns that a text takes on the terminal.
pub(crate) fn columns(text: &str) -> usize {
    measure_text_width(text)
}

/// Thousands in groups: `12,345`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share in percent: `63.4 %`.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// `1 entry`, `2 entries`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// Date and time to the minute, in UTC.
pub(crate) fn minute(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// The date, in UTC.
pub(crate) fn day(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(one_line("a\u{1b}[2J\n\tb  c"), "a[2J b c");
    }

    #[test]
    fn thousands_are_grouped() {
        for (n, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), expected);
        }
    }

    #[test]
    fn wide_characters_count_twice_when_cut() {
        assert_eq!(columns(&cut("漢字漢字", 5)), 5);
    }
}
