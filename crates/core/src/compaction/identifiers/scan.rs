//! Finding identifiers in a text: by their shape alone, in any language around them.

use super::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) kind: Kind,
    /// The identifier, letter by letter.
    pub(crate) text: &'a str,
    /// Where it begins, in bytes.
    pub(crate) at: usize,
}

/// Most characters of an error message: what tells it from others stands at its beginning.
const ERROR_CHARS: usize = 120;

/// What an exact error message begins with.
const ERRORS: [&str; 8] =
    ["error:", "error[", "fatal:", "exception:", "panicked at", "traceback", "segmentation fault", "errno "];

/// Endings of file names that are taken as such without a path before them.
const EXTENSIONS: [&str; 48] = [
    "rs", "toml", "lock", "json", "jsonl", "yaml", "yml", "md", "txt", "py", "js", "ts", "tsx", "jsx", "go",
    "c", "h", "cc", "cpp", "hpp", "java", "kt", "rb", "php", "sh", "sql", "csv", "log", "xml", "html", "css",
    "svg", "png", "jpg", "pdf", "zip", "gz", "tar", "conf", "cfg", "ini", "env", "service", "docx", "xlsx",
    "mp4", "wasm", "proto",
];

/// All identifiers of a text, in the order of their beginnings. An error message may have others within it.
pub(crate) fn find(text: &str) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if let Some((start, text)) = error(line) {
            found.push(Found { kind: Kind::Error, text, at: at + start });
        }
        find_words(line, at, fenced, &mut found);
        at += line.len();
    }
    found.sort_by_key(|found| (found.at, std::cmp::Reverse(found.text.len())));
    found
}

/// The error message of a line, and where it begins.
fn error(line: &str) -> Option<(usize, &str)> {
    let lower = line.to_ascii_lowercase();
    let start = ERRORS.iter().filter_map(|mark| lower.find(mark)).min()?;
    // `TypeError: x` and `E0308 error: x` begin with their word, not in the middle of it.
    let start = line[..start]
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(0, |idx| idx + line[idx..].chars().next().map_or(1, char::len_utf8));
    let rest = &line[start..];
    let end = rest.char_indices().nth(ERROR_CHARS).map_or(rest.len(), |(end, _)| end);
    let message = rest[..end].trim_end().trim_end_matches(['`', '"', '\'']);
    // The mark alone says nothing.
    (message.split_whitespace().count() > 2).then_some((start, message))
}

fn find_words<'a>(line: &'a str, at: usize, fenced: bool, found: &mut Vec<Found<'a>>) {
    let mut idx = 0;
    let mut ticks = 0;
    let mut leads = 0;
    while let Some(c) = line[idx..].chars().next() {
        if c == '`' {
            ticks += 1;
        }
        let begins =
            c.is_ascii_alphanumeric() || matches!(c, '/' | '~' | '.' | '#' | '_' | '$' | '€' | '£' | '¥');
        if !begins {
            idx += c.len_utf8();
            continue;
        }
        let rest = &line[idx..];
        let in_code = fenced || ticks % 2 == 1;
        let (kind, len) = url(rest)
            .or_else(|| windows_path(rest))
            .unwrap_or_else(|| word(rest, in_code, leads < LEADS_MAX));
        let len = len.max(c.len_utf8());
        leads = if kind.is_none() && rest[..len].ends_with(':') { leads + 1 } else { 0 };
        if let Some(kind) = kind {
            let text = &rest[..len];
            found.push(Found { kind, text, at: at + idx });
        }
        idx += len;
    }
}

/// Most words with a colon behind them that are taken off one identifier: each is looked at with all that follows it.
const LEADS_MAX: usize = 4;

/// What is taken as one at the beginning of the text: its sort, if it is an identifier, and its length in bytes.
type Taken = (Option<Kind>, usize);

