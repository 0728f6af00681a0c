//! Tool servers: their state, what they offer, and what has changed since somebody approved it.

use cairn_types::tool::mcp::{Drift, ServerSource, ToolPin, ToolState};

use super::{Block, Cell, Column, Show, Span, Target, bad, link, or_dash, table, words};
use crate::records::{LineDiff, ServerRecord, ServerView, line_diff};
use crate::text::counted;

impl Show for [ServerRecord] {
    fn show(&self) -> Vec<Block> {
        let columns = [
            Column::narrow("server"),
            Column::narrow("approved"),
            Column::narrow("state"),
            Column::narrow("tools").right(),
            Column::wide("agents"),
            Column::narrow("reached by"),
        ];
        let row = |record: &ServerRecord| {
            let ServerRecord { status, source, version, tools, agents } = record;
            [
                link(Target::Server(status.server.clone()), &status.server),
                words(if status.approved { version.as_deref().unwrap_or("yes") } else { "no" }),
                words(status.state.name()),
                words(tools.len()),
                or_dash(Some(agents.join(", ")).filter(|agents| !agents.is_empty())),
                vec![Span::Code(reached_by(source))],
            ]
        };
        let mut blocks = vec![table("Tool servers", columns, self.iter().map(row))];
        blocks.extend(self.iter().flat_map(notes));
        blocks
    }
}

/// What an operator should know of a server.
fn notes(record: &ServerRecord) -> Vec<Block> {
    let server = &record.status.server;
    let note = |what: Span| {
        Block::Note(vec![
            Span::Link(Target::Server(server.clone()), server.clone()),
            Span::Words(": ".to_owned()),
            what,
        ])
    };
    let new = record.status.drift.iter().flat_map(|drift| drift.tools.values());
    let n_new = new.filter(|state| **state == ToolState::New).count() as u64;
    let mut notes = Vec::new();
    notes.extend(trouble(record).map(|trouble| note(Span::Bad(trouble))));
    if record.status.approved && n_new > 0 {
        let tools = counted(n_new, "tool", "tools");
        notes.push(note(Span::Words(format!(
            "offers {tools} that nobody approved; `cairn mcp show {server}`"
        ))));
    }
    notes
}

/// Why a server cannot be used, in words.
fn trouble(record: &ServerRecord) -> Option<String> {
    if let Some(reason) = &record.status.reason {
        return Some(reason.clone());
    }
    let drift: &Drift = record.status.drift.as_ref()?;
    (!drift.is_clean()).then(|| {
        let changed =
            drift.tools.keys().filter_map(|tool| drift.blocks(tool).filter(|_| drift.server.is_empty()));
        drift.server.iter().cloned().chain(changed).collect::<Vec<_>>().join("; ")
    })
}

fn reached_by(source: &ServerSource) -> String {
    match source {
        ServerSource::Stdio { command, args, .. } => format!("{command} {}", args.join(" ")),
        ServerSource::Http { url, .. } => url.clone(),
    }
}

impl Show for ServerView {
    fn show(&self) -> Vec<Block> {
        let (pin, inspection) = (&self.inspection.pin, &self.inspection);
        let mut facts = vec![
            ("server", words(&pin.server)),
            ("calls itself", words(format!("{} {}", pin.name, pin.version))),
        ];
        facts.extend(source(&pin.source));
        facts.push(("approved", words(if self.approved.is_some() { "yes" } else { "no" })));
        let changes = inspection.drift.iter().flat_map(|drift| &drift.server);
        facts.extend(changes.map(|change| ("CHANGED", bad(change))));
        let mut blocks = vec![Block::Facts(facts)];
        if !self.server.status.stderr.is_empty() {
            blocks.push(Block::Head("Standard error"));
            blocks.push(Block::Text(self.server.status.stderr.join("\n")));
        }
        blocks.push(Block::Head("Tools"));
        pin.tools.iter().for_each(|tool| blocks.extend(self.tool(tool)));
        for rejected in &inspection.rejected {
            let why = bad(format!("cannot be offered: {}", rejected.reason));
            blocks.push(Block::Facts(vec![("tool", code(&rejected.tool)), ("state", why)]));
        }
        for (name, state) in inspection.drift.iter().flat_map(|drift| &drift.tools) {
            if *state == ToolState::Gone {
                let gone = bad("gone: it was approved, and the server no longer has it");
                blocks.push(Block::Facts(vec![("tool", code(name)), ("state", gone)]));
            }
        }
        blocks
    }
}

impl ServerView {
    /// A tool, with its description and arguments; where they have changed, line by line.
    fn tool(&self, tool: &ToolPin) -> Vec<Block> {
        let state = self.inspection.drift.as_ref().and_then(|drift| drift.tools.get(&tool.name));
        let state = match state {
            None | Some(ToolState::New) => words("new"),
            Some(ToolState::Approved) => words("approved"),
            Some(ToolState::Gone) => bad("gone"),
            Some(ToolState::Changed { what }) => bad(format!("CHANGED: {}", what.join(", "))),
        };
        let mut facts =
            vec![("tool", code(&tool.name)), ("effect", words(tool.effect().name())), ("state", state)];
        let suspicions = self.inspection.suspicions.get(&tool.name).into_iter().flatten();
        facts.extend(suspicions.map(|suspicion| ("WARNING", bad(suspicion))));
        let before = self.approved.as_ref().and_then(|pin| pin.tool(&tool.name));
        let schema = |tool: &ToolPin| serde_json::to_string_pretty(&tool.schema).unwrap_or_default();
        vec![
            Block::Facts(facts),
            compared(before.map(|before| before.description.clone()), &tool.description),
            Block::Note(words("arguments")),
            compared(before.map(schema), &schema(tool)),
        ]
    }
}

fn code(name: &str) -> Cell {
    vec![Span::Code(name.to_owned())]
}

fn source(source: &ServerSource) -> Vec<(&'static str, Cell)> {
    let reached = vec![Span::Code(reached_by(source))];
    match source {
        ServerSource::Stdio { env, cwd, .. } => {
            let folder = cwd.iter().map(|cwd| ("folder", code(cwd)));
            [("command", reached), ("variables", names(env))].into_iter().chain(folder).collect()
        }
        ServerSource::Http { headers, .. } => vec![("url", reached), ("headers", names(headers))],
    }
}

fn names<'n>(names: impl IntoIterator<Item = &'n String>) -> Cell {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    words(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

/// What there is now; where it has changed, both versions line by line.
fn compared(before: Option<String>, now: &str) -> Block {
    match before.filter(|before| before != now) {
        Some(before) => Block::Diff(line_diff(&before, now)),
        None => Block::Text(now.to_owned()),
    }
}

impl LineDiff {
    /// The mark in front of the line.
    pub fn mark(&self) -> &'static str {
        match self.change {
            crate::records::Change::Added => "+ ",
            crate::records::Change::Removed => "- ",
            crate::records::Change::Same | crate::records::Change::Changed => "  ",
        }
    }
}
