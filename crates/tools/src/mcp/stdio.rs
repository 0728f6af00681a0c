//! The transport over a child's standard input and output, one JSON message per line. rmcp drives it as a stream and a
//! sink; the stream limits what is read.

use std::io;

use futures::{SinkExt as _, StreamExt as _};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::sink_stream::SinkStreamTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead, FramedWrite, LinesCodec, LinesCodecError};

use super::connection::{ConnectionState, EndCause};

/// Most lines in a row that are not messages, before the connection is ended.
const NOISE_MAX: u32 = 1_000;

/// Reads from `output` and writes to `input`. A line longer than `bytes_max`, or an invalid message, ends the
/// connection.
pub(super) fn transport<R, W>(
    server: &str,
    (output, input): (R, W),
    bytes_max: usize,
    state: ConnectionState,
) -> impl Transport<RoleClient, Error = LinesCodecError> + use<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let lines = Lines::new(server, bytes_max);
    let messages = FramedRead::new(output, lines).scan(state, |state, message| {
        let message = message.map_err(|error| error.0.into_iter().for_each(|cause| state.break_off(cause)));
        std::future::ready(message.ok())
    });
    let sink = FramedWrite::new(input, LinesCodec::new()).with(|message: ClientJsonRpcMessage| {
        let line = serde_json::to_string(&message);
        std::future::ready(line.map_err(|error| LinesCodecError::Io(io::Error::from(error))))
    });
    SinkStreamTransport::new(sink, messages.boxed())
}

/// The reason to end the connection. `None`: a broken pipe, whose reason is found from the process.
pub(super) struct LineError(pub(super) Option<EndCause>);

impl LineError {
    fn new(kind: &'static str, reason: String) -> Self {
        Self(Some(EndCause::failure(kind, reason)))
    }
}

impl From<io::Error> for LineError {
    fn from(_closed: io::Error) -> Self {
        Self(None)
    }
}

pub(super) struct Lines {
    server: String,
    bytes_max: usize,
    /// Bytes of the current line already searched for its end.
    searched: usize,
    /// Lines since the last message that were not messages.
    noise: u32,
}

impl Lines {
    pub(super) fn new(server: &str, bytes_max: usize) -> Self {
        Self { server: server.to_owned(), bytes_max, searched: 0, noise: 0 }
    }

    /// The message in a line; `None`: it is not a message.
    fn parse(&mut self, line: &[u8]) -> Result<Option<ServerJsonRpcMessage>, LineError> {
        let line = line.trim_ascii();
        if line.first() == Some(&b'{') {
            self.noise = 0;
            return serde_json::from_slice(line).map(Some).map_err(|error| {
                LineError::new("protocol", format!("it sent a message that is no valid JSON-RPC: {error}"))
            });
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.noise += 1;
        if self.noise == 1 {
            let server = &self.server;
            tracing::warn!(server, "a tool server writes lines that are not messages; they are skipped");
        }
        if self.noise > NOISE_MAX {
            let reason = format!("it wrote {NOISE_MAX} lines in a row that are no messages");
            return Err(LineError::new("noise", reason));
        }
        Ok(None)
    }
}

impl Decoder for Lines {
    type Item = ServerJsonRpcMessage;
    type Error = LineError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<ServerJsonRpcMessage>, LineError> {
        loop {
            let end = buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let length = end.map_or(buffer.len(), |at| self.searched + at);
            if length > self.bytes_max {
                let reason = format!("it sent a message of more than {} bytes", self.bytes_max);
                return Err(LineError::new("too_large", reason));
            }
            if end.is_none() {
                self.searched = length;
                return Ok(None);
            }
            let line = buffer.split_to(length + 1);
            self.searched = 0;
            if let Some(message) = self.parse(&line)? {
                return Ok(Some(message));
            }
        }
    }

    /// An incomplete last line is dropped.
    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<ServerJsonRpcMessage>, LineError> {
        let message = self.decode(buffer)?;
        if message.is_none() {
            buffer.clear();
            self.searched = 0;
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests;
