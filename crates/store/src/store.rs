//! The store: opening and closing it, and what holds its parts together.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use cairn_types::ports::{NodeRow, StoreError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::{Database, Following, Leading, Lease, LeaseState};
use crate::files::artifacts::Artifacts;
use crate::files::disk::{Background, Disk, Layout, folder_bytes, has_room, io_error, make_dir};
use crate::files::lock::StateLock;
use crate::index::{self, Embedding, Indexer, SearchIndex, Task};
use crate::journal::mark::Mark;
use crate::journal::open::{Start, Tail, ViewState};
use crate::journal::reader::Reader;
use crate::journal::{Alone, Appender, Durable, Sequencer, Writer, open, segment};
use crate::options::StoreOptions;
use crate::upkeep::erasure::ready::PendingErasure;
use crate::views::archive::Reads;
use crate::views::codec::{SLED, view_error};
use crate::views::db::Doubt;
use crate::views::vectors::VectorState;

use crate::views::{Applied, Applier, Command, JournalRows, Meta, PATIENCE, Views};

/// Snapshots that may wait for the applier, with one wake-up; a wake-up that finds it full is not needed.
const COMMANDS: usize = 64;

/// Fewer than may wait: those of restores come beside them.
const SNAPSHOTS_AT_ONCE: usize = 32;

/// How long a store that closes waits for work over whole segments to come to an end.
const MAINTENANCE_PATIENCE: Duration = Duration::from_secs(20);

/// How long it waits for views that are behind: the next start applies what they lack.
const SETTLE_PATIENCE: Duration = Duration::from_millis(500);

/// How long it waits for each of its threads: what derives from the journal is not worth more.
const THREAD_PATIENCE: Duration = Duration::from_secs(4);

/// A disk that was full is tried no more often, whoever asks how the store is.
pub(crate) const ROOM_EVERY: Duration = Duration::from_secs(5);

/// Reads from sled at once. One that never comes back keeps its thread; the others are for everybody else.
const READERS: usize = 4;

/// Questions whose vectors are made at once: each takes a processor for a while.
const QUESTIONS: usize = 2;

/// Work over the whole state at once.
const BACKGROUND: usize = 2;

/// How often who waits looks whether sled is stuck.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long readers wait for views that lag while the journal is read instead.
const LITTLE_PATIENCE: Duration = Duration::from_millis(100);

/// How long rows that were made from the journal are kept after their last use: views that come and go would have them made again
/// for each question.
const ROWS_KEPT: Duration = Duration::from_secs(60);

/// Nobody is told of a call that takes less.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// What does not come back for so long will not. Its thread cannot be ended: the process must be.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Views that lack more records than that are told of while they are brought up: it takes a second or more.
const TOLD_RECORDS: u64 = 20_000;

/// A row costs as much to check as so many bytes of the journal.
const ROW_BYTES: u64 = 1024;

/// An open store. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// What is asked of models that rank.
pub(crate) struct Ranking {
    /// Questions that may get a vector at once.
    pub(crate) questions: Arc<tokio::sync::Semaphore>,
    /// Whether the last question got no vector, or results were not reranked.
    pub(crate) vectors_fail: AtomicBool,
    pub(crate) rerank_fails: AtomicBool,
}

impl Ranking {
    fn new() -> Self {
        Self {
            questions: Arc::new(tokio::sync::Semaphore::new(QUESTIONS)),
            vectors_fail: AtomicBool::new(false),
            rerank_fails: AtomicBool::new(false),
        }
    }
}

