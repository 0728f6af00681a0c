//! Lines of a child: bounded, noisy, broken off.

use std::time::Duration;

use rmcp::model::{ClientRequest, JsonRpcMessage, PingRequest, RequestId};
use rstest::rstest;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

use super::*;
use crate::mcp::connection::Guarded;

const MAX: usize = 256;

/// A transport, the state of its connection, and the server's end.
fn connect(room: usize) -> (impl Transport<RoleClient>, ConnectionState, DuplexStream) {
    let (ours, theirs) = duplex(room);
    let state = ConnectionState::default();
    let transport = transport("files", split(ours), MAX, state.clone());
    let limit = Some(Duration::from_secs(60));
    (Guarded::new(transport, state.clone(), limit), state, theirs)
}

fn ping(id: i64) -> ClientJsonRpcMessage {
    JsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(id))
}

async fn received(bytes: &[u8]) -> (Vec<ServerJsonRpcMessage>, Option<EndCause>) {
    let (mut transport, state, mut server) = connect(64 * 1024);
    server.write_all(bytes).await.unwrap();
    drop(server);
    let mut messages = Vec::new();
    while let Some(message) = transport.receive().await {
        messages.push(message);
    }
    (messages, state.cause())
}

#[rstest]
#[case("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", 1)]
#[case(
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\n  {\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":2}\n",
    2
)]
#[case("Listening on stdio\n[INFO] ready\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nbye\n", 1)]
#[case("{\"jsonrpc\":\"2.0\",\"id\":1,\"resu", 0)]
#[tokio::test]
async fn messages_are_read_and_noise_is_not(#[case] text: &str, #[case] n: usize) {
    let (messages, cause) = received(text.as_bytes()).await;
    assert_eq!((messages.len(), cause), (n, None));
}

#[rstest]
#[case(b"{\"jsonrpc\":\"2.0\",\"id\":1,\n".to_vec(), "protocol", "no valid JSON-RPC")]
#[case(b"{\"level\":\"info\"}\n".to_vec(), "protocol", "no valid JSON-RPC")]
#[case(vec![b'x'; 300], "too_large", "a message of more than 256 bytes")]
#[case([vec![b' '; 250], b"{\"jsonrpc\":\"2.0\"}\n".to_vec()].concat(), "too_large", "more than 256 bytes")]
#[case(b"noise\n".repeat(1_001), "noise", "1000 lines in a row")]
#[tokio::test]
async fn what_breaks_the_protocol_ends_the_connection(
    #[case] bytes: Vec<u8>,
    #[case] kind: &str,
    #[case] words: &str,
) {
    let (messages, cause) = received(&bytes).await;
    let cause = cause.unwrap();
    assert!(messages.is_empty() && cause.kind == kind && cause.reason.contains(words), "{cause:?}");
}

#[tokio::test]
async fn a_line_without_an_end_is_not_held() {
    let (mut transport, state, mut server) = connect(64 * 1024);
    let flood = tokio::spawn(async move {
        let chunk = vec![b'{'; 64 * 1024];
        let mut sent = 0;
        while server.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    assert!(transport.receive().await.is_none());
    assert_eq!(state.cause().unwrap().kind, "too_large");
    drop(transport);
    assert!(flood.await.unwrap() <= 256 * 1024, "it was not read to the end");
}

#[tokio::test]
async fn a_line_is_kept_while_nobody_reads() {
    let (mut transport, _state, mut server) = connect(1_024);
    for part in ["{\"jsonrpc\":\"2.0\",", "\"id\":1,\"res"] {
        server.write_all(part.as_bytes()).await.unwrap();
        assert!(futures::poll!(std::pin::pin!(transport.receive())).is_pending());
    }
    server.write_all(b"ult\":{}}\n").await.unwrap();
    assert!(transport.receive().await.is_some());
}

#[tokio::test]
async fn messages_are_written_one_a_line_in_their_order() {
    let (mut transport, _state, server) = connect(1_024);
    for id in 1..=2 {
        transport.send(ping(id)).await.unwrap();
    }
    let mut written = BufReader::new(server).lines();
    for id in 1..=2 {
        let line = written.next_line().await.unwrap().unwrap();
        assert!(line.contains(&format!("\"id\":{id}")), "{line}");
    }
    drop(transport);
    assert_eq!(written.next_line().await.unwrap(), None, "the input is closed with the transport");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_let_go() {
    let (mut transport, state, server) = connect(8);
    transport.send(ping(1)).await.unwrap_err();
    let cause = state.cause().unwrap();
    assert_eq!((cause.kind, cause.reason.as_str()), ("stuck", "it does not read what it is sent"));
    transport.send(ping(2)).await.unwrap_err();
    drop(server);
}
