//! Messages over streamable HTTP.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::stream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::fault::{At, Fault};
use super::frame::{Form, pieces};
use super::records::{Record, Rule};
use super::script::Script;
use super::server::{Server, Taken};
use super::session::Session;
use super::step::{Out, Step, error};

const SESSION: &str = "mcp-session-id";

/// The header with the protocol's version.
const VERSION: &str = "mcp-protocol-version";

/// The first version whose requests must name it.
const NAMES_VERSION: &str = "2025-06-18";

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

const MAX_REQUEST_BYTES: usize = 64 << 20;

const QUEUE: usize = 16;

/// What a request leads to, or the answer to one that goes no further.
type Answered<T> = Result<T, Box<Response>>;

pub(super) struct Site {
    pub(super) server: Server,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    n_sessions: Mutex<u64>,
}

impl Site {
    pub(super) fn new(server: Server) -> Self {
        Self { server, sessions: Mutex::default(), n_sessions: Mutex::default() }
    }

    /// All sessions are unknown from now on.
    pub(super) fn forget(&self) {
        for (_, session) in self.sessions.lock().drain() {
            session.end();
        }
    }

    fn greet(&self) -> (String, Arc<Session>) {
        let mut n = self.n_sessions.lock();
        *n += 1;
        (format!("session-{n}"), Arc::new(Session::default()))
    }

    /// The session of a request that is not the first one.
    fn session(&self, headers: &HeaderMap) -> Answered<Arc<Session>> {
        let id = text(headers, SESSION)
            .ok_or_else(|| self.refuse(StatusCode::BAD_REQUEST, Rule::Session, "no session is named"))?;
        let session = self.sessions.lock().get(id).cloned();
        let unknown =
            || self.refuse(StatusCode::NOT_FOUND, Rule::Session, &format!("the session {id:?} is unknown"));
        let session = session.ok_or_else(unknown)?;
        let agreed = session.version();
        match text(headers, VERSION) {
            Some(named) if named != agreed => {
                let text = format!("the version {named:?} is named, and {agreed:?} was agreed upon");
                Err(self.refuse(StatusCode::BAD_REQUEST, Rule::Header, &text))
            }
            None if agreed.as_str() >= NAMES_VERSION => {
                Err(self.refuse(StatusCode::BAD_REQUEST, Rule::Header, "no MCP-Protocol-Version is named"))
            }
            _ => Ok(session),
        }
    }

    fn refuse(&self, status: StatusCode, rule: Rule, words: &str) -> Box<Response> {
        self.server.log.refuse(rule, words);
        Box::new(json(status, &error(&Value::Null, -32_600, words)))
    }

    /// Records a request, and looks whether it may come in.
    fn admit(&self, script: &Script, method: &Method, path: &str, headers: &HeaderMap) -> Answered<()> {
        let text_of =
            |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers: BTreeMap<String, String> =
            headers.iter().map(|(name, value)| (name.as_str().to_owned(), text_of(value))).collect();
        let locked = script.requires.iter().any(|(name, value)| headers.get(name) != Some(value));
        let (method, path) = (method.to_string(), path.to_owned());
        self.server.log.add(Record::Http { method, path, headers });
        match locked {
            true => {
                Err((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response().into())
            }
            false => Ok(()),
        }
    }
}

pub(super) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/mcp", any(serve))
        .fallback(elsewhere)
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(site)
}

async fn elsewhere(State(site): State<Arc<Site>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let admitted = site.admit(&site.server.behaviour.now(), &method, uri.path(), &headers);
    admitted.map_or_else(|refused| *refused, |()| StatusCode::NOT_FOUND.into_response())
}

async fn serve(State(site): State<Arc<Site>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let script = site.server.behaviour.now();
    let served = site.admit(&script, &method, "/mcp", &headers).and_then(|()| match method {
        Method::POST => post(&site, &script, &headers, &body),
        Method::GET => listen(&site, &headers),
        Method::DELETE => delete(&site, &headers),
        _ => Err(StatusCode::METHOD_NOT_ALLOWED.into_response().into()),
    });
    served.unwrap_or_else(|refused| *refused)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a header lists a media type.
fn lists(headers: &HeaderMap, name: &str, media: &str) -> bool {
    let mut values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.any(|value| {
        value.split(',').any(|item| item.split(';').next().is_some_and(|item| item.trim() == media))
    })
}

fn json(status: StatusCode, message: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], message.to_string()).into_response()
}

