//! `cairn bridge check`: plays the daemon's side of the protocol against a bridge, and says what it does wrong.
//!
//! The bridge calls as it would call a daemon. Its calls become [`Seen`], one after another, and the script below answers
//! each. So nothing of a daemon is needed, and no model.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cairn_platforms::bridge::wire::{
    Ack, Deleted, Delivery, EditOut, ErrorBody, ErrorDetail, FileOut, Hello, PROTOCOL, Said, Taken,
    TypingOut, Unit, Welcome,
};
use clap::{Args, Subcommand};
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use cairn_cli::args::Global;
use cairn_cli::failure::{Failure, exit};
use cairn_cli::out;

#[derive(Debug, Subcommand)]
pub(crate) enum BridgeCommand {
    /// Check a bridge that you write: this plays the daemon, and says what the bridge does wrong
    #[command(after_help = "\
Example:
  cairn bridge check --token-file irc-bridge.token

Start the bridge with the address that is printed, let it join a chat, and
write there to the bot once when you are asked to. The bot says a few things
in that chat. docs/src/bridges.md is the protocol.")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Where to wait for the bridge; port 0: a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9466")]
    listen: SocketAddr,
    /// The file with the token that the bridge shows
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The name of the bridge
    #[arg(long, default_value = "check")]
    name: String,
    /// Seconds to wait for each thing that the bridge is to do
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Seconds to wait for the message that you write
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

/// A call of the bridge.
enum Seen {
    Hello(Hello, Reply),
    /// The stream is wanted.
    Open(Reply),
    Message(Box<Said>, Reply),
    Ack(String, Ack, Reply),
    /// A call that breaks the protocol; it is answered already.
    Broken(String),
}

type Reply = oneshot::Sender<Response>;

struct Side {
    token: String,
    seen: mpsc::Sender<Seen>,
}

pub(crate) async fn bridge(global: Global, command: BridgeCommand) -> Result<(), Failure> {
    let BridgeCommand::Check(args) = command;
    let token = std::fs::read_to_string(&args.token_file).map_err(|error| {
        let file = args.token_file.display();
        Failure::usage(format!("cannot read {file}: {error}"), "make one with: openssl rand -hex 32")
    })?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| {
        Failure::failed(
            format!("cannot listen at {}: {error}", args.listen),
            "name another port with --listen",
        )
    })?;
    let address = listener.local_addr().unwrap_or(args.listen);
    let (seen, calls) = mpsc::channel(16);
    let side = Arc::new(Side { token: token.trim().to_owned(), seen });
    let router = router(&args.name, side);
    let _served = AbortOnDropHandle::new(tokio::spawn(async move {
        // Without its server nothing is seen, and the script says so.
        let _ = axum::serve(listener, router).await;
    }));
    let found = Found { global, n_failed: 0, n_passed: 0, places: Vec::new() };
    found.note(&format!("waiting for the bridge at http://{address}/v1/bridges/{}", args.name))?;
    let mut script = Script { calls, found, args, stream: None, hello: None };
    let ended = script.run().await;
    script.found.close(ended)
}

fn router(name: &str, side: Arc<Side>) -> Router {
    let calls = Router::new()
        .route("/hello", post(hello))
        .route("/messages", post(message))
        .route("/edits", post(edit))
        .route("/deletions", post(deletion))
        .route("/deliveries", get(deliveries))
        .route("/deliveries/{id}", post(acknowledge))
        .layer(DefaultBodyLimit::max(16 << 20))
        .with_state(side);
    Router::new().nest(&format!("/v1/bridges/{name}"), calls)
}

/// An error answer of the daemon.
fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let detail = ErrorDetail { code: code.to_owned(), message: message.to_owned(), hint: String::new() };
    let mut response = (status, Json(ErrorBody { error: detail })).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static("1"));
    }
    response
}

