//! Data that a provider sends with an answer and wants back with it: reasoning, signed blocks, fields of calls that we do not
//! read.
//!
//! It is stored unchanged with the entry, tied to the wire format and the model that made it, and goes back to that model
//! alone. People and summarisers never see it. Which requests carry it: [`ProviderState::goes_back`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::ids::TextId;
use crate::model::{ChatMessage, ChatRequest};
use crate::tokens::estimate;
use crate::wire::format::{Wire, WireFormat};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    pub format: WireFormat,
    /// The model, as its server knows it.
    pub model: String,
    /// In the order in which the server gave them.
    pub items: Vec<ProviderItem>,
    /// The request that it answers, by [`prefix_id`]: some signatures are valid only after exactly the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<TextId>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum ProviderItem {
    /// A block or an item of the wire format, or fields of its message, that only the provider reads.
    Opaque { value: Value },
    /// The next `bytes` of the entry's text.
    Text {
        bytes: u64,
        /// Fields that we do not read.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        fields: Map<String, Value>,
    },
    /// The next of the entry's tool calls.
    Call {
        /// Fields that we do not read.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        fields: Map<String, Value>,
    },
}

/// Keys under which wire formats have readable reasoning.
const REASONING_KEYS: [&str; 4] = ["reasoning_content", "reasoning", "thinking", "summary"];

impl ProviderState {
    /// The state of an answer; `None` if nothing of it has to go back.
    pub fn of(format: WireFormat, model: &str, items: Vec<ProviderItem>) -> Option<Self> {
        let is_needed = |item: &ProviderItem| match item {
            ProviderItem::Opaque { .. } => true,
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } => !fields.is_empty(),
        };
        let is_needed = items.iter().any(is_needed);
        is_needed.then(|| Self { format, model: model.to_owned(), items, prefix: None })
    }

    /// Whether it goes into a request over that wire. `is_open`: the answer belongs to the turn that the request continues.
    pub fn goes_back(&self, wire: &Wire, is_open: bool) -> bool {
        self.format == wire.format && self.model == wire.model && (is_open || self.outlives_turn())
    }

    /// Whether it is needed after its turn. Servers of chat completions want it back with tool calls of earlier turns as well
    /// (DeepSeek: `reasoning_content`, Gemini: signatures); the others do not once the turn is closed.
    pub fn outlives_turn(&self) -> bool {
        self.format == WireFormat::Openai
    }

    /// Whether it is valid only after an unchanged request, as signed thinking blocks are.
    pub fn is_bound_to_prefix(&self) -> bool {
        self.format == WireFormat::Anthropic
    }

    /// Whether it has the reasoning as readable text, so that the entry needs no second copy.
    pub fn has_reasoning(&self) -> bool {
        self.items.iter().any(|item| match item {
            ProviderItem::Opaque { value } => {
                REASONING_KEYS.iter().any(|key| value.get(key).is_some_and(|words| !is_blank(words)))
            }
            ProviderItem::Text { .. } | ProviderItem::Call { .. } => false,
        })
    }

    /// Its items in order, each with its text or the index of its call. If the text was changed since, or calls were left
    /// out, opaque items come first.
    pub fn in_order<'a>(&'a self, text: &'a str, n_calls: usize) -> Vec<Ordered<'a>> {
        let fits = self.spans_text(text) && self.n_calls() == n_calls;
        if !fits {
            let opaque = self.items.iter().filter_map(|item| match item {
                ProviderItem::Opaque { value } => Some(Ordered::Opaque(value)),
                ProviderItem::Text { .. } | ProviderItem::Call { .. } => None,
            });
            let text = (!text.is_empty()).then_some(Ordered::Text(text, None));
            let calls = (0..n_calls).map(|idx| Ordered::Call(idx, None));
            return opaque.chain(text).chain(calls).collect();
        }
        let (mut rest, mut next_call) = (text, 0..);
        let ordered = self.items.iter().map(|item| match item {
            ProviderItem::Opaque { value } => Ordered::Opaque(value),
            ProviderItem::Text { bytes, fields } => {
                let (here, behind) = rest.split_at(usize::try_from(*bytes).unwrap_or(rest.len()));
                rest = behind;
                Ordered::Text(here, Some(fields))
            }
            ProviderItem::Call { fields } => {
                Ordered::Call(next_call.next().unwrap_or_default(), Some(fields))
            }
        });
        ordered.collect()
    }

    fn n_calls(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, ProviderItem::Call { .. })).count()
    }

    /// Whether the byte counts of its text items add up to exactly that text.
    fn spans_text(&self, text: &str) -> bool {
        let mut at = 0_usize;
        for item in &self.items {
            if let ProviderItem::Text { bytes, .. } = item {
                at = at.saturating_add(usize::try_from(*bytes).unwrap_or(usize::MAX));
                if at > text.len() || !text.is_char_boundary(at) {
                    return false;
                }
            }
        }
        at == text.len()
    }

    /// Estimated tokens of what goes back beside text and calls, before correction.
    pub fn tokens(&self) -> u32 {
        let one = |item: &ProviderItem| match item {
            ProviderItem::Opaque { value } => estimate(&value.to_string()),
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } if fields.is_empty() => 0,
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } => {
                fields.iter().map(|(key, value)| estimate(key) + estimate(&value.to_string())).sum()
            }
        };
        self.items.iter().map(one).fold(0, u32::saturating_add)
    }

    /// Its items as text, for people who inspect a request.
    pub fn shown(&self) -> String {
        let one = |item: &ProviderItem| match item {
            ProviderItem::Opaque { value } => Some(value.to_string()),
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } if fields.is_empty() => None,
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } => {
                serde_json::to_string(fields).ok()
            }
        };
        let items: Vec<String> = self.items.iter().filter_map(one).collect();
        format!("kept for {}: {}", self.model, items.join(" "))
    }

    /// Each of its JSON values.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.items.iter().flat_map(|item| match item {
            ProviderItem::Opaque { value } => vec![value],
            ProviderItem::Text { fields, .. } | ProviderItem::Call { fields } => fields.values().collect(),
        })
    }
}

