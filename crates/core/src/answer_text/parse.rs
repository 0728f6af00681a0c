//! Tool calls out of the text of one block, in whichever form its model writes them.

use serde_json::{Map, Value};

use super::literal::Reader;
use super::marks::find;
use cairn_types::tool::defs::ToolDefs;
use cairn_types::tool::{CALLS_MAX, is_name};

/// The name of a call whose own name cannot be read: no tool has it, so the call is refused, and the model is told so.
const MALFORMED: &str = "malformed_call";

/// Longest text of a malformed call that is kept, in bytes.
const RAW_MAX: usize = 4_096;

/// A call as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) name: String,
    /// A string where they are no object.
    pub(super) arguments: Value,
}

impl Written {
    fn new(name: &str, arguments: Value) -> Self {
        Self { name: clean(name).to_owned(), arguments }
    }

    /// A text that is meant as a call and cannot be read as one.
    pub(super) fn malformed(text: &str) -> Self {
        let raw = &text[..text.floor_char_boundary(RAW_MAX)];
        Self { name: MALFORMED.to_owned(), arguments: raw.trim().into() }
    }

    /// It can be run: of a tool that was offered, with arguments.
    pub(super) fn is_sound(&self, tools: &ToolDefs) -> bool {
        self.arguments.is_object() && tools.iter().any(|tool| tool.name == self.name)
    }

    /// As the turn gets it. A name that no server takes in a later request is no name.
    pub(super) fn into_parts(self) -> (String, Value) {
        let name = if is_name(&self.name) { self.name } else { MALFORMED.to_owned() };
        (name, self.arguments)
    }
}

/// A name without what templates put around it: `functions.find:0`, `call:find`.
fn clean(name: &str) -> &str {
    let name = name.trim().trim_matches(['"', '\'']);
    let bare = ["functions.", "default_api.", "tools.", "call:"]
        .into_iter()
        .find_map(|lead| name.strip_prefix(lead));
    let bare = bare.unwrap_or(name);
    match bare.rsplit_once(':') {
        Some((bare, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => bare,
    }
}

/// The calls of a block; none: it is no call in any form. `body`: the block without its own marks.
pub(super) fn calls(block: &str, body: &str, tools: &ToolDefs) -> Vec<Written> {
    let body = body.trim();
    if find(block, "<function=").is_some() || find(block, "invoke name=").is_some() {
        return xml(block, tools);
    }
    if body.starts_with(['{', '[']) {
        let found = values(body, tools);
        if !found.is_empty() {
            return found;
        }
    }
    if body.contains("arg_key>") {
        return arg_keys(body, tools);
    }
    let found = functions(body);
    if !found.is_empty() {
        return found;
    }
    if body.contains('{') {
        return named(body, tools);
    }
    let name = clean(body);
    let is_known = tools.iter().any(|tool| tool.name == name);
    if is_known { vec![Written::new(name, Map::new().into())] } else { Vec::new() }
}

/// A call whose name is known, with its arguments as JSON.
pub(super) fn call_of(name: &str, arguments: &str) -> Written {
    let text = arguments.trim();
    let value = if text.is_empty() { Some(Map::new().into()) } else { read(text).map(|(value, _)| value) };
    Written::new(name, value.filter(Value::is_object).unwrap_or_else(|| raw(text)))
}

fn raw(text: &str) -> Value {
    text[..text.floor_char_boundary(RAW_MAX)].into()
}

/// A value at the front of a text, and what stands behind it.
fn read(text: &str) -> Option<(Value, &str)> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Some(Ok(value)) = strict.next() {
        return Some((value, &text[strict.byte_offset()..]));
    }
    let mut reader = Reader::new(text);
    reader.value().map(|value| (value, reader.rest))
}

/// JSON objects, one behind the other or in a list.
fn values(text: &str, tools: &ToolDefs) -> Vec<Written> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
        if !rest.starts_with(['{', '[']) {
            return found;
        }
        let Some((value, behind)) = read(rest) else {
            found.extend(broken(rest));
            return found;
        };
        rest = behind;
        match value {
            Value::Array(list) => found.extend(list.into_iter().filter_map(|value| object(value, tools))),
            value => found.extend(object(value, tools)),
        }
    }
}

