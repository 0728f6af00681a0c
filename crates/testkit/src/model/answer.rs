//! Scripted answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::gate::Gate;

/// What the fake model answers to one request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) form: Form,
    pub(super) pace: Duration,
    /// Each chunk of a stream takes a place.
    pub(super) gate: Option<Arc<Semaphore>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Said(Said),
    /// Bytes as they are.
    Raw {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) finish: Option<String>,
    /// Fields of its first call, over chat completions.
    pub(super) call_fields: Option<Value>,
    /// What signs its reasoning, which may be empty then; over Anthropic's messages.
    pub(super) signature: Option<String>,
    /// Only the first half of the last call's arguments is sent.
    pub(super) half_call: bool,
    pub(super) end: End,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum End {
    #[default]
    Complete,
    /// The connection closes properly after half of the words, without an end mark.
    Truncated,
    /// The same after all of them.
    Unmarked,
    /// Nothing more comes after half of the words; the connection stays open.
    Hanging,
    /// After half of the words others follow, without end.
    Flooding,
    /// An error object after half of the words.
    Error(Value),
}

/// The first half of a text.
pub(super) fn half(text: &str) -> &str {
    let middle = text.char_indices().nth(text.chars().count() / 2);
    middle.map_or("", |(at, _)| &text[..at])
}

impl Said {
    /// How many of its pieces of words are sent.
    pub(super) fn n_words(&self, all: usize) -> usize {
        if matches!(self.end, End::Complete | End::Unmarked) { all } else { all.div_ceil(2) }
    }

    /// What is sent of the arguments of the call at `idx`.
    pub(super) fn sent_arguments(&self, idx: usize) -> String {
        let arguments = self.calls[idx].1.to_string();
        if self.half_call && idx + 1 == self.calls.len() { half(&arguments).to_owned() } else { arguments }
    }
}

impl Answer {
    fn said(said: Said) -> Self {
        Self { form: Form::Said(said), pace: Duration::ZERO, gate: None }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::said(Said { text: text.into(), ..Said::default() })
    }

    /// A tool call; more by [`Answer::and_call`].
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::said(Said::default()).and_call(name, arguments)
    }

    pub fn error(status: u16, message: &str) -> Self {
        Self::raw(status, "application/json", json!({"error": {"message": message}}).to_string())
    }

    /// The refusal of a request that is larger than the window, in OpenAI's words.
    pub fn overflow() -> Self {
        let message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 \
                       tokens. Please reduce the length of the messages.";
        let error = json!({"error": {
            "message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
        }});
        Self::raw(400, "application/json", error.to_string())
    }

    /// A refusal in Anthropic's form, such as `overloaded_error` with 529.
    pub fn anthropic_error(status: u16, kind: &str, message: &str) -> Self {
        Self::raw(status, "application/json", super::wording::anthropic(kind, message).to_string())
    }

    pub fn raw(status: u16, content_type: &str, body: impl Into<String>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { form: Form::Raw { status, headers, body: body.into() }, pace: Duration::ZERO, gate: None }
    }

    /// With a header; only of raw answers and errors.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Form::Raw { headers, .. } = &mut self.form {
            headers.retain(|(known, _)| known != name);
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub fn and_call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.with(|said| said.calls.push((name.into(), arguments)))
    }

    /// With reasoning before the words.
    pub fn reasoning(self, reasoning: impl Into<String>) -> Self {
        self.with(|said| said.reasoning = reasoning.into())
    }

    /// With this `finish_reason`: `length`, `content_filter`.
    pub fn finish(self, finish: impl Into<String>) -> Self {
        self.with(|said| said.finish = Some(finish.into()))
    }

    /// Ends within the arguments of its last call, at the token limit.
    pub fn cut_in_call(self) -> Self {
        self.with(|said| said.half_call = true).finish("length")
    }

    /// Breaks off after half of the words, without an end mark.
    pub fn truncated(self) -> Self {
        self.with(|said| said.end = End::Truncated)
    }

    /// Has no end mark: neither a reason why it ends nor what else ends a stream.
    pub fn unmarked(self) -> Self {
        self.with(|said| said.end = End::Unmarked)
    }

    /// Says half of the words and then nothing more, with the connection open.
    pub fn hanging(self) -> Self {
        self.with(|said| said.end = End::Hanging)
    }

    /// Says half of the words and then others, without end.
    pub fn flooding(self) -> Self {
        self.with(|said| said.end = End::Flooding)
    }

    /// Breaks off after half of the words with an error object.
    pub fn failing(self, error: Value) -> Self {
        self.with(|said| said.end = End::Error(error))
    }

    /// Pauses before each chunk. For load runs and for tests of timeouts.
    pub fn paced(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Streams chunk by chunk as the gate lets through; the first chunk has no words.
    pub fn gated(mut self) -> (Self, Gate) {
        let (gate, places) = Gate::closed();
        self.gate = Some(places);
        (self, gate)
    }

    /// Its tokens; none of an answer that is bytes as they are.
    pub(super) fn tokens(&self, count: super::Count) -> u64 {
        let Form::Said(said) = &self.form else { return 0 };
        let call =
            |(name, arguments): &(String, Value)| count.tokens(name) + count.tokens(&arguments.to_string());
        count.tokens(&said.text) + count.tokens(&said.reasoning) + said.calls.iter().map(call).sum::<u64>()
    }

    fn with(mut self, change: impl FnOnce(&mut Said)) -> Self {
        if let Form::Said(said) = &mut self.form {
            change(said);
        }
        self
    }
}
