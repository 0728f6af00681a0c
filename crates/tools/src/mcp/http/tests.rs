//! Answers of servers over HTTP, whole and broken, and what is kept of them.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response as Answer};
use axum::routing::any;
use futures::StreamExt as _;
use rmcp::model::{ClientNotification, ClientRequest, InitializedNotification, PingRequest, RequestId};
use rstest::rstest;

use super::*;

const MAX: usize = 1_000;

const SECRET: &str = "s3cret-token";

/// A server that answers each request with what `answer` makes of it; gives its address.
async fn serve(answer: fn(Request) -> Answer) -> Arc<str> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key={SECRET}", listener.local_addr().unwrap());
    let app = Router::new().fallback(any(move |request: Request| async move { answer(request) }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url.into()
}

fn http_client() -> HttpClient {
    let headers = BTreeMap::from([("authorization".to_owned(), SecretString::from(SECRET))]);
    let (client, state) = (client(&headers).unwrap(), ConnectionState::default());
    HttpClient { client, bytes_max: MAX, state, has_streamed: Arc::default() }
}

fn ping() -> ClientJsonRpcMessage {
    JsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(1))
}

async fn post(answer: fn(Request) -> Answer) -> Outcome<StreamableHttpPostResponse> {
    let url = serve(answer).await;
    http_client().post_message(url, ping(), None, None, HashMap::new()).await
}

fn kind(value: &'static str, body: impl Into<Body>) -> Answer {
    ([(CONTENT_TYPE, value)], body.into()).into_response()
}

/// A body without a length, of which each piece is made only when it is asked for.
fn endless(piece: &'static str) -> Body {
    Body::from_stream(futures::stream::repeat(piece).map(Ok::<_, std::io::Error>))
}

#[rstest]
#[case(|_| kind("application/json", endless("xxxxxxxxxx")), "more than 1000 bytes")]
#[case(|_| kind("application/json", "x".repeat(1_001)), "more than 1000 bytes")]
#[case(|_| kind("application/json", "{\"jsonrpc\":"), "no valid JSON-RPC")]
#[case(|_| kind("text/html", "<html>"), "no valid JSON-RPC")]
#[case(|_| StatusCode::UNAUTHORIZED.into_response(), "HTTP 401 Unauthorized; a login by OAuth is not supported; where it takes a fixed token")]
#[case(|_| (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response(), "redirects are not followed")]
#[case(|_| StatusCode::NOT_FOUND.into_response(), "the older transport HTTP+SSE is not supported")]
#[case(|_| StatusCode::BAD_GATEWAY.into_response(), "HTTP 502")]
#[tokio::test]
async fn what_is_no_answer_is_an_error_without_secrets(
    #[case] answer: fn(Request) -> Answer,
    #[case] words: &str,
) {
    let error = post(answer).await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_its_address() {
    let url: Arc<str> = format!("http://127.0.0.1:1/mcp?key={SECRET}").into();
    let error = http_client().post_message(url, ping(), None, None, HashMap::new()).await.unwrap_err();
    assert!(error.to_string().contains("it cannot be reached"), "{error}");
    assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
}

#[rstest]
#[case(|_| kind("text/event-stream", endless("data: xxxx\n")), "more than 1000 bytes")]
#[case(|_| kind("text/event-stream", endless("xxxx")), "more than 1000 bytes")]
#[case(|_| kind("text/event-stream", "data: {\"jsonrpc\":\n\n"), "no valid JSON-RPC")]
#[tokio::test]
async fn events_are_bounded_and_checked(#[case] answer: fn(Request) -> Answer, #[case] words: &str) {
    let url = serve(answer).await;
    let client = http_client();
    let said = client.post_message(url, ping(), None, None, HashMap::new()).await.unwrap();
    let StreamableHttpPostResponse::Sse(mut events, _) = said else { panic!("{said:?}") };
    let error = events.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(client.state.take_trouble().unwrap().contains(words), "kept for the call");
}

#[tokio::test]
async fn events_come_one_by_one() {
    let answer = |_| {
        let event =
            "id: 7\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\r\n\r\n: still here\n\n";
        kind("text/event-stream", event.repeat(200))
    };
    let said = post(answer).await.unwrap();
    let StreamableHttpPostResponse::Sse(events, _) = said else { panic!("{said:?}") };
    let n = events
        .filter(|event| std::future::ready(event.as_ref().is_ok_and(|event| event.data.is_some())))
        .count();
    assert_eq!(n.await, 200, "each is within the bound, all together are not");
}

#[tokio::test]
async fn a_note_needs_no_answer_and_a_server_need_not_stream() {
    let url = serve(|request| match *request.method() {
        Method::POST => kind("text/plain", "thanks"),
        Method::GET => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => StatusCode::OK.into_response(),
    })
    .await;
    let note = ClientNotification::InitializedNotification(InitializedNotification::default());
    let client = http_client();
    let told =
        client.post_message(url.clone(), JsonRpcMessage::notification(note), None, None, HashMap::new());
    assert!(matches!(told.await.unwrap(), StreamableHttpPostResponse::Accepted));
    let stream = client.get_stream(url.clone(), Some("s1".into()), None, None, HashMap::new()).await;
    assert!(matches!(stream.map(|_| ()).unwrap_err(), StreamableHttpError::ServerDoesNotSupportSse));
    client.delete_session(url, "s1".into(), None, HashMap::new()).await.unwrap();
}

#[test]
fn headers_that_are_none_are_named_without_their_values() {
    for (name, value) in [("x y", SECRET), ("x-key", "s3cret-token\n")] {
        let headers = BTreeMap::from([(name.to_owned(), SecretString::from(value))]);
        let error = client(&headers).unwrap_err();
        assert!(error.contains(name) && !error.contains(SECRET), "{error}");
    }
}
