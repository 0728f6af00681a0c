//! Logs: on stderr, as text or as JSON lines.

use tracing_subscriber::filter::{FilterFn, ParseError, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::config::LogFormat;

/// Libraries that log what they carry, message texts and tokens among it. Adapters say themselves what fails.
const INDISCREET: [&str; 11] = [
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rmcp",
    "rustls",
    "serenity",
    "teloxide",
    "teloxide_core",
    "tokio_tungstenite",
    "tungstenite",
];

/// Starts logging. `level` is a level, or directives such as `info,cairn_store=debug`. A second call changes nothing.
///
/// # Errors
/// The directives cannot be read.
pub fn start(level: &str, format: LogFormat) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(level)?;
    let ansi = format == LogFormat::Auto && console::colors_enabled_stderr();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    let lines = match format {
        LogFormat::Auto | LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    // Only a second start in the same process fails, and then the first goes on.
    let _already_started =
        tracing_subscriber::registry().with(lines).with(filter).with(discretion()).try_init();
    Ok(())
}

/// Passes over what indiscreet libraries log, whatever the level.
fn discretion() -> FilterFn {
    filter_fn(|metadata| {
        let library = metadata.target().split("::").next().unwrap_or_default();
        !INDISCREET.contains(&library)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_that_log_payloads_are_silent_even_when_the_level_names_them() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::registry()
            .with(fmt::layer().with_writer(move || writer.clone()))
            .with(EnvFilter::try_new("trace,serenity::gateway=trace").unwrap())
            .with(discretion());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "serenity::gateway::shard", "a secret payload");
            tracing::warn!(target: "reqwest::connect", "https://host/bot1:secret/getMe");
            tracing::info!(target: "cairn_daemon", "ready");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert!(text.contains("ready") && !text.contains("secret"), "{text}");
    }
}
