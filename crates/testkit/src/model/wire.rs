//! Reads requests: their words, their tools, what they are for.

use serde_json::Value;

use super::Kind;

pub(super) fn messages(request: &Value) -> &[Value] {
    request.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// All words of a message's content, parts joined by line breaks.
pub fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// What begins volatile context at the tail of a message: recalled memories, the clock. It is never read from a cache again.
pub(super) const VOLATILE: &str = "<context>";

/// The words without the volatile context that follows or replaces them.
pub(super) fn lasting(text: &str) -> &str {
    let at = if text.starts_with(VOLATILE) { Some(0) } else { text.rfind(&format!("\n{VOLATILE}")) };
    at.map_or(text, |at| &text[..at]).trim_end()
}

/// All words of a message but the volatile context at its end.
pub fn lasting_text_of(message: &Value) -> String {
    lasting(&text_of(message)).to_owned()
}

/// What stands before pictures of a result, which are sent as a person's message.
const PICTURES: &str = "[pictures of the result of ";

/// The newest words of a user in a request, without the volatile context and without the `[Name | time]` before them. Of
/// several in one message those of the last.
pub fn last_user_text(request: &Value) -> String {
    let texts = messages(request).iter().rev().filter(|message| role(message) == "user").map(text_of);
    let mut texts = texts.map(|text| lasting(&text).to_owned()).filter(|text| !text.is_empty());
    texts.find_map(|text| newest(&text).map(str::to_owned)).unwrap_or_default()
}

/// What follows the last `[Name | time]` that begins a line; all of a text without one, unless pictures are all of it.
fn newest(text: &str) -> Option<&str> {
    let begins = |at: usize| at == 0 || text[..at].ends_with('\n');
    let words = |at: usize| {
        let (header, words) = text[at + 1..].split_once("] ")?;
        (header.contains(" | ") && !header.contains('\n')).then_some(words)
    };
    let headed =
        text.match_indices('[').filter(|(at, _)| begins(*at)).filter_map(|(at, _)| words(at)).next_back();
    headed.or_else(|| (!text.starts_with(PICTURES)).then_some(text))
}

/// The names of the tools that a request offers.
pub fn tool_names(request: &Value) -> Vec<String> {
    let tools = request.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    tools.iter().filter_map(|tool| Some(tool.pointer("/function/name")?.as_str()?.to_owned())).collect()
}

/// The usual way to tell a compaction from a reply.
pub(super) fn classify(request: &Value) -> Kind {
    let first =
        messages(request).iter().find(|message| role(message) == "user").map(text_of).unwrap_or_default();
    let only_saves = tool_names(request) == ["memory_save"];
    let data = first.starts_with("<transcript") || first.starts_with("<summaries");
    if only_saves || data { Kind::Compaction } else { Kind::Reply }
}
