//! The task that owns a server's connection, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService, serve_client};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::calls::{ClientService, Connection};
use super::child::{Launch, Process};
use super::connection::{ConnectionState, EndCause, Guarded};
use super::http::{self, HttpError};
use super::listing::{self, ListError, Listing};
use super::server::{Server, Started};
use super::settings::Reach;
use super::stdio;

/// Longest wait, after the process has ended or its output was closed, for the other of the two.
const OTHER_END: Duration = Duration::from_millis(500);

/// Time for the library to close a connection, which includes ending its session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// An unapproved server is ended this long after it was inspected.
const UNAPPROVED_LIFE: Duration = Duration::from_secs(60);

/// Shortest time between two lists of tools after announcements.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// Longest wait for the rest of a child's standard error, and the characters of it that are added to an error.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(200);
const LAST_WORDS_CHARS: usize = 200;

type Running = RunningService<RoleClient, ClientService>;

/// A child, and the task that reads its standard error.
type ChildProcess = (Process, JoinHandle<()>);

/// Starts the server, reports to those who wait, and watches it until its end.
pub(super) async fn run(server: Arc<Server>, started: watch::Sender<Started>) {
    let state = ConnectionState::default();
    let mut unfinished = Unfinished { server: server.clone(), state: state.clone(), armed: true };
    metrics::counter!("cairn_mcp_starts_total", "server" => server.id().to_owned()).increment(1);
    let mut child = None;
    match open(&server, &state, &mut child).await {
        Ok((mut service, connection, listing)) => {
            tracing::info!(
                server = server.id(),
                pid = connection.pid,
                tools = listing.pin.tools.len(),
                "a tool server started"
            );
            let begun = Instant::now();
            server.opened(connection.clone(), listing);
            metrics::gauge!("cairn_mcp_running").increment(1.0);
            let _nobody_waits = started.send(Some(Ok(connection.clone())));
            let cause = watch(&server, &connection, child.as_mut()).await;
            // Callers must see the end before the server may be restarted.
            state.break_off(cause.clone());
            server.closed(&cause, Some(begun.elapsed()));
            state.release();
            match service.close_with_timeout(CLOSE_TIMEOUT).await {
                Ok(Some(_reason)) => {}
                Ok(None) => tracing::warn!("closing a tool server's connection takes too long"),
                Err(_panic) => tracing::error!("a tool server's connection task panicked"),
            }
            metrics::gauge!("cairn_mcp_running").decrement(1.0);
        }
        Err(cause) => {
            state.break_off(cause.clone());
            let cause = match &mut child {
                Some((_, stderr)) => with_last_words(&server, stderr, cause).await,
                None => cause,
            };
            server.closed(&cause, None);
            let _nobody_waits = started.send(Some(Err(server.start_error(cause.reason))));
        }
    }
    unfinished.armed = false;
    if let Some((process, _stderr)) = child {
        process.end().await;
    }
}

/// Sets the server to failed if its task panics.
struct Unfinished {
    server: Arc<Server>,
    state: ConnectionState,
    armed: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.armed {
            let cause = EndCause::failure("broke_off", "the task that watches it broke off");
            self.state.break_off(cause.clone());
            self.server.closed(&cause, None);
            self.state.release();
        }
    }
}

/// Starts the server, initialises the connection and lists the tools, within the time of a start.
async fn open(
    server: &Arc<Server>,
    state: &ConnectionState,
    child: &mut Option<ChildProcess>,
) -> Result<(Running, Arc<Connection>, Listing), EndCause> {
    let limit = server.settings.start_timeout;
    let opened = tokio::select! {
        biased;
        () = server.closing.cancelled() => return Err(EndCause::quiet("stopped", "the daemon stops")),
        opened = tokio::time::timeout(limit, Box::pin(greet_and_list(server, state, child))) => opened,
    };
    opened.unwrap_or_else(|_elapsed| {
        let reason = format!("it has not greeted and listed its tools within {} s", limit.as_secs());
        Err(EndCause::failure("start_timeout", reason))
    })
}

async fn greet_and_list(
    server: &Arc<Server>,
    state: &ConnectionState,
    child: &mut Option<ChildProcess>,
) -> Result<(Running, Arc<Connection>, Listing), EndCause> {
    let bytes_max = server.settings.message_bytes_max;
    let greeted = match &server.settings.reach {
        Reach::Stdio { .. } => {
            let pipes = spawn(server, child).await.map_err(|reason| EndCause::failure("spawn", reason))?;
            let transport = stdio::transport(server.id(), pipes, bytes_max, state.clone());
            let limit = Some(server.settings.call_timeout);
            serve_client(ClientService, Guarded::new(transport, state.clone(), limit)).await
        }
        Reach::Http { url, headers } => {
            let transport = http::transport(url, headers, bytes_max, state.clone())
                .map_err(|reason| EndCause::failure("settings", reason))?;
            serve_client(ClientService, Guarded::new(transport, state.clone(), None)).await
        }
    };
    let service = match greeted {
        Ok(service) => service,
        Err(error) => return Err(why_no_greeting(server, state, child.as_mut(), &error).await),
    };
    let connection = Arc::new(Connection {
        server: server.id().to_owned(),
        peer: service.peer().clone(),
        state: state.clone(),
        pid: child.as_ref().and_then(|(process, _)| process.pid()),
        calls: AtomicU32::new(0),
        secrets: server.secrets.clone(),
        sends_files: server.settings.sends_files,
        tasks: server.tasks.clone(),
    });
    // `end_of` runs alongside, so that listing learns why the connection ended.
    let listed = tokio::select! {
        biased;
        listed = list(server, &connection) => listed.map_err(|reason| EndCause::failure("list", reason)),
        cause = end_of(state, child.as_mut()) => Err(cause),
    };
    listed.map(|listing| (service, connection, listing))
}

