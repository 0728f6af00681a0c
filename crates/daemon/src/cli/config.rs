//! `cairn config`: the configuration, checked or shown.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::failure::Failure;
use super::{Global, out};
use crate::config::{Config, Loaded, ProcessEnvironment};

/// Subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a config file; exit code 2 and the fault with its line when it is wrong
    #[command(after_help = "Examples:\n  cairn config check\n  cairn config check /etc/cairn/config.toml")]
    Check {
        /// The file [default: the one that the daemon would read]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print a JSON schema of the config file, for editors that complete and check TOML
    #[command(after_help = "\
Example:
  cairn config schema > config.schema.json

Editors with taplo (Even Better TOML and others) take it by a first line in
the config file:
  #:schema ./config.schema.json")]
    Schema,
    /// Show the configuration in effect, all values filled in, without secrets
    #[command(after_help = "Examples:\n  cairn config show\n  cairn config show --json")]
    Show,
}

/// `cairn config …`.
pub(crate) fn config(global: Global, command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => {
            let loaded = load(&file.or(global.config))?;
            loaded.check_tokens()?;
            if global.json {
                let file = loaded.file.as_ref().map(|file| file.display().to_string());
                return out::json(&json!({ "ok": true, "file": file, "warnings": loaded.warnings }));
            }
            for warning in &loaded.warnings {
                out::note(&format!("warning: {warning}"));
            }
            let name =
                loaded.file.map_or_else(|| "built-in defaults".to_owned(), |f| f.display().to_string());
            out::line(&format!("{name}: fine"))
        }
        ConfigCommand::Schema => out::json(&crate::config::schema()),
        ConfigCommand::Show => {
            let loaded = load(&global.config)?;
            if global.json { out::json(&loaded.config) } else { out::raw(loaded.show().as_bytes()) }
        }
    }
}

fn load(file: &Option<PathBuf>) -> Result<Loaded, Failure> {
    Ok(Config::load(file.as_deref(), &ProcessEnvironment)?)
}
