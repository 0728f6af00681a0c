//! Reads and checks a server's list of tools.

use std::collections::BTreeMap;

use cairn_types::tool::mcp::{ServerPin, ServerSource, Suspicion, TOOL_BYTES_MAX, TOOLS_MAX, ToolPin, scan};
use cairn_types::tool::{NAME_MAX, is_name, offered_name};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};
use serde_json::Value;

use cairn_types::tool::mcp::status::Rejected;

const PAGES_MAX: usize = 64;

/// Most rejected tools that are reported.
const REJECTED_MAX: usize = TOOLS_MAX;

/// Longest name or version that a server gives itself, in characters.
const OWN_NAME_CHARS: usize = 200;

/// A server as shown by its last list of tools.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listing {
    pub pin: ServerPin,
    pub rejected: Vec<Rejected>,
    pub suspicions: BTreeMap<String, Vec<Suspicion>>,
}

/// Why the tools could not be listed.
pub(super) enum ListError {
    /// The connection failed, or the server refused.
    Service(ServiceError),
    /// The answer is not a list of tools.
    Answer(String),
}

pub(super) async fn list(
    peer: &Peer<RoleClient>,
    server: &str,
    source: &ServerSource,
) -> Result<Listing, ListError> {
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    for _page in 0..PAGES_MAX {
        let mut page = ask(peer, cursor.take()).await?;
        let Some(Value::Array(listed)) = page.get_mut("tools").map(Value::take) else {
            return Err(ListError::Answer(
                "it answers the question for its tools with something else".to_owned(),
            ));
        };
        tools.extend(listed);
        let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty());
        let Some(next) = next.filter(|_| tools.len() <= TOOLS_MAX) else {
            return Ok(read(server, source.clone(), peer.peer_info().as_deref(), &tools));
        };
        cursor = Some(next.to_owned());
    }
    Err(ListError::Answer(format!("the list of its tools has more than {PAGES_MAX} pages")))
}

