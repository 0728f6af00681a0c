//! An answer in steps, and their way out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fault::{Ask, At, Fault};
use super::frame::Frame;
use super::session::Session;

/// Pause between two looks whether a file is there.
const LOOK_EVERY: Duration = Duration::from_millis(5);

const WRONG_ID: u64 = 987_654_321;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Send(Frame),
    /// Sends a notification, over the client's `GET` stream where there is one.
    Notify(Value),
    Wait(Duration),
    Until(PathBuf),
    /// Goes on no further, and keeps the way open.
    Never,
    /// Ends the process, or breaks the connection.
    Exit,
    /// Asks the client, and waits for what it says.
    Ask(Ask),
    /// From here on sends notifications without end, beside what follows.
    Flood,
}

#[derive(Debug, Clone)]
pub(super) enum Out {
    Frame(Frame),
    Exit,
}

/// The step that answers a request.
pub(super) fn answer(id: &Value, result: &Value) -> Step {
    Step::Send(Frame::Message(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
}

/// A JSON-RPC error.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The steps of an answer as a fault changes them.
pub(super) fn strike(steps: Vec<Step>, fault: &Fault, place: At, id: &Value) -> Vec<Step> {
    let raw = |text: &str| Step::Send(Frame::Raw(text.to_owned()));
    let half = |steps: &[Step]| steps.iter().rev().find_map(half_of).unwrap_or(Step::Never);
    match fault {
        Fault::Hang => vec![Step::Never],
        Fault::Exit => vec![Step::Exit],
        Fault::Garbage => vec![raw("{\"jsonrpc\": \"2.0\", \"id\": this is no JSON")],
        Fault::Noise => {
            [vec![raw("2026-01-01 12:00:00 INFO a line of a log, where none belongs")], steps].concat()
        }
        Fault::Huge(bytes) => vec![Step::Send(Frame::Huge { id: id.clone(), bytes: *bytes })],
        Fault::Flood => [vec![Step::Flood], steps].concat(),
        Fault::Endless => vec![Step::Send(Frame::Endless { id: id.clone() })],
        Fault::Half => vec![half(&steps), Step::Never],
        Fault::Cut => vec![half(&steps), Step::Exit],
        Fault::WrongId => with_answers(steps, |message| message["id"] = WRONG_ID.into()),
        Fault::NoId => {
            with_answers(steps, |message| drop(message.as_object_mut().map(|object| object.remove("id"))))
        }
        Fault::WrongVersion => with_answers(steps, |message| message["jsonrpc"] = "1.0".into()),
        Fault::Twice => [steps.clone(), steps].concat(),
        Fault::Error => vec![Step::Send(Frame::Message(error(id, -32_000, "the server was told to fail")))],
        Fault::Misshapen => vec![answer(
            id,
            &match place {
                At::Initialize => json!({ "serverInfo": "none" }),
                At::List => json!({ "tools": "none" }),
                At::Call | At::Any => json!({ "content": { "text": "none" } }),
            },
        )],
        Fault::Ask(ask) => [vec![Step::Ask(*ask)], steps].concat(),
        _ => steps,
    }
}

fn half_of(step: &Step) -> Option<Step> {
    match step {
        Step::Send(Frame::Message(message)) => Some(Step::Send(Frame::Half(message.clone()))),
        _ => None,
    }
}

fn with_answers(mut steps: Vec<Step>, change: impl Fn(&mut Value)) -> Vec<Step> {
    for step in &mut steps {
        if let Step::Send(Frame::Message(message)) = step {
            change(message);
        }
    }
    steps
}

impl Ask {
    fn request(self) -> (&'static str, Value) {
        match self {
            Self::Sampling => (
                "sampling/createMessage",
                json!({
                    "messages": [{ "role": "user", "content": { "type": "text", "text": "say what you know" } }],
                    "maxTokens": 100,
                }),
            ),
            Self::Elicitation => (
                "elicitation/create",
                json!({
                    "message": "your password, please",
                    "requestedSchema": { "type": "object", "properties": { "password": { "type": "string" } } },
                }),
            ),
            Self::Roots => ("roots/list", json!({})),
            Self::Ping => ("ping", json!({})),
            Self::Unknown => ("secrets/list", json!({})),
        }
    }
}

/// Goes through the steps. Ends early when nobody takes what it sends.
pub(super) async fn run(steps: Vec<Step>, session: Arc<Session>, out: mpsc::Sender<Out>) {
    for step in steps {
        let sent = match step {
            Step::Send(frame) => out.send(Out::Frame(frame)).await,
            Step::Notify(message) => {
                let way = session.stream().unwrap_or_else(|| out.clone());
                way.send(Out::Frame(Frame::Message(message))).await
            }
            Step::Wait(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Step::Until(path) => {
                while !path.exists() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Ok(())
            }
            Step::Never => std::future::pending().await,
            Step::Exit => out.send(Out::Exit).await,
            Step::Ask(ask) => {
                let (method, params) = ask.request();
                let (id, reply) = session.ask();
                let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
                let sent = out.send(Out::Frame(Frame::Message(request))).await;
                // A session that ends takes the question with it.
                let _reply = reply.await;
                sent
            }
            Step::Flood => {
                tokio::spawn(flood(out.clone()));
                Ok(())
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn flood(out: mpsc::Sender<Out>) {
    let messages = [
        json!({ "jsonrpc": "2.0", "method": "notifications/message",
            "params": { "level": "info", "data": "and on and on it goes" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": "nobody's", "progress": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
    ];
    for message in messages.iter().cycle() {
        if out.send(Out::Frame(Frame::Message(message.clone()))).await.is_err() {
            return;
        }
    }
}
