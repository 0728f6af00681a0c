//! A scripted model: keeps every request, checks it, answers as planned or by rule, waits at gates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::message::{Part, ToolCall};
use cairn_core::model::{
    Attempt, ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, ModelInfo, Purpose, Usage,
};
use cairn_core::ports::{ChatModel, Unanswered};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use super::store::PATIENCE;

pub(crate) enum Plan {
    Text(String),
    Calls(Vec<(&'static str, serde_json::Value)>),
    /// Cut off at the token limit.
    CutOff(String),
    /// Words, then an error.
    Broken(&'static str, ModelError),
    /// Words, one piece after each pause.
    Slow(Duration, Vec<String>),
    /// Words at once, an error after the pause.
    SlowBroken(Duration, &'static str, ModelError),
    Panics,
    Hangs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Reply,
    Run,
}

fn kind(request: &ChatRequest) -> Kind {
    match request.purpose {
        Purpose::Reply { .. } => Kind::Reply,
        Purpose::Summarise { .. } | Purpose::Merge { .. } => Kind::Run,
    }
}

#[derive(Default)]
struct Lane {
    plans: VecDeque<Plan>,
    gate: Option<Arc<Semaphore>>,
}

pub(crate) struct FakeModel {
    info: ModelInfo,
    requests: watch::Sender<Vec<ChatRequest>>,
    replies: Mutex<Lane>,
    runs: Mutex<Lane>,
    /// Text that its server refuses, wherever it stands in a request.
    refused_text: Mutex<Option<String>>,
}

impl FakeModel {
    pub(crate) fn new() -> Arc<Self> {
        Self::named("fake")
    }

    pub(crate) fn named(id: &str) -> Arc<Self> {
        Self::with_tools(id, true)
    }

    pub(crate) fn with_tools(id: &str, tools: bool) -> Arc<Self> {
        Arc::new(Self {
            info: ModelInfo {
                id: id.to_owned(),
                context_window: None,
                max_output_tokens: None,
                images: false,
                tools,
            },
            requests: watch::Sender::new(Vec::new()),
            replies: Mutex::default(),
            runs: Mutex::default(),
            refused_text: Mutex::default(),
        })
    }

    fn lane(&self, kind: Kind) -> &Mutex<Lane> {
        match kind {
            Kind::Reply => &self.replies,
            Kind::Run => &self.runs,
        }
    }

    /// Refuses requests with that text from now on, in words that nobody knows.
    pub(crate) fn refuse(&self, text: Option<&str>) {
        *self.refused_text.lock() = text.map(str::to_owned);
    }

    /// The refusal of a request, if it has what the server refuses. As a last resort it has the last message alone.
    fn refusal(&self, request: &ChatRequest) -> Option<Plan> {
        let refused = self.refused_text.lock().clone()?;
        let said = |message: &&ChatMessage| matches!(message, ChatMessage::User { .. });
        let mut sent = request.clone();
        if request.attempt == Attempt::Bare {
            sent.system.truncate(1);
            sent.messages = request.messages.iter().rev().find(said).cloned().into_iter().collect();
        }
        let error = ModelError::refused("HTTP 400: no");
        words(&sent).contains(&refused).then(|| Plan::Broken("", error))
    }

    /// Plans the next answer of a kind.
    pub(crate) fn plan(&self, kind: Kind, plan: Plan) {
        self.lane(kind).lock().plans.push_back(plan);
    }

    /// Requests of a kind wait until permits are added.
    pub(crate) fn hold(&self, kind: Kind) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.lane(kind).lock().gate = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn requests(&self, of: Kind) -> Vec<ChatRequest> {
        self.requests.borrow().iter().filter(|request| kind(request) == of).cloned().collect()
    }

    /// Waits until there have been `n` requests of a kind.
    pub(crate) async fn until(&self, n: usize, of: Kind) {
        let enough =
            |requests: &Vec<ChatRequest>| requests.iter().filter(|request| kind(request) == of).count() >= n;
        let mut requests = self.requests.subscribe();
        let waited = tokio::time::timeout(PATIENCE, requests.wait_for(enough)).await;
        waited.expect("it never happened").unwrap();
    }
}

impl ChatModel for FakeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<Option<u64>, Unanswered>> {
        Box::pin(async { Ok(None) })
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        check_pairs(&request);
        let (plan, gate) = {
            let mut lane = self.lane(kind(&request)).lock();
            (lane.plans.pop_front(), lane.gate.clone())
        };
        let plan = plan.or_else(|| self.refusal(&request)).unwrap_or_else(|| by_rule(&request));
        self.requests.send_modify(|requests| requests.push(request));
        stream::once(async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            match plan {
                Plan::Hangs => std::future::pending().await,
                Plan::Panics => panic!("planned"),
                plan => paced(plan),
            }
        })
        .flatten()
        .boxed()
    }
}

/// Replies echo the question; runs say how much they summarise, with one memory.
fn by_rule(request: &ChatRequest) -> Plan {
    match &request.purpose {
        Purpose::Reply { question } => Plan::Text(format!("re: {question}")),
        Purpose::Summarise { entries, .. } => {
            let seqs: Vec<_> = entries.iter().map(|entry| entry.seq.to_string()).collect();
            if request.messages.iter().any(|message| matches!(message, ChatMessage::Tool { .. })) {
                let (first, last) = (&seqs[0], &seqs[seqs.len() - 1]);
                let text = format!("## Critical context\nThey spoke of messages {first} to {last}.");
                return Plan::Text(text);
            }
            let text = format!("they said {} in {} messages", seqs[0], seqs.len());
            Plan::Calls(vec![("memory_save", json!({ "kind": "fact", "text": text }))])
        }
        Purpose::Merge { sources, .. } => {
            Plan::Text(format!("## Critical context\nMerged {} summaries.", sources.len()))
        }
    }
}

/// The events with the pause before each.
fn paced(plan: Plan) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let text = |words: String| Ok(ModelEvent::Text(words));
    let timed: Vec<(Duration, Result<ModelEvent, ModelError>)> = match plan {
        Plan::Slow(pause, pieces) => {
            let done = Ok(ModelEvent::Done { finish: Finish::Stop, usage: None, quotes: false });
            let pieces = pieces.into_iter().map(|piece| (pause, text(piece)));
            pieces.chain([(pause, done)]).collect()
        }
        Plan::SlowBroken(pause, words, error) => {
            vec![(Duration::ZERO, text(words.to_owned())), (pause, Err(error))]
        }
        plan => events(plan).into_iter().map(|event| (Duration::ZERO, event)).collect(),
    };
    stream::iter(timed)
        .then(|(pause, event)| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            event
        })
        .boxed()
}

