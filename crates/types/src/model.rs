//! Requests to a language model and its answers, whatever the wire format.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::ChannelId;
pub use crate::message::Finish;
use crate::message::{Entry, Part, ToolCall};
use crate::provider_state::ProviderState;
use crate::summary::Summary;
use crate::tool::defs::ToolDefs;
use crate::wire::format::Sent;

/// A request to a model. Only the core's `window` and the prompt of a compaction build one.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The channel it is for; never sent on the wire.
    pub channel: ChannelId,
    /// What the answer is for; never sent on the wire. The offline model acts by it.
    pub purpose: Purpose,
    /// The system prompt; then the summary stack, each item a block, so that a cache holds the older ones when another is
    /// added. Blocks are joined by blank lines.
    pub system: Vec<String>,
    /// The conversation, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The index of the first message of the turn that the request continues.
    pub turn_from: usize,
    pub tools: ToolDefs,
    /// No tool may be called in this answer. Tools are still listed, because they are part of the stable prefix.
    pub last_call: bool,
    /// Most tokens of the answer.
    pub max_output_tokens: u64,
    /// What may be left out of it; never sent on the wire.
    pub attempt: Attempt,
}

/// How far a request may be simplified for a server that refuses it. A client tells by [`ModelEvent::Sent`] what it left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Attempt {
    /// It is sent whole, except for what the server is known to refuse, or names in its refusal.
    #[default]
    Whole,
    /// It was refused for an unknown reason: what it can do without is left out, one thing after another.
    Simplified,
    /// Leaving out single things did not help: it has less of the history, and is otherwise sent whole.
    Trimmed,
    /// The last resort: the system prompt and the last message, with nothing that a server could refuse.
    Bare,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Purpose {
    /// A reply in the chat.
    Reply {
        /// The text of the open turn's user entries, for retrieval.
        question: String,
    },
    /// A summary of entries, with memories saved by tool calls.
    Summarise {
        entries: Arc<[Arc<Entry>]>,
        /// Tokens that the summary should keep within.
        target_tokens: u64,
    },
    /// A merge of summaries, without memories.
    Merge {
        /// The summaries, oldest first.
        sources: Arc<[Summary]>,
        /// Tokens that the merged summary should keep within.
        target_tokens: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    User {
        /// Text (already carrying the author's escaped name), images, files.
        parts: Vec<Part>,
    },
    Assistant {
        /// Its text; may be empty when it only calls tools.
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// What its provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<Box<ProviderState>>,
    },
    Tool {
        call_id: String,
        text: String,
        /// Pictures of the result, for models that take pictures; the text names them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Part>,
    },
    /// Volatile context at the tail (recalled memories, the clock), marked as data in its own text. Wire formats put it
    /// at the very end of the message before it, a person's or the last result; where there is none, it is a user's
    /// message.
    Context { text: String },
}

impl ChatMessage {
    pub fn assistant(text: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self::Assistant { text: text.into(), tool_calls, provider_state: None }
    }
}

/// What a model says, piece by piece. A stream that ends without [`ModelEvent::Done`] is a failure.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The request is being sent. It comes again each time a refused request is sent in another form.
    Sent(Box<Sent>),
    Text(String),
    Reasoning(String),
    /// All text so far was reasoning: the model wrote no tag before it, and the closing tag has come.
    TextWasReasoning,
    ToolCall(ToolCall),
    /// What the provider wants back with the answer. It comes once, before the end.
    State(Box<ProviderState>),
    /// Tokens used so far, in case the answer is cut short. The latest counts.
    Usage(Usage),
    Done {
        finish: Finish,
        /// Tokens used, if the provider says so.
        usage: Option<Usage>,
        /// The text quotes the history (offline replies): it is not indexed.
        quotes: bool,
    },
}

/// Tokens of a request and its answer, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole request, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens of the request that came from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens of the request that the provider wrote into its cache, where that has a price of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How many times more tokens than we estimate a server may report. Tokenizers differ by less: a larger report is a mistake
/// of the server.
const REPORT_FACTOR: u64 = 8;

/// How many times fewer tokens than we estimate a server may report. No tokenizer counts less than half of our estimate: a
/// smaller report leaves part of the request out.
const LEFT_OUT_FACTOR: u64 = 2;

