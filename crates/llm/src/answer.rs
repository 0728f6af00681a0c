//! From a request to the events of its answer, whatever the wire format.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::stream::{BoxStream, PollNext};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use reqwest::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use reqwest::{Response, Version};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;

use cairn_types::ids::TextId;
use cairn_types::model::{Attempt, ChatRequest, Finish, ModelError, ModelEvent};
use cairn_types::wire::body::{self, BodyError};
use cairn_types::wire::format::{Sent, Wire, WireFormat};
use cairn_types::wire::sse::{self, ServerEvent, SseFault};

use crate::body::Body;
use crate::failure::{self, ServerRefusal};
use crate::options::Timeouts;
use crate::remedy::{GUESSES, REMEDIES, Remedy};
use crate::server::{Server, causes};
use crate::sort::Sorter;
use crate::{anthropic, json, openai, responses};

/// Largest answer that comes whole; a picture-free answer of 128,000 tokens has about a megabyte.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Of a refusal, only so much is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// Words of an answer may have so many bytes for each token that was allowed, and a free megabyte: reasoning is not
/// counted everywhere. A server that says more does not keep to `max_tokens` and may never end.
const BYTES_PER_TOKEN: u64 = 64;
const FREE_BYTES: u64 = 1 << 20;

/// A model's chunk is a few hundred bytes, a whole answer in one chunk some hundred kilobytes; an answer of 128,000 tokens
/// in chunks of one token takes some 40 MB.
const EVENT_BOUNDS: sse::SseBounds = sse::SseBounds { event: 4 << 20, stream: 64 << 20, plain_errors: true };

/// The server-sent events of an answer.
pub(crate) type Events = BoxStream<'static, Result<ServerEvent, ModelError>>;

/// Puts an answer together from its pieces: one for each wire format.
pub(crate) trait Assemble: Send + Sized + 'static {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError>;

    /// Takes in an answer that came whole.
    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError>;

    /// The server has said that the answer is complete.
    fn is_marked(&self) -> bool;

    /// What is left to say at the end; an error when the end is missing.
    fn end(self, ended: Ended) -> Result<Vec<ModelEvent>, ModelError>;
}

/// What the end of a stream means that the server has not marked as the answer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The answer was cut off.
    Cut,
    /// The answer is whole: this server marks none.
    Whole,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// A piece of the answer, which may hold nothing to pass on yet.
    Piece(Vec<ModelEvent>),
    Alive,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Longest time between two pieces that say something.
    pub(crate) progress: Duration,
    /// Most tokens that were asked for.
    pub(crate) tokens: u64,
}

impl Bounds {
    fn new(timeouts: Timeouts, tokens: u64) -> Self {
        Self { progress: timeouts.first.max(timeouts.idle), tokens }
    }

    fn bytes(&self) -> u64 {
        self.tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(FREE_BYTES)
    }
}

