//! The rules and faults of streamable HTTP.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;

use super::*;

const BOTH: &str = "application/json, text/event-stream";

struct Caller<'a> {
    server: &'a FakeMcp,
    headers: Vec<(&'static str, String)>,
}

/// An answer: status, session, media type, body; `whole` is false when it broke off.
struct Answered {
    status: u16,
    session: Option<String>,
    media: String,
    body: String,
    whole: bool,
}

impl Answered {
    fn messages(&self) -> Vec<Value> {
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        match self.media.as_str() {
            "text/event-stream" => {
                self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(read).collect()
            }
            _ => vec![read(&self.body)],
        }
    }
}

impl<'a> Caller<'a> {
    fn new(server: &'a FakeMcp) -> Self {
        let headers = vec![("accept", BOTH.to_owned()), ("content-type", "application/json".to_owned())];
        Self { server, headers }
    }

    async fn ready(server: &'a FakeMcp) -> Self {
        let mut caller = Self::new(server);
        let greeted = caller.post(&initialize(0)).await;
        assert_eq!(greeted.status, 200, "{}", greeted.body);
        if let Some(session) = greeted.session {
            caller.headers.push(("mcp-session-id", session));
        }
        caller.headers.push(("mcp-protocol-version", "2025-06-18".to_owned()));
        assert_eq!(caller.post(&initialized()).await.status, 202);
        caller
    }

    fn with(&self, name: &'static str, value: Option<&str>) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| *known != name);
        headers.extend(value.map(|value| (name, value.to_owned())));
        Self { server: self.server, headers }
    }

