//! What may be shown of a configuration: never what has the name of a secret, or follows such a name.

use serde_json::Value;

use super::secrets::{names_variable, without_secrets};
use super::types::Config;

/// Parts of names that mark a secret.
const SECRET_WORDS: [&str; 10] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "auth",
    "cookie",
    "credential",
    "signature",
];

/// Parts of the names of tables that may have any keys.
const FREE_TABLES: [&str; 3] = ["headers", "extra_body", "env"];

/// Replaces what is not shown.
const HIDDEN: &str = "…";

/// Quotes of strings that may have several lines.
const LONG_QUOTES: [&str; 2] = ["\"\"\"", "'''"];

/// Whether a name is that of a secret.
fn names_secret(name: &str) -> bool {
    has_any(name, &SECRET_WORDS)
}

fn has_any(text: &str, words: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

/// The configuration as it may be shown.
pub(super) fn shown(config: &Config) -> Config {
    let mut shown = config.clone();
    for model in &mut shown.models {
        for (name, value) in &mut model.extra_body {
            hide_named(name, value, names_secret(name));
        }
        for (name, value) in &mut model.extra_headers {
            *value = shown_value(name, value);
        }
    }
    for server in &mut shown.mcp {
        for (name, value) in server.env.iter_mut().chain(server.headers.iter_mut()) {
            *value = shown_value(name, value);
        }
        server.args = shown_args(&server.args);
        server.command = server.command.as_deref().map(shown_text);
    }
    shown
}

/// Hides the strings of a value if it, or a table around it, has the name of a secret.
fn hide_named(name: &str, value: &mut Value, is_secret: bool) {
    match value {
        Value::String(text) if is_secret && !names_place(name, text) => HIDDEN.clone_into(text),
        Value::String(text) => *text = shown_text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_named(name, item, is_secret)),
        Value::Object(fields) => {
            for (name, value) in fields {
                hide_named(name, value, is_secret || names_secret(name));
            }
        }
        _ => {}
    }
}

fn shown_value(name: &str, value: &str) -> String {
    if names_secret(name) && !names_place(name, value) { HIDDEN.to_owned() } else { shown_text(value) }
}

/// Whether a value tells only where a secret is.
fn names_place(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_path = || value.contains('/') && !value.contains(char::is_whitespace);
    (name.ends_with("_env") && names_variable(value)) || (name.ends_with("_file") && is_path())
}

/// The arguments of a program, without those after a flag that announces a secret.
fn shown_args(args: &[String]) -> Vec<String> {
    let mut is_announced = false;
    let shown = args.iter().map(|arg| {
        let is_hidden = is_announced && !arg.starts_with("--");
        is_announced = arg.starts_with('-') && names_secret(arg) && !arg.contains(['=', ':', ' ']);
        if is_hidden { HIDDEN.to_owned() } else { shown_text(arg) }
    });
    shown.collect()
}

/// A command line or another text up to the first secret in it, as far as names mark it: after `--token`, `token=`,
/// `Authorization:`, or an account in an address.
pub fn shown_text(text: &str) -> String {
    let mut at = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let end = at + word.len();
        if let Some(kept) = before_secret(word) {
            return format!("{}{HIDDEN}", without_secrets(&text[..at + kept]));
        }
        let announces = (word.starts_with('-') && names_secret(word)) || word.eq_ignore_ascii_case("bearer");
        if announces && !text[end..].trim().is_empty() {
            return format!("{} {HIDDEN}", without_secrets(&text[..end]));
        }
        at += piece.len();
    }
    without_secrets(text)
}

/// Length in bytes of what precedes a secret in a word; `None`: there is no secret.
fn before_secret(word: &str) -> Option<usize> {
    if let Some(at) = word.find("://")
        && word[at..].contains('@')
    {
        return Some(at + "://".len());
    }
    let of_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    word.match_indices(['=', ':']).find_map(|(at, _)| {
        let before = word[..at].trim_end_matches(['"', '\'']);
        let name = before.rsplit(|c| !of_name(c)).next().unwrap_or_default();
        names_secret(name).then_some(at + 1)
    })
}

/// The line of a file that starts at `start`, as it may be shown. A line about a secret shows only its keys, numbers and
/// signs.
pub(super) fn shown_line(text: &str, start: usize) -> String {
    let line = text[start..].lines().next().unwrap_or_default();
    let around = Around::of(text, start);
    if !around.is_about_secret(line) {
        without_secrets(line)
    } else if around.open.quote.is_some() {
        HIDDEN.to_owned()
    } else {
        without_values(line)
    }
}

