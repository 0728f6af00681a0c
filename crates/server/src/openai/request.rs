//! Reads a request for a chat completion: who asks which agent, in which conversation, with which messages.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_core::client_list::Listed;
use cairn_platforms::attach::{AttachLimits, Attachment};
use cairn_types::ids::AgentId;
use cairn_types::message::Part;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::is_name;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::Failed;

/// The header that names a conversation.
pub(super) const CONVERSATION: &str = "x-cairn-conversation";

/// Longest name of a conversation that is used as it is, in bytes.
const NAME_MAX: usize = 64;

/// Most tools of a client, as at OpenAI.
const TOOLS_MAX: usize = 128;

/// Most messages of a list that are looked at: the last ones.
const MESSAGES_MAX: usize = 10_000;

/// Most pictures of a message.
const IMAGES_MAX: usize = 8;

/// The body, as far as it matters here. What else is in it has no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    user: Option<String>,
    n: Option<u64>,
    logprobs: Option<bool>,
    top_logprobs: Option<u64>,
    modalities: Option<Vec<String>>,
    audio: Option<Value>,
    response_format: Option<ResponseFormat>,
    tools: Option<Vec<Tool>>,
    tool_choice: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    r#type: String,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ResponseFormat {
    r#type: String,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    /// Of a tool's message: the call that it answers.
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Deserialize)]
struct ContentPart {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image_url: Option<ImageUrl>,
}

#[derive(Debug, Deserialize)]
struct ImageUrl {
    url: String,
}

/// How a client names its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    ByClient(String),
    /// By its first message, which other conversations may share.
    ByFirstMessage(String),
}

/// A request that can be carried out, as far as the request itself tells.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) agent: AgentId,
    pub(super) named: Named,
    pub(super) system: String,
    /// What the agent said before anybody else.
    pub(super) greeting: String,
    /// Tools that the client runs itself.
    pub(super) tools: Vec<ToolDef>,
    /// What its tools returned, by the ids of the calls, where the list ends with that.
    pub(super) results: Vec<(String, String)>,
    /// Oldest first; the last one is the person's.
    pub(super) listed: Vec<Listed>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

/// What a client may ask for.
pub(super) struct Bounds<'a> {
    /// The agents of its key.
    pub(super) agents: &'a [AgentId],
    /// Longest message, in bytes.
    pub(super) text_bytes: usize,
    /// Whether the agent's model takes pictures.
    pub(super) sees: &'a dyn Fn(&AgentId) -> bool,
}

/// Reads the body of a request.
pub(super) fn read(bytes: &[u8], headers: &HeaderMap, bounds: &Bounds<'_>) -> Result<Asked, Failed> {
    let body: Body = serde_json::from_slice(bytes).map_err(|error| {
        Failed::malformed(format!("the body is no request for a chat completion: {error}"))
    })?;
    check_supported(&body)?;
    let model = body.model.as_deref().unwrap_or_default();
    let agent = bounds.agents.iter().find(|agent| agent.as_str() == model);
    let agent = agent.ok_or_else(|| Failed::no_such_model(model))?.clone();
    let messages = body.messages.unwrap_or_default();
    let results = results_of(&messages, bounds.text_bytes)?;
    let ReadMessages { system, greeting, mut listed } =
        messages_of(messages, bounds.text_bytes, (bounds.sees)(&agent))?;
    let is_none = body.tool_choice.as_ref().and_then(Value::as_str) == Some("none");
    let tools = tools_of(body.tools.filter(|_| !is_none).unwrap_or_default())?;
    let header = headers.get(CONVERSATION).map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
    let given = [header, body.user].into_iter().flatten().find(|name| !name.trim().is_empty());
    let named = match (given, listed.first()) {
        (Some(name), _) => Named::ByClient(plain_name(&name)),
        (None, first) => {
            let text = first.map(|first| cairn_types::message::text_of(&first.parts)).unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            Named::ByFirstMessage(hashed(&words.join(" ")))
        }
    };
    listed.drain(..listed.len().saturating_sub(MESSAGES_MAX));
    let include_usage = body.stream_options.and_then(|options| options.include_usage).unwrap_or_default();
    let stream = body.stream.unwrap_or_default();
    Ok(Asked { agent, named, system, greeting, tools, results, listed, stream, include_usage })
}