pub(crate) struct Inner {
    pub(crate) options: StoreOptions,
    pub(crate) appender: Appender,
    pub(crate) views: Arc<Views>,
    pub(crate) journal: Arc<Reader>,
    readers: Arc<tokio::sync::Semaphore>,
    pub(crate) background: Background,
    figures: Arc<tokio::sync::Mutex<()>>,
    /// When a disk that was full was tried last.
    room_tried: Mutex<Option<Instant>>,
    /// Rows made in memory from the journal, while the views on disk do not answer.
    pub(crate) journal_rows: Arc<tokio::sync::Mutex<Option<JournalRows>>>,
    reads_from_journal: AtomicBool,
    pub(crate) index: Arc<SearchIndex>,
    pub(crate) tasks: SyncSender<Task>,
    pub(crate) commands: SyncSender<Command>,
    /// Wakes the thread that makes vectors, and has it end.
    to_embed: SyncSender<()>,
    ends_embedding: Arc<AtomicBool>,
    pub(crate) ranking: Ranking,
    /// Those that are kept at once.
    pub(crate) snapshots: tokio::sync::Semaphore,
    maintenance: Arc<tokio::sync::Mutex<()>>,
    /// An erasure was asked for: the store is about to be opened again, and no backup begins.
    pub(crate) erasing: AtomicBool,
    pub(crate) erasure: PendingErasure,
    /// The store is about to be closed: work over whole segments breaks off.
    closing: AtomicBool,
    pub(crate) artifacts: Artifacts,
    stopped_cleanly: AtomicBool,
    /// This start made the views: no channel has a snapshot.
    pub(crate) views_are_new: bool,
    /// The database of whose journal this is a copy.
    pub(crate) database: Option<Arc<Database>>,
    /// Since this node leads.
    lease: OnceLock<Arc<Lease>>,
    /// What the last check in the background found wrong with journal or artifacts, for people.
    pub(crate) damage: Mutex<Vec<String>>,
    /// Segments of whose words nothing is left to be taken out.
    pub(crate) spent: Mutex<HashSet<u64>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    indexer: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<Arc<StateLock>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoreStats {
    /// Bytes of all journal segments.
    pub journal_bytes: u64,
    pub segments: u64,
    /// Bytes of the views' files.
    pub views_bytes: u64,
    /// Number of the last durable record.
    pub last_n: u64,
    /// Number of the last record that the views show.
    pub applied_n: u64,
    /// Number of the last record whose words a search finds.
    pub indexed_n: u64,
    /// The vectors of entries, where a model makes them.
    pub embedded: Option<Embedded>,
    /// Microseconds that the last write and sync of the journal took.
    pub last_sync_micros: u64,
    /// Syncs of the journal since it was opened.
    pub syncs: u64,
    /// Why the journal or the views cannot be written at present. While the journal cannot, nothing is taken in.
    pub trouble: Option<StoreError>,
    /// What the last check in the background found wrong with journal or artifacts, for people. Nothing stands still for it.
    pub damage: Vec<String>,
}

/// Vectors of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedded {
    /// The model that makes them.
    pub model: String,
    /// How many entries have one.
    pub entries: u64,
    /// The last record whose entries have theirs for certain.
    pub upto: u64,
}

/// Opens the views, and the journal from where they end.
fn open_views_and_journal(
    options: &StoreOptions,
    layout: &Layout,
) -> Result<(Views, Meta, Tail), StoreError> {
    let most_bytes = options.checked_at_start_bytes;
    let most_rows = most_bytes / ROW_BYTES;
    let (views, meta) = Views::open(&layout.views, options.sled_cache_bytes, most_rows, &layout.journal)?;
    let state =
        ViewState { last: vec![index::reach(&layout.index), meta.checkpoint()], channels: Vec::new() };
    let start = Start { from: meta.checkpoint(), most_bytes };
    let tail = open::open(&layout.journal, layout, &start, &state)?;
    if views.are_open() {
        options.progress.begin("views", tail.n);
        let lacks = tail.n.saturating_sub(meta.n);
        if lacks > TOLD_RECORDS {
            tracing::info!(
                records = lacks,
                "the views lack many records of the journal; updating them before the store opens"
            );
        }
    }
    Ok((views, meta, tail))
}

