//! Connections: which are WebSockets, which are HTTP, and how requests come to their answers.

use std::convert::Infallible;
use std::sync::Arc;

use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::fault::Fault;
use super::{Rule, Shared, gateway, rest};
use crate::gate;

/// Largest request: ten files of ten million bytes are refused long before.
const MAX_REQUEST_BYTES: usize = 32 << 20;

/// What is streamed of a file that has no bytes: zeros, so many at once.
static ZEROS: [u8; 65_536] = [0; 65_536];

pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok())
    }
}

pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// So many zeros instead of the body.
    pub(super) zeros: Option<u64>,
}

/// The connection closes without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection closes without an answer, as the test wants it")]
struct Dropped;

/// Takes connections until the task is stopped.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
        };
        match stream {
            Ok((stream, _)) => {
                let shared = shared.clone();
                connections.spawn(connection(shared, stream));
            }
            Err(error) => tracing::warn!(%error, "the fake discord takes no connection"),
        }
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream) {
    if shared.state.lock().unreachable {
        return shared.update(|state| state.turned_away += 1);
    }
    // The gateway's address has no path.
    let mut head = [0_u8; 6];
    while let Ok(1..6) = stream.peek(&mut head).await {
        tokio::task::yield_now().await;
    }
    if &head == b"GET /?" || &head == b"GET / " {
        return gateway::serve(shared, stream).await;
    }
    let mut changed = shared.state.changes();
    let service = service_fn(|request| answer(shared.clone(), request));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let cut = changed.wait_for(|_| shared.state.lock().unreachable);
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection to the fake discord ended");
            }
        }
        _ = cut => {}
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Dropped> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(|_cut| Dropped)?.to_bytes();
    let call = Call {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let path = rest::Path::of(&call);
    let fault = shared.update(|state| {
        *state.arrived.entry(path.route).or_default() += 1;
        state.faults.take(path.route)
    });
    gate::pass(shared.gates.of(&path.route)).await;
    match fault {
        Some(Fault::Nothing) => return Err(Dropped),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Status(status)) => return out(rest::refusal::plain(status)),
        Some(Fault::Html(status)) => return out(page(status, "text/html; charset=UTF-8", HTML)),
        Some(Fault::Garbage(text)) => return out(page(200, "application/json", &text)),
        Some(Fault::LostAnswer | Fault::HungAnswer) | None => {}
    }
    let answered = rest::answer(&shared, &call, &path);
    match fault {
        Some(Fault::LostAnswer) => Err(Dropped),
        Some(Fault::HungAnswer) => std::future::pending().await,
        _ => out(answered),
    }
}

const HTML: &str = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head>\
                    <body><center><h1>502 Bad Gateway</h1></center><hr><center>cloudflare</center></body></html>";

fn page(status: u16, content_type: &str, text: &str) -> Answered {
    let body = text.as_bytes().to_vec();
    Answered { status, content_type: content_type.to_owned(), headers: Vec::new(), body, zeros: None }
}

fn out(answered: Answered) -> Result<Response<BoxBody<Bytes, Infallible>>, Dropped> {
    let mut response = Response::builder().status(answered.status);
    if answered.status != 204 {
        response = response.header("content-type", answered.content_type);
    }
    for (name, value) in answered.headers {
        response = response.header(name, value);
    }
    let body = match answered.zeros {
        Some(size) => {
            response = response.header("content-length", size);
            let chunks = stream::unfold(size, |left| async move {
                let n = left.min(ZEROS.len() as u64);
                (n > 0).then(|| (Ok(Frame::data(Bytes::from_static(&ZEROS[..n as usize]))), left - n))
            });
            BodyExt::boxed(StreamBody::new(chunks))
        }
        None => BodyExt::boxed(Full::new(Bytes::from(answered.body))),
    };
    response.body(body).map_err(|error| {
        tracing::error!(%error, "the fake discord made an impossible answer");
        Dropped
    })
}

/// Records a request that no correct bot makes.
pub(super) fn odd(shared: &Shared, call: &Call, text: &str) {
    shared.violation(Rule::Shape, format!("{} {}: {text}", call.method, call.path));
}
