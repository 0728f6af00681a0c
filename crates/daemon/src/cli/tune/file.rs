//! A file as a script: read and checked whole, its words weighed and dropped.

use std::path::Path;

use cairn_core::ids::Generation;
use cairn_core::message::{Author, Entry, Part, Role};
use cairn_core::tune::{Script, ScriptTurn, Step};
use cairn_core::window::entry_tokens;
use cairn_platforms::local::read_object;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::TuneArgs;
use crate::cli::failure::Failure;
use crate::cli::lines;

const EXPECTED: &str =
    r#"expected {"user": "…", "text": "…"} as for `cairn replay`, or {"role": "assistant", "text": "…"}"#;

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    role: Option<Role>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    text: Option<String>,
    /// As entries of a history have it.
    #[serde(default)]
    parts: Vec<LinePart>,
    #[serde(default)]
    tool_calls: Vec<serde_json::Value>,
    #[serde(default)]
    tokens: Option<u32>,
    #[serde(default)]
    at: Option<String>,
}

#[derive(Deserialize)]
struct LinePart {
    #[serde(default)]
    text: Option<String>,
}

struct Weighed {
    role: Role,
    tokens: u32,
    calls: bool,
    at: Option<Timestamp>,
}

/// Reads a file, `-` for stdin.
pub(super) fn read(file: &Path, args: &TuneArgs, max_text_bytes: usize) -> Result<Script, Failure> {
    let (shown, bytes) = (file.display(), lines::read(file)?);
    let lines = parse(&bytes, max_text_bytes)
        .map_err(|(line_no, why)| Failure::failed(format!("{shown}, line {line_no}: {why}"), EXPECTED))?;
    if lines.is_empty() {
        return Err(Failure::failed(format!("{shown} is empty"), EXPECTED));
    }
    Ok(script(&lines, args.answer_tokens, SignedDuration::from_secs(args.gap_secs.into())))
}

fn parse(bytes: &[u8], max_text_bytes: usize) -> Result<Vec<Weighed>, (usize, String)> {
    lines::each(bytes, |_, line| weighed(line, max_text_bytes))
}

fn weighed(line: &[u8], max_text_bytes: usize) -> Result<Weighed, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    let line: Line = read_object(text.as_bytes())
        .map_err(|why| format!("not a message: {}", why.replace(" at line 1 column ", ", column ")))?;
    let role = line.role.unwrap_or(Role::User);
    let words = match line.text {
        Some(text) => text,
        None => line.parts.into_iter().filter_map(|part| part.text).collect::<Vec<_>>().join("\n"),
    };
    let user = line.user.unwrap_or_default();
    if line.role.is_none() && user.trim().is_empty() {
        return Err("`user` is missing or empty".to_owned());
    }
    let silent = words.trim().is_empty() && line.tool_calls.is_empty();
    if silent && line.tokens.is_none() && role != Role::Tool {
        return Err("`text` is missing or empty".to_owned());
    }
    if role == Role::User && words.len() > max_text_bytes {
        return Err(format!(
            "`text` is longer than {max_text_bytes} bytes (`max_message_bytes` in `[limits]`)"
        ));
    }
    let at = match line.at {
        Some(at) => Some(at.parse::<Timestamp>().map_err(|error| format!("`at` is no time: {error}"))?),
        None => None,
    };
    let calls: Vec<String> = line.tool_calls.iter().map(ToString::to_string).collect();
    let said = if calls.is_empty() { words } else { format!("{words}\n{}", calls.join("\n")) };
    let tokens = line.tokens.unwrap_or_else(|| weigh(role, &user, &said));
    Ok(Weighed { role, tokens, calls: !calls.is_empty(), at })
}

/// Tokens of an entry as the window would show it.
fn weigh(role: Role, user: &str, text: &str) -> u32 {
    let author = (role == Role::User).then(|| Author { id: format!("local/{user}"), name: user.to_owned() });
    let entry = Entry {
        role,
        author,
        parts: vec![Part::text(text)],
        ..Entry::lost(cairn_core::ids::Seq(1), &"t1".into(), Generation::default(), Timestamp::UNIX_EPOCH)
    };
    entry_tokens(&entry)
}

/// The lines as turns. Without any answer in the file each message is a turn of its own, as when it is replayed.
fn script(lines: &[Weighed], answer_tokens: u32, gap: SignedDuration) -> Script {
    let has_answers = lines.iter().any(|line| line.role == Role::Assistant);
    let mut turns: Vec<ScriptTurn> = Vec::new();
    let mut at = Timestamp::UNIX_EPOCH;
    let mut answered = true;
    for line in lines {
        let begins = line.role == Role::User && answered;
        if begins {
            at = line.at.unwrap_or_else(|| at.checked_add(gap).unwrap_or(at));
            turns.push(ScriptTurn { at, generation: Generation::default().0, steps: Vec::new() });
            answered = false;
        }
        let Some(turn) = turns.last_mut() else { continue };
        match line.role {
            Role::User => turn.steps.push(Step::Message { tokens: line.tokens }),
            Role::Assistant if line.calls => {
                turn.steps.push(Step::Call { tokens: line.tokens, results: Vec::new() });
            }
            Role::Assistant => turn.steps.push(Step::Answer { tokens: line.tokens }),
            Role::Tool => {
                if let Some(Step::Call { results, .. }) = turn.steps.last_mut() {
                    results.push(line.tokens);
                }
            }
        }
        if !has_answers && line.role == Role::User {
            turn.steps.push(Step::Answer { tokens: answer_tokens });
        }
        answered = matches!(turn.steps.last(), Some(Step::Answer { .. }));
    }
    Script::new(turns)
}