fn post(site: &Arc<Site>, script: &Script, headers: &HeaderMap, body: &Bytes) -> Answered<Response> {
    if !lists(headers, "content-type", JSON) {
        return Err(site.refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, Rule::Header, "the content is not JSON"));
    }
    if !(lists(headers, "accept", JSON) && lists(headers, "accept", EVENTS)) {
        let words = "`Accept` does not list both application/json and text/event-stream";
        return Err(site.refuse(StatusCode::NOT_ACCEPTABLE, Rule::Header, words));
    }
    let message = site.server.read(body).map_err(|refused| Box::new(refusal(refused)))?;
    let method = message["method"].as_str().unwrap_or_default();
    if let Some(place) = At::of_method(method) {
        for fault in script.strikes_at(place) {
            if let Some(response) = broken(site, &fault) {
                return Err(response.into());
            }
        }
    }
    let first = method == "initialize" || (method == "server/discover" && text(headers, SESSION).is_none());
    let (name, session) = match first {
        true if text(headers, SESSION).is_some() => {
            let words = "`initialize` names a session already";
            return Err(site.refuse(StatusCode::BAD_REQUEST, Rule::Session, words));
        }
        true => site.greet(),
        false => (String::new(), site.session(headers)?),
    };
    match site.server.take(&session, &message) {
        Taken::Nothing => Ok(StatusCode::ACCEPTED.into_response()),
        refused @ Taken::Refused { .. } => Err(refusal(refused).into()),
        Taken::Answer { id, steps } => {
            let form = if script.json && is_plain(&steps) { Form::Body } else { Form::Event };
            let (out, outs) = mpsc::channel(QUEUE);
            session.start(&id, steps, out);
            let mut response = streamed(outs, form);
            if method == "initialize" {
                if let Ok(value) = name.parse() {
                    response.headers_mut().insert(SESSION, value);
                }
                site.sessions.lock().insert(name, session);
            }
            Ok(response)
        }
    }
}

/// The answer to a message that was refused.
fn refusal(taken: Taken) -> Response {
    let Taken::Refused { rule, error } = taken else { return StatusCode::ACCEPTED.into_response() };
    let status = match rule {
        // What is wrong with the request alone is told in the answer to it.
        Rule::Method | Rule::Params | Rule::Tool | Rule::Arguments if !error["id"].is_null() => {
            StatusCode::OK
        }
        _ => StatusCode::BAD_REQUEST,
    };
    json(status, &error)
}

/// What a fault of the transport answers.
fn broken(site: &Site, fault: &Fault) -> Option<Response> {
    match fault {
        Fault::Status(status) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let challenge =
                (status == StatusCode::UNAUTHORIZED).then_some([(header::WWW_AUTHENTICATE, "Bearer")]);
            Some(match challenge {
                Some(challenge) => (status, challenge, "who are you?").into_response(),
                None => (status, "the server was told to fail").into_response(),
            })
        }
        Fault::Redirect(to) => {
            Some((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to.as_str())]).into_response())
        }
        Fault::WrongType => {
            Some(([(header::CONTENT_TYPE, "text/html")], "<html>please log in</html>").into_response())
        }
        Fault::Expire => {
            site.forget();
            None
        }
        _ => None,
    }
}

/// Whether an answer is one message, so that it can come without a stream of events.
fn is_plain(steps: &[Step]) -> bool {
    let talks = |step: &Step| matches!(step, Step::Notify(_) | Step::Ask(_) | Step::Flood);
    let n_sent = steps.iter().filter(|step| matches!(step, Step::Send(_))).count();
    n_sent <= 1 && !steps.iter().any(talks)
}

fn listen(site: &Arc<Site>, headers: &HeaderMap) -> Answered<Response> {
    if !lists(headers, "accept", EVENTS) {
        let words = "`Accept` does not list text/event-stream";
        return Err(site.refuse(StatusCode::NOT_ACCEPTABLE, Rule::Header, words));
    }
    let session = site.session(headers)?;
    let (out, outs) = mpsc::channel(QUEUE);
    if !session.open_stream(out) {
        return Err(site.refuse(StatusCode::CONFLICT, Rule::Session, "the session has a stream already"));
    }
    Ok(streamed(outs, Form::Event))
}

fn delete(site: &Arc<Site>, headers: &HeaderMap) -> Answered<Response> {
    let session = site.session(headers)?;
    let id = text(headers, SESSION).unwrap_or_default().to_owned();
    site.sessions.lock().remove(&id);
    session.end();
    site.server.log.add(Record::Deleted { session: id });
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A body that comes as the answer does; it breaks off where the script says so.
fn streamed(outs: mpsc::Receiver<Out>, form: Form) -> Response {
    let nothing: Box<dyn Iterator<Item = Vec<u8>> + Send> = Box::new(std::iter::empty());
    let body = stream::unfold((outs, nothing), move |(mut outs, mut rest)| async move {
        loop {
            if let Some(piece) = rest.next() {
                // Others get their turn: a flood would fill the socket in one go.
                tokio::task::yield_now().await;
                return Some((Ok::<_, io::Error>(piece), (outs, rest)));
            }
            match outs.recv().await? {
                Out::Frame(frame) => rest = pieces(frame, form),
                Out::Exit => {
                    // What was sent goes out before the connection breaks.
                    tokio::task::yield_now().await;
                    let broken = io::Error::new(io::ErrorKind::ConnectionReset, "as the script says");
                    return Some((Err(broken), (outs, rest)));
                }
            }
        }
    });
    let media = if form == Form::Event { EVENTS } else { JSON };
    ([(header::CONTENT_TYPE, media)], Body::from_stream(body)).into_response()
}
