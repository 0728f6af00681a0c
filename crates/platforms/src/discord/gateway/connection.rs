//! One gateway connection, from hello to its end.

use std::time::Duration;

use cairn_types::ports::AdapterFailure;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, protocol::frame::CloseFrame};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::board::ShardState;
use super::close::{Next, after_close, meaning};
use super::frame::{Frame, Ready, heartbeat, identify, resume};
use super::shard::{Session, ShardRun};
use super::starts::StartSlot;
use super::{Bot, Listener};
use crate::pause::part_of;

/// Longest time to establish the connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);

/// Longest time from the start of the handshake, or from the last event of a replay, until the session is up. Heartbeats and
/// their acknowledgements do not count: a gateway may send them and never answer.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Longest time to send one frame.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// Largest frame that is read, in bytes; a server with all its channels must fit.
const FRAME_MAX: usize = 64 * 1024 * 1024;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) next: Next,
    /// The reason for the log and the status.
    pub(super) reason: String,
    /// How long the session was up over this connection; `None`: never.
    pub(super) up_for: Option<Duration>,
}

impl Ended {
    pub(super) fn new(next: Next, reason: impl Into<String>) -> Self {
        Self { next, reason: reason.into(), up_for: None }
    }
}

/// Opens the websocket.
///
/// # Errors
/// The reason, as text for the status.
pub(super) async fn connect(address: &reqwest::Url) -> Result<Socket, String> {
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX));
    let connecting = connect_async_with_config(address.as_str(), Some(config), true);
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(response))) => {
            Err(format!("the gateway answers with status {} instead of a connection", response.status()))
        }
        Ok(Err(error)) => Err(format!("the gateway cannot be reached: {}", kind_of(&error))),
        Err(_) => Err("the gateway cannot be reached: no connection in time".to_owned()),
    }
}

/// The kind of an error, without content that it may quote.
fn kind_of(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) => error.kind().to_string(),
        tungstenite::Error::Tls(_) => "TLS failed".to_owned(),
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => "closed".to_owned(),
        tungstenite::Error::Protocol(error) => error.to_string(),
        tungstenite::Error::Capacity(_) => "a frame is too large".to_owned(),
        _ => "the websocket failed".to_owned(),
    }
}

struct Beat {
    every: Duration,
    next: Instant,
    open: Option<Instant>,
}

pub(super) struct Connection<'a, L: Listener> {
    pub(super) socket: Socket,
    pub(super) of: &'a ShardRun<L>,
    pub(super) session: &'a mut Option<Session>,
    /// The turn to start a session; `None` for a resume.
    pub(super) turn: Option<StartSlot<'a>>,
}

/// The state of a running connection.
struct ConnectionProgress {
    beat: Option<Beat>,
    /// When the handshake started, or the last event came.
    advanced: Instant,
    up_since: Option<Instant>,
}

