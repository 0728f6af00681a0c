//! Memories of a run: the tool by which it saves them, and the list behind the summary of a model without tools.

use serde_json::{Value, json};

use cairn_types::ids::MemoryId;
use cairn_types::memory::{DraftMemory, MemoryKind, Replaces};
use cairn_types::tool::defs::ToolDef;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// What a model without tools is told: it stands behind the prompt.
pub(super) const LIST_PROMPT: &str = "You have no tools here. Save the memories as a list behind the summary: after its \
    last line write a fenced block, opened by ```json and closed by ```, that holds a JSON list of objects with `kind`, \
    `text`, `subject` and `importance`, as described above, and `replaces`, a list of ids, for one that takes the place \
    of known memories; [] if there is nothing to save. Write nothing after it.";

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
                "importance": { "type": "number", "minimum": 0, "maximum": 1 },
                "replaces": {
                    "type": "array", "items": { "type": "string" },
                    "description": "ids of memories that hold no longer because of this one"
                },
                "from": { "type": "string", "description": "day since when it holds" }
            },
            "required": ["kind", "text"]
        }),
    }
}

/// Longest text of a memory, in characters.
const MEMORY_MAX_CHARS: usize = 2_000;

/// Most memories whose place one takes.
const REPLACES_MAX: usize = 8;

/// Reads the arguments of a `memory_save` call.
///
/// # Errors
/// What is wrong with them, for the model to correct.
pub fn parse_memory(arguments: &Value) -> Result<DraftMemory, String> {
    let field = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::trim);
    let text = field("text").filter(|text| !text.is_empty()).ok_or("`text` is missing or empty")?;
    if text.chars().count() > MEMORY_MAX_CHARS {
        return Err(format!("`text` is longer than {MEMORY_MAX_CHARS} characters; save one sentence"));
    }
    let kind = field("kind").ok_or("`kind` is missing")?.parse::<MemoryKind>()?;
    let importance = match arguments.get("importance") {
        None | Some(Value::Null) => 0.5,
        Some(value) => value.as_f64().ok_or("`importance` is not a number from 0 to 1")?.clamp(0.0, 1.0),
    };
    let subject = field("subject").filter(|subject| !subject.is_empty()).map(str::to_owned);
    let replaces = parse_replaces(arguments)?;
    Ok(DraftMemory {
        kind,
        text: text.to_owned(),
        subject,
        importance,
        by: None,
        told_by: None,
        said_at: None,
        replaces,
    })
}

fn parse_replaces(arguments: &Value) -> Result<Replaces, String> {
    let ids = match arguments.get("replaces") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(ids)) if ids.len() <= REPLACES_MAX => {
            let id = |id: &Value| id.as_str().map(|id| MemoryId::new(id.trim()));
            ids.iter().map(id).collect::<Option<Vec<_>>>().ok_or("`replaces` is a list of ids of memories")?
        }
        Some(_) => return Err(format!("`replaces` is a list of at most {REPLACES_MAX} ids of memories")),
    };
    let from = arguments.get("from").and_then(Value::as_str).map(str::trim).filter(|from| !from.is_empty());
    let from = from.map(|from| {
        let day = from.get(..10).unwrap_or(from).parse::<Date>();
        let at = day.and_then(|day| day.to_zoned_datetime(TimeZone::UTC)).map(|at| at.timestamp());
        at.map_err(|_| "`from` is a day, such as 2026-03-01")
    });
    Ok(Replaces { ids, from: from.transpose()? })
}

/// Takes the list of memories off the text of a model without tools. A list that cannot be read saves nothing, and is
/// no part of the summary either; a fence may be missing.
pub fn split_memories(text: &str) -> (String, Vec<DraftMemory>) {
    let Some((summary, list)) = list_behind(text) else { return (text.to_owned(), Vec::new()) };
    let items = serde_json::from_str::<Vec<Value>>(list).unwrap_or_default();
    let memories = items.iter().filter_map(|item| parse_memory(item).ok()).collect();
    (summary.trim_end().to_owned(), memories)
}

/// The summary, and the list behind it as it was written.
fn list_behind(text: &str) -> Option<(&str, &str)> {
    let fence = text.rfind("```json").or_else(|| {
        // Any fence that opens on a list.
        let opened = text.match_indices("```").filter(|(at, _)| text[at + 3..].trim_start().starts_with('['));
        opened.last().map(|(at, _)| at)
    });
    if let Some(at) = fence {
        let block = text[at..].trim_start_matches('`').trim_start_matches("json");
        let list = block.split("```").next().unwrap_or(block);
        return list.trim_start().starts_with(['[', '{']).then_some((&text[..at], list.trim()));
    }
    let begins = |line: &str| {
        let line = line.trim_start();
        line == "[]"
            || line
                .strip_prefix('[')
                .is_some_and(|rest| rest.trim_start().starts_with('{') || rest.is_empty())
    };
    let mut at = text.len();
    let mut found = None;
    for line in text.split_inclusive('\n').rev() {
        at -= line.len();
        if begins(line.trim_end()) {
            found = Some(at);
        }
    }
    let at = found?;
    let list = text[at..].trim().trim_end_matches('`').trim_end();
    let is_ours = list == "[]" || list.contains("\"kind\"") || list.contains("\"text\"");
    is_ours.then_some((&text[..at], list))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ONE: &str = r#"[{"kind":"fact","text":"Ann likes tea.","importance":0.5}]"#;

    #[rstest]
    #[case::fenced(&format!("## Goal\n- tea\n\n```json\n{ONE}\n```\n"), 1)]
    #[case::fence_without_name(&format!("## Goal\n- tea\n```\n{ONE}\n```"), 1)]
    #[case::no_closing_fence(&format!("## Goal\n- tea\n```json\n{ONE}"), 1)]
    #[case::no_fence(&format!("## Goal\n- tea\n\n{ONE}"), 1)]
    #[case::spread("## Goal\n- tea\n\n[\n  {\"kind\": \"fact\",\n   \"text\": \"Ann likes tea.\"}\n]", 1)]
    #[case::empty("## Goal\n- tea\n```json\n[]\n```", 0)]
    #[case::broken("## Goal\n- tea\n```json\n[{\"kind\": \"fact\", \"text\": \"Ann\n```", 0)]
    #[case::broken_without_fence("## Goal\n- tea\n[{\"kind\": \"fact\", \"text\": ", 0)]
    #[case::some_bad(
        "## Goal\n- tea\n```json\n[{\"kind\":\"fact\",\"text\":\"a\"},{\"kind\":\"nonsense\",\"text\":\"b\"},7]\n```",
        1
    )]
    #[case::none("## Goal\n- tea", 0)]
    fn the_list_is_no_part_of_the_summary(#[case] text: &str, #[case] n_memories: usize) {
        let (summary, memories) = split_memories(text);
        assert_eq!(summary, "## Goal\n- tea");
        assert_eq!(memories.len(), n_memories);
    }

    #[rstest]
    #[case::link("## Goal\n- see [the plan](https://example.com)")]
    #[case::code("## Goal\n```\nlet x = 1;\n```")]
    #[case::header("## Goal\n[Ann | 2026] said so")]
    fn other_brackets_stay(#[case] text: &str) {
        assert_eq!(split_memories(text), (text.to_owned(), Vec::new()));
    }
}
