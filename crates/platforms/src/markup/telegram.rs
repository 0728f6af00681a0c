//! Markdown for Telegram: plain text with entities for the formatting, never a `parse_mode`.

use cairn_types::ids::TELEGRAM_MESSAGE_MAX;
use cairn_types::ports::FilePart;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Parser, Tag, TagEnd};
use teloxide::types::{MessageEntity, MessageEntityKind};

use super::table::Table;
use super::{NOTHING, language, options};
use crate::split::code::LongCode;
use writer::Writer;

#[cfg(test)]
mod tests;
mod writer;

/// Most UTF-16 units per message.
pub const LIMIT: usize = TELEGRAM_MESSAGE_MAX;

const MOST_ENTITIES: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// The formatting, sorted by offset, outer entities first. None is empty, and two either nest or do not overlap.
    pub entities: Vec<MessageEntity>,
}

/// `None` if a text fits into one message, else how many bytes of it fit at the most. It is rendered no farther.
fn over(markdown: &str) -> Option<usize> {
    let mut renderer = Renderer { out: Writer::up_to(LIMIT), ..Renderer::default() };
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        // Text that is shown as it is written is followed letter by letter.
        let is_written = matches!(&event, Event::Text(text) if text.len() == range.len());
        renderer.take(event);
        if let Some(at) = renderer.out.over() {
            return Some(if is_written || at == 0 { range.start + at } else { range.end });
        }
    }
    if !renderer.out.is_blank() {
        return None;
    }
    let mut literal = Writer::up_to(LIMIT);
    literal.text(markdown);
    literal.over()
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

/// A part of a reply as sent to Telegram. Never fails, never empty.
pub fn render(markdown: &str) -> Rendered {
    rendered(markdown, Renderer::default())
}

/// The text of a part without entities, for when Telegram refuses them. Code in it is made inert, too.
pub fn plain(markdown: &str) -> String {
    rendered(markdown, Renderer { out: Writer::bare(), ..Renderer::default() }).text
}

/// Plain text, made inert.
pub(crate) fn literal(words: &str) -> String {
    let mut out = Writer::default();
    out.text(words);
    out.finish().text
}

fn rendered(markdown: &str, mut renderer: Renderer) -> Rendered {
    for event in Parser::new_ext(markdown, options()) {
        renderer.take(event);
    }
    let rendered = renderer.out.finish();
    if !rendered.text.is_empty() {
        return rendered;
    }
    let mut literal = Writer::default();
    literal.text(markdown);
    let literal = literal.finish();
    if literal.text.is_empty() { Rendered { text: NOTHING.to_owned(), ..literal } } else { literal }
}

/// Reads Markdown from top to bottom.
#[derive(Default)]
struct Renderer {
    out: Writer,
    /// Open lists: the next number, or none for dots.
    lists: Vec<Option<u64>>,
    /// Open links: the address, whether it is already visible, and the start of the link's text.
    links: Vec<(String, bool, usize)>,
    quotes: usize,
    code: Option<(Option<String>, String)>,
    table: Option<Table>,
}

impl Renderer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.words(&text),
            Event::Code(text) => self.inline_code(&text),
            Event::SoftBreak | Event::HardBreak => self.words("\n"),
            Event::Rule => {
                self.out.gap(2);
                self.out.text("———");
                self.out.gap(2);
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.words(&text)
            }
            Event::TaskListMarker(done) => self.words(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.block();
                self.out.open(MessageEntityKind::Bold);
            }
            Tag::BlockQuote(_) => {
                self.block();
                self.quotes += 1;
                if self.quotes == 1 {
                    self.out.open(MessageEntityKind::Blockquote);
                }
            }
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => None,
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.block();
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => self.table = Some(Table::default()),
            Tag::TableHead | Tag::TableRow => self.table.iter_mut().for_each(Table::row),
            Tag::TableCell => self.table.iter_mut().for_each(Table::cell),
            Tag::Emphasis => self.out.open(MessageEntityKind::Italic),
            Tag::Strong => self.out.open(MessageEntityKind::Bold),
            Tag::Strikethrough => self.out.open(MessageEntityKind::Strikethrough),
            Tag::Link { link_type, dest_url, .. } => {
                let shown = matches!(link_type, LinkType::Autolink | LinkType::Email);
                self.link(dest_url.into_string(), shown);
            }
            Tag::Image { dest_url, .. } => self.link(dest_url.into_string(), false),
            _ => self.block(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.out.close(&MessageEntityKind::Bold);
                self.block();
            }
            TagEnd::BlockQuote(_) => {
                self.quotes = self.quotes.saturating_sub(1);
                if self.quotes == 0 {
                    self.out.close(&MessageEntityKind::Blockquote);
                }
                self.block();
            }
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.block();
                    self.out.pre(language, &code);
                    self.block();
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.block();
            }
            TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow | TagEnd::TableCell => {}
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.block();
                    self.out.pre(None, &table.lines());
                    self.block();
                }
            }
            TagEnd::Emphasis => self.out.close(&MessageEntityKind::Italic),
            TagEnd::Strong => self.out.close(&MessageEntityKind::Bold),
            TagEnd::Strikethrough => self.out.close(&MessageEntityKind::Strikethrough),
            TagEnd::Link | TagEnd::Image => self.end_of_link(),
            _ => self.block(),
        }
    }

    /// Separates blocks: by an empty line, inside a list by a line break.
    fn block(&mut self) {
        self.out.gap(if self.lists.is_empty() { 2 } else { 1 });
    }

    fn item(&mut self) {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(6));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => format!("{indent}• "),
        };
        self.out.item(&mark);
    }

    fn words(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
        } else if let Some(table) = &mut self.table {
            if let Some(cell) = table.words() {
                cell.push_str(&text.replace('\n', " "));
            }
        } else {
            self.out.text(text);
        }
    }

    fn inline_code(&mut self, code: &str) {
        if self.table.is_some() {
            self.words(code);
        } else if self.quotes > 0 {
            // Inside a quotation code stays in backticks.
            self.words(&format!("`{code}`"));
        } else {
            self.out.code(code);
        }
    }

    fn link(&mut self, address: String, shown: bool) {
        let from = match &mut self.table {
            Some(table) => table.words().map_or(0, |cell| cell.len()),
            None => self.out.len(),
        };
        self.links.push((address, shown, from));
    }

    /// Shows the address after the link's text.
    fn end_of_link(&mut self) {
        let Some((address, shown, from)) = self.links.pop() else { return };
        if shown || address.is_empty() {
            return;
        }
        let words = match &mut self.table {
            Some(table) => table.words().and_then(|cell| cell.get(from..)).unwrap_or_default(),
            None => self.out.since(from),
        };
        match words.trim_start() {
            words if words.trim_end() == address => {}
            "" => self.words(&address),
            _ => self.words(&format!(" ({address})")),
        }
    }
}
