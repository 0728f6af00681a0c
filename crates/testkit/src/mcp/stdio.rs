//! Messages on lines, in and out.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::fault::Fault;
use super::frame::{Form, Frame, pieces};
use super::records::Record;
use super::server::{Server, Taken};
use super::session::Session;
use super::step::Out;

const QUEUE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    InputClosed,
    OutputClosed,
    AsTold,
}

/// Serves one client until its input ends; unless it is told to go on all the same.
pub(super) async fn serve(
    server: Arc<Server>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Ended {
    let session = Arc::new(Session::default());
    let (out, outs) = mpsc::channel(QUEUE);
    let ended = tokio::select! {
        ended = listen(&server, &session, &out, input) => ended,
        ended = speak(outs, output) => ended,
    };
    session.end();
    ended
}

async fn listen(
    server: &Arc<Server>,
    session: &Arc<Session>,
    out: &mpsc::Sender<Out>,
    input: impl AsyncRead + Unpin,
) -> Ended {
    if server.behaviour.now().has(&Fault::Deaf) {
        return std::future::pending().await;
    }
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    while let Ok(1..) = input.read_until(b'\n', &mut line).await {
        let taken = server.read(&line).map(|message| server.take(session, &message));
        line.clear();
        match taken.unwrap_or_else(|refused| refused) {
            Taken::Answer { id, steps } => session.start(&id, steps, out.clone()),
            Taken::Nothing => {}
            Taken::Refused { error, .. } => {
                if out.send(Out::Frame(Frame::Message(error))).await.is_err() {
                    return Ended::OutputClosed;
                }
            }
        }
    }
    server.log.add(Record::InputClosed);
    if server.behaviour.now().has(&Fault::Stubborn) {
        return std::future::pending().await;
    }
    Ended::InputClosed
}

async fn speak(mut outs: mpsc::Receiver<Out>, mut output: impl AsyncWrite + Unpin) -> Ended {
    while let Some(out) = outs.recv().await {
        let Out::Frame(frame) = out else { return Ended::AsTold };
        if write(frame, &mut output).await.is_err() {
            return Ended::OutputClosed;
        }
    }
    Ended::OutputClosed
}

async fn write(frame: Frame, output: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    for piece in pieces(frame, Form::Line) {
        output.write_all(&piece).await?;
    }
    output.flush().await
}
