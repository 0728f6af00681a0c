//! Tools for tests: large, failing, slow and binary results. `crates/daemon/examples/cairn-with-tools.rs` is the daemon
//! with all of them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::ports::Tool;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::result_class::ResultClass;
use cairn_types::tool::{Effect, ToolFailure, ToolOutput};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Flood), Arc::new(Fail), Arc::new(Slow), Arc::new(Binary)]
}

/// So many bytes of numbered lines, `line 17: …`; with `"lines": false` one line without an end.
#[derive(Debug, Clone, Copy)]
pub struct Flood;

/// An error of so many bytes; with `"panic": true` a panic.
#[derive(Debug, Clone, Copy)]
pub struct Fail;

/// Nothing for so many milliseconds; for good when none are given.
#[derive(Debug, Clone, Copy)]
pub struct Slow;

/// So many bytes of a text that is none: control characters, line breaks of all kinds, characters of all lengths.
#[derive(Debug, Clone, Copy)]
pub struct Binary;

/// So many bytes of numbered lines; the last one may be cut.
pub fn numbered_lines(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    let mut n = 0_u64;
    while text.len() < bytes {
        n += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "line {n}: the quick brown fox jumps over the lazy dog");
    }
    text.truncate(bytes);
    text
}

fn def(name: &str, description: &str, argument: &str) -> ToolDef {
    ToolDef {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": { argument: { "type": "integer", "minimum": 0 } } }),
    }
}

fn bytes_of(arguments: &Value) -> usize {
    arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(100)
}

impl Tool for Flood {
    fn def(&self) -> ToolDef {
        def("flood", "Gives so many bytes of numbered lines.", "bytes")
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let text = numbered_lines(bytes_of(&arguments));
        let by_lines = arguments["lines"].as_bool().unwrap_or(true);
        Box::pin(std::future::ready(Ok(ToolOutput::text(if by_lines {
            text
        } else {
            text.replace('\n', " ")
        }))))
    }
}

impl Tool for Fail {
    fn def(&self) -> ToolDef {
        def("fail", "Fails with so many bytes of an error.", "bytes")
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        assert!(arguments["panic"] != json!(true), "asked to panic");
        Box::pin(std::future::ready(Err(numbered_lines(bytes_of(&arguments)).into())))
    }
}

impl Tool for Slow {
    fn def(&self) -> ToolDef {
        def("slow", "Answers after so many milliseconds.", "ms")
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            match arguments["ms"].as_u64() {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
            Ok(ToolOutput::text("at last"))
        })
    }
}

impl Tool for Binary {
    fn def(&self) -> ToolDef {
        def("binary", "Gives so many bytes that are no text.", "bytes")
    }

    fn class(&self) -> ResultClass {
        ResultClass::AlwaysOffload
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let bytes = bytes_of(&arguments);
        let pieces =
            ["\u{0}\u{1}\u{1b}[2J", "\r\n", "\u{fffd}", "é", "語", "🪨", "\u{202e}", "\u{2028}", "\n", "\t"];
        let mut text = String::with_capacity(bytes + 4);
        for piece in pieces.iter().cycle() {
            if text.len() + piece.len() > bytes {
                break;
            }
            text.push_str(piece);
        }
        Box::pin(std::future::ready(Ok(ToolOutput::text(text))))
    }
}
