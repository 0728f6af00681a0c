//! Whether a conversation's requests go on from each other, as prompt caches need it.
//!
//! A request without its volatile context (text from `<context>` on, at the end of a person's message or of a result) is a
//! list of pieces: a line of people or of the model, the calls of a message, a result. Neighbours of one role are one message,
//! which grows when another comes, so that messages are not compared as such. Two requests with the same system message and
//! the same first line of people are of one conversation. A request that has words of the assistant must begin with all
//! pieces of some earlier request of its conversation; one without begins a conversation again. A new system message (a
//! compaction) or a new first line (an emergency, `/new`) makes another conversation, so nothing is compared across them. A
//! request may also part from the others at a result of a tool that has been pruned: that is a batch of pruning.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cairn_core::prune::{CLEARED_NOTICE, CUT_NOTICE};
use cairn_types::text::edges::SHRUNK_NOTICE;
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
    pub(super) fn take(&mut self, request: &Value) -> Result<(), String> {
        let messages = messages(request);
        let pieces: Vec<(usize, u64)> = messages
            .iter()
            .enumerate()
            .flat_map(|(idx, message)| pieces(message).into_iter().map(move |piece| (idx, piece)))
            .collect();
        let hashes: Vec<u64> = pieces.iter().map(|(_, hash)| *hash).collect();
        let is_persons = |idx: usize| role(&messages[idx]) == "user";
        let n_lead = pieces.iter().take_while(|(idx, _)| !is_persons(*idx)).count() + 1;
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
                let message = pieces.get(at).map(|(idx, _)| &messages[*idx]);
                let text = message.map(text_of).unwrap_or_default();
                if message.is_some_and(|message| role(message) == "tool") && is_pruned(&text) {
                    branches.retain(|branch| shared(branch) < at);
                    branches.push(hashes);
                    return Ok(());
                }
                let head: String = text.chars().take(120).collect();
                return Err(format!(
                    "from piece {at} on it does not go on from any earlier request: {head:?}"
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

/// What a message is made of, as hashes.
fn pieces(message: &Value) -> Vec<u64> {
    let (role, text) = (role(message), text_of(message));
    if role == "tool" {
        return vec![hash_of(&(role, lasting(&text), message["tool_call_id"].to_string()))];
    }
    let text = if role == "user" { lasting(&text) } else { &text };
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let calls = message.get("tool_calls").map(Value::to_string);
    lines.map(|line| hash_of(&(role, line))).chain(calls.map(|calls| hash_of(&calls))).collect()
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