/// Starts the child, and the task that reads its standard error.
async fn spawn(
    server: &Arc<Server>,
    child: &mut Option<ChildProcess>,
) -> Result<(ChildStdout, ChildStdin), String> {
    let Reach::Stdio { command, args, env, cwd, memory_mib, open_files, .. } = &server.settings.reach else {
        return Err("it is no child process".to_owned());
    };
    let launch = Launch {
        command,
        args,
        env,
        cwd,
        memory_mib: *memory_mib,
        open_files: *open_files,
        path: server.around.path.as_deref(),
        launcher: server.around.launcher.as_deref(),
    };
    let (process, stdin, stdout, stderr) = Process::start(server.id(), launch).await?;
    server.stderr.clear();
    let read = server.stderr.clone().read(stderr, server.id().to_owned(), server.secrets.clone());
    *child = Some((process, server.tasks.spawn(read)));
    Ok((stdout, stdin))
}

/// Lists the tools, within the time of a start.
pub(super) async fn list(server: &Server, connection: &Connection) -> Result<Listing, String> {
    let limit = server.settings.start_timeout;
    let asked = listing::list(&connection.peer, server.id(), &server.source);
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(listing)) => Ok(listing),
        Ok(Err(ListError::Answer(reason))) => Err(reason),
        Ok(Err(ListError::Service(error))) => Err(connection.explain(error).await),
        Err(_elapsed) => Err(format!("it has not listed its tools within {} s", limit.as_secs())),
    }
}

/// Watches a running server until there is a reason to end it.
async fn watch(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    mut child: Option<&mut ChildProcess>,
) -> EndCause {
    let state = &connection.state;
    let mut list_from = Instant::now();
    // Announcements do not put it off.
    let mut ends_at = Instant::now() + UNAPPROVED_LIFE;
    loop {
        let unapproved = !server.is_approved();
        tokio::select! {
            biased;
            () = server.closing.cancelled() => return EndCause::quiet("stopped", "the daemon stops"),
            cause = end_of(state, child.as_deref_mut()) => return cause,
            version = async {
                state.tools_changed().await;
                tokio::time::sleep_until(list_from).await;
                state.tools_changed().await
            } => {
                list_from = Instant::now() + LIST_AGAIN;
                match list(server, connection).await {
                    Ok(listing) => {
                        server.listed(listing);
                        state.tools_read(version);
                    }
                    Err(reason) if state.cause().is_none() => {
                        let reason = format!("it says that its tools are others, and does not list them: {reason}");
                        return EndCause::failure("list", reason);
                    }
                    // The next round finds the end that caused it.
                    Err(_reason) => {}
                }
            }
            () = tokio::time::sleep_until(ends_at), if unapproved => {
                if !server.is_approved() && connection.calls.load(Ordering::Relaxed) == 0 {
                    return EndCause::quiet("unapproved", "it was looked at and not approved");
                }
                ends_at = Instant::now() + UNAPPROVED_LIFE;
            }
        }
    }
}

/// Waits until a connection ends, and returns the reason; for a child, how it ended.
async fn end_of(state: &ConnectionState, child: Option<&mut ChildProcess>) -> EndCause {
    let Some((process, _stderr)) = child else {
        return tokio::select! {
            biased;
            cause = state.broken() => cause,
            () = state.ended() => {
                let trouble = state.take_trouble();
                EndCause::failure("closed", trouble.unwrap_or_else(|| "it closed the connection".to_owned()))
            }
        };
    };
    let closed = tokio::select! {
        biased;
        cause = state.broken() => return cause,
        how = process.ended() => {
            // Reads the remaining output, which may contain an answer.
            let _still_open = tokio::time::timeout(OTHER_END, state.ended()).await;
            return state.cause().unwrap_or_else(|| EndCause::failure("exited", how));
        }
        () = state.ended() => tokio::time::timeout(OTHER_END, process.ended()).await,
    };
    state.cause().unwrap_or_else(|| match closed {
        Ok(how) => EndCause::failure("exited", how),
        Err(_elapsed) => EndCause::failure("closed", "it closed its input or output"),
    })
}

async fn why_no_greeting(
    server: &Server,
    state: &ConnectionState,
    child: Option<&mut ChildProcess>,
    error: &ClientInitializeError,
) -> EndCause {
    match error {
        ClientInitializeError::ConnectionClosed(_) => end_of(state, child).await,
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<StreamableHttpError<HttpError>>() {
                Some(StreamableHttpError::Client(error)) => {
                    EndCause::failure(error.kind(), error.to_string())
                }
                Some(other) => {
                    let trouble = state.take_trouble();
                    EndCause::failure("protocol", trouble.unwrap_or_else(|| other.to_string()))
                }
                None => end_of(state, child).await,
            }
        }
        ClientInitializeError::JsonRpcError(error) => {
            let words = server.secrets.strike(&error.message, LAST_WORDS_CHARS);
            EndCause::failure("refused", format!("it refuses the greeting: {words} (code {})", error.code.0))
        }
        _ => EndCause::failure("protocol", "it answers the greeting with something else"),
    }
}

/// Adds a child's last line of standard error to a cause.
async fn with_last_words(server: &Server, stderr: &mut JoinHandle<()>, cause: EndCause) -> EndCause {
    let _still_talking = tokio::time::timeout(LAST_WORDS_WAIT, stderr).await;
    let Some(last_words) = server.stderr.last().filter(|_| !cause.quiet) else { return cause };
    let last_words: String = last_words.chars().take(LAST_WORDS_CHARS).collect();
    EndCause { reason: format!("{}; its last words: {last_words}", cause.reason), ..cause }
}
