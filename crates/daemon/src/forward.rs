//! Requests to a node that stands by, which only the one that leads can answer: passed on to it through the database.

use cairn_api::records::STANDBY;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;
use cairn_server::http::body::read_body;
use cairn_store::{Part, Reply, StandbyStatus, Store, Taken, Unanswered};
use cairn_types::ports::StoreError;
use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Requests that a node passes on at once, and that the leader answers at once.
const AT_ONCE: usize = 64;

/// Longest body of a request, in bytes: that of the longest message, written as JSON.
const BODY_LIMIT: usize = 8 << 20;

/// Longest part of an answer, in bytes.
const PART: usize = 256 << 10;

/// How long requests that are under way when a node stands by no longer may take to end.
const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// How long the end of an answer waits for the copy to have what the leader had.
const COPIED_WITHIN: Duration = Duration::from_secs(2);

/// How long answers to other nodes may take to be sent to their ends when this one stops.
const SENT_WITHIN: Duration = Duration::from_secs(1);

/// After so many seconds what was not done may be asked for again.
const RETRY_SECS: u64 = 1;

/// Pause before requests are taken again after the task that did so failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Where a request came in: other routes are served there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Door {
    Socket,
    AdminAddress,
    /// Of Telegram's webhooks that are served there.
    Webhook(SocketAddr),
}

/// What the node that leads serves.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) socket: Router,
    pub(crate) admin_address: Router,
    pub(crate) webhooks: BTreeMap<SocketAddr, Router>,
}

