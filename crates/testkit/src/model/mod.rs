//! A fake model server: OpenAI's chat completions and Responses API, and Anthropic's messages, over loopback TCP, streaming and not.
//!
//! It checks every request as a strict server would and more: see [`Violation`]. A request that fails a check gets
//! HTTP 400 and is recorded. Answers are scripted, or made up: replies echo the newest words of the user, compactions
//! get a short summary. Requests of a kind can be held at a [`Gate`], and their arrival awaited without a sleep.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use cairn_testkit::model::{Answer, FakeModel, Kind};
//!
//! let model = FakeModel::start().await;
//! let gate = model.hold(Kind::Compaction);
//! model.push(Kind::Reply, Answer::text("hello"));
//! // … point a configuration at `model.base_url()`, talk …
//! // model.wait_for(Kind::Compaction, 1).await;
//! gate.open();
//! model.assert_clean();
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod anthropic;
mod capture;
mod check;
mod hostile;
mod measure;
mod ollama;
mod openai;
mod prefix;
mod provider;
mod respond;
mod responses;
mod serve;
mod wire;
mod wording;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::tune::Billing;
use cairn_types::model::Usage;
use serde_json::Value;

use crate::gate::Gates;
use crate::watched::{Watched, listen};

pub use crate::gate::Gate;
pub use answer::Answer;
pub use check::{Rule, Violation};
pub use hostile::{Hostile, all_arguments};
pub use measure::Count;
pub use ollama::Ollama;
pub use provider::Provider;
pub use wire::{last_user_text, lasting_text_of, text_of, tool_names};
pub use wording::Wording;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Reply,
    /// A summary, or a merge of summaries.
    Compaction,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its number, from 0, over all kinds.
    pub n: usize,
    pub kind: Kind,
    pub wire: Wire,
    /// Its body in the form of chat completions, whatever the format.
    pub body: Value,
    /// Its body as it arrived, where that is another one.
    pub raw: Option<Value>,
    /// Its body as it arrived, to the last byte.
    pub sent: Arc<str>,
    /// Its `Authorization` header, or `x-api-key`.
    pub authorization: Option<String>,
    /// Its headers that begin with `x-`, by their names in lower case.
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Responses,
    Anthropic,
}

/// What a server does that cannot stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    Yes,
    /// It refuses a request for a stream.
    Refused,
    Ignored,
}

/// How often something happened to requests of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// They arrived; refused ones included.
    pub arrived: usize,
    /// Their answer was sent to its end.
    pub answered: usize,
    /// The client hung up before the end of the answer.
    pub abandoned: usize,
}

/// What requests of a kind, and their answers, took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests that were answered; refused ones are not among them.
    pub requests: u64,
    /// Their tokens, and those of their answers.
    pub usage: Usage,
    /// Tokens of the largest.
    pub most_input: u64,
}

type Classify = Arc<dyn Fn(&Value) -> Kind + Send + Sync>;
type Refuses = Arc<dyn Fn(&Value) -> bool + Send + Sync>;
type Respond = Arc<dyn Fn(&Seen) -> Option<Answer> + Send + Sync>;

/// How a fake model behaves. Made by [`FakeModel::builder`].
#[derive(Clone)]
pub struct Builder {
    window: Option<u64>,
    advertised: Option<u64>,
    listed: Vec<String>,
    key: Option<String>,
    count: Count,
    stable_prefix: bool,
    strict: bool,
    classify: Classify,
    respond: Option<Respond>,
    memories: Vec<Value>,
    recorded: bool,
    delays: [Duration; 2],
    address: SocketAddr,
    wording: Option<Wording>,
    ollama: Option<Ollama>,
    lm_studio: Option<(u64, u64)>,
    no_tools: Option<Wording>,
    streaming: Streaming,
    breakpoints: bool,
    no_responses: Option<u16>,
    fault: Option<Answer>,
    provider: Option<Provider>,
    refuses: Option<Refuses>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            window: None,
            advertised: None,
            listed: Vec::new(),
            key: None,
            count: Count::Estimate,
            stable_prefix: true,
            strict: true,
            classify: Arc::new(wire::classify),
            respond: None,
            memories: Vec::new(),
            recorded: true,
            delays: [Duration::ZERO; 2],
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            wording: None,
            ollama: None,
            lm_studio: None,
            no_tools: None,
            streaming: Streaming::Yes,
            breakpoints: false,
            no_responses: None,
            fault: None,
            provider: None,
            refuses: None,
        }
    }
}

