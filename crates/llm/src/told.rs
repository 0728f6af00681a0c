//! Calls and results in words, where a format or a model takes them in no other way.

use cairn_core::message::ToolCall;

/// A call.
pub(crate) fn call(call: &ToolCall) -> String {
    format!("[called {} {}]", call.name, call.arguments)
}

/// The result of a call; `name` is the tool's.
pub(crate) fn result(name: Option<&str>, text: &str) -> String {
    format!("[result of {}]\n{text}", name.unwrap_or("the call"))
}

/// What stands before the pictures of a call's result where they cannot be in the result itself; `name` is the tool's.
pub(crate) fn pictures(name: Option<&str>, call_id: &str) -> String {
    format!("[pictures of the result of {}, call {call_id}]", name.unwrap_or("a tool"))
}
