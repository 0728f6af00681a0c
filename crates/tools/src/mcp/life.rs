//! The life of a connection, from the start of a server to its end: one task, which notices whatever happens to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService, serve_client};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::{Host, Link, is_expired};
use super::child::{Launch, Process};
use super::http::{self, HttpError};
use super::lines::Lines;
use super::listing::{self, ListError, Shown};
use super::server::{Server, Started};
use super::settings::Reach;
use super::wire::{Cause, Guarded, Wire};

/// After one of the two, longest wait for the other: a process's end, and the end of what it says.
const OTHER_END: Duration = Duration::from_millis(500);

/// Time for the library's own end of a connection: a session is ended in it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A server that is not approved is ended so long after it was looked at.
const UNAPPROVED_LIFE: Duration = Duration::from_secs(60);

/// Shortest time between two lists that the server asks for.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// Said of a server of the transport before streamable HTTP.
const OLD_SSE: &str = "it speaks the old transport HTTP+SSE (of 2024-11-05), which is not supported; set `url` to its address for \
                       streamable HTTP, which often ends in /mcp";

/// Longest wait for all that a child wrote to its standard error.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(200);

/// Characters of a child's last words in an error.
const LAST_WORDS: usize = 200;

type Running = RunningService<RoleClient, Host>;

/// Starts the server, tells those who wait, and stays until its end.
pub(super) async fn live(server: Arc<Server>, tell: watch::Sender<Started>) {
    let wire = Wire::default();
    let mut unfinished = Unfinished { server: server.clone(), wire: wire.clone(), armed: true };
    metrics::counter!("cairn_mcp_starts_total", "server" => server.id().to_owned()).increment(1);
    let mut process = None;
    match open(&server, &wire, &mut process).await {
        Ok((service, link, shown)) => {
            tracing::info!(
                server = server.id(),
                pid = link.pid,
                tools = shown.pin.tools.len(),
                "a server runs"
            );
            let begun = Instant::now();
            server.opened(link.clone(), shown);
            metrics::gauge!("cairn_mcp_running").increment(1.0);
            let _nobody_waits = tell.send(Some(Ok(link.clone())));
            let cause = watch(&server, &link, process.as_mut()).await;
            // Those who call see the end first, then that the server may be restarted.
            wire.break_off(cause.clone());
            server.closed(&cause, Some(begun.elapsed()));
            wire.leave();
            close(service).await;
            metrics::gauge!("cairn_mcp_running").decrement(1.0);
        }
        Err(cause) => {
            wire.break_off(cause.clone());
            let cause = match &process {
                Some(_) => with_last_words(&server, &wire, cause).await,
                None => cause,
            };
            server.closed(&cause, None);
            let _nobody_waits = tell.send(Some(Err(server.start_error(cause.in_full()))));
        }
    }
    unfinished.armed = false;
    if let Some(process) = process {
        process.end().await;
    }
}

/// Sees to it that a server whose task breaks off does not stay what it was.
struct Unfinished {
    server: Arc<Server>,
    wire: Wire,
    armed: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.armed {
            let cause = Cause::failure("broke_off", "the task that watches it broke off");
            self.wire.break_off(cause.clone());
            self.server.closed(&cause, None);
            self.wire.leave();
        }
    }
}

async fn close(mut service: Running) {
    match service.close_with_timeout(CLOSE_TIMEOUT).await {
        Ok(Some(_reason)) => {}
        Ok(None) => tracing::warn!("the end of a server's connection takes too long"),
        Err(_panic) => tracing::error!("the task of a server's connection broke off"),
    }
}

/// Starts, greets and lists, within the time of a start.
async fn open(
    server: &Arc<Server>,
    wire: &Wire,
    process: &mut Option<Process>,
) -> Result<(Running, Arc<Link>, Shown), Cause> {
    let limit = server.settings.start_timeout;
    let greeted = tokio::select! {
        biased;
        () = server.closing.cancelled() => return Err(Cause::quiet("stopped", "the daemon stops")),
        greeted = tokio::time::timeout(limit, Box::pin(greet(server, wire, process))) => greeted,
    };
    match greeted {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(cause)) => Err(cause),
        Err(_elapsed) => {
            let reason = format!("it has not greeted and listed its tools within {} s", limit.as_secs());
            Err(Cause::failure("start_timeout", reason))
        }
    }
}

