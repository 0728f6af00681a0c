//! The views as readers and the index see them, while one thread writes them and may close and reopen sled beneath.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use cairn_core::conversation::Outline;
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::memory::Reach;
use cairn_types::ports::StoreError;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::changed::{Changed, ChangedMemories, ChangedMemory};
use super::codec::view_error;
use super::db::Db;
use super::opening;
use super::rows::Meta;
use super::vectors::{Vector, VectorState};

use crate::files::disk::Calls;

/// A call into sled that lasts longer is not waited for.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

/// A request to the thread that writes the views.
pub(crate) enum Command {
    /// More of the journal is durable, or something is suspect.
    Wake,
    KeepSnapshot(Box<KeptSnapshot>),
    KeepVectors(Box<KeptVectors>),
    /// Copy the rows, whatever room their files take.
    #[cfg(test)]
    Shrink,
    /// Apply what is durable, flush, close sled, end.
    Close,
}

pub(crate) struct KeptSnapshot {
    pub(crate) channel: ChannelId,
    /// None: the last one stays.
    pub(crate) snapshot: Option<Vec<u8>>,
    pub(crate) outline: Outline,
    pub(crate) reply: oneshot::Sender<Result<(), StoreError>>,
}

pub(crate) struct KeptVectors {
    pub(crate) state: VectorState,
    pub(crate) vectors: Vec<(ChannelId, Vector)>,
    pub(crate) reply: SyncSender<Result<(), StoreError>>,
}

/// How far the journal is applied, for those who wait for it, with the rows that show it.
#[derive(Clone, Default)]
pub(crate) struct Applied {
    pub(crate) n: u64,
    pub(crate) quarantined: bool,
    /// Why nothing more is applied at present.
    pub(crate) error: Option<StoreError>,
    /// Nothing will be applied any more.
    pub(crate) closed: bool,
    /// None while they are closed.
    rows: Option<Arc<Db>>,
}

impl Applied {
    fn rows(&self) -> Result<Arc<Db>, StoreError> {
        self.rows.clone().ok_or_else(|| match &self.error {
            _ if self.closed => StoreError::Closed,
            Some(error) => error.clone(),
            None => view_error("it is being opened again"),
        })
    }
}

/// The views as readers see them: the applier may close and reopen sled beneath.
pub(crate) struct Views {
    pub(super) dir: PathBuf,
    pub(super) cache_bytes: u64,
    pub(super) applied: watch::Sender<Applied>,
    pub(super) changed: Mutex<ChangedMemories>,
    /// Nobody waits for the applier any more.
    pub(super) ending: AtomicBool,
    /// A wake-up waits for the applier: more of them would fill the queue, and keep snapshots out of it.
    pub(super) woken: AtomicBool,
    pub(super) calls: Arc<Calls>,
}

impl Views {
    /// Opens the views. Checks every row if there are at most `most_rows`. Views that are damaged, of another version or of
    /// another journal are moved aside and rebuilt from the journal. If sled fails or does not return, the views stay closed
    /// for now, and the applier keeps trying.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]: they are ahead of the journal, whose end is lost; they stay. Or the folder cannot be
    /// written, or the machine has no threads left.
    pub(crate) fn open(
        dir: &Path,
        cache_bytes: u64,
        most_rows: u64,
        journal: &Path,
    ) -> Result<(Self, Meta), StoreError> {
        let calls = Arc::default();
        let (of, from, known) = (dir.to_owned(), journal.to_owned(), Arc::clone(&calls));
        let open = move || opening::open(&of, cache_bytes, most_rows, &from, &known);
        let (rows, meta, error, calls) = match opening::in_time(dir, open) {
            Ok((db, meta)) => (Some(Arc::new(db)), meta, None, calls),
            // Whatever does not come back now is not what the process should be ended for: the next one would fare the same.
            Err(error @ StoreError::View { .. }) => {
                tracing::error!(%error, "the views cannot be opened; trying again; the journal is not affected");
                (None, Meta::default(), Some(error), Arc::default())
            }
            Err(error) => return Err(error),
        };
        let (n, quarantined) = (meta.n, meta.quarantined);
        let applied = Applied { n, quarantined, error, closed: false, rows };
        let (applied, _) = watch::channel(applied);
        let changed = Mutex::new(ChangedMemories::from(n));
        let (ending, woken) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok((Self { dir: dir.to_owned(), cache_bytes, applied, changed, ending, woken, calls }, meta))
    }