fn url(rest: &str) -> Option<Taken> {
    // No farther than a scheme is long: this is tried at every word.
    let in_scheme = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let scheme = rest.bytes().take(13).take_while(in_scheme).count();
    if !(2..=12).contains(&scheme) || !rest[scheme..].starts_with("://") {
        return None;
    }
    let ends =
        |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '|' | '\\' | '{' | '}');
    // A bracket that was not opened within it closes what it stands in. It is read no farther: this is tried at every word.
    let (mut round, mut square) = (false, false);
    let over = rest.char_indices().find_map(|(at, c)| {
        round |= c == '(';
        square |= c == '[';
        let closes = (c == ')' && !round) || (c == ']' && !square);
        (closes || ends(c)).then_some((at, closes))
    });
    let (end, is_closed) = over.unwrap_or((rest.len(), false));
    let url = &rest[..end];
    let url = if is_closed { url } else { url.trim_end_matches(['.', ',', ';', ':', '!', '?', '*']) };
    (url.len() > scheme + 3).then_some((Some(Kind::Url), url.len()))
}

fn windows_path(rest: &str) -> Option<Taken> {
    let bytes = rest.as_bytes();
    let begins =
        bytes.first()?.is_ascii_alphabetic() && bytes.get(1) == Some(&b':') && bytes.get(2) == Some(&b'\\');
    if !begins {
        return None;
    }
    // Scripts without gaps go on right behind a name; folders may have such names, too.
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | '<' | '>' | '|' | '`' | ',')
            || (!c.is_ascii() && !c.is_alphanumeric())
    };
    let mut path = &rest[..rest.find(ends).unwrap_or(rest.len())];
    if let Some((stem, extension)) = path.rsplit_once('.') {
        let n_ascii = extension.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let is_name = (1..=8).contains(&n_ascii) && !extension[n_ascii..].starts_with(|c: char| c.is_ascii());
        path = if is_name { &path[..stem.len() + 1 + n_ascii] } else { path };
    }
    let path = path.trim_end_matches(['.', ')', ';', ':']);
    (path.len() > 3).then_some((Some(Kind::Path), path.len()))
}

fn word(rest: &str, in_code: bool, may_lead: bool) -> Taken {
    if let Some(taken) = number(rest) {
        return taken;
    }
    let bytes = rest.as_bytes();
    let is_digit = |idx: usize| bytes.get(idx).is_some_and(u8::is_ascii_digit);
    let mut len = 0;
    while let Some(b) = bytes.get(len) {
        let inside = match b {
            b',' => len > 0 && is_digit(len - 1) && is_digit(len + 1),
            b => b.is_ascii_alphanumeric() || b"_./:@#~+%-$".contains(b),
        };
        if !inside {
            break;
        }
        len += 1;
    }
    let run = &rest[..len];
    let trimmed = run.trim_end_matches(['.', ':', ',', '-', '#', '+', '~', '%', '@', '$']);
    if trimmed.is_empty() {
        return (None, len);
    }
    if rest[trimmed.len()..].starts_with("()") && is_name(trimmed) {
        return (Some(Kind::Function), trimmed.len() + 2);
    }
    // `file:src/main.rs`: the word before the colon is none of it.
    if let Some((lead, tail)) = trimmed.split_once(':').filter(|_| may_lead)
        && lead.starts_with(|c: char| c.is_ascii_alphabetic())
        && lead.bytes().all(|b| b.is_ascii_alphanumeric())
        && !tail.starts_with(':')
        && kind_of(tail, in_code).is_some()
    {
        return (None, lead.len() + 1);
    }
    (kind_of(trimmed, in_code), trimmed.len())
}

