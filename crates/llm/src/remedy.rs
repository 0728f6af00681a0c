//! What some servers refuse although a request can be asked without it, and how it is asked then.

use std::hash::{DefaultHasher, Hash, Hasher};

use cairn_types::wire::format::{Wire, WireFormat};
use serde_json::{Map, Value, json};

/// What some servers refuse although the request can be asked without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remedy {
    /// OpenAI's Responses API: the server has no such address. What is spoken then is another format of the wire.
    Chat,
    NoStream,
    /// `tool_choice`.
    NoToolChoice,
    /// Ids of calls that do not have nine letters or digits: Mistral's, and chat templates of its models.
    ShortIds,
    /// Several calls in one answer: chat templates of Llama 3.1.
    OneCall,
    /// Calls that lack Gemini's signature: other models made them.
    SignCalls,
    /// Calls that lack the field `reasoning_content`, which DeepSeek and Kimi want, if only empty.
    EmptyReasoning,
    /// Calls beside reasoning on chat completions: OpenAI's models from GPT-5.6 on.
    NoEffort,
    /// What a provider gave with an answer, going back.
    NoState,
    /// Tool calls of the past: they are told in words. Tools are offered all the same.
    CallsInWords,
    Images,
    /// A message of the system, or a list of its blocks.
    PlainSystem,
    /// Fields that the configuration adds.
    NoExtra,
    NoTools,
    /// `max_completion_tokens` in the place of `max_tokens`, or the other way round.
    OtherLimit,
    /// Breakpoints for the provider's cache: older models behind a name of one's own, gateways.
    NoBreakpoints,
    /// All but the system prompt and the last message of a person. It is never learnt.
    LastMessage,
}

/// All, in the order in which they are applied.
pub(crate) const REMEDIES: [Remedy; 17] = [
    Remedy::Chat,
    Remedy::NoBreakpoints,
    Remedy::NoStream,
    Remedy::OtherLimit,
    Remedy::NoToolChoice,
    Remedy::CallsInWords,
    Remedy::NoState,
    Remedy::Images,
    Remedy::NoTools,
    Remedy::SignCalls,
    Remedy::EmptyReasoning,
    Remedy::ShortIds,
    Remedy::OneCall,
    Remedy::NoEffort,
    Remedy::NoExtra,
    Remedy::LastMessage,
    Remedy::PlainSystem,
];

/// What a request that was refused for an unknown reason is tried without, one at a time, what costs least first.
pub(crate) const GUESSES: [Remedy; 10] = [
    Remedy::NoBreakpoints,
    Remedy::CallsInWords,
    Remedy::NoState,
    Remedy::NoToolChoice,
    Remedy::NoExtra,
    Remedy::NoEffort,
    Remedy::PlainSystem,
    Remedy::NoStream,
    Remedy::Images,
    Remedy::NoTools,
];

