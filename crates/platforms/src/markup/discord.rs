//! Markdown for Discord, which renders it itself: known syntax is kept, and whatever would notify or link is made
//! inert.

use std::ops::Range;

use cairn_types::ids::DISCORD_MESSAGE_MAX;
use cairn_types::ports::FilePart;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Parser, Tag, TagEnd};

use super::table::Table;
use super::{NOTHING, language, options, steers};
use crate::split::code::LongCode;

mod guard;
#[cfg(test)]
mod tests;

/// Most characters per message.
pub const LIMIT: usize = DISCORD_MESSAGE_MAX;

/// `None` if a text fits into one message, else how many bytes of it fit at the most.
fn over(markdown: &str) -> Option<usize> {
    let source = steerless(markdown);
    let rewriter = Rewriter::of(&source);
    rewriter.shown().chars().nth(LIMIT)?;
    let at = rewriter.beyond(LIMIT).filter(|_| source.len() == markdown.len());
    Some(at.unwrap_or(markdown.len()))
}

/// The text in parts that fit into one message each.
pub fn split(markdown: &str) -> Vec<String> {
    crate::split::split(markdown, LIMIT, &over)
}

/// The text without long code blocks, which are sent as files.
pub(crate) fn take_out_code(markdown: &str, long: LongCode) -> (String, Vec<FilePart>) {
    crate::split::code::take_out(markdown, long, LIMIT, &over)
}

/// The first part that [`split`] would return.
pub fn first(markdown: &str) -> Option<String> {
    crate::split::first(markdown, LIMIT, &over)
}

/// A part of a reply as sent to Discord. Never fails, never empty.
pub fn render(markdown: &str) -> String {
    Rewriter::of(&steerless(markdown)).shown()
}

fn steerless(markdown: &str) -> String {
    markdown.chars().filter(|c| !steers(*c)).collect()
}

/// Plain text as Markdown that shows it literally, on one line, inert.
pub(crate) fn literal(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for c in words.chars().filter(|c| !steers(*c)) {
        if matches!(c, '\\' | '*' | '_' | '~' | '|') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    guard::text(&escaped)
}

/// An open link or picture.
struct Link {
    address: String,
    /// The range of its text so far.
    words: Range<usize>,
    /// The number of edits before it.
    edits: usize,
}

/// The replacement for a piece of the source.
enum Shown {
    Text(String),
    Code(String),
}

/// Reads Markdown from top to bottom and collects the edits for Discord.
struct Rewriter<'a> {
    source: &'a str,
    edits: Vec<(Range<usize>, Shown)>,
    links: Vec<Option<Link>>,
    code: Option<(Option<String>, String)>,
    table: Option<Table>,
}

