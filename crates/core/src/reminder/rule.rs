//! Recurrences: five cron fields, read in a time zone.
//!
//! | field | values | names |
//! | --- | --- | --- |
//! | minute | 0–59 | |
//! | hour | 0–23 | |
//! | day of the month | 1–31 | |
//! | month | 1–12 | `jan` … `dec` |
//! | day of the week | 0–7, both 0 and 7 are Sunday | `sun` … `sat` |
//!
//! A field is a list of numbers, ranges and steps: `*`, `5`, `1-5`, `*/15`, `1,3,5`. Where both days are restricted, either of
//! them is enough.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use cairn_types::texts::{Key, Saying};

/// Minutes between two times of a recurrence, at the least.
pub const PERIOD_MIN: u64 = 10;

/// Days in which the next time is looked for: 29 February may be eight years away.
const DAYS_MAX: usize = 8 * 366 + 1;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

pub(super) const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A recurrence. Each field has a bit for each of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Either of the two kinds of days is enough.
    either_day: bool,
}

impl Rule {
    /// Reads five fields.
    ///
    /// # Errors
    /// A field cannot be read, no day has that date, or two times are less than [`PERIOD_MIN`] minutes apart. The message says
    /// which.
    pub fn read(text: &str) -> Result<Self, Saying> {
        let mut fields = text.split_whitespace();
        let five = [fields.next(), fields.next(), fields.next(), fields.next(), fields.next()];
        let ([Some(minute), Some(hour), Some(day), Some(month), Some(weekday)], None) = (five, fields.next())
        else {
            return Err(Key::RuleFields.with("text", super::shortened(text)));
        };
        let weekdays = field(weekday, 0, 7, &WEEKDAYS)?;
        let rule = Self {
            minutes: field(minute, 0, 59, &[])?,
            hours: field(hour, 0, 23, &[])?,
            days: field(day, 1, 31, &[])?,
            months: field(month, 1, 12, &MONTHS)?,
            // Sunday is both 0 and 7.
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        rule.check_period()?;
        let some_day = Timestamp::UNIX_EPOCH;
        rule.next(some_day, &TimeZone::UTC).ok_or(Key::RuleNoDay)?;
        Ok(rule)
    }

    /// Times within an hour are far enough apart, also from those of the next hour.
    fn check_period(&self) -> Result<(), Saying> {
        let minutes: Vec<u64> = (0..60).filter(|minute| has(self.minutes, *minute)).collect();
        let around = minutes.first().map(|first| first + 60);
        let next = minutes.iter().copied().skip(1).chain(around);
        if minutes.iter().zip(next).any(|(minute, next)| next - minute < PERIOD_MIN) {
            return Err(Key::RuleTooOften.with("min", PERIOD_MIN));
        }
        Ok(())
    }

    /// The first time after `after`. Local times that the clocks skip are taken as much later as the clocks are put forward;
    /// of local times that the clocks repeat, the first counts, and for a rule of every hour both.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut date = after.to_zoned_datetime(zone.clone()).date();
        for _ in 0..DAYS_MAX {
            if self.has_day(date) {
                let times = (0..24).flat_map(|hour| (0..60).map(move |minute| (hour, minute)));
                let times = times
                    .filter(|(hour, minute)| has(self.hours, *hour) && has(self.minutes, *minute))
                    .map(|(hour, minute)| date.at(hour as i8, minute as i8, 0, 0));
                let times = times.flat_map(|time| self.instants(time, zone)).flatten();
                if let Some(found) = times.filter(|at| *at > after).min() {
                    return Some(found);
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn has_day(&self, date: jiff::civil::Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset() as u64;
        let (day, weekday) = (has(self.days, date.day() as u64), has(self.weekdays, weekday));
        has(self.months, date.month() as u64) && if self.either_day { day || weekday } else { day && weekday }
    }

    fn instants(&self, time: DateTime, zone: &TimeZone) -> [Option<Timestamp>; 2] {
        let local = zone.to_ambiguous_timestamp(time);
        let repeats = matches!(local.offset(), AmbiguousOffset::Fold { .. });
        let is_hourly = self.hours.count_ones() == 24;
        [local.compatible().ok(), local.later().ok().filter(|_| repeats && is_hourly)]
    }
}

fn has(bits: u64, value: u64) -> bool {
    bits >> value & 1 == 1
}

/// Reads a field: a bit for each value.
fn field(text: &str, least: u64, most: u64, names: &[&str]) -> Result<u64, Saying> {
    let bad = || Key::RuleField.with("text", super::shortened(text)).with("least", least).with("most", most);
    let number = |text: &str| {
        let lower = text.to_ascii_lowercase();
        let named = names.iter().position(|name| *name == lower).map(|idx| idx as u64 + least);
        let number = named.or_else(|| text.parse().ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(bad)
    };
    let mut bits = 0;
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0).ok_or_else(bad)?),
            None => (item, 1_u64),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, if names == WEEKDAYS { 6 } else { most }),
            Some((from, to)) => (number(from)?, number(to)?),
            None if item.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(bad());
        }
        for value in (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            bits |= 1 << value;
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The next times after an instant, in UTC.
    fn next(rule: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let (rule, zone) = (Rule::read(rule).unwrap(), TimeZone::get(zone).unwrap());
        let mut at: Timestamp = after.parse().unwrap();
        let mut times = Vec::new();
        for _ in 0..n {
            at = rule.next(at, &zone).unwrap();
            times.push(at.to_string());
        }
        times
    }

    #[rstest]
    #[case::every_day("0 9 * * *", "2026-11-28T10:00:00Z", &["2026-11-29T09:00:00Z", "2026-11-30T09:00:00Z"])]
    #[case::the_same_minute("0 9 * * *", "2026-11-28T09:00:00Z", &["2026-11-29T09:00:00Z"])]
    #[case::a_second_before("0 9 * * *", "2026-11-28T08:59:59Z", &["2026-11-28T09:00:00Z"])]
    #[case::weekdays("30 7 * * mon-fri", "2026-11-27T08:00:00Z", &["2026-11-30T07:30:00Z"])]
    #[case::sunday("0 0 * * 7", "2026-11-28T00:00:00Z", &["2026-11-29T00:00:00Z"])]
    #[case::steps("*/20 8-9 * * *", "2026-11-28T08:30:00Z", &["2026-11-28T08:40:00Z", "2026-11-28T09:00:00Z"])]
    #[case::either_day("0 0 13 * fri", "2026-11-01T00:00:00Z", &["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z"])]
    #[case::leap_day("0 0 29 feb *", "2026-11-28T00:00:00Z", &["2028-02-29T00:00:00Z"])]
    #[case::a_century_without("0 0 29 2 *", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"])]
    #[case::long_months("0 0 31 * *", "2026-11-28T00:00:00Z", &["2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"])]
    fn times_follow_one_another(#[case] rule: &str, #[case] after: &str, #[case] times: &[&str]) {
        assert_eq!(next(rule, "UTC", after, times.len()), times);
    }

    // In Berlin clocks went from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25; in New York on
    // 2026-03-08 and 2026-11-01. On Lord Howe Island it is half an hour, in the Azores it is at midnight.
    #[rstest]
    #[case::same_local_time("0 9 * * *", "Europe/Berlin", "2026-03-28T07:00:00Z",
        &["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-03-30T07:00:00Z"])]
    #[case::and_back("0 9 * * *", "Europe/Berlin", "2026-10-24T06:00:00Z",
        &["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"])]
    #[case::skipped_time("30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z",
        &["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"])]
    #[case::repeated_time_once("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"])]
    #[case::skipped_hour_of_an_hourly_rule("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z",
        &["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"])]
    #[case::repeated_hour_of_an_hourly_rule("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z",
        &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"])]
    #[case::new_york("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"])]
    #[case::half_an_hour("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z",
        &["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"])]
    #[case::at_midnight("15 0 * * *", "Atlantic/Azores", "2026-03-28T12:00:00Z",
        &["2026-03-29T01:15:00Z", "2026-03-30T00:15:00Z"])]
    fn daylight_saving_moves_no_local_time_and_loses_none(
        #[case] rule: &str,
        #[case] zone: &str,
        #[case] after: &str,
        #[case] times: &[&str],
    ) {
        assert_eq!(next(rule, zone, after, times.len()), times);
    }

    #[rstest]
    #[case("0 9 * *", "five fields")]
    #[case("0 9 * * * *", "five fields")]
    #[case("60 9 * * *", "`60`")]
    #[case("0 24 * * *", "`24`")]
    #[case("0 9 0 * *", "`0`")]
    #[case("0 9 * * someday", "`someday`")]
    #[case("0 9 5-1 * *", "`5-1`")]
    #[case("*/0 9 * * *", "`*/0`")]
    #[case("0 9 30 2 *", "no day")]
    #[case("* * * * *", "10 minutes")]
    #[case("*/7 * * * *", "10 minutes")]
    #[case("0,55 9 * * *", "10 minutes")]
    fn other_rules_are_refused(#[case] rule: &str, #[case] why: &str) {
        let refused = Rule::read(rule).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