async fn greet(
    server: &Arc<Server>,
    wire: &Wire,
    process: &mut Option<Process>,
) -> Result<(Running, Arc<Link>, Shown), Cause> {
    let greeted = match &server.settings.reach {
        Reach::Stdio { .. } => {
            let lines = spawn(server, wire, process).await?;
            serve_client(Host, Guarded::new(lines, wire.clone())).await
        }
        Reach::Http { url, headers } => {
            let transport = http::transport(url, headers, server.settings.message_bytes_max, wire.clone())
                .map_err(|reason| Cause::failure("settings", reason))?;
            serve_client(Host, Guarded::new(transport, wire.clone())).await
        }
    };
    let service = match greeted {
        Ok(service) => service,
        Err(error) => {
            let reason = why_no_greeting(server, wire, process.as_mut(), &error).await;
            return Err(reason);
        }
    };
    let link = Arc::new(Link {
        server: server.id().to_owned(),
        peer: service.peer().clone(),
        wire: wire.clone(),
        pid: process.as_ref().and_then(Process::pid),
        calls: AtomicU32::new(0),
        secrets: server.secrets.clone(),
        tasks: server.tasks.clone(),
    });
    // The reason of an end is found out beside: who lists is told of it.
    let listed = tokio::select! {
        biased;
        listed = list(server, &link) => listed.map_err(|reason| Cause::failure("list", reason)),
        cause = end_of(wire, process.as_mut()) => Err(cause),
    };
    listed.map(|shown| (service, link, shown))
}

/// Starts the child and the tasks that read and write.
async fn spawn(
    server: &Arc<Server>,
    wire: &Wire,
    process: &mut Option<Process>,
) -> Result<Lines<tokio::process::ChildStdout>, Cause> {
    let Reach::Stdio { command, args, env, cwd, memory_mib, open_files, .. } = &server.settings.reach else {
        return Err(Cause::failure("settings", "it is no child process"));
    };
    let launch = Launch {
        server: server.id(),
        command,
        args,
        env,
        cwd,
        memory_mib: *memory_mib,
        open_files: *open_files,
        path: server.around.path.as_deref(),
        launcher: server.around.launcher.as_deref(),
    };
    let (child, streams) = Process::start(launch).await.map_err(|reason| Cause::failure("spawn", reason))?;
    *process = Some(child);
    server.stderr.clear();
    let read = server.stderr.clone().read(streams.stderr, server.id().to_owned(), server.secrets.clone());
    let read_by = wire.clone();
    server.tasks.spawn(async move {
        read.await;
        read_by.fall_silent();
    });
    let bounds = (server.settings.message_bytes_max, server.settings.call_timeout);
    Ok(Lines::new(server.id(), (streams.stdout, streams.stdin), bounds, wire.clone(), &server.tasks))
}

/// Lists the tools, within the time of a start; the error says why not.
pub(super) async fn list(server: &Server, link: &Link) -> Result<Shown, String> {
    let limit = server.settings.start_timeout;
    let asked = listing::list(&link.peer, server.id(), &server.source);
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(shown)) => Ok(shown),
        Ok(Err(ListError::Answer(reason))) => Err(reason),
        Ok(Err(ListError::Service(error))) if is_expired(&error) => {
            link.wire.break_off(Cause::quiet("expired", "its session is over"));
            Err("its session is over; try again".to_owned())
        }
        Ok(Err(ListError::Service(error))) => Err(link.why(error).await),
        Err(_elapsed) => Err(format!("it has not listed its tools within {} s", limit.as_secs())),
    }
}