fn sequencer(options: &StoreOptions, has_database: bool) -> Box<dyn Sequencer> {
    if has_database { Box::new(Following::new(&options.dir)) } else { Box::new(Alone) }
}

/// What is done when the journal has synced records: the views follow.
fn on_durable(
    commands: &SyncSender<Command>,
    views: &Arc<Views>,
    lock: &Arc<StateLock>,
) -> Box<dyn Fn() + Send> {
    let (commands, views, held) = (commands.clone(), Arc::clone(views), Arc::clone(lock));
    Box::new(move || {
        let _ = &held;
        views.wake(&commands);
    })
}

/// What is done when the views have taken records in: index and vectors follow.
fn on_applied(
    options: &StoreOptions,
    views: &Arc<Views>,
    tasks: &SyncSender<Task>,
    to_embed: &SyncSender<()>,
) -> Box<dyn Fn() + Send> {
    let (wake, wake_embedding) = (tasks.clone(), to_embed.clone());
    let (progress, views) = (options.progress.clone(), Arc::clone(views));
    Box::new(move || {
        // Once it is stopped nobody needs them.
        if progress.reach(views.applied().borrow().n).is_err() {
            views.end();
        }
        let _ = wake.try_send(Task::Wake);
        let _ = wake_embedding.try_send(());
    })
}

