//! A fake systemd, as far as a service sees it: the socket at which it says how it is.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::UnixDatagram;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::daemon::PATIENCE;

/// Longest message that is read whole.
const MESSAGE_MAX: usize = 64 << 10;

/// The notify socket of one service. It is read all the time, as systemd does.
#[derive(Debug)]
pub struct Systemd {
    pub(crate) path: PathBuf,
    said: Arc<Said>,
    reader: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Said {
    messages: Mutex<VecDeque<Vec<String>>>,
    more: Notify,
}

impl Systemd {
    /// Listens beside the state of a service; the folder is made when it is not there.
    pub fn of(state: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(state)?;
        let path = state.join("notify.sock");
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        let (socket, said) = (UnixDatagram::bind(&path)?, Arc::<Said>::default());
        let reader = tokio::spawn(read(socket, Arc::clone(&said)));
        Ok(Self { path, said, reader })
    }

    /// The next message: its assignments, one a line.
    pub async fn next(&self) -> io::Result<Vec<String>> {
        let wait = async {
            loop {
                let more = self.said.more.notified();
                if let Some(message) = self.said.messages.lock().pop_front() {
                    return message;
                }
                more.await;
            }
        };
        timeout(PATIENCE, wait).await.map_err(|_late| io::Error::other("the service says nothing"))
    }

    /// Everything that is said up to the message with an assignment that begins so, that one included.
    pub async fn until(&self, beginning: &str) -> io::Result<Vec<String>> {
        let mut told = Vec::new();
        let wait = async {
            loop {
                let message = self.next().await?;
                let found = message.iter().any(|line| line.starts_with(beginning));
                told.extend(message);
                if found {
                    return io::Result::Ok(());
                }
            }
        };
        let found = timeout(PATIENCE, wait).await;
        found.map_err(|_late| io::Error::other(format!("{beginning} never came")))??;
        Ok(told)
    }

    /// What was said and not asked for yet.
    pub fn said(&self) -> Vec<String> {
        self.said.messages.lock().drain(..).flatten().collect()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(socket: UnixDatagram, said: Arc<Said>) {
    let mut message = vec![0_u8; MESSAGE_MAX];
    while let Ok(n) = socket.recv(&mut message).await {
        let lines = String::from_utf8_lossy(&message[..n]).lines().map(str::to_owned).collect();
        said.messages.lock().push_back(lines);
        said.more.notify_one();
    }
}
