//! Bare clients: HTTP requests and a WebSocket, without any library for Discord.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::discord::{FakeDiscord, TOKEN};

#[derive(Debug)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) headers: hyper::HeaderMap,
    pub(super) text: String,
    pub(super) json: Value,
}

impl Got {
    pub(super) fn refusal(&self) -> (u16, u64) {
        (self.status, self.json["code"].as_u64().unwrap_or(u64::MAX))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(super) struct Rest {
    pub(super) address: std::net::SocketAddr,
    pub(super) authorization: String,
}

impl Rest {
    pub(super) fn of(discord: &FakeDiscord) -> Self {
        Self { address: discord.shared.address, authorization: format!("Bot {TOKEN}") }
    }

    /// Sends a request; `None`: the connection closed without an answer.
    pub(super) async fn try_ask(&self, method: &str, path: &str, body: Value) -> Option<Got> {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = hyper::Request::builder().method(method).uri(path).header("host", "fake");
        request = request.header("user-agent", "DiscordBot (https://example.org, 1)");
        if !self.authorization.is_empty() {
            request = request.header("authorization", &self.authorization);
        }
        let bytes = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(bytes)));
        let response = sender.send_request(request.unwrap()).await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        connection.abort();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_str(&text).unwrap_or_default();
        Some(Got { status, headers, text, json })
    }

    pub(super) async fn ask(&self, method: &str, path: &str, body: Value) -> Got {
        self.try_ask(method, path, body).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Got {
        self.ask("GET", path, Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Got {
        self.ask("POST", path, body).await
    }

    /// Sends a message that keeps all rules, with more in it.
    pub(super) async fn send(&self, channel: u64, text: &str, more: Value) -> Got {
        let mut body = json!({"content": text, "allowed_mentions": {"parse": []}});
        crate::discord::shapes::merge(&mut body, more);
        self.post(&format!("/api/v10/channels/{channel}/messages"), body).await
    }
}

pub(super) struct Socket {
    inner: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// How a connection ended, or what came on it.
#[derive(Debug, PartialEq)]
pub(super) enum Came {
    Payload(Value),
    Closed(Option<u16>),
}

impl Socket {
    pub(super) async fn open(discord: &FakeDiscord) -> Self {
        let (inner, _) =
            connect_async(format!("{}/?v=10&encoding=json", discord.gateway_url())).await.unwrap();
        let mut socket = Self { inner };
        assert_eq!(socket.payload().await["op"], 10);
        socket
    }

    /// Opened and identified, with READY passed over.
    pub(super) async fn ready(discord: &FakeDiscord, intents: u64) -> (Self, Value) {
        let mut socket = Self::open(discord).await;
        socket.identify(TOKEN, intents).await;
        let ready = socket.payload().await;
        assert_eq!(ready["t"], "READY", "{ready}");
        (socket, ready)
    }

    pub(super) async fn send(&mut self, payload: Value) {
        self.inner.send(Message::Text(payload.to_string().into())).await.unwrap();
    }

    pub(super) async fn identify(&mut self, token: &str, intents: u64) {
        let properties = json!({"os": "linux", "browser": "test", "device": "test"});
        let data = json!({"token": token, "intents": intents, "properties": properties, "shard": [0, 1]});
        self.send(json!({"op": 2, "d": data})).await;
    }

    pub(super) async fn resume(&mut self, ready: &Value, seq: u64) {
        let data = json!({"token": TOKEN, "session_id": ready["d"]["session_id"], "seq": seq});
        self.send(json!({"op": 6, "d": data})).await;
    }

    pub(super) async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        self.inner.close(Some(frame)).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Came {
        let next = tokio::time::timeout(Duration::from_secs(30), self.inner.next()).await;
        match next.expect("something comes") {
            Some(Ok(Message::Text(text))) => Came::Payload(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(frame))) => Came::Closed(frame.map(|frame| frame.code.into())),
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => Came::Closed(None),
        }
    }

    pub(super) async fn payload(&mut self) -> Value {
        match self.next().await {
            Came::Payload(payload) => payload,
            Came::Closed(code) => panic!("closed with {code:?}"),
        }
    }

    /// The next payload of that name, others passed over.
    pub(super) async fn event(&mut self, name: &str) -> Value {
        loop {
            let payload = self.payload().await;
            if payload["t"] == name {
                return payload;
            }
        }
    }
}