/// Sends the request and yields the answer, with how it was sent; nothing after the first error or after the end. Dropped, it
/// closes the connection.
pub(crate) fn stream(
    server: Arc<Server>,
    wire: Wire,
    request: ChatRequest,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let mut sorter = Sorter::new(&server, &wire, &request);
    let (tell, told) = mpsc::channel(2 * REMEDIES.len());
    let opened = async move {
        let bounds = Bounds::new(server.options.timeouts, request.max_output_tokens);
        let answer = match (Opening { server: &server, request: &request, tell }).open(wire).await {
            Ok((opened, wire)) => opened.read(&server, &wire, &request, bounds),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        let sorted =
            answer.map_ok(move |event| stream::iter(sorter.take(event).into_iter().map(Ok))).try_flatten();
        sorted.map_err(move |error| server.without_key(server.with_cause(error)))
    };
    let told = told.map(|sent| Ok(ModelEvent::Sent(Box::new(sent))));
    // How it is sent is told first, and before it is known what becomes of it.
    stream::select_with_strategy(told, stream::once(opened).flatten(), |_: &mut ()| PollNext::Left).boxed()
}

enum Opened {
    Events {
        events: Events,
        /// Whether the end of the body can be told from the end of the connection (see [`StreamEnd`]).
        is_framed: bool,
    },
    Whole(String),
}

impl Opened {
    /// What the answer says to a request over that wire.
    fn read(
        self,
        server: &Arc<Server>,
        wire: &Wire,
        request: &ChatRequest,
        bounds: Bounds,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let n_messages = request.messages.len();
        match wire.format {
            WireFormat::Openai | WireFormat::Offline => {
                self.read_by(openai::assemble::Assembler::new(&wire.model, n_messages), server, bounds)
            }
            WireFormat::Responses => {
                self.read_by(responses::assemble::Assembler::new(&wire.model, n_messages), server, bounds)
            }
            WireFormat::Anthropic => {
                self.read_by(anthropic::assemble::Assembler::new(&wire.model, request), server, bounds)
            }
        }
    }

    fn read_by(
        self,
        assembler: impl Assemble,
        server: &Arc<Server>,
        bounds: Bounds,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        match self {
            Self::Events { events, is_framed } => {
                let end = StreamEnd { server: Arc::clone(server), is_framed };
                read(events, assembler, bounds, Some(end)).boxed()
            }
            Self::Whole(body) => stream::iter(read_whole(&body, assembler, bounds)).boxed(),
        }
    }
}

/// Where a stream of events comes from, and whether its end can be told from a broken connection.
pub(crate) struct StreamEnd {
    server: Arc<Server>,
    /// The body has a length or an end of its own. Otherwise it ends where the connection does, however that came about.
    is_framed: bool,
}

impl StreamEnd {
    /// What it means that the events are over. A server that once marked the end of an answer marks all of them; one that never has
    /// may be one that does not. `is_marked`: this one was.
    fn meaning(&self, is_marked: bool) -> Ended {
        if is_marked {
            self.server.marks_ends();
        }
        if self.is_framed && !self.server.has_marked_ends() { Ended::Whole } else { Ended::Cut }
    }
}

/// An answer that is being opened.
struct Opening<'a> {
    server: &'a Server,
    request: &'a ChatRequest,
    tell: mpsc::Sender<Sent>,
}

