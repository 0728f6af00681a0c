//! Ids of calls, as formats take them that are strict about their characters: the answers of a chain's other models, and
//! of servers that mint odd ones, stand in the same conversation.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use cairn_types::message::ToolCall;

/// The calls of a request so far.
#[derive(Default)]
pub(crate) struct CallIds {
    /// By their own ids: how they are sent, and the tool's name.
    calls: HashMap<String, (String, String)>,
    sent: HashSet<String>,
}

impl CallIds {
    /// The id by which a call is sent: once in a request.
    pub(crate) fn of_call(&mut self, call: &ToolCall) -> String {
        let allowed = allowed(&call.id);
        let mut unused = allowed.clone();
        let mut n = 1;
        while !self.sent.insert(unused.clone()) {
            n += 1;
            unused = format!("{allowed}_{n}");
        }
        self.calls.insert(call.id.clone(), (unused.clone(), call.name.clone()));
        unused
    }

    /// The id by which a call's result is sent, and the tool's name where the call stands before it.
    pub(crate) fn of_result(&self, call_id: &str) -> (String, Option<&str>) {
        match self.calls.get(call_id) {
            Some((id, name)) => (id.clone(), Some(name)),
            None => (allowed(call_id), None),
        }
    }
}

/// An id or name of at most 64 letters, digits, `_` and `-`; what had others gets a mark, so that two stay two.
pub(crate) fn allowed(text: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fine) {
        return text.to_owned();
    }
    let clean: String = text.chars().take(40).map(|c| if fine(c) { c } else { '_' }).collect();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{clean}_{:08x}", hasher.finish() & 0xffff_ffff)
}
