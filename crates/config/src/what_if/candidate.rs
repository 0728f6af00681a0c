//! Reads a typed candidate: keys of `[agents.compaction]` and the window that replace the settings in force.

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::settings::CompactionSettings;
use cairn_core::tune::TuneCandidate;

use super::NotSimulated;
use crate::range_trouble;

/// Keys without a default, which the serialized settings do not list.
const OPTIONAL: [&str; 3] = ["model", "target_tokens", "instructions"];

/// The key of the window, which is not in the table.
pub const WINDOW: &str = "context_window";

/// Parses `KEY=VALUE,…`. `resize`: the window of a size; `None`: that size cannot be set.
pub fn parse(
    text: &str,
    current: &AgentSettings,
    resize: impl Fn(u64) -> Option<WindowSize>,
) -> Result<TuneCandidate, NotSimulated> {
    let wrong =
        |message: String, hint: String| NotSimulated { message: format!("`{text}`: {message}"), hint };
    let example =
        || "write KEY=VALUE, several with commas between: background_threshold=0.7,fan_out=8".to_owned();
    let mut settings = current.clone();
    let mut table = keys(&settings.compaction);
    let mut n_keys = 0;
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            return Err(wrong(format!("`{pair}` is not KEY=VALUE"), example()));
        };
        n_keys += 1;
        if key == WINDOW {
            let tokens = value.replace('_', "").parse().ok();
            settings.window = tokens.and_then(&resize).ok_or_else(|| {
                let message = format!("{WINDOW} = {value} cannot be set here");
                wrong(
                    message,
                    format!(
                        "give a number of tokens up to the model's window of {}, with room for its answer",
                        current.window.window_tokens
                    ),
                )
            })?;
            continue;
        }
        if !table.contains_key(key) && !OPTIONAL.contains(&key) {
            let known: Vec<&str> = table.keys().map(String::as_str).collect();
            return Err(wrong(
                format!("there is no key `{key}`"),
                format!("keys are {WINDOW}, {}", known.join(", ")),
            ));
        }
        let value = value_of(value);
        if let Some(trouble) = range_trouble("defaults.compaction", key, &value) {
            return Err(wrong(trouble, example()));
        }
        table.insert(key.to_owned(), value);
    }
    if n_keys == 0 {
        return Err(wrong("it is empty".to_owned(), example()));
    }
    let compaction: Result<CompactionSettings, _> = table.try_into();
    settings.compaction = compaction.map_err(|error| wrong(first_line(&error.to_string()), example()))?;
    settings.compaction.validate().map_err(|bad| wrong(bad.to_string(), example()))?;
    Ok(TuneCandidate { name: text.trim().to_owned(), settings })
}

/// Parses a value as TOML; if it is none, as a string.
fn value_of(text: &str) -> toml::Value {
    let parsed = format!("value = {text}").parse::<toml::Table>().ok();
    parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

pub fn keys(settings: &CompactionSettings) -> toml::Table {
    toml::Table::try_from(settings).unwrap_or_default()
}

/// The TOML that changes the current settings into a candidate's; empty if they are the same.
pub fn toml(current: &TuneCandidate, candidate: &TuneCandidate) -> String {
    let (now, then) = (keys(&current.settings.compaction), keys(&candidate.settings.compaction));
    let changes: Vec<_> = then.into_iter().filter(|(key, value)| now.get(key) != Some(value)).collect();
    let (window, then) = (current.settings.window.window_tokens, candidate.settings.window.window_tokens);
    let mut text = String::new();
    if window != then {
        text.push_str(&format!("{WINDOW} = {then}\n"));
    }
    if !changes.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("[agents.compaction]\n");
        changes.iter().for_each(|(key, value)| text.push_str(&format!("{key} = {value}\n")));
    }
    text
}

fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}
