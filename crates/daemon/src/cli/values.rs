//! What options take, so that a wrong value is told by its option.

use cairn_core::memory::MemoryKind;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A whole number from `low` to `high`. The option must allow negative numbers, lest one be taken for an option.
pub(crate) fn number(low: u64, high: u64) -> impl TypedValueParser<Value = u64> {
    move |text: &str| {
        let range = if high == u64::MAX { format!("from {low} on") } else { format!("from {low} to {high}") };
        let number = text.parse::<i128>().ok().and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("it is a whole number {range}"))
    }
}

/// What `--limit` takes.
pub(crate) fn limit() -> impl TypedValueParser<Value = u64> {
    number(1, 10_000)
}

/// What `--importance` takes.
pub(crate) fn importance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "it goes from 0 to 1, such as 0.7".to_owned())
}

/// What `--kind` of a memory takes.
pub(crate) fn kind() -> impl TypedValueParser<Value = MemoryKind> {
    let names = MemoryKind::ALL.map(MemoryKind::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse().map_err(std::io::Error::other))
}

/// Words that somebody is to read.
pub(crate) fn words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty: write something".to_owned()) } else { Ok(text.to_owned()) }
}

/// The name of whoever talks.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err("write a name on one line, such as ann".to_owned());
    }
    Ok(text.to_owned())
}
