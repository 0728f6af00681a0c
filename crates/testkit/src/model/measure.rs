//! Tokens of requests, and what a prompt cache by its provider's published rule holds of them ([`Billing`] has the rules).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use cairn_core::tune::{Billing, Block, PrefixCache};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use super::wire::{messages, role};

/// How tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Count {
    /// By the runtime's own estimate: quick.
    Estimate,
    /// Exactly, by o200k; takes some 50 MB.
    O200k,
}

impl Count {
    /// Tokens of a picture, whatever its size.
    pub(super) const PICTURE_TOKENS: u64 = 1_000;

    /// Tokens of the frame of a message or a tool.
    pub(super) const FRAME_TOKENS: u64 = 4;

    /// Tokens of a text.
    pub fn tokens(self, text: &str) -> u64 {
        match self {
            Self::Estimate => u64::from(cairn_types::tokens::estimate(text)),
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

    /// Tokens of a whole request.
    pub fn request(self, request: &Value) -> u64 {
        self.blocks(request).iter().map(|block| block.tokens).sum()
    }

    /// What a cache sees of a request in the form of chat completions: the tools, then each message, paragraph by paragraph. A
    /// beginning that two requests have in common ends within a message, too. Breakpoints mean something to OpenAI's newer
    /// models alone.
    pub(super) fn blocks(self, request: &Value) -> Vec<Block> {
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
        let mut blocks = vec![Block { key: hash(&json!(tools)), tokens: tools_tokens, mark: false }];
        let mut newest = None;
        for message in messages(request) {
            self.message_blocks(message, &mut blocks);
            if matches!(role(message), "user" | "tool") {
                newest = Some(blocks.len() - 1);
            }
        }
        // OpenAI's newer models put a breakpoint behind the newest message of a person, or the newest result, by themselves.
        let implicit = request.pointer("/prompt_cache_options/mode").is_none_or(|mode| mode != "explicit");
        if let Some(newest) = newest.filter(|_| implicit) {
            blocks[newest].mark = true;
        }
        blocks
    }

    fn message_blocks(self, message: &Value, blocks: &mut Vec<Block>) {
        let mut rest = message.clone();
        let content = rest.as_object_mut().and_then(|rest| rest.remove("content")).unwrap_or_default();
        // Calls stand behind the words.
        let calls = rest.as_object_mut().and_then(|rest| rest.remove("tool_calls"));
        let mut left = self.message(message).saturating_sub(Self::FRAME_TOKENS);
        blocks.push(Block { key: hash(&rest), tokens: Self::FRAME_TOKENS, mark: false });
        let words = Value::from(content.as_str().unwrap_or_default());
        let parts =
            content.as_array().cloned().unwrap_or_else(|| vec![json!({"type": "text", "text": words})]);
        for mut part in parts {
            let mark = part.as_object_mut().and_then(|part| part.remove("prompt_cache_breakpoint")).is_some();
            match part.get("text").and_then(Value::as_str) {
                Some(text) => blocks.extend(text.split_inclusive("\n\n").map(|words| {
                    let tokens = self.tokens(words).min(left);
                    left -= tokens;
                    Block { key: hash(&words.trim_end().into()), tokens, mark: false }
                })),
                None => {
                    let tokens = Self::PICTURE_TOKENS.min(left);
                    left -= tokens;
                    blocks.push(Block { key: hash(&part), tokens, mark: false });
                }
            }
            if let Some(last) = blocks.last_mut() {
                last.mark = mark;
            }
        }
        match (calls, blocks.last_mut()) {
            (Some(calls), _) => blocks.push(Block { key: hash(&calls), tokens: left, mark: false }),
            // Paragraphs have as many tokens together as the whole, but for a few.
            (None, Some(last)) => last.tokens += left,
            (None, None) => {}
        }
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

/// A provider's cache, and what it has come to.
pub(super) struct Cache {
    held: PrefixCache,
    input_tokens: u64,
    cached_tokens: u64,
}

impl Cache {
    pub(super) fn new(billing: &Billing) -> Self {
        Self { held: PrefixCache::new(billing), input_tokens: 0, cached_tokens: 0 }
    }

    /// Measures a request. `counts`: it is one of those whose share of cached tokens is told. A test goes by within the time for
    /// which a beginning is held.
    pub(super) fn take(&mut self, request: &[Block], counts: bool) -> Input {
        let usage = self.held.take(request, Timestamp::UNIX_EPOCH);
        let (tokens, cached, written) = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens);
        if counts {
            self.input_tokens += tokens;
            self.cached_tokens += cached;
        }
        Input { tokens, cached, written }
    }

    /// Tokens of requests, and how many of them were read from the cache.
    pub(super) fn counted(&self) -> [u64; 2] {
        [self.input_tokens, self.cached_tokens]
    }
}
