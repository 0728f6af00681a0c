//! The one thread that writes the journal: group commit, rotation, recovery from failed writes. And the handle to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use cairn_types::event::{NewRecord, Record};
use cairn_types::ports::StoreError;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::line;
use super::open::Tail;
use super::segment;
use super::sequencer::{Batch, Sequencer};
use crate::files::disk::{AppendFile, Calls, Disk, io_error, sync_dir};

/// Appends that may wait for the writer; more make their callers wait.
const QUEUE: usize = 1024;

/// Most bytes of one group; a larger single append is a group of its own.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

enum Request {
    /// Append records, all or none.
    Append {
        records: Vec<NewRecord>,
        bodies: Vec<String>,
        reply: oneshot::Sender<Result<Vec<Record>, StoreError>>,
    },
    /// Write what another node has appended.
    Copy { copied: Copied, reply: oneshot::Sender<Result<(), StoreError>> },
    /// Use this sequencer from here on.
    Lead { sequencer: Box<dyn Sequencer> },
    /// Write what came before, then end.
    Close { reply: oneshot::Sender<()> },
}

/// Records that are in the database's journal, and are to be in the copy.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// Their lines.
    pub(crate) lines: Vec<u8>,
    /// Numbers of the first and last of them; the last stands for all up to its own.
    pub(crate) first_n: u64,
    pub(crate) last_n: u64,
}

/// How far the journal is durable, and what the syncs cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Durable {
    pub(crate) tail: Tail,
    /// Microseconds that the last sync took.
    pub(crate) last_sync_micros: u64,
    pub(crate) syncs: u64,
}

pub(crate) struct Writer {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    /// A segment of at least this many bytes is not written on.
    segment_bytes: u64,
    /// The open segment; none before the first append and after a failure.
    file: Option<Box<dyn AppendFile>>,
    durable: watch::Sender<Durable>,
    /// Called after each sync; must not wait.
    on_durable: Box<dyn Fn() + Send>,
    /// Why the last write failed; none: it did not.
    trouble: Trouble,
    calls: Arc<Calls>,
    /// Decides whether a batch may be written.
    sequencer: Box<dyn Sequencer>,
}

/// Why the journal cannot be written at present.
type Trouble = Arc<Mutex<Option<StoreError>>>;

/// An append with whoever waits for it.
type Append = (Vec<NewRecord>, Vec<String>, oneshot::Sender<Result<Vec<Record>, StoreError>>);

impl Writer {
    /// Behind a journal that ends at `tail`; `on_durable` is called after each sync and must not wait.
    pub(crate) fn new(
        dir: &Path,
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        tail: Tail,
        sequencer: Box<dyn Sequencer>,
        on_durable: Box<dyn Fn() + Send>,
    ) -> Self {
        let (durable, _) = watch::channel(Durable { tail, ..Durable::default() });
        Self {
            dir: dir.to_owned(),
            disk,
            segment_bytes,
            file: None,
            durable,
            on_durable,
            trouble: Trouble::default(),
            calls: Arc::default(),
            sequencer,
        }
    }

