//! The endpoint for clients that speak OpenAI's API: agents are its models, and each conversation is a local channel,
//! `AGENT/local/openai.KEY/NAME`.
//!
//! Clients send their whole list of messages each time; `cairn_core::client_list` lays it beside what is stored. Requests of one
//! conversation are served one after another. A client that hangs up stops its answer, as `/stop` does.

mod answer;
mod error;
mod request;
mod serve;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cairn_actors::Runtime;
use cairn_api::error::ApiError;
use cairn_config::{Config, Live, Loaded};
use cairn_core::client_list::{ClientList, reconcile};
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, OPENAI_PLATFORM, TurnId};
use cairn_types::message::{Author, ToolCall};
use cairn_types::model::Usage;
use cairn_types::ports::{Admission, Answer, Clock, Progress, Reply};
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDefs;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, mpsc};

use crate::api::page_access::is_same_secret;
use crate::api::runtime_error;
use crate::http::body::read_body;
use crate::messages::Mint;
use answer::{Completion, Shown};
use error::Failed;
use request::{Asked, Named};
pub use serve::{NoAddress, OpenAiAddress};

/// Largest body of a request: a whole conversation, and pictures.
const BODY_MAX_BYTES: usize = 16 << 20;

/// A stream's head is held back for so long at most, so that a failure by then has a status of its own.
const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// After this long without a chunk, a comment keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Conversations that begin with the same message and are told apart by what follows.
const ALIKE_MAX: usize = 8;

/// Above so many, those that nobody uses are removed from the list of lanes.
const LANES: usize = 256;

/// Turns of clients that have hung up that are stopped beside each other.
const STOPPED_AT_ONCE: usize = 16;

/// Share of the usable window that a client's system message may take.
const SYSTEM_SHARE: u64 = 4;

struct ClientKey {
    name: String,
    secret: SecretString,
    agents: Vec<AgentId>,
}

/// An answer that nobody waits for any more.
struct Abandoned {
    channel: ChannelId,
    turn: TurnId,
    /// The next request of the conversation waits until the turn has stopped.
    _lane: OwnedMutexGuard<()>,
}

struct Endpoint {
    runtime: Runtime,
    live: Live,
    clock: Arc<dyn Clock>,
    started_at: Timestamp,
    mint: Mint,
    keys: Vec<ClientKey>,
    lanes: Mutex<HashMap<ChannelId, Arc<tokio::sync::Mutex<()>>>>,
    abandoned: mpsc::Sender<Abandoned>,
}

type Shared = Arc<Endpoint>;

fn router(endpoint: Shared) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/chat/completions", post(complete))
        .fallback(async || Failed::no_such_path())
        .method_not_allowed_fallback(async || Failed::wrong_method())
        .with_state(endpoint)
}

/// The keys that could be read.
fn keys_of(loaded: &Loaded) -> Vec<ClientKey> {
    let keys = loaded.config.openai_api.keys.iter();
    let known = keys.filter_map(|key| {
        let secret = loaded.client_key(&key.name)?.clone();
        Some(ClientKey { name: key.name.clone(), secret, agents: key.agents.clone() })
    });
    known.collect()
}

async fn models(State(endpoint): State<Shared>, headers: HeaderMap) -> Result<Json<Value>, Failed> {
    let key = endpoint.key(&headers)?;
    let data: Vec<Value> = key.agents.iter().map(|agent| endpoint.model(agent)).collect();
    Ok(Json(json!({ "object": "list", "data": data })))
}