impl Builder {
    /// Refuses requests that, with their `max_tokens`, are over this window.
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Lists this window at `/v1/models`; unset: none is listed.
    pub fn advertise(mut self, tokens: u64) -> Self {
        self.advertised = Some(tokens);
        self
    }

    /// Lists models of these names at `/v1/models`; unset: `fake` alone.
    pub fn list(mut self, models: &[&str]) -> Self {
        self.listed = models.iter().map(|&model| model.to_owned()).collect();
        self
    }

    /// Lists its models for this key alone, as OpenAI and most others do.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// How tokens are counted, for the window and for `usage`. Unset: by the runtime's estimate.
    pub fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Whether a reply's request must go on from an earlier one of its conversation. On unless switched off, as
    /// tests with `/undo` or erasures must.
    pub fn expect_stable_prefix(mut self, expected: bool) -> Self {
        self.stable_prefix = expected;
        self
    }

    /// Refuses nothing but what chat templates refuse ([`Rule::Roles`]): for servers that stand in for a real one in load
    /// runs.
    pub fn lenient(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Keeps no bodies of requests: for long load runs.
    pub fn unrecorded(mut self) -> Self {
        self.recorded = false;
        self
    }

    /// How to tell what a request is for. Unset: a request whose only tool is `memory_save`, or whose first message
    /// from a user begins with `<transcript` or `<summaries`, is a compaction.
    pub fn classify(mut self, classify: impl Fn(&Value) -> Kind + Send + Sync + 'static) -> Self {
        self.classify = Arc::new(classify);
        self
    }

    /// Makes up answers; asked when no scripted one waits, `None` means the usual one.
    pub fn respond(mut self, respond: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) -> Self {
        self.respond = Some(Arc::new(respond));
        self
    }

    /// Memories (arguments of `memory_save`) that each compaction saves in its first round.
    pub fn memories(mut self, memories: Vec<Value>) -> Self {
        self.memories = memories;
        self
    }

    /// Waits so long before each answer of a kind. For load runs; tests use [`FakeModel::hold`].
    pub fn delay(mut self, kind: Kind, delay: Duration) -> Self {
        self.delays[kind as usize] = delay;
        self
    }

    /// Listens at this address instead of a free loopback port.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Refuses requests over the window in the words of that server. Unset: of the wire format's own.
    pub fn wording(mut self, wording: Wording) -> Self {
        self.wording = Some(wording);
        self
    }

    /// Silently cuts requests over its window.
    pub fn ollama(mut self, ollama: Ollama) -> Self {
        self.ollama = Some(ollama);
        self
    }

    /// Tells its windows as LM Studio does: with which models are loaded, and with which they may be at most.
    pub fn lm_studio(mut self, loaded: u64, most: u64) -> Self {
        self.lm_studio = Some((loaded, most));
        self
    }

    /// Refuses requests with tools, in the words of that server.
    pub fn no_tools(mut self, wording: Wording) -> Self {
        self.no_tools = Some(wording);
        self
    }

    /// Whether it streams when it is asked to.
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }

    /// Has no Responses API: requests to its address get this status.
    pub fn without_responses(mut self, status: u16) -> Self {
        self.no_responses = Some(status);
        self
    }

    /// Stands in for that provider: it wants back what it gives with its answers.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Refuses requests of which this is true, by their bodies as they arrived, in words that say nothing.
    pub fn refuses(mut self, refuses: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.refuses = Some(Arc::new(refuses));
        self
    }

    /// In the formats of OpenAI it is one of OpenAI's models from GPT-5.6 on: it caches by breakpoints. Unset: it refuses them.
    pub fn breakpoints(mut self) -> Self {
        self.breakpoints = true;
        self
    }

    /// How requests are cached and billed.
    fn billing(&self, wire: Wire) -> Billing {
        match wire {
            Wire::Anthropic => Billing::anthropic(),
            Wire::OpenAi | Wire::Responses if self.breakpoints => Billing::openai_breakpoints(),
            Wire::OpenAi | Wire::Responses => Billing::openai(),
        }
    }