/// Whether the line that starts at `start` is about a secret.
pub(super) fn is_about_secret(text: &str, start: usize) -> bool {
    let line = text[start..].lines().next().unwrap_or_default();
    Around::of(text, start).is_about_secret(line)
}

/// The context of a line: the head of its table, and the lines of the value that it continues.
struct Around<'t> {
    head: &'t str,
    begun: Vec<&'t str>,
    open: Open,
}

impl<'t> Around<'t> {
    fn of(text: &'t str, start: usize) -> Self {
        let mut around = Self { head: "", begun: Vec::new(), open: Open::default() };
        for line in text[..start].lines() {
            if around.begun.is_empty() && line.trim_start().starts_with('[') {
                around.head = line;
            }
            around.begun.push(line);
            around.open.feed(line);
            if around.open.is_closed() {
                around.begun.clear();
            }
        }
        around
    }

    fn is_about_secret(&self, line: &str) -> bool {
        let is_head = self.begun.is_empty() && is_head(line);
        let head = if is_head { "" } else { self.head };
        let has_word = |line: &str| has_any(line, &SECRET_WORDS) || has_any(line, &FREE_TABLES);
        let has_account = line.find("://").is_some_and(|at| line[at..].contains('@'));
        has_account || has_word(head) || has_word(line) || self.begun.iter().any(|line| has_word(line))
    }
}

/// Brackets and strings that are open at the end of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// Brackets and braces.
    depth: usize,
    /// A string of several lines.
    quote: Option<&'static str>,
}

impl Open {
    fn is_closed(self) -> bool {
        self.depth == 0 && self.quote.is_none()
    }

    fn feed(&mut self, line: &str) {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some(quote) = self.quote {
                let Some(at) = rest.find(quote) else { return };
                self.quote = None;
                rest = &rest[at + quote.len()..];
                continue;
            }
            if let Some(quote) = LONG_QUOTES.into_iter().find(|quote| rest.starts_with(quote)) {
                self.quote = Some(quote);
                rest = &rest[quote.len()..];
                continue;
            }
            match first {
                '#' => return,
                '[' | '{' => self.depth += 1,
                ']' | '}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            let is_quote = ['"', '\''].contains(&first);
            rest = &rest[if is_quote { string_len(rest) } else { first.len_utf8() }..];
        }
    }
}

/// Length in bytes of the string at the start of a text. A string without an end takes all.
fn string_len(text: &str) -> usize {
    let quote = text.chars().next();
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' && quote == Some('"') {
            is_escaped = true;
        } else if Some(c) == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Whether a line is the head of a table.
fn is_head(line: &str) -> bool {
    let line = line.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-. []".contains(c);
    line.starts_with('[') && line.ends_with(']') && line.chars().all(fits)
}

/// A line with only its keys, numbers and signs.
fn without_values(line: &str) -> String {
    const SIGNS: &str = ",=[]{}";
    if is_head(line) {
        return without_secrets(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut is_key_next = true;
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            out.push_str("# ");
            out.push_str(HIDDEN);
            break;
        }
        if first.is_whitespace() || SIGNS.contains(first) {
            is_key_next = (is_key_next && first != '=') || "{,".contains(first);
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let is_string = ['"', '\''].contains(&first);
        let ends = |c: char| c.is_whitespace() || SIGNS.contains(c) || "#\"'".contains(c);
        let len = if is_string { string_len(rest) } else { rest.find(ends).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(len);
        let is_key = is_key_next && after.trim_start().starts_with('=');
        let is_plain = || word.parse::<bool>().is_ok() || word.replace('_', "").parse::<f64>().is_ok();
        if is_key || (!is_string && is_plain()) {
            out.push_str(&without_secrets(word));
        } else if is_string {
            out.push_str("\"…\"");
        } else {
            out.push_str(HIDDEN);
        }
        rest = after;
    }
    out
}

/// A sentence without the strings that it quotes.
pub(super) fn without_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        out.push_str(&rest[..at]);
        out.push_str("\"…\"");
        rest = &rest[at..];
        rest = &rest[string_len(rest)..];
    }
    out.push_str(rest);
    out
}
