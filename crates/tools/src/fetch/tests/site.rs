//! A site on loopback that answers as it is told, and keeps what it was asked.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Clone)]
pub(super) enum Act {
    /// Sends these bytes and hangs up.
    Send(Vec<u8>),
    /// Sends these bytes, then these again and again.
    Flood(Vec<u8>, Vec<u8>),
    /// Sends these bytes and then nothing, without hanging up.
    Hang(Vec<u8>),
}

#[derive(Default)]
struct State {
    acts: HashMap<String, Act>,
    seen: Vec<String>,
}

pub(super) struct Site {
    pub(super) port: u16,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Site {
    /// A site at 127.0.0.1, the public internet.
    pub(super) async fn start() -> Self {
        Self::at(Ipv4Addr::LOCALHOST, 0).await
    }

    /// A site at an address and a port (0: any).
    pub(super) async fn at(address: Ipv4Addr, port: u16) -> Self {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { port, state, task }
    }

    pub(super) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Answers with a body; `headers` are joined by `\r\n`.
    pub(super) fn serve(&self, path: &str, status: &str, headers: &str, body: impl AsRef<[u8]>) {
        self.act(path, Act::Send(answer(status, headers, body.as_ref())));
    }

    pub(super) fn redirect(&self, path: &str, status: u16, to: &str) {
        self.serve(path, &format!("{status} Go"), &format!("Location: {to}\r\nSet-Cookie: a=b"), "moved");
    }

    pub(super) fn serve_raw(&self, path: &str, bytes: Vec<u8>) {
        self.act(path, Act::Send(bytes));
    }

    pub(super) fn act(&self, path: &str, act: Act) {
        self.state.lock().acts.insert(path.to_owned(), act);
    }

    /// The requests so far; an empty one for a connection without any.
    pub(super) fn seen(&self) -> Vec<String> {
        self.state.lock().seen.clone()
    }
}

/// An answer as it goes over the wire.
pub(super) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => request.push(byte[0]),
            _ => break,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let act = {
        let mut state = state.lock();
        state.seen.push(request);
        state.acts.get(&path).cloned()
    };
    // Whoever has read enough hangs up: then there is nobody to send to.
    match act.unwrap_or_else(|| Act::Send(answer("404 Not Found", "Content-Type: text/plain", b"none"))) {
        Act::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Act::Flood(head, again) => {
            let _ = stream.write_all(&head).await;
            while stream.write_all(&again).await.is_ok() {}
        }
        Act::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0]).await;
        }
    }
}
