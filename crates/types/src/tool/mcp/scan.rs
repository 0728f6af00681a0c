//! What is suspicious about a tool's description: it is read by a model, and may be written to mislead it.

use serde::{Deserialize, Serialize};

use super::ToolPin;
use crate::text::escape::is_invisible;

/// Why an operator should look twice before a tool is approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Suspicion {
    /// It has characters without a shape, or control characters: people do not see what models read.
    Hidden { count: usize },
    /// It speaks to the model as instructions do.
    Instruction { words: String },
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hidden { count } => write!(f, "{count} hidden characters"),
            Self::Instruction { words } => write!(f, "reads like an instruction: \"{words}\""),
        }
    }
}

/// Words by which descriptions were seen to mislead models; lower case.
const INSTRUCTIONS: &[&str] = &[
    "ignore previous",
    "ignore all previous",
    "ignore the above",
    "disregard",
    "system prompt",
    "do not tell",
    "don't tell",
    "do not mention",
    "don't mention",
    "without telling",
    "<important>",
    "<system>",
    "[system",
    "before using any other tool",
    "before calling any other tool",
    "you must first",
    "always call this",
    "instead of the tool",
    "secret",
    "password",
    "api key",
    "private key",
    "~/.ssh",
    "id_rsa",
    ".env",
];

/// Looks through all text of a tool that a model gets to read.
pub fn scan(tool: &ToolPin) -> Vec<Suspicion> {
    let mut texts = vec![tool.name.as_str(), tool.description.as_str()];
    texts.extend(tool.title.as_deref());
    collect(&tool.schema, &mut texts);
    let hidden = |c: &char| is_invisible(*c) || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    let count = texts.iter().map(|text| text.chars().filter(hidden).count()).sum();
    let mut out = Vec::new();
    if count > 0 {
        out.push(Suspicion::Hidden { count });
    }
    for words in INSTRUCTIONS {
        let found = texts.iter().any(|text| text.to_lowercase().contains(words));
        if found {
            out.push(Suspicion::Instruction { words: (*words).to_owned() });
        }
    }
    out
}

fn collect<'v>(value: &'v serde_json::Value, texts: &mut Vec<&'v str>) {
    match value {
        serde_json::Value::String(text) => texts.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                texts.push(key);
                collect(value, texts);
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}