impl Opening<'_> {
    /// What a server refuses and a request can do without is left out, and once that has got an answer, from then on. With the
    /// answer comes the wire that it was given over.
    async fn open(mut self, mut wire: Wire) -> Result<(Opened, Wire), ModelError> {
        if self.server.needs(Remedy::Chat) {
            Remedy::speak_chat(&mut wire);
        }
        let is_bare = self.request.attempt == Attempt::Bare;
        let needs = |remedy: Remedy| match remedy {
            Remedy::Chat => false,
            Remedy::NoStream if !wire.stream => false,
            _ => self.server.needs(remedy) || (is_bare && remedy.is_for_any_server()),
        };
        wire.remedies =
            REMEDIES.into_iter().filter(|remedy| needs(*remedy)).map(|r| r.name().to_owned()).collect();
        let mut named = Vec::new();
        let mut unlearnt = false;
        let refusal = loop {
            let refusal = match self.send(&wire).await {
                Ok(opened) => {
                    named
                        .into_iter()
                        .for_each(|remedy| self.server.learn(remedy, "it refused the request otherwise"));
                    if unlearnt {
                        self.server.unlearn(Remedy::OtherLimit);
                    }
                    return Ok((opened, wire));
                }
                Err(refusal) => refusal,
            };
            match refusal.remedies.iter().find(|remedy| self.add(&mut wire, **remedy)) {
                Some(remedy) => named.push(*remedy),
                // The other name is refused by now: back to the first one.
                None if refusal.remedies.contains(&Remedy::OtherLimit) && named.is_empty() && !unlearnt => {
                    wire.remedies.retain(|name| name != Remedy::OtherLimit.name());
                    unlearnt = true;
                }
                None => break refusal,
            }
        };
        let error = typed(refusal, &Body::of(&wire, self.request));
        match (&error, self.request.attempt) {
            (ModelError::BadRequest { .. }, Attempt::Simplified) => self.guess(wire, error).await,
            _ => Err(error),
        }
    }

    /// Leaves out one thing after another, each alone. What the server takes without it, it is asked without for a day.
    async fn guess(mut self, wire: Wire, error: ModelError) -> Result<(Opened, Wire), ModelError> {
        for remedy in GUESSES {
            let mut without = wire.clone();
            if !self.add(&mut without, remedy) {
                continue;
            }
            match self.send(&without).await {
                Ok(opened) => {
                    self.server.guess(remedy, &error);
                    return Ok((opened, without));
                }
                Err(refusal)
                    if matches!(refusal.error, ModelError::BadRequest { .. } | ModelError::NoTools(_)) => {}
                Err(refusal) => return Err(refusal.error),
            }
        }
        Err(error)
    }

    /// Has the request do without something. False: there is nothing of it.
    fn add(&self, wire: &mut Wire, remedy: Remedy) -> bool {
        match remedy {
            Remedy::Chat => return Remedy::speak_chat(wire),
            // The other formats have no such field, and take tools beside reasoning.
            Remedy::NoEffort if wire.format != WireFormat::Openai => return false,
            _ if remedy.is_in(wire) => return false,
            _ => {}
        }
        let before = Body::of(wire, self.request).text();
        wire.remedies.push(remedy.name().to_owned());
        let changed = Body::of(wire, self.request).text() != before;
        if !changed {
            wire.remedies.pop();
        }
        changed
    }

    async fn send(&mut self, wire: &Wire) -> Result<Opened, ServerRefusal> {
        let body = Body::of(wire, self.request);
        let text = body.text();
        // There is room for as often as it can be sent; nobody may want to know.
        let _ = self.tell.try_send(Sent { wire: wire.clone(), body: Some(TextId::of(&text)) });
        send(self.server, wire.format, &body, text).await
    }
}

/// A request without tools cannot be refused for its tools, nor one without results for them.
fn typed(refusal: ServerRefusal, body: &Body) -> ModelError {
    match refusal.error {
        ModelError::NoTools(text) if failure::is_of_roles(&text) && !has_results(&body.fields) => {
            ModelError::refused(text)
        }
        ModelError::NoTools(text) if !body.has_tools() => ModelError::refused(text),
        error => error,
    }
}

fn has_results(body: &Value) -> bool {
    let messages = ["messages", "input"].iter().filter_map(|key| body[*key].as_array()).flatten();
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    messages.into_iter().any(|message| {
        message["role"] == "tool"
            || message["type"] == "function_call_output"
            || blocks(message).iter().any(|block| block["type"] == "tool_result")
    })
}

