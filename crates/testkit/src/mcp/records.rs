//! What a server saw and did, one record each, for tests to look at: in memory, or in a file as JSON lines.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::watched::{GIVE_UP_AFTER, Watched};

/// Pause between two looks at a file that another process writes.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One thing that a server saw or did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    Start(Start),
    /// A request, before it was checked.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// An answer to what the server asked, or an error that the client sent.
    Reply {
        message: Value,
    },
    /// A side effect: a tool that is not marked as one that only reads was called, and did it.
    Effect {
        tool: String,
        arguments: Value,
    },
    /// A request under way was cancelled.
    Cancelled {
        id: Value,
    },
    Refused(Refusal),
    Http {
        method: String,
        path: String,
        /// The headers, names in lower case.
        headers: BTreeMap<String, String>,
    },
    /// A session was ended by its client.
    Deleted {
        session: String,
    },
    Child {
        pid: u32,
    },
    InputClosed,
    Signal {
        name: String,
    },
}

/// What a process was started with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub pid: u32,
    pub cwd: PathBuf,
    pub env: BTreeMap<String, String>,
    pub args: Vec<String>,
    /// Its limits: soft ones, by their names in `/proc/self/limits`.
    pub limits: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub rule: Rule,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    Json,
    /// It is one object of JSON-RPC 2.0.
    Shape,
    /// A request has an id of its own, an answer that of what was asked.
    Id,
    /// First `initialize`, then `notifications/initialized`, then the rest.
    Stage,
    /// The method is one that the server offered.
    Method,
    /// The parameters are those of the method.
    Params,
    /// The tool is one that was listed.
    Tool,
    /// The arguments fit the tool's schema.
    Arguments,
    Session,
    /// The headers are those that the transport asks for.
    Header,
}

#[derive(Debug, Clone)]
pub struct Log(Place);

#[derive(Debug, Clone)]
enum Place {
    Memory(Arc<Watched<Vec<Record>>>),
    File { path: PathBuf, file: Option<Arc<Mutex<File>>> },
}

impl Log {
    pub fn memory() -> Self {
        Self(Place::Memory(Arc::default()))
    }

    /// The log that processes write at a path, to be read; none is there before the first one starts.
    pub fn at(path: &Path) -> Self {
        Self(Place::File { path: path.to_owned(), file: None })
    }

    /// A log in a file, to be written. Several processes may write it, one after another or at once.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Place::File { path: path.to_owned(), file: Some(Arc::new(Mutex::new(file))) }))
    }

    /// Adds a record; it is there for all to see before this returns.
    pub(super) fn add(&self, record: Record) {
        match &self.0 {
            Place::Memory(records) => records.update(|records| records.push(record)),
            Place::File { file: Some(file), .. } => {
                let line = serde_json::to_string(&record).unwrap_or_default() + "\n";
                if let Err(error) = file.lock().write_all(line.as_bytes()) {
                    eprintln!("the log cannot be written: {error}");
                }
            }
            Place::File { file: None, .. } => {}
        }
    }

    pub(super) fn refuse(&self, rule: Rule, text: &str) {
        self.add(Record::Refused(Refusal { rule, text: text.to_owned() }));
    }

    /// All records so far.
    pub fn records(&self) -> Vec<Record> {
        let path = match &self.0 {
            Place::Memory(records) => return records.lock().clone(),
            Place::File { path, .. } => path,
        };
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The last line may be under way.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let read = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no record: {error}: {line}"))
        };
        lines.map(read).collect()
    }

    /// Waits until a condition on the records holds.
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let more = || format!("records: {:#?}", self.records());
        match &self.0 {
            Place::Memory(records) => records.wait(what, || condition(self).then_some(()), more).await,
            Place::File { .. } => {
                let looking = async {
                    while !condition(self) {
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                };
                let waited = tokio::time::timeout(GIVE_UP_AFTER, looking).await;
                assert!(waited.is_ok(), "waited {GIVE_UP_AFTER:?} without success for {what}; {}", more());
            }
        }
    }

    /// Waits for so many calls of a tool since the beginning.
    pub async fn wait_for_calls(&self, tool: &str, n: usize) {
        self.wait_until(&format!("{n} calls of {tool}"), |log| log.calls(tool).len() >= n).await;
    }

    /// The arguments of all calls of a tool, in their order, refused ones included.
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let calls = self.requests("tools/call").into_iter().filter(|params| params["name"] == tool);
        calls.map(|params| params["arguments"].clone()).collect()
    }

    /// The parameters of all requests of a method, in their order.
    pub fn requests(&self, method: &str) -> Vec<Value> {
        self.pick(|record| match record {
            Record::Request { method: found, params, .. } if found == method => Some(params),
            _ => None,
        })
    }

    /// Side effects: the tools and their arguments.
    pub fn effects(&self) -> Vec<(String, Value)> {
        self.pick(|record| match record {
            Record::Effect { tool, arguments } => Some((tool, arguments)),
            _ => None,
        })
    }

    /// The ids of requests that were cancelled while they were under way.
    pub fn cancelled(&self) -> Vec<Value> {
        self.pick(|record| match record {
            Record::Cancelled { id } => Some(id),
            _ => None,
        })
    }

    /// What clients answered to what the server asked.
    pub fn replies(&self) -> Vec<Value> {
        self.pick(|record| match record {
            Record::Reply { message } => Some(message),
            _ => None,
        })
    }

    pub fn starts(&self) -> Vec<Start> {
        self.pick(|record| match record {
            Record::Start(start) => Some(start),
            _ => None,
        })
    }

    /// The pids of processes that servers started.
    pub fn children(&self) -> Vec<u32> {
        self.pick(|record| match record {
            Record::Child { pid } => Some(pid),
            _ => None,
        })
    }

    pub fn refusals(&self) -> Vec<Refusal> {
        self.pick(|record| match record {
            Record::Refused(refusal) => Some(refusal),
            _ => None,
        })
    }

    pub fn assert_clean(&self) {
        let refusals = self.refusals();
        assert!(refusals.is_empty(), "the fake MCP server refused messages: {refusals:#?}");
    }

    fn pick<T>(&self, of: impl Fn(Record) -> Option<T>) -> Vec<T> {
        self.records().into_iter().filter_map(of).collect()
    }
}
