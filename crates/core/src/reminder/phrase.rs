//! Times as people write them: when, and what is left of the text behind it.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use cairn_types::texts::{Key, Saying};

use super::rule::{Rule, WEEKDAYS};

/// When a reminder fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    Once(Timestamp),
    /// By five cron fields.
    Every(String),
}

/// Reads a time at the beginning of a text. Returns it with the rest of the text.
///
/// # Errors
/// The text begins with no time. The message says how times are written.
pub fn read<'t>(text: &'t str, now: Timestamp, zone: &TimeZone) -> Result<(When, &'t str), Saying> {
    let text = text.trim();
    let text = text.strip_prefix("on ").unwrap_or(text).trim_start();
    let mut words = Words(text);
    let first = words.next().to_lowercase();
    let found = match first.as_str() {
        "in" => length(&mut words).and_then(|length| now.checked_add(length).ok()).map(When::Once),
        "every" => return every(words, now, zone),
        "daily" => time(&mut words).map(|time| When::Every(format!("{} * * *", fields(time)))),
        _ => once(text, &mut words, now, zone),
    };
    if let Some(found) = found {
        return Ok((found, words.0));
    }
    let mut words = Words(text);
    let five: Vec<&str> = (0..5).map(|_| words.next()).collect();
    if five
        .iter()
        .all(|field| field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*/,-".contains(&byte)))
        && five[0].starts_with(|c: char| c.is_ascii_digit() || c == '*')
        && !five[4].is_empty()
    {
        let rule = five.join(" ");
        Rule::read(&rule)?;
        return Ok((When::Every(rule), words.0));
    }
    Err(Key::ReminderHow.into())
}

/// `every day 9:00`, `every monday at 9:00`, `every hour`, or five fields.
fn every<'t>(words: Words<'t>, now: Timestamp, zone: &TimeZone) -> Result<(When, &'t str), Saying> {
    let mut rest = words;
    let unit = rest.next().to_lowercase();
    if unit == "hour" {
        let minute = now.to_zoned_datetime(zone.clone()).minute();
        return Ok((When::Every(format!("{minute} * * * *")), rest.0));
    }
    let days = match unit.as_str() {
        "day" => Some("* * *".to_owned()),
        "weekday" => Some("* * 1-5".to_owned()),
        unit => weekday(unit).map(|day| format!("* * {day}")),
    };
    match (days, time(&mut rest)) {
        (Some(days), Some(time)) => Ok((When::Every(format!("{} {days}", fields(time))), rest.0)),
        (None, _) if unit.starts_with(|c: char| c.is_ascii_digit() || c == '*') => read(words.0, now, zone),
        _ => Err(Key::ReminderHow.into()),
    }
}

/// An instant, a date or a day with a time, or a time: its next occurrence.
fn once(text: &str, words: &mut Words<'_>, now: Timestamp, zone: &TimeZone) -> Option<When> {
    let first = Words(text).next();
    if let Ok(at) = first.parse::<Timestamp>() {
        return Some(When::Once(at));
    }
    if let Some((date, of_day)) = first.split_once('T')
        && let (Ok(date), Ok(of_day)) = (date.parse::<Date>(), of_day.parse::<Time>())
    {
        return local(date, of_day, zone).map(When::Once);
    }
    let today = now.to_zoned_datetime(zone.clone()).date();
    let lower = first.to_lowercase();
    let named = match lower.as_str() {
        "today" => Some(today),
        "tomorrow" => today.tomorrow().ok(),
        text => text.parse::<Date>().ok(),
    };
    if let Some(date) = named {
        return local(date, time(words)?, zone).map(When::Once);
    }
    if let Some(day) = weekday(&lower) {
        let of_day = time(words)?;
        let ahead = (day + 7 - today.weekday().to_sunday_zero_offset() as u64) % 7;
        let date = today.checked_add((ahead as i64).days()).ok()?;
        let at = local(date, of_day, zone)?;
        let at = if at > now { at } else { local(date.checked_add(7.days()).ok()?, of_day, zone)? };
        return Some(When::Once(at));
    }
    let of_day = if lower == "at" { time(words)? } else { clock(&lower)? };
    let at = local(today, of_day, zone)?;
    let at = if at > now { at } else { local(today.tomorrow().ok()?, of_day, zone)? };
    Some(When::Once(at))
}

fn local(date: Date, of_day: Time, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(date.to_datetime(of_day)).compatible().ok()
}

/// `18:30`, or `at 18:30`.
fn time(words: &mut Words<'_>) -> Option<Time> {
    let word = words.next();
    clock(if word.eq_ignore_ascii_case("at") { words.next() } else { word })
}