impl Store {
    /// `database`: of whose journal the folder has a copy, which was brought up to it. Whoever was to be erased is.
    pub(crate) fn open_locked(
        options: StoreOptions,
        disk: Arc<dyn Disk>,
        lock: Arc<StateLock>,
        database: Option<Arc<Database>>,
    ) -> Result<Self, StoreError> {
        let layout = Layout::of(&options.dir);
        make_dir(&layout.journal)?;
        let (views, meta, tail) = open_views_and_journal(&options, &layout)?;
        let (views, views_are_new) = (Arc::new(views), meta.n == 0);

        let (commands, queue) = sync_channel(COMMANDS);
        let on_durable = on_durable(&commands, &views, &lock);
        let sequencer = sequencer(&options, database.is_some());
        let writer = Writer::new(&layout.journal, disk, options.segment_bytes, tail, sequencer, on_durable);
        let (appender, writer) = Appender::start(writer)?;
        let ((tasks, to_index), (to_embed, embed_wakes)) = (sync_channel(COMMANDS), sync_channel(1));
        let on_applied = on_applied(&options, &views, &tasks, &to_embed);
        let durable = appender.durable();
        let mut applier = Applier::new(views.clone(), meta, layout.journal.clone(), durable, on_applied);
        if views.are_open() {
            applier.catch_up()?;
        }
        let stopped_cleanly = AtomicBool::new(applier.stopped_cleanly());
        let applier = spawn("views", lock.clone(), move || applier.run(&queue))?;

        let (index, at) = SearchIndex::open(&layout.index, &layout.journal, options.checked_at_start_bytes);
        let (index, journal) = (Arc::new(index), Arc::new(Reader::new(&layout.journal)));
        let indexer = Indexer::new(index.clone(), at, views.clone(), journal.clone(), appender.durable());
        let indexer = indexer.within(options.sled_cache_bytes as usize / 2);
        let indexer = spawn("index", lock.clone(), move || indexer.run(&to_index))?;
        let (ends_embedding, mut threads) = (Arc::<AtomicBool>::default(), vec![writer, applier]);
        if let Some(embedder) = options.embedder.clone() {
            let embedding = Embedding {
                embedder,
                views: views.clone(),
                commands: commands.clone(),
                reader: journal.clone(),
                journal: layout.journal.clone(),
                durable: appender.durable(),
                ending: ends_embedding.clone(),
            };
            // The first to end, since it sends to the thread that writes the views.
            threads.insert(0, spawn("embed", lock.clone(), move || embedding.run(&embed_wakes))?);
        }
        let inner = Inner {
            to_embed,
            ends_embedding,
            ranking: Ranking::new(),
            journal,
            readers: Arc::new(tokio::sync::Semaphore::new(READERS)),
            background: Background::new(BACKGROUND),
            figures: Arc::default(),
            room_tried: Mutex::default(),
            journal_rows: Arc::default(),
            reads_from_journal: AtomicBool::new(false),
            artifacts: Artifacts::of(&options.dir, database.clone().map(|database| database as _)),
            options,
            appender,
            views,
            index,
            tasks,
            commands,
            snapshots: tokio::sync::Semaphore::new(SNAPSHOTS_AT_ONCE),
            maintenance: Arc::default(),
            erasing: AtomicBool::new(false),
            erasure: PendingErasure::default(),
            closing: AtomicBool::new(false),
            stopped_cleanly,
            views_are_new,
            database,
            lease: OnceLock::new(),
            damage: Mutex::new(Mark::read(&layout.checked).damage),
            spent: Mutex::default(),
            threads: Mutex::new(threads),
            indexer: Mutex::new(Some(indexer)),
            lock: Mutex::new(Some(lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether the previous daemon shut down cleanly, or there was none.
    pub fn stopped_cleanly(&self) -> bool {
        self.inner.stopped_cleanly.load(Ordering::Acquire)
    }

    /// The state of this node's lease; `None`: it never led, or the journal is in the state folder alone.
    pub fn lease(&self) -> Option<watch::Receiver<LeaseState>> {
        self.inner.lease.get().map(|lease| lease.state())
    }

    /// Stores bytes under a name in the database for the next leader. False: there is no database, and nothing is stored, since
    /// the next daemon has the same state folder.
    ///
    /// # Errors
    /// The database does not answer, or another node leads.
    pub async fn hand_over(&self, name: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        match self.inner.leading() {
            Some((database, lease)) => database.hand_over(lease, name, bytes).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Takes what the previous leader stored with [`Self::hand_over`], as names and bytes; empty without a database.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take_over(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        match self.inner.leading() {
            Some((database, lease)) => database.take_over(lease).await,
            None => Ok(Vec::new()),
        }
    }

    /// Whether this node may act now: false once its lease may have expired. Always true without a database.
    pub fn leads(&self) -> bool {
        self.inner.lease.get().is_none_or(|lease| lease.is_held())
    }

    /// All nodes that lead or follow with this database, or did; empty without a database.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>, StoreError> {
        match &self.inner.database {
            Some(database) => database.nodes().await,
            None => Ok(Vec::new()),
        }
    }

    /// Appends go by way of the database from here on: everything that it has is copied.
    pub(crate) async fn begin_to_lead(
        &self,
        database: Arc<Database>,
        lease: Arc<Lease>,
    ) -> Result<(), StoreError> {
        let leading = Leading::new(database, lease.clone(), &self.inner.options.dir);
        self.inner.appender.lead(Box::new(leading)).await?;
        lease.tells(self.inner.appender.durable());
        self.inner.lease.get_or_init(|| lease);
        // Views that do not answer are no reason not to lead.
        if self.settle().await.is_ok()
            && let Ok(Some(meta)) = self.inner.views.db().and_then(|db| db.meta())
        {
            self.inner.stopped_cleanly.store(meta.stopped.unwrap_or(true), Ordering::Release);
        }
        Ok(())
    }

    /// Waits until the views show all that is durable now.
    ///
    /// # Errors
    /// The views cannot be written at present, or the store is closed.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.settle_to(self.inner.durable().tail.n).await
    }

    async fn settle_to(&self, target: u64) -> Result<(), StoreError> {
        let mut applied = self.inner.views.applied();
        let is_over = |applied: &Applied| applied.n >= target || applied.error.is_some() || applied.closed;
        let done = loop {
            if let Ok(done) = tokio::time::timeout(LOOK_EVERY, applied.wait_for(is_over)).await {
                break done.map_err(|_| StoreError::Closed)?;
            }
            if self.inner.views.stuck().is_some() {
                return Err(no_answer());
            }
        };
        match &done.error {
            Some(error) if done.n < target => Err(error.clone()),
            _ if done.n < target => Err(StoreError::Closed),
            _ => Ok(()),
        }
    }

    /// Makes everything durable, ends the store's threads, and finishes an erasure that is ready. Other clones answer
    /// [`StoreError::Closed`] afterwards. Only waiting for the journal has no limit. False: a thread of the views or the index
    /// does not end, and keeps the state folder's lock until the process ends.
    pub async fn close(self) -> bool {
        self.end_maintenance();
        self.inner.appender.close().await;
        if let (Some(lease), Some(database)) = (self.inner.lease.get(), &self.inner.database) {
            lease.leave(database).await;
        }
        if let Err(error) =
            tokio::time::timeout(SETTLE_PATIENCE, self.settle()).await.unwrap_or_else(|_| Err(no_answer()))
        {
            tracing::warn!(%error, "the views are behind; the next start applies the missing records");
        }
        self.inner.views.end();
        let inner = self.inner.clone();
        let ended = tokio::task::spawn_blocking(move || inner.end_threads());
        // Twice for two threads one after the other, and a little more.
        let ended = matches!(tokio::time::timeout(THREAD_PATIENCE * 3, ended).await, Ok(Ok(true)));
        if !ended {
            tracing::warn!(
                "the views or the index did not close in time; the next start repairs them from the journal"
            );
        }
        // Work over whole segments, which nobody may wait for any more, must not go on when another opens the store.
        // It breaks off at the next line: the time is for one that waits for the disk.
        let maintenance = self.inner.maintenance.clone().lock_owned();
        if tokio::time::timeout(MAINTENANCE_PATIENCE, maintenance).await.is_err() {
            tracing::warn!("work on the journal's segments continues while the store closes");
        } else if ended {
            let inner = self.inner.clone();
            let finish = move || inner.erasure.finish(&inner.durable().tail);
            if tokio::task::spawn_blocking(finish).await.is_err() {
                tracing::error!("an erasure panicked; the next start completes it");
            }
        }
        *self.inner.lock.lock() = None;
        ended
    }

    /// Waits for the guard that work over whole segments takes for as long as it lasts: a backup that copies them, an
    /// erasure or a retention that writes them again. While it is held, no sealed segment is renamed, rewritten or removed
    /// by anyone else; appends, reads and replies never wait for it. It belongs to its holder until it is dropped and may
    /// be moved into a blocking task.
    ///
    /// # Errors
    /// [`StoreError::Closed`]: the store is being closed, and such work has no time any more.
    pub async fn maintenance(&self) -> Result<tokio::sync::OwnedMutexGuard<()>, StoreError> {
        let maintenance = self.inner.maintenance.clone().lock_owned().await;
        self.inner.goes_on().map(|()| maintenance)
    }

    /// The guard for work over whole segments, when nobody holds it now and the store is not being closed.
    pub fn try_maintenance(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        let maintenance = self.inner.maintenance.clone().try_lock_owned().ok()?;
        self.inner.goes_on().ok().map(|()| maintenance)
    }

    /// Stops work over whole segments, and refuses new work of that kind: the daemon stops.
    pub fn end_maintenance(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Whether [`Self::end_maintenance`] was called.
    pub fn is_ending(&self) -> bool {
        self.inner.goes_on().is_err()
    }

    /// Figures for status and metrics.
    ///
    /// # Errors
    /// The journal's folder cannot be read, or not in time.
    pub async fn stats(&self) -> Result<StoreStats, StoreError> {
        let look = async {
            // One looks at a time: a disk that does not answer keeps the thread.
            let turn = self.inner.figures.clone().lock_owned().await;
            let store = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                store.figures()
            });
            looked.await.map_err(|_panic| StoreError::Closed)?
        };
        match tokio::time::timeout(TOLD_AFTER, look).await {
            Ok(figures) => figures,
            Err(_) => Err(StoreError::Io {
                action: "look at",
                path: self.inner.options.dir.display().to_string(),
                message: "the disk does not answer".to_owned(),
            }),
        }
    }

    fn figures(&self) -> Result<StoreStats, StoreError> {
        let layout = Layout::of(&self.inner.options.dir);
        let segments = segment::list(&layout.journal)?;
        let mut journal_bytes = 0;
        for first in &segments {
            journal_bytes += segment::bytes(&segment::path(&layout.journal, *first))?;
        }
        let durable = self.inner.durable();
        let applied = self.inner.views.applied().borrow().clone();
        Ok(StoreStats {
            journal_bytes,
            segments: segments.len() as u64,
            views_bytes: folder_bytes(&layout.views),
            last_n: durable.tail.n,
            applied_n: applied.n,
            indexed_n: self.inner.index.reaches(),
            embedded: self.embedded(),
            last_sync_micros: durable.last_sync_micros,
            syncs: durable.syncs,
            trouble: self
                .inner
                .trouble()
                .or(applied.error)
                .or_else(|| self.stuck().map(|stuck| stuck.error())),
            damage: self.inner.damage.lock().clone(),
        })
    }

    fn embedded(&self) -> Option<Embedded> {
        let model = self.inner.options.embedder.as_ref()?.model();
        let rows = self.inner.views.db();
        let state = rows.and_then(|db| VectorState::of(&db)).ok().flatten();
        let state = state.filter(|state| state.model == model).unwrap_or_default();
        Some(Embedded { model: model.to_owned(), entries: state.count, upto: state.n })
    }

    /// The part of the store that is stuck in a call now, if any.
    pub fn stuck(&self) -> Option<Stuck> {
        let inner = &self.inner;
        let parts = [
            (StuckPart::Journal, inner.appender.calls().longest()),
            (StuckPart::Views, inner.views.stuck().unwrap_or_default()),
            (StuckPart::Index, inner.index.calls.longest()),
        ];
        // A commit of the index may have much to write.
        let limit = |part| if part == StuckPart::Index { GIVEN_UP } else { TOLD_AFTER };
        parts
            .into_iter()
            .find(|(part, lasts)| *lasts >= limit(*part))
            .map(|(part, lasts)| Stuck { part, lasts })
    }

    /// Reads rows and journal for long, after the views have caught up, on a background thread: no look waits for it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Inner, &Reads<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let target = self.inner.durable().tail.n;
        self.settle_to(target).await?;
        let inner = self.inner.clone();
        let done = self.inner.background.run(what, move || {
            let db = inner.views.db_at(target)?;
            let read =
                catch_unwind(AssertUnwindSafe(|| read(&inner, &Reads { db: &db, journal: &inner.journal })));
            let doubt = db.doubt();
            inner.views.release(db);
            let result = read.unwrap_or_else(|_| Err(view_error("reading it panicked; the log says where")));
            inner.doubt(&result, &doubt);
            result
        });
        let mut done = pin!(done);
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut done).await {
                Ok(result) => return result,
                // Its thread is left behind.
                Err(_) if self.inner.views.stuck().is_some() => return Err(no_answer()),
                Err(_) => {}
            }
        }
    }

