//! Times as people write them on the command line and in calls: an instant, a day, or how long ago.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan};

/// What a time that somebody wrote covers: a day has a first and a last instant, of anything else both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl When {
    /// Reads `2026-11-20T14:30:00Z`, `2026-11-20 14:30` and `2026-11-20` (UTC), `today`, `yesterday`, or how long ago, such as
    /// `2h`.
    ///
    /// # Errors
    /// The text is none of these. The message says what to write.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, String> {
        let text = text.trim();
        let today = now.to_zoned_datetime(TimeZone::UTC).date();
        let day = match text {
            "today" => Some(today),
            "yesterday" => today.yesterday().ok(),
            // A date with a time of day behind it is one for jiff, too.
            text => text.parse::<Date>().ok().filter(|_| !text.contains(':')),
        };
        let found = match day {
            Some(day) => of_day(day),
            None => instant(text, now).map(|at| Self { from: at, to: at }),
        };
        found.ok_or_else(|| {
            format!(
                "`{text}` is no time; write it like 2h or 3d (ago), today, yesterday, 2026-11-20 or \
                 2026-11-20T14:30Z"
            )
        })
    }
}

fn of_day(day: Date) -> Option<When> {
    let start = |day: Date| day.to_zoned_datetime(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let to = start(day.tomorrow().ok()?)?.checked_sub(1.nanosecond()).ok()?;
    Some(When { from: start(day)?, to })
}

fn instant(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    // Without an offset it is UTC, as all times are shown.
    if let Ok(at) = text.trim_end_matches(['Z', 'z']).parse::<DateTime>() {
        return at.to_zoned_datetime(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    }
    now.checked_sub(length(text.strip_suffix("ago").unwrap_or(text))?).ok()
}

/// Reads a length of time above zero, such as `3d` or `12h`. A day has 24 hours.
pub(crate) fn length(text: &str) -> Option<SignedDuration> {
    let relative = SpanRelativeTo::days_are_24_hours();
    let read = text.parse::<Span>().and_then(|span| span.to_duration(relative));
    read.ok().filter(SignedDuration::is_positive)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<When, String> {
        When::read(text, "2026-11-23T07:15:00Z".parse().unwrap())
    }

    #[rstest]
    #[case::hours("2h", "2026-11-23T05:15:00Z")]
    #[case::in_words("2 hours ago", "2026-11-23T05:15:00Z")]
    #[case::days("3d", "2026-11-20T07:15:00Z")]
    #[case::weeks("1w", "2026-11-16T07:15:00Z")]
    #[case::timestamp("2026-11-20T14:30:05Z", "2026-11-20T14:30:05Z")]
    #[case::of_a_zone("2026-11-20T14:30:00+02:00", "2026-11-20T12:30:00Z")]
    #[case::as_it_is_shown("2026-11-20 14:30", "2026-11-20T14:30:00Z")]
    #[case::without_seconds("2026-11-20T14:30Z", "2026-11-20T14:30:00Z")]
    fn an_instant_is_where_it_begins_and_ends(#[case] text: &str, #[case] at: &str) {
        let at = at.parse().unwrap();
        assert_eq!(read(text), Ok(When { from: at, to: at }));
    }

    #[rstest]
    #[case("today", "2026-11-23")]
    #[case("yesterday", "2026-11-22")]
    #[case(" 2026-02-28 ", "2026-02-28")]
    fn a_day_goes_to_its_last_instant(#[case] text: &str, #[case] day: &str) {
        let from = format!("{day}T00:00:00Z").parse().unwrap();
        let to = format!("{day}T23:59:59.999999999Z").parse().unwrap();
        assert_eq!(read(text), Ok(When { from, to }));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::a_word("soon")]
    #[case::no_unit("5")]
    #[case::to_come("-2h")]
    #[case::no_such_day("2026-02-30")]
    #[case::before_all_times("99999y")]
    fn what_is_no_time_is_told_how_to_write_one(#[case] text: &str) {
        let error = read(text).unwrap_err();
        assert!(error.contains("2h") && error.contains(&format!("`{text}`")), "{error}");
    }
}