/// A piece of an answer, with its text or the index of its call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ordered<'a> {
    Opaque(&'a Value),
    Text(&'a str, Option<&'a Map<String, Value>>),
    /// A call, by its index.
    Call(usize, Option<&'a Map<String, Value>>),
}

fn is_blank(words: &Value) -> bool {
    match words {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// The identity of a request: a hash of everything before its answer.
pub fn prefix_id(request: &ChatRequest) -> TextId {
    let mut prefix = Prefix::of(request);
    request.messages.iter().for_each(|message| prefix.add(message));
    prefix.id()
}

/// Removes state from messages if the request before it differs from the one it answered: its signature would be refused.
pub fn drop_unbound(request: &mut ChatRequest) {
    let bound = |message: &ChatMessage| match message {
        ChatMessage::Assistant { provider_state: Some(state), .. } => state.is_bound_to_prefix(),
        _ => false,
    };
    if !request.messages.iter().any(bound) {
        return;
    }
    let mut prefix = Prefix::of(request);
    for message in &mut request.messages {
        if bound(message)
            && let ChatMessage::Assistant { provider_state, .. } = message
        {
            let id = prefix.clone().id();
            provider_state.take_if(|state| state.prefix.as_ref() != Some(&id));
        }
        prefix.add(message);
    }
}

/// The hash of everything before an answer, fed piece by piece.
#[derive(Clone)]
struct Prefix(Sha256);

impl Prefix {
    fn of(request: &ChatRequest) -> Self {
        let mut prefix = Self(Sha256::new());
        request.system.iter().for_each(|block| prefix.text(block));
        prefix.text(request.tools.kept().id.as_str());
        prefix
    }

    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    fn add(&mut self, message: &ChatMessage) {
        self.text(&serde_json::to_string(message).unwrap_or_default());
    }

    fn id(self) -> TextId {
        let hex: String = self.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        TextId::new(hex)
    }
}

#[cfg(test)]
mod tests;
