//! What the fake model says in a load run: replies of many sizes, a search now and then, summaries as large as they are
//! asked to be, of words that stand in their source.

use cairn_types::tokens::estimate;
use serde_json::{Value, json};

use super::talk::Talk;
use cairn_testkit::model::{Answer, Kind, Seen, text_of};

/// One reply in so many begins with a search of the history.
const SEARCH_EVERY: u64 = 20;

/// Share of the words asked for that a summary takes: models stay below.
const FILLED: f64 = 0.85;

/// Words of a summary that stand for a token, where a request asks for words.
const WORDS_A_TOKEN: f64 = 0.6;

/// Longest line of a summary, in characters.
const LINE_CHARS: usize = 140;

pub(super) fn answer(seed: u64, seen: &Seen) -> Answer {
    match seen.kind {
        Kind::Reply => reply(seed, &seen.body),
        Kind::Compaction => Answer::text(summary(&seen.body)),
    }
}

/// Replies depend on how much was said, so that a repeated request gets the same one.
fn reply(seed: u64, body: &Value) -> Answer {
    let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let asked = cairn_testkit::model::last_user_text(body);
    let is_after_a_tool = messages
        .iter()
        .rev()
        .find(|message| role(message) != "user")
        .is_some_and(|message| role(message) == "tool");
    let newest_is_result = messages.iter().rev().take(2).any(|message| role(message) == "tool");
    let n = asked.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let mut talk = Talk::nth(seed, n);
    let kind = talk.kind();
    let size = talk.size();
    let searches = talk.below(SEARCH_EVERY) == 0;
    if searches && !(is_after_a_tool && newest_is_result) {
        let words: Vec<&str> = asked.split_whitespace().take(4).collect();
        return Answer::call("history_search", json!({ "query": words.join(" ") }));
    }
    Answer::text(talk.text(kind, size))
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// Lines of the source under the headings of a summary, spread over all of it; the newest words of a person among them.
pub fn summary(body: &Value) -> String {
    let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let request = messages.iter().find(|message| role(message) == "user").map(text_of).unwrap_or_default();
    let room = words_asked(&request).map_or(200.0, |words| words as f64 / WORDS_A_TOKEN * FILLED);
    let source = inside(&request);
    let lines: Vec<String> = source.lines().filter_map(bare).collect();
    let open = source.lines().rev().find(|line| line.starts_with('[') && !line.starts_with("[assistant"));
    let open = open.and_then(bare).unwrap_or_else(|| "nothing is open".to_owned());
    let mut room = (room - f64::from(estimate(&open)) - 24.0).max(8.0);
    let mean =
        lines.iter().map(|line| f64::from(estimate(line)) + 2.0).sum::<f64>() / lines.len().max(1) as f64;
    let step = (lines.len() as f64 * mean / room).max(1.0);
    let mut kept = Vec::new();
    let mut next = 0.0;
    while let Some(line) = lines.get(next as usize) {
        let tokens = f64::from(estimate(line)) + 2.0;
        if tokens <= room {
            room -= tokens;
            kept.push(format!("- {line}"));
        }
        next += step;
    }
    if kept.is_empty() {
        kept.push("- they talked".to_owned());
    }
    format!("## Progress\n{}\n\n## Active topics and open commitments\n- {open}", kept.join("\n"))
}

/// How many words a request asks for.
fn words_asked(request: &str) -> Option<u64> {
    let (_, rest) = request.rsplit_once("at most ")?;
    rest.split_once(" words")?.0.trim().parse().ok()
}

/// What stands between the tags of a transcript or of summaries.
fn inside(request: &str) -> &str {
    let start = request.find(">\n").map_or(0, |at| at + 2);
    let end = ["\n</transcript>", "</summaries>"].iter().filter_map(|tag| request.rfind(tag)).min();
    request.get(start..end.unwrap_or(request.len())).unwrap_or_default()
}

/// A line without its header, cut between words; none for headings and for what has no words.
fn bare(line: &str) -> Option<String> {
    let line = line.trim();
    let line = match line.split_once("] ") {
        Some((header, rest)) if header.starts_with('[') => rest,
        _ => line.trim_start_matches("- "),
    };
    if line.starts_with(['#', '[', '<', '{', '}', '"', '\\'])
        || line.chars().filter(|c| c.is_alphabetic()).count() < 6
    {
        return None;
    }
    if line.chars().count() <= LINE_CHARS {
        return Some(line.to_owned());
    }
    // Within a word nothing is cut: half an identifier is one that the source lacks.
    let head: String = line.chars().take(LINE_CHARS).collect();
    let end = head.rfind([' ', '。', '！', '，'])?;
    Some(head[..end].trim_end().to_owned())
}
