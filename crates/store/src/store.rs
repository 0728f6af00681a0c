//! The store: opening and closing it, and what holds its parts together.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use cairn_core::ports::StoreError;
use parking_lot::Mutex;

use crate::artifacts::Artifacts;
use crate::disk::{Disk, RealDisk, has_room, io_error, make_dir};
use crate::format;
use crate::index::{self, Indexer, SearchIndex, Task};
use crate::journal::open::Shown;
use crate::journal::reader::Reader;
use crate::journal::{Appender, open, segment};
use crate::lock::StateLock;
use crate::options::StoreOptions;
use crate::recall::Recall;
use crate::views::archive::Reads;
use crate::views::codec::{SLED, view_error};
use crate::views::{Applier, Command, Views, shown};

/// Wake-ups and heads that may wait for the applier; a wake-up that finds it full is not needed.
const COMMANDS: usize = 64;

/// How long a store that closes waits for work over whole segments to come to an end.
const LEASE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// An open store. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: StoreOptions,
    pub(crate) appender: Appender,
    pub(crate) views: Arc<Views>,
    pub(crate) journal: Arc<Reader>,
    pub(crate) recall: Recall,
    pub(crate) index: Arc<SearchIndex>,
    pub(crate) tasks: SyncSender<Task>,
    pub(crate) commands: SyncSender<Command>,
    maintenance: Arc<tokio::sync::Mutex<()>>,
    /// An erasure was asked for: the store is about to be opened anew, and no backup begins.
    pub(crate) erasing: AtomicBool,
    /// The store is about to be closed: work over whole segments breaks off.
    closing: AtomicBool,
    pub(crate) artifacts: Artifacts,
    /// Segments of whose words nothing is left to be taken out.
    pub(crate) spent: Mutex<HashSet<u64>>,
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
    /// Why the journal or the views cannot be written at present. While the journal cannot, nothing is taken in.
    pub trouble: Option<StoreError>,
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

    /// What views and index show of the journal, both closed. The lock is held.
    ///
    /// # Errors
    /// Whether there are any cannot be told.
    pub(crate) fn shown(&self) -> Result<Shown, StoreError> {
        let mut shown = shown::in_folder(&self.views)?;
        shown.last.push(index::reach(&self.index));
        Ok(shown)
    }
}

/// Whether nobody has the store in that folder open.
///
/// # Errors
/// [`StoreError::InUse`], or the folder cannot be looked into.
pub fn check_free(dir: &std::path::Path) -> Result<(), StoreError> {
    if dir.join("lock").exists() { StateLock::probe(dir) } else { Ok(()) }
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
        format::prepare(&options.dir)?;
        let layout = Layout::of(&options.dir);
        let artifacts = Artifacts::of(&options.dir);
        make_dir(&layout.journal)?;
        crate::erasure::resume_or_wait(&options.dir)?;
        let (views, meta) = Views::open(&layout.views, options.sled_cache_bytes, &layout.journal)?;
        let shown = Shown { last: vec![index::reach(&layout.index)], channels: Vec::new() };
        let tail = open::open(&layout.journal, &layout.quarantine, &meta.checkpoint(), &shown)?;
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
        let journal = Arc::new(Reader::new(&layout.journal));
        let indexer = Indexer::new(index.clone(), at, views.clone(), journal.clone(), appender.durable());
        let indexer = spawn("index", lock.clone(), move || indexer.run(&to_index))?;
        let inner = Inner {
            journal,
            options,
            appender,
            views,
            recall: Recall::default(),
            index,
            tasks,
            commands,
            maintenance: Arc::default(),
            erasing: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            artifacts,
            spent: Mutex::default(),
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
        self.end_maintenance();
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
        // Work over whole segments, which nobody may wait for any more, must not go on when another opens the store.
        // It breaks off at the next line: the time is for one that waits for the disk.
        let lease = self.inner.maintenance.clone().lock_owned();
        if tokio::time::timeout(LEASE_PATIENCE, lease).await.is_err() {
            tracing::warn!("work over the journal's segments goes on while the store is closed");
        }
        *self.inner.lock.lock() = None;
    }

    /// Waits for the lease that work over whole segments takes for as long as it lasts: a backup that copies them, an
    /// erasure or a retention that writes them anew. While it is held, no sealed segment is renamed, rewritten or removed
    /// by anyone else; appends, reads and replies never wait for it. It belongs to its holder until it is dropped and may
    /// be moved into a blocking task.
    ///
    /// # Errors
    /// [`StoreError::Closed`]: the store is being closed, and such work has no time any more.
    pub async fn maintenance(&self) -> Result<tokio::sync::OwnedMutexGuard<()>, StoreError> {
        let lease = self.inner.maintenance.clone().lock_owned().await;
        self.inner.goes_on().map(|()| lease)
    }

    /// The same lease, when nobody holds it now and the store is not being closed.
    pub fn try_maintenance(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        let lease = self.inner.maintenance.clone().try_lock_owned().ok()?;
        self.inner.goes_on().ok().map(|()| lease)
    }

    /// Work over whole segments breaks off from here on, and none begins: the daemon stops.
    pub fn end_maintenance(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Work over whole segments is to break off.
    pub fn is_ending(&self) -> bool {
        self.inner.goes_on().is_err()
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
            journal_bytes += segment::bytes(&segment::path(&layout.journal, *first))?;
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
            trouble: self.inner.trouble().or(applied.error),
        })
    }

    /// Reads rows and journal on a blocking thread, after the views have caught up.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Rows that were opened meanwhile may have to catch up once more.
        let openings = loop {
            let before = self.inner.views.openings();
            self.settle().await?;
            if self.inner.views.openings() == before {
                break before;
            }
        };
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || read(&inner)).await;
        let result = done
            .unwrap_or_else(|_panic| Err(view_error("reading it panicked; the log says where".to_owned())));
        // What is wrong with the search index says nothing of the rows.
        if let Err(StoreError::View { view: SLED, .. }) = &result {
            self.inner.views.suspect();
            let _ = self.inner.commands.try_send(Command::Wake);
        }
        // Part of what there is must not be taken for all of it. Nothing is wrong with the rows as they are now.
        if result.is_ok() && self.inner.views.openings() != openings {
            return Err(view_error("it was made anew while it was read; ask again".to_owned()));
        }
        result
    }
}

impl Inner {
    /// Why the journal cannot be written. A disk that was full is tried, so that it is told within one question that
    /// there is room again, without anybody who writes.
    fn trouble(&self) -> Option<StoreError> {
        let trouble = self.appender.trouble()?;
        if matches!(trouble, StoreError::DiskFull { .. }) && has_room(&self.options.dir).is_ok() {
            self.appender.forget_trouble();
            return None;
        }
        Some(trouble)
    }

    /// Rows and journal together.
    pub(crate) fn reads<T>(
        &self,
        read: impl FnOnce(Reads<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let db = self.views.db()?;
        read(Reads { db: &db, journal: &self.journal })
    }

    /// Whether work over whole segments may go on.
    ///
    /// # Errors
    /// [`StoreError::Closed`]: it may not.
    pub(crate) fn goes_on(&self) -> Result<(), StoreError> {
        if self.closing.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// The lock of the state folder, for work over whole segments that a close may not wait out: nobody else opens the
    /// store before it has ended. `None`: it is closed.
    pub(crate) fn state_lock(&self) -> Option<Arc<StateLock>> {
        self.lock.lock().clone()
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
