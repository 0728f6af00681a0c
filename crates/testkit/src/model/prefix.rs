//! Whether a conversation's requests go on from each other, as prompt caches need it.
//!
//! A request without its volatile context (text from `<context>` on, in any user's message) is a list of messages. Two
//! requests with the same system message and the same first user's message are of one conversation. A request that
//! has words of the assistant must begin with all messages of some earlier request of its conversation; one without
//! begins a conversation anew. A new system message (a compaction) or a new first message (an emergency, `/new`)
//! makes another conversation, so nothing is compared across them. A request may also part from the others at a result of
//! a tool that has been pruned: that is a batch of pruning.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cairn_core::prune::{CLEARED_NOTICE, CUT_NOTICE, SHRUNK_NOTICE};
use serde_json::Value;

use super::wire::{lasting, messages, role, text_of};

/// Requests kept of each conversation: several may begin alike.
const MAX_BRANCHES: usize = 256;

#[derive(Default)]
pub(super) struct Conversations {
    /// By system message and first message: hashes of the messages of the newest requests.
    branches: HashMap<u64, Vec<Vec<u64>>>,
}

impl Conversations {
    /// Takes in a reply's request.
    pub(super) fn take(&mut self, request: &Value) -> Result<(), String> {
        let messages: Vec<&Value> =
            messages(request).iter().filter(|message| !is_volatile(message)).collect();
        let hashes: Vec<u64> = messages.iter().map(|message| hash(message)).collect();
        let n_lead = messages.iter().take_while(|message| role(message) != "user").count() + 1;
        let key = hash_of(&hashes[..n_lead.min(hashes.len())]);
        let branches = self.branches.entry(key).or_default();
        let goes_on = messages.iter().any(|message| role(message) == "assistant");
        let continued = (0..branches.len())
            .filter(|&idx| goes_on && hashes.starts_with(&branches[idx]))
            .max_by_key(|&idx| branches[idx].len());
        match continued {
            Some(idx) => {
                branches.remove(idx);
            }
            None if goes_on && !branches.is_empty() => {
                let shared =
                    |branch: &Vec<u64>| branch.iter().zip(&hashes).take_while(|(a, b)| a == b).count();
                let at = branches.iter().map(shared).max().unwrap_or(0);
                let text = messages.get(at).map(|message| text_of(message)).unwrap_or_default();
                if messages.get(at).is_some_and(|message| role(message) == "tool") && is_pruned(&text) {
                    branches.retain(|branch| shared(branch) < at);
                    branches.push(hashes);
                    return Ok(());
                }
                let head: String = text.chars().take(120).collect();
                return Err(format!(
                    "from message {at} on it does not go on from any earlier request: {head:?}"
                ));
            }
            None => {}
        }
        branches.push(hashes);
        if branches.len() > MAX_BRANCHES {
            branches.remove(0);
        }
        Ok(())
    }
}

/// A result that is sent shorter than before: pruning may change the prefix.
fn is_pruned(text: &str) -> bool {
    [SHRUNK_NOTICE, CLEARED_NOTICE, CUT_NOTICE].iter().any(|notice| text.contains(notice))
}

fn is_volatile(message: &Value) -> bool {
    role(message) == "user"
        && message.get("content").is_some_and(Value::is_string)
        && lasting(&text_of(message)).is_empty()
}

fn hash(message: &Value) -> u64 {
    let text = text_of(message);
    let text = if role(message) == "user" { lasting(&text) } else { &text };
    let rest = |key: &str| message.get(key).map(Value::to_string);
    hash_of(&(role(message), text, rest("tool_calls"), rest("tool_call_id")))
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