    async fn send(&self, method: &str, body: String) -> hyper::Response<hyper::body::Incoming> {
        let socket = tokio::net::TcpStream::connect(self.server.address()).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::builder().method(method).uri("/mcp").header("host", "fake");
        let request =
            self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    async fn post(&self, message: &Value) -> Answered {
        let response = self.send("POST", message.to_string()).await;
        let text = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (session, media) = (text("mcp-session-id"), text("content-type").unwrap_or_default());
        let status = response.status().as_u16();
        let (mut body, mut incoming, mut whole) = (Vec::new(), response.into_body(), true);
        while let Some(frame) = incoming.frame().await {
            match frame {
                Ok(frame) => body.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Err(_broken) => whole = false,
            }
        }
        Answered { status, session, media, body: String::from_utf8(body).unwrap(), whole }
    }
}

#[tokio::test]
async fn answers_come_as_events_or_as_json() {
    for (script, media) in
        [(Script::default(), "text/event-stream"), (Script::default().json(), "application/json")]
    {
        let server = script.start_http().await;
        let caller = Caller::ready(&server).await;
        let answered = caller.post(&call(1, "echo", &json!({ "text": "hello" }))).await;
        assert_eq!((answered.status, answered.media.as_str(), answered.whole), (200, media, true));
        assert_eq!(answered.messages()[0]["result"]["content"][0]["text"], "hello");
        assert_eq!(caller.send("DELETE", String::new()).await.status(), 204);
        assert_eq!(caller.post(&list(2)).await.status, 404, "the session has ended");
        assert_eq!(rules(server.log()), [Rule::Session]);
    }
}

#[tokio::test]
async fn a_request_without_its_headers_is_refused_and_recorded() {
    let cases = [
        ("accept", None, 406, Rule::Header),
        ("accept", Some("application/json"), 406, Rule::Header),
        ("content-type", Some("text/plain"), 415, Rule::Header),
        ("mcp-session-id", None, 400, Rule::Session),
        ("mcp-session-id", Some("made-up"), 404, Rule::Session),
        ("mcp-protocol-version", None, 400, Rule::Header),
        ("mcp-protocol-version", Some("2024-11-05"), 400, Rule::Header),
    ];
    for (name, value, status, rule) in cases {
        let server = FakeMcp::start_http().await;
        let caller = Caller::ready(&server).await.with(name, value);
        let answered = caller.post(&call(1, "write", &json!({}))).await;
        assert_eq!(answered.status, status, "{name}: {value:?}: {}", answered.body);
        assert_eq!((rules(server.log()), server.log().effects()), (vec![rule], vec![]), "{name}: {value:?}");
    }
    let server = FakeMcp::start_http().await;
    let caller = Caller::ready(&server).await;
    assert_eq!(caller.post(&initialize(1)).await.status, 400, "a session greets once");
    assert_eq!(caller.post(&json!([list(2)])).await.status, 400);
    assert_eq!(rules(server.log()), [Rule::Session, Rule::Shape]);
    let unknown = caller.post(&call(3, "ghost", &json!({}))).await;
    assert_eq!((unknown.status, &unknown.messages()[0]["error"]["code"]), (200, &json!(-32_602)));
}

#[tokio::test]
async fn a_server_of_an_old_version_needs_no_header() {
    let server = Script::default().protocol("2025-03-26").start_http().await;
    let caller = Caller::new(&server);
    let session = caller.post(&initialize(0)).await.session;
    let caller = caller.with("mcp-session-id", session.as_deref());
    assert_eq!(caller.post(&initialized()).await.status, 202);
    assert_eq!(caller.post(&list(1)).await.status, 200);
    server.log().assert_clean();
}

#[tokio::test]
async fn what_the_server_has_to_say_comes_over_the_stream() {
    let server = FakeMcp::start_http().await;
    let caller = Caller::ready(&server).await;
    let stream = caller.send("GET", String::new()).await;
    assert_eq!(stream.status(), 200);
    assert_eq!(caller.send("GET", String::new()).await.status(), 409, "one stream is enough");
    let answered = caller.post(&call(1, "change", &json!({}))).await;
    assert_eq!(answered.messages().len(), 1, "only the answer: {}", answered.body);
    let (mut incoming, mut text) = (stream.into_body(), String::new());
    while !text.contains("list_changed") {
        let frame = incoming.frame().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
    server.forget_sessions();
    assert!(incoming.frame().await.is_none(), "the stream ends with the session");
    assert_eq!(caller.post(&list(2)).await.status, 404);
}

#[tokio::test]
async fn a_call_goes_on_without_its_reader_until_it_is_cancelled() {
    let server = FakeMcp::start_http().await;
    let caller = Caller::ready(&server).await;
    let response = caller.send("POST", call(1, "hang", &json!({})).to_string()).await;
    drop(response);
    assert_eq!(caller.post(&cancelled(1)).await.status, 202);
    assert_eq!(server.log().cancelled(), [json!(1)]);
    server.log().assert_clean();
}

#[tokio::test]
async fn the_transport_fails_as_the_script_says() {
    for (fault, status) in [("status=500", 500), ("status=401", 401), ("status=404", 404), ("redirect", 307)]
    {
        let server = Script::default().fault(fault).start_http().await;
        let caller = Caller::ready(&server).await;
        assert_eq!(caller.post(&call(1, "write", &json!({}))).await.status, status, "{fault}");
        assert_eq!(server.log().effects(), [], "{fault}: it is not done");
    }
    let server = Script::default().fault("wrong-type").start_http().await;
    let answered = Caller::ready(&server).await.post(&call(1, "write", &json!({}))).await;
    assert_eq!(answered.media, "text/html");
    let server = Script::default().fault("expire").start_http().await;
    let caller = Caller::ready(&server).await;
    assert_eq!(caller.post(&call(1, "write", &json!({}))).await.status, 404);
    for script in [Script::default().fault("cut"), Script::default().fault("cut").json()] {
        let server = script.start_http().await;
        let answered = Caller::ready(&server).await.post(&call(1, "echo", &json!({ "text": "x" }))).await;
        assert!(!answered.whole && answered.body.contains("jsonrpc"), "{}", answered.body);
    }
}

#[tokio::test]
async fn a_locked_door_opens_to_its_key() {
    let server = Script::default().requires("Authorization", "Bearer key").start_http().await;
    assert_eq!(Caller::new(&server).post(&initialize(0)).await.status, 401);
    let caller = Caller::new(&server).with("authorization", Some("Bearer key"));
    assert_eq!(caller.post(&initialize(0)).await.status, 200);
}
