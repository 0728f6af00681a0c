//! Options that every command takes, and values that many take.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_types::memory::MemoryKind;
use cairn_types::ports::Clock as _;
use cairn_types::text::when::When;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::inside::Inside;
use cairn_config::clock::SystemClock;

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Configuration file [default: $CAIRN_CONFIG, $CONFIGURATION_DIRECTORY/config.toml, ./config.toml,
    /// $XDG_CONFIG_HOME/cairn/config.toml, else built-in defaults]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// State folder [default: $CAIRN_STATE, $STATE_DIRECTORY, $XDG_DATA_HOME/cairn]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub state: Option<PathBuf>,
    /// Print data as JSON (logs, for `run`)
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// What opens a state where no daemon runs; none: only a running daemon can be asked.
    #[arg(skip)]
    pub inside: Option<Arc<dyn Inside>>,
}

/// A channel on the command line.
#[derive(Debug, Clone, Args)]
pub struct ChannelArg {
    /// Channel: a bare local name, or agent/platform/chat[/thread]
    #[arg(value_name = "C")]
    pub channel: String,
}

/// Whose words, and from when: what `history` and `search` take.
#[derive(Debug, Args)]
pub struct SaidArgs {
    /// Only from this time on: 2h or 3d (ago), today, yesterday, 2026-11-20, 2026-11-20T14:30Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub since: Option<When>,
    /// Only up to this time; a day includes all of it
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub until: Option<When>,
    /// Only messages of this person: PLATFORM/USER, or the displayed name
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
}

impl SaidArgs {
    pub fn params(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("since", self.since.map(|when| when.from.to_string())),
            ("until", self.until.map(|when| when.to.to_string())),
            ("user", self.user.clone()),
        ]
    }
}

/// A whole number from `low` to `high`. The option must allow negative numbers, or clap takes one for an option.
pub fn number(low: u64, high: u64) -> impl TypedValueParser<Value = u64> {
    move |text: &str| {
        let range =
            if high == u64::MAX { format!("of at least {low}") } else { format!("from {low} to {high}") };
        let number = text.parse::<i128>().ok().and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("must be a whole number {range}"))
    }
}

/// What `--limit` takes.
pub fn limit() -> impl TypedValueParser<Value = u64> {
    number(1, 10_000)
}

/// What `--importance` takes.
pub fn importance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "must be from 0 to 1, such as 0.7".to_owned())
}

/// What `--kind` of a memory takes.
pub fn kind() -> impl TypedValueParser<Value = MemoryKind> {
    let names = MemoryKind::ALL.map(MemoryKind::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse().map_err(std::io::Error::other))
}

/// Text that is not blank.
pub fn words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// What `--since` and `--until` take.
pub fn when(text: &str) -> Result<When, String> {
    When::read(text, SystemClock.now())
}

/// A person's name.
pub fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err("write a name on one line, such as ann".to_owned());
    }
    Ok(text.to_owned())
}
