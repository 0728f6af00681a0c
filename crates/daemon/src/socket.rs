//! The daemon's socket: bound with the right mode, a stale one removed, served until the daemon stops.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http_server::{self, Bounds};

/// Mode of a socket in the state folder: its owner alone.
const MODE_STATE: u32 = 0o600;

/// Mode of a socket in a runtime directory: its group, too.
const MODE_RUNTIME: u32 = 0o660;

/// Most connections at once: one for each answer that is waited for.
const AT_ONCE: u64 = 4_096;

/// Longest until the head of a request is there, and until a connection that is kept open brings another one.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Connections take half of the files that may be open at the most: the store needs some, whoever asks.
fn bounds() -> Bounds {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Bounds {
        what: "the socket",
        count: |outcome| {
            metrics::counter!("cairn_socket_connections_total", "outcome" => outcome).increment(1)
        },
        at_once: usize::try_from((files / 2).clamp(1, AT_ONCE)).unwrap_or(usize::MAX),
        head: HEAD_LIMIT,
        whole: None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon, of another state, listens there.
    #[error("another daemon listens at {0}")]
    Taken(PathBuf),
    /// Something that is no socket is in its place.
    #[error("{0} is in the way: it is not a socket")]
    NotASocket(PathBuf),
    #[error("cannot {action} the socket {path}: {error}")]
    Io { action: &'static str, path: PathBuf, error: std::io::Error },
}

/// A socket that is being served. It is removed when serving ends.
pub struct Socket {
    path: PathBuf,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

/// Who may connect to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMode {
    /// In the state folder: its owner alone may connect.
    Owner,
    /// In a runtime directory: its group may connect, too.
    Group,
}

/// Binds the socket and begins to serve. The caller holds the lock of the state folder.
///
/// # Errors
/// Something else is in its place, or the system refuses.
pub async fn serve(path: PathBuf, mode: SocketMode, router: Router) -> Result<Socket, SocketError> {
    clear(&path).await?;
    let io = |action| {
        let path = path.clone();
        move |error| SocketError::Io { action, path, error }
    };
    let listener = UnixListener::bind(&path).map_err(io("bind"))?;
    let mode = if mode == SocketMode::Group { MODE_RUNTIME } else { MODE_STATE };
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(io("set the mode of"))?;
    let stop = CancellationToken::new();
    let server = tokio::spawn(http_server::serve(listener, router, bounds(), stop.clone()));
    Ok(Socket { path, stop, server })
}

/// Removes a socket that nobody listens at.
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
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no more connections, lets answers under way end within `grace`, then removes the socket.
    pub async fn close(mut self, grace: Duration) {
        self.stop.cancel();
        match tokio::time::timeout(grace, &mut self.server).await {
            Ok(Ok(())) => {}
            Ok(Err(_panic)) => tracing::error!("the socket's server panicked"),
            // Watchers of `/v1/events` never hang up by themselves.
            Err(_elapsed) => self.server.abort(),
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, socket = %self.path.display(), "cannot remove the socket; the next start does");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("cairn.sock")
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(at(&dir)).unwrap());
        let socket = serve(at(&dir), SocketMode::Owner, Router::new()).await.unwrap();
        let mode = std::fs::metadata(at(&dir)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        socket.close(Duration::from_secs(1)).await;
        assert!(!at(&dir).exists());
    }

    #[tokio::test]
    async fn a_living_socket_and_a_file_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(at(&dir)).unwrap();
        let error = serve(at(&dir), SocketMode::Owner, Router::new()).await.err().unwrap();
        assert!(matches!(error, SocketError::Taken(_)), "{error}");
        let file = dir.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = serve(file.clone(), SocketMode::Owner, Router::new()).await.err().unwrap();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }
}
