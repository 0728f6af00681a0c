//! Logs: text on a terminal, fields in systemd's journal, or JSON. Only our own crates log: libraries log what they carry,
//! including message texts and tokens, and our adapters report failures themselves.

mod held;
mod lines;

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, ParseError, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::log::held::Stderr;
use crate::log::lines::{Lines, Shape};
use cairn_config::{Environment, LogFormat};

pub use held::HeldLog;

/// What journald files our lines under: `journalctl -t cairn`.
const IDENTIFIER: &str = "cairn";

/// What the targets of our own crates begin with.
const OURS: &str = "cairn";

/// The running log. Its level changes while everything runs.
#[derive(Clone)]
pub struct LogHandle {
    filter: reload::Handle<EnvFilter, Registry>,
    level: Arc<Mutex<String>>,
}

impl LogHandle {
    /// From here on lines are written by these directives: a level, or `info,cairn_store=debug`.
    ///
    /// # Errors
    /// The directives cannot be read; the level stays as it was.
    pub fn set_level(&self, level: &str) -> Result<(), ParseError> {
        let filter = EnvFilter::try_new(level)?;
        // It fails only when the log was never installed, because another one is; then there is nothing to change.
        if self.filter.reload(filter).is_ok() {
            level.clone_into(&mut self.level.lock());
        }
        Ok(())
    }

    pub fn level(&self) -> String {
        self.level.lock().clone()
    }
}

/// Starts logging, panics included. A second call changes nothing.
///
/// # Errors
/// The directives of `level` cannot be read.
pub fn start(level: &str, format: LogFormat, env: &dyn Environment) -> Result<LogHandle, ParseError> {
    let to =
        choose(format, is_journal(env), std::io::stderr().is_terminal() && console::colors_enabled_stderr());
    let (lines, fallen_back) = layer(to);
    let (filter, handle) = reload::Layer::new(EnvFilter::try_new(level)?);
    let lines = lines.with_filter(filter_fn(is_ours).and(filter));
    let libraries = LibraryWarnings.with_filter(filter_fn(|metadata| !is_ours(metadata)));
    let started = tracing_subscriber::registry().with(lines).with(libraries).try_init().is_ok();
    if started {
        std::panic::set_hook(Box::new(log_panic));
        if let Some(error) = fallen_back {
            tracing::warn!(%error, "systemd's journal cannot be reached; logging to stderr as JSON");
        }
    }
    Ok(LogHandle { filter: handle, level: Arc::new(Mutex::new(level.to_owned())) })
}

/// Logs where a panic happened. Its message may quote what people wrote, so it is for debugging only.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place =
        panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    tracing::error!(place, thread, "panicked: a bug; please report it with this line");
    if let Some(words) = panic.payload_as_str() {
        tracing::debug!(place, words, "what the panic said");
    }
}

/// Where lines go, and how they look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Stderr(Shape),
    Journald,
}

/// `is_journal`: stderr leads to systemd's journal; `colours`: it is a terminal that shows them.
fn choose(format: LogFormat, is_journal: bool, colours: bool) -> To {
    match format {
        LogFormat::Auto if is_journal => To::Journald,
        LogFormat::Auto => To::Stderr(Shape::Text { colours }),
        LogFormat::Text => To::Stderr(Shape::Text { colours: false }),
        LogFormat::Json => To::Stderr(Shape::Json),
        LogFormat::Journald => To::Journald,
    }
}

/// Whether stderr leads to the journal: systemd says by `$JOURNAL_STREAM` which device and inode do.
fn is_journal(env: &dyn Environment) -> bool {
    let Some(stream) = env.var("JOURNAL_STREAM") else { return false };
    let Ok(stat) = rustix::fs::fstat(std::io::stderr()) else { return false };
    stream.to_str() == Some(&format!("{}:{}", stat.st_dev, stat.st_ino))
}

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// The layer that writes; with the reason, where the journal was meant and cannot be reached.
fn layer(to: To) -> (Boxed, Option<std::io::Error>) {
    match to {
        To::Stderr(shape) => (Lines::new(shape, || Stderr).boxed(), None),
        To::Journald => match tracing_journald::layer() {
            Ok(journald) => (as_fields(journald).boxed(), None),
            Err(error) => (Lines::new(Shape::Json, || Stderr).boxed(), Some(error)),
        },
    }
}

/// Fields by their own names (`TURN`, `CHANNEL`), and priorities as `journalctl -p` means them.
fn as_fields(journald: tracing_journald::Layer) -> tracing_journald::Layer {
    use tracing_journald::{Priority, PriorityMappings};
    journald.with_field_prefix(None).with_syslog_identifier(IDENTIFIER.to_owned()).with_priority_mappings(
        PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() },
    )
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(OURS)
}

/// Counts what libraries warn of, since nobody reads it.
struct LibraryWarnings;

impl<S: Subscriber> Layer<S> for LibraryWarnings {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let library = metadata.target().split("::").next().unwrap_or_default().to_owned();
        let level = metadata.level().as_str().to_ascii_lowercase();
        metrics::counter!("cairn_library_warnings_total", "library" => library, "level" => level)
            .increment(1);
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }
}

#[cfg(test)]
mod tests;
