//! Moves a whole journal from a state folder into a database, and back.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use cairn_types::ports::StoreError;

use super::copy::{Copy, read_head};
use super::database::Database;
use super::errors::failed;
use super::marker::Marker;
use super::push::{Moved, fetch_all, push};
use crate::files::disk::{Layout, blocking, io_error, sync_folders};
use crate::files::progress::Progress;
use crate::journal::open::{self, Start};
use crate::journal::segment;
use crate::open::lock;
use crate::options::{DatabaseOptions, StoreOptions};
use crate::store::Store;
use crate::upkeep::erasure::resume;
use crate::upkeep::view_state::view_state;

/// Names the work in the error when it panics.
const MOVING: &str = "moving a journal";

/// Moves the journal of a folder into a database that is empty. The folder has a copy of it then. What was cut short is taken
/// up again by the same call.
///
/// # Errors
/// The folder is in use or damaged, the database has a journal already, or one of them cannot be written: then nothing was
/// moved.
pub async fn move_to(
    options: StoreOptions,
    to: DatabaseOptions,
    progress: &Progress,
) -> Result<Moved, StoreError> {
    let progress = progress.clone();
    blocking(MOVING, move || {
        let dir = options.dir.clone();
        let _lock = lock(&dir)?;
        if Marker::read(&dir)?.is_some() {
            let message = format!("the journal in {} is a copy of one in a database already", dir.display());
            return Err(StoreError::Elsewhere { message });
        }
        // Nobody who is still to be erased is moved.
        resume::resume_or_clear(&dir, &progress)?;
        let layout = Layout::of(&dir);
        // What proves that the journal has lost something is looked at first.
        let tail = open::open(&layout.journal, &layout, &Start::default(), &view_state(&layout)?)?;
        let database = Database::open(&to)?;
        refuse_moved(&database)?;
        let head = read_head(&database)?;
        if head.next > 1 {
            return if Copy::is_of(&dir, &database, &tail)? {
                Marker::new(head.id, head.generation).write(&dir)?;
                Ok(Moved { records: tail.n, ..Moved::default() })
            } else {
                let message = "the database has another journal; name one that is empty".to_owned();
                Err(StoreError::Elsewhere { message })
            };
        }
        let (of, from) = (database.clone(), dir.clone());
        let moved = database.wait(async move { push(&of, &from, None, &progress).await })?;
        let head = read_head(&database)?;
        Marker::new(head.id, head.generation).write(&dir)?;
        Ok(moved)
    })
    .await
}

/// # Errors
/// [`StoreError::Elsewhere`]: the journal in the database went on elsewhere.
fn refuse_moved(database: &Arc<Database>) -> Result<(), StoreError> {
    const MOVED: &str = "SELECT moved_to FROM cairn_journal WHERE moved_to IS NOT NULL";
    let rows = database.ask_blocking("read the head of the journal", MOVED, Vec::new())?;
    let Some(row) = rows.first() else { return Ok(()) };
    let message = format!(
        "the journal in the database was moved to {}, and the database is used no more; name one that is empty",
        row.get::<_, &str>(0)
    );
    Err(StoreError::Elsewhere { message })
}

/// Makes the copy in a folder a journal of its own. The database is marked as moved away; nobody leads there any more.
///
/// # Errors
/// Another node leads, or something cannot be read or written: then nothing was moved.
pub async fn move_from(options: StoreOptions, progress: &Progress) -> Result<Moved, StoreError> {
    let dir = options.dir.clone();
    if let Some(moved) = already_here(&options).await? {
        return Ok(moved);
    }
    let store = blocking(MOVING, move || Store::open(options)).await?;
    let moved = match store.inner.erasure.put_off() {
        // Nobody who is still to be erased is moved.
        Some(error) => Err(error),
        None => take(&store, &dir, progress.clone()).await,
    };
    store.close().await;
    let moved = moved?;
    blocking(MOVING, move || Marker::remove(&dir)).await?;
    Ok(moved)
}

/// A move that was cut short behind its decision: all is here.
async fn already_here(options: &StoreOptions) -> Result<Option<Moved>, StoreError> {
    let options = options.clone();
    blocking(MOVING, move || {
        let Some(of) = &options.database else {
            return Err(failed("move the journal", "no database is configured"));
        };
        let dir = &options.dir;
        let _lock = lock(dir)?;
        let Some(marker) = Marker::read(dir)? else {
            let message = format!("the journal in {} is one of its own already", dir.display());
            return Err(StoreError::Elsewhere { message });
        };
        let database = Database::open(of)?;
        let rows = database.ask_blocking(
            "read the head of the journal",
            "SELECT moved_to, next FROM cairn_journal WHERE id = $1::text::uuid",
            vec![Box::new(marker.journal)],
        )?;
        let Some(row) = rows.first() else { return Ok(None) };
        if row.get::<_, Option<&str>>(0) != Some(here(of, dir).as_str()) {
            return Ok(None);
        }
        Marker::remove(dir)?;
        Ok(Some(Moved { records: row.get::<_, i64>(1) as u64 - 1, ..Moved::default() }))
    })
    .await
}

/// How the database names this folder.
fn here(of: &DatabaseOptions, dir: &Path) -> String {
    format!("{} ({})", of.node, dir.display())
}

async fn take(store: &Store, dir: &Path, progress: Progress) -> Result<Moved, StoreError> {
    let Some((database, lease)) = store.inner.leading() else { return Err(StoreError::Fenced) };
    let (of, lease) = (database.clone(), lease.id().to_owned());
    let (inner, dir) = (store.inner.clone(), dir.to_owned());
    let mut moved = Moved { records: store.inner.durable().tail.n, ..Moved::default() };
    blocking(MOVING, move || {
        moved.artifacts = fetch_all(&of, &inner.artifacts, &progress)?;
        let journal = Layout::of(&dir).journal;
        for first in segment::list(&journal)? {
            let file = segment::file_of(&segment::path(&journal, first));
            moved.bytes += segment::bytes(&segment::path(&journal, first))?;
            File::open(&file).and_then(|file| file.sync_all()).map_err(io_error("sync", &file))?;
        }
        sync_folders(&dir).map_err(io_error("sync", &dir))?;
        // From here on it is decided.
        let rows = of.ask_blocking(
            "mark the journal as moved",
            "UPDATE cairn_journal SET moved_to = $1 WHERE lease = $2::text::uuid RETURNING next",
            vec![Box::new(here(&of.options, &dir)), Box::new(lease)],
        )?;
        if rows.is_empty() { Err(StoreError::Fenced) } else { Ok(moved) }
    })
    .await
}
