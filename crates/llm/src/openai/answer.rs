//! From a sent request to the events of its answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};

use cairn_core::model::{ModelError, ModelEvent};

use super::assemble::Assembler;
use super::{OpenAiOptions, causes};
use crate::{failure, sse};

/// Largest answer that comes whole; a picture-free answer of 128,000 tokens has about a megabyte.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Of a refusal, only so much is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// Says that the answer is complete.
const DONE: &str = "[DONE]";

pub(super) type Events<'a> = BoxStream<'a, Result<String, ModelError>>;

/// Sends the request and yields the answer; nothing after the first error or after the end. Dropped, it closes the
/// connection.
pub(super) fn stream(
    sending: Result<RequestBuilder, ModelError>,
    options: Arc<OpenAiOptions>,
    n_messages: usize,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    let opened = async move {
        let key = options.api_key.clone();
        let answer = match open(sending, &options).await {
            Ok(events) => read(events, Assembler::new(n_messages)).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        answer.map(move |event| event.map_err(|error| without_key(error, key.as_ref())))
    };
    stream::once(opened).flatten()
}

async fn open(
    sending: Result<RequestBuilder, ModelError>,
    options: &OpenAiOptions,
) -> Result<Events<'static>, ModelError> {
    let (first, idle) = (options.timeouts.first, options.timeouts.idle);
    let response = match tokio::time::timeout(first, sending?.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_timeout() && error.is_connect() => {
            return Err(ModelError::Timeout(options.timeouts.connect));
        }
        Ok(Err(error)) => return Err(ModelError::Transport(causes(&error))),
        Err(_) => return Err(ModelError::Timeout(first)),
    };
    let status = response.status();
    if !status.is_success() {
        let headers = response.headers().clone();
        // A refusal stays one, whether or not its words arrive.
        let (words, _) = body(response, (idle, idle), MAX_REFUSAL_BYTES).await;
        return Err(failure::from_status(status.as_u16(), &headers, &words));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mime = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_lowercase());
    match mime.as_deref() {
        Some("text/event-stream") => Ok(event_data(timed(chunks(response), first, idle))),
        Some(mime) if is_json(mime) => whole(response, first, idle).await,
        None if options.stream => Ok(event_data(timed(chunks(response), first, idle))),
        None => whole(response, first, idle).await,
        Some(mime) => Err(ModelError::Protocol(format!(
            "the answer is {}, not an event stream or JSON; check `base_url`, which mostly ends in /v1",
            failure::shorten(mime)
        ))),
    }
}

fn is_json(mime: &str) -> bool {
    matches!(mime, "application/json" | "text/json" | "application/x-ndjson") || mime.ends_with("+json")
}

/// The data of each event; an `error` event's data is wrapped so that it is told from an answer.
pub(super) fn event_data<B: AsRef<[u8]> + Send + 'static>(
    bytes: BoxStream<'static, Result<B, ModelError>>,
) -> Events<'static> {
    sse::events(bytes)
        .map(|event| {
            event.map(|event| match event.event.as_str() {
                "error" if !event.data.contains("\"error\"") => {
                    format!("{{\"error\":{}}}", as_json(&event.data))
                }
                _ => event.data,
            })
        })
        .boxed()
}

fn as_json(data: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(data) {
        Ok(value) => value.to_string(),
        Err(_) => serde_json::Value::from(data).to_string(),
    }
}

/// A whole answer, made one event and the end mark.
async fn whole(response: Response, first: Duration, idle: Duration) -> Result<Events<'static>, ModelError> {
    let (bytes, failed) = body(response, (first, idle), MAX_BODY_BYTES).await;
    if let Some(error) = failed {
        return Err(error);
    }
    let text =
        String::from_utf8(bytes).map_err(|_| ModelError::Protocol("the answer is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(ModelError::Protocol("the answer is empty".to_owned()));
    }
    Ok(stream::iter([Ok(text), Ok(DONE.to_owned())]).boxed())
}

/// Reads a body up to a limit, within times as for [`timed`]; what came, and why no more.
async fn body(
    response: Response,
    times: (Duration, Duration),
    limit: usize,
) -> (Vec<u8>, Option<ModelError>) {
    let mut bytes = Vec::new();
    let mut timed = timed(chunks(response), times.0, times.1);
    while let Some(chunk) = timed.next().await {
        match chunk {
            Ok(chunk) if bytes.len() + chunk.len() > limit => {
                let error = ModelError::Protocol(format!("the answer is larger than {limit} bytes"));
                return (bytes, Some(error));
            }
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

/// The chunks of a body.
fn chunks(response: Response) -> BoxStream<'static, Result<Vec<u8>, ModelError>> {
    let chunks = response.bytes_stream();
    chunks
        .map(|chunk| match chunk {
            Ok(chunk) => Ok(chunk.to_vec()),
            Err(error) => Err(ModelError::Transport(causes(&error))),
        })
        .boxed()
}

/// The chunks of a body, each within its time; the first may take as long as the reading of a whole prompt. A failed
/// one is the last.
fn timed(
    chunks: BoxStream<'static, Result<Vec<u8>, ModelError>>,
    first: Duration,
    idle: Duration,
) -> BoxStream<'static, Result<Vec<u8>, ModelError>> {
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

/// Reads event data until the end mark, or to the end of the stream.
pub(super) fn read<'a>(
    events: Events<'a>,
    assembler: Assembler,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'a {
    let start = (Some((events, assembler)), VecDeque::new());
    stream::unfold(start, |(mut reading, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((event, (reading, ready)));
            }
            let (mut events, mut assembler) = reading.take()?;
            let step = match events.next().await {
                Some(Ok(data)) if data.trim() == DONE => Err(assembler.end(true)),
                Some(Ok(data)) => match assembler.take(data.as_bytes()) {
                    Ok(heard) => Ok((heard, assembler)),
                    Err(error) => Err(Err(error)),
                },
                Some(Err(error)) => Err(Err(error)),
                None => Err(assembler.end(false)),
            };
            match step {
                Ok((heard, assembler)) => {
                    ready.extend(heard.into_iter().map(Ok));
                    reading = Some((events, assembler));
                }
                Err(Ok(last)) => ready.extend(last.into_iter().map(Ok)),
                Err(Err(error)) => ready.push_back(Err(error)),
            }
        }
    })
}

/// Takes the key out of what a server says about it.
fn without_key(error: ModelError, key: Option<&SecretString>) -> ModelError {
    let Some(key) = key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty()) else {
        return error;
    };
    let clean = |text: String| text.replace(key, "[key]");
    match error {
        ModelError::ContextOverflow { message, limit } => {
            ModelError::ContextOverflow { message: clean(message), limit }
        }
        ModelError::NoTools(text) => ModelError::NoTools(clean(text)),
        ModelError::RateLimited { message, retry_after } => {
            ModelError::RateLimited { message: clean(message), retry_after }
        }
        ModelError::Overloaded { message, retry_after } => {
            ModelError::Overloaded { message: clean(message), retry_after }
        }
        ModelError::Auth(text) => ModelError::Auth(clean(text)),
        ModelError::BadRequest(text) => ModelError::BadRequest(clean(text)),
        ModelError::Timeout(wait) => ModelError::Timeout(wait),
        ModelError::Transport(text) => ModelError::Transport(clean(text)),
        ModelError::Protocol(text) => ModelError::Protocol(clean(text)),
    }
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
