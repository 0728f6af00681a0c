//! Finds where a Markdown text may be cut, and which code fence is open at a position.

use std::ops::{Range, RangeInclusive};

use cairn_types::text::sentences::sentences;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::markup::options;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Before a top-level block.
    Paragraph,
    Line,
    Sentence,
    Word,
}

#[derive(Debug, Clone)]
pub(super) struct Fence {
    /// The text before the opening fence on its line.
    before: String,
    marks: String,
    info: String,
    start: usize,
    pub(super) code: Range<usize>,
    /// The end of the block, including its closing fence.
    pub(super) end: usize,
    closed: bool,
}

/// A place where a text may be cut.
pub(super) struct Seam {
    pub(super) at: usize,
    pub(super) tier: Tier,
    /// Inside emphasis, a link or inline code.
    pub(super) in_span: bool,
}

pub(super) struct Layout {
    /// Sorted, without overlaps.
    fences: Vec<Fence>,
    /// Emphasis, links and inline code, which should stay whole. Sorted, without overlaps.
    spans: Vec<Range<usize>>,
    /// Where top-level blocks begin. Sorted.
    blocks: Vec<usize>,
    /// From a heading to the block that follows it; no cut there. Sorted, without overlaps.
    glued: Vec<RangeInclusive<usize>>,
    len: usize,
}

impl Layout {
    /// Parses a text. Fences for which `worth` is false, because they are too long for the limit, are not reopened.
    pub(super) fn of(text: &str, worth: impl Fn(&Fence) -> bool) -> Self {
        let mut layout = Self {
            fences: Vec::new(),
            spans: Vec::new(),
            blocks: Vec::new(),
            glued: Vec::new(),
            len: text.len(),
        };
        let mut depth = 0usize;
        let mut heading = None;
        for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
            match &event {
                Event::Start(tag) => {
                    if depth == 0 {
                        let start = line_start(text, range.start);
                        layout.blocks.push(start);
                        layout.glued.extend(heading.take().map(|end| end..=start));
                    }
                    depth += 1;
                    match tag {
                        Tag::Emphasis
                        | Tag::Strong
                        | Tag::Strikethrough
                        | Tag::Link { .. }
                        | Tag::Image { .. } => {
                            layout.span(range);
                        }
                        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
                            layout.fences.extend(Fence::read(text, range).filter(&worth));
                        }
                        _ => {}
                    }
                }
                Event::End(tag) => {
                    depth = depth.saturating_sub(1);
                    if matches!(tag, TagEnd::Heading(_)) && depth == 0 {
                        heading = Some(range.start + text[range].trim_end().len());
                    }
                }
                Event::Code(_) => layout.span(range),
                Event::Rule if depth == 0 => layout.blocks.push(range.start),
                _ => {}
            }
        }
        layout
    }

    fn span(&mut self, range: Range<usize>) {
        if self.spans.last().is_none_or(|last| last.end <= range.start) {
            self.spans.push(range);
        }
    }

    /// The seams after `from`, the start of a line, and up to `to`; sorted within each tier.
    pub(super) fn seams(&self, text: &str, from: usize, to: usize) -> Vec<Seam> {
        let mut seams = Vec::new();
        let mut add = |at: usize, tier: Tier| {
            if from < at && at <= to && self.may_be_cut(at, tier) {
                let in_span = self.spans.get(self.spans.partition_point(|span| span.end <= at));
                seams.push(Seam { at, tier, in_span: in_span.is_some_and(|span| span.start < at) });
            }
        };
        self.blocks.iter().for_each(|at| add(*at, Tier::Paragraph));
        let mut at = from;
        for line in text[from..].split_inclusive('\n').take_while(|line| {
            let is_within = at < to;
            at += line.len();
            is_within
        }) {
            let start = line.as_ptr() as usize - text.as_ptr() as usize;
            for sentence in sentences(line) {
                let end = sentence.as_ptr() as usize - text.as_ptr() as usize + sentence.len();
                add(end, Tier::Sentence);
            }
            let mut in_gap = true;
            for (offset, c) in line.char_indices() {
                if in_gap && !c.is_whitespace() && offset > 0 {
                    add(start + offset, Tier::Word);
                }
                in_gap = c.is_whitespace();
            }
            add(start + line.len(), Tier::Line);
        }
        seams
    }

    /// Whether a cut here is allowed: not behind a heading, and in a code block only between lines and words of its code.
    fn may_be_cut(&self, at: usize, tier: Tier) -> bool {
        let glued = self.glued.get(self.glued.partition_point(|range| *range.end() < at));
        let fence = self.fences.get(self.fences.partition_point(|fence| fence.end <= at));
        !glued.is_some_and(|range| range.contains(&at))
            && fence.is_none_or(|fence| fence.may_be_cut(at, tier))
    }

    /// The first fence that does not end before a position.
    fn fence_near(&self, at: usize) -> Option<&Fence> {
        self.fences.get(self.fences.partition_point(|fence| fence.end < at))
    }

    /// The fence that is open at a position, even if its closing line comes next.
    pub(super) fn fence_at(&self, at: usize) -> Option<&Fence> {
        let fence = self.fence_near(at)?;
        let last = if fence.closed { fence.code.end } else { self.len };
        (fence.code.start <= at && at <= last).then_some(fence)
    }

    /// Whether a position is inside a closing fence, where no cut is allowed.
    pub(super) fn is_closing(&self, at: usize) -> bool {
        self.fence_near(at).is_some_and(|fence| fence.code.end < at && at < fence.end)
    }

    /// Whether a range has only white space, apart from fence lines.
    pub(super) fn is_blank(&self, text: &str, from: usize, to: usize) -> bool {
        let mut at = from;
        for fence in &self.fences {
            let opening = fence.start.max(at);
            if opening >= to {
                break;
            }
            let code = fence.code.start.clamp(at, to)..fence.code.end.clamp(at, to);
            if !text[at..opening].trim().is_empty() || !text[code].trim().is_empty() {
                return false;
            }
            at = fence.end.clamp(at, to);
        }
        text[at..to].trim().is_empty()
    }
}

