//! Answers as a bridge gets them: plain text, and HTML where the network shows it. Both are inert.

use std::fmt::Write as _;

use cairn_types::ports::FilePart;
use teloxide::types::{MessageEntity, MessageEntityKind};

use super::wire::{Hello, Markup, Unit};
use crate::markup::telegram::{self, Rendered};
use crate::split::code::LongCode;

/// What fits into a message of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    limit: usize,
    unit: Unit,
    markup: Markup,
}

impl Shape {
    pub(super) fn of(hello: &Hello) -> Self {
        let Hello { limit, unit, markup, .. } = *hello;
        Self { limit, unit, markup }
    }

    fn over(self, markdown: &str) -> Option<usize> {
        let text = self.plain(markdown);
        let size = match self.unit {
            Unit::Bytes => text.len(),
            Unit::Characters => text.chars().count(),
        };
        (size > self.limit).then_some(markdown.len())
    }

    /// The text in parts that fit into one message each.
    pub(super) fn split(self, markdown: &str) -> Vec<String> {
        crate::split::split(markdown, self.limit, &|part| self.over(part))
    }

    /// The text without long code blocks, which are sent as files.
    pub(super) fn take_out_code(self, markdown: &str, long: LongCode) -> (String, Vec<FilePart>) {
        crate::split::code::take_out(markdown, long, self.limit, &|part| self.over(part))
    }

    /// The first part of [`Self::split`].
    pub(super) fn first(self, markdown: &str) -> Option<String> {
        crate::split::first(markdown, self.limit, &|part| self.over(part))
    }

    fn plain(self, markdown: &str) -> String {
        match self.markup {
            Markup::Plain => telegram::plain(markdown),
            Markup::Html => telegram::render(markdown).text,
        }
    }

    /// A part as plain text, and as HTML where the network shows it.
    pub(super) fn render(self, markdown: &str) -> (String, Option<String>) {
        match self.markup {
            Markup::Plain => (telegram::plain(markdown), None),
            Markup::Html => {
                let rendered = telegram::render(markdown);
                let html = html(&rendered);
                (rendered.text, Some(html))
            }
        }
    }
}

/// A text with its formatting as HTML: `strong`, `em`, `del`, `code`, `pre`, `blockquote` and `br`, without attributes but
/// for the language of code.
fn html(Rendered { text, entities }: &Rendered) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut open: Vec<&MessageEntity> = Vec::new();
    let mut coming = entities.iter().peekable();
    // Offsets are in UTF-16 units.
    let mut at = 0;
    for c in text.chars() {
        close_ended(&mut out, &mut open, at);
        while let Some(entity) = coming.next_if(|entity| entity.offset <= at) {
            if entity.offset + entity.length > at {
                start(&mut out, &entity.kind);
                open.push(entity);
            }
        }
        let is_code = open.iter().any(|entity| matches!(entity.kind, MessageEntityKind::Pre { .. }));
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' if !is_code => out.push_str("<br>"),
            c => out.push(c),
        }
        at += c.len_utf16();
    }
    close_ended(&mut out, &mut open, usize::MAX);
    out
}

fn close_ended(out: &mut String, open: &mut Vec<&MessageEntity>, at: usize) {
    while let Some(entity) = open.pop_if(|entity| entity.offset + entity.length <= at) {
        out.push_str(match entity.kind {
            MessageEntityKind::Bold => "</strong>",
            MessageEntityKind::Italic => "</em>",
            MessageEntityKind::Strikethrough => "</del>",
            MessageEntityKind::Code => "</code>",
            MessageEntityKind::Pre { .. } => "</code></pre>",
            MessageEntityKind::Blockquote => "</blockquote>",
            _ => "",
        });
    }
}

fn start(out: &mut String, kind: &MessageEntityKind) {
    match kind {
        MessageEntityKind::Bold => out.push_str("<strong>"),
        MessageEntityKind::Italic => out.push_str("<em>"),
        MessageEntityKind::Strikethrough => out.push_str("<del>"),
        MessageEntityKind::Code => out.push_str("<code>"),
        // The language has only letters, digits and `_+-.#`.
        MessageEntityKind::Pre { language: Some(language) } => {
            let _infallible = write!(out, "<pre><code class=\"language-{language}\">");
        }
        MessageEntityKind::Pre { language: None } => out.push_str("<pre><code>"),
        MessageEntityKind::Blockquote => out.push_str("<blockquote>"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SHAPE: Shape = Shape { limit: 100, unit: Unit::Bytes, markup: Markup::Html };

    #[rstest]
    #[case("**a** *b* ~~c~~ `d`", "<strong>a</strong> <em>b</em> <del>c</del> <code>d</code>")]
    #[case("***a** b*", "<em><strong>a</strong> b</em>")]
    #[case("one\ntwo", "one<br>two")]
    #[case(
        "```rust\nlet a = \"<b>\";\nb\n```",
        "<pre><code class=\"language-rust\">let a = &quot;&lt;b&gt;&quot;;\nb</code></pre>"
    )]
    #[case("<img src=x> **\u{1f600}b** c", "&lt;img src=x&gt; <strong>\u{1f600}b</strong> c")]
    #[case("> said", "<blockquote>said</blockquote>")]
    fn html_has_the_formatting_and_nothing_of_the_text_is_markup(
        #[case] markdown: &str,
        #[case] shown: &str,
    ) {
        assert_eq!(SHAPE.render(markdown).1.as_deref(), Some(shown));
    }

    #[rstest]
    #[case(Unit::Bytes)]
    #[case(Unit::Characters)]
    fn parts_fit_in_the_unit_of_the_network(#[case] unit: Unit) {
        let shape = Shape { limit: 100, unit, markup: Markup::Plain };
        let text = "Über **Bäche** und Wälder, süß. ".repeat(40);
        let parts = shape.split(&text);
        let size = |part: &String| match unit {
            Unit::Bytes => shape.render(part).0.len(),
            Unit::Characters => shape.render(part).0.chars().count(),
        };
        assert!(parts.len() > 9 && parts.iter().all(|part| size(part) <= 100), "{parts:?}");
        assert_eq!(parts.concat().matches("Wälder").count(), 40);
        assert_eq!(shape.first(&text).as_ref(), parts.first());
    }
}
