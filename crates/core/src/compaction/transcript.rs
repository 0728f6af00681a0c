//! The request of a run: its prompt, its transcript, its one tool.

use std::collections::BinaryHeap;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::json;

use super::Draft;
use crate::agent::AgentSettings;
use crate::digest::{digest, digest_summaries, render};
use crate::event::{Run, Work};
use crate::ids::ChannelId;
use crate::memory::{DraftMemory, MemoryKind, extract};
use crate::message::Part;
use crate::message::{Entry, Role, text_of};
use crate::model::{ChatMessage, ChatRequest, Purpose, ToolDef};
use crate::summary::{MADE_BY_DIGEST, Summary};
use crate::tokens::estimate;
use crate::window::{cut_middle, escape_name, escape_text, short_date, short_time};

/// A summary may take this share of its source, within the limits below.
const SUMMARY_SHARE: f64 = 0.35;

/// Share of its sources that a merge may take.
const MERGE_SHARE: f64 = 0.5;

/// Least room that a summary is given, in tokens.
const SUMMARY_FLOOR: u64 = 96;

/// Levels of full fan-out that the stack's share is to hold: a summary gets its part of that.
const LEVELS_IN_SIGHT: u32 = 3;

/// Longest tool result in a transcript, in characters: tool mechanics are not worth more.
const RESULT_MAX_CHARS: usize = 400;

/// Safety factor for estimates of a transcript.
const SAFETY: f64 = 1.2;

/// Longest instruction of a person that a run takes, in characters.
const INSTRUCTION_MAX_CHARS: usize = 2_000;

/// The request for a run's model: transcript as data, names escaped, tool mechanics left out. `entries` for runs
/// over entries, `sources` for a merge. A transcript that the model could not take is shortened message by message,
/// the longest first.
pub fn compaction_request(
    channel: &ChannelId,
    agent: &AgentSettings,
    run: &Run,
    entries: Arc<[Arc<Entry>]>,
    sources: Arc<[Summary]>,
) -> ChatRequest {
    let merge = matches!(run.work, Work::Merge { .. });
    let mut system = vec![agent.compactor_prompt.clone()];
    if let Some(instruction) = &run.instruction {
        let words: String = instruction.chars().take(INSTRUCTION_MAX_CHARS).collect();
        system.push(format!("The person who asked for this summary wants it to attend to this: {words}"));
    }
    let source_tokens: u64 = if merge {
        sources.iter().map(|summary| u64::from(summary.tokens)).sum()
    } else {
        entries.iter().map(|entry| u64::from(entry.tokens)).sum()
    };
    let target_tokens = summary_limit(agent, source_tokens, merge);
    // Calls of tools and reasoning take their part of the answer, too: the size of the summary is asked for in words.
    let max_output_tokens = agent.window.output_reserve_tokens;
    let text = if merge {
        merge_text(&sources, target_tokens)
    } else {
        let frame: u64 = system.iter().map(|block| u64::from(estimate(block))).sum::<u64>() + 300;
        let room = agent.window.window_tokens.saturating_sub(max_output_tokens + frame) as f64 / SAFETY;
        transcript_text(&entries, room as u64, target_tokens)
    };
    ChatRequest {
        channel: channel.clone(),
        purpose: if merge {
            Purpose::Merge { sources, target_tokens }
        } else {
            Purpose::Summarise { entries, target_tokens }
        },
        system,
        messages: vec![ChatMessage::User { parts: vec![Part::text(text)] }],
        tools: if merge { Vec::new() } else { vec![memory_save_tool()] },
        max_output_tokens,
    }
}

/// Most tokens of a summary: a share of its source, so that it never grows, within its part of the stack's share.
pub(crate) fn summary_limit(agent: &AgentSettings, source_tokens: u64, merge: bool) -> u64 {
    let share = if merge { MERGE_SHARE } else { SUMMARY_SHARE };
    let stack = agent.compaction.stack_share * agent.window.usable_tokens() as f64;
    let part = (stack / (f64::from(agent.compaction.fan_out) * f64::from(LEVELS_IN_SIGHT))) as u64;
    let wanted = (source_tokens as f64 * share) as u64;
    let most = agent.window.output_reserve_tokens.max(1);
    wanted.clamp(SUMMARY_FLOOR, part.max(SUMMARY_FLOOR)).min(most)
}

fn transcript_text(entries: &[Arc<Entry>], room: u64, limit: u64) -> String {
    let mut lines: Vec<String> = entries.iter().filter_map(|entry| line(entry)).collect();
    let size = |(idx, line): (usize, &String)| (u64::from(estimate(line)) + 1, idx);
    let mut sizes: BinaryHeap<(u64, usize)> = lines.iter().enumerate().map(size).collect();
    let mut total: u64 = sizes.iter().map(|(size, _)| size).sum();
    while total > room {
        let Some((size, idx)) = sizes.pop().filter(|(size, _)| *size > 16) else { break };
        lines[idx] = cut_middle(&lines[idx], 0.5);
        let shorter = (u64::from(estimate(&lines[idx])) + 1).min(size - 1);
        total -= size - shorter;
        sizes.push((shorter, idx));
    }
    let (from, to) = match (entries.first(), entries.last()) {
        (Some(first), Some(last)) => (first.at, last.at),
        _ => return String::new(),
    };
    format!(
        "<transcript from=\"{}\" to=\"{}\">\n{}\n</transcript>\n\nSave what should outlive this conversation with \
         memory_save, then answer with the summary alone, in at most {} words.",
        short_date(from),
        short_date(to),
        lines.join("\n"),
        limit * 6 / 10
    )
}

