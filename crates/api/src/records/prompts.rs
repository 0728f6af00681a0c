//! Splits a request into parts, and compares two requests.

use cairn_types::message::{Part, text_of};
use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::summary::{Stack, StackItem};
use serde_json::Value;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices};

use crate::records::explain::{CallOf, Change, LineDiff, PromptDiff, PromptRecord, RegionDiff, RegionRecord};

/// Splits a request into parts, in the order in which servers read it. `stack`: the stack at that time; `None` for a run.
pub fn regions(request: &ChatRequest, body: &str, stack: Option<&Stack>) -> Vec<RegionRecord> {
    let mut regions = vec![region("parameters", None, parameters(body))];
    for tool in request.tools.iter() {
        let schema = serde_json::to_string_pretty(&tool.parameters).unwrap_or_default();
        regions.push(region("tools", Some(&tool.name), format!("{}\n{schema}", tool.description)));
    }
    // The oldest items were left out if not all fitted.
    let n_items = request.system.len().saturating_sub(2);
    let items = stack.map(Stack::items).unwrap_or_default();
    let items = &items[items.len().saturating_sub(n_items)..];
    for (idx, text) in request.system.iter().enumerate() {
        regions.push(match (idx, idx.checked_sub(2).and_then(|idx| items.get(idx))) {
            (0, _) => region("system", None, text.clone()),
            (_, None) if stack.is_none() => region("guide", None, text.clone()),
            (1, _) => region("guide", None, text.clone()),
            (_, Some(StackItem::Summary(summary))) => {
                region("summary", Some(summary.id.as_str()), text.clone())
            }
            (_, Some(StackItem::Marker(_)) | None) => region("marker", None, text.clone()),
        });
    }
    regions.extend(request.messages.iter().map(message));
    regions
}

fn region(kind: &str, id: Option<&str>, text: String) -> RegionRecord {
    RegionRecord { kind: kind.to_owned(), id: id.map(str::to_owned), text }
}

/// The fields of a body without its messages, system prompt and tools.
fn parameters(body: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(body) else { return String::new() };
    ["messages", "system", "tools"].iter().for_each(|key| drop(fields.remove(*key)));
    serde_json::to_string_pretty(&fields).unwrap_or_default()
}

fn message(message: &ChatMessage) -> RegionRecord {
    let pictures = |text: &str, images: &[Part]| match images.is_empty() {
        true => text.to_owned(),
        false => format!("{text}\n{}", text_of(images)),
    };
    match message {
        ChatMessage::User { parts } => region("user", None, text_of(parts)),
        ChatMessage::Assistant { text, tool_calls, provider_state } => {
            let calls = tool_calls.iter().map(|call| format!("calls {} {}", call.name, call.arguments));
            let text = Some(text.clone()).filter(|text| !text.is_empty());
            let state = provider_state.as_ref().map(|state| state.shown());
            let lines: Vec<String> = text.into_iter().chain(calls).chain(state).collect();
            region("assistant", None, lines.join("\n"))
        }
        ChatMessage::Tool { call_id, text, images } => region("tool", Some(call_id), pictures(text, images)),
        ChatMessage::Context { text } => region("context", None, text.clone()),
    }
}

/// Compares the last two of these requests. If there is only one, all of it is new.
pub fn prompt_diff(mut made: Vec<PromptRecord>) -> Option<PromptDiff> {
    let now = made.pop()?;
    let before = made.pop();
    let old = before.as_ref().map(|before| before.regions.as_slice()).unwrap_or_default();
    let regions = region_diff(old, &now.regions);
    let both = || before.iter().chain([&now]);
    let why = |made: &PromptRecord| {
        let (of, call) = (made.of.clone(), made.call);
        made.why_not.iter().map(move |why| format!("{of}, call {call}: {why}")).collect::<Vec<_>>()
    };
    let (exact, why_not) = (both().all(|made| made.exact), both().flat_map(why).collect());
    let turn_of = |made: &PromptRecord| match &made.of {
        CallOf::Turn(turn) => Some(turn.clone()),
        CallOf::Run(_) => None,
    };
    let against = before.as_ref().and_then(|before| Some((turn_of(before)?, before.call)));
    let turn = turn_of(&now)?;
    let PromptRecord { channel, call, .. } = now;
    Some(PromptDiff { channel, turn, call, against, exact, why_not, regions })
}

