//! The words by which servers refuse: larger than the window, no tools, no streaming. Learnt from their sources and from
//! what their users report; see the table in `tests.rs`. Where a server's words for a size are unknown, what they speak of, how it
//! is too much, and the numbers in them decide.
//!
//! All texts are looked at in lower case, without quotation marks and with "n't" as " not" ([`plain`]).

use crate::remedy::Remedy;

/// Words by which servers say that a request is larger than the window, where they would not be known by what they speak of:
/// OpenAI and many others; llama.cpp's three; Ollama; LM Studio; vLLM; Anthropic; Gemini; xAI; TGI's two; Groq and Cerebras;
/// GitHub; Qwen; Baidu; Volcengine; Zhipu.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "exceed_context_size",
    "context size has been exceeded",
    "context shift is disabled",
    "exceeded max context length",
    "when context the overflows",
    "greater than the context length",
    "reached context length",
    "the maximum model length",
    "exceed context limit",
    "input token count",
    "maximum prompt length",
    "inputs tokens + max_new_tokens",
    "inputs must have less than",
    "reduce the length of the messages",
    "reduce the length of the input",
    "prompt token count",
    "range of input length should be",
    "max input characters",
    "exceed max message tokens",
    "more than max tokens allowed",
];

/// Words by which a server says that it is merely busy, or that an account has used up something, among which "too many tokens"
/// may stand, too.
const BUSY: &[&str] = &[
    "throttl",
    "please wait",
    "per min",
    "per hour",
    "per day",
    "per second",
    "daily",
    "monthly",
    "rate limit",
    "rate-limit",
    "rate_limit",
    "too many requests",
    "concurren",
    "quota",
    "credit",
    "billing",
    "insufficient",
    "timed out",
    "timeout",
    "频率",
    "速率",
    "每分钟",
    "限流",
    "并发",
    "余额",
    "额度",
    "配额",
];

/// What a request is too large in: in English, Chinese, Japanese, Korean, Russian, and what Spanish, Portuguese, French, Italian and
/// German have in common.
const SIZED: &[&str] = &[
    "context",
    "prompt",
    "input",
    "message",
    "token",
    "conversation",
    "max_seq_len",
    "sequence length",
    "request size",
    "request body",
    "request entity",
    "request too large",
    "request is too large",
    "request_too_large",
    "payload",
    "上下文",
    "输入",
    "长度",
    "请求体",
    "提示",
    "コンテキスト",
    "トークン",
    "入力",
    "컨텍스트",
    "토큰",
    "контекст",
    "токен",
    "contexto",
    "contexte",
    "contesto",
    "kontext",
];

/// What can be said of nothing else.
const CONTEXT: &[&str] = &["context window", "context length", "context size", "context_length", "上下文"];

/// That it is too much, in the same languages.
const EXCESS: &[&str] = &[
    "exceed",
    "too long",
    "too large",
    "too big",
    "too many",
    "longer than",
    "larger than",
    "does not fit",
    "do not fit",
    "cannot fit",
    "overflow",
    "超过",
    "超出",
    "超长",
    "超限",
    "过长",
    "过大",
    "过多",
    "太长",
    "超え",
    "長すぎ",
    "초과",
    "превыш",
    "слишком",
    "excede",
    "excedid",
    "supera",
    "dépass",
    "trop long",
    "überschr",
    "zu lang",
];

/// What else can be too large, or too many: of it the size of a request says nothing.
const OTHER_SIZES: &[&str] = &[
    "image",
    "picture",
    "pixel",
    "audio",
    "video",
    "file",
    "pdf",
    "document",
    "attachment",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max tokens must be",
    "output token",
    "completion token",
    "tools",
    "tool call",
    "tool_call",
    "function",
    "schema",
    "array",
    "stop sequence",
    "metadata",
    "prompt_cache_key",
    "too small",
];

/// Units of sizes that are none in tokens.
const NOT_IN_TOKENS: &[&str] =
    &["byte", "message size", "character", "字符", "字节", " mb", " kb", "mib", "kib"];