impl Side {
    fn admit(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        given.split_once(' ').is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && token.trim() == self.token
        })
    }

    /// Hands a call to the script and waits for its answer.
    async fn show(&self, seen: impl FnOnce(Reply) -> Seen) -> Response {
        let (reply, answer) = oneshot::channel();
        let gone = || error(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "the check is over");
        if self.seen.send(seen(reply)).await.is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }

    async fn broken(&self, why: String, response: Response) -> Response {
        // The script may be over.
        let _ = self.seen.send(Seen::Broken(why)).await;
        response
    }

    /// The body of a call, or the answer to a call that breaks the protocol.
    async fn read<T: DeserializeOwned>(
        &self,
        call: &str,
        headers: &HeaderMap,
        body: &Bytes,
        check: fn(&T) -> Result<(), String>,
    ) -> Result<T, Response> {
        if !self.admit(headers) {
            let response = error(StatusCode::UNAUTHORIZED, "unauthorized", "the token is missing or wrong");
            return Err(self
                .broken(format!("`{call}` came without the token, or with another one"), response)
                .await);
        }
        let read = serde_json::from_slice::<T>(body).map_err(|error| error.to_string());
        match read.and_then(|read| check(&read).map(|()| read)) {
            Ok(read) => Ok(read),
            Err(why) => {
                let response = error(StatusCode::BAD_REQUEST, "malformed", &why);
                Err(self.broken(format!("`{call}`: {why}"), response).await)
            }
        }
    }
}

async fn hello(State(side): State<Arc<Side>>, headers: HeaderMap, body: Bytes) -> Response {
    match side.read("hello", &headers, &body, Hello::check).await {
        Ok(hello) => side.show(|reply| Seen::Hello(hello, reply)).await,
        Err(refused) => refused,
    }
}

async fn message(State(side): State<Arc<Side>>, headers: HeaderMap, body: Bytes) -> Response {
    match side.read("messages", &headers, &body, Said::check).await {
        Ok(said) => side.show(|reply| Seen::Message(Box::new(said), reply)).await,
        Err(refused) => refused,
    }
}

async fn edit(State(side): State<Arc<Side>>, headers: HeaderMap, body: Bytes) -> Response {
    match side.read("edits", &headers, &body, Said::check).await {
        Ok(_) => Json(Taken::Accepted).into_response(),
        Err(refused) => refused,
    }
}

async fn deletion(State(side): State<Arc<Side>>, headers: HeaderMap, body: Bytes) -> Response {
    match side.read("deletions", &headers, &body, Deleted::check).await {
        Ok(_) => Json(Taken::Accepted).into_response(),
        Err(refused) => refused,
    }
}

async fn deliveries(State(side): State<Arc<Side>>, headers: HeaderMap) -> Response {
    match side.read("deliveries", &headers, &Bytes::from_static(b"null"), |(): &()| Ok(())).await {
        Ok(()) => side.show(Seen::Open).await,
        Err(refused) => refused,
    }
}

async fn acknowledge(
    State(side): State<Arc<Side>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match side.read("deliveries/ID", &headers, &body, Ack::check).await {
        Ok(ack) => side.show(|reply| Seen::Ack(id, ack, reply)).await,
        Err(refused) => refused,
    }
}

/// What was found so far.
struct Found {
    global: Global,
    n_passed: usize,
    n_failed: usize,
    places: Vec<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    check: String,
    passed: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

/// The bridge did not do what comes next; what follows cannot be checked.
struct Stuck;

impl Found {
    fn note(&self, line: &str) -> Result<(), Failure> {
        if self.global.json { Ok(()) } else { out::text(&format!("{line}\n")) }
    }

    fn say(&mut self, check: &str, outcome: Result<(), String>) {
        let (passed, why) = (outcome.is_ok(), outcome.err().unwrap_or_default());
        *if passed { &mut self.n_passed } else { &mut self.n_failed } += 1;
        let line = if passed { format!("ok      {check}") } else { format!("FAILED  {check}: {why}") };
        // Who closed the output still gets the exit code.
        let _ = self.note(&line);
        self.places.push(Outcome { check: check.to_owned(), passed, why });
    }