/// The tools of the client.
fn tools_of(tools: Vec<Tool>) -> Result<Vec<ToolDef>, Failed> {
    if tools.len() > TOOLS_MAX {
        return Err(Failed::wrong("tools", "array_above_max_length", format!("{TOOLS_MAX} tools at most")));
    }
    let one = |(idx, tool): (usize, Tool)| {
        let function = tool.function.filter(|function| tool.r#type == "function" && is_name(&function.name));
        let Some(Function { name, description, parameters }) = function else {
            let message = "a tool is a function with a name of 1 to 64 of the characters A-Z a-z 0-9 _ -";
            return Err(Failed::wrong(&format!("tools[{idx}]"), "invalid_value", message));
        };
        let parameters =
            parameters.unwrap_or_else(|| serde_json::json!({ "type": "object", "properties": {} }));
        if !parameters.is_object() {
            let message = "the parameters of a function are a JSON schema";
            return Err(Failed::wrong(
                &format!("tools[{idx}].function.parameters"),
                "invalid_value",
                message,
            ));
        }
        Ok(ToolDef { name, description: description.unwrap_or_default(), parameters })
    };
    let tools = tools.into_iter().enumerate().map(one).collect::<Result<Vec<ToolDef>, Failed>>()?;
    let mut names = BTreeSet::new();
    match tools.iter().position(|tool| !names.insert(&tool.name)) {
        None => Ok(tools),
        Some(idx) => {
            let message = format!("two tools have the name {}", tools[idx].name);
            Err(Failed::wrong(&format!("tools[{idx}]"), "invalid_value", message))
        }
    }
}

/// What tools of the client returned, where the list ends with that.
fn results_of(messages: &[Message], text_bytes: usize) -> Result<Vec<(String, String)>, Failed> {
    let mut results = Vec::new();
    for (idx, message) in messages.iter().enumerate().rev().take_while(|(_, message)| message.role == "tool")
    {
        let at = |field: &str| format!("messages[{idx}].{field}");
        let id = message.tool_call_id.clone();
        let id = id.ok_or_else(|| Failed::wrong(&at("tool_call_id"), "invalid_value", "it is missing"))?;
        let text = match &message.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
                texts.join("\n")
            }
        };
        if text.len() > text_bytes {
            let message = format!("the result is longer than {text_bytes} bytes");
            return Err(Failed::wrong(&at("content"), "string_above_max_length", message));
        }
        results.push((id, text.replace('\0', "")));
    }
    Ok(results)
}

/// What would change the answer and is not there. Sampling parameters and limits are the configuration's, and are ignored.
fn check_supported(body: &Body) -> Result<(), Failed> {
    if body.n.is_some_and(|n| n != 1) {
        return Err(Failed::unsupported("n", "only one choice is made; leave `n` out or set it to 1"));
    }
    if body.logprobs == Some(true) || body.top_logprobs.is_some_and(|n| n > 0) {
        return Err(Failed::unsupported("logprobs", "log probabilities are not available"));
    }
    let speaks = body.modalities.iter().flatten().any(|modality| modality != "text");
    if speaks || body.audio.is_some() {
        return Err(Failed::unsupported("modalities", "answers are text only"));
    }
    match &body.response_format {
        Some(format) if format.r#type != "text" => {
            Err(Failed::unsupported("response_format", "only the response format `text` is available"))
        }
        _ => Ok(()),
    }
}

/// What the list of a client's messages says.
struct ReadMessages {
    system: String,
    /// What the agent said before anybody else.
    greeting: String,
    listed: Vec<Listed>,
}

