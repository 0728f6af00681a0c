//! Whether the disk has room for what an erasure writes.

use std::path::Path;

use cairn_types::ports::StoreError;

use crate::files::disk::{Layout, entries};
use crate::journal::segment;

/// Bytes that an erasure writes beside the journal.
const MARGIN_BYTES: u64 = 1024 * 1024;

/// Free bytes on the disk of a folder; unlimited when unknown.
pub(super) fn free(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Checks that the journal fits a second time into `free` bytes.
pub(super) fn room_for_another(dir: &Path, free: u64) -> Result<(), StoreError> {
    let journal = Layout::of(dir).journal;
    let mut bytes = MARGIN_BYTES;
    for first in segment::list(&journal)? {
        bytes += segment::bytes(&segment::path(&journal, first))?;
    }
    if bytes <= free {
        return Ok(());
    }
    tracing::warn!(needed = bytes, free, "there is no room to rewrite the journal");
    Err(StoreError::DiskFull { path: journal.display().to_string() })
}

/// Whether journal, views and index fit on the disk a second time.
pub(super) fn has_room(dir: &Path) -> Result<bool, StoreError> {
    let layout = Layout::of(dir);
    let mut bytes = MARGIN_BYTES;
    for folder in [&layout.journal, &layout.views, &layout.index] {
        bytes += bytes_below(folder)?;
    }
    Ok(bytes <= free(dir))
}

fn bytes_below(dir: &Path) -> Result<u64, StoreError> {
    entries(dir)?.iter().try_fold(0, |bytes, path| {
        // One that a merge has removed takes nothing.
        let Ok(there) = path.metadata() else { return Ok(bytes) };
        Ok(bytes + if there.is_dir() { bytes_below(path)? } else { there.len() })
    })
}
