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
        r#"{"error":{"message":"You passed 3997 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt. This is more than the maximum context length.","code":400}}"#,
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
            && *status != 413
        {
            assert_eq!(from_object(&value).code(), "context_overflow", "{server}, within a stream");
        }
    }
}

#[test]
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
