//! The events of an answer, within bounds.

use futures::{Stream, StreamExt, stream};

use cairn_core::model::ModelError;
use cairn_core::sse::{self, Bounds, ServerEvent, SseFault};

/// A model's chunk is a few hundred bytes, a whole answer in one chunk some hundred kilobytes; an answer of 128,000 tokens
/// in chunks of one token takes some 40 MB.
const BOUNDS: Bounds = Bounds { event: 4 << 20, stream: 64 << 20 };

/// The events of a byte stream. A last event without its blank line counts as an event: whoever parses its data finds
/// out whether it was cut.
pub(crate) fn events<S>(bytes: S) -> impl Stream<Item = Result<ServerEvent, ModelError>> + Send
where
    S: Stream<Item = Result<Vec<u8>, ModelError>> + Send + Unpin,
{
    let ended = bytes.chain(stream::iter([Ok(b"\n\n".to_vec())]));
    let events = sse::events(ended, BOUNDS).map(|event| event.map_err(explain));
    events.filter(|event| std::future::ready(!matches!(event, Ok(event) if event.data.is_empty())))
}

fn explain(fault: SseFault<ModelError>) -> ModelError {
    match fault {
        SseFault::Broken(error) => error,
        SseFault::NotUtf8 => ModelError::Protocol("the event stream is not UTF-8".to_owned()),
        SseFault::EventTooLarge => too_large("event", BOUNDS.event),
        SseFault::StreamTooLarge => too_large("stream", BOUNDS.stream),
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
    async fn a_last_event_counts_without_its_end_and_one_without_data_does_not() {
        let text = b"data: one\n\nretry: 5\n\nevent: x\ndata:\n\ndata: last".to_vec();
        assert_eq!(data_of(vec![text]).await, ["one", "last"].map(|data| Ok(data.to_owned())));
    }

    #[tokio::test]
    async fn an_event_without_end_is_bounded() {
        let chunk = vec![b'x'; 1 << 20];
        let events = data_of(vec![chunk; 6]).await;
        assert_eq!(events, [Err(too_large("event", BOUNDS.event))]);
    }
}
