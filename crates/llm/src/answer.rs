//! From the bytes of an answer to its events, whatever the wire format.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use cairn_types::model::{Finish, ModelError, ModelEvent};
use cairn_types::wire::sse::{self, ServerEvent, SseFault};

use crate::json;
use crate::options::Timeouts;
use crate::server::Server;

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
    pub(crate) fn new(timeouts: Timeouts, tokens: u64) -> Self {
        Self { progress: timeouts.first.max(timeouts.idle), tokens }
    }

    fn bytes(&self) -> u64 {
        self.tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(FREE_BYTES)
    }
}

/// An answer that has begun.
pub(crate) enum Opened {
    Events {
        events: Events,
        /// Whether the end of the body can be told from the end of the connection (see [`StreamEnd`]).
        is_framed: bool,
    },
    Whole(String),
}

impl Opened {
    /// What the answer says, put together by an assembler of its format.
    pub(crate) fn read_by(
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

/// The bytes of a body, as they come.
pub(crate) type Bytes = BoxStream<'static, Result<Vec<u8>, ModelError>>;

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
