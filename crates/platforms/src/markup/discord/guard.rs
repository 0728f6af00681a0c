//! Makes text inert on Discord: breaks up mentions, custom emoji, timestamps, and link addresses hidden behind text.

use percent_encoding::percent_encode_byte;

use crate::markup::JOINER;

/// Text outside code, made inert. Stray backticks are escaped, so that Discord sees the same code spans as we do.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        match c {
            '`' if !is_escaped(&out) => out.push('\\'),
            '(' if out.ends_with(']') => out.push(JOINER),
            _ => {}
        }
        out.push(c);
        let live = match c {
            '@' => calls_everybody(after),
            '<' => is_reference(after),
            _ => false,
        };
        if live {
            out.push(JOINER);
        }
    }
    out
}

/// Code, which Discord does not parse: only mentions are broken up.
pub(super) fn code(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    for (at, c) in code.char_indices() {
        out.push(c);
        let after = &code[at + c.len_utf8()..];
        if (c == '@' && calls_everybody(after)) || (c == '<' && after.starts_with('@')) {
            out.push(JOINER);
        }
    }
    out
}

/// A link's address. Web addresses are put in angle brackets, which suppresses the preview; others stay plain text.
pub(super) fn address(address: &str) -> String {
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    if !is_web {
        return address.to_owned();
    }
    let mut out = String::from("<");
    for (at, c) in address.char_indices() {
        let inert = c == '@' && calls_everybody(&address[at + 1..]);
        if inert || c.is_whitespace() || matches!(c, '<' | '>' | '`' | '\\') {
            out.extend(c.to_string().bytes().map(percent_encode_byte));
        } else {
            out.push(c);
        }
    }
    out.push('>');
    out
}

fn calls_everybody(after: &str) -> bool {
    ["everyone", "here"].iter().any(|word| {
        after.as_bytes().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    })
}

/// Whether `<` followed by `after` starts a mention, a channel, a command, an emoji or a timestamp.
fn is_reference(after: &str) -> bool {
    let starts = ["@", "#", ":", "a:", "t:", "id:"].iter().any(|start| after.starts_with(start));
    let is_command = || {
        let name = after.strip_prefix('/').and_then(|rest| rest.split(['>', '\n', '<']).next());
        name.and_then(|name| name.rsplit_once(':'))
            .is_some_and(|(_, id)| id.starts_with(|c: char| c.is_ascii_digit()))
    };
    starts || is_command()
}

/// Whether the next character is escaped by an unescaped backslash.
fn is_escaped(out: &str) -> bool {
    (out.len() - out.trim_end_matches('\\').len()) % 2 == 1
}
