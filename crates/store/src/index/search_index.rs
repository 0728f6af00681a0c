//! The index as searches see it: what is open, how far it reaches, and how it is opened or rebuilt.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_types::ports::StoreError;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tantivy::directory::MmapDirectory;
use tantivy::directory::error::OpenReadError;
use tantivy::{Index, IndexReader, ReloadPolicy, Searcher, TantivyError};

use super::schema::{Fields, WORDS, Words};
use crate::files::disk::{Calls, make_dir, remove_dir};
use crate::journal::open::{Checkpoint, holds};
use crate::journal::segment::Position;
use crate::views::db::is_of_the_machine;

/// Version of the documents; an index of another version is made again.
pub(super) const FORMAT: u32 = 5;

/// What is said last is taken in at the end, if that takes no longer.
const END_LIMIT: Duration = Duration::from_millis(500);

/// What is open, as it was committed last.
#[derive(Clone)]
pub(super) struct OpenIndex {
    pub(super) directory: MmapDirectory,
    pub(super) index: Index,
    pub(super) reader: IndexReader,
    pub(super) searcher: Searcher,
    /// The last record up to which it shows how memories changed: they come first when much is lacking.
    pub(super) has_memories_to: u64,
    /// It has no memory that was made by a later record.
    pub(super) has_none_made_after: u64,
}

impl OpenIndex {
    pub(super) fn note_memories(&mut self, n: u64) {
        self.has_memories_to = self.has_memories_to.max(n);
        self.has_none_made_after = self.has_none_made_after.max(n);
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) format: u32,
    pub(super) n: u64,
    pub(super) at: (u64, u64, u32),
    /// It has no memory that was made by a later record, where that is more.
    #[serde(default)]
    pub(super) none_made_after: u64,
}

impl Payload {
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let (segment, offset, len) = self.at;
        Checkpoint { n: self.n, position: Position { segment, offset, len } }
    }
}

/// Up to where the index in that folder reaches, by what its last commit says: 0, when there is none, or what it says
/// cannot be read.
pub(crate) fn reach(dir: &Path) -> Checkpoint {
    /// Of tantivy's file what a commit was given.
    #[derive(Deserialize)]
    struct Commit {
        payload: String,
    }
    let bytes = std::fs::read(dir.join("meta.json")).unwrap_or_default();
    let commit: Option<Commit> = serde_json::from_slice(&bytes).ok();
    let payload: Option<Payload> = commit.and_then(|commit| serde_json::from_str(&commit.payload).ok());
    payload.map(|payload| payload.checkpoint()).unwrap_or_default()
}

/// The index as searches see it: the indexer may make it again beneath.
pub(crate) struct SearchIndex {
    pub(super) dir: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) fields: Fields,
    pub(super) open: RwLock<Option<OpenIndex>>,
    /// The last record whose words can be found.
    pub(super) reaches: AtomicU64,
    /// One of its files is known to be damaged: the indexer makes it again.
    pub(super) doubt: AtomicBool,
    /// When the indexer is to end, at the latest.
    pub(super) ends_at: RwLock<Option<Instant>>,
    pub(crate) calls: Calls,
}

impl SearchIndex {
    /// The index in that folder, with how far it reaches; one that is damaged, of another version or ahead of the journal
    /// is made again. One that cannot be opened now is tried again by the indexer: until then nothing is found. `most_bytes`:
    /// checksums are looked at where it is not larger.
    pub(crate) fn open(dir: &Path, journal: &Path, most_bytes: u64) -> (Self, Option<Checkpoint>) {
        let fields = Fields::new();
        let index = Self {
            dir: dir.to_owned(),
            journal: journal.to_owned(),
            fields,
            open: RwLock::default(),
            reaches: AtomicU64::new(0),
            doubt: AtomicBool::new(false),
            ends_at: RwLock::default(),
            calls: Calls::default(),
        };
        let opened = index.calls.within(|| index.reopen(most_bytes));
        if let Err(error) = &opened {
            tracing::error!(%error, "the search index cannot be opened; trying again; nothing else is affected");
        }
        (index, opened.ok())
    }

