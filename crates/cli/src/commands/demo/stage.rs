//! Where the demo shows itself: lines that scroll, and on a terminal the window below them, drawn again in its place.

use console::{Term, style};

use crate::failure::Failure;
use crate::{draw, out};
use cairn_api::records::ContextRecord;
use cairn_api::show::bar::REGIONS;
use cairn_api::text::{columns, counted, cut, painted};

/// Widest that a line gets: what is wider is hard to read.
const WIDTH_MAX: usize = 100;

/// Columns of what stands before the words of a message: its day and its author.
const MARGIN: usize = 15;

/// Columns of the time behind a message.
const TIME: usize = 8;

pub(super) struct Stage {
    /// None: lines alone, for a pipe or a terminal that cannot move its cursor.
    term: Option<Term>,
    /// The window as it is shown.
    drawn: Vec<String>,
    /// What is being answered: shown above the window.
    announced: String,
}

impl Stage {
    pub(super) fn new() -> Self {
        let term = Term::buffered_stdout();
        let moves = term.is_term() && term.features().colors_supported();
        Self { term: moves.then_some(term), drawn: Vec::new(), announced: String::new() }
    }

    /// A window is shown that can be drawn again.
    pub(super) fn has_window(&self) -> bool {
        !self.drawn.is_empty()
    }

    pub(super) fn is_live(&self) -> bool {
        self.term.is_some()
    }

    pub(super) fn width() -> usize {
        out::width().min(WIDTH_MAX)
    }

    /// Prints lines; a window that is shown stays below them.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        let Some(term) = &self.term else { return out::text(&format!("{text}\n")) };
        term.clear_last_lines(self.drawn.len())?;
        term.write_line(&painted(text))?;
        self.drawn.iter().try_for_each(|line| term.write_line(line))?;
        Ok(term.flush()?)
    }

    /// What is to be shown above the window from its next drawing on.
    pub(super) fn announce(&mut self, text: String) {
        self.announced = text;
    }

    /// Shows the window as it is now. Nothing in a pipe: [`Self::leave_window`] prints it where it is to stay.
    pub(super) fn draw_window(&mut self, context: &ContextRecord, memories: u64) -> Result<(), Failure> {
        let Some(term) = &self.term else { return Ok(()) };
        let announced = Some(self.announced.clone()).filter(|line| !line.is_empty());
        let lines = announced.into_iter().chain([String::new()]).chain(window(context, memories));
        let lines: Vec<String> = lines.map(|line| painted(&line)).collect();
        if lines != self.drawn {
            term.clear_last_lines(self.drawn.len())?;
            lines.iter().try_for_each(|line| term.write_line(line))?;
            self.drawn = lines;
        }
        Ok(term.flush()?)
    }

    /// Leaves the window where it is: what follows is printed below it.
    pub(super) fn leave_window(&mut self, context: &ContextRecord, memories: u64) -> Result<(), Failure> {
        if self.is_live() {
            self.draw_window(context, memories)?;
            self.drawn.clear();
            return Ok(());
        }
        self.say("")?;
        window(context, memories).iter().try_for_each(|line| self.say(line))
    }
}

/// The window in five lines.
fn window(context: &ContextRecord, memories: u64) -> Vec<String> {
    let width = Stage::width();
    let signs = REGIONS.map(|(name, sign)| format!("{sign} {name}"));
    let mut lines = vec![draw::fill(context)];
    lines.extend(draw::bar(context, width).into_iter().take(2));
    let run = match &context.run {
        Some(run) => format!("{} at work on entries {} to {}", run.id, run.from_seq, run.to_seq),
        None => "no compaction at work".to_owned(),
    };
    let summaries = counted(context.summaries.len() as u64, "summary", "summaries");
    lines.push(format!("  {summaries}, {}, {run}", counted(memories, "memory", "memories")));
    lines.push(format!("  {}", style(signs.join("  ") + "  | thresholds").dim()));
    lines.iter().map(|line| cut(line, width)).collect()
}

/// A message in one line: day, author, words, and how long its answer took.
pub(super) fn message(day: &str, author: &str, words: &str, took: &str) -> String {
    let room = Stage::width().saturating_sub(MARGIN + TIME);
    let words = cut(words, room);
    let gap = " ".repeat(room.saturating_sub(columns(&words)));
    format!(
        "{} {author:<7} {words}{gap}{}",
        style(format!("{day:<6}")).dim(),
        style(format!("{took:>TIME$}")).dim()
    )
}

/// What is told beside the messages, below their words.
pub(super) fn beside(text: &str) -> String {
    let text = cut(text, Stage::width().saturating_sub(MARGIN));
    format!("{:MARGIN$}{}", "", style(text).yellow())
}
