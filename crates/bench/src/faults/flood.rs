//! Too much at once, and too little memory: bounds are kept and told, and afterwards everything is as before.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::random::Random;

use super::{Case, Outcome, require, tally};

pub(super) const FLOODS: [&str; 4] = ["messages", "connections", "bodies", "answers"];

/// More than that is not bounded.
const MOST_BYTES: u64 = 300 << 20;

const N_MESSAGES: usize = 10_000;
const AT_ONCE: usize = 100;
const N_CONNECTIONS: usize = 300;
const BODY_BYTES: usize = 10 << 20;
const N_LONG: usize = 60;
const LONG_BYTES: usize = 175_000;

pub(super) async fn run(case: &Case<'_>, flood: &str) -> io::Result<Outcome> {
    std::fs::create_dir_all(case.state())?;
    std::fs::write(case.config(), "")?;
    let daemon = case.daemon().await?;
    let client = daemon.client();
    ask(&client, "ben", "before").await?;
    let told = match flood {
        "messages" => messages(&client).await?,
        "connections" => connections(case, &client).await?,
        "answers" => answers(case, &client).await?,
        _ => bodies(&client).await?,
    };
    let peak = daemon.peak_bytes()?;
    require(peak < MOST_BYTES, || format!("it took {} MiB", peak >> 20))?;
    ask(&client, "ben", "after").await?;
    case.stop(daemon).await?;
    case.verify().await?;
    Ok(Outcome::Mended(format!("{told}; {} MiB at most", peak >> 20)))
}

/// Somebody else's message is answered.
async fn ask(client: &Client, channel: &str, text: &str) -> io::Result<()> {
    let asked = timeout(PATIENCE, client.say(channel, text)).await;
    let (status, told) = asked.map_err(|_late| io::Error::other(format!("`{text}` gets no answer")))??;
    require(status.is_success(), || format!("`{text}`: {status}: {told}"))
}

/// One person says ten thousand things; each is answered, or refused by name.
async fn messages(client: &Client) -> io::Result<String> {
    let one = |worker: usize| async move {
        let (mut answered, mut refused) = (Vec::new(), 0);
        for n in 0..N_MESSAGES / AT_ONCE {
            let id = format!("flood-{worker}-{n}");
            let body = json!({ "user": "anna", "text": format!("message {id}"), "id": id });
            let path = format!("/v1/channels/flood{}/messages", worker % 10);
            match client.ask("POST", &path, &body).await? {
                (status, _) if status.is_success() => answered.push(id),
                (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, told) => {
                    require(told["error"]["hint"].is_string(), || format!("no hint: {told}"))?;
                    refused += 1;
                }
                (status, told) => return Err(io::Error::other(format!("{status}: {told}"))),
            }
        }
        Ok((answered, refused))
    };
    let done = futures::future::try_join_all((0..AT_ONCE).map(one)).await?;
    let refused: usize = done.iter().map(|(_, refused)| refused).sum();
    let answered: Vec<String> = done.into_iter().flat_map(|(answered, _)| answered).collect();
    let mut found = Vec::new();
    for n in 0..10 {
        let (_, history) = client.history(&format!("flood{n}")).await?;
        let ids = history.as_array().into_iter().flatten().filter_map(|entry| entry["message"].as_str());
        found.extend(ids.map(str::to_owned));
    }
    let found = tally(found.iter().map(String::as_str));
    let lost = answered.iter().find(|id| found.get(id.as_str()) != Some(&1));
    require(lost.is_none(), || format!("{lost:?} is lost, or there twice"))?;
    Ok(format!("{} answered, {refused} refused", answered.len()))
}

/// Connections that begin a request and leave it so.
async fn connections(case: &Case<'_>, client: &Client) -> io::Result<String> {
    let socket = case.state().join("cairn.sock");
    let mut held = Vec::new();
    for _ in 0..N_CONNECTIONS {
        let Ok(mut stream) = UnixStream::connect(&socket).await else { continue };
        // One that was closed at once was refused.
        drop(stream.write_all(b"POST /v1/channels/main/messages HTTP/1.1\r\nhost: cairn\r\ncontent-length: 1000000\r\n\r\n{").await);
        held.push(stream);
    }
    // It may refuse more connections while these are there; they end by themselves.
    let free = async {
        while client.get("/v1/health").await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, free).await.map_err(|_late| io::Error::other("it takes no connections any more"))?;
    Ok(format!("{} connections held", held.len()))
}

