//! Retention of the journal: old segments compressed, and words taken out of them, while everything goes on.
//!
//! Places in a segment stay as they are: whoever has one open reads on, whoever opens one reads the other.

mod rewrite;
mod words;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cairn_core::event::Record;
use cairn_core::ports::StoreError;
use cairn_core::retention::SegmentFacts;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use crate::journal::line;
use crate::journal::rewrite::records;
use crate::journal::segment::{self, Lines, Piece};
use crate::store::{Inner, Layout, Store};
use crate::views::codec::view_error;

pub use words::{Expired, Needs};

/// What writing segments again did, or would do, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrunk {
    pub segments: u64,
    /// Bytes that they took.
    pub bytes_before: u64,
    /// Bytes that they take now, or would take.
    pub bytes_after: u64,
    /// Segments that could not be rewritten, and are as before: the log says which and why.
    #[serde(default)]
    pub failed: u64,
}

impl Store {
    /// The journal's segments, in their order.
    ///
    /// # Errors
    /// The journal's folder cannot be read.
    pub async fn segments(&self) -> Result<Vec<SegmentFacts>, StoreError> {
        let tail = self.inner.appender.durable().borrow().tail;
        let inner = self.inner.clone();
        blocking(move || {
            let dir = Layout::of(&inner.options.dir).journal;
            let firsts = segment::list(&dir)?;
            let facts = |(idx, first): (usize, &u64)| {
                let path = segment::path(&dir, *first);
                let next = firsts.get(idx + 1);
                Ok(SegmentFacts {
                    first: *first,
                    closed_at: next.and_then(|next| begun_at(&segment::path(&dir, *next))),
                    is_open: *first >= tail.segment,
                    bytes: segment::bytes(&path)?,
                    is_packed: !path.exists(),
                    is_spent: inner.spent.lock().contains(first),
                })
            };
            firsts.iter().enumerate().map(facts).collect()
        })
        .await
    }

    /// Compresses a closed segment. A backup and an erasure wait meanwhile, and nothing else does. `dry_run`: only says
    /// what it would come to.
    ///
    /// # Errors
    /// It cannot be read or written; it stays as it was.
    pub async fn compress_segment(&self, first: u64, dry_run: bool) -> Result<Shrunk, StoreError> {
        let lease = self.lease().await?;
        let inner = self.inner.clone();
        blocking(move || {
            let (_lease, _lock) = (lease, inner.state_lock().ok_or(StoreError::Closed)?);
            let segment = Closed::of(&inner, first)?;
            if !segment.path.exists() {
                return Ok(Shrunk::default());
            }
            let shrunk = rewrite::pack(&segment, dry_run, &mut |_, _| inner.goes_on().map(|()| None));
            inner.journal.forget(first);
            shrunk
        })
        .await
    }
}

impl Store {
    /// The lease, unless an erasure was asked for, which writes all segments again itself.
    async fn lease(&self) -> Result<OwnedMutexGuard<()>, StoreError> {
        let lease = self.maintenance().await?;
        if self.inner.erasing.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(lease) }
    }
}

#[derive(Debug)]
struct Closed {
    dir: PathBuf,
    path: PathBuf,
    /// Numbers of its first and last record.
    first: u64,
    last: u64,
}

impl Closed {
    fn of(inner: &Inner, first: u64) -> Result<Self, StoreError> {
        let dir = Layout::of(&inner.options.dir).journal;
        let path = segment::path(&dir, first);
        let next = segment::list(&dir)?.into_iter().find(|next| *next > first);
        let next = next.ok_or_else(|| StoreError::Io {
            action: "rewrite",
            path: path.display().to_string(),
            message: "it is not closed".to_owned(),
        })?;
        Ok(Self { dir, path, first, last: next - 1 })
    }

    /// Hands every record to `each`, with its line.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] unless all of it is there, in order, as it was written.
    fn records(&self, each: impl FnMut(Record, &[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let last = records(&self.path, self.first, None, each)?;
        if last == self.last {
            return Ok(());
        }
        let missing = format!("records {} to {} are missing", last + 1, self.last);
        Err(segment::damaged(&self.path, 0, missing))
    }
}

/// When the first record of a segment was journalled.
fn begun_at(path: &Path) -> Option<Timestamp> {
    let mut lines = Lines::open(path, 0, None).ok()?;
    match lines.next().ok()? {
        Piece::Line { bytes, .. } => Some(line::parse(bytes).ok()?.at),
        Piece::Torn { .. } | Piece::End => None,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(view_error(format!("retention failed: {error}"))))
}
