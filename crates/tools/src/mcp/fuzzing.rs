//! Reads messages of tool servers without a connection, for `crates/fuzz`.

use std::collections::BTreeSet;

use cairn_types::tool::ToolOutput;
use cairn_types::tool::mcp::{ServerSource, ToolPin};
use rmcp::model::ServerResult;
use serde_json::Value;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use super::result::ResultError;
use super::{listing, result, stdio};

/// The messages in a child's output as JSON, and the kind of error that ended the connection.
pub fn lines(chunks: &[&[u8]], bytes_max: usize) -> (Vec<String>, Option<&'static str>) {
    let mut lines = stdio::Lines::new("fuzz", bytes_max);
    let (mut buffer, mut messages) = (BytesMut::new(), Vec::new());
    for (idx, chunk) in chunks.iter().enumerate() {
        buffer.extend_from_slice(chunk);
        let is_last = idx + 1 == chunks.len();
        loop {
            let decoded = if is_last { lines.decode_eof(&mut buffer) } else { lines.decode(&mut buffer) };
            match decoded {
                Ok(Some(message)) => messages.push(serde_json::to_string(&message).unwrap_or_default()),
                Ok(None) => break,
                Err(error) => return (messages, Some(error.0.map_or("io", |cause| cause.kind))),
            }
        }
    }
    (messages, None)
}

/// The offered tools of a list, and the number of rejected ones.
pub fn tools(listed: &[Value]) -> (Vec<ToolPin>, usize) {
    let source = ServerSource::Http { url: "http://127.0.0.1/mcp".to_owned(), headers: BTreeSet::new() };
    let listing = listing::read("fuzz", source, None, listed);
    (listing.pin.tools, listing.rejected.len())
}

/// The result of a tool call. `None`: the value is no answer.
pub fn output(answer: Value) -> Option<Result<ToolOutput, String>> {
    let answer: ServerResult = serde_json::from_value(answer).ok()?;
    Some(result::read(answer).map_err(|error| match error {
        ResultError::Tool(words) => words,
        ResultError::NoResult(words) => words.to_owned(),
    }))
}
