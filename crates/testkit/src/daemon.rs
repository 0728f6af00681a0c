//! The real binary as a process: started, asked over its socket, measured, killed.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::systemd::Systemd;

/// How long a start, a stop or an answer may take before a test gives up. Not a measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running `cairn run`, under a fake systemd of its own.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    ready_after: Duration,
    pub systemd: Systemd,
}

/// Ticks of the processor's clock in `/proc/PID/stat`, in a second.
const TICKS: f64 = 100.0;

impl Daemon {
    /// Starts `cairn run` on a state folder and waits until it reports itself ready.
    pub async fn start(cairn: &Path, state: &Path, config: Option<&Path>) -> io::Result<Self> {
        Self::start_with(&[], cairn, state, config).await
    }

    /// The same with more variables.
    pub async fn start_with(
        vars: &[(&str, &str)],
        cairn: &Path,
        state: &Path,
        config: Option<&Path>,
    ) -> io::Result<Self> {
        let systemd = Systemd::of(state)?;
        let mut command = Command::new(cairn);
        command.arg("run").arg("--state").arg(state).env("NOTIFY_SOCKET", &systemd.path);
        command.envs(vars.iter().copied());
        command.env_remove("RUNTIME_DIRECTORY").stdin(Stdio::null()).kill_on_drop(true);
        command
            .stdout(std::fs::File::create(state.join("daemon.out"))?)
            .stderr(std::fs::File::create(state.join("daemon.log"))?);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let began = Instant::now();
        let mut child = command.spawn()?;
        tokio::select! {
            ready = systemd.until("READY=1") => drop(ready?),
            status = child.wait() => {
                let log = std::fs::read_to_string(state.join("daemon.log"))?;
                return Err(io::Error::other(format!("ended before it was ready: {:?}\n{log}", status?)));
            }
        }
        let socket = state.join("cairn.sock");
        Ok(Self { child, socket, ready_after: began.elapsed(), systemd })
    }

    /// Time from the start of the process to its being ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Its process, as long as it lives.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends it a signal, such as `HUP`.
    pub async fn signal(&self, name: &str) -> io::Result<()> {
        let pid = self.child.id().ok_or_else(|| io::Error::other("the daemon has ended"))?;
        let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().await?;
        if status.success() { Ok(()) } else { Err(io::Error::other("no such process")) }
    }

    /// Waits for its end, however long.
    pub async fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> io::Result<std::process::ExitStatus> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.map_err(|_late| io::Error::other("it did not stop"))?
    }

    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }

    /// What the processor has worked for it since its start, in seconds.
    pub fn processor_secs(&self) -> io::Result<f64> {
        let pid = self.child.id().ok_or_else(|| io::Error::other("the daemon has ended"))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // Behind the name, which may have spaces: the state is field 3, user and system time are 14 and 15.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 =
            behind.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS)
    }

    /// Its resident memory, in bytes.
    pub fn rss_bytes(&self) -> io::Result<u64> {
        self.status_bytes("VmRSS:")
    }

    /// The most that its resident memory ever was, in bytes.
    pub fn peak_bytes(&self) -> io::Result<u64> {
        self.status_bytes("VmHWM:")
    }

    /// What of its resident memory is no mapped file, in bytes.
    pub fn anon_bytes(&self) -> io::Result<u64> {
        self.status_bytes("RssAnon:")
    }

    fn status_bytes(&self, field: &str) -> io::Result<u64> {
        let pid = self.child.id().ok_or_else(|| io::Error::other("the daemon has ended"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("no {field}")))
    }

    /// Kills it as `kill -9` does.
    pub async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks it to stop, as systemd does, and waits for its end.
    pub async fn stop(self) -> io::Result<std::process::ExitStatus> {
        self.signal("TERM").await?;
        self.ended().await
    }
}

#[derive(Debug, Clone)]
enum Target {
    Socket(PathBuf),
    Tcp(SocketAddr),
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

#[derive(Debug, Clone)]
pub struct Client {
    target: Target,
    token: Option<String>,
}

impl Client {
    /// A client of the socket at that path; nothing is connected yet.
    pub fn new(socket: &Path) -> Self {
        Self { target: Target::Socket(socket.to_owned()), token: None }
    }

    /// A client of an address; nothing is connected yet.
    pub fn tcp(address: SocketAddr) -> Self {
        Self { target: Target::Tcp(address), token: None }
    }

    /// The same client with a token for each request.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Sends a request, with a JSON body unless it is null, and reads the whole answer.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<(StatusCode, Value)> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let (status, bytes) = self.raw(method, path, "application/json", bytes).await?;
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok((status, value))
    }

