//! Entities as Markdown, for people to look at.

use serde_json::Value;

/// The words with marks where entities begin and end.
pub(super) fn render(text: &str, entities: &[Value]) -> String {
    let number = |entity: &Value, name: &str| entity[name].as_u64().and_then(|n| usize::try_from(n).ok());
    let mut marks: Vec<(usize, bool, usize, String)> = Vec::new();
    for entity in entities {
        let (Some(from), Some(length)) = (number(entity, "offset"), number(entity, "length")) else {
            continue;
        };
        let (open, close) = marks_of(entity);
        // At one place: first what ends (the shorter first), then what begins (the longer first).
        marks.push((from, true, usize::MAX - length, open));
        marks.push((from + length, false, length, close));
    }
    marks.sort_by_key(|(at, opens, order, _)| (*at, *opens, *order));
    let mut out = String::new();
    let mut marks = marks.into_iter().peekable();
    let mut at = 0;
    for c in text.chars() {
        while let Some((_, _, _, mark)) = marks.next_if(|(place, ..)| *place <= at) {
            out.push_str(&mark);
        }
        out.push(c);
        at += c.len_utf16();
    }
    out.extend(marks.map(|(_, _, _, mark)| mark));
    out
}

fn marks_of(entity: &Value) -> (String, String) {
    let field = |name: &str| entity[name].as_str().unwrap_or_default();
    let both = |mark: &str| (mark.to_owned(), mark.to_owned());
    match field("type") {
        "bold" => both("**"),
        "italic" => both("_"),
        "underline" => both("__"),
        "strikethrough" => both("~~"),
        "spoiler" => both("||"),
        "code" => both("`"),
        "pre" => (format!("```{}\n", field("language")), "\n```".to_owned()),
        "blockquote" => ("> ".to_owned(), String::new()),
        "expandable_blockquote" => (">> ".to_owned(), String::new()),
        "text_link" => ("[".to_owned(), format!("]({})", field("url"))),
        "text_mention" => ("[".to_owned(), "](a person)".to_owned()),
        _ => both(""),
    }
}
