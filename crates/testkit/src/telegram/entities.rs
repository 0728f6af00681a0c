//! Entities: what a bot may send, and what the server finds in words by itself.

use serde_json::{Value, json};

const ENTITIES_MAX: usize = 100;

const KINDS: [&str; 20] = [
    "mention",
    "hashtag",
    "cashtag",
    "bot_command",
    "url",
    "email",
    "phone_number",
    "bold",
    "italic",
    "underline",
    "strikethrough",
    "spoiler",
    "blockquote",
    "expandable_blockquote",
    "code",
    "pre",
    "text_link",
    "text_mention",
    "custom_emoji",
    "date_time",
];

/// A part of a text, in UTF-16 units.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entity {
    pub(super) kind: String,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) json: Value,
}

impl Entity {
    fn read(json: &Value) -> Result<Self, String> {
        let number = |name: &str| {
            let n = json.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            n.ok_or_else(|| format!("an entity has no {name}: {json}"))
        };
        let kind = json.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !KINDS.contains(&kind.as_str()) {
            return Err(format!("an entity is of an unknown type: {json}"));
        }
        let (from, length) = (number("offset")?, number("length")?);
        if length == 0 {
            return Err(format!("an entity is empty: {json}"));
        }
        if kind == "text_link" && json.get("url").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(format!("a text_link has no url: {json}"));
        }
        Ok(Self { kind, from, to: from + length, json: json.clone() })
    }

    fn is_style(&self) -> bool {
        matches!(self.kind.as_str(), "bold" | "italic" | "underline" | "strikethrough" | "spoiler")
    }

    fn is_code(&self) -> bool {
        matches!(self.kind.as_str(), "code" | "pre")
    }

    fn is_quote(&self) -> bool {
        matches!(self.kind.as_str(), "blockquote" | "expandable_blockquote")
    }
}

/// Entities that fit their text and nest as they may.
pub(super) fn check(text: &str, entities: &[Value]) -> Result<Vec<Entity>, String> {
    if entities.len() > ENTITIES_MAX {
        return Err(format!("{} entities, more than {ENTITIES_MAX}", entities.len()));
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    let splits = |at: usize| units.get(at).is_some_and(|unit| (0xDC00..0xE000).contains(unit));
    let entities: Vec<Entity> = entities.iter().map(Entity::read).collect::<Result<_, _>>()?;
    for entity in &entities {
        if entity.to > units.len() {
            return Err(format!("an entity ends behind the text of {} units: {}", units.len(), entity.json));
        }
        if splits(entity.from) || splits(entity.to) {
            return Err(format!("an entity splits a character: {}", entity.json));
        }
    }
    for (idx, one) in entities.iter().enumerate() {
        for other in &entities[idx + 1..] {
            nest(one, other)?;
        }
    }
    Ok(entities)
}

fn nest(one: &Entity, other: &Entity) -> Result<(), String> {
    if one.to <= other.from || other.to <= one.from {
        return Ok(());
    }
    let within = |a: &Entity, b: &Entity| b.from <= a.from && a.to <= b.to;
    let fault = if !within(one, other) && !within(other, one) {
        "overlap"
    } else if [(one, other), (other, one)].iter().any(|(a, b)| b.is_code() && !(a.is_quote() && within(b, a)))
    {
        "nest, and one is code"
    } else if one.is_quote() && other.is_quote() {
        "are quotations within each other"
    } else if one.is_style() || other.is_style() || one.is_quote() || other.is_quote() {
        return if one.kind == other.kind {
            Err(format!("two entities of a kind overlap: {} {}", one.json, other.json))
        } else {
            Ok(())
        };
    } else {
        "may not nest"
    };
    Err(format!("two entities {fault}: {} {}", one.json, other.json))
}

/// What the server makes of words where no code and no link is: mentions, commands, addresses.
pub(super) fn detect(text: &str, given: &[Entity]) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut before: Option<char> = None;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hit = match first {
            '@' if !before.is_some_and(is_word) => mention(rest).map(|n| ("mention", n)),
            '/' if !before.is_some_and(|c| is_word(c) || "/<>".contains(c)) => {
                command(rest).map(|n| ("bot_command", n))
            }
            'h' if !before.is_some_and(is_word) => url(rest).map(|n| ("url", n)),
            _ => None,
        };
        let bytes = hit.map_or(first.len_utf8(), |(_, n)| n);
        let units = rest[..bytes].encode_utf16().count();
        let covered = |entity: &Entity| {
            entity.from < at + units
                && at < entity.to
                && (entity.is_code() || matches!(entity.kind.as_str(), "text_link" | "text_mention"))
        };
        if let Some((kind, _)) = hit
            && !given.iter().any(covered)
        {
            found.push(json!({ "type": kind, "offset": at, "length": units }));
        }
        before = rest[..bytes].chars().next_back();
        at += units;
        rest = &rest[bytes..];
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_len(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

/// Shortest and longest name behind an `@`.
const NAME_LEN: std::ops::RangeInclusive<usize> = 3..=32;

fn mention(text: &str) -> Option<usize> {
    let n = name_len(&text[1..]);
    let next = text[1 + n..].chars().next();
    (NAME_LEN.contains(&n) && !next.is_some_and(is_word)).then_some(1 + n)
}

fn command(text: &str) -> Option<usize> {
    let n = name_len(&text[1..]);
    if n == 0 || n > 64 || text[1 + n..].chars().next().is_some_and(|c| is_word(c) || "/<>".contains(c)) {
        return None;
    }
    let behind = &text[1 + n..];
    Some(1 + n + if behind.starts_with('@') { mention(behind).unwrap_or(0) } else { 0 })
}

fn url(text: &str) -> Option<usize> {
    let scheme = ["https://", "http://"].iter().find(|scheme| text.starts_with(**scheme))?;
    let n = text.find(char::is_whitespace).unwrap_or(text.len());
    (n > scheme.len()).then_some(n)
}

/// A part of a text by its UTF-16 units.
pub(super) fn slice(text: &str, from: usize, to: usize) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    String::from_utf16_lossy(&units[from.min(units.len())..to.min(units.len())])
}