impl Fence {
    fn read(text: &str, range: Range<usize>) -> Option<Self> {
        let block = &text[range.clone()];
        let mark = block.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = block.len() - block.trim_start_matches(mark).len();
        let first = block.find('\n').map_or(block.len(), |at| at + 1);
        let last = block.trim_end().rfind('\n').map_or(0, |at| at + 1).max(first);
        let closing = block[last..].trim_start_matches([' ', '\t', '>']).trim_end();
        let closed = closing.len() >= length && closing.chars().all(|c| c == mark);
        let info = block[length..first].trim();
        // From a long info string only the language is repeated.
        let info = if info.len() > 40 {
            info.split_whitespace().next().filter(|word| word.len() <= 40)
        } else {
            Some(info)
        };
        let code_end = if closed { last } else { block.len() };
        Some(Self {
            before: text[line_start(text, range.start)..range.start].to_owned(),
            marks: block[..length].to_owned(),
            info: info.unwrap_or_default().to_owned(),
            start: range.start,
            code: range.start + first..range.start + code_end,
            end: range.end,
            closed,
        })
    }

    /// Whether a cut here is allowed: directly after the opening or before the closing fence it would leave an empty
    /// block.
    fn may_be_cut(&self, at: usize, tier: Tier) -> bool {
        if at <= self.start || at >= self.end {
            return true;
        }
        let inside = self.code.start < at && at < self.code.end;
        inside && matches!(tier, Tier::Line | Tier::Word)
    }

    /// The line that reopens the block at the start of a part.
    pub(super) fn reopening(&self) -> String {
        let quote = self.before.rfind('>').map_or("", |at| &self.before[..=at]);
        let space = if quote.is_empty() { "" } else { " " };
        format!("{}{space}{}{}\n", quote.trim_start(), self.marks, self.info)
    }

    /// The line that closes the block at the end of a part.
    pub(super) fn closing(&self) -> String {
        let before: String = self.before.chars().map(|c| if c == '>' { c } else { ' ' }).collect();
        format!("{before}{}", self.marks)
    }

    /// The block's indentation in characters; 0 inside a quotation.
    pub(super) fn indent(&self) -> usize {
        if self.before.contains('>') { 0 } else { self.before.chars().count() }
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |found| found + 1)
}
