//! What refusals mean, in the words of each server.

use super::*;

fn of(status: u16, body: &str) -> ModelError {
    from_status(status, &HeaderMap::new(), body.as_bytes()).error
}

/// An overflow of each server: status, body, the window that it names.
const OVERFLOWS: &[(&str, u16, &str, Option<u64>)] = &[
    (
        "OpenAI",
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Some(8_192),
    ),
    (
        "OpenAI, newer",
        400,
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again."}}"#,
        None,
    ),
    (
        "OpenAI, by its code alone",
        400,
        r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        None,
    ),
    (
        "OpenAI, one string",
        400,
        r#"{"error":{"message":"Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.","type":"invalid_request_error","code":"string_above_max_length"}}"#,
        None,
    ),
    (
        "OpenRouter",
        400,
        r#"{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output). Please reduce the length of either one.","code":400}}"#,
        Some(32_768),
    ),
    (
        "OpenRouter, passed on",
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}"}}}"#,
        Some(200_000),
    ),
    (
        "Anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_1"}"#,
        Some(200_000),
    ),
    (
        "Anthropic, with the answer",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 204658, decrease input length or `max_tokens` and try again"}}"#,
        Some(204_658),
    ),
    (
        "Anthropic, by bytes",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size of 33554432 bytes"}}"#,
        None,
    ),
    ("Ollama", 400, r#"{"error":{"message":"the input length exceeds the context length"}}"#, None),
    (
        "Ollama, other",
        500,
        r#"{"error":"prompt too long; exceeded max context length by 1200 tokens"}"#,
        None,
    ),
    (
        "llama.cpp",
        400,
        r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        Some(4_096),
    ),
    (
        "llama.cpp, by words alone",
        400,
        r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"}}"#,
        Some(4_096),
    ),
    (
        "llama.cpp, older",
        500,
        r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
        None,
    ),
    (
        "vLLM",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 2048 tokens. However, you requested 3000 tokens (2500 in the messages, 500 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","code":400}"#,
        Some(2_048),
    ),
    (
        "vLLM, the answer",
        400,
        r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 200 input tokens (8192 > 4096 - 200).","type":"BadRequestError","code":400}}"#,
        Some(4_096),
    ),
    (
        "vLLM, newer",
        400,
        r#"{"error":{"message":"You passed 3997 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=3997)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
        Some(4_096),
    ),
    (
        "vLLM, older",
        400,
        r#"{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096."}"#,
        Some(4_096),
    ),
    (
        "LM Studio",
        400,
        r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
        Some(4_096),
    ),
    (
        "LM Studio, other",
        400,
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
        None,
    ),
    (
        "Gemini",
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        Some(1_048_576),
    ),
    (
        "Gemini, other",
        400,
        r#"{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed 1,048,576.","status":"INVALID_ARGUMENT"}}"#,
        Some(1_048_576),
    ),
    (
        "xAI",
        400,
        r#"{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
        Some(131_072),
    ),
    ("Bedrock", 400, r#"{"message":"Input is too long for requested model."}"#, None),
    (
        "Bedrock, other",
        400,
        r#"{"message":"Too many input tokens. Max input tokens: 8192, request input token count: 11000"}"#,
        Some(8_192),
    ),
    (
        "Cohere",
        400,
        r#"{"id":"bda4","message":"too many tokens: size limit exceeded by 19296 tokens. Try using shorter or fewer inputs. The limit for this model is 132000 tokens."}"#,
        Some(132_000),
    ),
    (
        "TGI",
        422,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`","error_type":"validation"}"#,
        Some(4_096),
    ),
    (
        "TGI, other",
        422,
        r#"{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 5000","error_type":"validation"}"#,
        Some(1_024),
    ),
    (
        "Mistral",
        400,
        r#"{"object":"error","message":"Prompt contains 200000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_prompt","code":3051}"#,
        Some(131_072),
    ),
    (
        "Together",
        422,
        r#"{"error":{"message":"The input (516368 tokens) is longer than the model's context length (262144 tokens)."}}"#,
        Some(262_144),
    ),
    (
        "Fireworks",
        400,
        r#"{"error":{"message":"The prompt is too long: 1000008, model maximum context length: 131071"}}"#,
        Some(131_071),
    ),
    (
        "Groq",
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        None,
    ),
    (
        "Kimi",
        400,
        r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"}}"#,
        Some(262_144),
    ),
    (
        "GitHub",
        400,
        r#"{"error":{"message":"prompt token count of 200000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
        Some(128_000),
    ),
    (
        "Qwen",
        400,
        r#"{"error":{"message":"Range of input length should be [1, 258048]","code":"invalid_parameter_error"}}"#,
        Some(258_048),
    ),
    ("MiniMax", 400, r#"{"error":{"message":"invalid params, context window exceeds limit (2013)"}}"#, None),
    (
        "LM Studio, MLX",
        400,
        r#"{"error":{"message":"Input does not fit in context length. The input has 359277 tokens, but the context length only supports 262144 tokens."}}"#,
        Some(262_144),
    ),
    (
        "llama.cpp, without room to shift",
        500,
        r#"{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}"#,
        None,
    ),
    (
        "llama-cpp-python",
        500,
        r#"{"error":{"message":"Requested tokens (9437) exceed context window of 8192","type":"internal_server_error","param":null,"code":null}}"#,
        Some(8_192),
    ),
    (
        "ONNX Runtime",
        500,
        r#"{"error":"Completion failure max_length (55160) cannot be greater than model context_length (40960)"}"#,
        Some(40_960),
    ),
    (
        "SGLang",
        400,
        r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 70000 tokens: 6000 tokens from the input messages and 64000 tokens for the completion.","type":"BadRequestError","code":400}"#,
        Some(32_768),
    ),
    (
        "TensorRT-LLM",
        400,
        r#"{"message":"Prompt length (9000) + query length (1) exceeds maximum input length (8192)"}"#,
        Some(8_192),
    ),
    (
        "SiliconFlow",
        400,
        r#"{"code":20015,"message":"length of prompt_tokens (6449) must be less than max_seq_len (4096).","data":null}"#,
        Some(4_096),
    ),
    (
        "Cloudflare",
        400,
        r#"{"errors":[{"message":"AiError: AiError: The estimated number of input and maximum output tokens (24584) exceeded this model context window limit (24000).","code":5021}],"success":false,"result":{},"messages":[]}"#,
        Some(24_000),
    ),
    (
        "Cerebras",
        400,
        r#"{"message":"Please reduce the length of the messages or completion. Current length is 12162 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
        Some(8_192),
    ),
    (
        "Groq, without its code",
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages"}}"#,
        None,
    ),
    (
        "OpenAI, of GPT-5",
        400,
        r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Some(272_000),
    ),
    (
        "OpenAI, more than a minute's allowance",
        429,
        r#"{"error":{"message":"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 41234. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        None,
    ),
    (
        "Groq, more than a minute's allowance",
        413,
        r#"{"error":{"message":"Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9001, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        None,
    ),
    (
        "Kimi, by bytes",
        400,
        r#"{"error":{"message":"total message size 10176584 exceeds limit 2097152","type":"invalid_request_error"}}"#,
        None,
    ),
    ("Z.ai", 400, r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#, None),
    (
        "Volcengine",
        400,
        r#"{"error":{"code":"OutofContextError","message":"Total tokens of image and text exceed max message tokens. Request id: 0217","type":"BadRequest"}}"#,
        None,
    ),
    ("Qianfan", 400, r#"{"error_code":336007,"error_msg":"the max input characters is 11200"}"#, None),
    (
        "MiniMax, beside an answer",
        400,
        r#"{"base_resp":{"status_code":1039,"status_msg":"token limit exceeded"}}"#,
        None,
    ),
    ("a gateway in Chinese", 400, r#"{"error":{"message":"错误：上下文过长，请减少输入"}}"#, None),
    ("another one", 400, r#"{"message":"输入内容的 token 数超过模型的最大限制"}"#, None),
    ("one in Japanese", 400, r#"{"detail":"コンテキスト長を超えています"}"#, None),
    ("one in German", 422, r#"{"detail":"Die Anfrage überschreitet das Kontextfenster"}"#, None),
    (
        "a server of nobody's",
        400,
        r#"{"reason":"this deployment is set up for 8192 tokens of context, yours has 9011"}"#,
        None,
    ),
    ("text alone", 400, "Conversation too long, start a new one", None),
    (
        "a gateway before uvicorn",
        400,
        r#"{"title":"Bad Request","status":400,"detail":"Request body exceeds the configured limit of 1048576 bytes"}"#,
        None,
    ),
    ("a proxy", 413, "<html><title>413 Request Entity Too Large</title></html>", None),
    ("a mute one", 413, "", None),
];

#[test]
fn overflow_and_the_window_are_known_in_the_words_of_each_server() {
    for (server, status, body, limit) in OVERFLOWS {
        match of(*status, body) {
            ModelError::ContextOverflow { limit: found, .. } => assert_eq!(found, *limit, "{server}"),
            other => panic!("{server}: {other:?}"),
        }
        if let Ok(value) = serde_json::from_str::<Value>(body)
            && !matches!(status, 413 | 429)
        {
            assert_eq!(from_object(&value).code(), "context_overflow", "{server}, within a stream");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_only_sounds_like_an_overflow_is_none() {
    let cases = [
        (
            429,
            "rate_limited",
            r#"{"error":{"message":"Request too large for gpt-4 on tokens per min (TPM): Limit 10000","code":"rate_limit_exceeded"}}"#,
        ),
        (
            400,
            "rate_limited",
            r#"{"error":{"message":"Too many tokens, please wait before trying again.","type":"ThrottlingException"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"error":{"message":"max_tokens is too large: 32000. This model supports at most 16384 completion tokens","param":"max_tokens"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"message":"too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8192."}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content: Input should be a valid list"}}"#,
        ),
        (500, "overloaded", r#"{"error":"model runner crashed unexpectedly"}"#),
        (
            429,
            "rate_limited",
            r#"{"error":{"message":"Rate limit reached for model `x` on tokens per minute (TPM): Limit 15000, Used 11972, Requested 4351. Please try again in 7.289s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        (
            402,
            "bad_request",
            r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 6843","code":402}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"error":{"message":"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.","param":"tools","code":"array_above_max_length"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"error":{"message":"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 2048 instead.","param":"tools[0].function.description","code":"string_above_max_length"}}"#,
        ),
        (
            422,
            "bad_request",
            r#"{"detail":[{"type":"less_than_equal","loc":["body","temperature"],"msg":"Input should be less than or equal to 2","input":3}]}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"error":{"message":"`max_tokens` must be greater than `thinking.budget_tokens` (16000 > 8192)"}}"#,
        ),
        (
            404,
            "bad_request",
            r#"{"error":{"message":"The model `llama-3-8192` does not exist: 404 of 2026-11-27"}}"#,
        ),
        (
            400,
            "bad_request",
            r#"{"error":{"message":"request req_20261127 to model-4096 of 2026-11-27 10:00:00 failed in 0.81234 s: bad token at 12"}}"#,
        ),
        (500, "overloaded", r#"{"error":"CUDA out of memory: tried to allocate 2048 MiB of 8192"}"#),
        (400, "rate_limited", r#"{"error":{"message":"Too many tokens per day","type":"throttling"}}"#),
        (400, "bad_request", r#"{"error":{"message":"您的账户余额不足，输入 token 已超过额度"}}"#),
    ];
    for (status, code, body) in cases {
        assert_eq!(of(status, body).code(), code, "{body}");
    }
}

#[test]
fn a_model_without_tools_is_known_in_the_words_of_each_server() {
    let cases = [
        (
            "Ollama",
            400,
            r#"{"error":{"message":"registry.ollama.ai/library/llama3:latest does not support tools","type":"api_error"}}"#,
        ),
        (
            "OpenRouter",
            404,
            r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}"#,
        ),
        (
            "vLLM",
            400,
            r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}"#,
        ),
        (
            "llama.cpp",
            500,
            r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        ),
        (
            "llama.cpp, older",
            500,
            r#"{"error":{"code":500,"message":"Unsupported param: tools","type":"server_error"}}"#,
        ),
        ("Bedrock", 400, r#"{"message":"This model doesn't support tool use."}"#),
        (
            "Gemini",
            400,
            r#"{"error":{"code":400,"message":"Function calling is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}"#,
        ),
        (
            "Mistral",
            400,
            r#"{"object":"error","message":"Function calling is not enabled for this model","type":"invalid_request_error"}"#,
        ),
        (
            "Groq",
            400,
            r#"{"error":{"message":"`tool calling` is not supported with this model","type":"invalid_request_error"}}"#,
        ),
        ("DeepSeek", 400, r#"{"error":{"message":"deepseek-reasoner does not support Function Calling"}}"#),
        (
            "OpenAI",
            400,
            r#"{"error":{"message":"Unsupported parameter: 'tools' is not supported with this model.","param":"tools","code":"unsupported_parameter"}}"#,
        ),
        ("a validator", 400, r#"{"error":{"message":"tools: Extra inputs are not permitted"}}"#),
    ];
    for (server, status, body) in cases {
        assert_eq!(of(status, body).code(), "no_tools", "{server}");
    }
    let bad_schema = r#"{"error":{"message":"tools.0.custom.input_schema: JSON schema is invalid","type":"invalid_request_error"}}"#;
    assert_eq!(of(400, bad_schema).code(), "bad_request");
}

#[test]
fn a_server_without_streaming_is_known_by_its_words() {
    let refuses = |status, body: &str| {
        from_status(status, &HeaderMap::new(), body.as_bytes()).remedies == [Remedy::NoStream]
    };
    for body in [
        r#"{"error":{"message":"Unsupported value: 'stream' does not support true with this model. Supported values are: false.","param":"stream","code":"unsupported_value"}}"#,
        r#"{"error":{"message":"Your organization must be verified to stream this model.","param":"stream"}}"#,
        r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"Your organization must be verified to stream this model.\"}}"}}}"#,
        r#"{"detail":"Streaming is not supported for this model"}"#,
        r#"{"message":"This model doesn't support tool use in streaming mode."}"#,
        r#"{"error":"stream must be false"}"#,
    ] {
        assert!(refuses(400, body), "{body}");
    }
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"Context length exceeded: streaming is not supported over 8192 tokens."}}"#,
        ),
        (400, r#"{"error":{"message":"image format is not supported"}}"#),
        (500, r#"{"error":{"message":"the upstream broke: streaming is not available"}}"#),
        (429, r#"{"error":{"message":"slow down"}}"#),
    ] {
        assert!(!refuses(status, body), "{body}");
    }
}

#[test]
fn a_refusal_says_what_it_is_for_and_what_to_do() {
    use RefusalCause::{Account, Address, Content, Field, Picture, Unknown};
    let cases = [
        (404, "", Address),
        (405, r#"{"detail":"Method Not Allowed"}"#, Address),
        (307, "", Address),
        (
            400,
            r#"{"error":{"message":"The model `gpt-9` does not exist","code":"model_not_found"}}"#,
            Address,
        ),
        (400, r#"{"error":{"message":"some-model is not a valid model ID","code":400}}"#, Address),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model.","param":"temperature","code":"unsupported_value"}}"#,
            Field,
        ),
        (
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","top_k"],"msg":"Extra inputs are not permitted"}]}"#,
            Field,
        ),
        (400, r#"{"error":{"message":"Model only accepts text, image_url is unknown to it"}}"#, Picture),
        (
            400,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            Content,
        ),
        (400, r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error"}}"#, Content),
        (
            403,
            r#"{"error":{"code":403,"message":"The input was flagged by OpenRouter","metadata":{"reasons":["x"]}}}"#,
            Content,
        ),
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#, Account),
        (400, r#"{"error":{"message":"no","param":"messages[3].content"}}"#, Unknown),
        (400, "", Unknown),
        (422, r#"{"detail":"unprocessable"}"#, Unknown),
    ];
    for (status, body, expected) in cases {
        match of(status, body) {
            ModelError::BadRequest { cause, .. } => {
                assert_eq!(cause, expected, "{body}");
                assert_eq!(cause.hint().contains("base_url"), cause == Address, "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    for body in [
        r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
        r#"{"code":"invalid-argument","error":"Incorrect API key provided: xa***. You can obtain an API key from console.x.ai."}"#,
    ] {
        assert_eq!(of(400, body).code(), "auth", "{body}");
    }
}

#[test]
fn a_call_that_the_server_could_not_read_is_tried_again_and_its_words_are_not_told() {
    // https://console.groq.com/docs/tool-use
    for body in [
        r#"{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=memory_search{\"query\": \"secret\"}</function>"}}"#,
        r#"{"error":{"message":"tool call validation failed: parameters for tool secret did not match schema: errors: [`/n`: 9000 exceeds the maximum 4096]","type":"invalid_request_error","code":"tool_use_failed"}}"#,
        r#"{"error":{"message":"Parsing failed. The model generated output that could not be parsed. secret","type":"invalid_request_error","code":"output_parse_failed","status_code":400}}"#,
    ] {
        for error in [of(400, body), from_object(&serde_json::from_str(body).unwrap())] {
            assert_eq!((error.code(), error.is_transient()), ("protocol", true), "{body}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}

#[test]
fn a_server_that_takes_no_breakpoints_is_known_by_its_words() {
    let remedies = |body: &str| from_status(400, &HeaderMap::new(), body.as_bytes()).remedies;
    for body in [
        r#"{"error":{"message":"prompt_cache_breakpoint is not supported on this model","code":"invalid_parameter"}}"#,
        r#"{"error":{"message":"Unknown parameter: 'messages[1].content[0].prompt_cache_breakpoint'.","code":"unknown_parameter"}}"#,
        r#"{"error":{"message":"Unsupported parameter.","param":"prompt_cache_options"}}"#,
        r#"{"message":"Validation: Unsupported parameter(s): `prompt_cache_key`","type":"Bad Request"}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"system.0.cache_control: Extra inputs are not permitted"}}"#,
        r#"{"message":"You invoked an unsupported model or your request did not allow prompt caching."}"#,
    ] {
        assert_eq!(remedies(body), [Remedy::NoBreakpoints], "{body}");
    }
    let overflow =
        r#"{"error":{"message":"prompt is too long: 9000 tokens > 8192 maximum (prompt caching)"}}"#;
    assert_eq!(remedies(overflow), []);
    assert_eq!(remedies(r#"{"error":{"message":"no"}}"#), []);
}

#[test]
fn statuses_are_typed() {
    let cases = [
        (401, "auth"),
        (403, "auth"),
        (429, "rate_limited"),
        (400, "bad_request"),
        (402, "bad_request"),
        (404, "bad_request"),
        (422, "bad_request"),
        (302, "bad_request"),
        (408, "overloaded"),
        (500, "overloaded"),
        (502, "overloaded"),
        (503, "overloaded"),
        (529, "overloaded"),
    ];
    for (status, code) in cases {
        assert_eq!(of(status, r#"{"error":{"message":"m"}}"#).code(), code, "{status}");
        assert_eq!(of(status, "").code(), code, "{status}");
    }
}

#[test]
fn the_servers_words_are_passed_on_in_one_short_line() {
    let message = |body: &str| of(400, body).to_string();
    assert!(message(r#"{"error":{"message":"a\nb"}}"#).ends_with("HTTP 400: a b"));
    assert!(message(r#"{"detail":[{"msg":"field required"}]}"#).contains("field required"));
    assert!(message(r#"{"error":"plain"}"#).ends_with("HTTP 400: plain"));
    assert!(message("oops").ends_with("HTTP 400: oops"));
    assert!(message("").ends_with("HTTP 400 without a word"));
    assert!(message("<!DOCTYPE html><p>x").ends_with("an HTML page"));
    assert!(message(&"x".repeat(10_000)).len() < 800);
}

#[test]
fn retry_after_is_read_in_all_its_forms() {
    let wait = |pairs: &[(&'static str, &str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        from_status(429, &headers, b"").error.retry_after()
    };
    let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
    assert_eq!(wait(&[("retry-after", "30")]), Some(Duration::from_secs(30)));
    assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
    assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "1")]), Some(Duration::from_millis(250)));
    assert_eq!(
        wait(&[("retry-after", "Wed, 21 Oct 2015 07:28:45 GMT"), date]),
        Some(Duration::from_secs(45))
    );
    assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), date]), Some(Duration::ZERO));
    assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:28:45 GMT")]), None);
    assert_eq!(wait(&[("retry-after", "soon"), date]), None);
    assert_eq!(wait(&[("retry-after", "-1")]), None);
    assert_eq!(wait(&[]), None);
}

#[test]
fn a_wait_in_a_body_counts_where_no_header_names_one() {
    let mut headers = HeaderMap::new();
    let body = r#"{"error":{"code":429,"message":"Please retry in 8.66s.","details":[{"retryDelay":"8s"}]}}"#;
    let wait = |headers: &HeaderMap, status, body: &str| {
        from_status(status, headers, body.as_bytes()).error.retry_after()
    };
    assert_eq!(wait(&headers, 429, body), Some(Duration::from_secs(9)));
    assert_eq!(from_object(&serde_json::from_str(body).unwrap()).retry_after(), Some(Duration::from_secs(9)));
    assert_eq!(wait(&headers, 503, "busy, try again in 2 minutes"), Some(Duration::from_secs(120)));
    headers.insert("retry-after", "3".parse().unwrap());
    assert_eq!(wait(&headers, 429, body), Some(Duration::from_secs(3)));
}