/// Tokens that a server may add by itself, such as a prompt of its own.
const REPORT_SLACK: u64 = 2_000;

/// The most tokens that a server may report for such an estimate.
fn at_most(estimate: u64) -> u64 {
    estimate.saturating_mul(REPORT_FACTOR).saturating_add(REPORT_SLACK)
}

impl Usage {
    /// The report as it counts; `None` when it cannot be true. `ours`: our own estimate of the same call; `estimated`: that
    /// of the request before correction. `answer_max`: the most tokens that the answer was allowed, with reasoning that is
    /// not shown.
    pub fn believed(self, ours: Self, estimated: u64, answer_max: u64) -> Option<Self> {
        let usage = self.with_cached(ours);
        let believable = usage.input_tokens <= at_most(ours.input_tokens)
            && estimated <= usage.input_tokens.saturating_mul(LEFT_OUT_FACTOR)
            && usage.output_tokens <= at_most(ours.output_tokens.max(answer_max));
        let cached_tokens = usage.cached_tokens.min(usage.input_tokens);
        let cache_write_tokens = usage.cache_write_tokens.min(usage.input_tokens - cached_tokens);
        believable.then_some(Self { cached_tokens, cache_write_tokens, ..usage })
    }

    /// The report with all tokens of the request. Some servers count only the tokens that their cache lacked: more cached
    /// tokens than tokens of the request prove it.
    pub fn with_cached(self, ours: Self) -> Self {
        let sum = self.input_tokens.saturating_add(self.cached_tokens);
        let leaves_out = self.cached_tokens > self.input_tokens && sum <= at_most(ours.input_tokens);
        Self { input_tokens: if leaves_out { sum } else { self.input_tokens }, ..self }
    }

    /// Tokens of the request and the answer.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

/// A model's settings, as the rest of the runtime sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Its id in the configuration; `offline` for the embedded one.
    pub id: String,
    /// Its window in tokens, when set in the configuration.
    pub context_window: Option<u64>,
    /// Most tokens of an answer, when set in the configuration.
    pub max_output_tokens: Option<u64>,
    pub images: bool,
    pub tools: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The request is larger than the model's window.
    #[error("the request is larger than the model's window: {message}")]
    ContextOverflow {
        message: String,
        /// The window in tokens, where the server names it.
        limit: Option<u64>,
    },
    #[error("the model takes no tools: {0}")]
    NoTools(String),
    #[error("rate limited by the model's server{}: {message}", retry_hint(.retry_after))]
    RateLimited { message: String, retry_after: Option<Duration> },
    /// The server is over its capacity, or has an internal error.
    #[error("the model's server is overloaded or failing{}: {message}", retry_hint(.retry_after))]
    Overloaded { message: String, retry_after: Option<Duration> },
    /// The server accepted the request, and reported an error of its own instead of an answer.
    #[error("the model's server failed: {0}")]
    Failed(String),
    /// The key is missing, wrong or not allowed.
    #[error("the model's server refused the key (check api_key_env or api_key_file): {0}")]
    Auth(String),
    /// The server does not take such a request.
    #[error("the model's server refused the request: {message}")]
    BadRequest { message: String, cause: RefusalCause },
    #[error("no answer from the model's server within {0:?}")]
    Timeout(Duration),
    #[error("cannot reach the model's server: {0}")]
    Transport(String),
    /// The request was being sent or was already read: the server may have worked on it.
    #[error("the connection to the model's server broke: {0}")]
    Broken(String),
    /// The answer took all the tokens that it was allowed before its first word.
    #[error(
        "the answer used up max_output_tokens ({0} tokens) before its first word: the model spent them on thinking"
    )]
    CutOff(u64),
    /// The model declined to answer and said nothing else.
    #[error("the model declined to answer this message")]
    Declined,
    /// The provider's content filter withheld the whole answer.
    #[error("the content filter of the model's provider withheld the answer to this message")]
    Filtered,
    /// The server broke the format, or the stream ended before its end.
    #[error("the model's server broke the protocol: {0}")]
    Protocol(String),
}