impl Remedy {
    /// Its name in the traces of calls.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::NoStream => "no_stream",
            Self::NoToolChoice => "no_tool_choice",
            Self::ShortIds => "short_ids",
            Self::OneCall => "one_call",
            Self::SignCalls => "sign_calls",
            Self::EmptyReasoning => "empty_reasoning",
            Self::NoEffort => "no_effort",
            Self::NoState => "no_state",
            Self::CallsInWords => "calls_in_words",
            Self::Images => "no_images",
            Self::PlainSystem => "plain_system",
            Self::NoExtra => "no_extra",
            Self::NoTools => "no_tools",
            Self::OtherLimit => "other_limit",
            Self::NoBreakpoints => "no_breakpoints",
            Self::LastMessage => cairn_types::wire::format::LAST_MESSAGE,
        }
    }

    /// What the log says of a model whose server is asked so from now on.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Chat => {
                "the model's server has no Responses API; Cairn uses chat completions (set api = \"chat\" for it)"
            }
            Self::NoStream => {
                "the model's server does not stream; Cairn requests whole answers (set stream = false for it)"
            }
            Self::NoToolChoice => {
                "the model's server does not accept tool_choice; the last round of a turn forbids tools only in \
                 its text"
            }
            Self::ShortIds => "call ids are shortened to nine characters for the model's server",
            Self::OneCall => {
                "the model's chat template accepts one call per answer; several are sent one by one, each with its \
                 result"
            }
            Self::SignCalls => {
                "calls that other models made are sent to the model's server with a stand-in signature"
            }
            Self::EmptyReasoning => {
                "calls without reasoning are sent to the model's server with an empty one"
            }
            Self::NoEffort => {
                "the model's server does not accept tools with reasoning; reasoning is switched off (api = \
                 \"responses\" supports both)"
            }
            Self::NoState => {
                "the model's server does not accept earlier reasoning; it is left out of requests"
            }
            Self::CallsInWords => "the model's server refuses past tool calls; they are sent as text",
            Self::Images => {
                "the model's server refuses pictures; they are only named (set images = false for it)"
            }
            Self::PlainSystem => {
                "the model's server refuses system prompts; the prompt is sent in the first message"
            }
            Self::NoExtra => {
                "the model's server refuses a field that the configuration adds (temperature, reasoning_effort, \
                 extra_body); these fields are left out; remove the refused one"
            }
            Self::NoTools => {
                "the model's server refuses tools; requests have none (set tools = false for it)"
            }
            Self::OtherLimit => {
                "the model's server accepts the answer limit only under its other name (max_tokens, \
                 max_completion_tokens)"
            }
            Self::NoBreakpoints => {
                "the model's server does not accept cache breakpoints; requests have none (set cache_breakpoints = \
                 false for it)"
            }
            Self::LastMessage => "the model's server accepts only the last message",
        }
    }

    /// Whether it takes something out alone: any server takes a request without.
    pub(crate) fn is_for_any_server(self) -> bool {
        !matches!(
            self,
            Self::Chat | Self::SignCalls | Self::EmptyReasoning | Self::NoEffort | Self::OtherLimit
        )
    }

    /// Has a wire of the Responses API speak chat completions. False: it is none.
    pub(crate) fn speak_chat(wire: &mut Wire) -> bool {
        let is_responses = wire.format == WireFormat::Responses;
        if is_responses {
            wire.format = WireFormat::Openai;
        }
        is_responses
    }

    /// Whether a request over that wire does so.
    pub(crate) fn is_in(self, wire: &Wire) -> bool {
        wire.remedies.iter().any(|name| name == self.name())
    }
}

/// Changes a body so that it does without something. False: there was nothing of it. What a body is made without from the
/// start ([`crate::wires::body`]) is nothing of this.
pub(crate) fn apply(remedy: Remedy, body: &mut Value) -> bool {
    let Some(fields) = body.as_object_mut() else { return false };
    match remedy {
        Remedy::NoStream => {
            fields.remove("stream_options");
            fields.insert("stream".to_owned(), false.into()) == Some(true.into())
        }
        Remedy::NoToolChoice => fields.remove("tool_choice").is_some(),
        Remedy::OtherLimit => {
            let [old, new] = ["max_tokens", "max_completion_tokens"];
            let (from, to) = if fields.contains_key(old) { (old, new) } else { (new, old) };
            let limit = fields.remove(from);
            limit.map(|limit| fields.insert(to.to_owned(), limit)).is_some()
        }
        Remedy::ShortIds => fields.get_mut("messages").is_some_and(shorten_ids),
        Remedy::OneCall => fields.get_mut("messages").is_some_and(split_rounds),
        Remedy::SignCalls => fields.get_mut("messages").is_some_and(sign_calls),
        Remedy::EmptyReasoning => fields.get_mut("messages").is_some_and(add_reasoning),
        Remedy::NoEffort => {
            let none = Value::from("none");
            fields.insert("reasoning_effort".to_owned(), none.clone()) != Some(none)
        }
        Remedy::PlainSystem => plain_system(fields),
        Remedy::Chat
        | Remedy::NoState
        | Remedy::CallsInWords
        | Remedy::Images
        | Remedy::NoExtra
        | Remedy::NoTools
        | Remedy::LastMessage
        | Remedy::NoBreakpoints => false,
    }
}