    /// Answers every reply that has no scripted answer so.
    pub fn fault(mut self, fault: Answer) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Starts the server.
    pub async fn start(self) -> FakeModel {
        FakeModel::with(self).await
    }
}

/// What all requests share.
pub(crate) struct Shared {
    builder: Builder,
    state: Watched<State>,
    gates: Gates<Kind>,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    tallies: [Tally; 2],
    violations: Vec<Violation>,
    scripts: [VecDeque<Answer>; 2],
    conversations: prefix::Conversations,
    /// By wire format.
    caches: [Option<measure::Cache>; 3],
    given: provider::Given,
    n_summaries: usize,
    used: [Used; 2],
}

impl State {
    fn n_seen(&self) -> usize {
        self.tallies.iter().map(|tally| tally.arrived).sum()
    }
}

impl Shared {
    /// Changes the state and wakes whoever waits for a change.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.update(change)
    }
}

/// A running fake model server; dropping it stops it.
pub struct FakeModel {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeModel {
    /// Starts a server with the usual behaviour on a free port.
    pub async fn start() -> Self {
        Self::with(Builder::default()).await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    async fn with(builder: Builder) -> Self {
        let listener = listen(builder.address).await;
        let address = listener.local_addr().unwrap_or(builder.address);
        let shared = Arc::new(Shared { builder, state: Watched::default(), gates: Gates::default() });
        let app = serve::router(shared.clone());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the fake model stopped");
            }
        });
        Self { shared, address, server }
    }

    /// What goes into `base_url`: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Scripts the answer to the next request of a kind that no earlier scripted answer takes.
    pub fn push(&self, kind: Kind, answer: Answer) {
        self.shared.state.lock().scripts[kind as usize].push_back(answer);
    }

    /// Scripted answers of a kind that nobody has taken yet.
    pub fn unused(&self, kind: Kind) -> usize {
        self.shared.state.lock().scripts[kind as usize].len()
    }

    /// Holds all requests of a kind from now on, after they are checked and recorded, until the gate opens. Dropping
    /// the gate opens it.
    pub fn hold(&self, kind: Kind) -> Gate {
        self.shared.gates.close(kind)
    }

    /// Waits until so many requests of a kind have arrived since the start, held ones included.
    pub async fn wait_for(&self, kind: Kind, n: usize) {
        self.wait_until(&format!("{n} requests of {kind:?}"), |model| model.tally(kind).arrived >= n).await;
    }

    /// Waits until a condition on this server holds; it is looked at with every request that arrives or ends.
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let more = || format!("violations: {:?}", self.violations());
        self.shared.state.wait(what, || condition(self).then_some(()), more).await;
    }

    /// How often what happened to requests of a kind.
    pub fn tally(&self, kind: Kind) -> Tally {
        self.shared.state.lock().tallies[kind as usize]
    }

    /// All requests so far, in the order of their arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state.lock().seen.clone()
    }

    /// The bodies of all requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.seen().into_iter().map(|seen| seen.body).collect()
    }

    /// The bodies of all requests of a kind so far.
    pub fn requests_of(&self, kind: Kind) -> Vec<Value> {
        self.seen().into_iter().filter(|seen| seen.kind == kind).map(|seen| seen.body).collect()
    }

    /// What was wrong with requests so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.state.lock().violations.clone()
    }

    /// Share of all input tokens of replies so far that a prompt cache held, 0 to 1.
    pub fn cached_share(&self) -> f64 {
        let state = self.shared.state.lock();
        let counted = state.caches.iter().flatten().map(measure::Cache::counted);
        let [input, cached] = counted.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        cached as f64 / input.max(1) as f64
    }

    /// How requests over a wire format are cached and billed.
    pub fn billing(&self, wire: Wire) -> Billing {
        self.shared.builder.billing(wire)
    }

    /// What requests of a kind have taken so far.
    pub fn used(&self, kind: Kind) -> Used {
        self.shared.state.lock().used[kind as usize]
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the fake model refused requests: {violations:#?}");
    }
}

#[cfg(test)]
mod tests;