    fn close(self, ended: Result<(), Stuck>) -> Result<(), Failure> {
        let verdict = if ended.is_err() { ", and the rest could not be checked" } else { "" };
        let (passed, failed) = (self.n_passed, self.n_failed);
        if self.global.json {
            out::record(true, &self.places, |_| String::new())?;
        } else {
            out::text(&format!("{passed} checks passed, {failed} failed{verdict}\n"))?;
        }
        if failed > 0 || ended.is_err() { Err(Failure::Silent(exit::FAILED)) } else { Ok(()) }
    }
}

struct Script {
    calls: mpsc::Receiver<Seen>,
    found: Found,
    args: CheckArgs,
    stream: Option<mpsc::Sender<Event>>,
    hello: Option<Hello>,
}

impl Script {
    fn soon(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.args.timeout)
    }

    /// The next call; one that breaks the protocol is told and passed over.
    async fn next(&mut self, by: Instant) -> Option<Seen> {
        loop {
            match timeout_at(by, self.calls.recv()).await.ok().flatten()? {
                Seen::Broken(why) => self.found.say("each call is one of the protocol", Err(why)),
                seen => return Some(seen),
            }
        }
    }

    /// Answers what may come at any time; hands back what the script waits for.
    async fn until<T>(&mut self, by: Instant, mut wanted: impl FnMut(Seen) -> Result<T, Seen>) -> Option<T> {
        loop {
            match wanted(self.next(by).await?) {
                Ok(found) => return Some(found),
                Err(Seen::Message(_, reply)) => drop(reply.send(Json(Taken::Accepted).into_response())),
                Err(Seen::Hello(hello, reply)) => {
                    self.hello = Some(hello);
                    self.welcome(reply);
                }
                Err(Seen::Open(reply)) => self.open(reply),
                Err(Seen::Ack(_, _, reply)) => {
                    let answer = error(StatusCode::NOT_FOUND, "no_such_delivery", "nothing waits for this");
                    drop(reply.send(answer));
                }
                Err(Seen::Broken(_)) => {}
            }
        }
    }

    fn welcome(&self, reply: Reply) {
        let (platform, acknowledge_within_secs) = (self.args.name.clone(), 60);
        let welcome = Welcome { protocol: PROTOCOL, platform, acknowledge_within_secs };
        // The bridge may have gone: it calls again.
        drop(reply.send(Json(welcome).into_response()));
    }

    fn open(&mut self, reply: Reply) {
        let (events, incoming) = mpsc::channel(16);
        let ready = Event::default().event("ready").data(json!({ "protocol": PROTOCOL }).to_string());
        let events_of = stream::unfold(incoming, async |mut incoming: mpsc::Receiver<Event>| {
            Some((incoming.recv().await?, incoming))
        });
        let body = stream::iter([ready]).chain(events_of).map(Ok::<_, Infallible>);
        self.stream = Some(events);
        drop(reply.send(Sse::new(body).into_response()));
    }