impl<L: Listener> Connection<'_, L> {
    pub(super) async fn run(mut self) -> Ended {
        let mut progress = ConnectionProgress { beat: None, advanced: Instant::now(), up_since: None };
        let mut ended = loop {
            let start_limit = progress.up_since.is_none().then(|| progress.advanced + START_LIMIT);
            let beat = progress.beat.as_ref().map(|beat| beat.next);
            let deadline = [start_limit, beat].into_iter().flatten().min();
            let wake = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // The heartbeat comes first: a flood of events must not delay it until the connection counts as dead.
            let step = tokio::select! {
                biased;
                () = wake => self.on_time(&mut progress).await,
                message = self.socket.next() => self.on_message(message, &mut progress).await,
            };
            if let Err(ended) = step {
                break ended;
            }
        };
        ended.up_for = progress.up_since.map(|since| since.elapsed());
        ended
    }

    async fn on_time(&mut self, progress: &mut ConnectionProgress) -> Result<(), Ended> {
        let now = Instant::now();
        if progress.up_since.is_none() && now >= progress.advanced + START_LIMIT {
            return Err(Ended::new(Next::Fresh, "the gateway began no session in time"));
        }
        let seq = self.session.as_ref().map(|session| session.seq);
        let Some(beat) = progress.beat.as_mut().filter(|beat| now >= beat.next) else { return Ok(()) };
        if beat.open.is_some() {
            return Err(Ended::new(Next::Resume, "the gateway is silent: a heartbeat was not acknowledged"));
        }
        beat.next = now + beat.every;
        beat.open = Some(now);
        self.write(heartbeat(seq)).await
    }

    async fn on_message(
        &mut self,
        message: Option<Result<Message, tungstenite::Error>>,
        progress: &mut ConnectionProgress,
    ) -> Result<(), Ended> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => return Err(closed(frame.as_ref())),
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                return Ok(());
            }
            Some(Err(error)) => {
                let reason = format!("the connection to the gateway broke: {}", kind_of(&error));
                return Err(Ended::new(after_close(None), reason));
            }
            None => return Err(Ended::new(after_close(None), "the gateway hung up")),
        };
        match Frame::read(&text) {
            Ok(frame) => self.on_frame(frame, progress).await,
            Err(kind) => {
                unreadable(self.of.gateway.link.platform(), kind);
                Ok(())
            }
        }
    }

    async fn on_frame(&mut self, frame: Frame, progress: &mut ConnectionProgress) -> Result<(), Ended> {
        match frame {
            Frame::Hello(millis) => {
                let every = Duration::from_millis(millis);
                progress.beat = Some(Beat { every, next: Instant::now() + part_of(every), open: None });
                let token = self.of.gateway.token();
                let hello = match &*self.session {
                    Some(session) => resume(token, &session.id, session.seq),
                    None => identify(token, self.of.shard),
                };
                self.write(hello).await?;
                if let Some(turn) = self.turn.take() {
                    turn.used();
                }
                Ok(())
            }
            Frame::Beat => {
                let seq = self.session.as_ref().map(|session| session.seq);
                self.write(heartbeat(seq)).await
            }
            Frame::Ack => {
                if let Some(sent) = progress.beat.as_mut().and_then(|beat| beat.open.take()) {
                    self.of.gateway.link.latency(sent.elapsed());
                }
                Ok(())
            }
            Frame::Reconnect => Err(Ended::new(Next::Resume, "the gateway asks for a new connection")),
            Frame::Invalid(true) => Err(Ended::new(Next::Resume, "the session was interrupted")),
            Frame::Invalid(false) => Err(Ended::new(Next::Fresh, "the session is over")),
            Frame::Dispatch { seq, kind, data } => self.on_dispatch(seq, &kind, data, progress),
            Frame::Other(_) => Ok(()),
        }
    }

    fn on_dispatch(
        &mut self,
        seq: Option<u64>,
        kind: &str,
        data: Value,
        progress: &mut ConnectionProgress,
    ) -> Result<(), Ended> {
        progress.advanced = Instant::now();
        if let (Some(session), Some(seq)) = (self.session.as_mut(), seq) {
            session.seq = seq;
        }
        match kind {
            "READY" => {
                let ready: Ready = serde_json::from_value(data).map_err(|_| {
                    unreadable(self.of.gateway.link.platform(), "READY");
                    Ended::new(Next::Slowly, "the gateway began a session that cannot be read")
                })?;
                let fail = |failure: AdapterFailure| {
                    let reason = failure.reason.clone();
                    Ended::new(Next::Fail(failure), reason)
                };
                let address = self.of.gateway.addresses.resume(&ready.resume_gateway_url).map_err(fail)?;
                let session = Session { id: ready.session_id.clone(), seq: seq.unwrap_or(0), address };
                let bot = Bot { user: ready.user.clone(), application: ready.application.clone() };
                self.of.gateway.sessions.began(self.of.shard, &session, bot);
                *self.session = Some(session);
                self.up(progress, "connected to Discord");
                self.of.listener.ready(self.of.shard, &ready);
            }
            "RESUMED" => self.up(progress, "the session with Discord was resumed"),
            kind => self.of.listener.heard(kind, data),
        }
        if let Some(seq) = seq {
            self.of.gateway.sessions.heard(self.of.shard, seq);
            self.of.listener.settle();
        }
        Ok(())
    }

    fn up(&self, progress: &mut ConnectionProgress, what: &'static str) {
        progress.up_since = Some(Instant::now());
        let shard = self.of.shard;
        tracing::info!(platform = self.of.gateway.link.platform(), shard = shard.id, "{what}");
        if self.of.board.set(shard, ShardState::Up) && shard.of > 1 {
            tracing::info!(
                platform = self.of.gateway.link.platform(),
                n_shards = shard.of,
                "all shards are connected"
            );
        }
    }

    async fn write(&mut self, text: String) -> Result<(), Ended> {
        match tokio::time::timeout(WRITE_LIMIT, self.socket.send(Message::Text(text.into()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let reason = format!("the connection to the gateway broke: {}", kind_of(&error));
                Err(Ended::new(Next::Resume, reason))
            }
            Err(_) => Err(Ended::new(Next::Resume, "the gateway takes nothing")),
        }
    }
}

fn closed(frame: Option<&CloseFrame>) -> Ended {
    let code = frame.map(|frame| u16::from(frame.code));
    let reason = match code {
        Some(code) => format!("the gateway closed the connection: {} (code {code})", meaning(code)),
        None => "the gateway closed the connection".to_owned(),
    };
    Ended::new(after_close(code), reason)
}

