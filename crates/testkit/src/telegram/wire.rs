//! Parameters as they come, answers as they go.

use std::fmt;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use crate::multipart::{self, FormPart};

/// Parameters of a request; those of a query or a form are texts, parsed where they are JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Params(pub(super) Map<String, Value>, pub(super) Vec<FormPart>);

impl Params {
    pub(super) fn parse(query: &str, content_type: &str, body: &[u8]) -> Result<Self, String> {
        let (mut all, mut files) = (Map::new(), Vec::new());
        add_form(&mut all, query);
        if content_type.starts_with("application/x-www-form-urlencoded") {
            add_form(&mut all, &String::from_utf8_lossy(body));
        } else if content_type.starts_with("multipart/form-data") {
            let (given, fields): (Vec<FormPart>, Vec<FormPart>) =
                multipart::parse(content_type, body)?.into_iter().partition(|part| part.file_name.is_some());
            files = given;
            for FormPart { name, data, .. } in fields {
                let text = String::from_utf8(data).map_err(|_| format!("the field `{name}` is no UTF-8"))?;
                if all.insert(name.clone(), Value::String(text)).is_some() {
                    return Err(format!("the field `{name}` is there twice"));
                }
            }
        } else if !body.is_empty() {
            match serde_json::from_slice(body) {
                Ok(Value::Object(fields)) => all.extend(fields),
                Ok(_) => return Err("the body is no JSON object".to_owned()),
                Err(error) => return Err(format!("the body is not JSON: {error}")),
            }
        }
        Ok(Self(all, files))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        integer(self.get(name)?)
    }

    /// A list or an object; given as a text it is parsed.
    pub(super) fn json(&self, name: &str) -> Option<Value> {
        match self.get(name)? {
            Value::String(text) => serde_json::from_str(text).ok(),
            other => Some(other.clone()),
        }
    }
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn add_form(all: &mut Map<String, Value>, form: &str) {
    for pair in form.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        all.insert(decode(&name.replace('+', " ")), Value::String(decode(&value.replace('+', " "))));
    }
}

/// Takes percent escapes out.
pub(super) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%').then(|| std::str::from_utf8(tail.get(..2)?).ok()).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) parameters: Value,
}

impl Refusal {
    pub(super) fn new(code: u16, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), parameters: Value::Null }
    }

    /// 400.
    pub(super) fn bad(description: impl fmt::Display) -> Self {
        Self::new(400, format!("Bad Request: {description}"))
    }

    pub(super) fn with(mut self, parameters: Value) -> Self {
        self.parameters = parameters;
        self
    }

    /// 429.
    pub(super) fn flood(secs: u64) -> Self {
        Self::new(429, format!("Too Many Requests: retry after {secs}")).with(json!({ "retry_after": secs }))
    }

    pub(super) fn body(&self) -> (StatusCode, Value) {
        let mut body = json!({ "ok": false, "error_code": self.code, "description": self.description });
        if !self.parameters.is_null() {
            body["parameters"] = self.parameters.clone();
        }
        (StatusCode::from_u16(self.code).unwrap_or(StatusCode::BAD_REQUEST), body)
    }
}