    /// Wakes the applier, unless it is about to wake.
    pub(crate) fn wake(&self, commands: &SyncSender<Command>) {
        if !self.woken.swap(true, Ordering::AcqRel) && commands.try_send(Command::Wake).is_err() {
            // It has so much before it that it looks at the journal again all the same.
            self.woken.store(false, Ordering::Release);
        }
    }

    /// Has the applier leave what it is at: the next start goes on from where it is.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// For how long sled has not come back from a call, where that is too long.
    pub(crate) fn stuck(&self) -> Option<Duration> {
        Some(self.calls.longest()).filter(|lasts| *lasts >= PATIENCE)
    }

    /// A call that lasts until the other end is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self, until: &std::sync::mpsc::Receiver<()>) {
        let _dropped = self.calls.within(|| until.recv());
    }

    /// Closes rows, which may take as long as any other call.
    pub(crate) fn release(&self, db: Arc<Db>) {
        self.calls.within(|| drop(db));
    }

    /// The open rows.
    pub(crate) fn db(&self) -> Result<Arc<Db>, StoreError> {
        self.applied.borrow().rows()
    }

    /// The rows, which show the journal up to that record. They stay what they are as long as they are held: others are
    /// opened in their place only then.
    ///
    /// # Errors
    /// They are closed, or they do not show as much: they were opened again since they were waited for.
    pub(crate) fn db_at(&self, n: u64) -> Result<Arc<Db>, StoreError> {
        let applied = self.applied.borrow();
        let rows = applied.rows()?;
        if applied.n >= n { Ok(rows) } else { Err(view_error("it is being made again")) }
    }

    pub(crate) fn are_open(&self) -> bool {
        self.applied.borrow().rows.is_some()
    }

    /// Watches how far the journal is applied.
    pub(crate) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.subscribe()
    }

    /// Lets readers have rows, with how far they are.
    pub(super) fn show(&self, db: Db, meta: &Meta) {
        let (n, quarantined, rows) = (meta.n, meta.quarantined, Some(Arc::new(db)));
        *self.changed.lock() = ChangedMemories::from(n);
        let _closed_before =
            self.applied.send_replace(Applied { n, quarantined, rows, ..Applied::default() });
    }

    pub(super) fn publish(&self, meta: &Meta, changed: Vec<ChangedMemory>) {
        // First: whoever has waited for these rows asks next.
        self.changed.lock().note(meta.n, changed);
        self.applied.send_modify(|applied| {
            applied.n = meta.n;
            applied.quarantined = meta.quarantined;
            applied.error = None;
        });
    }

    /// The record from which on changes of memories are known.
    pub(crate) fn changes_known_from(&self) -> u64 {
        self.changed.lock().known_from()
    }

    /// These changed behind that record, up to the one from which on changes were known when they were looked for.
    pub(crate) fn know_changed_memories(&self, from: u64, changed: Vec<(u64, ChangedMemory)>, upto: u64) {
        self.changed.lock().know(from, changed, upto);
    }

    /// The memories that changed since the index was committed and may be within reach.
    pub(crate) fn changed_memories(&self, agents: &[AgentId], reach: &[Reach]) -> Changed {
        self.changed.lock().within(agents, reach)
    }

    /// The search index shows what changed up to that record.
    pub(crate) fn forget_changed_memories(&self, upto: u64) {
        self.changed.lock().forget(upto);
    }

    /// Lets readers have the same rows from elsewhere. Returns those that they had, which some may hold a little longer.
    pub(super) fn replace(&self, db: Db) -> Option<Arc<Db>> {
        let mut replaced = None;
        self.applied.send_modify(|applied| replaced = applied.rows.replace(Arc::new(db)));
        replaced
    }

    /// Takes the rows from the readers, who may hold them a little longer.
    pub(super) fn take(&self, error: Option<StoreError>, closed: bool) -> Option<Arc<Db>> {
        let mut taken = None;
        self.applied.send_modify(|applied| {
            taken = applied.rows.take();
            applied.error = error;
            applied.closed = closed;
        });
        taken
    }
}
