//! A request in the words of OpenAI's chat completions.
//!
//! Chat templates of many models are strict: after the system message people and the model take turns, people begin, and
//! only the model speaks after the results of tools. So neighbours of one role become one message, and what is volatile
//! stands at the very end of the last one.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::provider_state::{Ordered, ProviderState};
use cairn_types::tool::defs::ToolDef;
use cairn_types::wire::format::Wire;

use crate::body::{Body, quoted};
use crate::breakpoints;
use crate::phrases::{self, NO_WORDS};
use crate::remedy::Remedy;
use crate::server::Server;

/// What the model says before the pictures of its calls' results, which only a user's message may hold.
const PICTURES_FOLLOW: &str = "(the pictures of these results follow)";

pub(crate) fn body(wire: &Wire, request: &ChatRequest) -> Body {
    let tools = wire.tools && !request.tools.is_empty();
    let calls = tools && !Remedy::CallsInWords.is_in(wire);
    let mut talk = Talk { images: wire.images, tools: calls, apart: wire.breakpoints, ..Talk::default() };
    let blocks: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|block| !block.trim().is_empty()).collect();
    let system = blocks.into_iter().map(Value::from).reduce(|first, second| talk.join(first, second));
    talk.messages.extend(system.map(|content| json!({"role": "system", "content": content})));
    for (idx, message) in request.messages.iter().enumerate() {
        talk.take(message, |state| returns(state, wire, idx >= request.turn_from));
    }
    talk.show_pictures();
    let mut body = json!({
        "model": wire.model,
        "messages": talk.messages,
        "stream": wire.stream,
    });
    if wire.breakpoints {
        breakpoints::add(&mut body, "messages", "text", request, &talk.volatile);
    }
    body[wire.limit_key.as_str()] = request.max_output_tokens.into();
    if wire.stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if tools && request.last_call {
        body["tool_choice"] = "none".into();
    }
    Body::new(body, &wire.extra, tools.then_some((&request.tools, wire_tool)))
}

fn wire_tool(tool: &ToolDef, parameters: &str) -> String {
    let (name, description) = (quoted(&tool.name), quoted(&tool.description));
    format!(
        r#"{{"function":{{"description":{description},"name":{name},"parameters":{parameters}}},"type":"function"}}"#
    )
}

/// The conversation on its way to the wire.
#[derive(Default)]
struct Talk<'a> {
    images: bool,
    /// The request has tools; without them calls of the past are told in words, as servers refuse them.
    tools: bool,
    /// What is said behind something is a part of its own, so that a breakpoint may stand between.
    apart: bool,
    messages: Vec<Value>,
    /// What is never read again from a cache: the numbers of message and part.
    volatile: Vec<(usize, usize)>,
    /// Names of tools by the ids of their calls.
    names: HashMap<&'a str, &'a str>,
    /// Pictures of the results of this round. Results are words alone in this format: the pictures follow the last.
    shown: Vec<Shown<'a>>,
}

struct Shown<'a> {
    call_id: &'a str,
    images: &'a [Part],
}

impl<'a> Talk<'a> {
    /// `returns`: whether what a provider gave goes back with its message.
    fn take(&mut self, message: &'a ChatMessage, returns: impl Fn(&ProviderState) -> bool) {
        if !matches!(message, ChatMessage::Tool { .. }) {
            self.show_pictures();
        }
        match message {
            ChatMessage::User { parts } => self.user(user_content(parts, self.images), phrases::NO_ANSWER),
            ChatMessage::Assistant { text, tool_calls, provider_state } => {
                let state = provider_state.as_deref().filter(|state| returns(state));
                self.assistant(text, tool_calls, state);
            }
            ChatMessage::Tool { call_id, text, images } => self.result(call_id, text, images),
            ChatMessage::Context { text } => self.context(text),
        }
    }

    fn last_role(&self) -> &str {
        self.messages.last().and_then(|last| last["role"].as_str()).unwrap_or_default()
    }

    /// What a person says. `bridge`: what the model said before it, where results stand there.
    fn user(&mut self, content: Value, bridge: &str) {
        if self.last_role() == "tool" {
            self.messages.push(json!({"role": "assistant", "content": bridge}));
        }
        if self.last_role() == "user" {
            self.go_on(content);
        } else {
            self.messages.push(json!({"role": "user", "content": content}));
        }
    }

