//! Summaries by extraction, with the memories of their source.

use std::sync::Arc;

use serde_json::json;

use cairn_core::compaction::sections::digest_by_sections;
use cairn_core::compaction::verbatim_limit;
use cairn_core::digest::{digest, gist, read_tokens, render};
use cairn_types::memory::DraftMemory;
use cairn_types::message::{Entry, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest, Purpose};
use cairn_types::summary::Summary;

use super::{Answer, memories};

/// The tool by which memories are saved.
pub(super) const SAVE: &str = "memory_save";

/// Share of its source that a digest takes: where it was measured.
const DIGEST_SHARE: f64 = 0.2;

/// Share of its sources that a merge of digests takes: they are extracts already.
const MERGE_SHARE: f64 = 0.5;

/// Least room of a digest, in tokens: a line.
const FLOOR: u64 = 24;

/// The summary; before it, in a round of its own, the memories.
pub(super) fn summarise(request: &ChatRequest) -> Answer {
    match &request.purpose {
        Purpose::Summarise { entries, target_tokens } => {
            let saves = if saved_already(request) {
                Vec::new()
            } else {
                save_calls(request, memories::find(entries))
            };
            if saves.is_empty() {
                Answer {
                    text: of_entries(entries, request.max_output_tokens.min(verbatim_limit(*target_tokens))),
                    ..Answer::default()
                }
            } else {
                Answer { calls: saves, ..Answer::default() }
            }
        }
        Purpose::Merge { sources, target_tokens } => Answer {
            text: of_summaries(sources, request.max_output_tokens.min(verbatim_limit(*target_tokens))),
            ..Answer::default()
        },
        Purpose::Reply { .. } => Answer::default(),
    }
}

fn of_entries(entries: &[Arc<Entry>], limit: u64) -> String {
    let budget = budget(read_tokens(entries), DIGEST_SHARE, limit);
    let text = render(&digest(entries, budget));
    if text.trim().is_empty() {
        let nothing = || format!("{} messages without words worth keeping.", entries.len());
        gist(entries, budget).map_or_else(nothing, |line| line.text)
    } else {
        text
    }
}

fn of_summaries(sources: &[Summary], limit: u64) -> String {
    let source: u64 = sources.iter().map(|summary| u64::from(summary.tokens)).sum();
    let texts: Vec<&str> = sources.iter().map(|summary| summary.text.as_str()).collect();
    let text = digest_by_sections(&texts, budget(source, MERGE_SHARE, limit));
    if text.trim().is_empty() {
        format!("{} summaries without words worth keeping.", sources.len())
    } else {
        text
    }
}

fn budget(source: u64, share: f64, limit: u64) -> u32 {
    let tokens = ((source as f64 * share) as u64).max(FLOOR).min(limit);
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

/// The request's newest messages are the results of `memory_save` calls.
fn saved_already(request: &ChatRequest) -> bool {
    results_of_saves(&request.messages).is_some()
}

/// The newest messages, if they are results of tool calls with a `memory_save` among them: the calls, each with its
/// result.
pub(super) fn results_of_saves(messages: &[ChatMessage]) -> Option<Vec<(&ToolCall, &str)>> {
    let mut results: Vec<(&str, &str)> = Vec::new();
    for message in messages.iter().rev() {
        match message {
            ChatMessage::Context { .. } if results.is_empty() => {}
            ChatMessage::Tool { call_id, text, .. } => results.push((call_id, text)),
            ChatMessage::Assistant { tool_calls, .. } if !results.is_empty() => {
                let result =
                    |call: &ToolCall| results.iter().find(|(id, _)| *id == call.id).map(|(_, text)| *text);
                let saves = tool_calls.iter().filter(|call| call.name == SAVE);
                let pairs: Vec<_> = saves.filter_map(|call| Some((call, result(call)?))).collect();
                return (!pairs.is_empty()).then_some(pairs);
            }
            ChatMessage::Assistant { .. } | ChatMessage::User { .. } | ChatMessage::Context { .. } => {
                return None;
            }
        }
    }
    None
}

/// Whether memories can be saved at all.
pub(super) fn can_save(request: &ChatRequest) -> bool {
    request.tools.iter().any(|tool| tool.name == SAVE)
}

/// Calls that save memories; none when the tool is not offered.
pub(super) fn save_calls(request: &ChatRequest, memories: Vec<DraftMemory>) -> Vec<ToolCall> {
    if !can_save(request) {
        return Vec::new();
    }
    let n_messages = request.messages.len();
    let call = |(idx, memory): (usize, DraftMemory)| ToolCall {
        id: format!("call_{n_messages}_{idx}"),
        name: SAVE.to_owned(),
        arguments: arguments(&memory),
    };
    memories.into_iter().enumerate().map(call).collect()
}

fn arguments(memory: &DraftMemory) -> serde_json::Value {
    let mut arguments = json!({
        "kind": memory.kind.name(),
        "text": memory.text,
        "importance": memory.importance,
    });
    if let Some(subject) = &memory.subject {
        arguments["subject"] = subject.as_str().into();
    }
    arguments
}
