//! The HTTP side of the fake Telegram. It closes a connection without an answer where a fault says so.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::fault::{Fault, Stage};
use super::methods::{Ctx, call};
use super::rules::{Rule, Violation};
use super::wire::{Params, Refusal, decode};
use super::{Call, Shared, now, poll};
use crate::gate;

/// No answer: the connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed on purpose")]
struct Closed;

type Answer = Result<Response<Full<Bytes>>, Closed>;

/// Serves until it is aborted; all connections end with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(shared.clone(), request));
            let http = hyper::server::conn::http1::Builder::new();
            // A connection ends when the client hangs up, or on purpose.
            drop(http.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Answer {
    let path = decode(request.uri().path());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let kind = request.headers().get("content-type").and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.map_err(|_gone| Closed)?.to_bytes();
    let Some((token, rest, is_file)) = route(&path) else {
        return Ok(respond(&Err(Refusal::new(404, "Not Found"))));
    };
    let (is_token, is_mine) = {
        let state = shared.state.lock();
        (token.split_once(':').is_some_and(|(id, _)| id.parse::<u64>().is_ok()), {
            token == shared.token && !state.revoked
        })
    };
    if !is_mine {
        let refusal =
            if is_token { Refusal::new(401, "Unauthorized") } else { Refusal::new(404, "Not Found") };
        return Ok(respond(&Err(refusal)));
    }
    if is_file {
        return file(&shared, rest).await;
    }
    method(&shared, rest, &query, &kind, &body).await
}

/// `/bot{TOKEN}/{METHOD}` or `/file/bot{TOKEN}/{PATH}`.
fn route(path: &str) -> Option<(&str, &str, bool)> {
    let (rest, is_file) = match path.strip_prefix("/file/bot") {
        Some(rest) => (rest, true),
        None => (path.strip_prefix("/bot")?, false),
    };
    let (token, rest) = rest.split_once('/')?;
    Some((token, rest, is_file))
}

async fn file(shared: &Arc<Shared>, path: &str) -> Answer {
    let fault = shared.update(|state| state.plan.take("file"));
    gate::pass(shared.gates.of(&("file".to_owned(), Stage::Before))).await;
    match fault {
        Some(Fault::Hang | Fault::HangAfter) => pending().await,
        Some(Fault::CloseBefore | Fault::CloseAfter) => Err(Closed),
        Some(fault) => Ok(instead(&fault)),
        None => {
            let state = shared.state.lock();
            let file = state.files.values().find(|file| file.path == path);
            Ok(match file {
                Some(file) => plain(StatusCode::OK, "application/octet-stream", file.bytes.clone()),
                None => respond(&Err(Refusal::new(404, "Not Found: file not found"))),
            })
        }
    }
}

async fn method(shared: &Arc<Shared>, method: &str, query: &str, kind: &str, body: &[u8]) -> Answer {
    let name = method.to_lowercase();
    let parsed = Params::parse(query, kind, body);
    let params = parsed.clone().unwrap_or_default();
    let (n, fault) = shared.update(|state| {
        let n = state.calls.len();
        let params = Value::Object(params.0.clone());
        state.calls.push(Call { n, method: method.to_owned(), params });
        if let Err(text) = &parsed {
            let (method, text) = (method.to_owned(), text.clone());
            state.violations.push(Violation { n, method, rule: Rule::Shape, text });
        }
        (n, state.plan.take(&name))
    });
    gate::pass(shared.gates.of(&(name.clone(), Stage::Before))).await;
    match &fault {
        Some(Fault::Hang) => return pending().await,
        Some(Fault::CloseBefore) => return Err(Closed),
        Some(Fault::CloseAfter | Fault::HangAfter) | None => {}
        Some(fault) => return Ok(instead(fault)),
    }
    let result = match parsed {
        Err(text) => Err(Refusal::bad(text)),
        Ok(params) if name == "getupdates" => poll::get_updates(shared, &params).await,
        Ok(params) => shared.update(|state| {
            let builder = &shared.builder;
            let (limit_rates, reads_all) = (builder.limit_rates, builder.reads_all);
            let mut ctx = Ctx { state, n, method, now: now(), limit_rates, reads_all };
            call(&mut ctx, &params)
        }),
    };
    shared.update(|state| *state.done.entry(name.clone()).or_default() += 1);
    gate::pass(shared.gates.of(&(name, Stage::After))).await;
    match fault {
        Some(Fault::CloseAfter) => Err(Closed),
        Some(Fault::HangAfter) => pending().await,
        _ => Ok(respond(&result)),
    }
}

fn instead(fault: &Fault) -> Response<Full<Bytes>> {
    match fault {
        Fault::Html => plain(
            StatusCode::BAD_GATEWAY,
            "text/html",
            b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n".to_vec(),
        ),
        Fault::Body(body) => plain(StatusCode::OK, "application/json", body.clone().into_bytes()),
        other => respond(&Err(other.refusal().unwrap_or_else(|| Refusal::new(500, "Internal Server Error")))),
    }
}

fn respond(result: &Result<Value, Refusal>) -> Response<Full<Bytes>> {
    let (status, body) = match result {
        Ok(result) => (StatusCode::OK, json!({ "ok": true, "result": result })),
        Err(refusal) => refusal.body(),
    };
    plain(status, "application/json", body.to_string().into_bytes())
}

fn plain(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
    response
}
