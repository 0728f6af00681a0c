//! What every command takes, and what many take.

use std::path::PathBuf;

use clap::Args;

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