impl Doors {
    fn at(&self, door: Door) -> Router {
        match door {
            Door::Socket => self.socket.clone(),
            Door::AdminAddress => self.admin_address.clone(),
            // Machines may have addresses of their own.
            Door::Webhook(address) => {
                let only = self.webhooks.values().next().filter(|_| self.webhooks.len() == 1);
                self.webhooks.get(&address).or(only).cloned().unwrap_or_default()
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RequestHead {
    door: Door,
    method: String,
    uri: String,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AnswerHead {
    status: u16,
    headers: Vec<(String, String)>,
}

/// Headers of one connection alone.
const OF_A_CONNECTION: [HeaderName; 5] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::UPGRADE, header::EXPECT];

fn passed(headers: &HeaderMap) -> Vec<(String, String)> {
    let kept = headers.iter().filter(|(name, _)| !OF_A_CONNECTION.contains(name));
    kept.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}

fn headers_of(passed: &[(String, String)]) -> HeaderMap {
    let read = |(name, value): &(String, String)| {
        Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in passed.iter().filter_map(read) {
        headers.append(name, value);
    }
    headers
}

/// What passes requests on.
pub(crate) struct Forwarder {
    room: Arc<Semaphore>,
    /// True once this node does not stand by any more.
    ending: watch::Sender<bool>,
}

impl Default for Forwarder {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(AT_ONCE)), ending: watch::Sender::new(false) }
    }
}

/// An answer whose body comes part by part.
struct Answer {
    parts: mpsc::Receiver<Result<Part, Unanswered>>,
    status: watch::Receiver<StandbyStatus>,
    ending: watch::Receiver<bool>,
    is_over: bool,
    /// Server-sent events: where they end early, the last one says why.
    is_events: bool,
    /// What was read ends with a whole event.
    is_whole: bool,
    _room: OwnedSemaphorePermit,
}

impl Forwarder {
    /// Asks the node that leads. The answer ends when `store`, this node's copy, has what the leader had then: who reads
    /// next, reads what was changed.
    pub(crate) async fn ask(
        &self,
        store: &Store,
        status: watch::Receiver<StandbyStatus>,
        door: Door,
        request: Request,
    ) -> Response {
        self.passed_on(store, status, door, request).await.unwrap_or_else(ApiError::into_response)
    }

    /// This node does not stand by any more: whoever waits for an answer is told what is known of it. Returns once all have
    /// been, or do not read it.
    pub(crate) async fn end(&self) {
        self.ending.send_replace(true);
        drop(timeout(ENDED_WITHIN, self.room.acquire_many(AT_ONCE as u32)).await);
    }

    async fn passed_on(
        &self,
        store: &Store,
        status: watch::Receiver<StandbyStatus>,
        door: Door,
        request: Request,
    ) -> Result<Response, ApiError> {
        if *self.ending.borrow() {
            return Err(unanswered(&Unanswered::NotTaken));
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(busy());
        };
        let (head, body) = request.into_parts();
        let body = read_body(body, BODY_LIMIT).await?.ok_or_else(too_large)?;
        let head = RequestHead {
            door,
            method: head.method.to_string(),
            uri: head.uri.to_string(),
            headers: passed(&head.headers),
        };
        let head = serde_json::to_string(&head).map_err(|error| ApiError::internal(&error))?;
        let ending = self.ending.subscribe();
        let request = cairn_store::Request { head, body };
        let parts = store.pass_on(request, ending.clone()).map_err(|error| unanswered(&error))?;
        let mut answer =
            Answer { parts, status, ending, is_over: false, is_events: false, is_whole: true, _room: room };
        let lost = |why: String| unanswered(&Unanswered::Lost(why));
        let head = answer.next().await.ok_or_else(|| lost("it has no head".to_owned()))?;
        let head = head.map_err(|error| unanswered(&error))?;
        let head: AnswerHead = serde_json::from_slice(&head).map_err(|error| lost(error.to_string()))?;
        let headers = headers_of(&head.headers);
        answer.is_events = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let body = stream::unfold(answer, async |mut answer| Some((answer.next_of_body().await?, answer)));
        let mut response = Response::new(Body::from_stream(body));
        *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.headers_mut() = headers;
        Ok(response)
    }
}

impl Answer {
    /// Events that end early end with one that says why. Behind a part of an event it would be taken for the rest of that.
    async fn next_of_body(&mut self) -> Option<Result<Bytes, Unanswered>> {
        match self.next().await? {
            Ok(bytes) => {
                if !bytes.is_empty() {
                    self.is_whole = bytes.ends_with(b"\n\n");
                }
                Some(Ok(bytes))
            }
            Err(error) if self.is_events && self.is_whole => Some(Ok(error_event(&error))),
            Err(error) => Some(Err(error)),
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, Unanswered>> {
        if self.is_over {
            return None;
        }
        let part = self.parts.recv().await.unwrap_or_else(|| {
            Err(Unanswered::Lost("what waits for the answer failed; please report it".to_owned()))
        });
        match part {
            Ok(Part { bytes, last_n }) => {
                if let Some(n) = last_n {
                    self.is_over = true;
                    count("answered");
                    self.copied(n).await;
                }
                Some(Ok(bytes.into()))
            }
            Err(error) => {
                self.is_over = true;
                count(if matches!(error, Unanswered::Lost(_)) { "lost" } else { "not_started" });
                tracing::warn!(%error, "a request that was passed on to the node that leads has no answer");
                Some(Err(error))
            }
        }
    }

    /// Waits until the copy has that record, for a while.
    async fn copied(&mut self, n: u64) {
        tokio::select! {
            _ = self.status.wait_for(|status| status.n >= n) => {}
            _ = self.ending.wait_for(|is_ending| *is_ending) => {}
            () = tokio::time::sleep(COPIED_WITHIN) => {}
        }
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("cairn_forwarded_total", "outcome" => outcome).increment(1);
}

fn unanswered(error: &Unanswered) -> ApiError {
    match error {
        Unanswered::NotStarted(error) => error.clone().into(),
        Unanswered::NotTaken => {
            let hint = "try again in a few seconds; `cairn status` says who leads";
            let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, STANDBY, error.to_string(), hint);
            ApiError { retry_after_secs: Some(RETRY_SECS), ..error }
        }
        Unanswered::Lost(_) => {
            let hint = "look whether it was done before you ask again";
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "lost", error.to_string(), hint)
        }
    }
}

fn busy() -> ApiError {
    let (message, hint) = ("too many requests are passed on at once", "try again in a moment");
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message, hint);
    ApiError { retry_after_secs: Some(RETRY_SECS), ..error }
}

fn too_large() -> ApiError {
    let message = format!("the body is longer than {BODY_LIMIT} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, "send less at once")
}

/// The last event of an answer that has no end, as the daemon's own are.
fn error_event(error: &Unanswered) -> Bytes {
    let ApiError { status, detail, .. } = unanswered(error);
    let data = json!({ "status": status.as_u16(), "error": detail });
    format!("event: error\ndata: {data}\n\n").into()
}

/// Answers what other nodes pass on, as long as this one leads, as if it was asked at the same of its own doors. When it is
/// stopped, answers under way are sent to their ends first, if they have one soon.
pub(crate) async fn answer(store: Store, doors: Doors, stop: CancellationToken) {
    while let Some(mut requests) = store.requests() {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    drop(requests);
                    drop(timeout(SENT_WITHIN, under_way.join_all()).await);
                    return;
                }
                taken = requests.recv(), if under_way.len() < AT_ONCE => {
                    let Some(taken) = taken else { break };
                    under_way.spawn(answer_one(store.clone(), taken, doors.clone()));
                }
                Some(ended) = under_way.join_next() => {
                    if ended.is_err() {
                        tracing::error!("the answer to another node's request panicked; please report it");
                    }
                }
            }
        }
        if store.lease().is_none_or(|lease| !lease.borrow().held) {
            return;
        }
        tracing::error!("what takes other nodes' requests failed; it restarts, please report it");
        if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}

async fn answer_one(store: Store, taken: Taken, doors: Doors) {
    let Taken { node, request, mut reply } = taken;
    let sent = match serde_json::from_str::<RequestHead>(&request.head) {
        Ok(head) => {
            tracing::debug!(node, method = head.method, uri = head.uri, "another node passes a request on");
            let response = match request_of(&head, request.body) {
                Ok(request) => answered(doors.at(head.door), request).await,
                Err(error) => ApiError::malformed(error.to_string()).into_response(),
            };
            send(&store, &mut reply, response).await
        }
        // A node of another version.
        Err(error) => send(&store, &mut reply, ApiError::malformed(error.to_string()).into_response()).await,
    };
    if let Err(error) = sent {
        tracing::warn!(node, %error, "the answer to a request of another node could not be sent");
    }
}

fn request_of(head: &RequestHead, body: Vec<u8>) -> Result<Request, axum::http::Error> {
    let mut request =
        Request::builder().method(head.method.as_str()).uri(head.uri.as_str()).body(body.into())?;
    *request.headers_mut() = headers_of(&head.headers);
    Ok(request)
}

/// What a router answers.
pub(crate) async fn answered(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err::<_, Infallible>(never) => match never {},
    }
}

/// Sends an answer to its end, or until nobody waits for it.
async fn send(store: &Store, reply: &mut Reply, response: Response) -> Result<(), StoreError> {
    let (head, body) = response.into_parts();
    let head = AnswerHead { status: head.status.as_u16(), headers: passed(&head.headers) };
    let head = serde_json::to_vec(&head).unwrap_or_default();
    if !reply.send(Part { bytes: head, last_n: None }).await? {
        return Ok(());
    }
    let mut body = body.into_data_stream();
    while let Some(bytes) = body.next().await {
        // It broke: dropped before its last part, the answer is told as such.
        let Ok(bytes) = bytes else { return Ok(()) };
        for bytes in bytes.chunks(PART) {
            if !reply.send(Part { bytes: bytes.to_vec(), last_n: None }).await? {
                return Ok(());
            }
        }
    }
    let last_n = Some(store.last_n());
    reply.send(Part { bytes: Vec::new(), last_n }).await.map(drop)
}