fn object(value: Value, tools: &ToolDefs) -> Option<Written> {
    let Value::Object(mut fields) = value else { return None };
    if let Some(Value::Object(inner)) = fields.get_mut("function") {
        fields = std::mem::take(inner);
    }
    // The definition of a tool, which somebody asked for.
    if fields.contains_key("description")
        || fields.get("parameters").is_some_and(|schema| schema["properties"].is_object())
    {
        return None;
    }
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| fields.remove(*key));
    match take(&["name", "tool_name", "function", "tool", "recipient_name"]) {
        Some(Value::String(name)) => {
            let arguments = take(&["arguments", "parameters", "args", "input"]);
            Some(match arguments {
                None | Some(Value::Null) => Written::new(&name, Map::new().into()),
                Some(Value::String(text)) => call_of(&name, &text),
                Some(arguments @ Value::Object(_)) => Written::new(&name, arguments),
                Some(other) => Written::new(&name, raw(&other.to_string())),
            })
        }
        Some(_) => None,
        // Apertus: the name is the key.
        None => {
            let (name, arguments) = fields.into_iter().next()?;
            let is_known = arguments.is_object() && tools.iter().any(|tool| tool.name == name);
            is_known.then(|| Written::new(&name, arguments))
        }
    }
}

/// A call in JSON that cannot be read, if it names its tool.
fn broken(text: &str) -> Option<Written> {
    let (_, behind) = text.split_once("\"name\"")?;
    let mut reader = Reader::new(behind);
    let name = reader.eat(":").then(|| reader.value()).flatten()?;
    Some(Written::new(name.as_str()?, raw(text)))
}

/// `<function=NAME><parameter=KEY>…`, `<invoke name="NAME"><parameter name="KEY">…`, each with a prefix or without.
fn xml(text: &str, tools: &ToolDefs) -> Vec<Written> {
    let (open, close) = match find(text, "<function=") {
        Some(_) => ("<function=", "</function"),
        None => ("invoke name=", "invoke>"),
    };
    let mut found = Vec::new();
    for part in parts(text, open).take(CALLS_MAX + 1) {
        let Some((name, inner)) = part.split_once('>') else {
            found.push(Written::malformed(part));
            break;
        };
        let inner = find(inner, close).map_or(inner, |(at, _)| &inner[..at]);
        found.push(with_parameters(clean(name), inner, tools));
    }
    found
}

/// What stands behind each of those marks, up to the next.
fn parts<'a>(text: &'a str, mark: &'static str) -> impl Iterator<Item = &'a str> {
    let mut rest = find(text, mark).map(|(_, end)| &text[end..]);
    std::iter::from_fn(move || {
        let text = rest?;
        let (at, next) = find(text, mark).map_or((text.len(), None), |(at, end)| (at, Some(&text[end..])));
        rest = next;
        Some(&text[..at])
    })
}

/// The text before a closing mark, which may have a prefix: `</ns:parameter>`.
fn before_close<'a>(text: &'a str, close: &str) -> &'a str {
    let Some((at, _)) = find(text, close) else { return text };
    text[..at].rfind("</").map_or(&text[..at], |at| &text[..at])
}

fn with_parameters(name: &str, inner: &str, tools: &ToolDefs) -> Written {
    let mark = if find(inner, "<parameter=").is_some() { "<parameter=" } else { "parameter name=" };
    let mut fields = Map::new();
    for part in parts(inner, mark) {
        let Some((head, value)) = part.split_once('>') else {
            return Written::new(name, raw(inner));
        };
        let mut head = head.split_whitespace();
        let key = head.next().unwrap_or_default().trim_matches(['"', '\'']);
        let said =
            head.find_map(|attribute| attribute.strip_prefix("string=")).map(|text| text.contains("true"));
        let value = typed(name, key, before_close(value, "parameter>"), said, tools);
        fields.insert(key.to_owned(), value);
    }
    if fields.is_empty() && inner.trim_start().starts_with('{') {
        return call_of(name, inner);
    }
    Written::new(name, fields.into())
}

