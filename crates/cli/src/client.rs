//! The client: one set of calls, whether a daemon answers on its socket or the routes are served in this process.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use cairn_api::error::{ErrorBody, ErrorDetail};
use cairn_types::ports::ProgressReport;
use cairn_types::wire::sse::{self, ServerEvent, SseBounds, SseFault};
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tower::ServiceExt;

use crate::failure::Failure;

/// The daemon sends nothing larger: an answer has a limit of its own.
const EVENTS: SseBounds = SseBounds { event: 64 << 20, stream: usize::MAX, plain_errors: false };

#[derive(Clone)]
pub enum Client {
    Socket(PathBuf),
    Embedded(Router),
}

/// An error answer, or no answer.
#[derive(Debug)]
pub enum CallError {
    Api {
        status: StatusCode,
        body: ErrorBody,
        /// Seconds after which to try again.
        retry_after_secs: Option<u64>,
    },
    Broken(String),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Api { status, body, .. } => Self::of_api(status, body.error),
            CallError::Broken(message) => Self::failed(
                format!("the connection to the daemon broke: {message}"),
                "check the daemon's log; messages that it accepted are not lost",
            ),
        }
    }
}

impl Client {
    /// The process that listens at that socket, if one does; its id, where that can be told.
    pub async fn listener(socket: &Path) -> Option<Option<i32>> {
        match UnixStream::connect(socket).await {
            // In a container of its own it has no id here.
            Ok(stream) => Some(stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0)),
            // It takes no more connections, since it has not seen to those that wait.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(None),
            Err(_) => None,
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// `GET`, with what some of the answer's headers say.
    pub async fn get_with_headers<T: DeserializeOwned, const N: usize>(
        &self,
        path: &str,
        headers: [&str; N],
    ) -> Result<(T, [Option<String>; N]), CallError> {
        let response = self.send(request(Method::GET, path, None::<&()>, "application/json")?).await?;
        let said = headers.map(|header| {
            let value = response.headers().get(header)?.to_str().ok()?;
            // As it stands in a URL.
            Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
        });
        read(response).await.map(|record| (record, said))
    }

    /// `GET`: the bytes of the answer.
    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>, CallError> {
        whole(self.send(request(Method::GET, path, None::<&()>, "*/*")?).await?).await
    }

    /// `POST` with a JSON body.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Any method.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        read(self.send(request(method, path, body, "application/json")?).await?).await
    }

    /// `POST` with a JSON body, answered by events.
    pub async fn events(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<BoxStream<'static, Result<ServerEvent, CallError>>, CallError> {
        let response = self.send(request(Method::POST, path, Some(body), "text/event-stream")?).await?;
        Ok(events_of(response))
    }

    /// Has long work done that tells how far it is, and ends when what is returned here is dropped.
    pub async fn watch<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        mut tell: impl FnMut(&ProgressReport),
    ) -> Result<T, CallError> {
        let response = self.send(request(method, path, body, "text/event-stream")?).await?;
        // A daemon of an earlier version answers once, at the end.
        let is_events = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        if !response.headers().get(CONTENT_TYPE).is_some_and(is_events) {
            return read(response).await;
        }
        let mut events = events_of(response);
        while let Some(event) = events.next().await {
            let event = event?;
            match event.name.as_str() {
                "progress" => tell(&read_event(&event.data)?),
                "done" => return read_event(&event.data),
                "error" => {
                    let FailedWork { status, error } = read_event(&event.data)?;
                    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    let body = ErrorBody { error };
                    return Err(CallError::Api { status, body, retry_after_secs: None });
                }
                // Of a later version.
                _ => {}
            }
        }
        Err(CallError::Broken("it ended before the work did".to_owned()))
    }

    /// Sends a request; an error status is an error.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, CallError> {
        let response = match self {
            Self::Socket(path) => over_socket(path, request).await?,
            Self::Embedded(router) => match router.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after_secs =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = whole(response).await?;
        match serde_json::from_slice(&bytes) {
            Ok(body) => Err(CallError::Api { status, body, retry_after_secs }),
            Err(_) => Err(CallError::Broken(format!("{status}: {}", String::from_utf8_lossy(&bytes)))),
        }
    }
}

/// The last event of work that failed.
#[derive(Deserialize)]
struct FailedWork {
    status: u16,
    error: ErrorDetail,
}

fn events_of(response: Response<Body>) -> BoxStream<'static, Result<ServerEvent, CallError>> {
    let chunks = response.into_body().into_data_stream();
    let events = sse::events(chunks, EVENTS).map(|event| {
        event.map_err(|fault| {
            CallError::Broken(match fault {
                SseFault::Broken(error) => error.to_string(),
                SseFault::NotUtf8 => "its events are not UTF-8".to_owned(),
                SseFault::EventTooLarge | SseFault::StreamTooLarge => "an event is too large".to_owned(),
            })
        })
    });
    events.boxed()
}

fn read_event<T: DeserializeOwned>(data: &str) -> Result<T, CallError> {
    serde_json::from_str(data).map_err(|error| {
        CallError::Broken(format!("cannot read its event ({error}); is the daemon a different version?"))
    })
}

fn request(
    method: Method,
    path: &str,
    body: Option<&impl Serialize>,
    accept: &str,
) -> Result<Request<Body>, CallError> {
    let broken = |error: &dyn std::fmt::Display| CallError::Broken(error.to_string());
    let body = match body {
        Some(body) => Body::from(serde_json::to_vec(body).map_err(|error| broken(&error))?),
        None => Body::empty(),
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "cairn")
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| broken(&error))
}

async fn over_socket(path: &Path, request: Request<Body>) -> Result<Response<Body>, CallError> {
    let broken = |error: &dyn std::fmt::Display| CallError::Broken(format!("{}: {error}", path.display()));
    let stream = UnixStream::connect(path).await.map_err(|error| broken(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // The connection is driven until the body has been read or dropped; its errors surface there.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    Ok(response.map(Body::new))
}

async fn read<T: DeserializeOwned>(response: Response<Body>) -> Result<T, CallError> {
    serde_json::from_slice(&whole(response).await?).map_err(|error| {
        CallError::Broken(format!("cannot read its answer ({error}); is the daemon a different version?"))
    })
}

async fn whole(response: Response<Body>) -> Result<Vec<u8>, CallError> {
    let collected = response.into_body().collect().await;
    Ok(collected.map_err(|error| CallError::Broken(error.to_string()))?.to_bytes().to_vec())
}

/// What stays as it is in a segment or a value of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one segment or value of a URL.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A path with the parameters that are there.
pub fn with_params(path: &str, params: &[(&str, Option<String>)]) -> String {
    let mut out = path.to_owned();
    let mut separator = '?';
    for (name, value) in params {
        if let Some(value) = value {
            out.push(separator);
            out.push_str(&format!("{name}={}", encode(value)));
            separator = '&';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_is_one_segment() {
        assert_eq!(encode("main/local/été 1"), "main%2Flocal%2F%C3%A9t%C3%A9%201");
    }

    #[test]
    fn absent_parameters_leave_no_trace() {
        let params = [("from", None), ("to", Some("3".to_owned())), ("q", Some("a&b".to_owned()))];
        assert_eq!(with_params("/h", &params), "/h?to=3&q=a%26b");
        assert_eq!(with_params("/h", &[("from", None)]), "/h");
    }
}
