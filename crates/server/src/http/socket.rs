//! The daemon's socket: sets its mode, removes a stale one, and serves it until the daemon stops.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener as BoundListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::Bounds;

/// Mode of a socket in the state folder: owner only.
const MODE_STATE: u32 = 0o600;

/// Mode of a socket in a runtime directory: owner and group.
const MODE_RUNTIME: u32 = 0o660;

/// Most connections at once; each waits for one answer.
const AT_ONCE: u64 = 4_096;

/// Time for open answers when the socket gets other routes or closes.
pub const GRACE: Duration = Duration::from_millis(500);

/// Longest time for the head of a request, also between two requests.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Longest time in which a client reads nothing of an answer, which takes memory until it is read.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// Connections may use at most half of the allowed open files, because the store needs some.
fn bounds() -> Bounds {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Bounds {
        what: "the socket",
        count: |outcome| {
            metrics::counter!("cairn_socket_connections_total", "outcome" => outcome).increment(1)
        },
        at_once: usize::try_from((files / 2).clamp(1, AT_ONCE)).unwrap_or(usize::MAX),
        head: HEAD_LIMIT,
        unread: UNREAD_LIMIT,
        whole: None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A daemon with another state uses it.
    #[error("another daemon listens at {0}")]
    Taken(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} is in the way: it is not a socket")]
    NotASocket(PathBuf),
    #[error("cannot {action} the socket {path}: {error}")]
    Io { action: &'static str, path: PathBuf, error: std::io::Error },
}

/// The daemon's socket. It exists from the first [`Self::serve`] until it is closed. Clones share it.
#[derive(Clone)]
pub struct Socket(Arc<Inner>);

struct Inner {
    path: PathBuf,
    mode: SocketMode,
    bound: Mutex<Option<Bound>>,
}

struct Bound {
    /// Kept while the routes are replaced, so that new clients wait.
    listener: BoundListener,
    server: Server,
}

struct Server {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Who may connect to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMode {
    /// In the state folder: only the owner.
    Owner,
    /// In a runtime directory: also the group.
    Group,
}

/// Removes a stale socket.
async fn clear(path: &Path) -> Result<(), SocketError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(SocketError::Taken(path.to_owned()));
    }
    std::fs::remove_file(path).map_err(|error| SocketError::Io {
        action: "remove",
        path: path.to_owned(),
        error,
    })
}

impl Socket {
    pub fn at(path: PathBuf, mode: SocketMode) -> Self {
        Self(Arc::new(Inner { path, mode, bound: Mutex::default() }))
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Serves these routes instead of the previous ones. The caller must hold the lock of the state folder, or wait for
    /// a database.
    ///
    /// # Errors
    /// The path is taken, or the system refuses.
    pub async fn serve(&self, router: Router) -> Result<(), SocketError> {
        let mut bound = self.0.bound.lock().await;
        let listener = match bound.take() {
            Some(before) => {
                before.server.end(GRACE).await;
                before.listener
            }
            None => self.bind().await?,
        };
        let accepting = listener.try_clone().and_then(UnixListener::from_std);
        let accepting = accepting.map_err(|error| self.failed("listen at", error))?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(super::serve(accepting, router, bounds(), stop.clone()));
        *bound = Some(Bound { listener, server: Server { stop, task } });
        Ok(())
    }

    async fn bind(&self) -> Result<BoundListener, SocketError> {
        let Inner { path, mode, .. } = &*self.0;
        clear(path).await?;
        let listener = BoundListener::bind(path).map_err(|error| self.failed("bind", error))?;
        listener.set_nonblocking(true).map_err(|error| self.failed("bind", error))?;
        let mode = if *mode == SocketMode::Group { MODE_RUNTIME } else { MODE_STATE };
        let set = std::fs::set_permissions(path, Permissions::from_mode(mode));
        set.map_err(|error| self.failed("set the mode of", error))?;
        Ok(listener)
    }

    fn failed(&self, action: &'static str, error: std::io::Error) -> SocketError {
        SocketError::Io { action, path: self.0.path.clone(), error }
    }

    /// Stops accepting connections, lets answers in progress end within `grace`, then removes the socket.
    pub async fn close(&self, grace: Duration) {
        let Some(Bound { listener, server }) = self.0.bound.lock().await.take() else { return };
        // New clients find nobody listening.
        drop(listener);
        server.end(grace).await;
        if let Err(error) = std::fs::remove_file(&self.0.path) {
            tracing::warn!(%error, socket = %self.0.path.display(),
                "cannot remove the socket; the next start removes it");
        }
    }
}

impl Server {
    async fn end(mut self, grace: Duration) {
        self.stop.cancel();
        match tokio::time::timeout(grace, &mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(_panic)) => tracing::error!("the socket's server panicked"),
            // Watchers of `/v1/events` do not disconnect by themselves.
            Err(_elapsed) => self.task.abort(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn at(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("cairn.sock")
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(at(&dir)).unwrap());
        let socket = Socket::at(at(&dir), SocketMode::Owner);
        socket.serve(Router::new()).await.unwrap();
        let mode = std::fs::metadata(at(&dir)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        socket.close(Duration::from_secs(1)).await;
        assert!(!at(&dir).exists());
    }

    #[tokio::test]
    async fn a_living_socket_and_a_file_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(at(&dir)).unwrap();
        let error = Socket::at(at(&dir), SocketMode::Owner).serve(Router::new()).await.unwrap_err();
        assert!(matches!(error, SocketError::Taken(_)), "{error}");
        let file = dir.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = Socket::at(file.clone(), SocketMode::Owner).serve(Router::new()).await.unwrap_err();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }

    /// What it answers to one request.
    async fn answer(stream: &mut UnixStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: cairn\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_stays_while_something_else_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let socket = Socket::at(at(&dir), SocketMode::Owner);
        let saying = |words: &'static str| Router::new().fallback(async move || words);
        socket.serve(saying("first")).await.unwrap();
        let inode = || std::fs::metadata(at(&dir)).unwrap().ino();
        let before = inode();
        let mut stream = UnixStream::connect(at(&dir)).await.unwrap();
        assert!(answer(&mut stream).await.ends_with("first"));
        socket.serve(saying("second")).await.unwrap();
        assert_eq!(inode(), before);
        let mut stream = UnixStream::connect(at(&dir)).await.unwrap();
        assert!(answer(&mut stream).await.ends_with("second"));
        socket.close(GRACE).await;
        assert!(!at(&dir).exists());
        socket.close(GRACE).await;
    }
}
