//! Records for the tests of painters, and any record with hostile text in it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::records::MemoryView;
use crate::show::{Block, Show};

/// Text that moves a cursor, is markup, mentions everybody and ends lines.
pub const HOSTILE: &str =
    "a\u{1b}[2J\u{202e}<b class=x>&\"' **b** [x](https://x.example) @everyone <@5> `c`\n# ||d||\n";

/// A record as it shows itself.
pub struct Sample {
    pub name: &'static str,
    pub blocks: Vec<Block>,
    /// The same with [`HOSTILE`] in each string that may be any text.
    pub hostile: Vec<Block>,
}

/// Every kind of record that shows itself.
pub fn samples() -> Vec<Sample> {
    vec![list("memories", &[memory().memory]), one("memory", &memory())]
}

fn one<T: Serialize + DeserializeOwned + Show>(name: &'static str, record: &T) -> Sample {
    Sample { name, blocks: record.show(), hostile: hostile(record).show() }
}

fn list<T: Serialize + DeserializeOwned + Clone>(name: &'static str, records: &[T]) -> Sample
where
    [T]: Show,
{
    Sample { name, blocks: records.show(), hostile: hostile(&records.to_vec()).show() }
}

/// A record with [`HOSTILE`] in each string that may be any text.
fn hostile<T: Serialize + DeserializeOwned>(record: &T) -> T {
    let mut whole = serde_json::to_value(record).expect("a record is JSON");
    let mut paths = Vec::new();
    strings(&whole, String::new(), &mut paths);
    for path in paths {
        let place = whole.pointer_mut(&path).expect("it was found there");
        let before = std::mem::replace(place, HOSTILE.into());
        if serde_json::from_value::<T>(whole.clone()).is_err() {
            *whole.pointer_mut(&path).expect("it was found there") = before;
        }
    }
    serde_json::from_value(whole).expect("it was read before")
}

fn strings(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(idx, item)| strings(item, format!("{path}/{idx}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| strings(field, format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

fn read<T: DeserializeOwned>(record: Value) -> T {
    serde_json::from_value(record).expect("a sample is such a record")
}

/// A memory that somebody typed in a group, with an edit and two turns.
fn memory() -> MemoryView {
    read(json!({
        "id": "m0123456789abcdef", "agent": "main", "scope": "chat:telegram/-100", "kind": "fact",
        "text": "Ann is allergic\nto nuts.", "subject": "telegram/7", "importance": 0.8, "sightings": 2,
        "source": {
            "channel": "main/telegram/-100", "from_seq": 3, "to_seq": 5, "summary": "s1", "model": "member",
            "by": { "id": "telegram/7", "name": "Ann" },
        },
        "created_at": "2026-03-03T18:40:00Z", "updated_at": "2026-03-04T08:00:00Z",
        "recalled_at": "2026-03-05T09:00:00Z", "uses": 40, "superseded_by": null,
        "trust": "own", "weight": 1.0,
        "history": [
            { "n": 7, "at": "2026-03-03T18:40:00Z", "what": "made", "channel": "main/telegram/-100", "from_seq": 3,
              "to_seq": 5, "model": "member", "by": { "id": "telegram/7", "name": "Ann" }, "text": "Ann hates nuts." },
            { "n": 19, "at": "2026-03-04T08:00:00Z", "what": "edited", "left_out": 4, "kind": "fact",
              "importance": 0.8, "text": "Ann is allergic\nto nuts." },
        ],
        "used_in": [
            { "n": 21, "at": "2026-03-04T09:00:00Z", "channel": "main/telegram/-100", "turn": "t4",
              "outcome": "failed", "code": "refused", "message": "a filter", "model": null },
            { "n": 25, "at": "2026-03-05T09:00:00Z", "channel": "main/telegram/-100", "turn": "t5",
              "outcome": "answered", "reply": 9, "model": "offline" },
        ],
    }))
}
