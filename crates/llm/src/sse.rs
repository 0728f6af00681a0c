//! Server-sent events from a stream of bytes, wherever the network cuts it.
//!
//! The parser is eventsource-stream. It gets whole lines with plain line feeds only: by itself it takes a CRLF that
//! is cut in two for an empty line, panics on a byte order mark, reads a growing line anew with every chunk, has no
//! bound, and drops an event whose last line has no end.

use eventsource_stream::{Event, EventStream, EventStreamError};
use futures::{Stream, StreamExt, stream};

use cairn_core::model::ModelError;

/// Largest single event; a model's chunk is a few hundred bytes, a whole answer in one chunk some hundred kilobytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Largest stream; an answer of 128,000 tokens in chunks of one token takes some 40 MB.
const MAX_STREAM_BYTES: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The events of a byte stream. A last event without its blank line counts as an event: whoever parses its data finds
/// out whether it was cut.
pub(crate) fn events<S, B>(bytes: S) -> impl Stream<Item = Result<Event, ModelError>> + Send
where
    S: Stream<Item = Result<B, ModelError>> + Send + Unpin,
    B: AsRef<[u8]> + Send,
{
    let lines = stream::unfold(Some((bytes, Lines::default())), |state| async move {
        let (mut bytes, mut lines) = state?;
        match bytes.next().await {
            Some(Ok(chunk)) => match lines.take(chunk.as_ref()) {
                Ok(whole) => Some((Ok(whole), Some((bytes, lines)))),
                Err(error) => Some((Err(error), None)),
            },
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Ok(lines.rest()), None)),
        }
    });
    EventStream::new(Box::pin(lines)).map(|event| event.map_err(explain))
}

fn explain(error: EventStreamError<ModelError>) -> ModelError {
    match error {
        EventStreamError::Transport(error) => error,
        EventStreamError::Utf8(_) => ModelError::Protocol("the event stream is not UTF-8".to_owned()),
        EventStreamError::Parser(_) => ModelError::Protocol("the event stream is malformed".to_owned()),
    }
}

/// Whole lines out of chunks, every line end made a line feed.
#[derive(Default)]
struct Lines {
    /// Bytes of a line not yet ended.
    held: Vec<u8>,
    after_cr: bool,
    begun: bool,
    event_bytes: usize,
    stream_bytes: usize,
}

impl Lines {
    fn take(&mut self, chunk: &[u8]) -> Result<Vec<u8>, ModelError> {
        self.stream_bytes += chunk.len();
        if self.stream_bytes > MAX_STREAM_BYTES {
            return Err(too_large("stream", MAX_STREAM_BYTES));
        }
        let mut whole = std::mem::take(&mut self.held);
        let mut ended_at = 0;
        for &byte in chunk {
            let second_of_crlf = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            if second_of_crlf {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                let blank = whole.len() == ended_at;
                self.event_bytes = if blank { 0 } else { self.event_bytes + 1 };
                whole.push(b'\n');
                ended_at = whole.len();
            } else {
                self.event_bytes += 1;
                whole.push(byte);
            }
            if self.event_bytes > MAX_EVENT_BYTES {
                return Err(too_large("event", MAX_EVENT_BYTES));
            }
        }
        self.held = whole.split_off(ended_at);
        Ok(self.without_mark(whole))
    }

    fn rest(mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut rest = self.without_mark(held);
        rest.extend_from_slice(b"\n\n");
        rest
    }

    fn without_mark(&mut self, whole: Vec<u8>) -> Vec<u8> {
        if self.begun || whole.is_empty() {
            return whole;
        }
        self.begun = true;
        let mut text = whole.as_slice();
        while let Some(after) = text.strip_prefix(BYTE_ORDER_MARK) {
            text = after;
        }
        text.to_vec()
    }
}

fn too_large(what: &str, limit: usize) -> ModelError {
    ModelError::Protocol(format!("the {what} is larger than {} MiB", limit >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn data_of(chunks: Vec<Vec<u8>>) -> Vec<Result<String, ModelError>> {
        let bytes = stream::iter(chunks.into_iter().map(Ok));
        events(bytes).map(|event| event.map(|event| event.data)).collect().await
    }

    #[tokio::test]
    async fn every_cut_yields_the_same_events() {
        let text = "\u{feff}: hello\r\ndata: one\r\n\r\ndata: é\u{1F980}\rdata: two\r\r\nevent: x\ndata:three\n\ndata: last";
        let expected: Vec<Result<String, ModelError>> =
            ["one", "é\u{1F980}\ntwo", "three", "last"].into_iter().map(|text| Ok(text.to_owned())).collect();
        assert_eq!(data_of(vec![text.as_bytes().to_vec()]).await, expected);
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            assert_eq!(data_of(vec![head.to_vec(), tail.to_vec()]).await, expected, "cut at byte {cut}");
        }
        let bytewise = text.bytes().map(|byte| vec![byte]).collect();
        assert_eq!(data_of(bytewise).await, expected);
    }

    #[tokio::test]
    async fn a_stream_that_is_not_utf8_is_an_error() {
        let events = data_of(vec![b"data: a\n\ndata: \xff\xfe\n\n".to_vec()]).await;
        assert!(matches!(events.last(), Some(Err(ModelError::Protocol(_)))), "{events:?}");
    }

    #[tokio::test]
    async fn an_event_without_end_is_bounded() {
        let chunk = vec![b'x'; 1 << 20];
        let events = data_of(vec![chunk; 6]).await;
        assert_eq!(events, [Err(too_large("event", MAX_EVENT_BYTES))]);
        let line = [b"data: ".to_vec(), vec![b'x'; 1 << 20], b"\n".to_vec()].concat();
        let events = data_of(vec![line; 6]).await;
        assert_eq!(events, [Err(too_large("event", MAX_EVENT_BYTES))]);
    }
}