    /// Sends a request with any body and reads the whole answer. `accept` is the media type asked for.
    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: Vec<u8>,
    ) -> io::Result<(StatusCode, Bytes)> {
        let response = self.send(method, path, accept, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?;
        Ok((status, body.to_bytes()))
    }

    /// Sends a request and hands back the answer as it streams.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: Vec<u8>,
    ) -> io::Result<hyper::Response<hyper::body::Incoming>> {
        let stream: Box<dyn Stream> = match &self.target {
            Target::Socket(socket) => Box::new(UnixStream::connect(socket).await?),
            Target::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request
            .header("host", "cairn")
            .header("accept", accept)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        sender.send_request(request).await.map_err(io::Error::other)
    }

    /// `GET` of a path that must answer 200.
    pub async fn get(&self, path: &str) -> io::Result<Value> {
        let (status, value) = self.ask("GET", path, &Value::Null).await?;
        if status == StatusCode::OK { Ok(value) } else { Err(io::Error::other(format!("{status}: {value}"))) }
    }

    /// A page of a list, and what the next one comes after.
    pub async fn page(&self, path: &str) -> io::Result<(StatusCode, Value, Option<String>)> {
        let response = self.send("GET", path, "application/json", Vec::new()).await?;
        let (head, body) = response.into_parts();
        let next = head.headers.get("cairn-next").map(|next| next.to_str().map(str::to_owned));
        let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
        Ok((head.status, serde_json::from_slice(&bytes)?, next.transpose().map_err(io::Error::other)?))
    }

    /// All entries of a channel, and what waits, page by page; or the error instead.
    pub async fn history(&self, channel: &str) -> io::Result<(StatusCode, Value)> {
        let path = format!("/v1/channels/{channel}/history?limit=10000");
        let (mut asked, mut entries) = (path.clone(), Vec::new());
        loop {
            let (status, page, next) = self.page(&asked).await?;
            let Value::Array(mut page) = page else { return Ok((status, page)) };
            entries.append(&mut page);
            let Some(next) = next else { return Ok((status, Value::Array(entries))) };
            asked = format!("{path}&from={next}");
        }
    }

    /// Asks for a path until its answer fits; that answer.
    pub async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> io::Result<Value> {
        let mut last = Value::Null;
        let search = async {
            loop {
                last = self.get(path).await?;
                if fits(&last) {
                    return Ok(());
                }
                // There is no event to wait for: what is asked for is asked again.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found.map(|()| last),
            Err(_late) => {
                Err(io::Error::other(format!("{path} never answered what was awaited, at last: {last}")))
            }
        }
    }

    /// Says something in a channel and waits for the reply.
    pub async fn say(&self, channel: &str, text: &str) -> io::Result<(StatusCode, Value)> {
        let body = serde_json::json!({ "user": "anna", "text": text });
        self.ask("POST", &format!("/v1/channels/{channel}/messages"), &body).await
    }
}

/// Server-sent events of a daemon, as they come.
#[derive(Debug)]
pub struct Events {
    body: hyper::body::Incoming,
    text: String,
}

impl Events {
    /// The next event: its name and its data. `None` at the end of the stream.
    pub async fn next(&mut self) -> io::Result<Option<(String, Value)>> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field =
                    |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let Some(name) = field("event:") {
                    let data = serde_json::from_str(field("data:").unwrap_or("null"))?;
                    return Ok(Some((name.to_owned(), data)));
                }
                continue;
            }
            match self.body.frame().await {
                Some(frame) => {
                    let frame = frame.map_err(io::Error::other)?;
                    let data = frame.data_ref().map(|data| String::from_utf8_lossy(data).into_owned());
                    self.text.push_str(&data.unwrap_or_default());
                }
                None => return Ok(None),
            }
        }
    }

    /// Passes over events until one of that name comes whose data fits; its data.
    pub async fn wait_for(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> io::Result<Value> {
        let search = async {
            while let Some((found, data)) = self.next().await? {
                if found == name && fits(&data) {
                    return Ok(data);
                }
            }
            Err(io::Error::other(format!("the stream ended before `{name}`")))
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_late) => Err(io::Error::other(format!("no event `{name}`"))),
        }
    }
}

impl Client {
    /// Subscribes to the daemon's events.
    pub async fn events(&self) -> io::Result<Events> {
        self.stream("/v1/events").await
    }

    /// Opens a stream of events that must answer 200.
    pub async fn stream(&self, path: &str) -> io::Result<Events> {
        let response = self.send("GET", path, "text/event-stream", Vec::new()).await?;
        match response.status() {
            StatusCode::OK => Ok(Events { body: response.into_body(), text: String::new() }),
            status => Err(io::Error::other(format!("{path} answered {status}"))),
        }
    }

    /// Sends a message and looks on at its turn: `accepted`, `delta`, `tool`, `approval`, `waiting`, `reply`, `error`.
    pub async fn talk(&self, channel: &str, message: &Value) -> io::Result<Events> {
        let path = format!("/v1/channels/{channel}/messages");
        let response = self.send("POST", &path, "text/event-stream", serde_json::to_vec(message)?).await?;
        Ok(Events { body: response.into_body(), text: String::new() })
    }
}

/// What people said, of a history: the first part of each message, in order.
pub fn said_in(history: &Value) -> Vec<&str> {
    let entries = history.as_array().into_iter().flatten();
    let theirs = entries.filter(|entry| entry["role"] == "user");
    theirs.map(|entry| entry["parts"][0]["text"].as_str().unwrap_or_default()).collect()
}
