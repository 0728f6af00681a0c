//! A request in the words of OpenAI's chat completions.

use std::collections::HashMap;

use serde_json::{Value, json};

use cairn_core::message::{Part, ToolCall};
use cairn_core::model::{ChatMessage, ChatRequest};

use crate::options::ServerOptions;
use crate::told;

/// Stands where a server would refuse a message without words.
const NO_WORDS: &str = "(no text)";

/// The body of a request.
pub(super) fn body(options: &ServerOptions, limit_key: &str, request: &ChatRequest) -> Value {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let blocks: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|block| !block.trim().is_empty()).collect();
    if !blocks.is_empty() {
        messages.push(json!({"role": "system", "content": blocks.join("\n\n")}));
    }
    let tools = options.tools && !request.tools.is_empty();
    for draft in drafts(&request.messages, options.images && tools) {
        messages.extend(draft.into_wire(options.images, tools));
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
    if tools {
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
    User {
        parts: &'a [Part],
        context: Vec<&'a str>,
    },
    Assistant {
        text: &'a str,
        tool_calls: &'a [ToolCall],
    },
    Tool {
        call_id: &'a str,
        name: Option<&'a str>,
        text: &'a str,
        images: &'a [Part],
    },
    /// Results are words alone in this format: the pictures of a round's results follow the last of them.
    Pictures {
        of: Vec<Shown<'a>>,
    },
}

/// The pictures of one result.
struct Shown<'a> {
    call_id: &'a str,
    name: Option<&'a str>,
    images: &'a [Part],
}

/// `pictures`: those of results are sent after them.
fn drafts(messages: &[ChatMessage], pictures: bool) -> Vec<Draft<'_>> {
    let mut drafts: Vec<Draft<'_>> = Vec::with_capacity(messages.len());
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for message in messages {
        if !shown.is_empty() && !matches!(message, ChatMessage::Tool { .. }) {
            drafts.push(Draft::Pictures { of: std::mem::take(&mut shown) });
        }
        match message {
            ChatMessage::User { parts } => drafts.push(Draft::User { parts, context: Vec::new() }),
            ChatMessage::Assistant { text, tool_calls } => {
                names.extend(tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                drafts.push(Draft::Assistant { text, tool_calls });
            }
            ChatMessage::Tool { call_id, text, images } => {
                let name = names.get(call_id.as_str()).copied();
                drafts.push(Draft::Tool { call_id, name, text, images });
                if pictures && !images.is_empty() {
                    shown.push(Shown { call_id, name, images });
                }
            }
            ChatMessage::Context { text } => match drafts.last_mut() {
                Some(Draft::User { context, .. }) => context.push(text),
                // What is sent of pictures stays as it is from request to request.
                Some(Draft::Assistant { .. } | Draft::Tool { .. } | Draft::Pictures { .. }) | None => {
                    drafts.push(Draft::User { parts: &[], context: vec![text] });
                }
            },
        }
    }
    if !shown.is_empty() {
        drafts.push(Draft::Pictures { of: shown });
    }
    drafts
}