fn clock(word: &str) -> Option<Time> {
    let (hour, minute) = word.trim_end_matches(',').split_once(':')?;
    if hour.len() > 2 || minute.len() != 2 {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// The first two cron fields of a time of day.
fn fields(of_day: Time) -> String {
    format!("{} {}", of_day.minute(), of_day.hour())
}

fn weekday(word: &str) -> Option<u64> {
    let full = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let known = |names: &[&str]| names.iter().position(|name| *name == word);
    known(&full).or_else(|| known(&WEEKDAYS)).map(|idx| idx as u64)
}

/// `20m`, `2h30m`, `3 days`, `1 hour 30 minutes`.
fn length(words: &mut Words<'_>) -> Option<SignedDuration> {
    let mut sum = part(words)?;
    loop {
        let mut more = *words;
        match part(&mut more) {
            Some(length) => sum = sum.checked_add(length)?,
            None => return Some(sum),
        }
        *words = more;
    }
}

/// `2h30m` or `3 days`.
fn part(words: &mut Words<'_>) -> Option<SignedDuration> {
    let mut rest = *words;
    let mut text = rest.next();
    let mut sum = SignedDuration::ZERO;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        sum = of_unit(text, rest.next())?;
        text = "";
    }
    while !text.is_empty() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let letters = text.bytes().skip(digits).take_while(u8::is_ascii_alphabetic).count();
        if digits == 0 || letters == 0 {
            return None;
        }
        sum = sum.checked_add(of_unit(&text[..digits], &text[digits..digits + letters])?)?;
        text = &text[digits + letters..];
    }
    *words = rest;
    sum.is_positive().then_some(sum)
}

fn of_unit(number: &str, unit: &str) -> Option<SignedDuration> {
    let number: i64 = number.parse().ok()?;
    let minutes = match unit.to_ascii_lowercase().as_str() {
        "m" | "min" | "mins" | "minute" | "minutes" => 1,
        "h" | "hour" | "hours" => 60,
        "d" | "day" | "days" => 24 * 60,
        "w" | "week" | "weeks" => 7 * 24 * 60,
        _ => return None,
    };
    Some(SignedDuration::from_secs(number.checked_mul(minutes)?.checked_mul(60)?))
}

/// What is left of a text.
#[derive(Debug, Clone, Copy)]
struct Words<'t>(&'t str);

impl<'t> Words<'t> {
    /// The next word; empty at the end.
    fn next(&mut self) -> &'t str {
        let text = self.0.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest.trim_start();
        word
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// A Saturday, at 10:00 in Berlin.
    const NOW: &str = "2026-11-28T09:00:00Z";

    fn read_in(text: &str, zone: &str) -> Result<(String, String), String> {
        let (when, rest) = read(text, NOW.parse().unwrap(), &TimeZone::get(zone).unwrap())?;
        let when = match when {
            When::Once(at) => at.to_string(),
            When::Every(rule) => rule,
        };
        Ok((when, rest.to_owned()))
    }

    #[rstest]
    #[case("in 20m tea", "2026-11-28T09:20:00Z")]
    #[case("in 2h30m tea", "2026-11-28T11:30:00Z")]
    #[case("In 1 hour 30 minutes tea", "2026-11-28T10:30:00Z")]
    #[case("in 2 weeks tea", "2026-12-12T09:00:00Z")]
    #[case("at 18:30 tea", "2026-11-28T17:30:00Z")]
    #[case("18:30 tea", "2026-11-28T17:30:00Z")]
    #[case("at 9:00 tea", "2026-11-29T08:00:00Z")]
    #[case("tomorrow 9:00 tea", "2026-11-29T08:00:00Z")]
    #[case("tomorrow at 9:00, tea", "2026-11-29T08:00:00Z")]
    #[case("on monday 9:00 tea", "2026-11-30T08:00:00Z")]
    #[case("saturday 9:00 tea", "2026-12-05T08:00:00Z")]
    #[case("saturday 11:00 tea", "2026-11-28T10:00:00Z")]
    #[case("2026-12-24 18:00 tea", "2026-12-24T17:00:00Z")]
    #[case("2026-12-24T18:00 tea", "2026-12-24T17:00:00Z")]
    #[case("2026-12-24T18:00:00Z tea", "2026-12-24T18:00:00Z")]
    #[case("2027-03-28 02:30 tea", "2027-03-28T01:30:00Z")]
    #[case("every day 09:00 tea", "0 9 * * *")]
    #[case("daily at 09:05 tea", "5 9 * * *")]
    #[case("every weekday at 9:00 tea", "0 9 * * 1-5")]
    #[case("every Monday 9:00 tea", "0 9 * * 1")]
    #[case("every hour tea", "0 * * * *")]
    #[case("*/20 9-17 * * mon-fri tea", "*/20 9-17 * * mon-fri")]
    #[case("every 0 9 1 * * tea", "0 9 1 * *")]
    fn a_time_is_read_and_the_rest_is_the_text(#[case] text: &str, #[case] when: &str) {
        assert_eq!(read_in(text, "Europe/Berlin"), Ok((when.to_owned(), "tea".to_owned())));
    }

    #[rstest]
    #[case("")]
    #[case("tea")]
    #[case("in tea")]
    #[case("in 5 tea")]
    #[case("in 99999999999999h tea")]
    #[case("at 25:00 tea")]
    #[case("at tea")]
    #[case("every tea")]
    #[case("every day tea")]
    #[case("tomorrow tea")]
    #[case("9 tea and cake for two")]
    fn other_texts_are_no_time(#[case] text: &str) {
        assert!(read_in(text, "UTC").is_err(), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}", zone in prop::sample::select(vec!["UTC", "Europe/Berlin"])) {
            if let Ok((_, rest)) = read_in(&text, zone) {
                prop_assert!(text.ends_with(&rest));
            }
        }
    }
}
