//! Splits long replies: between paragraphs, else lines, else sentences, else words, and inside a word only as a last
//! resort.
//!
//! A code fence that is open at the end of a part is closed there and reopened in the next part. Emphasis, links and
//! inline code are kept whole if they fit into a part. The platform measures a part by what it shows.
//!
//! Each part is cut from a window of a few parts, so that a text takes time in proportion to its length: the rest of it is
//! neither parsed nor copied.

use layout::{Fence, Layout, Tier};
use unicode_segmentation::UnicodeSegmentation as _;
use window::Window;

pub(crate) mod code;
mod layout;
#[cfg(test)]
mod tests;
mod window;

/// How far a part is looked for, in multiples of the limit.
const SEEN_PARTS: usize = 4;

/// The platform's measure: `None` for a text that fits into a part, else how many bytes of it fit at the most.
pub type Measure<'a> = &'a dyn Fn(&str) -> Option<usize>;

/// The text in parts. No part is blank, and each fits by the measure, unless a single character does not. Apart from white
/// space at the seams and added fences, the parts make up the text. Deterministic. `limit`: roughly how many characters
/// of plain text fit.
pub fn split(markdown: &str, limit: usize, over: Measure<'_>) -> Vec<String> {
    first_parts(usize::MAX, markdown, limit, over)
}

/// The first part; the rest of the text is not split.
pub fn first(markdown: &str, limit: usize, over: Measure<'_>) -> Option<String> {
    first_parts(1, markdown, limit, over).pop()
}

fn first_parts(n: usize, markdown: &str, limit: usize, over: Measure<'_>) -> Vec<String> {
    let mut parts = Vec::new();
    let mut window = Window::new(markdown.trim_end(), SEEN_PARTS * limit.max(64));
    while parts.len() < n && window.fill() {
        let text = &window.text;
        let layout = Layout::of(text, |fence| fence.around("x").len() * 4 <= limit * 3);
        let cut = cut(&window, &layout, limit, over);
        if !layout.is_blank(text, window.head, cut) {
            parts.push(part(text, &layout, cut));
        }
        move_on(&mut window, &layout, cut);
    }
    if parts.is_empty() {
        parts.extend(literal(markdown.trim(), limit, over));
    }
    parts
}

/// A text of fences alone, which must be shown as something: the beginning that fits.
fn literal(text: &str, limit: usize, over: Measure<'_>) -> Option<String> {
    let text = &text[..text.floor_char_boundary(4 * limit.max(1))];
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
    let end = last_that_fits(&ends, &|end| over(&text[..end]).is_none()).or_else(|| ends.first().copied());
    end.map(|end| text[..end].to_owned())
}

/// Where the next part ends.
fn cut(window: &Window<'_>, layout: &Layout, limit: usize, over: Measure<'_>) -> usize {
    let (text, head) = (&window.text, window.head);
    let over_at = |end: usize| over(&part(text, layout, end));
    let fits = |end: usize| over_at(end).is_none();
    // The range starts small, to avoid measuring more than needed.
    let mut reach = head + 2 * limit.max(16);
    let reach = loop {
        let end = text.floor_char_boundary(reach);
        match over_at(end) {
            Some(at) => {
                let at = text.floor_char_boundary(at.clamp(head, end));
                break text.len() - text[at..].trim_start().len();
            }
            None if end == text.len() && window.is_last() => return end,
            None if end == text.len() => break end,
            None => reach = reach.saturating_mul(2),
        }
    };
    let seams = layout.seams(text, head, reach);
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
        let wanted = seams.iter().filter(|seam| seam.tier == tier && !(whole && seam.in_span));
        let ends: Vec<usize> = wanted.map(|seam| seam.at).collect();
        if let Some(end) = last_that_fits(&ends, &fits) {
            return end;
        }
    }
    let body = &text[head..];
    let ends = |lens: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
        let ends = lens.scan(head, |end, len| {
            *end += len;
            Some(*end)
        });
        ends.take_while(|end| *end <= reach).filter(|end| !layout.is_closing(*end)).collect()
    };
    let graphemes = ends(&mut body.graphemes(true).map(str::len));
    let chars = || ends(&mut body.chars().map(char::len_utf8));
    let first = body.chars().next().map_or(text.len(), |c| head + c.len_utf8());
    last_that_fits(&graphemes, &fits).or_else(|| last_that_fits(&chars(), &fits)).unwrap_or(first)
}

/// The last seam up to which a part fits. `seams` is sorted; mostly one of the last fits, so the search goes back from there
/// in steps that double.
fn last_that_fits(seams: &[usize], fits: &impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high, mut step) = (seams.len(), seams.len(), 1);
    let mut best = None;
    while low > 0 && best.is_none() {
        high = low;
        low = low.saturating_sub(step);
        step *= 2;
        best = Some(seams[low]).filter(|seam| fits(*seam));
    }
    low += 1;
    while best.is_some() && low < high {
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

/// Moves the window to the text after `end`, the start of the next part; an open fence is reopened.
fn move_on(window: &mut Window<'_>, layout: &Layout, end: usize) {
    let text = &window.text;
    let fence = layout.fence_at(end);
    // If only white space of a block is left, its closing line is dropped: alone it would open another block.
    let end = fence
        .filter(|fence| text[end..fence.code.end.max(end)].trim().is_empty())
        .map_or(end, |fence| fence.end.max(end));
    match fence.filter(|fence| end < fence.code.end) {
        Some(fence) => window.reopen(&fence.reopening(), end, fence.end, fence.indent()),
        None if fence.is_some() || text[..end].ends_with('\n') => window.skip_gap(end),
        None => window.skip_space(end),
    }
}

impl Fence {
    fn around(&self, code: &str) -> String {
        format!("{}{code}\n{}", self.reopening(), self.closing())
    }
}
