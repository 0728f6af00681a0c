//! The transport over a child's standard input and output: one JSON message a line.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::wire::{Cause, Wire};

/// Messages that wait for the server to read them.
const QUEUE: usize = 64;

/// Lines that are no messages, one after another, before the server is let go.
const NOISE_MAX: u32 = 1_000;

/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("the connection has ended")]
    Closed,
    #[error("the message cannot be written: {0}")]
    Unwritable(String),
}

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    bytes_max: usize,
    noise: u32,
    sender: mpsc::Sender<Vec<u8>>,
    wire: Wire,
    server: String,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// Reads from `output` and has a task of `tasks` write to `input`. A line of more than `bytes_max`, and a write that takes
    /// longer than `write_limit`, break the wire off.
    pub(super) fn new<W: AsyncWrite + Send + Unpin + 'static>(
        server: &str,
        (output, input): (R, W),
        (bytes_max, write_limit): (usize, Duration),
        wire: Wire,
        tasks: &TaskTracker,
    ) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE);
        tasks.spawn(write(input, queue, wire.clone(), write_limit));
        let reader = BufReader::with_capacity(CHUNK, output);
        Self { reader, line: Vec::new(), bytes_max, noise: 0, sender, wire, server: server.to_owned() }
    }

    /// The next line, without its break; `None` at the end. What was read so far is kept when the future is dropped.
    async fn next_line(&mut self) -> Result<Option<Vec<u8>>, Cause> {
        loop {
            // A broken pipe is an end as any other: why it ended is found out from the process.
            let chunk = self.reader.fill_buf().await.unwrap_or_default();
            if chunk.is_empty() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + part.len() > self.bytes_max {
                let reason = format!("it sent a message of more than {} bytes", self.bytes_max);
                return Err(Cause::failure("too_large", reason));
            }
            self.line.extend_from_slice(part);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }

    /// The message of a line; `None`: it is no message.
    fn parse(&mut self, line: &[u8]) -> Result<Option<ServerJsonRpcMessage>, Cause> {
        let line = line.trim_ascii();
        if line.first() == Some(&b'{') {
            self.noise = 0;
            return serde_json::from_slice(line).map(Some).map_err(|error| {
                Cause::failure("protocol", format!("it sent a message that is no valid JSON-RPC: {error}"))
            });
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.noise += 1;
        if self.noise == 1 {
            tracing::warn!(
                server = self.server,
                "a server writes lines that are no messages; they are skipped"
            );
        }
        if self.noise > NOISE_MAX {
            let reason = format!("it wrote {NOISE_MAX} lines in a row that are no messages");
            return Err(Cause::failure("noise", reason));
        }
        Ok(None)
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for Lines<R> {
    type Error = LineError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sender = self.sender.clone();
        let wire = self.wire.clone();
        async move {
            let mut bytes =
                serde_json::to_vec(&item).map_err(|error| LineError::Unwritable(error.to_string()))?;
            bytes.push(b'\n');
            tokio::select! {
                sent = sender.send(bytes) => sent.map_err(|_closed| LineError::Closed),
                _cause = wire.broken() => Err(LineError::Closed),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let parsed = match self.next_line().await {
                Ok(Some(line)) => self.parse(&line),
                Ok(None) => return None,
                Err(cause) => Err(cause),
            };
            match parsed {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(cause) => {
                    self.wire.break_off(cause);
                    return None;
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Writes what is queued, until nobody can queue any more or the wire is broken; then the input is closed.
async fn write<W: AsyncWrite + Unpin>(
    mut input: W,
    mut queue: mpsc::Receiver<Vec<u8>>,
    wire: Wire,
    limit: Duration,
) {
    loop {
        let bytes = tokio::select! {
            biased;
            _cause = wire.broken() => return,
            bytes = queue.recv() => bytes,
        };
        let Some(bytes) = bytes else { return };
        let written = async {
            input.write_all(&bytes).await?;
            input.flush().await
        };
        let written = tokio::select! {
            biased;
            _cause = wire.broken() => return,
            written = tokio::time::timeout(limit, written) => written,
        };
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_closed)) => return wire.end(),
            Err(_elapsed) => {
                return wire.break_off(Cause::failure("stuck", "it does not read what it is sent"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
