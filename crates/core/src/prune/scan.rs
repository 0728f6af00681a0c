//! The results in the live history, and what speaks for leaving each of them alone.

use std::sync::Arc;

use super::form::has_pictures;
use super::{PruneForm, PrunedResult, as_sent};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::ids::TurnId;
use crate::message::{Entry, Role, ToolCall, text_of};
use crate::settings::ResultClass;
use crate::window::entry_tokens;

/// A result of a tool in the live history.
pub(super) struct Found<'a> {
    pub(super) entry: &'a Arc<Entry>,
    /// The tool, by the call that it answers.
    tool: &'a str,
    /// How it is sent so far, when it is pruned.
    pruned: Option<&'a PrunedResult>,
    /// Bytes of the whole of it.
    bytes: u64,
    /// Estimated tokens as it is sent so far, before correction.
    pub(super) weight: u64,
    /// A model call has seen it: the model has spoken since.
    pub(super) seen: bool,
    /// Assistant messages with results that are newer than its own.
    pub(super) newer_messages: usize,
    /// Turns that are newer than its own.
    pub(super) newer_turns: usize,
    /// Replies of turns that are newer than its own.
    pub(super) newer_replies: usize,
    /// Tokens of newer results as they are sent so far, after correction.
    pub(super) newer_tokens: u64,
    /// The newest result of a tool whose newest result stays whole.
    pub(super) kept_recent: bool,
}

/// The results of the live history, oldest first.
pub(super) fn scan<'a>(conversation: &'a Conversation, agent: &AgentSettings) -> Vec<Found<'a>> {
    let mut results = named(conversation);
    let correction = conversation.correction(&agent.model);
    let mut idx = results.len();
    let (mut seen, mut newer_messages, mut newer_turns, mut newer_replies) = (false, 0, 0, 0);
    let (mut newer_tokens, mut has_results, mut has_reply) = (0, false, false);
    let mut turn: Option<&TurnId> = None;
    let mut kept: Vec<&str> = Vec::new();
    for entry in conversation.live.iter().rev() {
        if turn.is_some_and(|turn| *turn != entry.turn) {
            newer_turns += 1;
            newer_replies += usize::from(std::mem::take(&mut has_reply));
        }
        turn = Some(&entry.turn);
        match entry.role {
            Role::User => {}
            Role::Assistant => {
                seen = true;
                newer_messages += usize::from(std::mem::take(&mut has_results));
                has_reply |= entry.tool_calls.is_empty();
            }
            Role::Tool => {
                has_results = true;
                idx -= 1;
                let found = &mut results[idx];
                let recent = class(agent, found.tool) == ResultClass::KeepRecent;
                found.kept_recent = recent && !kept.contains(&found.tool);
                if found.kept_recent {
                    kept.push(found.tool);
                }
                (found.seen, found.newer_messages) = (seen, newer_messages);
                (found.newer_turns, found.newer_replies) = (newer_turns, newer_replies);
                found.newer_tokens = newer_tokens;
                newer_tokens += correction.apply(found.weight);
            }
        }
    }
    results
}

/// The results with the names of their tools, oldest first; the rest is to be filled in.
fn named(conversation: &Conversation) -> Vec<Found<'_>> {
    let mut calls: &[ToolCall] = &[];
    let mut results = Vec::new();
    for entry in &conversation.live {
        match entry.role {
            Role::User => {}
            Role::Assistant => calls = &entry.tool_calls,
            Role::Tool => {
                let call = calls.iter().find(|call| entry.tool_call_id.as_ref() == Some(&call.id));
                let artifact = entry.artifact.as_ref().and_then(|id| conversation.artifacts.get(id));
                results.push(Found {
                    entry,
                    tool: call.map_or("tool", |call| call.name.as_str()),
                    pruned: conversation.pruned.get(&entry.seq),
                    bytes: artifact
                        .map_or_else(|| text_of(&entry.parts).len() as u64, |artifact| artifact.bytes),
                    weight: conversation.weight(entry),
                    seen: false,
                    newer_messages: 0,
                    newer_turns: 0,
                    newer_replies: 0,
                    newer_tokens: 0,
                    kept_recent: false,
                });
            }
        }
    }
    results
}

fn class(agent: &AgentSettings, tool: &str) -> ResultClass {
    agent.result_guard.class(tool).unwrap_or_default()
}

impl Found<'_> {
    /// The result in that form; `None` when that would win nothing, or when it is sent in that form or a shorter one.
    pub(super) fn pruned_to(&self, form: PruneForm) -> Option<PrunedResult> {
        match self.pruned.map(|pruned| pruned.form) {
            Some(PruneForm::Cleared) => return None,
            Some(now) if now == form => return None,
            Some(_) | None => {}
        }
        let fits = match form {
            PruneForm::Shrunk { bytes } => text_of(&self.entry.parts).len() <= bytes,
            PruneForm::Edges { chars } => self.chars() <= chars * 2,
            PruneForm::Cleared => false,
        };
        if fits && !has_pictures(self.entry) {
            return None;
        }
        let (seq, tool) = (self.entry.seq, self.tool.to_owned());
        let mut pruned = PrunedResult { seq, form, tokens: 0, tool, whole_bytes: self.bytes, artifact: None };
        pruned.tokens = entry_tokens(&as_sent(self.entry, &pruned));
        (u64::from(pruned.tokens) < self.weight).then_some(pruned)
    }

    /// Characters of it as it is kept.
    pub(super) fn chars(&self) -> usize {
        text_of(&self.entry.parts).chars().count()
    }
}