async fn model(
    State(endpoint): State<Shared>,
    Path(model): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Failed> {
    let key = endpoint.key(&headers)?;
    let agent = key.agents.iter().find(|agent| agent.as_str() == model);
    agent.map(|agent| Json(endpoint.model(agent))).ok_or_else(|| Failed::no_such_model(&model))
}

async fn complete(
    State(endpoint): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failed> {
    let key = endpoint.key(&headers)?;
    let bytes = read_body(body, BODY_MAX_BYTES).await?;
    let bytes = bytes.ok_or_else(|| ApiError::too_large(BODY_MAX_BYTES))?;
    let asked = endpoint.read(key, &headers, &bytes)?;
    drop(bytes);
    let (stream, include_usage) = (asked.stream, asked.include_usage);
    let (model, at) = (asked.agent.to_string(), endpoint.clock.now());
    let (under_way, progress) = endpoint.submit(key, asked).await?;
    let id = format!("chatcmpl-{}", endpoint.mint.next(at));
    let completion = Completion { id, created: at.as_second(), model, include_usage };
    if stream {
        streamed(completion, under_way, progress).await
    } else {
        whole(&completion, under_way, progress).await
    }
}

/// Whether the agent's first model takes pictures.
fn sees(config: &Config, agent: &AgentId) -> bool {
    let agent = config.agent(agent.as_str());
    agent.and_then(|agent| config.model(agent.model())).is_some_and(|model| model.images)
}

impl Endpoint {
    /// The key of a request. All keys are compared, so that the time tells nothing.
    fn key(&self, headers: &HeaderMap) -> Result<&ClientKey, Failed> {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, given) = given.split_once(' ').unwrap_or_default();
        let mut found = None;
        for key in &self.keys {
            if is_same_secret(key.secret.expose_secret(), given.trim())
                && scheme.eq_ignore_ascii_case("bearer")
            {
                found = Some(key);
            }
        }
        found.ok_or_else(|| {
            tracing::debug!("a request to [openai_api] was refused: its key is missing or wrong");
            Failed::unauthorized()
        })
    }

    fn read(&self, key: &ClientKey, headers: &HeaderMap, bytes: &[u8]) -> Result<Asked, Failed> {
        let loaded = self.live.now();
        let sees = |agent: &AgentId| sees(&loaded.config, agent);
        let text_bytes = loaded.config.limits.max_message_bytes;
        let bounds = request::Bounds { agents: &key.agents, text_bytes, sees: &sees };
        let asked = request::read(bytes, headers, &bounds)?;
        self.check_system(&asked)?;
        Ok(asked)
    }

    fn model(&self, agent: &AgentId) -> Value {
        let created = self.started_at.as_second();
        json!({ "id": agent, "object": "model", "created": created, "owned_by": "cairn" })
    }

    /// System message and tools of a client must leave the window to the conversation.
    fn check_system(&self, asked: &Asked) -> Result<(), Failed> {
        let Some(agent) = self.runtime.agent(&asked.agent) else { return Ok(()) };
        let usable = agent.first_settings().window.usable_tokens();
        let tools = ToolDefs::from(asked.tools.clone());
        let (tokens, most) = (
            u64::from(estimate(&asked.system) + estimate(&asked.greeting)) + tools.tokens(),
            usable / SYSTEM_SHARE,
        );
        if tokens <= most {
            return Ok(());
        }
        let message = format!(
            "system messages and tools take some {tokens} tokens; a quarter of the agent's window is {most}: shorten them, \
             or raise its context_window"
        );
        Err(Failed::wrong("messages", "context_length_exceeded", message))
    }

    /// Hands a list to its conversation, once earlier requests of it are over.
    async fn submit(
        self: &Arc<Self>,
        key: &ClientKey,
        asked: Asked,
    ) -> Result<(UnderWay, BoxStream<'static, Progress>), Failed> {
        let author = Author { id: format!("{OPENAI_PLATFORM}/{}", key.name), name: key.name.clone() };
        let (name, is_first) = match &asked.named {
            Named::ByClient(name) => (name, false),
            Named::ByFirstMessage(name) => (name, true),
        };
        let of = |name: &str| {
            let chat = format!("{OPENAI_PLATFORM}.{}", key.name);
            ChannelId::new(&asked.agent, LOCAL_PLATFORM, &chat, Some(name)).map_err(ApiError::from)
        };
        let named = of(name)?;
        // By the bare name: conversations that begin alike are told apart while no other request does.
        let lane = self.lane(&named).lock_owned().await;
        let at = self.clock.now();
        let mut list = ClientList {
            channel: named,
            message: self.mint.next(at),
            author,
            at,
            system: asked.system,
            greeting: asked.greeting,
            tools: asked.tools,
            listed: asked.listed,
        };
        if is_first {
            for n in 2..=ALIKE_MAX {
                if self.fits(&list).await? {
                    break;
                }
                list.channel = of(&format!("{name}-{n}"))?;
            }
        }
        let channel = list.channel.clone();
        let (endpoint, results) = (Arc::clone(self), asked.results);
        // A client that hangs up meanwhile drops what comes of it, and so the turn is stopped.
        let begun = tokio::spawn(async move {
            let goes_on =
                if results.is_empty() { None } else { endpoint.runtime.answer_calls(&channel, &results) };
            let Admission { turn, progress } = match goes_on {
                Some(admission) => admission,
                None => endpoint.begin(list).await?,
            };
            let abandoned = Some(Abandoned { channel, turn, _lane: lane });
            Ok((UnderWay { endpoint, abandoned }, progress))
        });
        begun.await.map_err(|panic| ApiError::internal(&panic))?
    }

    /// Begins a turn. One that waits for results of the client's tools is stopped: the client goes on without them.
    async fn begin(&self, list: ClientList) -> Result<Admission, Failed> {
        if self.runtime.waits_for_client(&list.channel) {
            self.runtime.stop_turn(&list.channel).await.map_err(runtime_error)?;
        }
        Ok(self.runtime.take_list(list).await.map_err(ApiError::from)?)
    }

    /// Whether a list continues the conversation of its channel.
    async fn fits(&self, list: &ClientList) -> Result<bool, Failed> {
        let known = self.runtime.conversation(&list.channel).await.map_err(runtime_error)?;
        let Some((known, _)) = known else { return Ok(true) };
        let (listed, author) = (list.listed.clone(), list.author.id.clone());
        let work = move || reconcile(&known, &listed, &author).fits;
        Ok(tokio::task::spawn_blocking(work).await.map_err(|panic| ApiError::internal(&panic))?)
    }

    fn lane(&self, channel: &ChannelId) -> Arc<tokio::sync::Mutex<()>> {
        let mut lanes = self.lanes.lock();
        if lanes.len() > LANES {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        Arc::clone(lanes.entry(channel.clone()).or_default())
    }
}

/// A turn whose client waits. Dropped before its end, it is stopped.
struct UnderWay {
    endpoint: Shared,
    abandoned: Option<Abandoned>,
}

impl UnderWay {
    fn ended(&mut self) {
        self.abandoned = None;
    }

    fn broken_off(&self) -> ApiError {
        let turn =
            self.abandoned.as_ref().map_or_else(|| TurnId::from("?"), |abandoned| abandoned.turn.clone());
        crate::messages::broken_off(&turn)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(abandoned) = self.abandoned.take() else { return };
        count("hung_up");
        let channel = abandoned.channel.clone();
        if self.endpoint.abandoned.try_send(abandoned).is_err() {
            tracing::warn!(%channel,
                "a client disconnected, but its answer is not stopped: too many disconnected at once, or the \
                 daemon is stopping");
        }
    }
}

/// Stops the turns whose clients have hung up.
async fn stop_abandoned(runtime: Runtime, abandoned: mpsc::Receiver<Abandoned>) {
    let each = stream::unfold(abandoned, async |mut abandoned| Some((abandoned.recv().await?, abandoned)));
    each.for_each_concurrent(STOPPED_AT_ONCE, |one| stop_one(&runtime, one)).await;
}

async fn stop_one(runtime: &Runtime, Abandoned { channel, turn, _lane }: Abandoned) {
    let open = match runtime.conversation(&channel).await {
        Ok(known) => known.and_then(|(known, _)| known.open_turn.as_ref().map(|open| open.id.clone())),
        Err(error) => {
            tracing::warn!(%channel, %error, "a client disconnected, but its answer could not be stopped");
            return;
        }
    };
    if open != Some(turn) {
        return;
    }
    match runtime.stop_turn(&channel).await {
        Ok(_) => tracing::info!(%channel, "a client disconnected; its answer is stopped"),
        Err(error) => {
            tracing::warn!(%channel, %error, "a client disconnected, but its answer could not be stopped")
        }
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("cairn_openai_requests_total", "outcome" => outcome).increment(1);
}

/// Waits for the answer.
async fn whole(
    completion: &Completion,
    mut under_way: UnderWay,
    mut progress: BoxStream<'static, Progress>,
) -> Result<Response, Failed> {
    let mut text = String::new();
    while let Some(progress) = progress.next().await {
        let answer = match progress {
            Progress::Ended(Answer::Reply(reply)) => completion.whole(&reply),
            Progress::Ended(Answer::Failed(failure)) => {
                under_way.ended();
                return Err(ApiError::from(failure).into());
            }
            Progress::ClientCalls { calls, usage } => completion.calling(text.trim(), &calls, usage),
            Progress::Delta(more) => {
                text.push_str(&more);
                continue;
            }
            Progress::Restarted => {
                text.clear();
                continue;
            }
            Progress::Tool { .. } | Progress::Approval(_) | Progress::Waiting(_) => continue,
        };
        under_way.ended();
        count("answered");
        return Ok(Json(answer).into_response());
    }
    Err(under_way.broken_off().into())
}

/// Streams the answer.
async fn streamed(
    completion: Completion,
    mut under_way: UnderWay,
    mut progress: BoxStream<'static, Progress>,
) -> Result<Response, Failed> {
    let head = async {
        loop {
            match progress.next().await {
                Some(
                    Progress::Tool { .. }
                    | Progress::Approval(_)
                    | Progress::Waiting(_)
                    | Progress::Restarted,
                ) => {}
                other => return other,
            }
        }
    };
    let head = match tokio::time::timeout(HEAD_LIMIT, head).await {
        Ok(Some(Progress::Ended(Answer::Failed(failure)))) => {
            under_way.ended();
            return Err(ApiError::from(failure).into());
        }
        Ok(None) => return Err(under_way.broken_off().into()),
        Ok(some) => some,
        Err(_elapsed) => None,
    };
    let first = completion.first();
    let state = Streaming { completion, under_way, shown: Shown::default() };
    let progress = stream::iter(head).chain(progress).map(Some).chain(stream::iter([None]));
    let chunks = progress.scan(Some(state), |state, progress| {
        let chunks = state.as_mut().map(|state| state.chunks(progress));
        let is_over = chunks.as_ref().is_none_or(|(_, is_over)| *is_over);
        if is_over {
            *state = None;
        }
        std::future::ready(chunks.map(|(chunks, _)| stream::iter(chunks)))
    });
    let first = Event::default().data(first.to_string());
    let events = stream::iter([first]).chain(chunks.flatten()).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

struct Streaming {
    completion: Completion,
    under_way: UnderWay,
    shown: Shown,
}

impl Streaming {
    /// The events for what has happened, and whether they are the last; `None`: the daemon stops.
    fn chunks(&mut self, progress: Option<Progress>) -> (Vec<Event>, bool) {
        let text = match progress {
            Some(Progress::Delta(text)) => self.shown.more(&text),
            Some(Progress::Restarted) => {
                self.shown.restarted();
                String::new()
            }
            Some(Progress::Tool { .. } | Progress::Approval(_) | Progress::Waiting(_)) => String::new(),
            Some(Progress::Ended(Answer::Reply(reply))) => return (self.answered(&reply), true),
            Some(Progress::ClientCalls { calls, usage }) => return (self.calling(&calls, usage), true),
            Some(Progress::Ended(Answer::Failed(failure))) => {
                return (self.failed(ApiError::from(failure).into()), true);
            }
            None => {
                let error = self.under_way.broken_off();
                return (self.failed(error.into()), true);
            }
        };
        (self.delta(text).into_iter().collect(), false)
    }

    fn delta(&self, text: String) -> Option<Event> {
        let chunk = || self.completion.chunk(&json!({ "content": text }), None).to_string();
        (!text.is_empty()).then(|| Event::default().data(chunk()))
    }

    fn answered(&mut self, reply: &Reply) -> Vec<Event> {
        self.under_way.ended();
        count("answered");
        let missing = self.shown.missing(&reply.reply);
        let mut events: Vec<Event> = self.delta(missing).into_iter().collect();
        events.extend(Self::last(self.completion.last(reply)));
        events
    }

    fn calling(&mut self, calls: &[ToolCall], usage: Usage) -> Vec<Event> {
        self.under_way.ended();
        count("answered");
        Self::last(self.completion.last_calling(calls, usage)).collect()
    }

    fn last(chunks: Vec<Value>) -> impl Iterator<Item = Event> {
        let chunks = chunks.into_iter().map(|chunk| chunk.to_string());
        chunks.chain(["[DONE]".to_owned()]).map(|data| Event::default().data(data))
    }

    /// The status is sent already: the error stands in the stream.
    fn failed(&mut self, failed: Failed) -> Vec<Event> {
        self.under_way.ended();
        count(failed.outcome());
        vec![Event::default().data(failed.body().to_string())]
    }
}