/// The stand-in that Gemini takes for the signature of a call that it did not make; the first call of each answer needs one:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const STAND_IN: &str = "skip_thought_signature_validator";

fn sign_calls(messages: &mut Value) -> bool {
    let firsts = messages
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(|message| message.pointer_mut("/tool_calls/0"));
    let mut any = false;
    for call in firsts {
        if call.pointer("/extra_content/google/thought_signature").is_none() {
            call["extra_content"] = json!({"google": {"thought_signature": STAND_IN}});
            any = true;
        }
    }
    any
}

fn add_reasoning(messages: &mut Value) -> bool {
    let mut any = false;
    for message in messages.as_array_mut().into_iter().flatten() {
        if message.get("tool_calls").is_some() && message.get("reasoning_content").is_none() {
            message["reasoning_content"] = "".into();
            any = true;
        }
    }
    any
}

/// The system prompt at the beginning of the first message; of the messages format, one text instead of blocks.
fn plain_system(fields: &mut Map<String, Value>) -> bool {
    if let Some(system) = fields.get_mut("system") {
        let Value::Array(blocks) = system.take() else { return false };
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        *system = texts.join("\n\n").into();
        return true;
    }
    if let Some(Value::Array(input)) = fields.get_mut("input") {
        return plain_system_item(input);
    }
    let Some(Value::Array(messages)) = fields.get_mut("messages") else { return false };
    if messages.first().is_none_or(|first| first["role"] != "system") {
        return false;
    }
    let prompt = messages.remove(0)["content"].take();
    let prompt = prompt.as_str().unwrap_or_default();
    match messages.first_mut().filter(|first| first["role"] == "user") {
        Some(first) => {
            first["content"] = match first["content"].take() {
                Value::String(text) => format!("{prompt}\n\n{text}").into(),
                Value::Array(mut parts) => {
                    parts.insert(0, json!({"type": "text", "text": prompt}));
                    parts.into()
                }
                other => other,
            };
        }
        None => messages.insert(0, json!({"role": "user", "content": prompt})),
    }
    true
}

/// The parts of the system prompt before those of the first message.
fn plain_system_item(input: &mut Vec<Value>) -> bool {
    if input.first().is_none_or(|first| first["role"] != "system") {
        return false;
    }
    let mut first = input.remove(0);
    first["role"] = "user".into();
    if input.first().is_some_and(|next| next["role"] == "user")
        && let Value::Array(rest) = input.remove(0)["content"].take()
        && let Some(parts) = first["content"].as_array_mut()
    {
        parts.extend(rest);
    }
    input.insert(0, first);
    true
}

/// Gives calls, and with them their results, ids of nine characters. False: all have them.
fn shorten_ids(messages: &mut Value) -> bool {
    const IDS: [&str; 3] = ["id", "tool_call_id", "tool_use_id"];
    match messages {
        Value::Array(list) => list.iter_mut().map(shorten_ids).filter(|any| *any).count() > 0,
        Value::Object(fields) => {
            let mut any = false;
            for (name, value) in fields {
                any |= match value {
                    Value::String(id) if IDS.contains(&name.as_str()) => shorten_id(id),
                    Value::Array(_) if matches!(name.as_str(), "tool_calls" | "content") => {
                        shorten_ids(value)
                    }
                    _ => false,
                };
            }
            any
        }
        _ => false,
    }
}

fn shorten_id(id: &mut String) -> bool {
    if id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()) {
        return false;
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    *id = format!("{:09x}", hasher.finish() & 0xf_ffff_ffff);
    true
}