async fn send(
    server: &Server,
    format: WireFormat,
    body: &Body,
    text: String,
) -> Result<Opened, ServerRefusal> {
    let streaming = body.fields["stream"] == true;
    let Timeouts { connect, first, idle } = server.options.timeouts;
    // Its streams begin at once, and may then be silent for as long as the model reasons.
    let idle = if format == WireFormat::Responses { first.max(idle) } else { idle };
    let response = match tokio::time::timeout(first, server.post(format, text)?.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_timeout() && error.is_connect() => {
            // No request has gone out, so it is no wait for an answer.
            return Err(ModelError::Transport(format!("no connection within {connect:?}")).into());
        }
        // Beyond that it is not known how much of the request has arrived: it may have been read, and be paid for.
        Ok(Err(error)) if error.is_connect() || error.is_builder() => {
            return Err(ModelError::Transport(causes(&error)).into());
        }
        Ok(Err(error)) => return Err(ModelError::Broken(causes(&error)).into()),
        Err(_) => return Err(ModelError::Timeout(first).into()),
    };
    let status = response.status();
    if !status.is_success() {
        let headers = response.headers().clone();
        // A refusal stays one, whether or not its words arrive.
        let (words, _) = read_body(timed(chunks(response), idle, idle), MAX_REFUSAL_BYTES).await;
        return Err(failure::from_status(status.as_u16(), &headers, &words));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mime = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_lowercase());
    let is_framed = is_framed(&response);
    let mut bytes = timed(chunks(response), first, idle).fuse().boxed();
    // A stream says something within its time, be it blank lines and comments that keep it open.
    let limit = if streaming { first.max(idle) } else { Duration::MAX };
    let timeout = |_| ModelError::Timeout(limit);
    let (head, looks) = tokio::time::timeout(limit, head(&mut bytes)).await.map_err(timeout)??;
    let bytes = stream::iter([Ok(head)]).chain(bytes).boxed();
    match (looks, mime.as_deref()) {
        (Looks::Page, _) => Err(not_a_model("an HTML page")),
        (Looks::Events, _) | (Looks::Other, Some("text/event-stream")) => {
            let events = tokio::time::timeout(limit, begun(events(bytes))).await.map_err(timeout)??;
            Ok(Opened::Events { events, is_framed })
        }
        (Looks::Other, Some(mime)) if !is_json(mime) => Err(not_a_model(&failure::shorten(mime))),
        (Looks::Json | Looks::Other, _) => {
            let text = whole(bytes).await?;
            if let Ok(value) = json::parse_whole(&text) {
                if let Some(error) = failure::error_in(&value) {
                    return Err(failure::of_object(error));
                }
                if streaming && is_answer(&value) {
                    server.learn(Remedy::NoStream, "it was asked to stream and answered whole");
                }
            }
            Ok(Opened::Whole(text))
        }
    }
}

fn not_a_model(what: &str) -> ServerRefusal {
    let why = format!("the answer is {what}, not an event stream or JSON; {}", failure::CHECK_ADDRESS);
    ModelError::Protocol(why).into()
}

/// Whether the end of a body can be told from the end of its connection.
fn is_framed(response: &Response) -> bool {
    let is_chunked = response.headers().contains_key(TRANSFER_ENCODING);
    is_chunked || response.content_length().is_some() || response.version() >= Version::HTTP_2
}

/// What a body is by its beginning. Gateways send streams, and errors, under any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    Events,
    Json,
    Page,
    Other,
}

