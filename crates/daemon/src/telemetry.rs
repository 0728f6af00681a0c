//! Logs: on stderr, as text or as JSON lines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::LogFormat;

/// Starts logging. `level` is a level, or directives such as `info,cairn_store=debug`. A second call changes nothing.
///
/// # Errors
/// The directives cannot be read.
pub fn start(level: &str, format: LogFormat) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(level)?;
    let ansi = format == LogFormat::Auto && console::colors_enabled_stderr();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    // Only a second start in the same process fails, and then the first goes on.
    let _already_started = match format {
        LogFormat::Auto | LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