    /// Adds to the last message.
    fn go_on(&mut self, content: Value) {
        let before = self.messages.last_mut().map(|last| last["content"].take()).unwrap_or_default();
        let content = self.join(before, content);
        if let Some(last) = self.messages.last_mut() {
            last["content"] = content;
        }
    }

    /// Two contents as one, the first unchanged at its beginning.
    fn join(&self, first: Value, second: Value) -> Value {
        if self.apart { apart(first, second) } else { joined(first, second) }
    }

    fn assistant(&mut self, text: &str, calls: &'a [ToolCall], state: Option<&ProviderState>) {
        self.names.extend(calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
        let mut lines: Vec<String> = Vec::new();
        if !text.is_empty() {
            lines.push(text.to_owned());
        }
        let mut wired: Vec<Value> = Vec::new();
        let ordered = state.map(|state| state.in_order(text, calls.len())).unwrap_or_default();
        if self.tools {
            wired.extend(calls.iter().map(wire_call));
            for item in &ordered {
                if let Ordered::Call(idx, Some(fields)) = item {
                    add_fields(&mut wired[*idx], fields);
                }
            }
        } else {
            lines.extend(calls.iter().map(phrases::call));
        }
        if lines.is_empty() && wired.is_empty() {
            return;
        }
        if matches!(self.last_role(), "" | "system") {
            self.user(phrases::GOES_ON.into(), "");
        }
        let content = if lines.is_empty() { Value::Null } else { lines.join("\n").into() };
        let goes_on = |last: &Value| last["role"] == "assistant" && last.get("tool_calls").is_none();
        if !self.messages.last().is_some_and(goes_on) {
            self.messages.push(json!({"role": "assistant", "content": null}));
        }
        let Some(last) = self.messages.last_mut() else { return };
        last["content"] = joined(last["content"].take(), content);
        if wired.is_empty() {
            return;
        }
        last["tool_calls"] = wired.into();
        for item in &ordered {
            if let Ordered::Opaque(Value::Object(fields)) = item {
                add_fields(last, fields);
            }
        }
    }

    fn result(&mut self, call_id: &'a str, text: &str, images: &'a [Part]) {
        if self.tools {
            let text = if text.is_empty() { NO_WORDS } else { text };
            self.messages.push(json!({"role": "tool", "tool_call_id": call_id, "content": text}));
            if self.images && !images.is_empty() {
                self.shown.push(Shown { call_id, images });
            }
            return;
        }
        let mut parts = vec![Part::text(phrases::result(self.names.get(call_id).copied(), text))];
        if self.images {
            parts.extend_from_slice(images);
        }
        self.user(user_content(&parts, self.images), "");
    }

    /// The pictures of a round's results, once its last result is there. They stay as they are from request to request.
    fn show_pictures(&mut self) {
        let mut parts = Vec::new();
        for Shown { call_id, images } in std::mem::take(&mut self.shown) {
            parts.push(Part::text(phrases::pictures(self.names.get(call_id).copied(), call_id)));
            parts.extend_from_slice(images);
        }
        if !parts.is_empty() {
            self.user(user_content(&parts, true), PICTURES_FOLLOW);
        }
    }

    /// What is volatile goes to the end of the last message, a result too: a person's message behind a result would be
    /// taken for a new question, and is refused by strict templates.
    fn context(&mut self, text: &str) {
        if self.last_role() == "tool" {
            self.go_on(text.into());
        } else {
            self.user(text.into(), "");
        }
        let n_parts = self.messages.last().and_then(|last| last["content"].as_array()).map_or(1, Vec::len);
        self.volatile.push((self.messages.len().saturating_sub(1), n_parts - 1));
    }
}

/// What of a provider's state goes back. Servers of chat completions want it with calls alone, so that is where it is kept.
fn returns(state: &ProviderState, wire: &Wire, is_open: bool) -> bool {
    state.goes_back(wire, is_open) && !Remedy::NoState.is_in(wire)
}

/// Adds fields that we do not set.
fn add_fields(value: &mut Value, fields: &Map<String, Value>) {
    let Some(object) = value.as_object_mut() else { return };
    for (key, field) in fields {
        object.entry(key).or_insert_with(|| field.clone());
    }
}

/// What servers are known to want of calls that they did not make themselves, or that an earlier version kept without what
/// they want back. Others say so in a refusal.
pub(super) fn known_wants(server: &Server) -> Vec<Remedy> {
    let host = server.base_url().host_str().unwrap_or_default();
    let model = server.options.model.to_lowercase();
    let is_of = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
    let mut wants = Vec::new();
    // https://ai.google.dev/gemini-api/docs/thought-signatures
    if is_of("googleapis.com") && model.contains("gemini-3") {
        wants.push(Remedy::SignCalls);
    }
    // https://api-docs.deepseek.com/guides/thinking_mode, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model
    if is_of("deepseek.com") || is_of("moonshot.ai") || is_of("moonshot.cn") {
        wants.push(Remedy::EmptyReasoning);
    }
    wants
}

/// Two contents as one, the first unchanged at its beginning.
fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Null, other) | (other, Value::Null) => other,
        (Value::String(first), Value::String(second)) => format!("{first}\n\n{second}").into(),
        (first, second) => {
            let mut parts = parts_of(first);
            let mut rest = parts_of(second).into_iter().peekable();
            if let (Some(Value::String(last)), Some(Value::String(next))) = (
                parts.last_mut().and_then(|part| part.get_mut("text")),
                rest.peek().and_then(|part| part.get("text")),
            ) {
                *last = format!("{last}\n\n{next}");
                rest.next();
            }
            parts.extend(rest);
            parts.into()
        }
    }
}