/// How a line of an event stream begins.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b"error:"];

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How many blanks a body begins with, and what it looks like. `None`: that shows in further bytes.
fn look(head: &[u8]) -> (usize, Option<Looks>) {
    let marked = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let blank = marked + head[marked..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let looks = match &head[blank..] {
        [] => None,
        [b'{' | b'[', ..] => Some(Looks::Json),
        [b':', ..] => Some(Looks::Events),
        [b'<', ..] => Some(Looks::Page),
        rest if FIELDS.iter().any(|field| rest.starts_with(field)) => Some(Looks::Events),
        rest if FIELDS.iter().any(|field| field.starts_with(rest)) => None,
        rest if BYTE_ORDER_MARK.starts_with(rest) => None,
        _ => Some(Looks::Other),
    };
    (blank, looks)
}

/// Reads a body until it shows what it is. What was read, without the blanks before it.
async fn head(bytes: &mut Bytes) -> Result<(Vec<u8>, Looks), ModelError> {
    let (mut head, mut n_blank) = (Vec::new(), 0);
    loop {
        let (blank, looks) = look(&head);
        head.drain(..blank);
        n_blank += blank;
        if n_blank > MAX_BODY_BYTES {
            return Err(ModelError::Protocol(format!("the answer begins with over {MAX_BODY_BYTES} blanks")));
        }
        if let Some(looks) = looks {
            return Ok((head, looks));
        }
        match bytes.next().await {
            Some(chunk) => head.extend(chunk?),
            None => return Ok((head, Looks::Other)),
        }
    }
}

/// The events of a stream, once the first is there: an error that comes before anything else is a refusal, as one by a status is.
async fn begun(mut events: Events) -> Result<Events, ServerRefusal> {
    let Some(first) = events.next().await else { return Ok(stream::empty().boxed()) };
    let first = first?;
    match failure::of_event(&first) {
        Some(refusal) => Err(refusal),
        None => Ok(stream::iter([Ok(first)]).chain(events).boxed()),
    }
}

fn is_json(mime: &str) -> bool {
    matches!(mime, "application/json" | "text/json" | "application/x-ndjson") || mime.ends_with("+json")
}

/// Whether a whole body is an answer.
fn is_answer(value: &Value) -> bool {
    ["choices", "content", "output"].iter().any(|key| value.get(key).is_some())
}

async fn whole(bytes: Bytes) -> Result<String, ModelError> {
    let (bytes, failed) = read_body(bytes, MAX_BODY_BYTES).await;
    if let Some(error) = failed {
        return Err(error);
    }
    let mut text =
        String::from_utf8(bytes).map_err(|_| ModelError::Protocol("the answer is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(ModelError::Protocol("the answer is empty".to_owned()));
    }
    // Some end it as a stream.
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<IgnoredAny>();
    if let Some(Ok(_)) = values.next() {
        let end = values.byte_offset();
        if look(&text.as_bytes()[end..]).1 == Some(Looks::Events) {
            text.truncate(end);
        }
    }
    Ok(text)
}

/// The bytes of a body, as they come.
type Bytes = BoxStream<'static, Result<Vec<u8>, ModelError>>;

/// Reads a body up to a limit; what came, and why no more.
async fn read_body(bytes: Bytes, limit: usize) -> (Vec<u8>, Option<ModelError>) {
    let (bytes, short) = body::read(bytes, limit).await;
    let error = short.map(|short| match short {
        BodyError::TooLarge => ModelError::Protocol(format!("the answer is larger than {limit} bytes")),
        BodyError::Broken(error) => error,
    });
    (bytes, error)
}

fn chunks(response: Response) -> Bytes {
    let chunks = response.bytes_stream();
    chunks
        .map(|chunk| match chunk {
            Ok(chunk) => Ok(chunk.to_vec()),
            Err(error) => Err(ModelError::Broken(causes(&error))),
        })
        .boxed()
}

/// The chunks of a body, each within its time; the first may take as long as the reading of a whole prompt. A failed
/// one is the last.
fn timed(chunks: Bytes, first: Duration, idle: Duration) -> Bytes {
    stream::unfold(Some((chunks, first)), move |state| async move {
        let (mut chunks, limit) = state?;
        match tokio::time::timeout(limit, chunks.next()).await {
            Ok(Some(Ok(chunk))) => Some((Ok(chunk), Some((chunks, idle)))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => Some((Err(ModelError::Timeout(limit)), None)),
        }
    })
    .boxed()
}

/// The events of a byte stream. A last event without its blank line counts as an event: whoever parses its data finds
/// out whether it was cut.
pub(crate) fn events(bytes: Bytes) -> Events {
    let ended = bytes.chain(stream::iter([Ok(b"\n\n".to_vec())]));
    let too_large = |what: &str, limit: usize| {
        ModelError::Protocol(format!("the {what} is larger than {} MiB", limit >> 20))
    };
    let events = sse::events(ended, EVENT_BOUNDS).map_err(move |fault| match fault {
        SseFault::Broken(error) => error,
        SseFault::NotUtf8 => ModelError::Protocol("the event stream is not UTF-8".to_owned()),
        SseFault::EventTooLarge => too_large("event", EVENT_BOUNDS.event),
        SseFault::StreamTooLarge => too_large("stream", EVENT_BOUNDS.stream),
    });
    events.filter(|event| std::future::ready(!matches!(event, Ok(event) if event.data.is_empty()))).boxed()
}

pub(crate) fn read_whole<A: Assemble>(
    body: &str,
    mut assembler: A,
    bounds: Bounds,
) -> Vec<Result<ModelEvent, ModelError>> {
    let read = assembler.whole(body).and_then(|mut events| {
        within(&events, 0, bounds)?;
        events.extend(assembler.end(Ended::Cut)?);
        Ok(events)
    });
    match read {
        Ok(events) => events.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// A tool call's arguments; what is no JSON stays a string. None at all mean that there are none, unless the answer was
/// cut: then they did not arrive.
pub(crate) fn arguments_of(text: String, finish: Finish) -> Value {
    if text.trim().is_empty() && finish.is_whole() {
        return Value::Object(serde_json::Map::new());
    }
    json::parse_whole(&text).unwrap_or(Value::String(text))
}

/// What is under way in [`read`].
struct Reading<A> {
    events: Events,
    assembler: A,
    /// When the next piece must have come.
    deadline: Instant,
    n_bytes: u64,
    end: Option<StreamEnd>,
}

impl<A: Assemble> Reading<A> {
    /// What is left to say when the events are over.
    fn end(self) -> Result<Vec<ModelEvent>, ModelError> {
        let is_marked = self.assembler.is_marked();
        let ended = self.end.as_ref().map_or(Ended::Cut, |end| end.meaning(is_marked));
        let events = self.assembler.end(ended)?;
        if let Some(end) = self.end.filter(|_| !is_marked) {
            end.server.takes_unmarked();
        }
        Ok(events)
    }
}

/// Reads events until the answer is complete, or to the end of the stream. `end`: what an end without a mark means; none: the
/// answer was cut off.
pub(crate) fn read<A: Assemble>(
    events: Events,
    assembler: A,
    bounds: Bounds,
    end: Option<StreamEnd>,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    let deadline = Instant::now() + bounds.progress;
    let reading = Reading { events, assembler, deadline, n_bytes: 0, end };
    let pieces = stream::try_unfold(Some(reading), move |reading| async move {
        match reading {
            Some(reading) => step(reading, bounds).await.map(Some),
            None => Ok(None),
        }
    });
    pieces.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten()
}

/// The next events of the answer, and what is to be read after them.
async fn step<A: Assemble>(
    mut reading: Reading<A>,
    bounds: Bounds,
) -> Result<(Vec<ModelEvent>, Option<Reading<A>>), ModelError> {
    let next = tokio::time::timeout_at(reading.deadline, reading.events.next()).await;
    let event = match next {
        Ok(Some(event)) => event?,
        Ok(None) => return Ok((reading.end()?, None)),
        Err(_) => return Err(ModelError::Timeout(bounds.progress)),
    };
    match reading.assembler.take_in(&event)? {
        Progress::Piece(events) => {
            reading.deadline = Instant::now() + bounds.progress;
            reading.n_bytes = within(&events, reading.n_bytes, bounds)?;
            Ok((events, Some(reading)))
        }
        Progress::Alive => Ok((Vec::new(), Some(reading))),
        Progress::End => Ok((reading.end()?, None)),
    }
}

/// Bytes said so far; an error when they are more than the answer may have.
fn within(events: &[ModelEvent], n_bytes: u64, bounds: Bounds) -> Result<u64, ModelError> {
    let said = events.iter().map(|event| match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => text.len() as u64,
        ModelEvent::Sent(_)
        | ModelEvent::TextWasReasoning
        | ModelEvent::ToolCall(_)
        | ModelEvent::State(_)
        | ModelEvent::Usage(_)
        | ModelEvent::Done { .. } => 0,
    });
    let n_bytes = n_bytes + said.sum::<u64>();
    if n_bytes <= bounds.bytes() {
        return Ok(n_bytes);
    }
    Err(ModelError::Protocol(format!(
        "the answer does not end: over {} bytes, where {} tokens were asked for",
        bounds.bytes(),
        bounds.tokens
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many chunks arrive, and the error, when each comes after its pause in seconds.
    async fn arrived(pauses: &'static [u64]) -> (usize, Option<ModelError>) {
        let chunks = stream::iter(pauses).then(|pause| async {
            tokio::time::sleep(Duration::from_secs(*pause)).await;
            Ok(Vec::new())
        });
        let timed = timed(chunks.boxed(), Duration::from_secs(300), Duration::from_secs(60));
        let all: Vec<_> = timed.collect().await;
        (all.iter().filter(|chunk| chunk.is_ok()).count(), all.into_iter().find_map(Result::err))
    }

    #[tokio::test(start_paused = true)]
    async fn each_chunk_has_its_own_time_and_the_whole_has_none() {
        assert_eq!(arrived(&[299, 59, 59, 59, 59, 59, 59]).await, (7, None));
        assert_eq!(arrived(&[301, 1]).await, (0, Some(ModelError::Timeout(Duration::from_secs(300)))));
        assert_eq!(arrived(&[1, 59, 61, 1]).await, (2, Some(ModelError::Timeout(Duration::from_secs(60)))));
    }

    async fn data_of(chunks: Vec<Vec<u8>>) -> Vec<Result<String, ModelError>> {
        let bytes = stream::iter(chunks.into_iter().map(Ok)).boxed();
        events(bytes).map_ok(|event| event.data).collect().await
    }

    #[tokio::test]
    async fn a_last_event_counts_without_its_end_and_one_without_data_does_not() {
        let text = b"data: one\n\nretry: 5\n\nevent: x\ndata:\n\ndata: last".to_vec();
        assert_eq!(data_of(vec![text]).await, ["one", "last"].map(|data| Ok(data.to_owned())));
    }

    #[tokio::test]
    async fn an_event_without_end_is_bounded() {
        let events = data_of(vec![vec![b'x'; 1 << 20]; 6]).await;
        assert_eq!(events, [Err(ModelError::Protocol("the event is larger than 4 MiB".to_owned()))]);
    }

    /// Says each event's data; `ping` is a sign of life, `end` the end.
    struct Parrot;

    impl Assemble for Parrot {
        fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
            Ok(match event.data.as_str() {
                "ping" => Progress::Alive,
                "end" => Progress::End,
                words => Progress::Piece(vec![ModelEvent::Text(words.to_owned())]),
            })
        }

        fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
            Ok(vec![ModelEvent::Text(body.to_owned())])
        }

        fn is_marked(&self) -> bool {
            true
        }

        fn end(self, _ended: Ended) -> Result<Vec<ModelEvent>, ModelError> {
            Ok(Vec::new())
        }
    }

    const BOUNDS: Bounds = Bounds { progress: Duration::from_secs(300), tokens: 100 };

    /// The error that ends an answer whose events all come a minute apart, and how many pieces came before.
    async fn ended(events: impl Stream<Item = String> + Send + 'static) -> (usize, Option<ModelError>) {
        let events = events.then(|data| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(ServerEvent { data, ..ServerEvent::default() })
        });
        let all: Vec<_> = read(events.boxed(), Parrot, BOUNDS, None).collect().await;
        (all.iter().filter(|event| event.is_ok()).count(), all.into_iter().find_map(Result::err))
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_do_not_keep_an_answer_open_for_ever() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let fine = words(&["a", "ping", "ping", "ping", "b", "ping", "ping", "ping", "c", "end"]);
        assert_eq!(ended(stream::iter(fine)).await, (3, None));
        let endless = stream::iter(words(&["a"])).chain(stream::repeat("ping".to_owned()));
        assert_eq!(ended(endless).await, (1, Some(ModelError::Timeout(BOUNDS.progress))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_given_up() {
        let (n_pieces, error) = ended(stream::repeat("x".repeat(100_000))).await;
        assert_eq!(n_pieces as u64, BOUNDS.bytes() / 100_000);
        assert!(matches!(error, Some(ModelError::Protocol(_))), "{error:?}");
        let whole = "x".repeat(usize::try_from(BOUNDS.bytes()).unwrap() + 1);
        assert!(matches!(read_whole(&whole, Parrot, BOUNDS)[..], [Err(ModelError::Protocol(_))]));
    }
}
