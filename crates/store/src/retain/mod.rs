//! Retention of the journal: old segments compressed, and words taken out of them, while everything goes on.
//!
//! Places in a segment stay as they are: whoever has one open reads on, whoever opens one reads the other.

mod rewrite;
mod words;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::Path;

use cairn_core::ports::StoreError;
use cairn_core::retention::SegmentFacts;

use crate::disk::io_error;
use crate::journal::line;
use crate::journal::segment::{self, Lines, Piece};
use crate::store::{Layout, Store};
use crate::views::codec::view_error;

pub use words::{Expired, Needs};

/// What writing segments anew did, or would do, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrunk {
    /// Segments.
    pub segments: u64,
    /// Bytes that they took.
    pub bytes_before: u64,
    /// Bytes that they take now, or would take.
    pub bytes_after: u64,
    /// Segments that could not be written anew, and are as before: the log says which and why.
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
                let file = segment::file_of(&path);
                let next = firsts.get(idx + 1);
                Ok(SegmentFacts {
                    first: *first,
                    closed_at: next.and_then(|next| begun_at(&segment::path(&dir, *next))),
                    is_open: *first >= tail.segment,
                    bytes: file.metadata().map_err(io_error("read", &file))?.len(),
                    is_packed: file != path,
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
        let held = self.maintenance().await;
        let inner = self.inner.clone();
        blocking(move || {
            let (_held, _lock) = (held, inner.state_lock().ok_or(StoreError::Closed)?);
            let dir = Layout::of(&inner.options.dir).journal;
            let path = segment::path(&dir, first);
            if !path.exists() {
                return Ok(Shrunk::default());
            }
            let shrunk = rewrite::pack(&dir, &path, dry_run, &mut |_| Ok(None));
            inner.journal.forget(first);
            shrunk
        })
        .await
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