    /// Looks something up: in the views on disk, and where they fail, do not answer or lag, in rows made in memory from
    /// the journal. Nothing that the journal knows waits for sled.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl Fn(&Inner, &Reads<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let look = Arc::new(look);
        let on_disk = Arc::clone(&look);
        let reads_from_journal = self.inner.reads_from_journal();
        let patience = if reads_from_journal { LITTLE_PATIENCE } else { PATIENCE };
        let read = self.read_within(patience, move |inner, reads| on_disk(inner, reads));
        match read.await {
            Err(error) if self.inner.is_of_views(&error) => self.read_from_journal(look).await,
            result => {
                if let Ok(mut rows) = self.inner.journal_rows.try_lock() {
                    let _unused = rows.take_if(|rows| rows.used.elapsed() >= ROWS_KEPT);
                    if reads_from_journal {
                        self.inner.reads_from_journal.store(false, Ordering::Release);
                        tracing::info!("the views answer again");
                    }
                }
                result
            }
        }
    }

    async fn read_from_journal<T: Send + 'static>(
        &self,
        look: Arc<impl Fn(&Inner, &Reads<'_>) -> Result<T, StoreError> + Send + Sync + 'static>,
    ) -> Result<T, StoreError> {
        // One at a time: they are made while the first one looks.
        let mut kept = self.inner.journal_rows.clone().lock_owned().await;
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || {
            if !inner.reads_from_journal.swap(true, Ordering::AcqRel) {
                tracing::warn!("the views do not respond; their data is read from the journal until they do");
            }
            let rows = kept.get_or_insert_with(|| JournalRows::new(&Layout::of(&inner.options.dir).journal));
            let tail = inner.durable().tail;
            let error = match rows.up_to(&tail) {
                Ok(db) => return look(&inner, &Reads { db, journal: &inner.journal }),
                Err(error) => error,
            };
            // Half applied, perhaps.
            *kept = None;
            Err(error)
        });
        done.await
            .unwrap_or_else(|_panic| Err(view_error("reading the journal panicked; the log says where")))
    }

    /// Reads the views on disk. `patience`: how long they may lag, and be busy.
    async fn read_within<T: Send + 'static>(
        &self,
        patience: Duration,
        read: impl FnOnce(&Inner, &Reads<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.inner.views.stuck().is_some() {
            return Err(no_answer());
        }
        let ready = async {
            let reader = self.inner.readers.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
            let target = self.inner.durable().tail.n;
            self.settle_to(target).await?;
            Ok((reader, self.inner.views.db_at(target)?))
        };
        let (reader, db) =
            tokio::time::timeout(patience, ready).await.unwrap_or_else(|_| Err(no_answer()))?;
        let doubt = db.doubt();
        let inner = self.inner.clone();
        let mut done = tokio::task::spawn_blocking(move || {
            let _reader = reader;
            let result = read(&inner, &Reads { db: &db, journal: &inner.journal });
            inner.views.release(db);
            result
        });
        let result = loop {
            match tokio::time::timeout(LOOK_EVERY, &mut done).await {
                Ok(Ok(result)) => break result,
                Ok(Err(_panic)) => break Err(view_error("reading it panicked; the log says where")),
                // Its thread is left behind.
                Err(_) if self.inner.views.stuck().is_some() => return Err(no_answer()),
                Err(_) => {}
            }
        };
        self.inner.doubt(&result, &doubt);
        result
    }
}