fn region_diff(before: &[RegionRecord], now: &[RegionRecord]) -> Vec<RegionDiff> {
    let mut out = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, before, now) {
        match op {
            DiffOp::Equal { new_index, len, .. } => {
                let same = now[new_index..new_index + len].iter();
                out.extend(same.map(|region| whole(region, Change::Same)));
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                let gone = before[old_index..old_index + old_len].iter();
                out.extend(gone.map(|region| whole(region, Change::Removed)));
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                let new = now[new_index..new_index + new_len].iter();
                out.extend(new.map(|region| whole(region, Change::Added)));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                out.extend(replaced(
                    &before[old_index..old_index + old_len],
                    &now[new_index..new_index + new_len],
                ));
            }
        }
    }
    out
}

/// Pairs regions of the same kind and id, and compares their lines. The others are removed or added.
fn replaced(before: &[RegionRecord], now: &[RegionRecord]) -> Vec<RegionDiff> {
    let mut left: Vec<&RegionRecord> = before.iter().collect();
    let mut out = Vec::new();
    for region in now {
        let is_pair = |other: &&RegionRecord| {
            other.kind == region.kind && (other.id == region.id) && is_single(&region.kind)
        };
        match left.iter().position(is_pair) {
            Some(at) => {
                let other = left.remove(at);
                let (kind, id) = (region.kind.clone(), region.id.clone());
                let lines = line_diff(&other.text, &region.text);
                out.push(RegionDiff { kind, id, change: Change::Changed, lines });
            }
            None => out.push(whole(region, Change::Added)),
        }
    }
    let gone: Vec<RegionDiff> = left.into_iter().map(|region| whole(region, Change::Removed)).collect();
    gone.into_iter().chain(out).collect()
}

/// Whether a request has only one region of that kind and id. Messages are not: two of one role need not correspond.
fn is_single(kind: &str) -> bool {
    !matches!(kind, "user" | "assistant" | "tool" | "marker")
}

fn whole(region: &RegionRecord, change: Change) -> RegionDiff {
    let shown = region.text.lines().filter(|_| change != Change::Same);
    let lines = shown.map(|line| LineDiff { change, text: line.to_owned() }).collect();
    RegionDiff { kind: region.kind.clone(), id: region.id.clone(), change, lines }
}

/// Compares two texts line by line.
pub fn line_diff(before: &str, now: &str) -> Vec<LineDiff> {
    // A last line without a line break equals one with it, unless that is all that differs.
    let ended = |text: &str| {
        if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
    };
    let (whole_before, whole_now) = (ended(before), ended(now));
    let is_end_alone = whole_before == whole_now;
    let diff = match is_end_alone {
        true => TextDiff::from_lines(before, now),
        false => TextDiff::from_lines(whole_before.as_str(), whole_now.as_str()),
    };
    let line = |change: similar::Change<&str>| LineDiff {
        change: match change.tag() {
            ChangeTag::Equal => Change::Same,
            ChangeTag::Delete => Change::Removed,
            ChangeTag::Insert => Change::Added,
        },
        text: change.value().trim_end_matches('\n').to_owned(),
    };
    diff.iter_all_changes().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_longer_the_last_is_the_same() {
        let told = |before: &str, now: &str| -> Vec<String> {
            line_diff(before, now).iter().map(|line| format!("{}{}", line.mark(), line.text)).collect()
        };
        assert_eq!(told("a", "a\nb"), ["  a", "+ b"]);
        assert_eq!(told("a\nb", "a"), ["  a", "- b"]);
        assert_eq!(told("", "a"), ["+ a"]);
        assert_eq!(told("a", "a\n"), ["- a", "+ a"]);
    }
}
