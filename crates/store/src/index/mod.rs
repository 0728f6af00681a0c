//! The search index: tantivy over entries, summaries and memories. Derived from journal and views, rebuildable.

mod docs;
mod indexer;
mod recent;
mod schema;
mod score;
mod search;

use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tantivy::directory::MmapDirectory;
use tantivy::{Index, IndexReader, ReloadPolicy};

pub(crate) use indexer::{Indexer, Task};
use schema::Fields;

use crate::disk::{make_dir, remove_dir};
use crate::journal::open::{Checkpoint, holds};
use crate::journal::segment::Position;

/// Version of the documents; an index of another version is made anew.
const FORMAT: u32 = 1;

/// An index with what reads it.
type Opened = (Index, IndexReader);

/// What a commit says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Payload {
    format: u32,
    n: u64,
    at: (u64, u64, u32),
}

impl Payload {
    fn checkpoint(&self) -> Checkpoint {
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

/// The index as searches see it: the indexer may make it anew beneath.
pub(crate) struct SearchIndex {
    dir: PathBuf,
    journal: PathBuf,
    heap_bytes: usize,
    fields: Fields,
    open: RwLock<Option<Opened>>,
}

impl SearchIndex {
    /// The index in that folder; one that is damaged, of another version or ahead of the journal is made anew.
    /// Returns up to where it reaches.
    ///
    /// # Errors
    /// Not even a fresh one can be made.
    pub(crate) fn open(
        dir: &Path,
        journal: &Path,
        heap_bytes: usize,
    ) -> Result<(Self, Checkpoint), StoreError> {
        let fields = Fields::new();
        let index = Self {
            dir: dir.to_owned(),
            journal: journal.to_owned(),
            heap_bytes,
            fields,
            open: RwLock::default(),
        };
        let at = index.reopen()?;
        Ok((index, at))
    }

    /// Opens what is there, or makes it anew.
    fn reopen(&self) -> Result<Checkpoint, StoreError> {
        *self.open.write() = None;
        let (opened, at) = match self.try_open() {
            Ok(Some((opened, at))) if holds(&self.journal, &at) => (opened, at),
            Ok(None) => (self.fresh()?, Checkpoint::default()),
            Ok(Some((_, at))) => {
                tracing::warn!(
                    reaches = at.n,
                    "the journal does not have what the search index shows; making it anew"
                );
                (self.fresh()?, Checkpoint::default())
            }
            Err(error) => {
                tracing::warn!(%error, "the search index is damaged; making it anew from the journal");
                (self.fresh()?, Checkpoint::default())
            }
        };
        *self.open.write() = Some(opened);
        Ok(at)
    }

    fn try_open(&self) -> Result<Option<(Opened, Checkpoint)>, StoreError> {
        if !self.dir.join("meta.json").exists() {
            return Ok(None);
        }
        let index = Index::open_in_dir(&self.dir).map_err(|error| index_error(&error))?;
        let metas = index.load_metas().map_err(|error| index_error(&error))?;
        let Some(payload) = metas.payload else { return Ok(None) };
        let payload: Payload =
            serde_json::from_str(&payload).map_err(|error| index_failure(error.to_string()))?;
        if payload.format != FORMAT || index.schema() != self.fields.schema {
            return Err(index_failure("it was written by another version"));
        }
        let damaged = index.validate_checksum().map_err(|error| index_error(&error))?;
        if !damaged.is_empty() {
            return Err(index_failure(format!("{} of its files have a wrong checksum", damaged.len())));
        }
        Ok(Some((with_reader(index)?, payload.checkpoint())))
    }

    fn fresh(&self) -> Result<Opened, StoreError> {
        remove_dir(&self.dir)?;
        make_dir(&self.dir)?;
        let dir = MmapDirectory::open(&self.dir).map_err(|error| index_failure(error.to_string()))?;
        let index =
            Index::open_or_create(dir, self.fields.schema.clone()).map_err(|error| index_error(&error))?;
        with_reader(index)
    }

    fn parts(&self) -> Result<Opened, StoreError> {
        self.open.read().clone().ok_or_else(|| index_failure("it is being made anew"))
    }
}

fn with_reader(index: Index) -> Result<Opened, StoreError> {
    let builder = index.reader_builder().reload_policy(ReloadPolicy::Manual).doc_store_cache_num_blocks(8);
    let reader = builder.try_into().map_err(|error| index_error(&error))?;
    Ok((index, reader))
}

fn index_error(error: &tantivy::TantivyError) -> StoreError {
    index_failure(error.to_string())
}

fn index_failure(message: impl Into<String>) -> StoreError {
    StoreError::View { view: "index", message: message.into() }
}

/// What is found of old entries whose lines are damaged is left out, and told: that some cannot be read must not keep all
/// others from being found. `None`: it cannot be read.
fn readable<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error @ (StoreError::Damaged { .. } | StoreError::Io { .. })) => {
            tracing::warn!(%error, "an entry cannot be read; the search goes on without it, `cairn store verify` tells more");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