/// A number that is told from others by its shape: with a currency or a sign behind it, with letters right behind it
/// (`16GB`), or with a separator in it (`1,450`, `3.5`).
fn number(rest: &str) -> Option<Taken> {
    let digits_at = rest.strip_prefix(['$', '€', '£', '¥']).map_or(0, |tail| rest.len() - tail.len());
    let bytes = rest.as_bytes();
    bytes.get(digits_at).filter(|b| b.is_ascii_digit())?;
    let mut end = digits_at;
    let (mut n_points, mut n_commas) = (0, 0);
    while let Some(b) = bytes.get(end) {
        let next_is_digit = bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        let is_separator = matches!(b, b',' | b'.') && next_is_digit;
        if !b.is_ascii_digit() && !is_separator {
            break;
        }
        n_points += usize::from(*b == b'.');
        n_commas += usize::from(*b == b',');
        end += 1;
    }
    if n_points > 1 {
        return None;
    }
    let tail = &rest[end..];
    let gap = usize::from(tail.starts_with(' '));
    let signs = ["%", "°C", "°F", "€", "£", "¥", "$", "µs"];
    if let Some(sign) = signs.iter().find(|sign| tail[gap..].starts_with(**sign)) {
        return Some((Some(Kind::Number), end + gap + sign.len()));
    }
    let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
    let goes_on =
        tail[letters..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/'));
    let is_ordinal = matches!(&tail[..letters], "st" | "nd" | "rd" | "th");
    match letters {
        1..=3 if !goes_on && !is_ordinal && !is_hex(&rest[..end + letters]) => {
            Some((Some(Kind::Number), end + letters))
        }
        0 if !goes_on && (digits_at > 0 || n_points + n_commas > 0) => Some((Some(Kind::Number), end)),
        _ => None,
    }
}

fn kind_of(text: &str, in_code: bool) -> Option<Kind> {
    let path = text.rsplit_once(':').map_or(text, |(path, line)| {
        // `src/main.rs:12` is the path with its line.
        if line.bytes().all(|b| b.is_ascii_digit()) { path } else { text }
    });
    if is_address(text) {
        Some(Kind::Url)
    } else if is_uuid(text) || is_ticket(text) || is_version(path) || is_hex(text) || is_code(text) {
        Some(Kind::Id)
    } else if is_path(path) {
        Some(Kind::Path)
    } else if is_function(text, in_code) {
        Some(Kind::Function)
    } else {
        None
    }
}

fn is_address(text: &str) -> bool {
    let Some((user, host)) = text.split_once('@') else { return false };
    !user.is_empty() && host.contains('.') && !host.contains(['@', '/']) && !host.starts_with('.')
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// `ABC-123`, `#4711`.
fn is_ticket(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(number) = text.strip_prefix('#') {
        return number.len() > 1 && is_number(number);
    }
    text.split_once('-').is_some_and(|(project, number)| {
        let letters = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        (2..=10).contains(&project.len())
            && project.starts_with(|c: char| c.is_ascii_uppercase())
            && project.bytes().all(letters)
            && is_number(number)
    })
}

/// `v1.2`, `1.2.3`, `1.2.3-rc1`, `10.0.0.1`.
fn is_version(text: &str) -> bool {
    let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let numbers = bare.split_once(['-', '+']).map_or(bare, |(numbers, _)| numbers);
    let n_parts = numbers.split('.').count();
    let all_numbers =
        numbers.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    all_numbers && n_parts >= if bare.len() < text.len() { 2 } else { 3 }
}

fn is_hex(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return digits.len() > 1 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let mixed = text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic());
    text.len() >= 7 && mixed && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A long number, or capitals with digits: an order, a flight, a serial number.
fn is_code(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    if n_digits == text.len() {
        return n_digits >= 6;
    }
    let allowed = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-';
    let has_letter = text.bytes().any(|b| b.is_ascii_uppercase());
    text.len() >= 5 && n_digits >= 2 && has_letter && text.bytes().all(allowed)
}

fn is_path(text: &str) -> bool {
    let has_letter = text.bytes().any(|b| b.is_ascii_alphabetic());
    if !has_letter || text.contains('@') || text.contains("//") {
        return false;
    }
    let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
    let extension =
        last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    let n_slashes = text.bytes().filter(|b| *b == b'/').count();
    if ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start)) {
        return n_slashes > 1 || extension.is_some() || text.starts_with(['~', '.']);
    }
    if n_slashes == 0 {
        return extension
            .is_some_and(|extension| EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()));
    }
    let is_extension = |text: &str| {
        (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric()) && !text.is_empty()
    };
    let marked = text.bytes().any(|b| matches!(b, b'_' | b'-' | b'.') || b.is_ascii_digit());
    extension.is_some_and(is_extension) || (n_slashes > 1 && marked)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':'))
}

/// `foo::bar`, `snake_case`, `CONSTANT_CASE`; `camelCase` in code alone, for elsewhere it is a brand.
fn is_function(text: &str, in_code: bool) -> bool {
    if !is_name(text) {
        return false;
    }
    let parts = text.trim_matches('_');
    let snake = parts.contains('_') && parts.bytes().any(|b| b.is_ascii_alphabetic());
    let scoped = text.contains("::") && !text.ends_with(':');
    let humped = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() >= 4
        && text.bytes().any(|b| b.is_ascii_uppercase());
    snake || scoped || (in_code && humped)
}
