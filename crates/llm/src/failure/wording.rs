//! The words by which servers refuse: larger than the window, no tools, no streaming. Learnt from their sources and from
//! what their users report; see the table in `tests.rs`.
//!
//! All texts are looked at in lower case, without quotation marks and with "n't" as " not" ([`plain`]).

use crate::remedy::Remedy;

/// Words by which servers say that a request is larger than the window: OpenAI, vLLM, OpenRouter and many others;
/// OpenAI's newer wording; vLLM's older; llama.cpp; Ollama; LM Studio; Anthropic's two; Gemini; xAI; Bedrock; TGI; Cohere;
/// Mistral; Together; Kimi; GitHub; Qwen; MiniMax; Z.ai; one string that is too long for OpenAI.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "exceeds the models context window",
    "longer than the maximum model length",
    "exceeds the maximum model length",
    "exceed_context_size",
    "exceeds the available context size",
    "exceeds the context length",
    "exceeds maximum context length",
    "exceeded max context length",
    "when context the overflows",
    "greater than the context length",
    "reached context length",
    "context length exceeded",
    "context window exceeded",
    "context size has been exceeded",
    "prompt is too long",
    "exceed context limit",
    "input token count",
    "maximum prompt length",
    "input is too long",
    "too many input tokens",
    "number of input tokens exceeds",
    "inputs tokens + max_new_tokens",
    "inputs must have less than",
    "too many tokens: total number of tokens",
    "too many tokens: size limit exceeded",
    "too large for model with",
    "longer than the models context length",
    "exceeded model token limit",
    "prompt token count",
    "range of input length should be",
    "context window exceeds limit",
    "prompt exceeds max length",
    "maximum allowed input length",
    "total length of all messages is too long",
    "string_above_max_length",
];

/// Words by which a server says that it is merely busy, among which "too many tokens" may stand, too.
const BUSY: &[&str] = &["throttl", "please wait", "tokens per min", "rate limit"];

/// Where servers name the window: the words before the number, most telling first. Differences ("by 12 tokens"), what
/// was asked for, and limits of the answer are none of them.
const LIMIT: &[(&str, NumberAt)] = &[
    ("prompt is too long:", NumberAt::AfterGreater),
    ("exceed context limit:", NumberAt::AfterGreater),
    ("context length", NumberAt::Next),
    ("context window", NumberAt::Next),
    ("context size", NumberAt::Next),
    ("maximum model length", NumberAt::Next),
    ("too large for model with", NumberAt::Next),
    ("maximum prompt length", NumberAt::Next),
    ("maximum number of tokens allowed", NumberAt::Next),
    ("max_new_tokens must be", NumberAt::Next),
    ("inputs must have less than", NumberAt::Next),
    ("limit for this model", NumberAt::Next),
    ("model token limit", NumberAt::Next),
    ("exceeds the limit", NumberAt::Next),
    ("maximum allowed input length", NumberAt::Next),
    ("max input tokens", NumberAt::Next),
    ("range of input length should be [1,", NumberAt::Next),
];

#[derive(Clone, Copy)]
enum NumberAt {
    /// Right after the words, with no more than "is", "of" and the like between.
    Next,
    /// After the next `>`.
    AfterGreater,
}

/// What may stand between the words and the number.
const LINKS: &[&str] = &["", "is", "is only", "of", "of only", "<", "<="];

/// Numbers outside of this are no window.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// Words by which servers say that a model, or its set-up, takes no tools: Ollama, Bedrock and others; OpenRouter;
/// vLLM; llama.cpp; Gemini and Mistral; Groq; plain validators.
const NO_TOOLS: &[&str] = &[
    "not support tool",
    "not support the tool",
    "not support function call",
    "not support function-call",
    "endpoints found that support tool use",
    "endpoints found that support the provided tool",
    "enable-auto-tool-choice",
    "tools param requires",
    "unsupported param: tools",
    "unsupported parameter: tools",
    "unknown field tools",
    "unknown parameter: tools",
    "tools: extra inputs are not permitted",
    "function calling is not enabled",
    "function calling is not supported",
    "function calling is unsupported",
    "tool calling is not supported",
    "tools is unsupported",
    "tool calling is not enabled",
    "tool use is not supported",
    "tools is not supported",
    "tools are not supported",
];

/// What a server says of something that it does not do.
const DENIALS: &[&str] = &[
    "not support",
    "unsupported",
    "not available",
    "not allowed",
    "not permitted",
    "not enabled",
    "not implemented",
    "disabled",
    "must be false",
    "must be verified to stream",
];