/// A value that is written without quotes: text where the tool wants text, else JSON where it is some.
fn typed(tool: &str, key: &str, text: &str, is_text: Option<bool>, tools: &ToolDefs) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let wants_text = || {
        let def = tools.iter().find(|def| def.name == tool)?;
        let kind = &def.parameters["properties"][key]["type"];
        Some(
            kind == "string"
                || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "string")),
        )
    };
    if is_text.or_else(wants_text).unwrap_or(false) {
        return text.into();
    }
    serde_json::from_str(text.trim()).unwrap_or_else(|_| text.into())
}

/// `NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> …`: GLM, LongCat, Hunyuan.
fn arg_keys(text: &str, tools: &ToolDefs) -> Vec<Written> {
    let mut found = Vec::new();
    for part in text.split("tool_call>") {
        let part = part.trim_start();
        let (name, rest) = part.split_at(part.find(['<', '\n']).unwrap_or(part.len()));
        let name = clean(name);
        if name.is_empty() {
            continue;
        }
        let mut fields = Map::new();
        // A key, what stands behind its closing mark, the next key, …
        let mut pieces = rest.split("arg_key>").skip(1);
        while let (Some(key), Some(value)) = (pieces.next(), pieces.next()) {
            let key = key.split("</").next().unwrap_or_default().trim();
            let value = value.split_once("arg_value>").map_or("", |(_, value)| value);
            fields.insert(key.to_owned(), typed(name, key, before_close(value, "arg_value>"), None, tools));
        }
        found.push(Written::new(name, fields.into()));
    }
    found
}

/// `[f(a=1), g()]`, `print(f(a=1))`, `f(a=1)`; none where anything else stands there.
fn functions(text: &str) -> Vec<Written> {
    let inner = text.strip_prefix("print(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let mut reader = Reader::new(inner);
    let is_list = reader.eat("[");
    let mut found = Vec::new();
    while let Some((name, fields)) = reader.call() {
        found.push(Written::new(name.strip_suffix(".call").unwrap_or(name), fields.into()));
        if !is_list || !reader.eat(",") {
            break;
        }
    }
    let ends = (!is_list || reader.eat("]")) && reader.rest.trim().is_empty();
    if ends { found } else { Vec::new() }
}

/// Names, each with its arguments in braces behind it and a model's own marks between: `NAME[ARGS]{…}` (Mistral),
/// `functions.NAME:0<|tool_call_argument_begin|>{…}` (Kimi K2), `function<｜tool▁sep｜>NAME` and a fence (DeepSeek).
fn named(text: &str, tools: &ToolDefs) -> Vec<Written> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let name = name_in(&rest[..at]);
        let Some((value, behind)) = read(&rest[at..]) else {
            found.extend(match name {
                Some(name) => Some(Written::new(name, raw(&rest[at..]))),
                None => broken(&rest[at..]),
            });
            break;
        };
        found.extend(match name {
            Some(name) => Some(Written::new(name, value)),
            None => object(value, tools),
        });
        rest = behind;
    }
    found
}

/// The last word of a head beside the marks in it, and beside the id that Mistral writes.
fn name_in(head: &str) -> Option<&str> {
    let outside = head.split('<').map(|part| part.rsplit('>').next().unwrap_or(part));
    let outside = outside.flat_map(|part| part.split('[')).filter(|part| !part.starts_with("CALL_ID]"));
    let mut words = outside.flat_map(|part| part.rsplit(']').next().unwrap_or(part).split_whitespace());
    words.rfind(|word| !matches!(*word, "json" | "function" | "```json" | "```" | ";" | ","))
}
