//! Options that every command takes, and values that many take.

use std::path::PathBuf;

use cairn_core::memory::MemoryKind;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::wiring::Tools;

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Configuration file [default: $CAIRN_CONFIG, $CONFIGURATION_DIRECTORY/config.toml, ./config.toml,
    /// $XDG_CONFIG_HOME/cairn/config.toml, else built-in defaults]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// State folder [default: $CAIRN_STATE, $STATE_DIRECTORY, $XDG_DATA_HOME/cairn]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) state: Option<PathBuf>,
    /// Print data as JSON (logs, for `run`)
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Tools beside the built-in ones.
    #[arg(skip)]
    pub(crate) tools: Tools,
}

/// A channel on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChannelArg {
    /// Channel: a bare local name, or agent/platform/chat[/thread]
    #[arg(value_name = "C")]
    pub(crate) channel: String,
}

/// A whole number from `low` to `high`. The option must allow negative numbers, or clap takes one for an option.
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

/// Text that is not blank.
pub(crate) fn words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty: write something".to_owned()) } else { Ok(text.to_owned()) }
}

/// A person's name.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err("write a name on one line, such as ann".to_owned());
    }
    Ok(text.to_owned())
}
