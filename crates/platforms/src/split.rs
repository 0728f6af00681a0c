//! Splits long replies: between paragraphs, else lines, else sentences, else words, and inside a word only as a last
//! resort.
//!
//! A code fence that is open at the end of a part is closed there and reopened in the next part. Emphasis, links and
//! inline code are kept whole if they fit into a part. The platform measures a part by the length of what it shows.

use layout::{Fence, Layout, Tier};
use unicode_segmentation::UnicodeSegmentation as _;

mod layout;
#[cfg(test)]
mod tests;

/// How far seams are searched, in multiples of the limit, so that a long reply is not parsed whole for each part.
const SEEN_PARTS: usize = 16;

/// The platform's measure of a part's length.
type Size<'a> = &'a dyn Fn(&str) -> usize;

/// The text in parts. No part is blank, and each has a `size` of at most `limit`, unless a single character is over the
/// limit. Apart from white space at the seams and added fences, the parts make up the text. Deterministic.
pub fn split(markdown: &str, limit: usize, size: &dyn Fn(&str) -> usize) -> Vec<String> {
    first_parts(usize::MAX, markdown, limit, size)
}

/// The first part; the rest of the text is not split.
pub fn first(markdown: &str, limit: usize, size: &dyn Fn(&str) -> usize) -> Option<String> {
    first_parts(1, markdown, limit, size).pop()
}

fn first_parts(n: usize, markdown: &str, limit: usize, size: Size<'_>) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = Rest { text: after_gap(markdown.trim_end()), head: 0 };
    while parts.len() < n && !rest.text[rest.head..].trim().is_empty() {
        let seen = rest.text.floor_char_boundary(rest.head + SEEN_PARTS * limit.max(64));
        let layout = Layout::of(&rest.text[..seen], |fence| size(&fence.around("x")) * 4 <= limit * 3);
        let cut = cut(&rest, &layout, limit, size);
        if !layout.is_blank(&rest.text, rest.head, cut) {
            parts.push(part(&rest.text, &layout, cut));
        }
        rest = rest_after(&rest.text, &layout, cut);
    }
    if parts.is_empty() {
        // The text is only fences; it must be shown as something.
        let text = markdown.trim();
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
        let end = last_that_fits(&ends, &|end| size(&text[..end]) <= limit).or_else(|| ends.first().copied());
        parts.extend(end.map(|end| text[..end].to_owned()));
    }
    parts
}

struct Rest {
    text: String,
    /// The length of the fence line that was added at the start, in bytes.
    head: usize,
}

fn cut(rest: &Rest, layout: &Layout, limit: usize, size: Size<'_>) -> usize {
    let text = &rest.text;
    let fits = |end: usize| size(&part(text, layout, end)) <= limit;
    // The search range starts small, to avoid parsing more than needed.
    let mut reach = rest.head + limit.max(16);
    let reach = loop {
        let end = text.floor_char_boundary(reach).min(layout.len());
        if end == text.len() && fits(end) {
            return end;
        }
        if end == layout.len() || !fits(end) {
            break end;
        }
        reach = reach.saturating_mul(2);
    };
    let order = [
        (Tier::Paragraph, true),
        (Tier::Line, true),
        (Tier::Sentence, true),
        (Tier::Word, true),
        (Tier::Line, false),
        (Tier::Sentence, false),
        (Tier::Word, false),
    ];
    for (tier, whole) in order {
        let seams = layout.seams(tier, whole, rest.head, reach);
        if let Some(end) = last_that_fits(&seams, &fits) {
            return end;
        }
    }
    let body = &text[rest.head..reach];
    let seam = |at: usize| Some(rest.head + at).filter(|at| !layout.is_closing(*at));
    let graphemes: Vec<usize> =
        body.grapheme_indices(true).filter_map(|(at, g)| seam(at + g.len())).collect();
    let chars = || body.char_indices().filter_map(|(at, c)| seam(at + c.len_utf8())).collect::<Vec<_>>();
    let first = body.chars().next().map_or(text.len(), |c| rest.head + c.len_utf8());
    last_that_fits(&graphemes, &fits).or_else(|| last_that_fits(&chars(), &fits)).unwrap_or(first)
}

/// The last seam up to which a part fits. `seams` is sorted.
fn last_that_fits(seams: &[usize], fits: &impl Fn(usize) -> bool) -> Option<usize> {
    let mut best = None;
    let (mut low, mut high) = (0, seams.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(seams[middle]) {
            best = Some(seams[middle]);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    best
}

/// The text up to `end` as a part; an open fence is closed.
fn part(text: &str, layout: &Layout, end: usize) -> String {
    match layout.fence_at(end) {
        Some(fence) => {
            let body = text[..end].trim_end_matches(['\n', '\r']);
            format!("{body}\n{}", fence.closing())
        }
        None => text[..end].trim_end().to_owned(),
    }
}

/// The text after `end` as the start of the next part; an open fence is reopened.
fn rest_after(text: &str, layout: &Layout, end: usize) -> Rest {
    let fence = layout.fence_at(end);
    // If only white space of a block is left, its closing line is dropped: alone it would open another block.
    let end = fence
        .filter(|fence| text[end..fence.code.end.max(end)].trim().is_empty())
        .map_or(end, |fence| fence.end.max(end));
    let after = &text[end..];
    match fence.filter(|fence| end < fence.code.end) {
        Some(fence) => {
            let head = fence.reopening();
            let (code, behind) = after.split_at(fence.end - end);
            let code = outdent(code, fence.indent(), |_| true);
            Rest { head: head.len(), text: head + &code + behind }
        }
        None if fence.is_some() || text[..end].ends_with('\n') => Rest { text: after_gap(after), head: 0 },
        None => Rest { text: after.trim_start().to_owned(), head: 0 },
    }
}

/// Removes leading blank lines and the indentation of the first lines, which belonged to a block in the part before.
fn after_gap(text: &str) -> String {
    let begin = text.len() - text.trim_start().len();
    let begin = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let text = &text[begin..];
    let indent = text.len() - text.trim_start_matches(' ').len();
    let text = outdent(text, indent, |line| line.trim().is_empty() || line.starts_with(&" ".repeat(indent)));
    text.trim_start().to_owned()
}

/// Removes up to `spaces` spaces from the start of the leading lines that satisfy `is_in`.
fn outdent(text: &str, spaces: usize, is_in: impl Fn(&str) -> bool) -> String {
    if spaces == 0 {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for line in text.split_inclusive('\n').take_while(|line| is_in(line)) {
        let has = line.bytes().take(spaces).take_while(|byte| *byte == b' ').count();
        out.push_str(&line[has..]);
        at += line.len();
    }
    out + &text[at..]
}

impl Fence {
    fn around(&self, code: &str) -> String {
        format!("{}{code}\n{}", self.reopening(), self.closing())
    }
}
