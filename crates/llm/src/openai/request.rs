//! A request in the words of OpenAI's chat completions.

use serde_json::{Value, json};

use cairn_core::message::{Part, ToolCall};
use cairn_core::model::{ChatMessage, ChatRequest};

use super::OpenAiOptions;

/// Stands where a server would refuse a message without words.
const NO_WORDS: &str = "(no text)";

/// The body of a request.
pub(super) fn body(options: &OpenAiOptions, limit_key: &str, request: &ChatRequest) -> Value {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let blocks: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|block| !block.trim().is_empty()).collect();
    if !blocks.is_empty() {
        messages.push(json!({"role": "system", "content": blocks.join("\n\n")}));
    }
    for draft in drafts(&request.messages) {
        messages.extend(draft.into_wire(options));
    }
    let mut body = json!({
        "model": options.model,
        "messages": messages,
        "stream": options.stream,
    });
    body[limit_key] = request.max_output_tokens.into();
    if options.stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if options.tools && !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                }})
            })
            .collect();
    }
    body
}

/// A message on its way to the wire, volatile context merged into it.
enum Draft<'a> {
    User { parts: &'a [Part], context: Vec<&'a str> },
    Assistant { text: &'a str, tool_calls: &'a [ToolCall] },
    Tool { call_id: &'a str, text: &'a str },
}

fn drafts(messages: &[ChatMessage]) -> Vec<Draft<'_>> {
    let mut drafts: Vec<Draft<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            ChatMessage::User { parts } => drafts.push(Draft::User { parts, context: Vec::new() }),
            ChatMessage::Assistant { text, tool_calls } => drafts.push(Draft::Assistant { text, tool_calls }),
            ChatMessage::Tool { call_id, text } => drafts.push(Draft::Tool { call_id, text }),
            ChatMessage::Context { text } => match drafts.last_mut() {
                Some(Draft::User { context, .. }) => context.push(text),
                Some(Draft::Assistant { .. } | Draft::Tool { .. }) | None => {
                    drafts.push(Draft::User { parts: &[], context: vec![text] });
                }
            },
        }
    }
    drafts
}

impl Draft<'_> {
    fn into_wire(self, options: &OpenAiOptions) -> Option<Value> {
        match self {
            Self::User { parts, context } => {
                Some(json!({"role": "user", "content": user_content(parts, &context, options.images)}))
            }
            Self::Assistant { text, tool_calls } if options.tools && !tool_calls.is_empty() => {
                let content = if text.is_empty() { Value::Null } else { text.into() };
                let calls: Vec<Value> = tool_calls.iter().map(wire_call).collect();
                Some(json!({"role": "assistant", "content": content, "tool_calls": calls}))
            }
            Self::Assistant { text, tool_calls } => {
                let mut lines: Vec<String> = Vec::new();
                if !text.is_empty() {
                    lines.push(text.to_owned());
                }
                lines.extend(
                    tool_calls.iter().map(|call| format!("[called {} {}]", call.name, call.arguments)),
                );
                (!lines.is_empty()).then(|| json!({"role": "assistant", "content": lines.join("\n")}))
            }
            Self::Tool { call_id, text } if options.tools => {
                let text = if text.is_empty() { NO_WORDS } else { text };
                Some(json!({"role": "tool", "tool_call_id": call_id, "content": text}))
            }
            Self::Tool { text, .. } => {
                Some(json!({"role": "user", "content": format!("[result of the call]\n{text}")}))
            }
        }
    }
}

/// One string as long as there are only words, since some servers take nothing else; parts once there is a picture.
fn user_content(parts: &[Part], context: &[&str], images: bool) -> Value {
    let mut content: Vec<Value> = Vec::new();
    let mut words = String::new();
    for part in parts {
        match part {
            Part::Image { media_type, data, .. } if images => {
                push_words(&mut content, &mut words);
                let url = format!("data:{media_type};base64,{data}");
                content.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            Part::Text { .. } | Part::Image { .. } | Part::File { .. } => {
                if !words.is_empty() {
                    words.push('\n');
                }
                words.push_str(&cairn_core::message::text_of(std::slice::from_ref(part)));
            }
        }
    }
    for text in context {
        if !words.is_empty() {
            words.push_str("\n\n");
        }
        words.push_str(text);
    }
    if content.is_empty() {
        let blank = words.trim().is_empty();
        return if blank { NO_WORDS.into() } else { words.into() };
    }
    push_words(&mut content, &mut words);
    content.into()
}

fn push_words(content: &mut Vec<Value>, words: &mut String) {
    if !words.trim().is_empty() {
        content.push(json!({"type": "text", "text": std::mem::take(words)}));
    }
    words.clear();
}

/// A call of the past. Servers parse its arguments again: where the model once wrote no valid JSON object, its raw text
/// is wrapped in one.
fn wire_call(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Value::Object(_) => call.arguments.to_string(),
        other => json!({"raw": other}).to_string(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}