/// What sled is said to do when it is not waited for any longer.
fn no_answer() -> StoreError {
    view_error("it does not answer")
}

/// A part of the store that is stuck in a call into the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    pub part: StuckPart,
    pub lasts: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckPart {
    Journal,
    Views,
    Index,
}

impl Stuck {
    /// Whether it has lasted so long (30 s) that only ending the process helps.
    pub fn is_given_up(&self) -> bool {
        self.lasts >= GIVEN_UP
    }

    /// The error to show as the store's trouble.
    pub fn error(&self) -> StoreError {
        let message = format!("the disk has not answered for {} s", self.lasts.as_secs());
        match self.part {
            StuckPart::Journal => StoreError::Io { action: "write", path: "the journal".to_owned(), message },
            StuckPart::Views => view_error(message),
            StuckPart::Index => StoreError::View { view: "index", message },
        }
    }
}

impl Inner {
    /// Why the journal cannot be written. A disk that was full is tried at a pace of its own, and a database with each renewal
    /// of the lease, so that it is told without anybody who writes that all is well again.
    fn trouble(&self) -> Option<StoreError> {
        let of_lease = self.lease.get().and_then(|lease| lease.state().borrow().error.clone());
        let Some(trouble) = self.appender.trouble() else { return of_lease };
        let is_over = match trouble {
            StoreError::DiskFull { .. } => self.may_try_room() && has_room(&self.options.dir).is_ok(),
            StoreError::Database { .. } => of_lease.is_none() && self.may_try_room(),
            _ => false,
        };
        if is_over {
            self.appender.forget_trouble();
            return None;
        }
        Some(trouble)
    }

