//! Refusals in the words of real servers.

use serde_json::{Value, json};

use super::Answer;

/// A server whose words a refusal is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    OpenAi,
    /// OpenAI's own, of the newer models: it names no window.
    OpenAiNewer,
    OpenRouter,
    Vllm,
    LlamaCpp,
    Ollama,
    LmStudio,
    /// Anthropic, for a request that is too large by itself.
    Anthropic,
    /// Anthropic, for one that is too large with its answer.
    AnthropicSum,
    Gemini,
    Bedrock,
    Xai,
    Cohere,
    /// Text Generation Inference.
    Tgi,
    Mistral,
    LlamaCppPython,
    /// LM Studio with its engine for Apple's chips.
    LmStudioMlx,
    SgLang,
    SiliconFlow,
    Cloudflare,
    /// Kimi, which also limits the bytes of a request.
    KimiBytes,
    /// A gateway that speaks Chinese alone.
    Chinese,
}

/// A refused request, in tokens.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    window: u64,
    input: u64,
    answer: u64,
}

impl Wording {
    pub const ALL: &[Self] = &[
        Self::OpenAi,
        Self::OpenAiNewer,
        Self::OpenRouter,
        Self::Vllm,
        Self::LlamaCpp,
        Self::Ollama,
        Self::LmStudio,
        Self::Anthropic,
        Self::AnthropicSum,
        Self::Gemini,
        Self::Bedrock,
        Self::Xai,
        Self::Cohere,
        Self::Tgi,
        Self::Mistral,
        Self::LlamaCppPython,
        Self::LmStudioMlx,
        Self::SgLang,
        Self::SiliconFlow,
        Self::Cloudflare,
        Self::KimiBytes,
        Self::Chinese,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiNewer => "openai-newer",
            Self::OpenRouter => "openrouter",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "ollama",
            Self::LmStudio => "lmstudio",
            Self::Anthropic => "anthropic",
            Self::AnthropicSum => "anthropic-sum",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Xai => "xai",
            Self::Cohere => "cohere",
            Self::Tgi => "tgi",
            Self::Mistral => "mistral",
            Self::LlamaCppPython => "llama-cpp-python",
            Self::LmStudioMlx => "lmstudio-mlx",
            Self::SgLang => "sglang",
            Self::SiliconFlow => "siliconflow",
            Self::Cloudflare => "cloudflare",
            Self::KimiBytes => "kimi-bytes",
            Self::Chinese => "chinese",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wording| wording.name() == name)
    }

    /// Whether its words for a request that is too large name the window.
    pub fn names_window(self) -> bool {
        !matches!(self, Self::OpenAiNewer | Self::Ollama | Self::Bedrock | Self::KimiBytes | Self::Chinese)
    }

    /// The refusal of a request that is larger than the window: its tokens, those of its answer, the window's.
    pub fn overflow(self, window: u64, input: u64, answer: u64) -> Answer {
        let sizes = Sizes { window, input, answer };
        let status = match self {
            Self::Tgi => 422,
            Self::LlamaCppPython => 500,
            _ => 400,
        };
        Answer::raw(status, "application/json", self.overflow_body(sizes).to_string())
    }

    fn overflow_body(self, Sizes { window, input, answer }: Sizes) -> Value {
        let sum = input + answer;
        match self {
            Self::OpenAi => open_ai(
                "context_length_exceeded",
                &format!(
                    "This model's maximum context length is {window} tokens. However, your messages resulted in \
                     {input} tokens. Please reduce the length of the messages."
                ),
            ),
            Self::OpenAiNewer => open_ai(
                "context_length_exceeded",
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
            Self::OpenRouter => json!({"error": {"code": 400, "message": format!(
                "This endpoint's maximum context length is {window} tokens. However, you requested about {sum} tokens \
                 ({input} of text input, {answer} in the output). Please reduce the length of either one."
            )}}),
            Self::Vllm => {
                json!({"object": "error", "type": "BadRequestError", "code": 400, "message": format!(
                    "This model's maximum context length is {window} tokens. However, you requested {sum} tokens ({input} \
                     in the messages, {answer} in the completion). Please reduce the length of the messages or completion."
                )})
            }
            Self::LlamaCpp => json!({"error": {
                "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": input, "n_ctx": window,
                "message": format!(
                    "request ({input} tokens) exceeds the available context size ({window} tokens), try increasing it"
                ),
            }}),
            Self::Ollama => json!({"error": {
                "message": "the input length exceeds the context length", "type": "api_error",
            }}),
            Self::LmStudio => json!({"error": format!(
                "Trying to keep the first {input} tokens when context the overflows. However, the model is loaded with \
                 context length of only {window} tokens, which is not enough."
            )}),
            Self::Anthropic => anthropic(
                "invalid_request_error",
                &format!("prompt is too long: {input} tokens > {window} maximum"),
            ),
            Self::AnthropicSum => anthropic(
                "invalid_request_error",
                &format!(
                    "input length and `max_tokens` exceed context limit: {input} + {answer} > {window}, decrease input \
                     length or `max_tokens` and try again"
                ),
            ),
            Self::Gemini => json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!(
                "The input token count ({input}) exceeds the maximum number of tokens allowed ({window})."
            )}}]),
            Self::Bedrock => json!({"message": "Input is too long for requested model."}),
            Self::Xai => json!({"code": "invalid-argument", "error": format!(
                "This model's maximum prompt length is {window} but the request contains {input} tokens."
            )}),
            Self::Cohere => json!({"message": format!(
                "too many tokens: size limit exceeded by {} tokens. Try using shorter or fewer inputs. The limit for \
                 this model is {window} tokens.",
                sum.saturating_sub(window)
            )}),
            Self::Tgi => json!({"error_type": "validation", "error": format!(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {window}. Given: {input} \
                 `inputs` tokens and {answer} `max_new_tokens`"
            )}),
            Self::Mistral => json!({"object": "error", "code": 3051, "message": format!(
                "Prompt contains {input} tokens and 0 draft tokens, too large for model with {window} maximum context \
                 length"
            )}),
            _ => self.further_overflow_body(Sizes { window, input, answer }),
        }
    }

    /// Those whose words were met last.
    fn further_overflow_body(self, Sizes { window, input, answer }: Sizes) -> Value {
        let sum = input + answer;
        match self {
            // `Llama._create_completion` of llama-cpp-python raises it, and its server answers 500.
            Self::LlamaCppPython => json!({"error": {
                "type": "internal_server_error", "param": null, "code": null,
                "message": format!("Requested tokens ({input}) exceed context window of {window}"),
            }}),
            Self::LmStudioMlx => json!({"error": {"message": format!(
                "Input does not fit in context length. The input has {input} tokens, but the context length only \
                 supports {window} tokens."
            )}}),
            // `TokenizerManager._validate_one_request` of sgl-project/sglang.
            Self::SgLang => {
                json!({"object": "error", "type": "BadRequestError", "code": 400, "message": format!(
                    "Requested token count exceeds the model's maximum context length of {window} tokens. You requested a \
                     total of {sum} tokens: {input} tokens from the input messages and {answer} tokens for the completion."
                )})
            }
            Self::SiliconFlow => json!({"code": 20_015, "data": null, "message": format!(
                "length of prompt_tokens ({sum}) must be less than max_seq_len ({window})."
            )}),
            // https://developers.cloudflare.com/workers-ai/platform/errors/
            Self::Cloudflare => json!({"success": false, "result": {}, "messages": [], "errors": [{
                "code": 5021, "message": format!(
                    "AiError: AiError: The estimated number of input and maximum output tokens ({sum}) exceeded this \
                     model context window limit ({window})."
                ),
            }]}),
            Self::KimiBytes => json!({"error": {"type": "invalid_request_error", "message": format!(
                "total message size {} exceeds limit {}", input * 4, window * 4
            )}}),
            Self::Chinese => json!({"error": {
                "type": "invalid_request_error", "message": "上下文过长，请压缩上下文",
            }}),
            _ => Value::Null,
        }
    }

    /// The refusal of a request with tools by a model that takes none. Those that have no words of their own for it speak as
    /// OpenAI does.
    pub fn no_tools(self) -> Answer {
        let message = match self {
            Self::OpenRouter => {
                "No endpoints found that support tool use. To learn more about provider routing, visit: \
                 https://openrouter.ai/docs/provider-routing"
            }
            Self::Vllm => {
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"
            }
            Self::LlamaCpp => "tools param requires --jinja flag",
            Self::Ollama => "registry.ollama.ai/library/llama3:latest does not support tools",
            Self::Gemini => "Function calling is not enabled for models/gemma-3-27b-it",
            Self::Bedrock => "This model doesn't support tool use.",
            Self::Mistral => "Function calling is not enabled for this model",
            _ => "Unsupported parameter: 'tools' is not supported with this model.",
        };
        let status = match self {
            Self::OpenRouter => 404,
            Self::LlamaCpp => 500,
            _ => 400,
        };
        Answer::raw(status, "application/json", json!({"error": {"message": message}}).to_string())
    }
}

/// An error in OpenAI's form.
fn open_ai(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}})
}

/// An error in Anthropic's form.
pub(super) fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
}
