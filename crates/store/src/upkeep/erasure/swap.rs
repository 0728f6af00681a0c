//! The end of an erasure: staged files replace the old ones, and everything else that may hold data of the person is removed.
//! After a crash it is done again.

use std::fs;
use std::path::Path;

use cairn_types::ports::StoreError;

use super::artifacts;
use super::request::{ErasureRequest, Step};
use crate::files::disk::{
    Layout, VERIFIED, entries, io_error, remove_any, remove_dir, remove_file, sync_dir,
};
use crate::journal::rewrite;

/// The folder of the state without the person.
pub(super) const BESIDE: &str = "erasing";

/// Puts what is staged in its place. To be called again after a crash in its midst.
pub(super) fn end(dir: &Path, prepared: bool, step: Step<'_>) -> Result<(), StoreError> {
    let layout = Layout::of(dir);
    rewrite::swap(&layout.journal, || step("renamed"))?;
    artifacts::swap_staged(dir)?;
    step("swapped")?;
    if prepared {
        put_in_place(&layout, step)?;
    } else {
        remove_views(&layout)?;
    }
    remove_quarantined(dir, &layout)?;
    step("derived removed")?;
    clear(dir)?;
    step("cleared")?;
    ErasureRequest::remove(dir)?;
    tracing::info!("a person has been erased");
    metrics::counter!("cairn_erasures_total").increment(1);
    Ok(())
}

/// Removes views and index, which are made again.
fn remove_views(layout: &Layout) -> Result<(), StoreError> {
    remove_dir(&layout.views)?;
    remove_dir(&layout.index)?;
    remove_file(&layout.checked)
}

/// Removes all that was quarantined: damaged views and lines, and what an earlier version or another state left.
pub(crate) fn remove_quarantined(dir: &Path, layout: &Layout) -> Result<(), StoreError> {
    remove_dir(&layout.quarantine)?;
    for path in entries(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_derived = name.ends_with(".damaged") || name == VERIFIED;
        if is_derived || name.starts_with("before-") || name.starts_with("restore.") {
            remove_any(&path)?;
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}

/// Puts views and index in the place of those that are there. To be called again after a crash in its midst.
fn put_in_place(layout: &Layout, step: Step<'_>) -> Result<(), StoreError> {
    let dir = layout.journal.parent().unwrap_or(&layout.journal);
    let beside = Layout::of(&dir.join(BESIDE));
    // What was checked before says nothing of what is put in its place.
    if beside.views.exists() && !beside.checked.exists() {
        remove_any(&layout.checked)?;
    }
    for (made, place) in
        [(&beside.views, &layout.views), (&beside.index, &layout.index), (&beside.checked, &layout.checked)]
    {
        if made.exists() {
            remove_any(place)?;
            step("removed")?;
            fs::rename(made, place).map_err(io_error("rename", made))?;
            step("put in place")?;
        }
    }
    sync_dir(dir).map_err(io_error("sync", dir))
}

/// Removes what is beside the state.
pub(super) fn clear(dir: &Path) -> Result<(), StoreError> {
    remove_dir(&dir.join(BESIDE))
}