    async fn tell(&self, name: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).unwrap_or_default();
        if let Some(stream) = &self.stream {
            // One that has gone opens another.
            let _ = stream.send(Event::default().event(name).data(data)).await;
        }
    }

    /// Waits until the bridge has said hello and opened the stream, as after a start of the daemon.
    async fn connected(&mut self) -> bool {
        let by = self.soon();
        (self.hello, self.stream) = (None, None);
        loop {
            if self.hello.is_some() && self.stream.is_some() {
                return true;
            }
            match self.next(by).await {
                Some(Seen::Open(reply)) if self.hello.is_none() => {
                    drop(reply.send(error(StatusCode::CONFLICT, "hello_first", "say hello first")));
                }
                Some(Seen::Open(reply)) => self.open(reply),
                Some(Seen::Hello(hello, reply)) => {
                    self.hello = Some(hello);
                    self.welcome(reply);
                }
                Some(Seen::Message(_, reply)) => {
                    drop(reply.send(error(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "not_ready",
                        "the daemon starts",
                    )));
                }
                Some(Seen::Ack(_, _, reply)) => {
                    drop(reply.send(error(
                        StatusCode::NOT_FOUND,
                        "no_such_delivery",
                        "nothing waits for this",
                    )));
                }
                Some(Seen::Broken(_)) => {}
                None => return false,
            }
        }
    }

    /// Waits for the acknowledgement of that id.
    async fn acked(&mut self, id: &str) -> Result<Ack, String> {
        let by = self.soon();
        let found = self
            .until(by, |seen| match seen {
                Seen::Ack(acked, ack, reply) if acked == id => Ok((ack, reply)),
                other => Err(other),
            })
            .await;
        let (ack, reply) =
            found.ok_or_else(|| format!("no acknowledgement within {} s", self.args.timeout))?;
        drop(reply.send(StatusCode::NO_CONTENT.into_response()));
        Ok(ack)
    }

    async fn deliver(&mut self, delivery: &Delivery) -> Result<String, String> {
        self.tell("message", delivery).await;
        match self.acked(&delivery.id).await? {
            Ack::Sent { message } => Ok(message),
            other => Err(format!("acknowledged as {other:?}")),
        }
    }

    async fn run(&mut self) -> Result<(), Stuck> {
        let is_connected = self.connected().await;
        let told = is_connected.then_some(()).ok_or_else(|| format!("not within {} s", self.args.timeout));
        self.found.say("it says hello and opens the stream", told);
        let Some(hello) = self.hello.clone().filter(|_| is_connected) else { return Err(Stuck) };
        let said = self.hear().await?;
        let delivery = |id: &str, text: &str| Delivery {
            id: format!("check-{}-{id}", std::process::id()),
            repeat: false,
            chat: said.chat.clone(),
            thread: said.thread.clone(),
            reply_to: None,
            text: text.to_owned(),
            html: None,
            files: Vec::new(),
        };
        let first = Delivery { reply_to: Some(said.id.clone()), ..delivery("1", "A first answer.") };
        let sent = self.deliver(&first).await;
        self.found.say("it sends a message and acknowledges it", sent.clone().map(drop));
        let Ok(sent) = sent else { return Err(Stuck) };
        self.repeats(&first, &sent).await;
        self.tell("of_the_future", &json!({ "some": "thing" })).await;
        let after = self.deliver(&delivery("2", "After an event that it does not know.")).await;
        self.found.say("it passes over events that it does not know", after.map(drop));
        let long = self.deliver(&delivery("3", &filled(&hello))).await;
        self.found.say("it sends a message as long as its limit", long.map(drop));
        if hello.edits {
            self.edits(&said, &sent).await;
        }
        if hello.typing {
            self.tell("typing", &TypingOut { chat: said.chat.clone(), thread: said.thread.clone() }).await;
        }
        if hello.file_bytes > 0 {
            let file = FileOut {
                name: "note.txt".to_owned(),
                media_type: "text/plain".to_owned(),
                data: "YSBmaWxlCg==".to_owned(),
            };
            let with_file = Delivery { files: vec![file], ..delivery("4", "") };
            let sent = self.deliver(&with_file).await;
            self.found.say("it sends a file", sent.map(drop));
        }
        let nowhere =
            Delivery { chat: "no-such-chat".to_owned(), thread: None, ..delivery("5", "Nobody is here.") };
        self.tell("message", &nowhere).await;
        let fate = self.acked(&nowhere.id).await;
        self.found.say("it acknowledges a message to a chat that is not there", fate.map(drop));
        self.cut(&delivery("6", "Sent while the connection breaks.")).await
    }

    /// Waits for a message, puts it off once, and takes it when it comes again.
    async fn hear(&mut self) -> Result<Said, Stuck> {
        // What is printed for people is no result.
        let _ = self.found.note("now write to the bot, in a chat with it");
        let by = Instant::now() + Duration::from_secs(self.args.patience);
        let message = |seen| match seen {
            Seen::Message(said, reply) => Ok((*said, reply)),
            other => Err(other),
        };
        let Some((said, reply)) = self.until(by, message).await else {
            self.found.say("it hands in a message", Err(format!("none within {} s", self.args.patience)));
            return Err(Stuck);
        };
        self.found.say("it hands in a message", Ok(()));
        drop(reply.send(error(StatusCode::SERVICE_UNAVAILABLE, "busy", "try again in a moment")));
        let by = self.soon();
        let again = self.until(by, message).await;
        self.found.say(
            "it hands in a message again that was put off, unchanged",
            match again {
                Some((again, reply)) => {
                    drop(reply.send(Json(Taken::Accepted).into_response()));
                    if again == said {
                        Ok(())
                    } else {
                        Err("what comes next is another one, or it has changed".to_owned())
                    }
                }
                None => Err(format!("not within {} s", self.args.timeout)),
            },
        );
        Ok(said)
    }

    /// The same delivery again is answered with the same id, and sends nothing.
    async fn repeats(&mut self, first: &Delivery, sent: &str) {
        for (repeat, check) in [
            (true, "it answers a repeat with the original message id"),
            (false, "what it has sent it does not send again, whether or not it is told that it is a repeat"),
        ] {
            let again = self.deliver(&Delivery { repeat, ..first.clone() }).await;
            let same = again.and_then(|again| {
                if again == sent { Ok(()) } else { Err(format!("first it was `{sent}`, then `{again}`")) }
            });
            self.found.say(check, same);
        }
    }

    async fn edits(&mut self, said: &Said, sent: &str) {
        let edit = EditOut {
            id: format!("check-{}-edit", std::process::id()),
            chat: said.chat.clone(),
            thread: said.thread.clone(),
            message: sent.to_owned(),
            text: "A first answer, edited.".to_owned(),
            html: None,
        };
        self.tell("edit", &edit).await;
        let done = match self.acked(&edit.id).await {
            Ok(Ack::Sent { .. }) => Ok(()),
            Ok(other) => Err(format!("acknowledged as {other:?}")),
            Err(why) => Err(why),
        };
        self.found.say("it edits a message", done);
    }

    /// Hands a delivery over, breaks the connection, and asks what became of it, as after a crash of the daemon.
    async fn cut(&mut self, delivery: &Delivery) -> Result<(), Stuck> {
        self.tell("message", delivery).await;
        let back = self.connected().await;
        let told = back.then_some(()).ok_or_else(|| format!("not within {} s", self.args.timeout));
        self.found.say("it comes back when the connection breaks, and says hello first", told);
        if !back {
            return Err(Stuck);
        }
        self.tell("message", &Delivery { repeat: true, ..delivery.clone() }).await;
        let fate = match self.acked(&delivery.id).await {
            Ok(Ack::Sent { .. }) => Ok(()),
            Ok(Ack::Unknown { .. }) => {
                Err("it cannot tell, though nothing of its own has crashed".to_owned())
            }
            Ok(other) => Err(format!("acknowledged as {other:?}")),
            Err(why) => Err(why),
        };
        self.found.say("it knows what became of a message that was cut off", fate);
        Ok(())
    }
}

/// A text as long as the limit of the network.
fn filled(hello: &Hello) -> String {
    let word = match hello.unit {
        Unit::Bytes => "leaf ",
        Unit::Characters => "l\u{f6}af ",
    };
    let mut text: String = word.chars().cycle().take(hello.limit).collect();
    if text.ends_with(' ') {
        text.pop();
        text.push('.');
    }
    text
}
