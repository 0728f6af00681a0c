//! Markdown as networks show it: inert, within the network's bounds, whole.

use cairn_platforms::markup::{discord, telegram};

use crate::lossy;

/// The parts of a reply for Discord.
pub fn markdown_discord(data: &[u8]) {
    let markdown = lossy(data);
    let parts = discord::split(&markdown);
    whole(&markdown, &parts, discord::first(&markdown));
    for part in parts.iter().chain([&markdown]) {
        let shown = discord::render(part);
        assert!(!shown.trim().is_empty(), "nothing is shown");
        assert!(shown.chars().all(is_seen), "unseen characters: {shown:?}");
        inert_on_discord(&shown);
    }
    for part in &parts {
        let chars = discord::render(part).chars().count();
        assert!(chars <= discord::LIMIT, "{chars} characters");
    }
}

/// Nobody is called, nothing is referred to, and no address hides behind words.
fn inert_on_discord(shown: &str) {
    let lower = shown.to_ascii_lowercase();
    for word in ["@everyone", "@here", "<@"] {
        assert!(!lower.contains(word), "{word} in {shown:?}");
    }
    for (plain, _) in outside_of_code(shown) {
        for live in ["<#", "<:", "<a:", "<t:", "<id:", "]("] {
            assert!(!plain.contains(live), "{live} in {plain:?} of {shown:?}");
        }
    }
}

/// What stands outside of code, as Discord reads it: a run of backticks ends at the next run as long.
fn outside_of_code(text: &str) -> Vec<(&str, usize)> {
    let mut plain = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let ticks = text[at..].bytes().take_while(|byte| *byte == b'`').count();
        if c == '\\' {
            at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
        } else if ticks == 0 {
            at += c.len_utf8();
        } else if let Some(end) = closing(&text[at + ticks..], ticks) {
            plain.push((&text[from..at], from));
            at += ticks + end;
            from = at;
        } else {
            at += ticks;
        }
    }
    plain.push((&text[from..], from));
    plain
}

/// The end of the run of so many backticks that closes what one opened.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        at += found;
        let run = text[at..].bytes().take_while(|byte| *byte == b'`').count();
        if run == ticks {
            return Some(at + run);
        }
        at += run;
    }
    None
}

/// The parts of a reply for Telegram.
pub fn markdown_telegram(data: &[u8]) {
    let markdown = lossy(data);
    let parts = telegram::split(&markdown);
    whole(&markdown, &parts, telegram::first(&markdown));
    for part in parts.iter().chain([&markdown]) {
        let rendered = telegram::render(part);
        let entities: Vec<serde_json::Value> = rendered
            .entities
            .iter()
            .map(|entity| serde_json::to_value(entity).expect("an entity is JSON"))
            .collect();
        let code = entities_fit(&rendered.text, &entities);
        inert_on_telegram(&rendered.text, &code);
        inert_on_telegram(&telegram::plain(part), &[]);
    }
    for part in &parts {
        let units = telegram::render(part).text.encode_utf16().count();
        assert!(units <= telegram::LIMIT, "{units} units");
    }
}

/// Checks entities as Telegram does, and gives the ranges of code: each within the text, none empty, none cutting a
/// character, none overlapping another in part, none about code.
fn entities_fit(text: &str, entities: &[serde_json::Value]) -> Vec<(usize, usize)> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let is_cut = |at: usize| units.get(at).is_some_and(|unit| (0xdc00..0xe000).contains(unit));
    let mut ranges: Vec<(usize, usize, bool)> = Vec::new();
    assert!(entities.len() <= 100, "{} entities", entities.len());
    for entity in entities {
        let number = |key: &str| entity[key].as_u64().expect("a number") as usize;
        let (from, to) = (number("offset"), number("offset") + number("length"));
        assert!(from < to && to <= units.len() && !is_cut(from) && !is_cut(to), "{entity} of {text:?}");
        let kind = entity["type"].as_str().expect("a kind");
        assert!(
            ["bold", "italic", "strikethrough", "blockquote", "code", "pre"].contains(&kind),
            "{kind} reaches beyond the text"
        );
        let is_code = matches!(kind, "code" | "pre");
        for (other_from, other_to, other_is_code) in &ranges {
            let apart = to <= *other_from || *other_to <= from;
            let nested = (*other_from <= from && to <= *other_to) || (from <= *other_from && *other_to <= to);
            assert!(apart || (nested && !is_code && !other_is_code), "{entities:?} of {text:?}");
        }
        ranges.push((from, to, is_code));
    }
    ranges.into_iter().filter(|(.., is_code)| *is_code).map(|(from, to, _)| (from, to)).collect()
}

/// No mention, no command, no address of Telegram's own, outside of code.
fn inert_on_telegram(text: &str, code: &[(usize, usize)]) {
    assert!(!text.is_empty(), "nothing is shown");
    assert!(text.chars().all(is_seen), "unseen characters: {text:?}");
    let mut at = 0;
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let in_code = code.iter().any(|(from, to)| (*from..*to).contains(&at));
        at += c.len_utf16();
        let starts_name = chars.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '_');
        let after_word = before.is_ascii_alphanumeric() || before == '_';
        assert!(in_code || c != '@' || after_word || !starts_name, "a mention in {text:?}");
        let begins = before.is_whitespace() || matches!(before, '(' | '[' | '"' | '\'');
        assert!(in_code || c != '/' || !begins || !starts_name, "a command in {text:?}");
        before = c;
    }
    if code.is_empty() {
        let lower = text.to_ascii_lowercase();
        for scheme in ["tg://", "ton://", "tonsite://"] {
            let own =
                lower.match_indices(scheme).any(|(at, _)| !lower[..at].ends_with(char::is_alphanumeric));
            assert!(!own, "{scheme} in {text:?}");
        }
    }
}

/// No character that turns the direction or steers a terminal.
fn is_seen(c: char) -> bool {
    (!c.is_control() || matches!(c, '\n' | '\t'))
        && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Parts hold every word of the text, in its order; the first is the first.
fn whole(markdown: &str, parts: &[String], first: Option<String>) {
    assert_eq!(first.as_ref(), parts.first(), "the first part is another one");
    assert!(parts.iter().all(|part| !part.trim().is_empty()), "a part without words: {parts:?}");
    assert_eq!(parts.is_empty(), markdown.trim().is_empty(), "a text in no parts");
    let mut shown = parts.iter().flat_map(|part| part.chars());
    let words = markdown.chars().filter(|c| c.is_alphanumeric());
    let lost = words.enumerate().find(|(_, c)| !shown.any(|shown| shown == *c));
    assert!(lost.is_none(), "lost in parts: {lost:?} of {markdown:?}, in {parts:?}");
}
