//! What goes wrong on demand.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::wire::Refusal;

/// Something that goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// A refusal in the usual form; nothing is done.
    Refuse {
        /// The status and `error_code`.
        code: u16,
        /// The `description`.
        description: String,
        /// The `parameters`; null: none.
        parameters: Value,
    },
    /// A page of a proxy (502, HTML); nothing is done.
    Html,
    /// 200 with this body; nothing is done.
    Body(String),
    /// No answer ever, as long as the client stays; nothing is done.
    Hang,
    /// The connection is closed without an answer; nothing is done.
    CloseBefore,
    /// It is done, but the connection is closed without an answer.
    CloseAfter,
    /// It is done, but there is never an answer.
    HangAfter,
}

impl Fault {
    /// A refusal, for instance `Fault::error(400, "Bad Request: chat not found")`.
    pub fn error(code: u16, description: &str) -> Self {
        Self::Refuse { code, description: description.to_owned(), parameters: Value::Null }
    }

    /// 500 as the API tells it.
    pub fn internal() -> Self {
        Self::error(500, "Internal Server Error")
    }

    /// 429 for so many seconds. Unlike [`super::FakeTelegram::rate_limit`] it does not watch what follows.
    pub fn flood(secs: u64) -> Self {
        Self::Refuse {
            code: 429,
            description: format!("Too Many Requests: retry after {secs}"),
            parameters: json!({ "retry_after": secs }),
        }
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::error(401, "Unauthorized")
    }

    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refuse { code, description, parameters } => {
                Some(Refusal::new(*code, description.clone()).with(parameters.clone()))
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// After it arrived, before anything is done.
    Before,
    /// After it is done, before the answer.
    After,
}

/// What is to go wrong. Methods are named in lower case.
#[derive(Default)]
pub(super) struct Plan {
    once: HashMap<String, VecDeque<Fault>>,
    always: HashMap<String, Fault>,
}

impl Plan {
    pub(super) fn next(&mut self, method: &str, fault: Fault) {
        self.once.entry(method.to_lowercase()).or_default().push_back(fault);
    }

    pub(super) fn always(&mut self, method: &str, fault: Fault) {
        self.always.insert(method.to_lowercase(), fault);
    }

    pub(super) fn mend(&mut self, method: &str) {
        self.always.remove(&method.to_lowercase());
        self.once.remove(&method.to_lowercase());
    }

    /// The fault of a request that arrives now; `*` stands for all methods.
    pub(super) fn take(&mut self, method: &str) -> Option<Fault> {
        let once = self.once.get_mut(method).and_then(VecDeque::pop_front);
        once.or_else(|| self.always.get(method).cloned()).or_else(|| self.always.get("*").cloned())
    }
}