/// Splits every answer with several calls, for chat templates that take one call in an answer: a call, its result, the next
/// call, its result. Nothing is left out. Knows the shapes of both wire formats. False: no answer has several calls.
fn split_rounds(messages: &mut Value) -> bool {
    let Some(list) = messages.as_array_mut() else { return false };
    let mut split = Vec::with_capacity(list.len());
    let mut any = false;
    let mut rest = std::mem::take(list).into_iter().peekable();
    while let Some(message) = rest.next() {
        let n_calls = calls(&message).count();
        if n_calls < 2 {
            split.push(message);
            continue;
        }
        any = true;
        if message.get("tool_calls").is_some() {
            let mut results = Vec::new();
            while let Some(result) = rest.next_if(|next| next["role"] == "tool") {
                results.push(result);
            }
            split.extend(in_messages(message, results));
        } else {
            split.extend(in_blocks(message, rest.next()));
        }
    }
    *list = split;
    any
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    let list = |key: &str| message[key].as_array().into_iter().flatten();
    list("tool_calls").chain(list("content").filter(|block| block["type"] == "tool_use"))
}

/// OpenAI's: calls are a list of the message, each result is a message.
fn in_messages(mut answer: Value, mut results: Vec<Value>) -> Vec<Value> {
    let calls = answer["tool_calls"].take();
    let mut out = Vec::new();
    for call in calls.as_array().into_iter().flatten() {
        let content = answer["content"].take();
        out.push(json!({"role": "assistant", "content": content, "tool_calls": [call]}));
        if let Some(at) = results.iter().position(|result| result["tool_call_id"] == call["id"]) {
            out.push(results.remove(at));
        }
    }
    out.extend(results);
    out
}

/// Anthropic's: calls are blocks of the answer, results are blocks of the next message, which may say more behind them.
fn in_blocks(mut answer: Value, next: Option<Value>) -> Vec<Value> {
    let taken = |value: &mut Value| match value.take() {
        Value::Array(blocks) => blocks,
        _ => Vec::new(),
    };
    let mut next = next;
    let mut results = next.as_mut().map(|next| taken(&mut next["content"])).unwrap_or_default();
    let (calls, mut said): (Vec<_>, Vec<_>) =
        taken(&mut answer["content"]).into_iter().partition(|block| block["type"] == "tool_use");
    let mut out = Vec::new();
    let n_calls = calls.len();
    for (idx, call) in calls.into_iter().enumerate() {
        let result = results.iter().position(|block| block["tool_use_id"] == call["id"]);
        let mut behind: Vec<Value> = result.map(|at| results.remove(at)).into_iter().collect();
        if idx + 1 == n_calls {
            behind.append(&mut results);
        }
        said.push(call);
        out.push(json!({"role": "assistant", "content": std::mem::take(&mut said)}));
        if !behind.is_empty() {
            out.push(json!({"role": "user", "content": behind}));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_stands_before_its_result() {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let user = json!({"role": "user", "content": "hi"});
        let mut messages = json!([
            user,
            {"role": "assistant", "content": "I look", "tool_calls": [call("a"), call("b")]},
            result("b"), result("a"),
            {"role": "assistant", "content": null, "tool_calls": [call("c")]}, result("c"),
        ]);
        assert!(split_rounds(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": "I look", "tool_calls": [call("a")]}, result("a"),
            {"role": "assistant", "content": null, "tool_calls": [call("b")]}, result("b"),
            {"role": "assistant", "content": null, "tool_calls": [call("c")]}, result("c"),
        ]);
        assert_eq!(messages, expected);
        assert!(!split_rounds(&mut messages), "no answer has several calls any more");
        assert_eq!(messages, expected);
    }

    #[test]
    fn blocks_go_with_their_calls_and_what_follows_the_results_stays_last() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
        let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": id});
        let user = json!({"role": "user", "content": [text("hi")]});
        let mut messages = json!([
            user,
            {"role": "assistant", "content": [text("I look"), call("a"), call("b")]},
            {"role": "user", "content": [result("a"), result("b"), text("now")]},
        ]);
        assert!(split_rounds(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": [text("I look"), call("a")]},
            {"role": "user", "content": [result("a")]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "user", "content": [result("b"), text("now")]},
        ]);
        assert_eq!(messages, expected);
        assert!(!split_rounds(&mut messages));
    }
}
