//! The protocol, whatever it is carried by: messages are checked, recorded, and lead to the steps of an answer.

use serde_json::{Value, json};

use super::calls;
use super::catalogue;
use super::fault::{At, Fault};
use super::frame::Frame;
use super::records::{Log, Record, Rule};
use super::script::{Behaviour, Script, VERSIONS};
use super::session::{Session, Stage};
use super::step::{Step, answer, error, strike};

/// A server: how it behaves, and what it has seen.
pub(super) struct Server {
    pub(super) behaviour: Behaviour,
    pub(super) log: Log,
}

#[derive(Debug)]
pub(super) enum Taken {
    /// The steps that answer a request.
    Answer {
        id: Value,
        steps: Vec<Step>,
    },
    Nothing,
    /// It is refused, with this error as answer.
    Refused {
        rule: Rule,
        error: Value,
    },
}

/// What is wrong with a message: the rule, the code of JSON-RPC, and words.
type Wrong = (Rule, i64, String);

const INVALID: i64 = -32_600;
const NO_METHOD: i64 = -32_601;
const BAD_PARAMS: i64 = -32_602;

fn wrong<T>(rule: Rule, code: i64, text: impl Into<String>) -> Result<T, Wrong> {
    Err((rule, code, text.into()))
}

impl Server {
    /// Reads bytes as a message.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<Value, Taken> {
        serde_json::from_slice(bytes).map_err(|found| {
            self.refused(&Value::Null, (Rule::Json, -32_700, format!("the message is no JSON: {found}")))
        })
    }

    pub(super) fn take(&self, session: &Session, message: &Value) -> Taken {
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        match self.sort(session, message) {
            Ok(taken) => taken,
            Err(wrong) => self.refused(&id, wrong),
        }
    }

    pub(super) fn refused(&self, id: &Value, (rule, code, text): Wrong) -> Taken {
        self.log.refuse(rule, &text);
        Taken::Refused { rule, error: error(id, code, &text) }
    }

    fn sort(&self, session: &Session, message: &Value) -> Result<Taken, Wrong> {
        let Some(fields) = message.as_object() else {
            return wrong(Rule::Shape, INVALID, format!("a message is one object, not {message}"));
        };
        if message["jsonrpc"] != "2.0" {
            return wrong(Rule::Shape, INVALID, format!("`jsonrpc` is {}, not \"2.0\"", message["jsonrpc"]));
        }
        let Some(method) = fields.get("method") else { return self.take_reply(session, message) };
        let Some(method) = method.as_str() else {
            return wrong(Rule::Shape, INVALID, format!("the method is {method}"));
        };
        let params = fields.get("params").cloned().unwrap_or(json!({}));
        if !params.is_object() {
            return wrong(Rule::Shape, INVALID, format!("the parameters of `{method}` are {params}"));
        }
        match fields.get("id") {
            None if method.starts_with("notifications/") => self.take_notification(session, method, &params),
            None => wrong(Rule::Id, INVALID, format!("the request `{method}` has no id")),
            Some(id) if !(id.is_string() || id.is_i64() || id.is_u64()) => {
                wrong(Rule::Id, INVALID, format!("the id of `{method}` is {id}"))
            }
            Some(id) => self.take_request(session, id, method, &params),
        }
    }

    fn take_reply(&self, session: &Session, message: &Value) -> Result<Taken, Wrong> {
        let (result, error, id) = (message.get("result"), message.get("error"), message.get("id"));
        if result.is_some() == error.is_some() {
            return wrong(Rule::Shape, INVALID, "neither a request, nor a notification, nor an answer");
        }
        if error.is_some_and(|error| !error["code"].is_i64() || !error["message"].is_string()) {
            return wrong(Rule::Shape, INVALID, "an error has no code or no message");
        }
        self.log.add(Record::Reply { message: message.clone() });
        // Who cannot read a message may say so; it cannot say which one.
        let about_nothing = error.is_some() && id.is_none_or(Value::is_null);
        if !about_nothing && !id.is_some_and(|id| session.told(id)) {
            return wrong(Rule::Id, INVALID, format!("an answer to what was not asked: {message}"));
        }
        Ok(Taken::Nothing)
    }

    fn take_notification(&self, session: &Session, method: &str, params: &Value) -> Result<Taken, Wrong> {
        self.log.add(Record::Notification { method: method.to_owned(), params: params.clone() });
        match (method, session.stage()) {
            ("notifications/initialized", Stage::Greeted) => session.begin(),
            ("notifications/initialized", stage) => {
                return wrong(Rule::Stage, INVALID, format!("`{method}` at the stage {stage:?}"));
            }
            ("notifications/cancelled", _) => {
                let id = &params["requestId"];
                if !(id.is_string() || id.is_number()) {
                    return wrong(Rule::Params, INVALID, format!("`{method}` of the request {id}"));
                }
                if session.cancel(id) {
                    self.log.add(Record::Cancelled { id: id.clone() });
                }
            }
            ("notifications/progress" | "notifications/roots/list_changed", _) => {}
            _ => return wrong(Rule::Method, NO_METHOD, format!("nobody knows `{method}`")),
        }
        Ok(Taken::Nothing)
    }

    fn take_request(
        &self,
        session: &Session,
        id: &Value,
        method: &str,
        params: &Value,
    ) -> Result<Taken, Wrong> {
        self.log.add(Record::Request { id: id.clone(), method: method.to_owned(), params: params.clone() });
        if !session.take_id(id) {
            return wrong(Rule::Id, INVALID, format!("the id {id} was used before"));
        }
        let script = self.behaviour.now();
        let steps = match (method, session.stage()) {
            ("initialize", Stage::New) => initialize(&script, session, id, params)?,
            ("ping", _) => vec![answer(id, &json!({}))],
            // How clients of the newest version begin: a server of older ones does not know it, and that is no fault.
            ("server/discover", Stage::New) => {
                vec![Step::Send(Frame::Message(error(id, NO_METHOD, "Method not found: server/discover")))]
            }
            ("tools/list", Stage::Ready) => list(&script, id, params)?,
            ("tools/call", Stage::Ready) => self.call(&script, id, params)?,
            ("initialize" | "tools/list" | "tools/call", stage) => {
                return wrong(Rule::Stage, INVALID, format!("`{method}` at the stage {stage:?}"));
            }
            _ => return wrong(Rule::Method, NO_METHOD, format!("Method not found: {method}")),
        };
        let place = At::of_method(method);
        let faults = place.map_or(Vec::new(), |place| script.strikes_at(place));
        let hit = |steps, fault: &Fault| strike(steps, fault, place.unwrap_or(At::Any), id);
        Ok(Taken::Answer { id: id.clone(), steps: faults.iter().fold(steps, hit) })
    }

    fn call(&self, script: &Script, id: &Value, params: &Value) -> Result<Vec<Step>, Wrong> {
        let Some(name) = params["name"].as_str() else {
            return wrong(Rule::Params, BAD_PARAMS, "the call names no tool");
        };
        let arguments = params.get("arguments").cloned().unwrap_or(json!({}));
        if !arguments.is_object() {
            return wrong(Rule::Params, BAD_PARAMS, format!("the arguments of `{name}` are {arguments}"));
        }
        let list = catalogue::list(script);
        let Some(tool) = list.iter().find(|tool| tool["name"] == name) else {
            return wrong(Rule::Tool, BAD_PARAMS, format!("Unknown tool: {name}"));
        };
        if let Some(misfit) = catalogue::misfit(&tool["inputSchema"], &arguments) {
            return wrong(Rule::Arguments, BAD_PARAMS, format!("wrong arguments of `{name}`: {misfit}"));
        }
        if catalogue::has_effect(tool) {
            self.log.add(Record::Effect { tool: name.to_owned(), arguments: arguments.clone() });
        }
        Ok(calls::steps(name, &arguments, id))
    }
}

