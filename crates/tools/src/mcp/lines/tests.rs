//! Lines of a child: bounded, noisy, broken off.

use rmcp::model::{ClientRequest, JsonRpcMessage, PingRequest, RequestId};
use rstest::rstest;
use tokio::io::{DuplexStream, ReadHalf, duplex, split};

use super::*;

const MAX: usize = 256;

const LIMIT: Duration = Duration::from_secs(60);

/// A transport, its wire, and the server's end.
fn lines(room: usize) -> (Lines<ReadHalf<DuplexStream>>, Wire, DuplexStream) {
    let (ours, theirs) = duplex(room);
    let wire = Wire::default();
    let lines = Lines::new("files", split(ours), (MAX, LIMIT), wire.clone(), &TaskTracker::new());
    (lines, wire, theirs)
}

fn ping(id: i64) -> ClientJsonRpcMessage {
    JsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(id))
}

async fn received(bytes: &[u8]) -> (Vec<ServerJsonRpcMessage>, Option<Cause>) {
    let (mut lines, wire, mut server) = lines(64 * 1024);
    server.write_all(bytes).await.unwrap();
    drop(server);
    let mut messages = Vec::new();
    while let Some(message) = lines.receive().await {
        messages.push(message);
    }
    (messages, wire.cause())
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
    let (mut lines, wire, mut server) = lines(64 * 1024);
    let flood = tokio::spawn(async move {
        let chunk = vec![b'{'; 64 * 1024];
        let mut sent = 0;
        while server.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    assert!(lines.receive().await.is_none());
    assert!(lines.line.capacity() <= CHUNK && wire.cause().is_some());
    drop(lines);
    assert!(flood.await.unwrap() <= 256 * 1024, "it was not read to the end");
}

#[tokio::test]
async fn a_line_is_kept_while_nobody_reads() {
    let (mut lines, _wire, mut server) = lines(1_024);
    for part in ["{\"jsonrpc\":\"2.0\",", "\"id\":1,\"res"] {
        server.write_all(part.as_bytes()).await.unwrap();
        assert!(futures::poll!(std::pin::pin!(lines.receive())).is_pending());
    }
    server.write_all(b"ult\":{}}\n").await.unwrap();
    assert!(lines.receive().await.is_some());
}

#[tokio::test]
async fn messages_are_written_one_a_line_in_their_order() {
    let (mut lines, _wire, server) = lines(1_024);
    for id in 1..=2 {
        lines.send(ping(id)).await.unwrap();
    }
    let mut written = BufReader::new(server).lines();
    for id in 1..=2 {
        let line = written.next_line().await.unwrap().unwrap();
        assert!(line.contains(&format!("\"id\":{id}")), "{line}");
    }
    drop(lines);
    assert_eq!(written.next_line().await.unwrap(), None, "the input is closed with the transport");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_let_go() {
    let (mut lines, wire, server) = lines(8);
    lines.send(ping(1)).await.unwrap();
    let cause = wire.broken().await;
    assert_eq!((cause.kind, cause.reason.as_str()), ("stuck", "it does not read what it is sent"));
    let mut failed = false;
    for id in 0..100 {
        failed |= lines.send(ping(id)).await.is_err();
    }
    assert!(failed, "nothing waits for it");
    drop(server);
}