fn messages_of(messages: Vec<Message>, text_bytes: usize, sees: bool) -> Result<ReadMessages, Failed> {
    let (mut system, mut greeting) = (Vec::new(), Vec::new());
    let mut listed: Vec<Listed> = Vec::new();
    // The one to be answered; behind it may stand results of tools, and system messages.
    let last = messages.iter().rposition(|message| message.role == "user").unwrap_or_default();
    let ends_with_results = messages.last().is_some_and(|message| message.role == "tool");
    for (idx, message) in messages.into_iter().enumerate() {
        let by_agent = match message.role.as_str() {
            "system" | "developer" => {
                let parts = parts_of(message.content, idx, None)?;
                system.push(cairn_types::message::text_of(&parts));
                continue;
            }
            "user" => false,
            "assistant" => true,
            // What tools returned is read apart.
            "tool" | "function" => continue,
            _ => {
                let message = "a role is one of system, developer, user, assistant and tool";
                return Err(Failed::wrong(&format!("messages[{idx}].role"), "invalid_value", message));
            }
        };
        // Pictures count in the message that is answered; others are seen already.
        let images = (idx == last).then_some(sees);
        let parts = parts_of(message.content, idx, images)?;
        let is_empty = cairn_types::message::text_of(&parts).trim().is_empty();
        match listed.last_mut() {
            _ if is_empty && idx != last => {}
            None if by_agent => greeting.push(cairn_types::message::text_of(&parts)),
            Some(before) if before.by_agent && by_agent => {
                before.parts.push(Part::text(""));
                before.parts.extend(parts);
            }
            _ => listed.push(Listed { by_agent, parts }),
        }
    }
    if ends_with_results && listed.last().is_some_and(|last| last.by_agent) {
        // The words before its calls.
        listed.pop();
    }
    match listed.last() {
        Some(asked) if !asked.by_agent => check_asked(asked, text_bytes)?,
        _ => {
            let message = "the last message has to be the user's: there is nothing to answer";
            return Err(Failed::wrong("messages", "invalid_value", message));
        }
    }
    system.retain(|text| !text.trim().is_empty());
    let system = system.join("\n\n");
    if system.len() + greeting.iter().map(String::len).sum::<usize>() > text_bytes {
        let message = format!("the system messages are longer than {text_bytes} bytes together");
        return Err(Failed::wrong("messages", "string_above_max_length", message));
    }
    Ok(ReadMessages { system, greeting: greeting.join("\n\n"), listed })
}

fn check_asked(asked: &Listed, text_bytes: usize) -> Result<(), Failed> {
    let text = cairn_types::message::text_of(&asked.parts);
    if text.trim().is_empty() {
        return Err(Failed::wrong("messages", "invalid_value", "the last message is empty"));
    }
    if text.len() > text_bytes {
        let message = format!(
            "the last message is longer than {text_bytes} bytes; split it, or raise `max_message_bytes` in [limits]"
        );
        return Err(Failed::wrong("messages", "string_above_max_length", message));
    }
    Ok(())
}

/// The parts of a message. `images`: whether pictures are taken; `None`: they are only named.
fn parts_of(content: Option<Content>, idx: usize, images: Option<bool>) -> Result<Vec<Part>, Failed> {
    let text = |text: String| Part::text(text.replace('\0', ""));
    let parts = match content {
        None => return Ok(Vec::new()),
        Some(Content::Text(words)) => return Ok(vec![text(words)]),
        Some(Content::Parts(parts)) => parts,
    };
    let mut out = Vec::with_capacity(parts.len());
    let mut n_images = 0;
    for part in parts {
        let at = || format!("messages[{idx}].content");
        match (part.r#type.as_str(), part.text, part.image_url) {
            ("text" | "refusal", words, _) => out.extend(words.map(text)),
            ("image_url", _, Some(image)) => {
                n_images += 1;
                if n_images > IMAGES_MAX {
                    let message = format!("a message has {IMAGES_MAX} pictures at most");
                    return Err(Failed::wrong(&at(), "invalid_value", message));
                }
                out.push(match images {
                    None => picture(String::new(), String::new()),
                    Some(sees) => image_of(&image.url, sees, &at())?,
                });
            }
            // In older messages it is known, or of no use any more.
            _ if images.is_none() => {}
            (kind, ..) => {
                let kind: String = kind.chars().take(32).collect();
                let message = format!("content of the type `{kind}` is not taken; text and image_url are");
                return Err(Failed::wrong(&at(), "invalid_value", message));
            }
        }
    }
    Ok(out)
}

fn picture(media_type: String, data: String) -> Part {
    Part::Image { name: Some(PICTURE.to_owned()), media_type, data }
}

/// Pictures have no names there.
const PICTURE: &str = "picture";

