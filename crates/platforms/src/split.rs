//! Long replies in parts: at paragraphs, then lines, then sentences, then words, and only then within a word.
//!
//! A code fence that is open at the end of a part is closed there and opened again in the next; emphasis, links and
//! inline code are left whole where they fit into a part. The platform measures: a part is as long as what it is shown
//! as.

use layout::{Fence, Layout, Tier};
use unicode_segmentation::UnicodeSegmentation as _;

mod layout;
#[cfg(test)]
mod tests;

/// How many parts' lengths are looked ahead for seams: a long reply is not read whole for each of its parts.
const SEEN_PARTS: usize = 16;

/// The platform's measure of a part.
type Size<'a> = &'a dyn Fn(&str) -> usize;

/// A text in parts, none of them blank, each with a `size` of at most `limit`. Without white space at the seams and the
/// fences that were added, the parts are the text. The same text always gives the same parts. (Only a single character
/// that is over the limit by itself makes a part that is.)
pub fn split(markdown: &str, limit: usize, size: &dyn Fn(&str) -> usize) -> Vec<String> {
    first_parts(usize::MAX, markdown, limit, size)
}

/// The first of the parts; what comes after it is not cut.
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
        // A text of fences alone: something has to stand for it.
        let text = markdown.trim();
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
        let end = last_that_fits(&ends, &|end| size(&text[..end]) <= limit).or_else(|| ends.first().copied());
        parts.extend(end.map(|end| text[..end].to_owned()));
    }
    parts
}

struct Rest {
    text: String,
    /// Length of the fence line that was added before it.
    head: usize,
}

fn cut(rest: &Rest, layout: &Layout, limit: usize, size: Size<'_>) -> usize {
    let text = &rest.text;
    let fits = |end: usize| size(&part(text, layout, end)) <= limit;
    // No farther than needed, for the same reason.
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

/// The last of these seams (which rise) before which a part fits.
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

/// The text up to here as a part of its own: an open fence is closed.
fn part(text: &str, layout: &Layout, end: usize) -> String {
    match layout.fence_at(end) {
        Some(fence) => {
            let body = text[..end].trim_end_matches(['\n', '\r']);
            format!("{body}\n{}", fence.closing())
        }
        None => text[..end].trim_end().to_owned(),
    }
}

/// The text from here on, as the next part begins: an open fence is opened again.
fn rest_after(text: &str, layout: &Layout, end: usize) -> Rest {
    let fence = layout.fence_at(end);
    // Of a block that is done its closing line alone would open another.
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

/// Without the blank lines at its beginning and the indentation of its first lines: what was nested in something that
/// went out with the part before stands by itself now.
fn after_gap(text: &str) -> String {
    let begin = text.len() - text.trim_start().len();
    let begin = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let text = &text[begin..];
    let indent = text.len() - text.trim_start_matches(' ').len();
    let text = outdent(text, indent, |line| line.trim().is_empty() || line.starts_with(&" ".repeat(indent)));
    text.trim_start().to_owned()
}

/// Takes up to so many spaces from the beginning of each line, for as long as lines are in.
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
