//! Tool servers (Model Context Protocol): what an operator approved of one, and what has changed since.

pub mod pins;
mod scan;
pub mod status;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::tool::defs::ToolDef;
use crate::tool::{Effect, offered_name};

pub use scan::{Suspicion, scan};

pub const TOOLS_MAX: usize = 1_024;

/// Most bytes of one tool's description and schema together.
pub const TOOL_BYTES_MAX: usize = 64 * 1024;

/// How a server is reached, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum ServerSource {
    /// A child process that speaks over its standard input and output.
    Stdio {
        command: String,
        args: Vec<String>,
        /// Names of the variables that it gets.
        env: BTreeSet<String>,
        /// Its working folder, when the configuration names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// A server that listens elsewhere: streamable HTTP.
    Http {
        url: String,
        /// Names of the headers that it is sent.
        headers: BTreeSet<String>,
    },
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolPin {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    pub schema: Value,
    /// It says that it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It says that it reaches beyond the server's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolPin {
    pub fn effect(&self) -> Effect {
        Effect::of_hints(self.read_only, self.destructive)
    }

    /// As models see it; `None`: its name cannot be offered.
    pub fn def(&self, server: &str) -> Option<ToolDef> {
        Some(ToolDef {
            name: offered_name(server, &self.name)?,
            description: self.description.clone(),
            parameters: self.schema.clone(),
        })
    }
}

/// A server as it shows itself, and as it is kept once an operator has approved it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerPin {
    /// Its id in the configuration.
    pub server: String,
    pub source: ServerSource,
    pub name: String,
    pub version: String,
    pub tools: Vec<ToolPin>,
}

impl ServerPin {
    /// Hash of the whole server as shown. An approval names it, so that nothing else is approved.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// A tool by its name at the server.
    pub fn tool(&self, name: &str) -> Option<&ToolPin> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// How a tool compares with what was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ToolState {
    Approved,
    New,
    Changed {
        /// What changed: `description`, `schema`, `hints`, `title`.
        what: Vec<String>,
    },
    /// Approved, but the server does not have it any more.
    Gone,
}

/// What differs between a server as approved and as it shows itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// Changes of the server itself, in words. Any of them blocks all its tools.
    pub server: Vec<String>,
    /// Each tool of either, by its name.
    pub tools: BTreeMap<String, ToolState>,
}

impl Drift {
    /// Everything is as approved; tools that are new or gone do not count.
    pub fn is_clean(&self) -> bool {
        self.server.is_empty() && !self.tools.values().any(|state| matches!(state, ToolState::Changed { .. }))
    }

    /// Why a tool may not be called; `None`: it may.
    pub fn blocks(&self, tool: &str) -> Option<String> {
        if !self.server.is_empty() {
            return Some(format!("the server has changed since it was approved: {}", self.server.join(", ")));
        }
        match self.tools.get(tool) {
            Some(ToolState::Approved) => None,
            Some(ToolState::New) => Some("the tool was never approved".to_owned()),
            Some(ToolState::Changed { what }) => {
                Some(format!("the tool has changed since it was approved: {}", what.join(", ")))
            }
            Some(ToolState::Gone) | None => Some("the server does not have the tool any more".to_owned()),
        }
    }
}

/// Compares a server as approved with what it shows now.
pub fn compare(approved: &ServerPin, now: &ServerPin) -> Drift {
    let mut drift = Drift { server: changes_of_server(approved, now), tools: BTreeMap::new() };
    for tool in &approved.tools {
        let state = match now.tool(&tool.name) {
            None => ToolState::Gone,
            Some(same) if same == tool => ToolState::Approved,
            Some(other) => ToolState::Changed { what: changes_of_tool(tool, other) },
        };
        drift.tools.insert(tool.name.clone(), state);
    }
    for tool in &now.tools {
        drift.tools.entry(tool.name.clone()).or_insert(ToolState::New);
    }
    drift
}

/// What changed in how a server is reached. The server need not be started for this.
pub fn changes_of_source(approved: &ServerSource, now: &ServerSource) -> Vec<String> {
    match (approved, now) {
        (same, other) if same == other => Vec::new(),
        (ServerSource::Stdio { command, .. }, ServerSource::Stdio { command: other, .. })
            if command != other =>
        {
            vec![format!("its command was `{command}` and is `{other}`")]
        }
        (ServerSource::Stdio { args, .. }, ServerSource::Stdio { args: other, .. }) if args != other => {
            // They may hold secrets, so they are not shown.
            vec!["its arguments are others".to_owned()]
        }
        (ServerSource::Stdio { .. }, ServerSource::Stdio { .. }) => {
            vec!["its variables or its working folder are others".to_owned()]
        }
        (ServerSource::Http { url, .. }, ServerSource::Http { url: other, .. }) if url != other => {
            vec!["its address is another".to_owned()]
        }
        (ServerSource::Http { .. }, ServerSource::Http { .. }) => vec!["its headers are others".to_owned()],
        _ => vec!["it is reached in another way".to_owned()],
    }
}

fn changes_of_server(approved: &ServerPin, now: &ServerPin) -> Vec<String> {
    let mut changes = changes_of_source(&approved.source, &now.source);
    if approved.name != now.name {
        changes.push(format!("it called itself `{}` and now `{}`", approved.name, now.name));
    }
    if approved.version != now.version {
        changes.push(format!("its version was {} and is {}", approved.version, now.version));
    }
    changes
}

fn changes_of_tool(approved: &ToolPin, now: &ToolPin) -> Vec<String> {
    let hints = |tool: &ToolPin| (tool.read_only, tool.destructive, tool.idempotent, tool.open_world);
    [
        ("description", approved.description != now.description),
        ("schema", approved.schema != now.schema),
        ("hints", hints(approved) != hints(now)),
        ("title", approved.title != now.title),
    ]
    .into_iter()
    .filter(|(_, changed)| *changed)
    .map(|(what, _)| what.to_owned())
    .collect()
}

#[cfg(test)]
mod tests;
