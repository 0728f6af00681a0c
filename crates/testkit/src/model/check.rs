//! What a request must be like.

use std::collections::HashSet;
use std::fmt;

use cairn_core::tune::MAX_BREAKPOINTS;
use serde_json::Value;

use super::Kind;
use super::wire::{VOLATILE, messages, role, text_of};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The request's number, as in [`super::Seen::n`].
    pub n: usize,
    pub rule: Rule,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It is JSON with a model and messages; roles are known; the system's message is the first and only one.
    Shape,
    /// Every message says something (or, from the assistant, calls a tool).
    Empty,
    /// A call is followed by its result, a result follows its call, before anything else is said.
    Parted,
    /// People and the model take turns, people begin, and only the model speaks after results. Chat templates of Mistral
    /// and Gemma refuse what does not; no server is so lenient that it takes it.
    Roles,
    /// At most four breakpoints, none on what is never read again, and none for a server that does not know them.
    Cache,
    /// With its answer it fits the window.
    Window,
    /// It has what the provider that the server stands in for wants back ([`super::Provider`]).
    Provider,
    /// It goes on from an earlier request of its conversation, unless its system block is a new one.
    Prefix,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} breaks the rule {:?}: {}", self.n, self.rule, self.text)
    }
}

/// Checks what a single request must be like by itself.
pub(super) fn check(request: &Value) -> Result<(), (Rule, String)> {
    if request.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err((Rule::Shape, "it names no model".to_owned()));
    }
    let messages = messages(request);
    if messages.is_empty() {
        return Err((Rule::Shape, "it has no messages".to_owned()));
    }
    for (idx, message) in messages.iter().enumerate() {
        check_message(idx, message)?;
    }
    check_sampling(request)?;
    check_pairs(messages)
}

/// What sets how the model chooses its words is within what servers take.
fn check_sampling(request: &Value) -> Result<(), (Rule, String)> {
    for (key, most) in [("temperature", 2.0), ("top_p", 1.0)] {
        let Some(value) = request.get(key) else { continue };
        if value.as_f64().is_none_or(|number| !(0.0..=most).contains(&number)) {
            return Err((Rule::Shape, format!("`{key}` = {value} is no number from 0 to {most}")));
        }
    }
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    match request.get("reasoning_effort") {
        Some(effort) if effort.as_str().is_none_or(|effort| !efforts.contains(&effort)) => {
            Err((Rule::Shape, format!("`reasoning_effort` = {effort} is none of {efforts:?}")))
        }
        _ => Ok(()),
    }
}

/// Breakpoints of chat completions. `known`: the server has them. By OpenAI's rule
/// (<https://developers.openai.com/api/docs/guides/prompt-caching>) they stand behind texts and pictures, older models refuse
/// them, and of more than four the first are not written.
pub(super) fn check_breakpoints(request: &Value, kind: Kind, known: bool) -> Result<(), (Rule, String)> {
    let cache = |text: String| Err((Rule::Cache, text));
    let fields = ["prompt_cache_options", "prompt_cache_key"];
    let field = fields.iter().find(|field| request.get(**field).is_some());
    let mut n_marks = 0;
    for (idx, message) in messages(request).iter().enumerate() {
        let parts = message.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, part) in parts.iter().enumerate() {
            let Some(mark) = part.get("prompt_cache_breakpoint") else { continue };
            let name = format!("messages[{idx}].content[{at}].prompt_cache_breakpoint");
            if !known {
                return cache(format!("Unknown parameter: '{name}'."));
            }
            if mark["mode"] != "explicit" || !matches!(role(message), "system" | "user" | "tool") {
                return cache(format!("Invalid value: '{name}' is {mark}, from the {}", role(message)));
            }
            let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
            if text.trim_start().starts_with(VOLATILE) || kind == Kind::Compaction {
                return cache(format!("{name} stands behind what is never read again"));
            }
            n_marks += 1;
        }
    }
    match field {
        Some(field) if !known => {
            cache(format!("Unsupported parameter: '{field}' is not supported with this model."))
        }
        _ if n_marks > MAX_BREAKPOINTS => cache(format!("it has {n_marks} breakpoints")),
        _ => Ok(()),
    }
}