    /// The last record whose words can be found.
    pub(crate) fn reaches(&self) -> u64 {
        self.reaches.load(Ordering::Acquire)
    }

    /// The last record up to which it shows how memories changed.
    pub(crate) fn has_memories_to(&self) -> u64 {
        self.open.read().as_ref().map_or(0, |opened| opened.has_memories_to)
    }

    /// It shows how memories changed up to that record.
    pub(super) fn note_memories(&self, n: u64) {
        if let Some(opened) = &mut *self.open.write() {
            opened.note_memories(n);
        }
    }

    /// Has searches see what was committed.
    pub(super) fn reload(&self, has_memories_to: u64, none_made_after: u64) -> Result<(), StoreError> {
        let OpenIndex { directory, reader, .. } = self.parts()?;
        reader.reload().map_err(|error| index_error(&error))?;
        forget_removed_files(&directory);
        // Together: a question must know what it sees.
        if let Some(opened) = &mut *self.open.write() {
            opened.searcher = reader.searcher();
            opened.has_none_made_after = opened.has_none_made_after.max(none_made_after);
            opened.note_memories(has_memories_to);
        }
        Ok(())
    }

    /// Has the indexer leave what it is at after a moment: the next start goes on from the last commit.
    pub(crate) fn end(&self) {
        *self.ends_at.write() = Some(Instant::now() + END_LIMIT);
    }