impl<'a> Rewriter<'a> {
    fn of(source: &'a str) -> Self {
        let mut rewriter = Self { source, edits: Vec::new(), links: Vec::new(), code: None, table: None };
        for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
            rewriter.take(event, range);
        }
        if rewriter.written().trim().is_empty() {
            // What shows nothing is shown as it is written.
            rewriter.edits.clear();
        }
        rewriter
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        if matches!(event, Event::End(TagEnd::Link | TagEnd::Image)) {
            self.end_of_link(&range);
        }
        if let Some(Some(link)) = self.links.last_mut() {
            link.words.end = link.words.end.max(range.end);
        }
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                self.code = Some((language(&info), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, code)) = self.code.take() {
                    self.block(range, language.as_deref(), &code);
                }
            }
            Event::Start(Tag::Table(_)) => self.table = Some(Table::default()),
            Event::Start(Tag::TableHead | Tag::TableRow) => self.table.iter_mut().for_each(Table::row),
            Event::Start(Tag::TableCell) => self.table.iter_mut().for_each(Table::cell),
            Event::End(TagEnd::Table) => {
                if let Some(table) = self.table.take() {
                    self.block(range, None, &table.lines());
                }
            }
            Event::Start(Tag::Link { link_type: LinkType::Inline, dest_url, .. }) => {
                self.link(dest_url.into_string(), range.start + 1);
            }
            Event::Start(Tag::Image { link_type: LinkType::Inline, dest_url, .. }) => {
                self.link(dest_url.into_string(), range.start + 2);
            }
            // Autolinks and reference links stay as written.
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => self.links.push(None),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.words(&text),
            Event::Code(text) => {
                self.words(&text);
                if self.table.is_none() {
                    let shown = guard::code(&self.source[range.clone()]);
                    self.edits.push((range, Shown::Code(shown)));
                }
            }
            _ => {}
        }
    }

    /// Collects text inside code or a table; other text is left in place.
    fn words(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
        } else if let Some(cell) = self.table.as_mut().and_then(Table::words) {
            cell.push_str(text);
        }
    }

    /// Replaces a range by a code block.
    fn block(&mut self, range: Range<usize>, language: Option<&str>, code: &str) {
        let written = &self.source[range.clone()];
        let range = range.start..range.start + written.trim_end().len();
        let line = self.source[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let before = &self.source[line..range.start];
        // In a quotation every line needs the quote mark.
        let quote = before.rfind('>').map_or(String::new(), |at| format!("{} ", before[..=at].trim_start()));
        let mut code = guard::code(code.trim_end().trim_start_matches('\n'));
        // In a longer run of backticks one pass leaves another group of three.
        while code.contains("```") {
            code = code.replace("```", "``\u{2060}`");
        }
        let shown = if code.trim().is_empty() {
            String::new()
        } else {
            let lines = code.lines().map(|line| format!("{quote}{line}\n"));
            format!("```{}\n{}{quote}```", language.unwrap_or_default(), lines.collect::<String>())
        };
        self.edits.push((range, Shown::Code(shown)));
    }

    fn link(&mut self, address: String, words: usize) {
        self.links.push(Some(Link { address, words: words..words, edits: self.edits.len() }));
        if self.table.is_none() {
            // What leads the link's text; nothing is taken away so far.
            self.edits.push((words..words, Shown::Text(String::new())));
        }
    }

    /// Shows the address after the link's text, and without a preview.
    fn end_of_link(&mut self, range: &Range<usize>) {
        let Some(Some(link)) = self.links.pop() else { return };
        let address = guard::address(&link.address);
        let written = &self.source[link.words.clone()];
        if let Some(cell) = self.table.as_mut().and_then(Table::words) {
            cell.push_str(&format!(" ({})", link.address));
        } else if written.trim().is_empty() || written == link.address {
            self.edits.truncate(link.edits);
            self.edits.push((range.clone(), Shown::Text(address)));
        } else {
            self.edits[link.edits].0.start = range.start;
            let behind = if address.is_empty() { address } else { format!(" ({address})") };
            self.edits.push((link.words.end..range.end, Shown::Text(behind)));
        }
    }

    /// The text as it is sent.
    fn shown(&self) -> String {
        let shown = self.written();
        let shown = shown.trim();
        if shown.is_empty() { NOTHING.to_owned() } else { shown.to_owned() }
    }

    fn written(&self) -> String {
        let mut out = String::with_capacity(self.source.len() + 64);
        // Text between code is made inert after all edits, because an edit can join pieces.
        let mut text = String::new();
        let mut at = 0;
        for (range, shown) in &self.edits {
            text.push_str(&self.source[at..range.start.max(at)]);
            match shown {
                Shown::Text(words) => text.push_str(words),
                Shown::Code(code) => {
                    out.push_str(&guard::text(&std::mem::take(&mut text)));
                    out.push_str(code);
                }
            }
            at = at.max(range.end);
        }
        out.push_str(&guard::text(&(text + &self.source[at..])));
        out
    }

    /// Up to where the source is written with so many characters, white space at the end aside. `None` if there are fewer.
    fn beyond(&self, limit: usize) -> Option<usize> {
        // White space at the beginning is not sent.
        let (mut written, mut at) = (0, 0);
        let end = (self.source.len()..self.source.len(), Shown::Text(String::new()));
        for (range, shown) in self.edits.iter().chain([&end]) {
            let piece = &self.source[at..range.start.max(at)];
            let mut rest = piece.char_indices().peekable();
            for c in guard::text(piece).chars() {
                if written >= limit && !c.is_whitespace() {
                    return Some(at + rest.peek().map_or(piece.len(), |(offset, _)| *offset));
                }
                written += usize::from(written > 0 || !c.is_whitespace());
                // What makes it inert is not of the source.
                rest.next_if(|(_, next)| *next == c);
            }
            let (Shown::Text(words) | Shown::Code(words)) = shown;
            let is_blank = words.trim().is_empty();
            written += if is_blank && written == 0 { 0 } else { words.chars().count() };
            at = at.max(range.end);
            if written > limit && !is_blank {
                return Some(at);
            }
        }
        None
    }
}