/// A picture from a `data:` URL.
fn image_of(url: &str, sees: bool, at: &str) -> Result<Part, Failed> {
    let wrong = |message: &str| Failed::wrong(at, "invalid_image_url", message);
    if !sees {
        return Err(wrong("this agent's model takes no pictures"));
    }
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media_type, data) = data.ok_or_else(|| {
        wrong("pictures are taken as data:…;base64,… only; none is fetched from an address")
    })?;
    let most = AttachLimits::default().image_bytes;
    if data.len() / 4 * 3 > most {
        return Err(wrong(&format!("the picture is larger than {most} bytes")));
    }
    let bytes = STANDARD.decode(data.trim()).map_err(|_| wrong("the picture is not valid base64"))?;
    let attachment = Attachment { name: PICTURE, media_type: Some(media_type), size: None };
    match attachment.part(Ok(bytes)) {
        image @ Part::Image { .. } => Ok(image),
        _ => Err(wrong("the picture is none of PNG, JPEG, GIF and WebP")),
    }
}

/// A name as part of a channel's name: as it is where that goes, else its hash.
fn plain_name(name: &str) -> String {
    let name = name.trim();
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    if name.len() <= NAME_MAX && name.chars().all(fits) { name.to_owned() } else { hashed(name) }
}

/// A short hash of a text, in hex.
fn hashed(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read_in(body: &Value, header: Option<&str>, sees: bool) -> Result<Asked, Failed> {
        let mut headers = HeaderMap::new();
        if let Some(name) = header {
            headers.insert(CONVERSATION, name.parse().unwrap());
        }
        let sees = |_: &AgentId| sees;
        let agents = [AgentId::from("main")];
        let bounds = Bounds { agents: &agents, text_bytes: 100, sees: &sees };
        read(body.to_string().as_bytes(), &headers, &bounds)
    }

    fn body(messages: Value) -> Value {
        json!({ "model": "main", "messages": messages })
    }

    fn refusal(body: &Value) -> (String, String) {
        let failed = read_in(body, None, true).unwrap_err().body();
        let of = |name: &str| failed["error"][name].as_str().unwrap_or_default().to_owned();
        (of("param"), of("code"))
    }

    #[test]
    fn a_list_is_read_with_its_system_messages_apart() {
        let asked = read_in(
            &body(json!([
                { "role": "system", "content": "be brief" },
                { "role": "assistant", "content": "Hi!" },
                { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
                { "role": "assistant", "content": "1" },
                { "role": "assistant", "content": null, "tool_calls": [] },
                { "role": "assistant", "content": "2" },
                { "role": "developer", "content": "and kind" },
                { "role": "user", "content": "c" },
            ])),
            None,
            false,
        );
        let asked = asked.unwrap();
        assert_eq!((asked.system.as_str(), asked.greeting.as_str()), ("be brief\n\nand kind", "Hi!"));
        let texts = asked.listed.iter().map(|listed| cairn_types::message::text_of(&listed.parts));
        assert_eq!(texts.collect::<Vec<_>>(), ["a\nb", "1\n\n2", "c"]);
        assert!(!asked.stream && !asked.include_usage);
    }

    #[rstest]
    #[case(None, None, "ca978112ca1bbdca")]
    #[case(Some("bob"), None, "bob")]
    #[case(Some("bob"), Some("chat-7"), "chat-7")]
    #[case(Some("Bob B/1"), None, "94a7075d517b11ef")]
    #[case(Some(" "), None, "ca978112ca1bbdca")]
    fn a_conversation_is_named_by_header_user_or_first_message(
        #[case] user: Option<&str>,
        #[case] header: Option<&str>,
        #[case] expected: &str,
    ) {
        let mut body = body(json!([{ "role": "user", "content": " a\n" }]));
        body["user"] = json!(user);
        let (Named::ByClient(name) | Named::ByFirstMessage(name)) =
            read_in(&body, header, false).unwrap().named;
        assert_eq!(name, expected);
    }

    #[rstest]
    #[case(json!({ "n": 2 }), "n")]
    #[case(json!({ "logprobs": true }), "logprobs")]
    #[case(json!({ "top_logprobs": 3 }), "logprobs")]
    #[case(json!({ "modalities": ["text", "audio"] }), "modalities")]
    #[case(json!({ "response_format": { "type": "json_object" } }), "response_format")]
    fn what_is_not_there_is_named(#[case] more: Value, #[case] param: &str) {
        let mut body = body(json!([{ "role": "user", "content": "a" }]));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(refusal(&body), (param.to_owned(), "unsupported_parameter".to_owned()));
        let harmless = json!({
            "n": 1, "temperature": 0.5, "max_tokens": 9, "top_p": 1, "stop": ["x"], "seed": 1, "logprobs": false,
            "response_format": { "type": "text" }, "tools": [], "unheard_of": {},
        });
        body.as_object_mut().unwrap().extend(harmless.as_object().unwrap().clone());
        body.as_object_mut()
            .unwrap()
            .retain(|key, _| !["modalities", "top_logprobs"].contains(&key.as_str()));
        assert!(read_in(&body, None, false).is_ok());
    }

    #[rstest]
    #[case(json!([]), "messages")]
    #[case(json!([{ "role": "system", "content": "a" }]), "messages")]
    #[case(json!([{ "role": "user", "content": " " }]), "messages")]
    #[case(json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]), "messages")]
    #[case(json!([{ "role": "user", "content": "x".repeat(101) }]), "messages")]
    #[case(json!([{ "role": "system", "content": "x".repeat(101) }, { "role": "user", "content": "a" }]), "messages")]
    #[case(json!([{ "role": "boss", "content": "a" }]), "messages[0].role")]
    #[case(json!([{ "role": "user", "content": [{ "type": "input_audio" }] }]), "messages[0].content")]
    #[case(json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "http://x/y.png" } }] }]), "messages[0].content")]
    #[case(json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }] }]), "messages[0].content")]
    fn a_list_that_cannot_be_answered_is_refused(#[case] messages: Value, #[case] param: &str) {
        assert_eq!(refusal(&body(messages)).0, param);
    }

    #[test]
    fn tools_and_their_results_are_read() {
        let mut with_tools = body(json!([
            { "role": "user", "content": "switch it on" },
            { "role": "assistant", "content": "One moment.", "tool_calls": [{}] },
            { "role": "tool", "tool_call_id": "c1", "content": "on" },
            { "role": "tool", "tool_call_id": "c2", "content": [{ "type": "text", "text": "bright" }] },
        ]));
        with_tools["tools"] = json!([{ "type": "function", "function": { "name": "lamp" } }]);
        let asked = read_in(&with_tools, None, false).unwrap();
        assert_eq!(
            (asked.tools[0].name.as_str(), asked.tools[0].parameters["type"].as_str()),
            ("lamp", Some("object"))
        );
        let results = [("c2".to_owned(), "bright".to_owned()), ("c1".to_owned(), "on".to_owned())];
        assert_eq!((asked.results.as_slice(), asked.listed.len()), (results.as_slice(), 1));
        with_tools["tool_choice"] = json!("none");
        assert!(read_in(&with_tools, None, false).unwrap().tools.is_empty());
        for (wrong, param) in [
            (json!([{ "type": "function" }]), "tools[0]"),
            (json!([{ "type": "function", "function": { "name": "a b" } }]), "tools[0]"),
            (
                json!([{ "type": "function", "function": { "name": "a", "parameters": 1 } }]),
                "tools[0].function.parameters",
            ),
        ] {
            with_tools["tools"] = wrong;
            with_tools["tool_choice"] = Value::Null;
            assert_eq!(refusal(&with_tools).0, param);
        }
    }

    #[test]
    fn pictures_come_with_the_message_that_is_answered() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        let message = json!({ "role": "user", "content": [
            { "type": "text", "text": "what is it?" },
            { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{png}") } },
        ] });
        let asked = read_in(&body(json!([message])), None, true).unwrap();
        let [_, Part::Image { media_type, data, .. }] = asked.listed[0].parts.as_slice() else { panic!() };
        assert_eq!((media_type.as_str(), data), ("image/png", &png));
        let failed = read_in(&body(json!([message])), None, false).unwrap_err();
        assert!(failed.body()["error"]["message"].as_str().unwrap().contains("no pictures"));
        let later =
            json!([message, { "role": "assistant", "content": "a cat" }, { "role": "user", "content": "b" }]);
        let again = read_in(&body(later), None, false).unwrap();
        let text = |listed: &Listed| cairn_types::message::text_of(&listed.parts);
        assert_eq!(text(&again.listed[0]), text(&asked.listed[0]), "it is known again");
    }
}
