//! Words of people inside answers: shown as they are, never as markup.

/// Longest excerpt of a text in a list, in characters.
pub(super) const EXCERPT: usize = 300;

/// The text on one line, without control characters and marks that turn the direction of writing, cut to
/// [`EXCERPT`], every sign of Markdown escaped.
pub(super) fn quoted(text: &str) -> String {
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

/// Characters that nobody sees and that change how others are shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