    /// Whether work on it may go on.
    pub(super) fn goes_on(&self) -> Result<(), StoreError> {
        let is_over = self.ends_at.read().is_some_and(|at| Instant::now() >= at);
        if is_over { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Opens what is there, or makes it again. What was open answers until then.
    pub(super) fn reopen(&self, most_bytes: u64) -> Result<Checkpoint, StoreError> {
        let (opened, at) = match self.try_open(most_bytes) {
            Ok(Some((opened, at))) if holds(&self.journal, &at) => (opened, at),
            Ok(None) => (self.fresh()?, Checkpoint::default()),
            Ok(Some((_, at))) => {
                tracing::warn!(
                    reaches = at.n,
                    "the search index has records that the journal lacks; rebuilding it"
                );
                (self.fresh()?, Checkpoint::default())
            }
            // Nothing is wrong with its files.
            Err(error @ StoreError::Io { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the search index is damaged; rebuilding it from the journal");
                (self.fresh()?, Checkpoint::default())
            }
        };
        self.show(opened, at.n);
        Ok(at)
    }

    /// Replaces a damaged index by an empty one.
    pub(super) fn remake(&self) -> Result<Checkpoint, StoreError> {
        tracing::warn!("the search index is damaged; rebuilding it from the journal");
        let opened = self.fresh()?;
        self.show(opened, 0);
        Ok(Checkpoint::default())
    }

    pub(super) fn show(&self, opened: OpenIndex, n: u64) {
        // Whoever still has what was open before, and sees that it reaches nothing, asks elsewhere.
        self.reaches.store(0, Ordering::Release);
        *self.open.write() = Some(opened);
        self.reaches.store(n, Ordering::Release);
    }

    /// The files of the index that is open.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let index = self.parts()?.index;
        let metas = index.load_metas().map_err(|error| index_error(&error))?;
        let there = index.directory().list_managed_files();
        Ok(metas.list_segment_files().into_iter().filter(|file| there.contains(file)).collect())
    }

    /// Whether the checksum of a file is right; one that a merge has removed meanwhile is.
    pub(crate) fn is_sound(&self, file: &Path) -> Result<bool, StoreError> {
        match self.parts()?.index.directory().validate_checksum(file) {
            Ok(is_sound) => Ok(is_sound),
            Err(OpenReadError::FileDoesNotExist(_)) => Ok(true),
            Err(error) => match index_error(&error.into()) {
                // The machine has no more of something: that says nothing of the file.
                error @ StoreError::Io { .. } => Err(error),
                _ => Ok(false),
            },
        }
    }

    /// Has the indexer make it again when it is woken.
    pub(crate) fn doubt(&self) {
        self.doubt.store(true, Ordering::Release);
    }

    /// Bytes of its files.
    pub(super) fn bytes(&self) -> u64 {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    pub(super) fn try_open(&self, most_bytes: u64) -> Result<Option<(OpenIndex, Checkpoint)>, StoreError> {
        if !self.dir.join("meta.json").exists() {
            return Ok(None);
        }
        let directory = self.directory()?;
        let index = Index::open(directory.clone()).map_err(|error| index_error(&error))?;
        let metas = index.load_metas().map_err(|error| index_error(&error))?;
        let Some(payload) = metas.payload else { return Ok(None) };
        let payload: Payload =
            serde_json::from_str(&payload).map_err(|error| index_failure(error.to_string()))?;
        if payload.format != FORMAT || index.schema() != self.fields.schema {
            return Err(index_failure("it was written by another version"));
        }
        if self.bytes() <= most_bytes {
            let damaged = index.validate_checksum().map_err(|error| index_error(&error))?;
            if !damaged.is_empty() {
                return Err(index_failure(format!("{} of its files have a wrong checksum", damaged.len())));
            }
        }
        let opened = with_reader(directory, index, payload.n, payload.none_made_after)?;
        Ok(Some((opened, payload.checkpoint())))
    }

    pub(super) fn fresh(&self) -> Result<OpenIndex, StoreError> {
        remove_dir(&self.dir)?;
        make_dir(&self.dir)?;
        let (directory, schema) = (self.directory()?, self.fields.schema.clone());
        let index = Index::open_or_create(directory.clone(), schema).map_err(|error| index_error(&error))?;
        with_reader(directory, index, 0, 0)
    }

    pub(super) fn directory(&self) -> Result<MmapDirectory, StoreError> {
        MmapDirectory::open(&self.dir).map_err(|error| index_error(&error.into()))
    }

    pub(super) fn parts(&self) -> Result<OpenIndex, StoreError> {
        self.open.read().clone().ok_or_else(|| index_failure("it cannot be opened; the log says why"))
    }
}

/// tantivy 0.27 remembers each file that it ever mapped, some hundred bytes of it, until it is asked which it holds.
pub(super) fn forget_removed_files(directory: &MmapDirectory) {
    drop(directory.get_cache_info());
}

pub(super) fn with_reader(
    directory: MmapDirectory,
    index: Index,
    has_memories_to: u64,
    none_made_after: u64,
) -> Result<OpenIndex, StoreError> {
    index.tokenizers().register(WORDS, Words);
    let builder = index.reader_builder().reload_policy(ReloadPolicy::Manual).doc_store_cache_num_blocks(8);
    let reader: IndexReader = builder.try_into().map_err(|error| index_error(&error))?;
    let searcher = reader.searcher();
    let has_none_made_after = has_memories_to.max(none_made_after);
    Ok(OpenIndex { directory, index, reader, searcher, has_memories_to, has_none_made_after })
}

pub(super) fn index_error(error: &TantivyError) -> StoreError {
    let of_the_system = match error {
        TantivyError::IoError(error) => Some(error),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) => Some(io_error),
        _ => None,
    };
    match of_the_system {
        Some(error) if is_of_the_machine(error) => {
            StoreError::Io { action: "open", path: "the search index".to_owned(), message: error.to_string() }
        }
        _ => index_failure(error.to_string()),
    }
}

pub(super) fn index_failure(message: impl Into<String>) -> StoreError {
    StoreError::View { view: "index", message: message.into() }
}

/// What is found of old entries whose lines are damaged is left out, and told: that some cannot be read must not keep all
/// others from being found. `None`: it cannot be read.
pub(super) fn readable<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error @ (StoreError::Damaged { .. } | StoreError::Io { .. })) => {
            tracing::warn!(%error,
                "an entry cannot be read; the search skips it; `cairn store verify` shows details");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
