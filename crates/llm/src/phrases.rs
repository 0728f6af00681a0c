//! Words of our own in a request: calls and results where a format or a model takes them in no other way, and what keeps
//! people and the model taking turns.

use cairn_core::answer_text::TOLD_CALL;
use cairn_types::message::ToolCall;

/// Stands where a server would refuse a message or a block without words.
pub(crate) const NO_WORDS: &str = "(no text)";

/// Stands first where the conversation in sight begins with the model's words: a person must speak first.
pub(crate) const GOES_ON: &str = "(the conversation goes on)";

/// Stands for the model's words where a person speaks after the results of tools: the turn was stopped, or failed.
pub(crate) const NO_ANSWER: &str = "(no answer was given)";

pub(crate) fn call(call: &ToolCall) -> String {
    format!("{TOLD_CALL}{} {}]", call.name, call.arguments)
}

/// The result of a call; `name` is the tool's.
pub(crate) fn result(name: Option<&str>, text: &str) -> String {
    format!("[result of {}]\n{text}", name.unwrap_or("the call"))
}

/// What stands before the pictures of a call's result where they cannot be in the result itself; `name` is the tool's.
pub(crate) fn pictures(name: Option<&str>, call_id: &str) -> String {
    format!("[pictures of the result of {}, call {call_id}]", name.unwrap_or("a tool"))
}