/// Where servers name the window: the words before the number, most telling first. Differences ("by 12 tokens"), what
/// was asked for, and limits of the answer are none of them.
const LIMIT: &[(&str, NumberAt)] = &[
    ("prompt is too long:", NumberAt::AfterGreater),
    ("exceed context limit:", NumberAt::AfterGreater),
    ("context length", NumberAt::Next),
    ("context window", NumberAt::Next),
    ("context size", NumberAt::Next),
    ("context_length", NumberAt::Next),
    ("max_seq_len", NumberAt::Next),
    ("maximum model length", NumberAt::Next),
    ("too large for model with", NumberAt::Next),
    ("maximum prompt length", NumberAt::Next),
    ("maximum number of tokens allowed", NumberAt::Next),
    ("max_new_tokens must be", NumberAt::Next),
    ("inputs must have less than", NumberAt::Next),
    ("limit for this model", NumberAt::Next),
    ("model token limit", NumberAt::Next),
    ("exceeds the limit", NumberAt::Next),
    ("configured limit", NumberAt::Next),
    ("while limit", NumberAt::Next),
    ("maximum allowed input length", NumberAt::Next),
    ("maximum input length", NumberAt::Next),
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
const LINKS: &[&str] =
    &["", "is", "is only", "of", "of only", "is limited to", "only supports", "limit", "limit of", "<", "<="];

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
/// OpenAI's Responses API (encrypted reasoning, and items without those that they belong to); its models from GPT-5.6 on, which
/// take tools beside reasoning over that alone.
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
    (&["encrypted content"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["encrypted_content"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["required following item"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["without its required", "item"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["items are not persisted"], &[Remedy::NoState, Remedy::CallsInWords]),
    (&["tool output found for function call"], &[Remedy::CallsInWords]),
    (&["tool call found for function call"], &[Remedy::CallsInWords]),
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

fn says(plain: &str, list: &[&str]) -> bool {
    list.iter().any(|words| plain.contains(words))
}

/// Whether a plain text says that the request is larger than the window.
pub(super) fn is_overflow(plain: &str) -> bool {
    if says(plain, BUSY) {
        return false;
    }
    if says(plain, OVERFLOW) {
        return true;
    }
    let sized = says(plain, CONTEXT) || (says(plain, SIZED) && !says(plain, OTHER_SIZES));
    sized && (says(plain, EXCESS) || two_sizes(plain))
}

/// Whether a text has two numbers that can be sizes of a request, one larger than the other.
fn two_sizes(plain: &str) -> bool {
    let mut sizes = numbers(plain).filter(|number| WINDOWS.contains(number));
    let first = sizes.next();
    first.is_some_and(|first| sizes.any(|size| size != first))
}

/// The whole numbers of a text that stand alone: no part of a name, a date or a fraction.
fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    let of_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ',' | ':' | '/');
    let words = text.split(move |c: char| !of_number(c)).map(|word| word.trim_matches(['.', ',', ':']));
    words.filter_map(|word| {
        let (digits, unit) = match word.strip_suffix('k') {
            Some(thousands) => (thousands, 1_000),
            None => (word, 1),
        };
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        digits.replace([',', '_'], "").parse::<u64>().ok()?.checked_mul(unit)
    })
}

/// Whether a plain text says that one request alone is more than a minute's allowance: "Limit 10000, Requested 15000", as OpenAI
/// and Groq do. It will never be taken as it is.
pub(super) fn is_beyond_rate(plain: &str) -> bool {
    let number = |words: &str| {
        let ends = plain.match_indices(words).map(|(at, _)| &plain[at + words.len()..]);
        ends.filter_map(|rest| numbers(rest.split_whitespace().next()?).next()).next()
    };
    number("limit ").zip(number("requested ")).is_some_and(|(limit, requested)| requested > limit)
}

/// Whether the kind of an error says that the model wrote a tool call, or another piece of its answer, that its server could
/// not read: Groq.
pub(super) fn is_bad_call(kind: &str) -> bool {
    says(kind, &["tool_use_failed", "output_parse_failed"])
}

/// Whether a plain text says that the provider's rules about content are what it refuses for: OpenAI, Azure, Anthropic, Gemini,
/// OpenRouter, DeepSeek, Qwen, Zhipu.
pub(super) fn is_of_content(plain: &str) -> bool {
    says(
        plain,
        &[
            "content_filter",
            "content filter",
            "content management policy",
            "content_policy",
            "content policy",
            "usage policy",
            "usage policies",
            "safety system",
            "prohibited_content",
            "requires moderation",
            "was flagged",
            "content exists risk",
            "data_inspection_failed",
            "inappropriate content",
            "unsafe or sensitive",
            "敏感",
            "违规",
        ],
    )
}

/// Whether a plain text says that the key is wrong, where the status does not: Gemini, xAI.
pub(super) fn is_of_key(plain: &str) -> bool {
    says(plain, &["api key not valid", "api_key_invalid", "incorrect api key", "invalid api key"])
}

/// Whether a plain text says that the server does not know the model.
pub(super) fn is_of_model(plain: &str) -> bool {
    says(
        plain,
        &[
            "model_not_found",
            "model not found",
            "no such model",
            "unknown model",
            "invalid model",
            "not a valid model",
            "model not exist",
            "模型不存在",
        ],
    ) || (plain.contains("model") && says(plain, &["does not exist", "not found"]))
}

/// Whether a plain text is about a picture.
pub(super) fn is_of_pictures(plain: &str) -> bool {
    says(plain, &["image", "picture", "vision", "multimodal"])
}

/// Whether a plain text says that a field of the request is unknown or has a wrong value.
pub(super) fn is_of_field(plain: &str) -> bool {
    says(
        plain,
        &[
            "unsupported parameter",
            "unsupported value",
            "unknown parameter",
            "unrecognized request argument",
            "unrecognized field",
            "unknown field",
            "extra inputs are not permitted",
            "extra_forbidden",
            "is deprecated for this model",
        ],
    )
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

/// Whether a plain text says that the server does not know the limit of an answer by that name: OpenAI's newer models
/// (`max_tokens`), older servers and plain validators (`max_completion_tokens`). What is wrong with its value is none of that.
pub(super) fn is_other_limit(plain: &str) -> bool {
    const UNKNOWN: [&str; 5] = ["unrecognized", "unknown", "extra inputs", "extra_forbidden", "unexpected"];
    const OF_VALUE: [&str; 5] = ["too large", "at most", "greater than", "less than", "exceed"];
    says(plain, &["max_tokens", "max_completion_tokens"])
        && (says(plain, DENIALS) || says(plain, &UNKNOWN))
        && !says(plain, &OF_VALUE)
}

/// Whether a plain text says that an answer may have one call alone: chat templates of Llama 3.1 and of what is made from it.
pub(super) fn is_one_call(plain: &str) -> bool {
    plain.contains("single tool-call") || plain.contains("single tool call")
}

/// Whether a plain text is about breakpoints for a cache: OpenAI's and what goes with them, Anthropic's, Bedrock's words. It may
/// err: the request is then tried once without.
pub(super) fn is_no_breakpoints(plain: &str) -> bool {
    ["prompt_cache_", "cache_control", "prompt caching"].iter().any(|words| plain.contains(words))
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
    if says(plain, NOT_IN_TOKENS) {
        return None;
    }
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
