//! Sends a request, and does without what a server refuses, until an answer begins.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::TextId;
use cairn_types::model::{Attempt, ChatRequest, ModelError, ModelEvent};
use cairn_types::wire::body::{self, BodyError};
use cairn_types::wire::format::{Sent, Wire, WireFormat};
use futures::channel::mpsc;
use futures::stream::{BoxStream, PollNext};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use reqwest::{Response, Version};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::answer::{Bounds, Bytes, Events, Opened, events};
use crate::body::Body;
use crate::failure::{self, ServerRefusal};
use crate::options::Timeouts;
use crate::remedy::{GUESSES, REMEDIES, Remedy};
use crate::server::{Server, causes};
use crate::sort::Sorter;
use crate::{json, wires};

/// Largest answer that comes whole; a picture-free answer of 128,000 tokens has about a megabyte.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Of a refusal, only so much is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

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
            Ok((opened, wire)) => wires::read(opened, &server, &wire, &request, bounds),
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
        let error = typed(refusal, &wires::body(&wire, self.request));
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
        let before = wires::body(wire, self.request).text();
        wire.remedies.push(remedy.name().to_owned());
        let changed = wires::body(wire, self.request).text() != before;
        if !changed {
            wire.remedies.pop();
        }
        changed
    }

    async fn send(&mut self, wire: &Wire) -> Result<Opened, ServerRefusal> {
        let body = wires::body(wire, self.request);
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
}