/// Words by which servers refuse what models of their own, or other models, left in the conversation; all of a row stand in the
/// text. Behind them what to do, first what keeps more: Gemini (signatures of calls); DeepSeek and Kimi
/// (`reasoning_content`); Groq and plain validators (fields that they do not know); Anthropic and who speaks its format (thinking);
/// OpenAI's models from GPT-5.6 on, which take tools beside reasoning over the Responses API alone.
const LEFT_BEHIND: &[(&[&str], &[Remedy])] = &[
    (&["thought_signature"], &[Remedy::SignCalls, Remedy::CallsInWords]),
    (&["thought signature"], &[Remedy::SignCalls, Remedy::CallsInWords]),
    (&["reasoning_content", "missing"], &[Remedy::EmptyReasoning, Remedy::CallsInWords]),
    (&["reasoning_content", "passed back"], &[Remedy::EmptyReasoning, Remedy::CallsInWords]),
    (&["reasoning_content", "must"], &[Remedy::EmptyReasoning, Remedy::CallsInWords]),
    (&["reasoning_content"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["reasoning_details"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["extra_content"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["messages", "reasoning", "unsupported"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["redacted_thinking"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["thinking block"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["content[].thinking"], &[Remedy::CallsInWords]),
    (&["signature", "thinking"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["bound to a different conversation"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["tools", "reasoning_effort"], &[Remedy::NoEffort]),
    (&["tools", "reasoning", "/v1/responses"], &[Remedy::NoEffort]),
];

/// What to do about a refusal of what stands in the conversation; nothing where the text does not tell of that.
pub(super) fn remedies_of(plain: &str) -> Vec<Remedy> {
    let says = |words: &[&str]| words.iter().all(|word| plain.contains(word));
    let found = LEFT_BEHIND.iter().find(|(words, _)| says(words));
    found.map(|(_, remedies)| remedies.to_vec()).unwrap_or_default()
}

pub(super) fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace('’', "'").replace("n't", " not");
    text.chars().filter(|c| !matches!(c, '`' | '\'' | '"' | '\\' | '*')).collect()
}

/// Whether a plain text says that the request is larger than the window.
pub(super) fn is_overflow(plain: &str) -> bool {
    let says = |list: &[&str]| list.iter().any(|words| plain.contains(words));
    says(OVERFLOW) && !says(BUSY)
}

/// Whether a plain text says that the model takes no tools.
pub(super) fn is_no_tools(plain: &str) -> bool {
    NO_TOOLS.iter().any(|words| plain.contains(words))
}

/// Whether a plain text says that the roles of messages must take turns, as the chat templates of Gemma and Mistral do.
pub(super) fn is_of_roles(plain: &str) -> bool {
    plain.contains("roles must alternate")
}

/// Whether a plain text is about `tool_choice`. It may err: the request is then tried once without.
pub(super) fn is_no_tool_choice(plain: &str) -> bool {
    plain.contains("tool_choice") || plain.contains("tool choice")
}

/// Whether a plain text says that ids of calls must have nine characters: Mistral, and chat templates of its models.
pub(super) fn is_short_ids(plain: &str) -> bool {
    plain.contains("tool call id") && (plain.contains("length 9") || plain.contains("length of 9"))
}

/// Whether a plain text says that an answer may have one call alone: chat templates of Llama 3.1 and of what is made from it.
pub(super) fn is_one_call(plain: &str) -> bool {
    plain.contains("single tool-call") || plain.contains("single tool call")
}

/// Whether a plain text says that the server does not stream. It may err: the request is then tried once without.
pub(super) fn is_no_streaming(plain: &str) -> bool {
    let names_it = plain
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| matches!(word, "stream" | "streaming" | "streamed"));
    names_it && DENIALS.iter().any(|words| plain.contains(words))
}

/// The window in tokens, where a plain text of an overflow names it.
pub(super) fn limit_of(plain: &str) -> Option<u64> {
    LIMIT.iter().find_map(|(words, place)| {
        let ends = plain.match_indices(words).map(|(at, _)| &plain[at + words.len()..]);
        ends.filter_map(|rest| match place {
            NumberAt::Next => next_number(rest),
            NumberAt::AfterGreater => next_number(rest.split_once('>')?.1),
        })
        .next()
    })
}

/// The number with which a text begins, after a link.
fn next_number(text: &str) -> Option<u64> {
    let at = text.find(|c: char| c.is_ascii_digit())?;
    let link = text[..at].trim_matches(|c: char| c.is_whitespace() || "(:=".contains(c));
    if !LINKS.contains(&link) {
        return None;
    }
    let digits: String = text[at..]
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|number| WINDOWS.contains(number))
}
