//! The store: opening and closing it, and what holds its parts together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use cairn_core::ports::StoreError;
use parking_lot::Mutex;

use crate::disk::{Disk, RealDisk, io_error, make_dir};
use crate::index::{Indexer, SearchIndex, Task};
use crate::journal::reader::Reader;
use crate::journal::{Appender, open, segment};
use crate::lock::StateLock;
use crate::options::StoreOptions;
use crate::recall::Recall;
use crate::views::archive::Reads;
use crate::views::codec::{SLED, view_error};
use crate::views::{Applier, Command, Views};

/// Wake-ups and heads that may wait for the applier; a wake-up that finds it full is not needed.
const COMMANDS: usize = 64;

/// An open store. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: StoreOptions,
    pub(crate) appender: Appender,
    pub(crate) views: Arc<Views>,
    pub(crate) journal: Reader,
    pub(crate) recall: Recall,
    pub(crate) index: Arc<SearchIndex>,
    pub(crate) tasks: SyncSender<Task>,
    pub(crate) commands: SyncSender<Command>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    indexer: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<Arc<StateLock>>>,
}

/// Figures of an open store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreStats {
    /// Bytes of all journal segments.
    pub journal_bytes: u64,
    /// Journal segments.
    pub segments: u64,
    /// Number of the last durable record.
    pub last_n: u64,
    /// Number of the last record that the views show.
    pub applied_n: u64,
    /// Microseconds that the last write and sync of the journal took.
    pub last_sync_micros: u64,
    /// Syncs of the journal since it was opened.
    pub syncs: u64,
    /// Why the views are behind, when they cannot be written.
    pub views_error: Option<String>,
}

/// The folders within the state folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) journal: PathBuf,
    pub(crate) views: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) quarantine: PathBuf,
}

impl Layout {
    pub(crate) fn of(dir: &std::path::Path) -> Self {
        Self {
            journal: dir.join("journal"),
            views: dir.join("views"),
            index: dir.join("index"),
            quarantine: dir.join("quarantine"),
        }
    }
}

impl Store {
    /// Opens the store, and brings the views up to the journal. Blocks; call it outside of async code.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Damaged`] with file and line, or [`StoreError::Io`].
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_on(options, Arc::new(RealDisk))
    }

    pub(crate) fn open_on(options: StoreOptions, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        make_dir(&options.dir)?;
        // Every thread that writes holds the lock, too: it is free when the last of them has ended, however they end.
        let lock = Arc::new(StateLock::take(&options.dir)?);
        let layout = Layout::of(&options.dir);
        make_dir(&layout.journal)?;
        let (views, meta) = Views::open(&layout.views, options.sled_cache_bytes, &layout.journal)?;
        let tail = open::open(&layout.journal, &layout.quarantine, &meta.checkpoint())?;
        let views = Arc::new(views);

        let (commands, queue) = sync_channel(COMMANDS);
        let wake = commands.clone();
        let held = lock.clone();
        let on_durable = Box::new(move || {
            let _ = &held;
            let _ = wake.try_send(Command::Wake);
        });
        let (appender, writer) =
            Appender::start(&layout.journal, disk, options.segment_bytes, tail, on_durable)?;
        let (tasks, to_index) = sync_channel(COMMANDS);
        let wake = tasks.clone();
        let on_applied = Box::new(move || {
            let _ = wake.try_send(Task::Wake);
        });
        let journal = layout.journal.clone();
        let mut applier = Applier::new(views.clone(), meta, journal, appender.durable(), on_applied);
        applier.catch_up()?;
        let applier = spawn("views", lock.clone(), move || applier.run(&queue))?;

        let (index, at) = SearchIndex::open(&layout.index, &layout.journal, options.index_heap_bytes)?;
        let index = Arc::new(index);
        let indexer = Indexer::new(index.clone(), at, views.clone(), appender.durable());
        let indexer = spawn("index", lock.clone(), move || indexer.run(&to_index))?;
        let inner = Inner {
            journal: Reader::new(&layout.journal),
            options,
            appender,
            views,
            recall: Recall::default(),
            index,
            tasks,
            commands,
            threads: Mutex::new(vec![writer, applier]),
            indexer: Mutex::new(Some(indexer)),
            lock: Mutex::new(Some(lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until the views show all that is durable now.
    ///
    /// # Errors
    /// The views cannot be written at present, or the store is closed.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let target = self.inner.appender.durable().borrow().tail.n;
        let mut applied = self.inner.views.applied();
        let done = applied
            .wait_for(|applied| applied.n >= target || applied.error.is_some() || applied.closed)
            .await
            .map_err(|_| StoreError::Closed)?;
        match &done.error {
            Some(error) if done.n < target => Err(error.clone()),
            _ if done.n < target => Err(StoreError::Closed),
            _ => Ok(()),
        }
    }

    /// Makes everything durable and ends the store's threads. Other clones answer [`StoreError::Closed`] afterwards.
    pub async fn close(self) {
        self.inner.appender.close().await;
        if let Err(error) = self.settle().await {
            tracing::warn!(%error, "the views are behind; the next start applies the journal again");
        }
        let inner = self.inner.clone();
        if tokio::task::spawn_blocking(move || inner.end_threads()).await.is_err() {
            tracing::error!(
                "the store could not be closed in order; the next start mends what derives from the journal"
            );
        }
        *self.inner.lock.lock() = None;
    }

    /// Figures for status and metrics.
    ///
    /// # Errors
    /// The journal's folder cannot be read.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let layout = Layout::of(&self.inner.options.dir);
        let segments = segment::list(&layout.journal)?;
        let mut journal_bytes = 0;
        for first in &segments {
            let path = segment::path(&layout.journal, *first);
            journal_bytes += path.metadata().map_err(io_error("read", &path))?.len();
        }
        let durable = *self.inner.appender.durable().borrow();
        let applied = self.inner.views.applied().borrow().clone();
        Ok(StoreStats {
            journal_bytes,
            segments: segments.len() as u64,
            last_n: durable.tail.n,
            applied_n: applied.n,
            last_sync_micros: durable.last_sync_micros,
            syncs: durable.syncs,
            views_error: applied.error.map(|error| error.to_string()),
        })
    }

    /// Reads rows and journal on a blocking thread, after the views have caught up.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.settle().await?;
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || read(&inner)).await;
        let result = done.unwrap_or_else(|error| Err(view_error(format!("reading it failed: {error}"))));
        // What is wrong with the search index says nothing of the rows.
        if let Err(StoreError::View { view: SLED, .. }) = &result {
            self.inner.views.suspect();
            let _ = self.inner.commands.try_send(Command::Wake);
        }
        result
    }
}

impl Inner {
    /// Rows and journal together.
    pub(crate) fn reads<T>(
        &self,
        read: impl FnOnce(Reads<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let db = self.views.db()?;
        read(Reads { db: &db, journal: &self.journal })
    }

    /// Ends the index before the views that it reads. A thread that is gone already gets no message.
    fn end_threads(&self) {
        let _ = self.tasks.send(Task::Close);
        if let Some(indexer) = self.indexer.lock().take() {
            join(indexer);
        }
        let _ = self.commands.send(Command::Close);
        self.threads.lock().drain(..).for_each(join);
    }
}

/// Starts a thread that holds the lock until it ends.
fn spawn(
    name: &'static str,
    lock: Arc<StateLock>,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let run = move || {
        run();
        drop(lock);
    };
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(io_error("start a thread for", std::path::Path::new(name)))
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store panicked");
    }
}
