//! `cairn config show`: the resolved configuration as TOML.

use std::path::Path;

use super::types::Config;

/// The configuration as TOML that is itself a valid config file, headed by its source.
pub(super) fn show(config: &Config, file: Option<&Path>) -> String {
    let source = match file {
        Some(file) => format!("# resolved from {}\n", file.display()),
        None => "# built-in defaults; no config file was found\n".to_owned(),
    };
    match toml::to_string_pretty(config) {
        Ok(text) => format!("{source}\n{text}"),
        Err(error) => format!("{source}# the configuration cannot be written as TOML: {error}\n"),
    }
}
