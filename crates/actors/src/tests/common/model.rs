//! A scripted model: keeps every request, checks it, answers as planned or by rule, waits at gates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{
    Attempt, ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, ModelInfo, Purpose, Usage,
};
use cairn_types::ports::{ChatModel, ServerWindow, Unanswered};
use cairn_types::tokens::estimate;
use cairn_types::wire::format::{Sent, Wire, WireFormat};
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
    /// Cut off before the first token, after a request of so many.
    Silent(u64),
    /// Words and calls, and why they end.
    Ended(Finish, &'static str, Vec<(&'static str, serde_json::Value)>),
    /// Words that turn out to be reasoning, then others, one after each pause.
    Amid(Duration, &'static str, &'static str),
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
    cuts_at: Mutex<Option<u64>>,
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
            cuts_at: Mutex::default(),
        })
    }

    /// From here on it counts tokens, and silently keeps half of a window of so many when a request is larger.
    pub(crate) fn cuts_at(&self, window: u64) {
        *self.cuts_at.lock() = Some(window);
    }

    fn counted(&self, request: &ChatRequest) -> Option<Usage> {
        let window = (*self.cuts_at.lock())?;
        let tokens = u64::from(estimate(&words(request)));
        let input_tokens = if tokens > window { window / 2 + 2 } else { tokens };
        Some(Usage { input_tokens, output_tokens: 5, ..Usage::default() })
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
        words(&sent).contains(&refused).then_some(Plan::Broken("", error))
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

    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>> {
        Box::pin(async { Ok(ServerWindow::Unlisted) })
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        check_pairs(&request);
        let (plan, gate) = {
            let mut lane = self.lane(kind(&request)).lock();
            (lane.plans.pop_front(), lane.gate.clone())
        };
        let plan = plan.or_else(|| self.refusal(&request)).unwrap_or_else(|| by_rule(&request));
        let usage = self.counted(&request);
        self.requests.send_modify(|requests| requests.push(request));
        stream::once(async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            match plan {
                Plan::Hangs => std::future::pending().await,
                Plan::Panics => panic!("planned"),
                plan => paced(plan, usage),
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
                let text =
                    format!("## Critical context\nThey walked by the lake in messages {first} to {last}.");
                return Plan::Text(text);
            }
            let text = format!("they said {} in {} messages", seqs[0], seqs.len());
            Plan::Calls(vec![("memory_save", json!({ "kind": "fact", "text": text }))])
        }
        Purpose::Merge { sources, .. } => Plan::Text(format!(
            "## Critical context\nMerged {} summaries of walks by the lake.",
            sources.len()
        )),
    }
}

/// The events with the pause before each.
fn paced(plan: Plan, usage: Option<Usage>) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let text = |words: String| Ok(ModelEvent::Text(words));
    let timed: Vec<(Duration, Result<ModelEvent, ModelError>)> = match plan {
        Plan::Slow(pause, pieces) => {
            let done = Ok(ModelEvent::Done { finish: Finish::Stop, usage: None, quotes: false });
            let pieces = pieces.into_iter().map(|piece| (pause, text(piece)));
            pieces.chain([(pause, done)]).collect()
        }
        Plan::Amid(pause, reasoning, words) => vec![
            (pause, text(reasoning.to_owned())),
            (pause, Ok(ModelEvent::TextWasReasoning)),
            (pause, text(words.to_owned())),
            (pause, Ok(ModelEvent::Done { finish: Finish::Stop, usage: None, quotes: false })),
        ],
        Plan::SlowBroken(pause, words, error) => {
            vec![(Duration::ZERO, text(words.to_owned())), (pause, Err(error))]
        }
        plan => events(plan, usage).into_iter().map(|event| (Duration::ZERO, event)).collect(),
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

/// Mostly there is no usage, and the estimates of the tests stay as they are.
fn events(plan: Plan, usage: Option<Usage>) -> Vec<Result<ModelEvent, ModelError>> {
    let done = |finish| Ok(ModelEvent::Done { finish, usage, quotes: false });
    match plan {
        Plan::Text(text) if usage.is_some() => {
            vec![Ok(sent()), Ok(ModelEvent::Text(text)), done(Finish::Stop)]
        }
        Plan::Text(text) => vec![Ok(ModelEvent::Text(text)), done(Finish::Stop)],
        Plan::Silent(input_tokens) => {
            let usage = Some(Usage { input_tokens, ..Usage::default() });
            vec![Ok(ModelEvent::Done { finish: Finish::Length, usage, quotes: false })]
        }
        Plan::CutOff(text) => vec![Ok(ModelEvent::Text(text)), done(Finish::Length)],
        Plan::Ended(finish, words, calls) => {
            let words = (!words.is_empty()).then(|| Ok(ModelEvent::Text(words.to_owned())));
            words.into_iter().chain(called(calls)).chain([done(finish)]).collect()
        }
        Plan::Broken("", error) => vec![Err(error)],
        Plan::Broken(text, error) => vec![Ok(ModelEvent::Text(text.to_owned())), Err(error)],
        Plan::Calls(calls) => called(calls).chain([done(Finish::ToolCalls)]).collect(),
        Plan::Amid(..) | Plan::Slow(..) | Plan::SlowBroken(..) | Plan::Hangs | Plan::Panics => Vec::new(),
    }
}

fn sent() -> ModelEvent {
    let wire = Wire {
        format: WireFormat::Openai,
        model: "fake".to_owned(),
        images: false,
        tools: true,
        stream: true,
        limit_key: String::new(),
        cache_ttl_secs: 300,
        extra: serde_json::Map::new(),
        remedies: Vec::new(),
        breakpoints: false,
    };
    ModelEvent::Sent(Box::new(Sent { wire, body: None }))
}

fn called(
    calls: Vec<(&'static str, serde_json::Value)>,
) -> impl Iterator<Item = Result<ModelEvent, ModelError>> {
    calls.into_iter().enumerate().map(|(n, (name, arguments))| {
        let call = ToolCall { id: format!("c{n}"), name: name.to_owned(), arguments };
        Ok(ModelEvent::ToolCall(call))
    })
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
