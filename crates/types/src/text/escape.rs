//! Texts as models and people read them: names and times, what is escaped, what is cut.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Longest name that the model gets to see, in characters.
pub const NAME_MAX: usize = 64;

/// Replaces what was cut out of the middle.
pub const CUT_NOTE: &str = "\n[...truncated...]\n";

/// A person's name, made harmless: one line, no control or direction characters, no brackets or bars, 64
/// characters at most.
pub fn escape_name(name: &str) -> String {
    let mut out = String::new();
    let mut n_chars = 0;
    for c in name.chars() {
        let c = match c {
            '[' | ']' | '|' | '<' | '>' | '`' => ' ',
            c if c.is_control() || is_invisible(c) => continue,
            c if c.is_whitespace() => ' ',
            c => c,
        };
        if c == ' ' && (out.is_empty() || out.ends_with(' ')) {
            continue;
        }
        if n_chars == NAME_MAX {
            break;
        }
        out.push(c);
        n_chars += 1;
    }
    let trimmed = out.trim_end();
    if trimmed.is_empty() { "somebody".to_owned() } else { trimmed.to_owned() }
}

/// Direction marks, joiners and other characters without a shape, by which one name passes for another.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes every character that moves the cursor, turns the direction or is invisible, as `\u{202e}`, so that other people's
/// text cannot look like something else. Line breaks and tabs stay; so do joiners without ASCII beside them, as emoji and
/// many scripts need them.
pub fn escape_hidden(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let (mut chars, mut before) = (text.chars().peekable(), None::<char>);
    while let Some(c) = chars.next() {
        let joins = matches!(c, '\u{200c}' | '\u{200d}')
            && [before, chars.peek().copied()].into_iter().flatten().all(|beside| !beside.is_ascii());
        if is_hidden(c) && !joins {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        before = Some(c);
    }
    Cow::Owned(out)
}

/// Whether [`escape_hidden`] escapes it, joiners between letters aside.
pub fn is_hidden(c: char) -> bool {
    let is_filler = matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible(c) || is_filler || breaks
}

/// A time as the model reads it: UTC, to the minute.
pub fn short_time(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::UTC).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A day as the model reads it, in UTC.
pub fn short_date(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
}

/// People's text, with a backslash before every line that starts like one of our own headers or blocks, so that nobody can
/// speak in another's name or forge a summary.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    if !text.contains('[') && !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (idx, line) in text.split('\n').enumerate() {
        if idx > 0 {
            out.push('\n');
        }
        let start = line.trim_start();
        if is_our_header(start) || is_our_tag(start) {
            out.push('\\');
        }
        out.push_str(line);
    }
    Cow::Owned(out)
}

/// A tool result, with a backslash before every line that starts like the volatile context. The context is at the end of the
/// last result, and no result may pass for it.
pub fn escape_result(text: &str) -> Cow<'_, str> {
    let forged = |line: &str| {
        let line = line.trim_start().as_bytes();
        ["<context>", "</context>"]
            .iter()
            .any(|tag| line.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes())))
    };
    if !text.lines().any(forged) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| if forged(line) { format!("\\{line}") } else { line.to_owned() });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn is_our_header(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('[') else { return false };
    let begins = |ours: &str| rest.get(..ours.len()).is_some_and(|start| start.eq_ignore_ascii_case(ours));
    let names_somebody = rest.split(']').next().is_some_and(|inside| inside.contains('|'));
    begins("compaction summary") || begins("system:") || names_somebody
}

fn is_our_tag(line: &str) -> bool {
    let name = line.strip_prefix('<').map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    name.is_some_and(|name| {
        ["context", "transcript", "summaries"]
            .iter()
            .any(|ours| name.get(..ours.len()).is_some_and(|start| start.eq_ignore_ascii_case(ours)))
    })
}

/// The head and the tail of a text that together make up `share` of its bytes, around a note.
pub fn cut_middle(text: &str, share: f64) -> String {
    cut_around(text, share, CUT_NOTE)
}

pub fn cut_around(text: &str, share: f64, note: &str) -> String {
    if share >= 1.0 {
        return text.to_owned();
    }
    let side = (text.len() as f64 * share / 2.0) as usize;
    let head = text.floor_char_boundary(side);
    let tail = text.ceil_char_boundary(text.len() - side);
    format!("{}{note}{}", &text[..head], &text[tail..])
}

/// Thousands in groups: `12,345`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("héllo\n\twörld", "héllo\n\twörld")]
    #[case::escape_sequence("a\u{1b}[2J", "a\\u{1b}[2J")]
    #[case::c1("a\u{9b}2J\u{7f}\r", "a\\u{9b}2J\\u{7f}\\u{d}")]
    #[case::direction("ab\u{202e}cd\u{2066}", "ab\\u{202e}cd\\u{2066}")]
    #[case::zero_width("pay\u{200b}pal\u{feff}", "pay\\u{200b}pal\\u{feff}")]
    #[case::joiner_in_a_word("ad\u{200d}min", "ad\\u{200d}min")]
    #[case::joined_emoji("👩\u{200d}💻 می\u{200c}خواهم", "👩\u{200d}💻 می\u{200c}خواهم")]
    #[case::tags("x\u{e0041}", "x\\u{e0041}")]
    #[case::fillers_and_breaks("\u{3164}\u{2028}", "\\u{3164}\\u{2028}")]
    fn what_nobody_sees_is_escaped(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(escape_hidden(text), shown);
    }
}
