//! Tests of the configuration.

mod errors;
mod languages;
mod log;
mod lookup;
mod networks;
mod origins;
mod prompts;
mod redact;
mod reference;
mod resolve;
mod schema;
mod secrets;

use std::path::Path;

use super::env::FixedEnvironment;
use super::{ConfigError, Loaded};

/// Resolves a text as if it stood in `/etc/cairn/config.toml`.
fn load(text: &str) -> Result<Loaded, ConfigError> {
    super::from_text(Path::new("/etc/cairn/config.toml"), text, &FixedEnvironment::new("/"))
}

/// The message of a text that does not resolve.
fn error(text: &str) -> String {
    match load(text) {
        Ok(_) => panic!("resolves, though it should not:\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn fine(text: &str) -> Loaded {
    load(text).unwrap_or_else(|error| panic!("{error}"))
}