/// Clients that ask for all of a long history, beside others that read nothing of it.
async fn answers(case: &Case<'_>, client: &Client) -> io::Result<String> {
    let words = "words and words of a very long message ".repeat(LONG_BYTES / 39);
    for n in 0..N_LONG {
        ask(client, "long", &format!("{n} {words}")).await?;
    }
    let socket = case.state().join("cairn.sock");
    let mut deaf = Vec::new();
    for _ in 0..AT_ONCE {
        let mut stream = UnixStream::connect(&socket).await?;
        stream
            .write_all(b"GET /v1/channels/long/history?limit=10000 HTTP/1.1\r\nhost: cairn\r\n\r\n")
            .await?;
        deaf.push(stream);
    }
    let whole = async |_| {
        let (status, history) = client.history("long").await?;
        let n = history.as_array().map_or(0, Vec::len);
        require(n == 2 * N_LONG, || format!("{status}: {n} entries"))
    };
    futures::future::try_join_all((0..AT_ONCE).map(whole)).await?;
    Ok(format!("{AT_ONCE} read, {} did not", deaf.len()))
}

/// Bodies that are larger than any message.
async fn bodies(client: &Client) -> io::Result<String> {
    let text = "a".repeat(BODY_BYTES);
    let body = json!({ "user": "anna", "text": text });
    let sends = (0..20).map(|n| {
        let (path, body) = (format!("/v1/channels/flood{n}/messages"), &body);
        async move { client.ask("POST", &path, body).await }
    });
    let mut refused = 0;
    for sent in futures::future::join_all(sends).await {
        match sent {
            Ok((status, told)) => {
                require(status == StatusCode::PAYLOAD_TOO_LARGE, || format!("{status}: {told}"))?;
                refused += 1;
            }
            // It closes before all of it is sent.
            Err(_) => refused += 1,
        }
    }
    Ok(format!("{refused} refused"))
}

/// A daemon with little memory: at its start, or while it works. It goes on, or ends and goes on with more.
pub(super) async fn memory(case: &Case<'_>, place: &str, seed: u64) -> io::Result<Outcome> {
    let mut random = Random::new(seed);
    let mib = match place {
        "start" => 90 + random.below(110),
        _ => 180 + random.below(150),
    };
    case.prepared.copy_to(case.dir)?;
    let limited = case.dir.join("limited");
    let script =
        format!("#!/bin/sh\nulimit -v {}; ulimit -c 0\nexec {} \"$@\"\n", mib << 10, case.cairn.display());
    std::fs::write(&limited, script)?;
    std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o700))?;
    let mut acknowledged = Vec::new();
    let (state, config) = (case.state(), case.config());
    let starting = Daemon::start(&limited, &state, Some(&config));
    let started = timeout(PATIENCE, starting).await.map_err(|_late| io::Error::other("the start hangs"))?;
    let mut ended = started.is_err();
    if let Ok(mut daemon) = started {
        let words = "words and words of a very long message ".repeat(3_000);
        for n in 0..8 {
            let id = format!("m{n}");
            let body = json!({ "user": "anna", "text": format!("{id} {words}"), "id": id });
            let client = daemon.client();
            let asked = client.ask("POST", "/v1/channels/main/messages", &body);
            match timeout(PATIENCE, asked).await.map_err(|_late| io::Error::other("it hangs"))? {
                Ok((status, _)) if status.is_success() => acknowledged.push(id),
                Ok((status, told)) => {
                    require(told["error"]["code"].is_string(), || format!("{status}: {told}"))?;
                }
                Err(_) => break,
            }
        }
        ended = timeout(Duration::from_millis(200), daemon.wait()).await.is_ok();
        if !ended {
            daemon.kill().await?;
        }
    }
    case.verify().await?;
    let daemon = case.daemon().await?;
    let (_, history) = daemon.client().history("main").await?;
    let ids = history.as_array().into_iter().flatten().filter_map(|entry| entry["message"].as_str());
    let ids = tally(ids);
    let lost = acknowledged.iter().find(|id| ids.get(id.as_str()) != Some(&1));
    require(lost.is_none(), || format!("{lost:?} is lost, or there twice"))?;
    ask(&daemon.client(), "main", "and now?").await?;
    case.stop(daemon).await?;
    Ok(if ended { Outcome::Mended(format!("it ended at {mib} MiB")) } else { Outcome::Harmless })
}
