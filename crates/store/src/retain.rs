//! Retention: old segments compressed, while everything goes on.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_core::ports::StoreError;
use cairn_core::retention::RetentionSettings;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::{io_error, sync_dir};
use crate::journal::line;
use crate::journal::rewrite::Sink;
use crate::journal::segment::{self, Lines, Piece, SegmentFile};
use crate::store::{Layout, Store};
use crate::views::codec::view_error;

/// What compressing segments did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compressed {
    /// Segments.
    pub segments: u64,
    /// Bytes that they took.
    pub bytes_before: u64,
    /// Bytes that they take now; when nothing was done, those that they take.
    pub bytes_after: u64,
    /// Segments that could not be compressed, and are as before: the log says which and why.
    #[serde(default)]
    pub failed: u64,
    /// First number of the last segment that was looked at: where the next call goes on.
    #[serde(skip)]
    pub upto: u64,
}

impl Store {
    /// Compresses the journal's closed segments that are old enough, so many of them at most. Places in them stay as they are: whoever has one open
    /// reads on, whoever opens one reads the other. A backup and an erasure wait meanwhile, and nothing else does.
    ///
    /// One that cannot be read or written stays as before, and the others do not wait for it.
    ///
    /// # Errors
    /// The journal's folder cannot be read.
    pub async fn compress(
        &self,
        settings: RetentionSettings,
        now: Timestamp,
        dry_run: bool,
        limit: u64,
    ) -> Result<Compressed, StoreError> {
        self.compress_after(0, settings, now, dry_run, limit).await
    }

    /// The same for segments behind the one that begins with record `after`.
    ///
    /// # Errors
    /// The journal's folder cannot be read.
    pub async fn compress_after(
        &self,
        after: u64,
        settings: RetentionSettings,
        now: Timestamp,
        dry_run: bool,
        limit: u64,
    ) -> Result<Compressed, StoreError> {
        let held = self.maintenance().await;
        let tail = self.inner.appender.durable().borrow().tail;
        let dir = Layout::of(&self.inner.options.dir).journal;
        let work = move || {
            let _held = held;
            let segments = segment::list(&dir)?;
            let mut done = Compressed::default();
            for (idx, first) in
                segments.iter().enumerate().filter(|(_, first)| **first > after && **first < tail.segment)
            {
                let next = segments.get(idx + 1);
                let closed_at = next.and_then(|next| begun_at(&segment::path(&dir, *next)));
                let path = segment::path(&dir, *first);
                if done.segments == limit {
                    break;
                }
                if !settings.compresses(closed_at, now) || !path.exists() {
                    continue;
                }
                done.upto = *first;
                match compress_one(&dir, &path, dry_run) {
                    Ok((before, after)) => {
                        done.segments += 1;
                        done.bytes_before += before;
                        done.bytes_after += after;
                    }
                    Err(error) => {
                        done.failed += 1;
                        tracing::error!(%error, file = %path.display(), "a segment could not be compressed; it stays as it is");
                    }
                }
            }
            Ok(done)
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(view_error(format!("compressing failed: {error}"))))
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

/// Bytes of a segment before and after it is compressed. What was written of one that cannot be is removed.
fn compress_one(dir: &Path, path: &Path, dry_run: bool) -> Result<(u64, u64), StoreError> {
    let before = path.metadata().map_err(io_error("read", path))?.len();
    if dry_run {
        return Ok((before, before));
    }
    let packed = pack(dir, path);
    if packed.is_err() {
        let _ = fs::remove_file(beside(path));
    }
    Ok((before, packed?))
}

/// Where it is written.
fn beside(path: &Path) -> PathBuf {
    segment::packed_path(path).with_extension("gz.new")
}

/// Compresses a segment: written beside it and made durable, read back, then put in its place. Damaged lines stay as they
/// are. Returns the bytes that it takes now.
fn pack(dir: &Path, path: &Path) -> Result<u64, StoreError> {
    let packed = segment::packed_path(path);
    let beside = beside(path);
    let fail = io_error("write", &beside);
    let mut out = Sink::create(&beside, true).map_err(&fail)?;
    let mut lines = Lines::open(path, 0, None)?;
    let mut buffer = Vec::new();
    loop {
        match lines.next()? {
            Piece::End => break,
            Piece::Torn { offset } => return Err(segment::damaged(path, offset, "it has no end")),
            Piece::Line { bytes, .. } => {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                buffer.push(b'\n');
                out.line(&buffer).map_err(&fail)?;
            }
        }
    }
    out.finish().map_err(&fail)?;
    if !reads_alike(path, &beside)? {
        return Err(StoreError::Io {
            action: "compress",
            path: path.display().to_string(),
            message: "what was written does not read back; the segment stays as it is".to_owned(),
        });
    }
    fs::rename(&beside, &packed).map_err(io_error("rename", &beside))?;
    sync_dir(dir).map_err(io_error("sync", dir))?;
    fs::remove_file(path).map_err(io_error("remove", path))?;
    sync_dir(dir).map_err(io_error("sync", dir))?;
    Ok(packed.metadata().map_err(io_error("read", &packed))?.len())
}

fn reads_alike(plain: &Path, packed: &Path) -> Result<bool, StoreError> {
    let (a, b) = (
        SegmentFile::open(plain).map_err(io_error("open", plain))?,
        SegmentFile::open_packed(packed).map_err(io_error("open", packed))?,
    );
    let (mut at, mut left, mut right) = (0, vec![0; 256 * 1024], vec![0; 256 * 1024]);
    let len = a.len().map_err(io_error("read", plain))?;
    if b.len().map_err(io_error("read", packed))? != len {
        return Ok(false);
    }
    while at < len {
        let n = left.len().min((len - at) as usize);
        a.read_exact_at(&mut left[..n], at).map_err(io_error("read", plain))?;
        b.read_exact_at(&mut right[..n], at).map_err(io_error("read", packed))?;
        if left[..n] != right[..n] {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}
