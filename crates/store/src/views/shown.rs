//! What the views show of the journal: whether its end is lost is told by it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cairn_core::ports::StoreError;

use super::archive::channel_of;
use super::codec::{Key, Table, decode, trailing_number};
use super::db::Db;
use super::rows::ChannelState;
use super::threads;
use crate::disk::io_error;
use crate::journal::open::{Shown, ShownChannel};

const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// What open views show, sound or not: the row that says how far they are has a checksum of its own.
pub(crate) fn of(db: &Db) -> Shown {
    // sled panics over some of its damage.
    catch_unwind(AssertUnwindSafe(|| told(db))).unwrap_or_default()
}

fn told(db: &Db) -> Shown {
    let Some(meta) = db.meta_of_any_version() else { return Shown::default() };
    // What cannot be read of the channels is not told; the numbers are.
    Shown { last: vec![meta.checkpoint()], channels: channels(db).unwrap_or_default() }
}

/// The same of closed views; nothing, when there are none or they do not open.
///
/// # Errors
/// Whether there are any cannot be told, or there are no threads to open them.
pub(crate) fn in_folder(dir: &Path) -> Result<Shown, StoreError> {
    if !dir.try_exists().map_err(io_error("look into", dir))? {
        return Ok(Shown::default());
    }
    threads::can_start(dir)?;
    match Db::open(dir, CACHE_BYTES) {
        Ok(db) => Ok(of(&db)),
        Err(error @ StoreError::DiskFull { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the views do not open; what they show of the journal cannot be told");
            Ok(Shown::default())
        }
    }
}

fn channels(db: &Db) -> Result<Vec<ShownChannel>, StoreError> {
    let mut found = Vec::new();
    for item in db.scan(&Key::table(Table::Channel)) {
        let (key, payload) = item?;
        let state: ChannelState = decode(&payload)?;
        let channel = channel_of(&key)?;
        let last = db.range(&Key::event(&channel, 0), &Key::event(&channel, u64::MAX)).next_back();
        let n = last.transpose()?.and_then(|(key, _)| trailing_number(&key)).unwrap_or_default();
        found.push(ShownChannel { channel, n, at: state.last_at, next_seq: state.next_seq });
    }
    Ok(found)
}