/// Counts and logs a payload that cannot be read, by its kind.
pub(crate) fn unreadable(platform: &str, kind: &str) {
    let kind: String =
        kind.chars().filter(|c| c.is_ascii_alphanumeric() || "_ ".contains(*c)).take(48).collect();
    metrics::counter!("cairn_discord_unreadable_total").increment(1);
    tracing::warn!(platform, kind, "Discord sent an event that cannot be read; it is skipped");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_testkit::clock::TestClock;
    use cairn_types::ports::LinkState;
    use parking_lot::Mutex;
    use secrecy::SecretString;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::board::Board;
    use super::super::starts::{Allowance, Starts};
    use super::super::{Addresses, Gateway, Sessions, Shard};
    use super::*;
    use crate::discord::rest::Rest;
    use crate::link::Link;

    struct Nobody;

    impl Listener for Nobody {
        fn ready(&self, _: Shard, _: &Ready) {}
        fn resumes(&self, _: Shard, _: &Bot) {}
        fn heard(&self, _: &str, _: Value) {}
        fn settle(&self) {}
    }

    /// How a connection to a gateway ends that does this once the websocket stands.
    async fn ended(serve: impl AsyncFnOnce(TcpStream)) -> Ended {
        ended_of(None, serve).await
    }

    async fn ended_of(mut session: Option<Session>, serve: impl AsyncFnOnce(TcpStream)) -> Ended {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: reqwest::Url = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            serve(socket.into_inner()).await;
        };
        let client = async {
            let api = reqwest::Url::parse("http://127.0.0.1").unwrap();
            let (token, shard) = (SecretString::from("token"), Shard { id: 0, of: 1 });
            let link = Arc::new(Link::new("discord", Arc::new(TestClock::default())));
            let addresses = Addresses::new(api.as_str(), None, None).unwrap();
            let gateway = Gateway {
                rest: Arc::new(Rest::new("discord", token.clone(), &api, true, Default::default()).unwrap()),
                link: link.clone(),
                sessions: Arc::new(Sessions::new("discord", None, &token, &addresses, 0)),
                addresses,
                bot_token: token,
                shards: None,
            };
            let (shards, max_concurrency, remaining) = (1, 1, 1000);
            let allowance = Allowance {
                address: address.clone(),
                shards,
                max_concurrency,
                remaining,
                reset_after: Duration::ZERO,
            };
            let of = ShardRun {
                shard,
                gateway: Arc::new(gateway),
                starts: Arc::new(Starts::new(allowance, shards)),
                board: Arc::new(Board::new(link.clone(), shards)),
                listener: Arc::new(Nobody),
                place: Mutex::new(None),
            };
            let turn = of.starts.turn(shard, of.starts.queue(shard)).await;
            let socket = connect(&address).await.unwrap();
            let ended = Connection { socket, of: &of, session: &mut session, turn: Some(turn) }.run().await;
            assert_eq!(link.state(), LinkState::Connecting);
            ended
        };
        tokio::select! {
            ended = client => ended,
            () = async { server.await; std::future::pending().await } => unreachable!("it waits"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_says_nothing_is_left() {
        let silent = async |stream: TcpStream| {
            let _open = stream;
            std::future::pending::<()>().await;
        };
        let ended = ended(silent).await;
        assert_eq!(ended.reason, "the gateway began no session in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_resume_that_is_never_answered_is_given_up_however_often_heartbeats_are() {
        let acknowledging = async |mut stream: TcpStream| {
            let hello = br#"{"op":10,"d":{"heartbeat_interval":3600000}}"#;
            let ack = br#"{"op":11}"#;
            let frame = |text: &[u8]| [&[0x81, text.len() as u8][..], text].concat();
            stream.write_all(&frame(hello)).await.unwrap();
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                if stream.write_all(&frame(ack)).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let address = "ws://127.0.0.1".parse().unwrap();
        let session = Session { id: "abc".to_owned(), seq: 7, address };
        let began = Instant::now();
        let ended = ended_of(Some(session), acknowledging).await;
        assert_eq!(
            (ended.next, ended.reason.as_str()),
            (Next::Fresh, "the gateway began no session in time")
        );
        assert!(began.elapsed() < START_LIMIT * 2, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_gateway_that_hangs_up_at_once_is_left_to_the_pauses_of_the_shard() {
        let ended = ended(async |stream: TcpStream| drop(stream)).await;
        // What follows is the shard's: see its table of pauses.
        assert_eq!((ended.next, ended.up_for), (Next::Resume, None));
    }

    #[tokio::test]
    async fn a_frame_beyond_all_measure_is_not_read() {
        let large = async |mut stream: TcpStream| {
            // A text frame of 65 MiB begins; none of it follows.
            let mut head = vec![0x81, 127];
            head.extend((65u64 << 20).to_be_bytes());
            stream.write_all(&head).await.unwrap();
            std::future::pending::<()>().await;
        };
        let ended = ended(large).await;
        assert!(ended.reason.ends_with("a frame is too large"), "{}", ended.reason);
    }

    /// The real gateway speaks TLS, which no fake does: that it is begun at all shows by how it fails.
    #[tokio::test]
    async fn a_gateway_is_asked_over_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("wss://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 3];
            stream.read_exact(&mut hello).await.unwrap();
            stream.write_all(b"this is no TLS").await.unwrap();
            hello
        });
        let refused = connect(&address).await.unwrap_err();
        assert!(refused.starts_with("the gateway cannot be reached: "), "{refused}");
        assert_eq!(server.await.unwrap(), [22, 3, 1], "a client's hello");
    }
}