/// Stays with a running server until there is a reason for its end.
async fn watch(server: &Arc<Server>, link: &Arc<Link>, mut process: Option<&mut Process>) -> Cause {
    let mut list_from = Instant::now();
    loop {
        let unapproved = !server.is_approved();
        tokio::select! {
            biased;
            () = server.closing.cancelled() => return Cause::quiet("stopped", "the daemon stops"),
            cause = end_of(&link.wire, process.as_deref_mut()) => return cause,
            () = async { link.wire.changed().await; tokio::time::sleep_until(list_from).await } => {
                list_from = Instant::now() + LIST_AGAIN;
                let said = link.wire.announced();
                match list(server, link).await {
                    Ok(shown) => {
                        server.shown(shown);
                        link.wire.list_read(said);
                    }
                    Err(reason) if link.wire.cause().is_none() => {
                        let reason = format!("it says that its tools are others, and does not list them: {reason}");
                        return Cause::failure("list", reason);
                    }
                    // The end that made it fail is seen in the next round.
                    Err(_reason) => {}
                }
            }
            () = link.wire.doubted() => link.probe().await,
            () = tokio::time::sleep(UNAPPROVED_LIFE), if unapproved => {
                if !server.is_approved() && link.calls.load(Ordering::Relaxed) == 0 {
                    return Cause::quiet("unapproved", "it was looked at and not approved");
                }
            }
        }
    }
}

/// Waits for the end of a connection and gives its reason: of a child, how it ended.
async fn end_of(wire: &Wire, process: Option<&mut Process>) -> Cause {
    let Some(process) = process else {
        return tokio::select! {
            biased;
            cause = wire.broken() => cause,
            () = wire.ended() => {
                Cause::failure("closed", wire.take_trouble().unwrap_or_else(|| "it closed the connection".to_owned()))
            }
        };
    };
    let closed = tokio::select! {
        biased;
        cause = wire.broken() => return cause,
        how = process.ended() => {
            // What it said before is read to the end: an answer may be among it.
            let _still_open = tokio::time::timeout(OTHER_END, wire.ended()).await;
            return wire.cause().unwrap_or_else(|| Cause::failure("exited", how));
        }
        () = wire.ended() => tokio::time::timeout(OTHER_END, process.ended()).await,
    };
    if let Some(cause) = wire.cause() {
        return cause;
    }
    match closed {
        Ok(how) => Cause::failure("exited", how),
        Err(_elapsed) => Cause::failure("closed", "it closed its input or output"),
    }
}

async fn why_no_greeting(
    server: &Server,
    wire: &Wire,
    process: Option<&mut Process>,
    error: &ClientInitializeError,
) -> Cause {
    match error {
        ClientInitializeError::ConnectionClosed(_) => end_of(wire, process).await,
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<StreamableHttpError<HttpError>>() {
                Some(StreamableHttpError::Client(error)) => match &server.settings.reach {
                    Reach::Http { url, headers }
                        if error.is_of_old_sse() && http::speaks_old_sse(url, headers).await =>
                    {
                        Cause::failure("old_sse", OLD_SSE)
                    }
                    _ => Cause::failure(error.kind(), error.to_string()),
                },
                Some(other) => {
                    Cause::failure("protocol", wire.take_trouble().unwrap_or_else(|| other.to_string()))
                }
                None => end_of(wire, process).await,
            }
        }
        ClientInitializeError::JsonRpcError(error) => {
            let words = server.secrets.strike(&error.message, LAST_WORDS);
            Cause::failure("refused", format!("it refuses the greeting: {words} (code {})", error.code.0))
        }
        _ => Cause::failure("protocol", "it answers the greeting with something else"),
    }
}

/// A cause with the last thing that a child said of itself.
async fn with_last_words(server: &Server, wire: &Wire, cause: Cause) -> Cause {
    let _still_talking = tokio::time::timeout(LAST_WORDS_WAIT, wire.silent()).await;
    let last_words = server.stderr.last().map(|last| last.chars().take(LAST_WORDS).collect());
    Cause { last_words, ..cause }
}
