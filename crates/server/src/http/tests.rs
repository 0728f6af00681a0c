//! The server with real sockets: no client can block the others.

use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::*;

/// Long enough for every request of a test, and never waited for.
const LONG: Duration = Duration::from_secs(120);

const SHORT: Duration = Duration::from_millis(200);

/// Those of a listener where a connection is for one request.
fn bounds(at_once: usize, head: Duration, whole: Duration) -> Bounds {
    Bounds { what: "the door", count: |_| {}, at_once, head, unread: LONG, whole: Some(whole) }
}

struct Door {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Door {
    async fn open(router: Router, bounds: Bounds) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(serve(listener, router, bounds, stop.clone()));
        Self { address, stop, serving }
    }

    /// A client that has sent that and waits.
    async fn sent(&self, words: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(words.as_bytes()).await.unwrap();
        client
    }

    async fn ask(&self) -> String {
        read(self.sent("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await).await
    }
}

/// All that comes until it is closed.
async fn read(mut client: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is cut off ends, too.
    let _ended = client.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

#[tokio::test]
async fn beside_a_client_that_sends_half_a_request_others_are_served() {
    let door = Door::open(hello(), bounds(2, LONG, LONG)).await;
    let _half = door.sent("GET / HT").await;
    assert!(door.ask().await.ends_with("hello"));
    assert!(door.ask().await.ends_with("hello"));
}

#[tokio::test]
async fn slow_clients_that_take_all_places_are_closed_and_whoever_waited_is_served() {
    let door = Door::open(hello(), bounds(2, SHORT, LONG)).await;
    let (half, silent) = (door.sent("GET / HT").await, door.sent("").await);
    assert!(door.ask().await.ends_with("hello"));
    assert_eq!((read(half).await, read(silent).await), (String::new(), String::new()));
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed() {
    const BYTES: usize = 64 << 20;
    let router = hello().route("/huge", get(async || "x".repeat(BYTES)));
    let kept_open = Bounds { unread: SHORT, whole: None, ..bounds(1, SHORT, LONG) };
    for bounds in [bounds(1, LONG, SHORT), kept_open] {
        let door = Door::open(router.clone(), bounds).await;
        let deaf = door.sent("GET /huge HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(door.ask().await.ends_with("hello"), "its place is free again");
        assert!(read(deaf).await.len() < BYTES, "it was cut off");
    }
}

#[tokio::test]
async fn a_connection_is_for_one_request_and_no_body_is_waited_for() {
    let bounds = bounds(1, LONG, LONG);
    let door = Door::open(hello(), bounds).await;
    let two = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(read(door.sent(two).await).await.matches("hello").count(), 1);
    let endless = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nand";
    assert!(read(door.sent(endless).await).await.starts_with("HTTP/1.1 405"));
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(2 * HEAD_BYTES));
    let refused = read(door.sent(&long).await).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
}

#[tokio::test]
async fn no_more_are_inside_than_there_are_places() {
    const PLACES: usize = 3;
    let (entered, mut arrivals) = mpsc::channel(16);
    let gate = Arc::new(Semaphore::new(0));
    let at_gate = Arc::clone(&gate);
    let held = get(async move || {
        entered.send(()).await.unwrap();
        at_gate.acquire().await.unwrap().forget();
        "hello"
    });
    let bounds = bounds(PLACES, LONG, LONG);
    let door = Door::open(Router::new().route("/", held), bounds).await;
    let mut clients = Vec::new();
    for _ in 0..2 * PLACES {
        clients.push(door.sent("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await);
    }
    for _ in 0..PLACES {
        arrivals.recv().await.unwrap();
    }
    for _ in 0..PLACES {
        // All that can happen beside happens in this thread: time enough for one too many.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert!(arrivals.try_recv().is_err(), "one more than there are places");
        gate.add_permits(1);
        arrivals.recv().await.unwrap();
    }
    gate.add_permits(PLACES);
    for client in clients {
        assert!(read(client).await.ends_with("hello"));
    }
}

#[tokio::test]
async fn at_a_stop_who_is_inside_is_served_and_who_has_asked_nothing_is_not_waited_for() {
    let (entered, mut arrivals) = mpsc::channel(1);
    let gate = Arc::new(Semaphore::new(0));
    let at_gate = Arc::clone(&gate);
    let held = get(async move || {
        entered.send(()).await.unwrap();
        at_gate.acquire().await.unwrap().forget();
        "hello"
    });
    let bounds = bounds(2, LONG, LONG);
    let door = Door::open(Router::new().route("/", held), bounds).await;
    let silent = door.sent("").await;
    let asking = door.sent("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    arrivals.recv().await.unwrap();
    door.stop.cancel();
    assert_eq!(read(silent).await, "");
    gate.add_permits(1);
    assert!(read(asking).await.ends_with("hello"));
    door.serving.await.unwrap();
    assert!(TcpStream::connect(door.address).await.is_err());
}

#[tokio::test]
async fn a_connection_that_stays_open_is_closed_when_no_further_request_comes() {
    let open = Bounds { whole: None, ..bounds(1, SHORT, LONG) };
    let door = Door::open(hello(), open).await;
    let two = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let client = door.sent(two).await;
    // It takes the only place until it is closed.
    assert!(read(client).await.ends_with("hello"));
    assert_eq!(read(door.sent(two).await).await.matches("hello").count(), 2);
}
