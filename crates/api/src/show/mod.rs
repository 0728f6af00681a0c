//! How records look: each says once, in blocks, what people see of it. The terminal, the page and the chats paint these blocks
//! and escape every span, since its text may be anybody's.

pub mod bar;
mod channel;
mod context;
mod explain;
mod memory;
mod reminders;
mod servers;
mod status;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tools;

use std::fmt::Display;

use cairn_types::ids::{ChannelId, MemoryId, RunId, Seq, SummaryId, TurnId};
use jiff::Timestamp;

use crate::records::{CallOf, LineDiff};
use crate::text::one_line;

pub use self::context::window;
pub use self::status::troubles;
pub use self::summary::summaries;

/// A record for people.
pub trait Show {
    fn show(&self) -> Vec<Block>;
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading; the blocks up to the next one are below it.
    Head(&'static str),
    Facts(Vec<(&'static str, Cell)>),
    /// Each row has as many cells as there are columns. The last one holds the longest text.
    Table {
        caption: &'static str,
        columns: Vec<Column>,
        rows: Vec<Vec<Cell>>,
    },
    /// What somebody wrote, with its line breaks.
    Text(String),
    /// Two versions of what somebody wrote, line by line.
    Diff(Vec<LineDiff>),
    Note(Cell),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// Set flush right, as numbers are.
    pub right: bool,
    /// Shown on a phone and in a chat, too.
    pub narrow: bool,
}

pub type Cell = Vec<Span>;

#[derive(Debug, Clone, PartialEq)]
pub enum Span {
    Words(String),
    Code(String),
    Time(Timestamp),
    /// Something that went wrong.
    Bad(String),
    Link(Target, String),
}

/// What a link leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    Channel(ChannelId),
    Turn(ChannelId, TurnId),
    Entry(ChannelId, Seq),
    Summary(ChannelId, SummaryId),
    Run(ChannelId, RunId),
    /// The request of a model call of a turn or run, by its number.
    Prompt(ChannelId, CallOf, usize),
    Memory(MemoryId),
    /// A tool server, by its id.
    Server(String),
}

impl Column {
    /// Left out where there is little room.
    pub const fn wide(name: &'static str) -> Self {
        Self { name, right: false, narrow: false }
    }

    pub const fn narrow(name: &'static str) -> Self {
        Self { name, right: false, narrow: true }
    }

    #[must_use]
    pub const fn right(self) -> Self {
        Self { right: true, ..self }
    }
}

fn table<const N: usize>(
    caption: &'static str,
    columns: [Column; N],
    rows: impl Iterator<Item = [Cell; N]>,
) -> Block {
    Block::Table { caption, columns: columns.into(), rows: rows.map(Vec::from).collect() }
}

/// A table below its heading; nothing where it has no rows.
fn section<const N: usize>(
    head: &'static str,
    caption: &'static str,
    columns: [Column; N],
    rows: impl Iterator<Item = [Cell; N]>,
) -> Vec<Block> {
    let mut rows = rows.peekable();
    match rows.peek() {
        Some(_) => vec![Block::Head(head), table(caption, columns, rows)],
        None => Vec::new(),
    }
}

fn words(text: impl Display) -> Cell {
    vec![Span::Words(text.to_string())]
}

/// Words, or a dash where there are none.
fn or_dash(text: Option<impl Display>) -> Cell {
    text.map_or_else(|| words("-"), words)
}

fn bad(text: impl Display) -> Cell {
    vec![Span::Bad(text.to_string())]
}

fn time(at: Timestamp) -> Cell {
    vec![Span::Time(at)]
}

fn link(to: Target, text: impl Display) -> Cell {
    vec![Span::Link(to, text.to_string())]
}

fn channel(channel: &ChannelId) -> Cell {
    link(Target::Channel(channel.clone()), channel)
}

/// A channel with what people see as the name of its chat.
fn named_channel(id: &ChannelId, name: Option<&str>) -> Cell {
    let mut cell = channel(id);
    cell.extend(name.map(|name| Span::Words(format!(" ({})", one_line(name)))));
    cell
}

/// A range of entries, with a link to its last.
fn entries(channel: &ChannelId, from: Seq, to: Seq) -> Cell {
    let range = if from == to { format!("entry {to}") } else { format!("entries {from} to {to}") };
    link(Target::Entry(channel.clone(), to), range)
}
