//! Discord's refusals: a status, a code, a sentence, and for forms where the fault lies.

use serde_json::{Value, json};

use crate::discord::serve::Answered;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    body: Value,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: u32, message: &str) -> Self {
        Self { status, body: json!({"message": message, "code": code}) }
    }

    pub(crate) fn answer(self) -> Answered {
        json_answer(self.status, &self.body)
    }

    /// 50035, with the field and Discord's name of the fault.
    pub(crate) fn form(field: &str, code: &str, message: &str) -> Self {
        let mut errors = json!({"_errors": [{"code": code, "message": message}]});
        for name in field.rsplit('.') {
            errors = json!({name: errors});
        }
        Self { status: 400, body: json!({"message": "Invalid Form Body", "code": 50035, "errors": errors}) }
    }

    pub(crate) fn json() -> Self {
        Self::new(400, 50109, "The request body contains invalid JSON.")
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, 40005, "Request entity too large")
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, 0, "404: Not Found")
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, 0, "401: Unauthorized")
    }

    pub(crate) fn unknown_channel() -> Self {
        Self::new(404, 10003, "Unknown Channel")
    }

    pub(crate) fn unknown_message() -> Self {
        Self::new(404, 10008, "Unknown Message")
    }

    pub(crate) fn unknown_user() -> Self {
        Self::new(404, 10013, "Unknown User")
    }

    pub(crate) fn unknown_guild() -> Self {
        Self::new(404, 10004, "Unknown Guild")
    }

    pub(crate) fn unknown_webhook() -> Self {
        Self::new(404, 10015, "Unknown Webhook")
    }

    pub(crate) fn unknown_interaction() -> Self {
        Self::new(404, 10062, "Unknown interaction")
    }

    pub(crate) fn acknowledged() -> Self {
        Self::new(400, 40060, "Interaction has already been acknowledged.")
    }

    pub(crate) fn missing_access() -> Self {
        Self::new(403, 50001, "Missing Access")
    }

    pub(crate) fn missing_permissions() -> Self {
        Self::new(403, 50013, "Missing Permissions")
    }

    pub(crate) fn blocked() -> Self {
        Self::new(403, 50007, "Cannot send messages to this user")
    }

    pub(crate) fn foreign_message() -> Self {
        Self::new(403, 50005, "Cannot edit a message authored by another user")
    }

    pub(crate) fn empty() -> Self {
        Self::new(400, 50006, "Cannot send an empty message")
    }

    pub(crate) fn no_text_channel() -> Self {
        Self::new(400, 50008, "Cannot send messages in a non-text channel")
    }
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Answered {
    Answered {
        status,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
        zeros: None,
    }
}

/// Discord's JSON for a status, as a scripted fault sends it.
pub(crate) fn plain(status: u16) -> Answered {
    match status {
        401 => Refusal::unauthorized().answer(),
        403 => Refusal::missing_permissions().answer(),
        404 => Refusal::not_found().answer(),
        500 => Refusal::new(500, 0, "500: Internal Server Error").answer(),
        502 => Refusal::new(502, 0, "502: Bad Gateway").answer(),
        503 => Refusal::new(503, 0, "503: Service Unavailable").answer(),
        other => Refusal::new(other, 0, &format!("{other}: as the test wants it")).answer(),
    }
}
