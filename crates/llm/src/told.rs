//! Calls of the past in words, for models that take no tools.

use cairn_core::message::ToolCall;

/// A call.
pub(crate) fn call(call: &ToolCall) -> String {
    format!("[called {} {}]", call.name, call.arguments)
}

/// The result of a call; `name` is the tool's.
pub(crate) fn result(name: Option<&str>, text: &str) -> String {
    format!("[result of {}]\n{text}", name.unwrap_or("the call"))
}
