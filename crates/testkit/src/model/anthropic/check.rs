//! What a request must be like, over and above what all requests must be.

use std::collections::HashSet;

use cairn_core::tune::MAX_BREAKPOINTS;
use serde_json::Value;

use super::super::Kind;
use super::super::check::Rule;
use super::super::wire::{VOLATILE, messages, role};
use super::{blocks, list, text};

type Checked = Result<(), (Rule, String)>;

/// Checks a request of that kind. `versioned`: it named the version of the format.
pub(in super::super) fn check(request: &Value, kind: Kind, versioned: bool) -> Checked {
    let shape = |text: &str| Err((Rule::Shape, text.to_owned()));
    if !versioned {
        return shape("the header `anthropic-version` is missing");
    }
    if request.get("max_tokens").and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
        return shape("`max_tokens` is missing");
    }
    if request.get("system").is_some_and(|it| !it.is_string() && it.as_array().is_none_or(Vec::is_empty)) {
        return shape("`system` is no list of blocks");
    }
    for block in list(request, "system") {
        check_text(block)?;
    }
    for tool in list(request, "tools") {
        if text(tool, "name").is_empty() || !tool.get("input_schema").is_some_and(Value::is_object) {
            return shape("a tool has no name or no `input_schema`");
        }
    }
    for (idx, message) in messages(request).iter().enumerate() {
        if list(message, "content").is_empty() {
            return Err((Rule::Empty, format!("message {idx} has no blocks")));
        }
    }
    for (role, block) in blocks(request) {
        check_block(role, block)?;
    }
    check_calls(request)?;
    check_marks(request, kind)
}

/// People and the model take turns, and people begin. Behind results a person says nothing: models end their answer then, and
/// servers that translate the format put the words before the results.
pub(in super::super) fn check_roles(request: &Value) -> Checked {
    for (idx, message) in messages(request).iter().enumerate() {
        let fault = |text: String| Err((Rule::Roles, text));
        let expected = if idx % 2 == 0 { "user" } else { "assistant" };
        if role(message) != expected {
            return fault(format!("message {idx} is from `{}`, not `{expected}`", role(message)));
        }
        let content = list(message, "content");
        let is_result = |block: &&Value| text(block, "type") == "tool_result";
        if content.first().is_some_and(|first| is_result(&first)) && !content.iter().all(|it| is_result(&it))
        {
            return fault(format!("message {idx} has words behind a result"));
        }
    }
    Ok(())
}

fn check_text(block: &Value) -> Checked {
    if text(block, "type") != "text" {
        return Err((Rule::Shape, format!("a block is `{}` where only text may stand", text(block, "type"))));
    }
    if text(block, "text").trim().is_empty() {
        return Err((Rule::Empty, "a block of text says nothing".to_owned()));
    }
    Ok(())
}

fn check_block(role: &str, block: &Value) -> Checked {
    let shape = |text: String| Err((Rule::Shape, text));
    match (role, text(block, "type")) {
        (_, "text") => check_text(block),
        ("user", "image") => check_picture(block),
        ("user", "tool_result") => check_result(block),
        ("assistant", "thinking") if block.get("cache_control").is_some() => {
            shape("a block of thinking has a breakpoint".to_owned())
        }
        ("assistant", "thinking") if !text(block, "signature").is_empty() => Ok(()),
        ("assistant", "redacted_thinking") if !text(block, "data").is_empty() => Ok(()),
        ("assistant", "tool_use") => {
            let fine = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            };
            if !fine(text(block, "id")) || !fine(text(block, "name")) {
                return shape(format!(
                    "a call has the id `{}`, the name `{}`",
                    text(block, "id"),
                    text(block, "name")
                ));
            }
            if block.get("input").is_some_and(Value::is_object) {
                Ok(())
            } else {
                shape("the input of a call is no object".to_owned())
            }
        }
        (role, kind) => shape(format!("a block `{kind}` from `{role}`")),
    }
}

fn check_picture(block: &Value) -> Checked {
    let shape = |text: String| Err((Rule::Shape, text));
    let source = block.get("source").cloned().unwrap_or_default();
    let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    if text(&source, "type") != "base64" || !known.contains(&text(&source, "media_type")) {
        return shape(format!(
            "a picture comes as {} {}",
            text(&source, "type"),
            text(&source, "media_type")
        ));
    }
    if text(&source, "data").is_empty() { shape("a picture has no data".to_owned()) } else { Ok(()) }
}

/// A result is a text, or a list of texts and pictures.
fn check_result(block: &Value) -> Checked {
    let parts = list(block, "content");
    if parts.is_empty() && text(block, "content").is_empty() {
        return Err((Rule::Empty, "the result of a call is empty".to_owned()));
    }
    parts.iter().try_for_each(|part| match text(part, "type") {
        "image" => check_picture(part),
        _ => check_text(part),
    })
}

/// Calls are answered by the first blocks of the next message, all of them, and nothing else is.
fn check_calls(request: &Value) -> Checked {
    let mut ids = HashSet::new();
    let mut owed: HashSet<&str> = HashSet::new();
    for (idx, message) in messages(request).iter().enumerate() {
        let content = list(message, "content");
        let n_results = content.iter().take_while(|block| text(block, "type") == "tool_result").count();
        for (at, block) in content.iter().enumerate() {
            match text(block, "type") {
                "tool_result" if at >= n_results || !owed.remove(text(block, "tool_use_id")) => {
                    let id = text(block, "tool_use_id");
                    return Err((
                        Rule::Parted,
                        format!("message {idx} has the result of `{id}` out of its place"),
                    ));
                }
                "tool_use" if !ids.insert(text(block, "id")) => {
                    return Err((Rule::Shape, format!("two calls have the id `{}`", text(block, "id"))));
                }
                _ => {}
            }
        }
        if let Some(id) = owed.iter().min() {
            return Err((Rule::Parted, format!("message {idx} lacks the result of call `{id}`")));
        }
        let calls = content.iter().filter(|block| text(block, "type") == "tool_use");
        owed = calls.map(|block| text(block, "id")).collect();
    }
    if let Some(id) = owed.iter().min() {
        return Err((Rule::Parted, format!("the result of call `{id}` is missing at the end")));
    }
    if !ids.is_empty() && list(request, "tools").is_empty() {
        return Err((Rule::Shape, "it has calls and defines no tools".to_owned()));
    }
    Ok(())
}

fn check_marks(request: &Value, kind: Kind) -> Checked {
    let cache = |text: String| Err((Rule::Cache, text));
    let system = list(request, "system").iter().chain(list(request, "tools"));
    let all: Vec<&Value> = system.chain(blocks(request).map(|(_, block)| block)).collect();
    let marked: Vec<&&Value> = all.iter().filter(|block| block.get("cache_control").is_some()).collect();
    if marked.len() > MAX_BREAKPOINTS {
        return cache(format!("it has {} breakpoints, {MAX_BREAKPOINTS} are allowed", marked.len()));
    }
    if kind == Kind::Compaction && !marked.is_empty() {
        return cache("a compaction, whose request is never read again, has breakpoints".to_owned());
    }
    for &block in &marked {
        if block["cache_control"]["type"] != "ephemeral" {
            return cache(format!("a breakpoint is {}", block["cache_control"]));
        }
        let parts = list(block, "content").iter().chain([*block]);
        if parts.into_iter().any(|part| text(part, "text").trim_start().starts_with(VOLATILE)) {
            return cache("a breakpoint stands on volatile context".to_owned());
        }
    }
    Ok(())
}
