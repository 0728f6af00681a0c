//! Tokens of requests, and what a prompt cache would have held of them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use super::wire::{lasting, messages, role, text_of};

/// How tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Count {
    /// By the runtime's own estimate: quick.
    Estimate,
    /// Exactly, by o200k; takes some 50 MB.
    O200k,
}

/// Blocks before a breakpoint over which Anthropic's cache looks back for what it holds.
const LOOK_BACK: usize = 20;

impl Count {
    /// Tokens of a picture, whatever its size.
    pub(super) const PICTURE_TOKENS: u64 = 1_000;

    /// Tokens of the frame of a message or a tool.
    pub(super) const FRAME_TOKENS: u64 = 4;

    /// Tokens of a text.
    pub fn tokens(self, text: &str) -> u64 {
        match self {
            Self::Estimate => u64::from(cairn_core::tokens::estimate(text)),
            Self::O200k => known(text),
        }
    }

    fn message(self, message: &Value) -> u64 {
        let content = match message.get("content") {
            Some(Value::String(text)) => self.tokens(text),
            Some(Value::Array(parts)) => parts
                .iter()
                .map(|part| {
                    part.get("text")
                        .and_then(Value::as_str)
                        .map_or(Self::PICTURE_TOKENS, |text| self.tokens(text))
                })
                .sum(),
            _ => 0,
        };
        let calls = message.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let call = |call: &Value| {
            let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            self.tokens(text("/function/name"))
                + self.tokens(text("/function/arguments"))
                + Self::FRAME_TOKENS
        };
        Self::FRAME_TOKENS + content + calls.iter().map(call).sum::<u64>()
    }

    /// Tokens of the tool definitions, then of each message, its volatile end apart.
    fn pieces(self, request: &Value) -> Vec<(u64, u64)> {
        let tools = request.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let tool = |tool: &Value| {
            let function = tool.get("function").cloned().unwrap_or_default();
            let text = |key: &str| function.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let parameters = function.get("parameters").map(Value::to_string).unwrap_or_default();
            Self::FRAME_TOKENS
                + self.tokens(&text("name"))
                + self.tokens(&text("description"))
                + self.tokens(&parameters)
        };
        let tools_tokens = tools.iter().map(tool).sum();
        let mut pieces = vec![(hash(&json!(tools)), tools_tokens)];
        for message in messages(request) {
            let tokens = self.message(message);
            let text = text_of(message);
            let lasting = lasting(&text);
            // The volatile end of a message is a piece of its own: what stands before it is read from the cache again.
            if matches!(role(message), "user" | "tool") && lasting.len() < text.len() {
                let rest = self.tokens(&text[lasting.len()..]).min(tokens);
                let calls = message.get("tool_call_id").map(Value::to_string);
                pieces.push((hash(&json!([role(message), calls, lasting])), tokens - rest));
                pieces.push((hash(&json!(text[lasting.len()..])), rest));
            } else {
                let calls = message.get("tool_call_id").map(Value::to_string);
                let calls = calls.or_else(|| message.get("tool_calls").map(Value::to_string));
                pieces.push((hash(&json!([role(message), calls, text])), tokens));
            }
        }
        pieces
    }
}

pub(super) fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Texts whose exact counts are kept: requests repeat nearly all of theirs.
const MAX_KNOWN: usize = 100_000;

static KNOWN: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

/// Tokens by o200k, remembered.
fn known(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    if let Some(tokens) = KNOWN.lock().get(&hash) {
        return *tokens;
    }
    let tokens = o200k_base_singleton().encode_ordinary(text).len() as u64;
    let mut known = KNOWN.lock();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(hash, tokens);
    tokens
}

/// Input tokens of a request, and how many of them a cache held, and took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) tokens: u64,
    pub(super) cached: u64,
    pub(super) written: u64,
}

/// A block of a request in Anthropic's format.
pub(super) struct Piece {
    pub(super) hash: u64,
    pub(super) tokens: u64,
    pub(super) mark: bool,
}

/// Prefixes seen before: by the hash of everything up to and with a message.
#[derive(Default)]
pub(super) struct Cache {
    prefixes: HashMap<u64, ()>,
    /// Prefixes that end at a breakpoint.
    written: HashSet<u64>,
    input_tokens: u64,
    cached_tokens: u64,
}

/// Prefixes kept; then the cache restarts, as real ones do.
const MAX_PREFIXES: usize = 200_000;

impl Cache {
    /// Measures a request. `counts`: it is one of those whose share of cached tokens is told.
    pub(super) fn take(&mut self, count: Count, request: &Value, counts: bool) -> Input {
        if self.prefixes.len() > MAX_PREFIXES {
            self.prefixes.clear();
        }
        let mut input = Input { tokens: 0, cached: 0, written: 0 };
        let mut prefix = DefaultHasher::new();
        let mut known = true;
        for (hash, tokens) in count.pieces(request) {
            hash.hash(&mut prefix);
            known &= self.prefixes.insert(prefix.finish(), ()).is_some();
            input.tokens += tokens;
            input.cached += if known { tokens } else { 0 };
        }
        self.count(input, counts);
        input
    }

    /// Measures a request whose breakpoints say what the cache is to hold. Read is the longest prefix that an earlier
    /// request has written, at a breakpoint or a few blocks before one; written is the rest up to the last breakpoint.
    pub(super) fn take_marked(&mut self, pieces: &[Piece], counts: bool) -> Input {
        if self.written.len() > MAX_PREFIXES {
            self.written.clear();
        }
        let mut prefix = DefaultHasher::new();
        let mut tokens = 0;
        let mut ends = Vec::with_capacity(pieces.len());
        for piece in pieces {
            piece.hash.hash(&mut prefix);
            tokens += piece.tokens;
            ends.push((prefix.finish(), tokens));
        }
        let marks: Vec<usize> = (0..pieces.len()).filter(|&idx| pieces[idx].mark).collect();
        let near = marks.iter().flat_map(|&mark| mark.saturating_sub(LOOK_BACK)..=mark);
        let held = near.filter(|&idx| self.written.contains(&ends[idx].0)).map(|idx| ends[idx].1);
        let cached = held.max().unwrap_or(0);
        let written = marks.last().map_or(0, |&last| ends[last].1.saturating_sub(cached));
        self.written.extend(marks.iter().map(|&mark| ends[mark].0));
        let input = Input { tokens, cached, written };
        self.count(input, counts);
        input
    }

    fn count(&mut self, input: Input, counts: bool) {
        if counts {
            self.input_tokens += input.tokens;
            self.cached_tokens += input.cached;
        }
    }

    pub(super) fn share(&self) -> f64 {
        self.cached_tokens as f64 / self.input_tokens.max(1) as f64
    }
}