fn events(plan: Plan) -> Vec<Result<ModelEvent, ModelError>> {
    // No usage: the estimates of the tests stay as they are.
    let usage: Option<Usage> = None;
    let done = |finish| Ok(ModelEvent::Done { finish, usage, quotes: false });
    match plan {
        Plan::Text(text) => vec![Ok(ModelEvent::Text(text)), done(Finish::Stop)],
        Plan::CutOff(text) => vec![Ok(ModelEvent::Text(text)), done(Finish::Length)],
        Plan::Broken("", error) => vec![Err(error)],
        Plan::Broken(text, error) => vec![Ok(ModelEvent::Text(text.to_owned())), Err(error)],
        Plan::Calls(calls) => {
            let call = |(n, (name, arguments)): (usize, (&str, serde_json::Value))| {
                let call = ToolCall { id: format!("c{n}"), name: name.to_owned(), arguments };
                Ok(ModelEvent::ToolCall(call))
            };
            calls.into_iter().enumerate().map(call).chain([done(Finish::ToolCalls)]).collect()
        }
        Plan::Slow(..) | Plan::SlowBroken(..) | Plan::Hangs | Plan::Panics => Vec::new(),
    }
}

/// A call is followed by its results, a result follows its call.
fn check_pairs(request: &ChatRequest) {
    let mut owed: Vec<&str> = Vec::new();
    for message in &request.messages {
        match message {
            ChatMessage::Tool { call_id, .. } => {
                let idx = owed.iter().position(|id| id == call_id);
                owed.remove(idx.expect("a result without its call"));
            }
            ChatMessage::Assistant { tool_calls, .. } => {
                assert!(owed.is_empty(), "a call was parted from its result");
                owed = tool_calls.iter().map(|call| call.id.as_str()).collect();
            }
            ChatMessage::User { .. } | ChatMessage::Context { .. } => {
                assert!(owed.is_empty(), "a call was parted from its result");
            }
        }
    }
}

pub(crate) fn words(request: &ChatRequest) -> String {
    let mut words = request.system.join("\n");
    for message in &request.messages {
        words.push('\n');
        match message {
            ChatMessage::User { parts } => {
                for part in parts {
                    if let Part::Text { text } = part {
                        words.push_str(text);
                    }
                }
            }
            ChatMessage::Assistant { text, .. }
            | ChatMessage::Tool { text, .. }
            | ChatMessage::Context { text } => words.push_str(text),
        }
    }
    words
}
