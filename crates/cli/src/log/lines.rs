//! Lines on stderr, one an event: text for people, or JSON with every field at the top. What the spans around an event carry
//! (turn, channel, agent, run) stands in its line as if it were its own, once.

use std::fmt::{self, Write as _};
use std::io::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use cairn_core::window::is_hidden;
use cairn_types::ports::Clock as _;

use cairn_api::text::plain_json;
use cairn_config::clock::SystemClock;

const MESSAGE: &str = "message";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text { colours: bool },
    Json,
}

/// Writes events as lines to what `open` gives.
pub(super) struct Lines<O> {
    shape: Shape,
    open: O,
}

impl<O, W> Lines<O>
where
    O: Fn() -> W,
    W: Write,
{
    pub(super) fn new(shape: Shape, open: O) -> Self {
        Self { shape, open }
    }
}

/// Fields with their values, each name once.
#[derive(Default)]
struct Fields(Vec<(&'static str, Shown)>);

#[derive(Clone)]
enum Shown {
    Text(String),
    Bare(String),
    Value(Value),
}

impl Fields {
    fn set(&mut self, field: &Field, shown: Shown) {
        let name = field.name();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, value)) => *value = shown,
            None => self.0.push((name, shown)),
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Shown::Value(value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Shown::Value(value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Shown::Value(value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Shown::Value(value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Shown::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, Shown::Bare(format!("{value:?}")));
    }
}

impl<S, O, W> Layer<S> for Lines<O>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    O: Fn() -> W + Send + Sync + 'static,
    W: Write,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().replace(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // From the innermost outwards: what is nearest holds.
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(around) = extensions.get::<Fields>() else { continue };
            for (name, shown) in &around.0 {
                if !fields.knows(name) {
                    fields.0.push((name, shown.clone()));
                }
            }
        }
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let line = match self.shape {
            Shape::Text { colours } => text(SystemClock.now(), *level, target, fields, colours),
            Shape::Json => json(SystemClock.now(), *level, target, fields),
        };
        // Nobody is left to tell when the log itself cannot be written.
        let _closed = (self.open)().write_all(line.as_bytes());
    }
}

/// `2026-05-04T03:02:01.000000Z  INFO cairn_actors::channel: turn ended outcome="answered" turn=…`
fn text(at: Timestamp, level: Level, target: &str, fields: Fields, colours: bool) -> String {
    let mut line = String::with_capacity(192);
    let (dim, plain) = if colours { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
    let colour = if colours { colour_of(level) } else { "" };
    let _ = write!(line, "{dim}{at:.6}{plain} {colour}{level:>5}{plain} {dim}{target}:{plain}");
    let (message, others): (Vec<_>, Vec<_>) = fields.0.into_iter().partition(|(name, _)| *name == MESSAGE);
    for (_, shown) in message {
        let _ = write!(line, " {}", Tame(&shown.into_words()));
    }
    for (name, shown) in others {
        let _ = write!(line, " {dim}{name}={plain}");
        let _ = match shown {
            Shown::Text(words) => write!(line, "{}", Tame(&format!("{words:?}"))),
            shown => write!(line, "{}", Tame(&shown.into_words())),
        };
    }
    line.push('\n');
    line
}

fn colour_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

/// `{"timestamp":…,"level":…,"target":…,"message":…,"turn":…}`
fn json(at: Timestamp, level: Level, target: &str, fields: Fields) -> String {
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), format!("{at:.6}").into());
    object.insert("level".to_owned(), level.as_str().into());
    object.insert("target".to_owned(), target.into());
    for (name, shown) in fields.0 {
        // A field that is named as one of ours would hide it.
        let name = if object.contains_key(name) { format!("{name}_") } else { name.to_owned() };
        let value = match shown {
            Shown::Value(value) => value,
            shown => shown.into_words().into(),
        };
        object.insert(name, value);
    }
    let mut line = plain_json(&Value::Object(object).to_string());
    line.push('\n');
    line
}

impl Shown {
    fn into_words(self) -> String {
        match self {
            Self::Text(text) | Self::Bare(text) => text,
            Self::Value(value) => value.to_string(),
        }
    }
}

/// A text on one line: nothing in it ends the line, steers a terminal or hides.
struct Tame<'a>(&'a str);

impl fmt::Display for Tame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() || is_hidden(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}