/// Two contents as one: the parts of the first, and then those of the second.
fn apart(first: Value, second: Value) -> Value {
    if first.is_null() || second.is_null() {
        return joined(first, second);
    }
    let mut rest = parts_of(second);
    // Texts of parts are read without anything between them.
    if let Some(Value::String(next)) = rest.first_mut().and_then(|part| part.get_mut("text")) {
        next.insert_str(0, "\n\n");
    }
    let mut parts = parts_of(first);
    parts.extend(rest);
    parts.into()
}

fn parts_of(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        words => vec![json!({"type": "text", "text": words})],
    }
}

/// One string as long as there are only words, since some servers take nothing else; parts once there is a picture.
fn user_content(parts: &[Part], images: bool) -> Value {
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
                words.push_str(&cairn_types::message::text_of(std::slice::from_ref(part)));
            }
        }
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
    use cairn_types::tool::defs::ToolDefs;
    use cairn_types::wire::format::WireFormat;
    use rstest::rstest;

    use super::*;
    use crate::options::ServerOptions;
    use crate::testing::{assistant, calls, context, image, request, result, user};

    fn body(options: &ServerOptions, limit_key: &str, request: &ChatRequest) -> Value {
        let wire = options.wire(WireFormat::Openai, limit_key);
        serde_json::from_str(&super::body(&wire, request).text()).unwrap()
    }

    fn options() -> ServerOptions {
        ServerOptions::new("m", "http://127.0.0.1:1/v1", "any")
    }

    fn messages(options: &ServerOptions, messages: Vec<ChatMessage>) -> Value {
        let request = ChatRequest { system: Vec::new(), ..request(messages) };
        body(options, "max_tokens", &request)["messages"].clone()
    }

    fn parts(parts: Vec<Part>) -> ChatMessage {
        ChatMessage::User { parts }
    }

    fn png() -> Part {
        image("image/png")
    }

    #[test]
    fn the_frame_of_a_request() {
        let mut request = request(vec![user("hi")]);
        request.system.insert(1, String::new());
        let expected = json!({
            "model": "any",
            "messages": [{"role": "system", "content": "prompt\n\nsummaries"}, {"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "tools": [{"type": "function", "function": {"name": "find", "description": "d", "parameters": {"type": "object"}}}],
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

    /// Each message's role, its words, and its calls.
    fn shape(sent: &Value) -> Vec<String> {
        let one = |message: &Value| {
            let words = message["content"].as_str().unwrap_or_default();
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls: String =
                calls.map(|call| format!("+{}", call["id"].as_str().unwrap_or_default())).collect();
            format!("{}: {words}{calls}", message["role"].as_str().unwrap_or_default())
        };
        sent.as_array().unwrap().iter().map(one).collect()
    }

    #[rstest]
    #[case::a_first_message(vec![user("a"), context("t")], &["user: a\n\nt"])]
    #[case::nothing_but_the_tail(vec![context("t")], &["user: t"])]
    #[case::people_twice(vec![user("a"), user("b"), context("t")], &["user: a\n\nb\n\nt"])]
    #[case::the_model_first(
        vec![assistant("b"), user("c"), context("t")],
        &["user: (the conversation goes on)", "assistant: b", "user: c\n\nt"]
    )]
    #[case::the_model_twice(
        vec![user("a"), assistant("b"), calls("c", &["1"]), result("1", "x"), context("t")],
        &["user: a", "assistant: b\n\nc+1", "tool: x\n\nt"]
    )]
    #[case::the_model_last(vec![user("a"), assistant("b"), context("t")], &["user: a", "assistant: b", "user: t"])]
    #[case::a_round_of_tools(
        vec![user("a"), calls("", &["1", "2"]), result("1", "x"), result("2", ""), context("t")],
        &["user: a", "assistant: +1+2", "tool: x", "tool: (no text)\n\nt"]
    )]
    #[case::a_turn_after_one(
        vec![user("a"), calls("", &["1"]), result("1", "x"), assistant("b"), user("c"), context("t")],
        &["user: a", "assistant: +1", "tool: x", "assistant: b", "user: c\n\nt"]
    )]
    #[case::a_turn_that_ended_with_a_result(
        vec![user("a"), calls("", &["1"]), result("1", "x"), user("b"), user("c"), context("t")],
        &["user: a", "assistant: +1", "tool: x", "assistant: (no answer was given)", "user: b\n\nc\n\nt"]
    )]
    fn people_and_the_model_take_turns_and_the_tail_ends_the_last_message(
        #[case] talk: Vec<ChatMessage>,
        #[case] expected: &[&str],
    ) {
        assert_eq!(shape(&messages(&options(), talk)), expected);
    }

    /// What is sent once is sent again: all messages but the last, and the last up to its tail.
    #[test]
    fn a_conversation_goes_on_byte_for_byte() {
        let steps = [
            vec![user("a")],
            vec![user("b")],
            vec![calls("look", &["1"]), result("1", "x")],
            vec![calls("", &["2", "3"]), result("2", "y"), result("3", "z")],
            vec![user("stopped")],
            vec![assistant("c"), user("d")],
        ];
        let mut talk = Vec::new();
        let mut before: Option<Vec<Value>> = None;
        for step in steps {
            talk.extend(step);
            let mut asked = talk.clone();
            asked.push(context("TAIL"));
            let Value::Array(now) = messages(&options(), asked) else { panic!("no messages") };
            if let Some((last, rest)) = before.as_ref().and_then(|before| before.split_last()) {
                assert_eq!(rest, &now[..rest.len()]);
                let (was, is) = (&last["content"], &now[rest.len()]["content"]);
                let lasting = was.as_str().and_then(|words| words.strip_suffix("\n\nTAIL")).unwrap();
                assert!(is.as_str().unwrap().starts_with(lasting), "{was} became {is}");
            }
            before = Some(now);
        }
    }

    #[test]
    fn neighbours_with_pictures_are_parts_of_one_message() {
        let sees = ServerOptions { images: true, ..options() };
        let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let words = |text: &str| json!({"type": "text", "text": text});
        let sent = messages(&sees, vec![parts(vec![Part::text("a"), png()]), context("now")]);
        assert_eq!(sent[0]["content"], json!([words("a"), picture, words("now")]));
        let talk = vec![user("a"), parts(vec![Part::text("b"), png()]), user("c"), context("now")];
        assert_eq!(
            messages(&sees, talk),
            json!([{"role": "user", "content": [words("a\n\nb"), picture, words("c\n\nnow")]}])
        );
    }

    #[test]
    fn attachments_that_the_model_does_not_take_are_words() {
        let file = Part::File { name: "n.txt".to_owned(), media_type: None, text: Some("inside".to_owned()) };
        let other = Part::File { name: "n.bin".to_owned(), media_type: None, text: None };
        let sent = messages(&options(), vec![parts(vec![Part::text("see"), png(), file, other])]);
        assert_eq!(sent[0]["content"], "see\n[image: a.png]\n[file: n.txt]\ninside\n[file: n.bin]");
    }

    #[test]
    fn calls_and_results_go_out_in_pairs() {
        let call = |id: &str, arguments| ToolCall { id: id.to_owned(), name: "f".to_owned(), arguments };
        let talk = || {
            vec![
                user("q"),
                ChatMessage::Assistant {
                    provider_state: None,
                    text: String::new(),
                    tool_calls: vec![call("1", json!({"a": 1})), call("2", json!("{oops"))],
                },
                result("1", ""),
                result("2", "bad"),
                context("now"),
            ]
        };
        let sent = messages(&options(), talk());
        assert_eq!(sent[1]["content"], Value::Null);
        assert_eq!(sent[1]["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
        assert_eq!(sent[1]["tool_calls"][1]["function"]["arguments"], r#"{"raw":"{oops"}"#);
        assert_eq!(sent[2], json!({"role": "tool", "tool_call_id": "1", "content": NO_WORDS}));
        assert_eq!(sent[3]["content"], "bad\n\nnow");
        let told = messages(&ServerOptions { tools: false, ..options() }, talk());
        assert_eq!(
            told[1],
            json!({"role": "assistant", "content": "[called f {\"a\":1}]\n[called f \"{oops\"]"})
        );
        assert_eq!(
            told[2],
            json!({"role": "user", "content": "[result of f]\n\n\n[result of f]\nbad\n\nnow"})
        );
        // The same where the request has no tools: it was found out that the model takes none.
        assert_eq!(
            body(
                &options(),
                "max_tokens",
                &ChatRequest { tools: ToolDefs::default(), system: Vec::new(), ..request(talk()) }
            )["messages"],
            told
        );
    }

    /// Two calls at once, each with a picture in its result.
    fn pictured() -> Vec<ChatMessage> {
        let result = |id: &str, images| ChatMessage::Tool {
            call_id: id.to_owned(),
            text: format!("{id} [image: a.png]"),
            images,
        };
        vec![
            user("q"),
            calls("", &["1", "2", "3"]),
            result("1", vec![png(), png()]),
            result("2", Vec::new()),
            result("3", vec![png()]),
            context("now"),
        ]
    }

    #[test]
    fn pictures_of_results_follow_the_last_result_of_the_round() {
        let sees = ServerOptions { images: true, ..options() };
        let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let words = |text: &str| json!({"type": "text", "text": text});
        let after = json!({"role": "user", "content": [
            words("[pictures of the result of find, call 1]"), picture, picture,
            words("[pictures of the result of find, call 3]"), picture, words("now"),
        ]});
        let sent = messages(&sees, pictured());
        let roles: Vec<&str> =
            sent.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool", "assistant", "user"]);
        assert_eq!(sent[2], json!({"role": "tool", "tool_call_id": "1", "content": "1 [image: a.png]"}));
        assert_eq!(sent[5]["content"], PICTURES_FOLLOW);
        assert_eq!(sent[6], after);
        let mut after = after;
        after["content"].as_array_mut().unwrap().pop();
        // The next request repeats them byte for byte, before what came after them.
        let mut next = pictured();
        next.pop();
        next.push(assistant("seen"));
        let next = messages(&sees, next);
        assert_eq!(next.as_array().unwrap()[..6], sent.as_array().unwrap()[..6]);
        assert_eq!(next[6], after);
        assert_eq!(next[7]["content"], "seen");
        // At the end of a request, too.
        let mut last = pictured();
        last.pop();
        assert_eq!(messages(&sees, last)[6], after);
    }

    #[test]
    fn pictures_of_results_are_words_where_the_model_does_not_see() {
        let sent = messages(&options(), pictured());
        assert_eq!(sent.as_array().unwrap().len(), 5);
        assert!(!sent.to_string().contains("AAAA"), "{sent}");
        assert_eq!(sent[4]["content"], "3 [image: a.png]\n\nnow");
    }

    #[test]
    fn pictures_of_results_that_are_told_in_words_stand_beside_them() {
        let sees = ServerOptions { images: true, tools: false, ..options() };
        let sent = messages(&sees, pictured());
        assert_eq!(sent[2]["content"][0]["text"], "[result of find]\n1 [image: a.png]");
        assert_eq!(sent[2]["content"][1]["type"], "image_url");
        assert_eq!(
            sent[2]["content"][3]["text"],
            "[result of find]\n2 [image: a.png]\n\n[result of find]\n3 [image: a.png]"
        );
        assert_eq!(sent[2]["content"].as_array().unwrap().len(), 6);
        assert_eq!(sent.as_array().unwrap().len(), 3);
    }

    #[test]
    fn nothing_empty_is_sent() {
        let sent = messages(&options(), vec![parts(Vec::new()), assistant("")]);
        assert_eq!(sent, json!([{"role": "user", "content": NO_WORDS}]));
    }
}
