//! How long a server asks us to wait, by the headers and by the body of its refusal.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// A larger number is no wait: most likely a point in time.
const WAIT_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

/// Lists and objects within each other in which a wait is looked for; Google's are in the fifth and the sixth.
const DEPTH_MAX: usize = 6;

/// How long the server asks us to wait: milliseconds, seconds, or a date. A date counts from the server's own `Date`,
/// so that neither our clock nor its error matters; without one it says nothing.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(wait);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Some(wait) = seconds(value, 1.0) {
        return Some(wait);
    }
    let at = http_date(value)?;
    let now = http_date(text(DATE.as_str())?)?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

fn http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// The longest wait that a body asks for: by a field of its own, as Google's `retryDelay` and others' `retry_after`, or in
/// `words`. Told in whole seconds, rounded up: who comes a moment too early is refused again.
pub(super) fn of_body(body: &Value, words: &str) -> Option<Duration> {
    let secs = of_fields(body, DEPTH_MAX).into_iter().chain(of_words(words)).reduce(f64::max)?;
    wait(secs.ceil())
}

fn wait(secs: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(secs).ok().filter(|wait| *wait <= WAIT_MAX)
}

/// The longest wait, in seconds, that a field names.
fn of_fields(value: &Value, depth: usize) -> Option<f64> {
    let depth = depth.checked_sub(1)?;
    let longest = |waits: &mut dyn Iterator<Item = f64>| waits.reduce(f64::max);
    match value {
        Value::Array(list) => longest(&mut list.iter().filter_map(|value| of_fields(value, depth))),
        Value::Object(fields) => longest(&mut fields.iter().filter_map(|(name, value)| {
            of_field(name, value).filter(|secs| wait(*secs).is_some()).or_else(|| of_fields(value, depth))
        })),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn of_field(name: &str, value: &Value) -> Option<f64> {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let unit = match name.as_str() {
        "retryafter" | "retryafterseconds" | "retryaftersecs" | "retryin" | "retrydelay"
        | "retrydelayseconds" | "quotaresetdelay" => 1.0,
        "retryafterms" | "retrydelayms" => 0.001,
        _ => return None,
    };
    match value {
        Value::Number(number) => Some(number.as_f64()? * unit),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => Some(number * unit),
            Err(_) => duration(&text.to_lowercase()),
        },
        // A duration of protobuf.
        Value::Object(fields) => fields.get("seconds")?.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

/// What stands before the wait in a sentence: "Please retry in 9.66s", "try again in 1m30s", "wait 20 seconds".
const ASKS: &[&str] = &[
    "again in ",
    "again after ",
    "retry in ",
    "retry after ",
    "retrying in ",
    "wait ",
    "available in ",
    "resets in ",
    "reset in ",
    "reset after ",
];

/// What may stand between that and the wait.
const FILLERS: &[&str] = &["about ", "approximately ", "at least ", "another ", "for ", "~"];

/// The longest wait, in seconds, that a sentence in lower case asks for.
fn of_words(plain: &str) -> Option<f64> {
    let waits =
        ASKS.iter().flat_map(|ask| plain.match_indices(ask).map(|(at, ask)| &plain[at + ask.len()..]));
    let waits = waits.filter_map(|mut rest| {
        while let Some(after) = FILLERS.iter().find_map(|filler| rest.strip_prefix(filler)) {
            rest = after;
        }
        duration(rest)
    });
    waits.filter(|secs| wait(*secs).is_some()).reduce(f64::max)
}

/// The seconds of the duration with which a text begins: "8.66s", "1m30s", "2 minutes and 5 seconds"; a number alone has
/// seconds.
fn duration(text: &str) -> Option<f64> {
    let (mut secs, mut rest) = (None, text);
    loop {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { return secs };
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            // A date, or a time of day.
            _ if after.starts_with(['-', ':', '/']) => return None,
            _ => return secs.or(Some(number)),
        };
        secs = Some(secs.unwrap_or(0.0) + number * unit);
        rest = after[letters..].trim_start_matches([',', ' ']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_read_out_of_a_sentence() {
        let cases = [
            ("please retry in 8.660853464s.", Some(9)),
            ("rate limit reached: limit 15000, used 11972. please try again in 7.289s. visit x", Some(8)),
            ("try again in 850ms", Some(1)),
            ("please try again in 1m30s", Some(90)),
            ("please try again in 1h12m3.6s. need more?", Some(4_324)),
            ("retry after 60 seconds", Some(60)),
            ("retry after 60", Some(60)),
            ("please wait 2 minutes and 5 seconds before the next one", Some(125)),
            ("wait for about 3 min, or retry in 20 s", Some(180)),
            ("your quota resets in 2 days, 1 hour", Some(2 * 86_400 + 3_600)),
            ("please wait before trying again", None),
            ("try again after 2026-11-28 10:00", None),
            ("try again in a while, 5 people wait", None),
            ("retry after 1764300000", None),
            ("try again in 1.2.3 s", None),
            ("", None),
        ];
        for (words, secs) in cases {
            assert_eq!(of_body(&Value::Null, words), secs.map(Duration::from_secs), "{words}");
        }
    }

    #[test]
    fn a_wait_is_read_out_of_a_field() {
        let cases = [
            // https://ai.google.dev/gemini-api/docs/rate-limits, as google.rpc.RetryInfo.
            (
                json!({"error": {"code": 429, "details": [
                    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "x"}]},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
                ]}}),
                Some(37),
            ),
            (json!([{"error": {"details": [{"retryDelay": "1.5s"}]}}]), Some(2)),
            (json!({"error": {"details": [{"retryDelay": {"seconds": 12, "nanos": 5}}]}}), Some(12)),
            (json!({"error": {"details": [{"metadata": {"quotaResetDelay": "2h3m"}}]}}), Some(7_380)),
            // Discord-like and FastAPI servers.
            (json!({"message": "slow down", "retry_after": 4.2}), Some(5)),
            (json!({"error": {"metadata": {"retry_after_seconds": 11}}}), Some(11)),
            (json!({"retry_after_ms": 1_200}), Some(2)),
            (json!({"retryAfter": "30"}), Some(30)),
            (json!({"retry_after": 1_764_300_000_u64}), None),
            (json!({"retry_after": -3, "retry_in": "soon"}), None),
            (json!({"a": {"b": {"c": {"d": {"e": {"f": {"retry_after": 3}}}}}}}), None),
            (json!({"error": "retry_after"}), None),
        ];
        for (body, secs) in cases {
            assert_eq!(of_body(&body, ""), secs.map(Duration::from_secs), "{body}");
        }
        let body = json!({"retry_delay": "8s"});
        assert_eq!(
            of_body(&body, "please retry in 9.1s"),
            Some(Duration::from_secs(10)),
            "the longer counts"
        );
    }
}
