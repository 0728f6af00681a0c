//! What a server says in a refusal, out of the shapes in use.

use std::time::Duration;

use serde_json::Value;

use super::{looks_like_html, retry, shorten, wording};

/// What servers put an error into. The words within come before those beside it.
const WITHIN: [&str; 6] = ["error", "errors", "fault", "exception", "base_resp", "innererror"];

/// The keys of an error's words, most telling first.
const MESSAGES: [&str; 9] = [
    "message",
    "detail",
    "msg",
    "error_msg",
    "status_msg",
    "error_description",
    "faultstring",
    "Message",
    "title",
];

/// The keys of what kind of error it is.
const KINDS: [&str; 7] = ["code", "type", "status", "status_code", "error_code", "error_type", "reason"];

/// Errors within each other that are read.
const DEPTH_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) message: String,
    /// `code`, `type` and the like, in lower case.
    pub(super) kind: String,
    /// An HTTP status that the body itself names.
    pub(super) status: Option<u16>,
    /// The parameter that is at fault, where it is named.
    pub(super) param: String,
    /// The window, where it has a field of its own.
    pub(super) window: Option<u64>,
    pub(super) retry_after: Option<Duration>,
    /// All that may tell what is wrong, as [`wording`] reads it.
    pub(super) plain: String,
}

impl Said {
    /// Reads `{"error":{"message",…}}`, the same in a list or under another name, `{"error":"…"}`, `{"message"}`,
    /// `{"detail"}`, or a bare string.
    pub(super) fn of(value: &Value) -> Self {
        let mut said = Self::default();
        let mut raw = None;
        said.read(value, DEPTH_MAX, &mut raw);
        said.kind = said.kind.to_lowercase();
        let upstream = raw.map(Value::to_string).unwrap_or_default();
        said.plain = wording::plain(&format!("{} {} {upstream}", said.kind, said.message));
        said.retry_after = retry::of_body(value, &said.plain);
        if let Some(Value::String(raw)) = raw {
            said.message = format!("{}: {raw}", said.message);
        }
        said.message = shorten(&said.message);
        said
    }

    pub(super) fn of_text(text: &str) -> Self {
        let trimmed = text.trim();
        let message = if looks_like_html(trimmed) { "an HTML page".to_owned() } else { shorten(trimmed) };
        let plain = wording::plain(&shorten(trimmed));
        let retry_after = retry::of_body(&Value::Null, &plain);
        Self { message, plain, retry_after, ..Self::default() }
    }

    /// Takes in an error, what is within it first. `raw`: the words of a server behind this one, as OpenRouter passes them on.
    fn read<'v>(&mut self, value: &'v Value, depth: usize, raw: &mut Option<&'v Value>) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let fields = match value {
            Value::Array(list) => {
                return list.first().into_iter().for_each(|value| self.read(value, depth, raw));
            }
            Value::String(text) => return self.say(text),
            Value::Object(fields) => fields,
            Value::Null | Value::Bool(_) | Value::Number(_) => return,
        };
        let within = || WITHIN.iter().filter_map(|key| fields.get(*key));
        within().filter(|value| !value.is_string()).for_each(|value| self.read(value, depth, raw));
        let text = |key: &str| match fields.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other @ (Value::Array(_) | Value::Object(_))) => other.to_string(),
            Some(Value::Null | Value::Bool(_)) | None => String::new(),
        };
        MESSAGES.iter().for_each(|key| self.say(&text(key)));
        within().filter(|value| value.is_string()).for_each(|value| self.read(value, depth, raw));
        for kind in KINDS.iter().map(|key| text(key)).filter(|kind| !kind.is_empty()) {
            self.status = self.status.or(kind.parse().ok().filter(|status| (300..600).contains(status)));
            self.kind = format!("{} {kind}", self.kind);
        }
        if self.param.is_empty() {
            self.param = text("param");
        }
        let window = fields.get("n_ctx").and_then(Value::as_u64).filter(|window| *window > 0);
        self.window = self.window.or(window);
        *raw = raw.or_else(|| value.pointer("/metadata/raw"));
    }

    /// Words that are nearer to the fault were told before.
    fn say(&mut self, text: &str) {
        if self.message.is_empty() {
            text.clone_into(&mut self.message);
        }
    }

    pub(super) fn limit(&self) -> Option<u64> {
        self.window.or_else(|| wording::limit_of(&self.plain))
    }
}