/// What strict chat templates refuse. Mistral's count neither results nor messages with calls, Gemma's all messages: both
/// hold here.
pub(super) fn check_roles(request: &Value) -> Result<(), (Rule, String)> {
    let messages = messages(request);
    let talk = messages.iter().enumerate().skip_while(|(_, message)| role(message) == "system");
    let mut counted = 0;
    let mut before = "";
    for (idx, message) in talk {
        let fault = |why: &str| Err((Rule::Roles, format!("{ALTERNATE} Message {idx} {why}")));
        let now = role(message);
        let expected = if counted % 2 == 0 { "user" } else { "assistant" };
        match (before, now) {
            ("user" | "assistant", _) if before == now => {
                return fault(&format!("is another one of the {now}'s"));
            }
            ("tool", "user") => return fault("is a person's, behind the result of a tool"),
            ("", "assistant" | "tool") => return fault("is the first, and not a person's"),
            _ => {}
        }
        before = now;
        if !matches!(now, "user" | "assistant") || !calls(message).is_empty() {
            continue;
        }
        if now != expected {
            return fault(&format!("is the {now}'s, where the {expected}'s was expected"));
        }
        counted += 1;
    }
    Ok(())
}

const ALTERNATE: &str = "After the optional system message, conversation roles must alternate \
                         user/assistant/user/assistant/...";

fn check_message(idx: usize, message: &Value) -> Result<(), (Rule, String)> {
    let shape = |text: &str| Err((Rule::Shape, format!("message {idx} {text}")));
    match role(message) {
        "system" if idx > 0 => return shape("is the system's, and not the first"),
        "system" | "user" | "assistant" => {}
        "tool" if message.get("tool_call_id").and_then(Value::as_str).is_none_or(str::is_empty) => {
            return shape("is a result without `tool_call_id`");
        }
        "tool" => {}
        other => return shape(&format!("has the unknown role `{other}`")),
    }
    if message.get("tool_calls").is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
        return shape("has `tool_calls` that is no list or an empty one");
    }
    for call in calls(message) {
        let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if text("/id").is_empty() || text("/function/name").is_empty() {
            return shape("has a call without id or name");
        }
        if serde_json::from_str::<serde_json::Map<String, Value>>(text("/function/arguments")).is_err() {
            return shape("has a call whose arguments are no JSON object in a string");
        }
    }
    let parts = message.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is = |part: &Value, kind: &str| part.get("type").and_then(Value::as_str) == Some(kind);
    let pictures = parts.iter().any(|part| is(part, "image_url"));
    if role(message) != "user" && parts.iter().any(|part| !is(part, "text")) {
        return shape("is not a person's, and has more than words");
    }
    let silent = text_of(message).trim().is_empty() && !pictures;
    if silent && calls(message).is_empty() {
        return Err((Rule::Empty, format!("message {idx} ({}) says nothing", role(message))));
    }
    Ok(())
}

fn calls(message: &Value) -> &[Value] {
    message.get("tool_calls").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_pairs(messages: &[Value]) -> Result<(), (Rule, String)> {
    let mut owed: HashSet<&str> = HashSet::new();
    for (idx, message) in messages.iter().enumerate() {
        if role(message) == "tool" {
            let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
            if !owed.remove(id) {
                return Err((
                    Rule::Parted,
                    format!("message {idx} is the result of `{id}`, which was not called"),
                ));
            }
            continue;
        }
        unless_owed(idx, &owed)?;
        for call in calls(message) {
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
            if !owed.insert(id) {
                return Err((Rule::Shape, format!("message {idx} has two calls `{id}`")));
            }
        }
    }
    unless_owed(messages.len(), &owed)
}

fn unless_owed(idx: usize, owed: &HashSet<&str>) -> Result<(), (Rule, String)> {
    match owed.iter().min() {
        Some(id) => Err((Rule::Parted, format!("before message {idx} the result of call `{id}` is missing"))),
        None => Ok(()),
    }
}
