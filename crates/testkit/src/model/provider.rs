//! What providers publish of requests that hold answers of their models. A fake that stands in for one of them refuses what it
//! refuses, gives with its answers what it wants back, and takes nothing else for it.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::answer::{Answer, Form};
use super::check::Rule;
use super::measure::hash;
use super::wire::{messages, role};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// An answer with calls has its `reasoning_content` back in all later requests, if only empty:
    /// <https://api-docs.deepseek.com/guides/thinking_mode>. Kimi alike:
    /// <https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model>.
    DeepSeek,
    /// The first call of each answer has its signature back, or the documented stand-in:
    /// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
    Gemini3,
    /// Tools and reasoning together are for the Responses API alone: <https://developers.openai.com/api/docs/guides/latest-model>.
    Gpt56OnChat,
    /// With manual thinking, answers of the open turn that call tools begin with their thinking, unchanged and behind an unchanged
    /// request: <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>,
    /// <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>.
    ClaudeThinking,
}

/// What was given with calls, by their ids.
pub(super) type Given = HashMap<String, String>;

const STAND_IN: &str = "skip_thought_signature_validator";

impl Provider {
    /// Checks a request as it arrived. The rule that it breaks, in the provider's words.
    pub(super) fn check(self, sent: &Value, given: &Given) -> Result<(), (Rule, String)> {
        let fault = |text: String| Err((Rule::Provider, text));
        match self {
            Self::DeepSeek => {
                for (idx, message) in answers_with_calls(sent) {
                    let id = message.pointer("/tool_calls/0/id").and_then(Value::as_str).unwrap_or_default();
                    let was = given.get(id).map(String::as_str);
                    match message.get("reasoning_content").and_then(Value::as_str) {
                        None => {
                            return fault(format!(
                                "The `reasoning_content` in the thinking mode must be passed back to the API. (message {idx})"
                            ));
                        }
                        Some(text) if !text.is_empty() && was.is_some_and(|was| was != text) => {
                            return fault(format!("message {idx} has another reasoning than was given"));
                        }
                        Some(_) => {}
                    }
                }
                Ok(())
            }
            Self::Gemini3 => {
                for (idx, message) in answers_with_calls(sent) {
                    let call = &message["tool_calls"][0];
                    let signature =
                        call.pointer("/extra_content/google/thought_signature").and_then(Value::as_str);
                    let was = call["id"].as_str().and_then(|id| given.get(id)).map(String::as_str);
                    let Some(signature) = signature else {
                        return fault(format!(
                            "Function call is missing a thought_signature in functionCall parts. (message {idx})"
                        ));
                    };
                    if signature != STAND_IN && was != Some(signature) {
                        return fault(format!("message {idx}: Thought signature is not valid"));
                    }
                }
                Ok(())
            }
            Self::Gpt56OnChat => {
                let has_tools =
                    sent.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
                if has_tools && sent["reasoning_effort"] != "none" {
                    return fault(
                        "Function tools with reasoning_effort are not supported for this model in /v1/chat/completions. Please use \
                         /v1/responses instead."
                            .to_owned(),
                    );
                }
                Ok(())
            }
            Self::ClaudeThinking => check_thinking(sent, given),
        }
    }

    /// Gives an answer what goes back with it. `n`: the number of its request.
    pub(super) fn give(self, sent: &Value, n: usize, answer: &mut Answer, given: &mut Given) {
        let Form::Said(said) = &mut answer.form else { return };
        match self {
            Self::DeepSeek => {
                if said.reasoning.is_empty() {
                    said.reasoning = format!("I think about request {n}.");
                }
                given.insert(format!("call_f{n}_0"), said.reasoning.clone());
            }
            Self::Gemini3 if !said.calls.is_empty() => {
                let signature = format!("c2lnbmF0dXJl+/{n}==");
                said.call_fields =
                    Some(json!({"extra_content": {"google": {"thought_signature": signature}}}));
                given.insert(format!("call_f{n}_0"), signature);
            }
            Self::ClaudeThinking if is_thinking(sent) => {
                let signature = format!("EqQB{n}{:x}", hash(&prefix(sent, messages(sent).len())));
                given.insert(signature.clone(), String::new());
                said.signature = Some(signature);
            }
            Self::Gemini3 | Self::Gpt56OnChat | Self::ClaudeThinking => {}
        }
    }
}

fn answers_with_calls(sent: &Value) -> impl Iterator<Item = (usize, &Value)> {
    messages(sent).iter().enumerate().filter(|(_, message)| message.get("tool_calls").is_some())
}

fn is_thinking(sent: &Value) -> bool {
    sent.pointer("/thinking/type").is_some_and(|kind| kind == "enabled" || kind == "adaptive")
}

/// All that stands before a message, without breakpoints of the cache.
fn prefix(sent: &Value, idx: usize) -> Value {
    let mut prefix = json!([sent.get("system"), sent.get("tools"), messages(sent)[..idx]]);
    without_marks(&mut prefix);
    prefix
}

fn without_marks(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_marks),
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(without_marks);
        }
        _ => {}
    }
}

fn check_thinking(sent: &Value, given: &Given) -> Result<(), (Rule, String)> {
    let fault = |text: String| Err((Rule::Provider, text));
    let all = messages(sent);
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let is_said = |message: &Value| {
        role(message) == "user" && blocks(message).iter().any(|block| block["type"] != "tool_result")
    };
    let open = all.iter().rposition(is_said).unwrap_or(0);
    let manual = sent.pointer("/thinking/type").is_some_and(|kind| kind == "enabled");
    for (idx, message) in all.iter().enumerate().filter(|(_, message)| role(message) == "assistant") {
        let content = blocks(message);
        let calls = content.iter().any(|block| block["type"] == "tool_use");
        let first = content.first().map(|block| block["type"].clone()).unwrap_or_default();
        let thinks = first == "thinking" || first == "redacted_thinking";
        if manual && idx > open && calls && !thinks {
            return fault(format!(
                "messages.{idx}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
            ));
        }
        for block in content.iter().filter(|block| block["type"] == "thinking") {
            let signature = block["signature"].as_str().unwrap_or_default();
            if !given.contains_key(signature) {
                return fault(format!("messages.{idx}: Invalid `signature` in `thinking` block"));
            }
            if !signature.ends_with(&format!("{:x}", hash(&prefix(sent, idx)))) {
                return fault(format!("messages.{idx}: The block is bound to a different conversation"));
            }
        }
    }
    Ok(())
}