    /// Whether the disk may be tried now; the next time is a while after.
    fn may_try_room(&self) -> bool {
        let mut tried = self.room_tried.lock();
        let may = tried.is_none_or(|at| at.elapsed() >= ROOM_EVERY);
        if may {
            *tried = Some(Instant::now());
        }
        may
    }

    /// Whether the views on disk are why something could not be read.
    fn is_of_views(&self, error: &StoreError) -> bool {
        match error {
            StoreError::View { view, .. } => *view == SLED,
            StoreError::DiskFull { .. } => true,
            StoreError::Closed => false,
            _ => !self.views.are_open(),
        }
    }

    /// The database whose journal this node writes, and by which lease; `None`: the journal is in the state folder.
    pub(crate) fn leading(&self) -> Option<(&Arc<Database>, &Lease)> {
        Some((self.database.as_ref()?, &**self.lease.get()?))
    }

    /// Whether reads come from the journal, since the views on disk do not answer.
    pub(crate) fn reads_from_journal(&self) -> bool {
        self.reads_from_journal.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> Durable {
        *self.appender.durable().borrow()
    }

    /// Has rows that turned out to be wrong opened again through the checks.
    fn doubt<T>(&self, result: &Result<T, StoreError>, doubt: &Doubt) {
        // What is wrong with the search index says nothing of the rows.
        if let Err(StoreError::View { view: SLED, .. }) = result {
            doubt.store(true, Ordering::Release);
            self.views.wake(&self.commands);
        }
    }

    /// Whether work over whole segments may go on.
    pub(crate) fn goes_on(&self) -> Result<(), StoreError> {
        if self.closing.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// The lock of the state folder, for work over whole segments that a close may not wait out: nobody else opens the
    /// store before it has ended. `None`: it is closed.
    pub(crate) fn state_lock(&self) -> Option<Arc<StateLock>> {
        self.lock.lock().clone()
    }

    /// Ends the index before the views that it reads. A thread that is gone already gets no message. False: one does not
    /// end in time.
    fn end_threads(&self) -> bool {
        self.index.end();
        self.ends_embedding.store(true, Ordering::Release);
        let _ = self.to_embed.try_send(());
        // One that has its queue full sees that it is to end before it takes the next task.
        let _ = self.tasks.try_send(Task::Close);
        let indexer = self.indexer.lock().take();
        let index_ended = indexer.is_none_or(ends_in_time);
        let _ = self.commands.send(Command::Close);
        let threads: Vec<_> = self.threads.lock().drain(..).collect();
        threads.into_iter().fold(index_ended, |all, thread| ends_in_time(thread) && all)
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

/// Waits for the end of a thread. One that does not end is left behind.
fn ends_in_time(thread: JoinHandle<()>) -> bool {
    let (tell, ended) = sync_channel(1);
    let join = move || {
        // Nobody waits any more: no error.
        let _ = tell.send(thread.join().is_err());
    };
    if let Err(error) = std::thread::Builder::new().name("join".to_owned()).spawn(join) {
        tracing::warn!(%error, "cannot wait for a thread of the store");
        return false;
    }
    match ended.recv_timeout(THREAD_PATIENCE) {
        Ok(panicked) => {
            if panicked {
                tracing::error!("a thread of the store panicked");
            }
            true
        }
        Err(_) => false,
    }
}