impl Draft<'_> {
    /// `tools`: the request has tools; without them calls of the past are told in words, as servers refuse them.
    fn into_wire(self, images: bool, tools: bool) -> Option<Value> {
        match self {
            Self::User { parts, context } => {
                Some(json!({"role": "user", "content": user_content(parts, &context, images)}))
            }
            Self::Assistant { text, tool_calls } if tools && !tool_calls.is_empty() => {
                let content = if text.is_empty() { Value::Null } else { text.into() };
                let calls: Vec<Value> = tool_calls.iter().map(wire_call).collect();
                Some(json!({"role": "assistant", "content": content, "tool_calls": calls}))
            }
            Self::Assistant { text, tool_calls } => {
                let mut lines: Vec<String> = Vec::new();
                if !text.is_empty() {
                    lines.push(text.to_owned());
                }
                lines.extend(tool_calls.iter().map(told::call));
                (!lines.is_empty()).then(|| json!({"role": "assistant", "content": lines.join("\n")}))
            }
            Self::Tool { call_id, text, .. } if tools => {
                let text = if text.is_empty() { NO_WORDS } else { text };
                Some(json!({"role": "tool", "tool_call_id": call_id, "content": text}))
            }
            Self::Tool { name, text, images: pictures, .. } => {
                let mut parts = vec![Part::text(told::result(name, text))];
                if images {
                    parts.extend_from_slice(pictures);
                }
                Some(json!({"role": "user", "content": user_content(&parts, &[], images)}))
            }
            Self::Pictures { of } => {
                let mut parts = Vec::new();
                for Shown { call_id, name, images } in of {
                    parts.push(Part::text(told::pictures(name, call_id)));
                    parts.extend_from_slice(images);
                }
                Some(json!({"role": "user", "content": user_content(&parts, &[], true)}))
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

#[cfg(test)]
mod tests {
    use cairn_core::ids::{AgentId, ChannelId};
    use cairn_core::model::{Purpose, ToolDef};

    use super::*;

    fn request(messages: Vec<ChatMessage>) -> ChatRequest {
        ChatRequest {
            channel: ChannelId::local(&AgentId::new("main"), "c").unwrap(),
            purpose: Purpose::Reply { question: String::new() },
            system: Vec::new(),
            messages,
            tools: Vec::new(),
            max_output_tokens: 100,
        }
    }

    fn options() -> ServerOptions {
        ServerOptions::new("m", "http://127.0.0.1:1/v1", "any")
    }

    fn tool() -> ToolDef {
        ToolDef { name: "f".to_owned(), description: "d".to_owned(), parameters: json!({"type": "object"}) }
    }

    fn messages(options: &ServerOptions, messages: Vec<ChatMessage>) -> Value {
        let request = ChatRequest { tools: vec![tool()], ..request(messages) };
        body(options, "max_tokens", &request)["messages"].clone()
    }

    fn user(parts: Vec<Part>) -> ChatMessage {
        ChatMessage::User { parts }
    }

    fn context(text: &str) -> ChatMessage {
        ChatMessage::Context { text: text.to_owned() }
    }

    fn image() -> Part {
        Part::Image {
            name: Some("a.png".to_owned()),
            media_type: "image/png".to_owned(),
            data: "AAAA".to_owned(),
        }
    }

    #[test]
    fn the_frame_of_a_request() {
        let mut request = request(vec![user(vec![Part::text("hi")])]);
        request.system = vec!["prompt".to_owned(), String::new(), "summaries".to_owned()];
        request.tools = vec![tool()];
        let expected = json!({
            "model": "any",
            "messages": [{"role": "system", "content": "prompt\n\nsummaries"}, {"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        });
        assert_eq!(body(&options(), "max_tokens", &request), expected);
        let whole = body(
            &ServerOptions { stream: false, tools: false, ..options() },
            "max_completion_tokens",
            &request,
        );
        assert_eq!((&whole["stream"], &whole["max_completion_tokens"]), (&json!(false), &json!(100)));
        assert!(whole.get("tools").is_none() && whole.get("stream_options").is_none());
    }

    #[test]
    fn context_joins_the_users_message_before_it_or_is_one() {
        let sent = messages(
            &options(),
            vec![user(vec![Part::text("a")]), user(vec![Part::text("b")]), context("now")],
        );
        assert_eq!(sent, json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b\n\nnow"}]));
        assert_eq!(messages(&options(), vec![context("now")]), json!([{"role": "user", "content": "now"}]));
        let sent = messages(
            &ServerOptions { images: true, ..options() },
            vec![user(vec![Part::text("a"), image()]), context("now")],
        );
        assert_eq!(
            sent[0]["content"],
            json!([
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "text", "text": "now"},
            ])
        );
    }

    #[test]
    fn attachments_that_the_model_does_not_take_are_words() {
        let file = Part::File { name: "n.txt".to_owned(), media_type: None, text: Some("inside".to_owned()) };
        let other = Part::File { name: "n.bin".to_owned(), media_type: None, text: None };
        let sent = messages(&options(), vec![user(vec![Part::text("see"), image(), file, other])]);
        assert_eq!(sent[0]["content"], "see\n[image: a.png]\n[file: n.txt]\ninside\n[file: n.bin]");
    }

    #[test]
    fn calls_and_results_go_out_in_pairs() {
        let call = |id: &str, arguments| ToolCall { id: id.to_owned(), name: "f".to_owned(), arguments };
        let talk = || {
            vec![
                user(vec![Part::text("q")]),
                ChatMessage::Assistant {
                    text: String::new(),
                    tool_calls: vec![call("1", json!({"a": 1})), call("2", json!("{oops"))],
                },
                ChatMessage::Tool { call_id: "1".to_owned(), text: String::new(), images: Vec::new() },
                ChatMessage::Tool { call_id: "2".to_owned(), text: "bad".to_owned(), images: Vec::new() },
                context("now"),
            ]
        };
        let sent = messages(&options(), talk());
        assert_eq!(sent[1]["content"], Value::Null);
        assert_eq!(sent[1]["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
        assert_eq!(sent[1]["tool_calls"][1]["function"]["arguments"], r#"{"raw":"{oops"}"#);
        assert_eq!(sent[2], json!({"role": "tool", "tool_call_id": "1", "content": NO_WORDS}));
        assert_eq!(sent[4], json!({"role": "user", "content": "now"}));
        let told = messages(&ServerOptions { tools: false, ..options() }, talk());
        assert_eq!(
            told[1],
            json!({"role": "assistant", "content": "[called f {\"a\":1}]\n[called f \"{oops\"]"})
        );
        assert_eq!(told[3], json!({"role": "user", "content": "[result of f]\nbad"}));
        // The same where the request has no tools: it was found out that the model takes none.
        assert_eq!(body(&options(), "max_tokens", &request(talk()))["messages"], told);
    }

    /// Two calls at once, each with a picture in its result.
    fn pictured() -> Vec<ChatMessage> {
        let call = |id: &str| ToolCall { id: id.to_owned(), name: "f".to_owned(), arguments: json!({}) };
        let result = |id: &str, images| ChatMessage::Tool {
            call_id: id.to_owned(),
            text: format!("{id} [image: a.png]"),
            images,
        };
        vec![
            user(vec![Part::text("q")]),
            ChatMessage::Assistant { text: String::new(), tool_calls: vec![call("1"), call("2"), call("3")] },
            result("1", vec![image(), image()]),
            result("2", Vec::new()),
            result("3", vec![image()]),
            context("now"),
        ]
    }

    #[test]
    fn pictures_of_results_follow_the_last_result_of_the_round() {
        let sees = ServerOptions { images: true, ..options() };
        let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let words = |text: &str| json!({"type": "text", "text": text});
        let after = json!({"role": "user", "content": [
            words("[pictures of the result of f, call 1]"), picture, picture,
            words("[pictures of the result of f, call 3]"), picture,
        ]});
        let sent = messages(&sees, pictured());
        let roles: Vec<&str> =
            sent.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool", "user", "user"]);
        assert_eq!(sent[2], json!({"role": "tool", "tool_call_id": "1", "content": "1 [image: a.png]"}));
        assert_eq!(sent[5], after);
        assert_eq!(sent[6]["content"], "now");
        // The next request repeats them byte for byte, before what came after them.
        let mut next = pictured();
        next.pop();
        next.push(ChatMessage::Assistant { text: "seen".to_owned(), tool_calls: Vec::new() });
        let next = messages(&sees, next);
        assert_eq!(next.as_array().unwrap()[..6], sent.as_array().unwrap()[..6]);
        assert_eq!(next[6]["content"], "seen");
        // At the end of a request, too.
        let mut last = pictured();
        last.pop();
        assert_eq!(messages(&sees, last)[5], after);
    }

    #[test]
    fn pictures_of_results_are_words_where_the_model_does_not_see() {
        let sent = messages(&options(), pictured());
        assert_eq!(sent.as_array().unwrap().len(), 6);
        assert!(!sent.to_string().contains("AAAA"), "{sent}");
        assert_eq!(sent[4]["content"], "3 [image: a.png]");
    }

    #[test]
    fn pictures_of_results_that_are_told_in_words_stand_beside_them() {
        let sees = ServerOptions { images: true, tools: false, ..options() };
        let sent = messages(&sees, pictured());
        assert_eq!(sent[2]["content"][0]["text"], "[result of f]\n1 [image: a.png]");
        assert_eq!(sent[2]["content"][1]["type"], "image_url");
        assert_eq!(sent[2]["content"].as_array().unwrap().len(), 3);
        assert_eq!(sent[3], json!({"role": "user", "content": "[result of f]\n2 [image: a.png]"}));
        assert_eq!(sent.as_array().unwrap().len(), 6);
    }

    #[test]
    fn nothing_empty_is_sent() {
        let empty = ChatMessage::Assistant { text: String::new(), tool_calls: Vec::new() };
        let sent = messages(&options(), vec![user(Vec::new()), empty]);
        assert_eq!(sent, json!([{"role": "user", "content": NO_WORDS}]));
    }
}
