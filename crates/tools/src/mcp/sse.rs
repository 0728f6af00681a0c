//! A stream of server-sent events, none of them larger than allowed, each a message.

use std::borrow::Cow;

use cairn_core::sse::{self, Bounds, ServerEvent, SseFault};
use futures::stream::{BoxStream, StreamExt as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sse_stream::{Error as SseError, Sse};

use super::http::HttpError;
use super::wire::Wire;

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

/// The events of an answer, none of more than `max` bytes. The first thing that is wrong ends the stream; why is kept in
/// `wire`, too, unless the connection is what broke.
pub(super) fn events(
    response: reqwest::Response,
    max: usize,
    wire: Wire,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounds = Bounds { event: max, stream: usize::MAX };
    let events = sse::events(response.bytes_stream(), bounds).map(move |event| checked(event, max));
    let told = events.map(move |event| {
        event.map_err(|error| {
            if !matches!(error, HttpError::Broken(_)) {
                wire.keep_trouble(error.to_string());
            }
            SseError::Body(Box::new(error))
        })
    });
    told.boxed()
}

fn checked(event: Result<ServerEvent, SseFault<reqwest::Error>>, max: usize) -> Result<Sse, HttpError> {
    let event = event.map_err(|fault| match fault {
        SseFault::Broken(error) => HttpError::broken(error),
        SseFault::EventTooLarge | SseFault::StreamTooLarge => HttpError::TooLarge(max),
        SseFault::NotUtf8 => HttpError::Invalid("it is not UTF-8".to_owned()),
    })?;
    let ServerEvent { name, data, id, retry } = event;
    let data = Some(data).filter(|data| !data.trim().is_empty());
    data.as_deref().map_or(Ok(()), check)?;
    Ok(Sse { event: Some(name).filter(|name| !name.is_empty()), data, id, retry })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
