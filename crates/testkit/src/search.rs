//! A fake of the search services: SearXNG, Brave and Tavily, each in the JSON form of its documentation (SearXNG "Search API";
//! Brave "Web Search API"; Tavily "POST /search"). It refuses what they would refuse, and records what no client sends.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The key of Brave and of Tavily.
pub const KEY: &str = "search-key-7";

/// A service of all three kinds, at their different paths. The query decides: `nothing`, `no json`, `status N`, `garbage`.
pub struct FakeSearch {
    url: String,
    odd: Arc<Mutex<Vec<String>>>,
    queries: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeSearch {
    /// # Panics
    /// There is no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("has an address"));
        let (odd, queries) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let task = tokio::spawn(serve(listener, odd.clone(), queries.clone()));
        Self { url, odd, queries, task }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// What was searched for, in order.
    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().clone()
    }

    /// # Panics
    /// A request was not of a documented form.
    pub fn assert_clean(&self) {
        assert!(self.odd.lock().is_empty(), "{:?}", self.odd.lock());
    }
}

async fn serve(listener: TcpListener, odd: Arc<Mutex<Vec<String>>>, queries: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let (odd, queries) = (odd.clone(), queries.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, odd.clone(), queries.clone()));
            let http = hyper::server::conn::http1::Builder::new();
            // A connection ends when the client hangs up.
            drop(http.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

/// The parameters of a query string.
fn params(query: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://fake/?{query}")).ok();
    url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
}

/// A search, as one of the services reads it.
struct Asked {
    query: Option<String>,
    /// The key is right, or none is needed.
    allowed: bool,
    /// Puts results into the form of the service.
    wrap: fn(Vec<Value>) -> Value,
}

fn asked(request: &Request<()>, body: &Value, odd: &Mutex<Vec<String>>) -> Asked {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = params(request.uri().query().unwrap_or_default());
    let of = |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let counted = |name: &str, count: Option<u64>| {
        if !count.is_some_and(|count| (1..=20).contains(&count)) {
            odd.lock().push(format!("{name} is {count:?}"));
        }
    };
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/search") if of("format").as_deref() == Some("json") => Asked {
            query: of("q"),
            allowed: true,
            wrap: |hits| json!({ "query": "q", "number_of_results": 0, "results": hits, "answers": [] }),
        },
        ("GET", "/res/v1/web/search") => {
            counted("count", of("count").and_then(|count| count.parse().ok()));
            let allowed = header("x-subscription-token") == KEY;
            let wrap = |hits: Vec<Value>| {
                let mut answer = json!({ "type": "search", "query": { "original": "q" } });
                if !hits.is_empty() {
                    answer["web"] = json!({ "type": "search", "results": hits });
                }
                answer
            };
            Asked { query: of("q"), allowed, wrap }
        }
        ("POST", "/search") => {
            counted("max_results", body["max_results"].as_u64());
            Asked {
                query: body["query"].as_str().map(str::to_owned),
                allowed: header("authorization") == format!("Bearer {KEY}"),
                wrap: |hits| json!({ "query": "q", "results": hits, "response_time": 0.1 }),
            }
        }
        _ => Asked { query: None, allowed: true, wrap: |_| Value::Null },
    }
}

async fn answer(
    request: Request<Incoming>,
    odd: Arc<Mutex<Vec<String>>>,
    queries: Arc<Mutex<Vec<String>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = Request::from_parts(head, ());
    let Asked { query, allowed, wrap } = asked(&request, &body, &odd);
    let (method, path) = (request.method(), request.uri().path());
    let Some(query) = query.filter(|query| !query.is_empty()) else {
        odd.lock().push(format!("{method} {path}: no such request, or no query"));
        return Ok(respond(404, "{}"));
    };
    if !allowed {
        return Ok(respond(if path == "/search" { 401 } else { 403 }, r#"{"detail":"invalid key"}"#));
    }
    queries.lock().push(query.clone());
    let snippet = if path.starts_with("/res") { "description" } else { "content" };
    Ok(match (query.as_str(), query.strip_prefix("status ").and_then(|status| status.parse().ok())) {
        (_, Some(status)) => respond(status, "{}"),
        ("no json", _) => respond(403, "<html>403 Forbidden</html>"),
        ("garbage", _) => respond(200, "<html>a page of a proxy</html>"),
        ("nothing", _) => respond(200, &wrap(Vec::new()).to_string()),
        _ => {
            let hits = vec![
                json!({ "title": format!("About {query}"), "url": "https://one.example/tall%20otters",
                    snippet: "The first snippet,\n on two lines.", "engine": "x", "score": 0.9 }),
                json!({ "title": "No address", "url": "about:blank" }),
                json!({ "title": "Second", "url": "https://two.example", snippet: null }),
                json!({ "title": "Third", "url": "https://three.example", snippet: "more than was asked for" }),
            ];
            respond(200, &wrap(hits).to_string())
        }
    })
}

fn respond(status: u16, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_owned())));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}
