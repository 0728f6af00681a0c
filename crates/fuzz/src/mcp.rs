//! What tool servers send, and what models send to them.

use std::collections::BTreeSet;

use cairn_tools::mcp::fuzzing::{lines, output, tools};
use cairn_tools::schema::{Schemas, sound};
use cairn_types::message::text_of;
use cairn_types::ports::ArgumentCheck as _;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::mcp::{TOOL_BYTES_MAX, TOOLS_MAX};
use cairn_types::tool::{is_name, offered_name};
use serde_json::Value;

use crate::in_pieces;

/// However lines are cut, the messages are the same; tools that are offered have names, bounds and sound schemas.
pub fn mcp_message(data: &[u8]) {
    let (whole, pieces) = in_pieces(data);
    for most in [200, 1 << 20] {
        let at_once = lines(&[whole], most);
        // A line over the bound is noticed as soon as so much of it is there.
        assert_eq!(at_once, lines(&pieces, most), "in pieces");
    }
    let Ok(value) = serde_json::from_slice::<Value>(whole) else { return };
    let result = value.get("result").unwrap_or(&value);
    if let Some(listed) = result.get("tools").and_then(Value::as_array) {
        offered(listed);
    }
    match output(result.clone()) {
        Some(Ok(output)) => {
            let bytes = text_of(&output.parts).len();
            assert!(bytes <= 4 * whole.len() + 1_000, "{bytes} bytes of {}", whole.len());
        }
        Some(Err(words)) => assert!(!words.is_empty() && words.len() < 20_000),
        None => {}
    }
}

fn offered(listed: &[Value]) {
    let (pins, n_rejected) = tools(listed);
    assert!(pins.len() <= TOOLS_MAX && pins.len() + n_rejected <= listed.len());
    let names: BTreeSet<&str> = pins.iter().map(|pin| pin.name.as_str()).collect();
    assert_eq!(names.len(), pins.len(), "two tools of one name");
    for pin in &pins {
        assert!(is_name(&pin.name) && offered_name("fuzz", &pin.name).is_some());
        assert!(pin.description.len() + pin.schema.to_string().len() <= TOOL_BYTES_MAX);
        sound(&pin.schema).expect("an offered tool has a sound schema");
        assert!(pin.def("fuzz").is_some(), "an offered tool has a definition");
    }
}

/// A schema and the arguments of a call, parted by a line feed: it is sound and they are judged, or it is refused.
pub fn tool_schema(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let mut part = || serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let (Ok(schema), Ok(arguments)) = (part(), part()) else { return };
    if let Err(why) = sound(&schema) {
        return assert!(!why.is_empty());
    }
    let tool = ToolDef { name: "fuzz".to_owned(), description: String::new(), parameters: schema };
    if let Err(why) = Schemas::default().check(&tool, &arguments) {
        assert!(!why.is_empty() && why.len() < 100_000, "{} bytes of reasons", why.len());
    }
}