    /// Runs until it is closed or nobody is left who could append.
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group: Vec<Append> = Vec::new();
            let mut after = None;
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    Request::Append { records, bodies, reply } => {
                        bytes += bodies.iter().map(|body| body.len() + 64).sum::<usize>();
                        group.push((records, bodies, reply));
                    }
                    other => {
                        after = Some(other);
                        break;
                    }
                }
                next = if bytes < GROUP_BYTES { requests.try_recv().ok() } else { None };
            }
            self.commit(group, bytes);
            match after {
                Some(Request::Copy { copied, reply }) => {
                    let _ = reply.send(self.copy(&copied));
                }
                Some(Request::Lead { sequencer }) => self.sequencer = sequencer,
                Some(Request::Close { reply }) => {
                    requests.close();
                    self.sync_copy();
                    let _ = reply.send(());
                    return;
                }
                Some(Request::Append { .. }) | None => {}
            }
        }
    }

    /// Writes records that another node has appended.
    ///
    /// # Errors
    /// They cannot be written; the copy ends as before.
    pub(crate) fn copy(&mut self, copied: &Copied) -> Result<(), StoreError> {
        let mut tail = self.durable.borrow().tail;
        let calls = Arc::clone(&self.calls);
        let written = calls.within(|| self.write(&mut tail, copied.first_n, &copied.lines));
        *self.trouble.lock() = written.as_ref().err().cloned();
        written?;
        tail.n = copied.last_n;
        self.durable.send_modify(|durable| durable.tail = tail);
        (self.on_durable)();
        Ok(())
    }

    /// Where the journal ends.
    pub(crate) fn tail(&self) -> Tail {
        self.durable.borrow().tail
    }

    /// Makes a copy durable, so that the next start need not fetch its end again.
    pub(crate) fn sync_copy(&mut self) {
        if let (true, Some(file)) = (self.sequencer.is_copy(), &mut self.file)
            && let Err(error) = file.sync()
        {
            tracing::warn!(%error, "the copy of the journal could not be synced; the next start copies it again");
            // A start reads the last segment alone, and this one may have been closed by then.
            self.sequencer.not_synced();
        }
    }

    /// Writes a group and answers everyone in it. An answer that nobody waits for any more is no error.
    fn commit(&mut self, group: Vec<Append>, bytes: usize) {
        if group.is_empty() {
            return;
        }
        let mut tail = self.durable.borrow().tail;
        let mut out = Vec::with_capacity(bytes);
        let first_n = tail.n + 1;
        for (_, bodies, _) in &group {
            for (idx, body) in bodies.iter().enumerate() {
                tail.n += 1;
                line::frame(&mut out, tail.n, (bodies.len() - idx - 1) as u32, body);
            }
        }
        let started = Instant::now();
        match self.sequence(first_n, &group).and_then(|()| self.write_down(&mut tail, first_n, &out)) {
            Ok(()) => {
                let took = started.elapsed();
                metrics::histogram!("cairn_journal_sync_seconds").record(took.as_secs_f64());
                self.durable.send_modify(|durable| {
                    durable.tail = tail;
                    durable.last_sync_micros = took.as_micros() as u64;
                    durable.syncs += 1;
                });
                (self.on_durable)();
                if self.trouble.lock().take().is_some() {
                    tracing::info!("the journal can be written again");
                }
                let mut n = first_n;
                for (records, _, reply) in group {
                    let numbered = records.into_iter().map(|NewRecord { channel, at, event }| {
                        n += 1;
                        Record { n: n - 1, at, channel, event }
                    });
                    let _ = reply.send(Ok(numbered.collect()));
                }
            }
            Err(error) => {
                metrics::counter!("cairn_journal_failures_total").increment(1);
                let records = tail.n + 1 - first_n;
                match &error {
                    StoreError::Fenced => {
                        tracing::warn!(
                            records,
                            "this node is no longer the leader; waiting records are refused"
                        )
                    }
                    _ => {
                        tracing::error!(%error, records,
                            "the journal could not be written; waiting records are refused")
                    }
                }
                *self.trouble.lock() = Some(error.clone());
                for (_, _, reply) in group {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Asks the sequencer for leave to write the group.
    fn sequence(&mut self, first_n: u64, group: &[Append]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for (records, bodies, _) in group {
            for (idx, (record, body)) in records.iter().zip(bodies).enumerate() {
                batch.follows.push((bodies.len() - idx - 1) as i32);
                batch.channels.push(record.channel.as_ref().map(|channel| channel.as_str()));
                batch.bodies.push(body);
            }
        }
        let trouble = &self.trouble;
        self.sequencer.append(first_n, &batch, &|error| *trouble.lock() = Some(error))
    }

    fn write_down(&mut self, tail: &mut Tail, first_n: u64, out: &[u8]) -> Result<(), StoreError> {
        let calls = Arc::clone(&self.calls);
        let written = calls.within(|| self.write(tail, first_n, out));
        written.map_err(|error| self.sequencer.not_written(error))
    }

    /// Writes and syncs; on failure the segment is as before, or will be before it is written again.
    fn write(&mut self, tail: &mut Tail, first_n: u64, out: &[u8]) -> Result<(), StoreError> {
        if tail.segment == 0 || tail.len >= self.segment_bytes {
            self.sync_copy();
            tail.segment = first_n;
            tail.len = 0;
            self.file = None;
        }
        let path = segment::path(&self.dir, tail.segment);
        let fail = io_error("write", &path);
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.reopen(tail)?,
        };
        let is_copy = self.sequencer.is_copy();
        let sync = |file: &mut dyn AppendFile| if is_copy { Ok(()) } else { file.sync() };
        if let Err(error) = file.append(out).and_then(|()| sync(file.as_mut())) {
            // Done again by `reopen` should it fail; the handle is not used any more (after a failed sync
            // the system may have forgotten what it had to write).
            if let Err(error) = file.cut(tail.len) {
                tracing::warn!(file = %path.display(), %error, "a failed write could not be cut off yet");
            }
            return Err(fail(error));
        }
        self.file = Some(file);
        tail.len += out.len() as u64;
        Ok(())
    }

    /// Opens the segment to write on, and cuts off what a failed write left there.
    fn reopen(&self, tail: &Tail) -> Result<Box<dyn AppendFile>, StoreError> {
        let path = segment::path(&self.dir, tail.segment);
        let fail = io_error("open", &path);
        let mut file = self.disk.open(&path).map_err(&fail)?;
        if file.len().map_err(&fail)? != tail.len {
            file.cut(tail.len).map_err(&fail)?;
        }
        if tail.len == 0 {
            sync_dir(&self.dir).map_err(&fail)?;
        }
        Ok(file)
    }
}

/// The handle to the journal's writer.
pub(crate) struct Appender {
    requests: mpsc::Sender<Request>,
    durable: watch::Receiver<Durable>,
    closed: Arc<AtomicBool>,
    trouble: Trouble,
    calls: Arc<Calls>,
}

impl Appender {
    /// Starts a writer's thread.
    pub(crate) fn start(writer: Writer) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (trouble, calls, durable) =
            (writer.trouble.clone(), Arc::clone(&writer.calls), writer.durable.subscribe());
        let dir = writer.dir.clone();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(io_error("start the writer of", &dir))?;
        Ok((Self { requests, durable, closed: Arc::default(), trouble, calls }, thread))
    }

    /// Writes what another node has appended, behind what is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) async fn copy(&self, copied: Copied) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Copy { copied, reply }).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    /// Replaces the sequencer: from here on it decides about every batch.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn lead(&self, sequencer: Box<dyn Sequencer>) -> Result<(), StoreError> {
        let lead = Request::Lead { sequencer };
        self.requests.send(lead).await.map_err(|_| self.gone())
    }

    /// Why the last write failed, when it did.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().clone()
    }

    /// The writer's calls into the disk.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Clears the error of the last write: its cause is gone.
    pub(crate) fn forget_trouble(&self) {
        *self.trouble.lock() = None;
    }

    /// Watches how far the journal is durable.
    pub(crate) fn durable(&self) -> watch::Receiver<Durable> {
        self.durable.clone()
    }

    /// Appends records, all or none, and returns once they are durable.
    ///
    /// # Errors
    /// The journal cannot be written, or this node does not lead. Then none of the records is in the journal.
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
