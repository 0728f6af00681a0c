//! The journal: an append-only file of events, in segments. The truth; all else in the store derives from it.

pub(crate) mod line;
pub(crate) mod open;
pub(crate) mod packed;
pub(crate) mod quarantine;
pub(crate) mod reader;
pub(crate) mod rewrite;
pub(crate) mod segment;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use cairn_core::event::{NewRecord, Record};
use cairn_core::ports::StoreError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::calls::Calls;
use crate::disk::Disk;
use open::Tail;
pub(crate) use writer::Durable;
use writer::{Request, Trouble, Writer};

/// Appends that may wait for the writer; more make their callers wait.
const QUEUE: usize = 1024;

/// The way to the journal's writer.
pub(crate) struct Appender {
    requests: mpsc::Sender<Request>,
    durable: watch::Receiver<Durable>,
    closed: Arc<AtomicBool>,
    trouble: Trouble,
    calls: Arc<Calls>,
}

impl Appender {
    /// Starts the writer behind a journal that ends at `tail`; `on_durable` is called after each sync and must not wait.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(
        dir: &Path,
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        tail: Tail,
        on_durable: Box<dyn Fn() + Send>,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (publish, durable) = watch::channel(Durable { tail, ..Durable::default() });
        let (trouble, calls) = (Trouble::default(), Arc::<Calls>::default());
        let writer = Writer {
            dir: dir.to_owned(),
            disk,
            segment_bytes,
            file: None,
            durable: publish,
            on_durable,
            trouble: trouble.clone(),
            calls: Arc::clone(&calls),
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(crate::disk::io_error("start the writer of", dir))?;
        Ok((Self { requests, durable, closed: Arc::default(), trouble, calls }, thread))
    }

    /// Why the last write failed, when it did.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().clone()
    }

    /// The writer's calls into the disk.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// What was in the way is known to be gone.
    pub(crate) fn forget_trouble(&self) {
        *self.trouble.lock() = None;
    }

    /// How far the journal is durable, now and from now on.
    pub(crate) fn durable(&self) -> watch::Receiver<Durable> {
        self.durable.clone()
    }

    /// Appends records, all or none, and returns once they are durable.
    ///
    /// # Errors
    /// See [`StoreError`]; after an error none of them is in the journal.
    pub(crate) async fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Record>, StoreError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let bodies = records.iter().map(line::body).collect::<Result<Vec<_>, _>>()?;
        let (reply, answer) = oneshot::channel();
        let request = Request::Append { records, bodies, reply };
        self.requests.send(request).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    /// Lets the writer finish what waits, then ends it. Later appends are refused.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        if self.requests.send(Request::Close { reply }).await.is_ok() {
            let _ = answer.await;
        }
    }

    fn gone(&self) -> StoreError {
        if self.closed.load(Ordering::SeqCst) {
            return StoreError::Closed;
        }
        StoreError::Io {
            action: "append to",
            path: "the journal".to_owned(),
            message: "its writer has died; restart the daemon, nothing acknowledged is lost".to_owned(),
        }
    }
}