/// Why a server refuses a request, as far as its message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCause {
    /// There is no such address, or no such model.
    Address,
    /// A field of the request that it does not know, or a value that it does not take.
    Field,
    Picture,
    /// The provider's rules about content.
    Content,
    /// The account's credit or plan.
    Account,
    /// Its message does not say.
    Unknown,
}

impl RefusalCause {
    /// What people can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Address => "check model name and base_url in the configuration",
            Self::Field => {
                "change or remove the field that the server names: temperature, top_p, reasoning_effort or extra_body \
                 of this model may set it"
            }
            Self::Picture => "send it without the picture, or set images = false for this model",
            Self::Content => {
                "put the message another way, or use another model: the provider's filter refused it"
            }
            Self::Account => "check the account's credit and plan on the provider's page",
            Self::Unknown => "the server's words say why; `cairn explain --prompt` shows what was sent to it",
        }
    }
}

fn retry_hint(retry_after: &Option<Duration>) -> String {
    retry_after.map(|wait| format!(" (retry after {} s)", wait.as_secs())).unwrap_or_default()
}

impl ModelError {
    /// A refusal for an unknown reason.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::BadRequest { message: message.into(), cause: RefusalCause::Unknown }
    }

    /// The error for an answer without text and without a call, by why it ended. `answer_max`: the most tokens that it was
    /// allowed.
    pub fn of_silence(finish: Finish, answer_max: u64) -> Self {
        match finish {
            Finish::Length => Self::CutOff(answer_max),
            Finish::ContextWindow => {
                let message = "it left no room for the first word of an answer".to_owned();
                Self::ContextOverflow { message, limit: None }
            }
            Finish::Refusal => Self::Declined,
            Finish::ContentFilter => Self::Filtered,
            Finish::Pause => Self::Protocol("the server paused before the first word".to_owned()),
            Finish::Stop | Finish::ToolCalls => Self::Protocol("the answer is empty".to_owned()),
        }
    }

    /// The codes of errors by which a server refuses a call.
    pub const REFUSALS: [&str; 6] =
        ["context_overflow", "no_tools", "rate_limited", "overloaded", "auth", "bad_request"];

    /// The typed error's name in records, logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ContextOverflow { .. } => "context_overflow",
            Self::NoTools(_) => "no_tools",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Failed(_) => "server_failed",
            Self::Auth(_) => "auth",
            Self::BadRequest { .. } => "bad_request",
            Self::Timeout(_) => "timeout",
            Self::Transport(_) | Self::Broken(_) => "transport",
            Self::CutOff(_) => "cut_off",
            Self::Declined => "refusal",
            Self::Filtered => "content_filter",
            Self::Protocol(_) => "protocol",
        }
    }

    /// Whether the server may charge for a request that failed this way.
    pub fn may_have_cost(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Broken(_))
    }

    /// The error for logs, without the server's message, which may repeat the request.
    pub fn in_brief(&self) -> String {
        let status = self.status().map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let words = match self {
            Self::ContextOverflow { limit: Some(limit), .. } => {
                format!("the request is larger than the model's window of {limit} tokens")
            }
            Self::ContextOverflow { limit: None, .. } => {
                "the request is larger than the model's window".to_owned()
            }
            Self::NoTools(_) => "the model takes no tools".to_owned(),
            Self::RateLimited { retry_after, .. } => {
                format!("rate limited by the model's server{}", retry_hint(retry_after))
            }
            Self::Overloaded { retry_after, .. } => {
                format!("the model's server is overloaded or failing{}", retry_hint(retry_after))
            }
            Self::Failed(_) => "the model's server failed".to_owned(),
            Self::Auth(_) => {
                "the model's server refused the key (check api_key_env or api_key_file)".to_owned()
            }
            Self::BadRequest { .. } => "the model's server refused the request".to_owned(),
            // These messages are our own.
            Self::Timeout(_)
            | Self::Transport(_)
            | Self::Broken(_)
            | Self::CutOff(_)
            | Self::Declined
            | Self::Filtered
            | Self::Protocol(_) => return self.to_string(),
        };
        words + &status
    }

    /// The HTTP status at the start of the message of a refusal.
    fn status(&self) -> Option<u16> {
        let words = match self {
            Self::ContextOverflow { message, .. }
            | Self::RateLimited { message, .. }
            | Self::Overloaded { message, .. }
            | Self::BadRequest { message, .. } => message,
            Self::NoTools(message) | Self::Auth(message) | Self::Failed(message) => message,
            Self::Timeout(_)
            | Self::Transport(_)
            | Self::Broken(_)
            | Self::CutOff(_)
            | Self::Declined
            | Self::Filtered
            | Self::Protocol(_) => return None,
        };
        words.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
    }

    /// Whether the server may accept a request with less content: it refuses something in this request, not the model, its
    /// address or the account.
    pub fn may_be_of_content(&self) -> bool {
        use RefusalCause::{Account, Address, Content, Field, Picture, Unknown};
        match self {
            Self::BadRequest { cause, .. } => match cause {
                Field | Picture | Content | Unknown => true,
                Address | Account => false,
            },
            Self::Declined | Self::Filtered => true,
            _ => false,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Overloaded { .. }
                | Self::Failed(_)
                | Self::Timeout(_)
                | Self::Transport(_)
                | Self::Broken(_)
                | Self::Protocol(_)
        )
    }

    /// How long the server asks us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => *retry_after,
            Self::ContextOverflow { .. }
            | Self::NoTools(_)
            | Self::Failed(_)
            | Self::Auth(_)
            | Self::BadRequest { .. }
            | Self::Timeout(_)
            | Self::Transport(_)
            | Self::Broken(_)
            | Self::CutOff(_)
            | Self::Declined
            | Self::Filtered
            | Self::Protocol(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    #[rstest]
    #[case::as_we_estimate(1_000, 50, true)]
    #[case::another_tokenizer(4_000, 200, true)]
    #[case::a_prompt_of_the_server(9_999, 50, true)]
    #[case::too_much(10_001, 50, false)]
    #[case::all_that_a_number_holds(u64::MAX, 50, false)]
    #[case::half_of_it(500, 50, true)]
    #[case::less_than_half_of_it(499, 50, false)]
    #[case::next_to_nothing(1, 0, false)]
    #[case::reasoning_that_is_not_shown(1_000, 500, true)]
    #[case::a_longer_answer_than_was_allowed(1_000, 6_001, false)]
    #[case::an_answer_of_all_that_a_number_holds(1_000, u64::MAX, false)]
    fn a_report_is_held_against_our_own_estimate(
        #[case] input: u64,
        #[case] output: u64,
        #[case] believed: bool,
    ) {
        let reported = usage(input, output);
        assert_eq!(reported.believed(usage(1_000, 50), 1_000, 500), believed.then_some(reported));
    }

    #[test]
    fn a_correction_that_is_too_high_does_not_make_a_report_untrue() {
        let reported = usage(1_000, 50);
        assert_eq!(reported.believed(usage(4_000, 50), 1_000, 500), Some(reported));
    }

    #[rstest]
    #[case::all_but_the_new_message(40, 960, 1_000)]
    #[case::one_more_than_the_rest(499, 500, 999)]
    #[case::part_of_the_request(1_000, 1_000, 1_000)]
    #[case::more_than_can_be(1_000, u64::MAX, 1_000)]
    fn cached_tokens_that_the_request_does_not_include_are_added(
        #[case] input_tokens: u64,
        #[case] cached_tokens: u64,
        #[case] whole: u64,
    ) {
        let reported = Usage { cached_tokens, ..usage(input_tokens, 50) };
        let believed = reported.believed(usage(1_000, 50), 1_000, 500).unwrap();
        let of_it = cached_tokens.min(whole);
        assert_eq!((believed.input_tokens, believed.cached_tokens), (whole, of_it));
    }

    #[test]
    fn what_came_from_the_cache_is_at_most_the_request() {
        let reported = Usage { cached_tokens: u64::MAX, cache_write_tokens: u64::MAX, ..usage(1_000, 50) };
        let believed = reported.believed(usage(1_000, 50), 1_000, 500).unwrap();
        assert_eq!((believed.cached_tokens, believed.cache_write_tokens), (1_000, 0));
    }

    #[test]
    fn sums_end_at_the_largest_number() {
        let mut sum = usage(u64::MAX, u64::MAX);
        sum += usage(1, 1);
        assert_eq!((sum, sum.tokens()), (usage(u64::MAX, u64::MAX), u64::MAX));
    }
}