fn line(entry: &Entry) -> Option<String> {
    if entry.is_deleted() {
        return None;
    }
    let text = text_of(&entry.parts);
    let time = short_time(entry.at);
    match entry.role {
        Role::User => {
            let name = entry.author.as_ref().map_or_else(|| "somebody".to_owned(), |a| escape_name(&a.name));
            Some(format!("[{name} | {time}] {}", escape_text(&text)))
        }
        Role::Assistant => {
            let mut line = format!("[assistant | {time}] {}", escape_text(&text));
            for call in &entry.tool_calls {
                let _ = write!(line, " (called {})", escape_name(&call.name));
            }
            (!text.is_empty() || !entry.tool_calls.is_empty()).then_some(line)
        }
        Role::Tool => {
            let mut short: String = text.chars().take(RESULT_MAX_CHARS).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            Some(format!("[tool | {time}] {}", escape_text(&short)))
        }
    }
}

fn merge_text(sources: &[Summary], limit: u64) -> String {
    let mut text = String::from("<summaries>\n");
    for summary in sources {
        let (from, to) = (short_date(summary.from_at), short_date(summary.to_at));
        let _ = write!(text, "[summary | {from} to {to}]\n{}\n\n", escape_text(&summary.text));
    }
    let _ = write!(
        text,
        "</summaries>\n\nThese summaries follow each other in time. Merge them into one, in the order of time: keep \
         every fact, name, number, date, identifier and open commitment that still matters, say once what they \
         repeat. Answer with the merged summary alone, in at most {} words.",
        limit * 6 / 10
    );
    text
}

/// The draft that needs no model: the digest of the run's source, and memories by rule.
pub fn digest_draft(agent: &AgentSettings, run: &Run, entries: &[Arc<Entry>], sources: &[Summary]) -> Draft {
    let made_by = MADE_BY_DIGEST.to_owned();
    if matches!(run.work, Work::Merge { .. }) {
        let tokens: u64 = sources.iter().map(|summary| u64::from(summary.tokens)).sum();
        let mut text = digest_summaries(sources, summary_limit(agent, tokens, true).min(tokens / 2) as u32);
        if text.trim().is_empty() {
            // Not one line of them is short enough to be taken whole.
            let texts: Vec<String> = sources.iter().map(|summary| cut_middle(&summary.text, 0.4)).collect();
            text = texts.join("\n");
        }
        return Draft { text, made_by, memories: Vec::new(), dates: None };
    }
    let tokens: u64 = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
    let lines = digest(entries, digest_budget(agent, tokens));
    let dates = entries.first().zip(entries.last()).map(|(first, last)| (first.at, last.at));
    let mut text = render(&lines);
    if text.is_empty() {
        text = format!("{} messages without words worth keeping.", entries.len());
    }
    Draft { text, made_by, memories: extract(entries), dates }
}

/// Share of its source that a digest takes: where evidence and answers were measured (FIELD.md).
const DIGEST_SHARE: f64 = 0.2;

fn digest_budget(agent: &AgentSettings, source_tokens: u64) -> u32 {
    let wanted = (source_tokens as f64 * DIGEST_SHARE) as u64;
    wanted.min(summary_limit(agent, source_tokens, false)).max(24) as u32
}

/// The tool by which a run, and a channel's model, saves memories.
pub fn memory_save_tool() -> ToolDef {
    let kinds: Vec<_> = MemoryKind::ALL.iter().map(|kind| kind.name()).collect();
    ToolDef {
        name: "memory_save".to_owned(),
        description:
            "Save one thing that should outlive this conversation: a fact, preference, decision, identity, \
                      event, goal or todo. One self-contained sentence, with names and absolute dates."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "kind": { "type": "string", "enum": kinds },
                "text": { "type": "string", "description": "one self-contained sentence" },
                "subject": { "type": "string", "description": "whom or what it is about" },
                "importance": { "type": "number", "minimum": 0, "maximum": 1 }
            },
            "required": ["kind", "text"]
        }),
    }
}

/// Longest text of a memory, in characters.
const MEMORY_MAX_CHARS: usize = 2_000;

/// Reads the arguments of a `memory_save` call.
///
/// # Errors
/// What is wrong with them, for the model to correct.
pub fn parse_memory(arguments: &serde_json::Value) -> Result<DraftMemory, String> {
    let field = |name: &str| arguments.get(name).and_then(serde_json::Value::as_str).map(str::trim);
    let text = field("text").filter(|text| !text.is_empty()).ok_or("`text` is missing or empty")?;
    if text.chars().count() > MEMORY_MAX_CHARS {
        return Err(format!("`text` is longer than {MEMORY_MAX_CHARS} characters; save one sentence"));
    }
    let kind = field("kind").ok_or("`kind` is missing")?.parse::<MemoryKind>()?;
    let importance = match arguments.get("importance") {
        None | Some(serde_json::Value::Null) => 0.5,
        Some(value) => value.as_f64().ok_or("`importance` is not a number from 0 to 1")?.clamp(0.0, 1.0),
    };
    let subject = field("subject").filter(|subject| !subject.is_empty()).map(str::to_owned);
    Ok(DraftMemory { kind, text: text.to_owned(), subject, importance })
}