fn initialize(script: &Script, session: &Session, id: &Value, params: &Value) -> Result<Vec<Step>, Wrong> {
    let lacks =
        |what: &str| wrong(Rule::Params, BAD_PARAMS, format!("`initialize` without {what}: {params}"));
    let Some(asked) = params["protocolVersion"].as_str() else { return lacks("protocolVersion") };
    if !params["capabilities"].is_object() {
        return lacks("capabilities");
    }
    for pointer in ["/clientInfo/name", "/clientInfo/version"] {
        if params.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            return lacks(pointer);
        }
    }
    let speaks = VERSIONS.contains(&asked) && asked <= script.protocol.as_str();
    let version = if speaks { asked } else { script.protocol.as_str() };
    session.greet(version);
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": script.name, "version": script.version },
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    Ok(vec![answer(id, &result)])
}

fn list(script: &Script, id: &Value, params: &Value) -> Result<Vec<Step>, Wrong> {
    let cursor = match params.get("cursor") {
        None => None,
        Some(Value::String(cursor)) => Some(cursor.as_str()),
        Some(other) => return wrong(Rule::Params, BAD_PARAMS, format!("the cursor is {other}")),
    };
    let Some((tools, next)) = catalogue::page(script, cursor) else {
        return wrong(Rule::Params, BAD_PARAMS, format!("the cursor {cursor:?} was not given out"));
    };
    let mut result = json!({ "tools": tools });
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    Ok(vec![answer(id, &result)])
}
