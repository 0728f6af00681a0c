//! A stream of server-sent events, none of them larger than allowed, each a message.

use std::borrow::Cow;

use futures::stream::{BoxStream, StreamExt as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sse_stream::{Error as SseError, Sse, SseStream};

use super::http::HttpError;
use super::wire::Wire;

/// Counts the bytes of an event while it is read. Only an event's end makes room again; comments count, too.
#[derive(Debug)]
struct Meter {
    max: usize,
    event: usize,
    line: usize,
    after_return: bool,
}

impl Meter {
    fn new(max: usize) -> Self {
        Self { max, event: 0, line: 0, after_return: false }
    }

    /// Whether the bytes still fit.
    fn fits(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            let ends_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if ends_return => {}
                b'\n' | b'\r' if self.line == 0 => self.event = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => {
                    self.line += 1;
                    self.event += 1;
                    if self.event > self.max {
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// The members of a message, to tell whether it is one.
#[derive(Deserialize)]
struct Shape<'m> {
    #[serde(borrow)]
    jsonrpc: Cow<'m, str>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Whether a text is a message, as far as can be told without taking it apart.
fn check(data: &str) -> Result<(), HttpError> {
    let shape: Shape<'_> =
        serde_json::from_str(data).map_err(|error| HttpError::Invalid(error.to_string()))?;
    let is_message = shape.method.is_some() || shape.result.is_some() || shape.error.is_some();
    if shape.jsonrpc != "2.0" || !is_message {
        return Err(HttpError::Invalid("it is JSON, and no JSON-RPC".to_owned()));
    }
    Ok(())
}

/// The events of an answer. The first thing that is wrong ends the stream; why is kept in `wire`, too, unless the connection
/// is what broke.
pub(super) fn events(
    response: reqwest::Response,
    max: usize,
    wire: Wire,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut meter = Meter::new(max);
    let metered = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(HttpError::broken)?;
        if meter.fits(&bytes) { Ok(bytes) } else { Err(HttpError::TooLarge(max)) }
    });
    let checked = SseStream::from_bytes_stream(metered).map(|event| {
        let event = event?;
        let data = event.data.as_deref().map(str::trim).filter(|data| !data.is_empty());
        data.map_or(Ok(()), check).map_err(|error| SseError::Body(Box::new(error)))?;
        Ok(event)
    });
    checked
        .inspect(move |event| {
            if let Err(error) = event
                && !is_break(error)
            {
                wire.keep_trouble(words(error));
            }
        })
        .boxed()
}

fn is_break(error: &SseError) -> bool {
    let SseError::Body(error) = error else { return false };
    matches!(error.downcast_ref(), Some(HttpError::Broken(_)))
}

fn words(error: &SseError) -> String {
    match error {
        SseError::Body(error) => error.to_string(),
        other => format!("its stream of events is broken: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&["data: abc\n\n", "data: abc\n\n"], true)]
    #[case(&["data: abc\r\n\r\n", "data: abc\r\n\r\n"], true)]
    #[case(&["data: abc\r\rdata: abc\r\r"], true)]
    #[case(&["data: abc\n", "data: abc\n\n"], false)]
    #[case(&["data: abcdef"], false)]
    #[case(&["data:", " abc", "def"], false)]
    fn an_event_is_measured_across_chunks(#[case] chunks: &[&str], #[case] fits: bool) {
        let mut meter = Meter::new(10);
        assert_eq!(chunks.iter().all(|chunk| meter.fits(chunk.as_bytes())), fits);
    }

    #[rstest]
    #[case(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true)]
    #[case(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, true)]
    #[case(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#, true)]
    #[case(r#"{"jsonrpc":"2.0","id":1}"#, false)]
    #[case(r#"{"id":1,"result":{}}"#, false)]
    #[case(r#"{"jsonrpc":"2.0","id":1,"result":{"#, false)]
    #[case("<html>", false)]
    fn what_is_no_message_is_told(#[case] data: &str, #[case] fine: bool) {
        assert_eq!(check(data).is_ok(), fine);
    }
}
