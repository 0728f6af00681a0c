//! Text for the terminal and for chats: made harmless, cut, formatted.

pub use cairn_core::notice::grouped;

use cairn_core::window::{escape_hidden, is_hidden};
use console::{measure_text_width, truncate_str};

/// Text on one line, with hidden characters escaped, so that nobody's text can move the cursor.
pub fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    plain(&words.join(" "))
}

/// Text with its lines, with hidden characters escaped.
pub fn plain(text: &str) -> String {
    // Line breaks of other systems become ours.
    escape_hidden(&text.replace("\r\n", "\n")).into_owned()
}

/// Text with colour sequences, which stay as they are. All other hidden characters are escaped.
pub fn painted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        out.push_str(&escape_hidden(before));
        let inside = sequence[2..].find(|c: char| !c.is_ascii_digit() && c != ';');
        let end = inside.filter(|end| sequence[2 + end..].starts_with('m')).map_or(0, |end| end + 3);
        out.push_str(&sequence[..end]);
        // If it is no colour, its first character is escaped and the rest is read on.
        let (ours, others) = sequence.split_at(end.max(1));
        if end == 0 {
            out.push_str(&escape_hidden(ours));
        }
        rest = others;
    }
    out.push_str(&escape_hidden(rest));
    out
}

/// JSON with hidden characters written as `\uXXXX`. The data stays the same.
pub fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Text cut to `width` columns, with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    truncate_str(text, width, "…").into_owned()
}

/// Columns that a text takes on the terminal.
pub fn columns(text: &str) -> usize {
    measure_text_width(text)
}

/// Breaks text that comes in pieces into lines, between words. The last word is held back until it is known to be whole.
pub struct Wrap {
    width: usize,
    column: usize,
    gap: String,
    word: String,
}

impl Wrap {
    pub fn new(width: usize) -> Self {
        Self { width, column: 0, gap: String::new(), word: String::new() }
    }

    /// What can be printed after this piece.
    pub fn feed(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            if !c.is_whitespace() {
                self.word.push(c);
                continue;
            }
            out.push_str(&self.finish());
            if c == '\n' {
                out.push(c);
                self.gap.clear();
                self.column = 0;
            } else {
                self.gap.push(c);
            }
        }
        out
    }

    pub fn finish(&mut self) -> String {
        let (mut gap, word) = (std::mem::take(&mut self.gap), std::mem::take(&mut self.word));
        if word.is_empty() {
            self.gap = gap;
            return word;
        }
        if self.column > 0 && self.column + columns(&gap) + columns(&word) > self.width {
            gap = "\n".to_owned();
            self.column = 0;
        }
        self.column += columns(gap.trim_start_matches('\n')) + columns(&word);
        gap + &word
    }
}

/// A share in percent: `63.4 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// A size, as in `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| n >= *unit).unwrap_or((1 << 10, "KiB"));
    format!("{:.1} {name}", n as f64 / unit as f64)
}

/// `1 entry`, `2 entries`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// A duration, as in `310 ms`, `1.25 s`, `12.4 s`.
pub fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{:.2} s", ms as f64 / 1_000.0),
        _ => format!("{:.1} s", ms as f64 / 1_000.0),
    }
}

/// Date and time to the minute, in UTC.
pub fn minute(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// The date, in UTC.
pub fn day(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// Longest excerpt of a text in a list, in characters.
const EXCERPT: usize = 300;

/// People's text, for a chat: on one line, cut to 300 characters, without hidden characters, and with every sign of Markdown
/// escaped.
pub fn quoted(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.join(" ");
    let mut out = String::with_capacity(plain.len());
    for (n, c) in plain.chars().filter(|c| !is_hidden(*c)).enumerate() {
        if n == EXCERPT {
            out.push('…');
            break;
        }
        if c.is_ascii_punctuation() && !matches!(c, '.' | ',' | ';' | ':' | '\'' | '"' | '?' | '/' | '%') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(one_line("a\u{1b}[2J\n\tb  c\u{202e}"), "a\\u{1b}[2J b c\\u{202e}");
    }

    #[test]
    fn of_escape_sequences_only_our_colours_are_left() {
        let red = "\u{1b}[1;31mred\u{1b}[0m";
        assert_eq!(painted(&format!("a {red}\n")), format!("a {red}\n"));
        for evil in ["\u{1b}[2J", "\u{1b}]0;title\u{7}", "\u{1b}[31", "\u{1b}", "\u{9b}2J", "a\u{202e}b"] {
            let shown = painted(&format!("{red}{evil}"));
            let behind = shown.strip_prefix(red).unwrap();
            assert!(
                behind.contains("\\u{") && !behind.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']),
                "{shown:?}"
            );
        }
    }

    #[test]
    fn hidden_characters_of_json_are_the_same_data_escaped() {
        let value = serde_json::json!({ "te\u{202e}xt": "a\u{9b}b\u{7f}\u{e0041}\u{200d}\u{2028}\u{2029}\u{3164}\u{fff9}é 漢" });
        let shown = plain_json(&value.to_string());
        assert!(shown.contains("te\\u202ext") && shown.contains("é 漢"), "{shown}");
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn pieces_are_broken_between_words() {
        let mut wrap = Wrap::new(10);
        let pieces = ["one two th", "ree four\n\n> f", "ive  a-word-too-long"].map(|piece| wrap.feed(piece));
        assert_eq!(pieces.concat() + &wrap.finish(), "one two\nthree four\n\n> five\na-word-too-long");
    }

    #[test]
    fn thousands_are_grouped() {
        for (n, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), expected);
        }
    }

    #[test]
    fn wide_characters_count_twice_when_cut() {
        assert_eq!(columns(&cut("漢字漢字", 5)), 5);
    }

    #[test]
    fn what_people_wrote_is_no_markup() {
        let text =
            quoted("**bold** [link](https://x.example)\n# head\u{202e} <@5> `code` @everyone ||spoiler||");
        assert_eq!(
            text,
            "\\*\\*bold\\*\\* \\[link\\]\\(https://x.example\\) \\# head \\<\\@5\\> \\`code\\` \\@everyone \
             \\|\\|spoiler\\|\\|"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(quoted(&"a".repeat(1000)).chars().count(), EXCERPT + 1);
    }
}
