//! Whether a text names a time, and whether that time depends on the day when it was said.

use crate::words::raw_words;

const MONTHS: [&str; 22] = [
    "january",
    "february",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "januar",
    "februar",
    "märz",
    "juni",
    "juli",
    "oktober",
    "dezember",
    "janvier",
    "février",
    "juillet",
    "enero",
    "diciembre",
];

const DAYS: [&str; 20] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "lundi",
    "mardi",
    "jeudi",
    "vendredi",
    "lunes",
    "viernes",
];

const RELATIVE: [&str; 12] = [
    "today",
    "tonight",
    "tomorrow",
    "yesterday",
    "heute",
    "morgen",
    "gestern",
    "demain",
    "hier",
    "mañana",
    "ayer",
    "hoy",
];

const SPANS: [&str; 9] = ["week", "weekend", "month", "year", "summer", "winter", "spring", "autumn", "days"];

/// It names a day, a month, a date, or a time seen from the day when it was said.
pub(super) fn names_a_time(text: &str) -> bool {
    is_relative(text)
        || words(text).iter().any(|word| MONTHS.contains(&word.as_str()) || is_date(word))
        || {
            let words = words(text);
            let march_or_may = |pair: &[String]| {
                matches!(pair[0].as_str(), "march" | "may") && starts_with_digit(&pair[1])
                    || matches!(pair[1].as_str(), "march" | "may") && starts_with_digit(&pair[0])
            };
            words.windows(2).any(march_or_may)
        }
        || text.split_whitespace().any(is_iso_date)
}

/// Its time depends on the day when it was said: "tomorrow", "next week", "on Monday", "two years ago".
pub(super) fn is_relative(text: &str) -> bool {
    let words = words(text);
    let spans = |word: &String| SPANS.contains(&word.as_str()) || DAYS.contains(&word.as_str());
    words
        .iter()
        .any(|word| RELATIVE.contains(&word.as_str()) || DAYS.contains(&word.as_str()) || word == "ago")
        || words
            .windows(2)
            .any(|pair| matches!(pair[0].as_str(), "next" | "last" | "this" | "coming") && spans(&pair[1]))
}

fn words(text: &str) -> Vec<String> {
    raw_words(text).map(str::to_lowercase).collect()
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// `12.05` or a year.
fn is_date(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() == 4 && digits == 4 && (word.starts_with("19") || word.starts_with("20"))
}

fn is_iso_date(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_matches(|c: char| !c.is_ascii_digit()).split('-').collect();
    matches!(parts[..], [year, month, day] if year.len() == 4 && month.len() == 2 && day.len() == 2)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{is_relative, names_a_time};

    #[rstest]
    #[case::tomorrow("to Rome tomorrow", true, true)]
    #[case::weekday("to Rome on Friday", true, true)]
    #[case::next_week("to Rome next week", true, true)]
    #[case::month("to Rome in June", true, false)]
    #[case::may_with_a_day("to Rome on 12 May", true, false)]
    #[case::may_without("to Rome if I may", false, false)]
    #[case::iso("to Rome on 2026-05-12.", true, false)]
    #[case::year("to Rome in 2027", true, false)]
    #[case::nothing("to Rome with Ben", false, false)]
    fn times_are_told_apart(#[case] text: &str, #[case] time: bool, #[case] relative: bool) {
        assert_eq!((names_a_time(text), is_relative(text)), (time, relative));
    }
}
