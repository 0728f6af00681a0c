//! What is sent to a model's server: the fields of a request, and behind them its tools, whose schemas are not written again
//! for each. What was sent once is made again by the same functions.

use cairn_types::tool::defs::{ToolDef, ToolDefs};
use serde_json::{Map, Value};

pub(crate) struct Body {
    /// All but the tools; an object.
    pub(crate) fields: Value,
    /// The list of the tools as JSON; none: it has none.
    tools: Option<String>,
}

impl Body {
    /// `extra`: further fields. `write`: a tool as the format has it, given its parameters as JSON; none: the request is without tools.
    pub(crate) fn new(
        mut fields: Value,
        extra: &Map<String, Value>,
        tools: Option<(&ToolDefs, WriteTool)>,
    ) -> Self {
        for (key, value) in extra {
            if fields.get(key).is_none() {
                fields[key.as_str()] = value.clone();
            }
        }
        let list = |(tools, write): (&ToolDefs, WriteTool)| {
            let written: Vec<String> =
                tools.written().map(|(tool, parameters)| write(tool, parameters)).collect();
            format!("[{}]", written.join(","))
        };
        Self { fields, tools: tools.map(list) }
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    /// All of it as JSON.
    pub(crate) fn text(&self) -> String {
        let mut text = self.fields.to_string();
        if let Some(tools) = &self.tools {
            text.pop();
            text.push_str(",\"tools\":");
            text.push_str(tools);
            text.push('}');
        }
        text
    }
}

/// Writes a tool, given its parameters as JSON.
pub(crate) type WriteTool = fn(&ToolDef, &str) -> String;

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