/// An error where an answer, or a piece of one, should be: the object that tells it.
pub(crate) fn error_in(value: &Value) -> Option<&Value> {
    let given = |key: &str| match value.get(key) {
        Some(Value::Null | Value::Bool(false)) | None => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    };
    let is_text = |key: &str| value.get(key).is_some_and(Value::is_string);
    let says_error = |key: &str| value.get(key).and_then(Value::as_str) == Some("error");
    // MiniMax tells its errors beside an answer that is null: https://platform.minimax.io/docs/api-reference/errorcode
    let is_bad =
        value.pointer("/base_resp/status_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
    let is_answer = ["choices", "content", "delta", "usage"].iter().any(|key| given(key));
    let is_error = given("error")
        || says_error("object")
        || says_error("type")
        || is_bad
        || (!is_answer && (given("errors") || given("detail") || is_text("message") || is_text("msg")));
    is_error.then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_words_of_an_error_are_found_in_every_shape() {
        let cases = [
            (json!({"error": {"message": "m", "code": 400}}), "m", Some(400)),
            (json!([{"error": {"message": "m", "status": "INVALID_ARGUMENT"}}]), "m", None),
            (json!({"error": "m"}), "m", None),
            (json!({"code": "invalid-argument", "error": "m"}), "m", None),
            (
                json!({"timestamp": 1, "status": 422, "error": "Unprocessable Entity", "message": "m"}),
                "m",
                Some(422),
            ),
            (json!({"message": "wrapped", "error": {"message": "m", "type": "t"}}), "m", None),
            (json!({"errors": [{"message": "m", "code": 5021}], "success": false, "result": {}}), "m", None),
            (json!({"errors": ["m"]}), "m", None),
            (json!({"errors": {"message": "m"}}), "m", None),
            (json!({"detail": "m"}), "m", None),
            (json!({"detail": [{"msg": "m"}]}), r#"[{"msg":"m"}]"#, None),
            (json!({"error_code": 336_007, "error_msg": "m"}), "m", None),
            (json!({"base_resp": {"status_code": 1039, "status_msg": "m"}}), "m", None),
            (json!({"fault": {"faultstring": "m"}}), "m", None),
            (json!({"error": {"error": {"message": "m", "code": "429"}}}), "m", Some(429)),
            (json!({"code": 20_015, "message": "m", "data": null}), "m", None),
            (json!({"title": "Bad Request", "status": 400, "detail": "m"}), "m", Some(400)),
            (json!("m"), "m", None),
            (json!({"error": null}), "", None),
            (json!({"error": {}}), "", None),
            (json!([]), "", None),
            (json!(3), "", None),
        ];
        for (body, message, status) in cases {
            let said = Said::of(&body);
            assert_eq!((said.message.as_str(), said.status), (message, status), "{body}");
        }
    }

    #[test]
    fn errors_are_told_from_pieces_of_an_answer() {
        for error in [
            json!({"error": {"message": "m"}}),
            json!({"error": "m", "choices": []}),
            json!({"errors": [{"message": "m"}]}),
            json!({"detail": "m"}),
            json!({"object": "error", "message": "m"}),
            json!({"type": "error", "error": {"message": "m"}}),
            json!({"code": 50_000, "message": "m"}),
            json!({"base_resp": {"status_code": 1004, "status_msg": "m"}, "choices": null}),
        ] {
            assert!(error_in(&error).is_some(), "{error}");
        }
        for piece in [
            json!({}),
            json!({"choices": [{"delta": {"content": "error"}}], "error": null}),
            json!({"choices": [{"message": {"content": "hi"}}], "message": "ok"}),
            json!({"choices": [], "usage": {"prompt_tokens": 3}, "error": false, "errors": []}),
            json!({"base_resp": {"status_code": 0, "status_msg": ""}, "choices": [{"delta": {}}]}),
            json!({"type": "message_start", "message": {"content": []}}),
            json!({"type": "ping"}),
        ] {
            assert!(error_in(&piece).is_none(), "{piece}");
        }
    }
}