async fn ask(peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<Value, ListError> {
    let mut request = ListToolsRequest::default();
    if cursor.is_some() {
        request.params = Some(PaginatedRequestParams::default().with_cursor(cursor));
    }
    let result =
        peer.send_request(ClientRequest::ListToolsRequest(request)).await.map_err(ListError::Service)?;
    // Converted to plain JSON: one invalid tool must not hide the others.
    serde_json::to_value(&result).map_err(|error| ListError::Answer(error.to_string()))
}

pub(super) fn read(
    server: &str,
    source: ServerSource,
    info: Option<&ServerPeerInfo>,
    tools: &[Value],
) -> Listing {
    let own = info.and_then(|info| info.server_info.as_ref());
    let name = own.map(|own| own.name.chars().take(OWN_NAME_CHARS).collect()).unwrap_or_default();
    let version = own.map(|own| own.version.chars().take(OWN_NAME_CHARS).collect()).unwrap_or_default();
    let mut listing = Listing {
        pin: ServerPin { server: server.to_owned(), source, name, version, tools: Vec::new() },
        rejected: Vec::new(),
        suspicions: BTreeMap::new(),
    };
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for name in tools.iter().filter_map(|tool| tool.get("name")?.as_str()) {
        *times.entry(name).or_default() += 1;
    }
    for (place, tool) in tools.iter().enumerate().take(TOOLS_MAX + REJECTED_MAX) {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let read = match times.get(name) {
            _ if place >= TOOLS_MAX => Err(format!("the server has more than {TOOLS_MAX} tools")),
            Some(2..) => Err("the server lists two tools of this name".to_owned()),
            _ => read_tool(server, name, tool, &mut listing.suspicions),
        };
        match read {
            Ok(pin) => listing.pin.tools.push(pin),
            Err(reason) => listing.reject(name, place, reason),
        }
    }
    listing.pin.tools.sort_by(|one, other| one.name.cmp(&other.name));
    listing
}

impl Listing {
    fn reject(&mut self, name: &str, place: usize, reason: String) {
        let visible: String = name.chars().take(2 * NAME_MAX).flat_map(char::escape_debug).collect();
        let tool = if visible.is_empty() { format!("#{}", place + 1) } else { visible };
        self.rejected.push(Rejected { tool, reason });
    }

    pub(super) fn rejection(&self, tool: &str) -> Option<&str> {
        self.rejected.iter().find(|rejected| rejected.tool == tool).map(|rejected| rejected.reason.as_str())
    }
}

fn read_tool(
    server: &str,
    name: &str,
    tool: &Value,
    suspicions: &mut BTreeMap<String, Vec<Suspicion>>,
) -> Result<ToolPin, String> {
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    if !is_name(name) {
        return Err(format!(
            "its name has other characters than letters, digits, `_` and `-`, or more than {NAME_MAX}"
        ));
    }
    if offered_name(server, name).is_none() {
        return Err(format!("its name is longer than {NAME_MAX} characters with the server's id before it"));
    }
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    let hints = tool.get("annotations");
    let hint = |key: &str| hints.and_then(|hints| hints.get(key)).and_then(Value::as_bool);
    let hinted_title = hints.and_then(|hints| hints.get("title")).and_then(Value::as_str);
    let pin = ToolPin {
        name: name.to_owned(),
        title: text("title").or_else(|| hinted_title.map(ToOwned::to_owned)),
        description: text("description").unwrap_or_default(),
        schema: schema_of_arguments(tool.get("inputSchema"))?,
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    let title_bytes = pin.title.as_ref().map_or(0, String::len);
    let bytes = pin.description.len() + title_bytes + pin.schema.to_string().len();
    if bytes > TOOL_BYTES_MAX {
        return Err(format!("its description and schema have {bytes} bytes, more than {TOOL_BYTES_MAX}"));
    }
    let found = scan(&pin);
    let hidden = found.iter().find(|suspicion| matches!(suspicion, Suspicion::Hidden { .. })).cloned();
    if !found.is_empty() {
        suspicions.insert(name.to_owned(), found);
    }
    match hidden {
        Some(hidden) => Err(format!("its description has {hidden}: people do not see what models read")),
        None => Ok(pin),
    }
}

/// The arguments' schema as offered: an object schema, with its `type` set.
///
/// # Errors
/// Why the schema is not accepted.
fn schema_of_arguments(schema: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = schema else { return Err("it has no schema of its arguments".to_owned()) };
    let Value::Object(fields) = schema else { return Err("its schema is no object".to_owned()) };
    let mut fields = fields.clone();
    let kind = fields.entry("type").or_insert_with(|| Value::from("object"));
    if kind != "object" {
        return Err("its schema is not of an object".to_owned());
    }
    let schema = Value::Object(fields);
    // A tool whose calls cannot be checked is not offered.
    crate::schema::sound(&schema).map_err(|error| format!("its schema is unsound: {error}"))?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn source() -> ServerSource {
        ServerSource::Http { url: "http://127.0.0.1/mcp".to_owned(), headers: BTreeSet::new() }
    }

    fn tool(name: &str) -> Value {
        json!({ "name": name, "description": "Does it.", "inputSchema": { "type": "object" } })
    }

    fn read_tools(tools: &[Value]) -> Listing {
        read("files", source(), None, tools)
    }

    #[test]
    fn tools_are_sorted_and_their_hints_are_read() {
        let mut read = tool("read");
        read["annotations"] = json!({ "readOnlyHint": true, "title": "Reads" });
        let listing = read_tools(&[tool("write"), read]);
        let names: Vec<&str> = listing.pin.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["read", "write"]);
        let read = &listing.pin.tools[0];
        assert_eq!(
            (read.read_only, read.destructive, read.title.as_deref()),
            (Some(true), None, Some("Reads"))
        );
        assert!(listing.rejected.is_empty());
    }

    #[test]
    fn a_tool_that_is_none_does_not_hide_the_others() {
        let mut hidden = tool("hidden");
        hidden["description"] = json!("Reads\u{200b} it.");
        let mut large = tool("large");
        large["description"] = json!("x".repeat(TOOL_BYTES_MAX));
        let tools = [
            tool("fine"),
            tool("twice"),
            tool("twice"),
            tool("white space"),
            tool(&"x".repeat(60)),
            json!({ "name": "bare" }),
            json!({ "name": "schemaless", "inputSchema": "object" }),
            json!(7),
            hidden,
            large,
        ];
        let listing = read_tools(&tools);
        let names: Vec<&str> = listing.pin.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["fine"]);
        let reasons: Vec<String> = listing
            .rejected
            .iter()
            .map(|rejected| format!("{}: {}", rejected.tool, rejected.reason))
            .collect();
        let expected = [
            "twice: the server lists two",
            "twice: the server lists two",
            "white space: its name has other characters",
            "with the server's id before it",
            "bare: it has no schema",
            "schemaless: its schema is no object",
            "#8: it has no name",
            "hidden: its description has 1 hidden characters",
            "large: its description and schema have",
        ];
        for (reason, expected) in reasons.iter().zip(expected) {
            assert!(reason.contains(expected), "{reason} / {expected}");
        }
        assert_eq!(reasons.len(), expected.len());
        assert!(listing.suspicions.contains_key("hidden"), "rejected, and shown why");
    }

    #[test]
    fn more_tools_than_are_allowed_are_rejected_by_name() {
        let tools: Vec<Value> = (0..TOOLS_MAX + 3).map(|n| tool(&format!("t{n}"))).collect();
        let listing = read_tools(&tools);
        assert_eq!((listing.pin.tools.len(), listing.rejected.len()), (TOOLS_MAX, 3));
        assert!(listing.rejection(&format!("t{TOOLS_MAX}")).unwrap().contains("tools"));
    }

    #[rstest]
    #[case(Some(json!({})), "")]
    #[case(Some(json!({ "type": "object", "properties": { "type": { "type": "string" } } })), "")]
    #[case(Some(json!({ "type": "string" })), "its schema is not of an object")]
    #[case(Some(json!([])), "its schema is no object")]
    #[case(Some(json!({ "properties": ["a"] })), "its schema is unsound")]
    #[case(None, "it has no schema")]
    fn a_schema_is_one_of_an_object(#[case] schema: Option<Value>, #[case] error: &str) {
        match schema_of_arguments(schema.as_ref()) {
            Ok(schema) => assert!(error.is_empty() && schema["type"] == "object", "{schema}"),
            Err(words) => assert!(!error.is_empty() && words.contains(error), "{words}"),
        }
    }
}
