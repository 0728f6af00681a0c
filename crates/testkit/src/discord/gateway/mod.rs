//! The gateway: one WebSocket from hello to its end.

pub(super) mod answer;
pub(super) mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::Shared;
use session::{Due, End};

/// Largest payload that a client may send.
const MAX_PAYLOAD_BYTES: usize = 4096;

/// How long the end of a connection waits for the other side's.
const FAREWELL: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<TcpStream>;

#[expect(clippy::result_large_err, reason = "the shape of the handshake's callback is given")]
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut query = String::new();
    let read = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        query = request.uri().query().unwrap_or_default().to_owned();
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, read).await else {
        return;
    };
    let id = shared.update(|state| state.gateway.open());
    if !query.split('&').any(|pair| pair == "v=10") {
        shared
            .violation(super::Rule::Gateway, format!("the gateway's address names no version 10: `{query}`"));
        close(&mut socket, 4012).await;
    } else {
        let interval = shared.builder.heartbeat.as_millis() as u64;
        let hello =
            json!({"op": 10, "t": null, "s": null, "d": {"heartbeat_interval": interval, "_trace": ["[]"]}});
        shared.update(|state| state.gateway.tell(id, &hello));
        converse(&shared, id, &mut socket).await;
    }
    shared.update(|state| state.gateway.connections.remove(&id));
}

async fn converse(shared: &Arc<Shared>, id: u64, socket: &mut Socket) {
    let mut changed = shared.state.changes();
    let mut last_beat = Instant::now();
    loop {
        changed.borrow_and_update();
        let due: Due = shared.state.lock().gateway.due(id);
        for text in due.texts {
            if socket.send(Message::Text(text.into())).await.is_err() {
                return;
            }
        }
        match due.end {
            Some(End::Drop) => return,
            Some(End::Close(code)) => return close(socket, code).await,
            None => {}
        }
        let silence = shared.builder.heartbeat * 2 + Duration::from_secs(5);
        let message = tokio::select! {
            message = socket.next() => message,
            _ = changed.changed() => continue,
            () = tokio::time::sleep_until((last_beat + silence).into()) => return close(socket, 4009).await,
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => {
                return answer::left(shared, id, frame.map(|frame| frame.code.into()));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => return close(socket, 4002).await,
            Some(Err(_)) | None => return,
        };
        let payload: Value = if text.len() > MAX_PAYLOAD_BYTES {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or_default()
        };
        if payload["op"] == 1 {
            last_beat = Instant::now();
        }
        answer::take(shared, id, &payload);
    }
}

async fn close(socket: &mut Socket, code: u16) {
    let frame = CloseFrame { code: CloseCode::from(code), reason: reason(code).into() };
    let farewell = async {
        if socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    };
    if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
        tracing::debug!("a gateway client did not answer the close");
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        4001 => "Unknown opcode.",
        4002 => "Error while decoding payload.",
        4003 => "Not authenticated.",
        4004 => "Authentication failed.",
        4005 => "Already authenticated.",
        4007 => "Invalid seq.",
        4008 => "Rate limited.",
        4009 => "Session timed out.",
        4010 => "Invalid shard.",
        4011 => "Sharding required.",
        4012 => "Invalid API version.",
        4013 => "Invalid intent(s).",
        4014 => "Disallowed intent(s).",
        _ => "Unknown error.",
    }
}
