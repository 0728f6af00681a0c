//! Opening the views. sled panics over some of its damage, serves rows that are missing or spoiled, and may never come back:
//! all of that is met here. Where there are few rows, or something is suspect, each is read before anybody else reads one;
//! of many the background check reads them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use cairn_types::ports::StoreError;

use super::archive::channel_of;
use super::codec::{Key, Table, decode, view_error};
use super::db::{Check, Db};
use super::rows::{ChannelState, Meta};
use super::shrink;
use crate::files::disk::{Calls, can_start_threads, io_error, make_dir, move_aside, remove_dir};
use crate::journal::open::{KnownChannel, ViewState, holds, refuse_lost_end};

/// sled may have a long log to read.
const OPEN_LIMIT: Duration = Duration::from_secs(60);

/// For a thread that the system does not give it sled waits forever: seven that write and one that flushes (sled 0.34.7), and
/// one more.
const N_THREADS: usize = 9;

/// What is found in the folder of closed views.
pub(crate) struct ClosedViews {
    /// What the rows show of the journal, sound or not: whether its end is lost is told by it.
    pub(crate) state: ViewState,
    pub(crate) check: Check,
}

/// Opens the views and reads every row where there are at most so many, else only how far they are. No rows: sled does not
/// open.
///
/// # Errors
/// They cannot be opened on this machine now, which says nothing of them.
fn look_into(
    dir: &Path,
    cache_bytes: u64,
    most_rows: u64,
    calls: &Arc<Calls>,
) -> Result<(Option<Db>, Check), StoreError> {
    can_start_threads(N_THREADS).map_err(io_error("start the threads for", dir))?;
    let damaged = |error: StoreError| Check { problems: vec![error.to_string()], ..Check::default() };
    let db = match guarded(|| Db::open(&shrink::place(dir)?, cache_bytes, calls)) {
        Ok(db) => db,
        Err(error @ (StoreError::DiskFull { .. } | StoreError::Io { .. })) => return Err(error),
        Err(error) => return Ok((None, damaged(error))),
    };
    let check = guarded(|| {
        let position = db.check_position();
        if position.meta.rows.values().sum::<u64>() > most_rows {
            return Ok(position);
        }
        let mut check = db.check();
        check.compare();
        Ok(check)
    });
    Ok((Some(db), check.unwrap_or_else(damaged)))
}

/// Looks into views that only the command line looks at; `None`: there are none.
///
/// # Errors
/// Whether there are any cannot be told; sled does not come back, or cannot be opened on this machine now.
pub(crate) fn look_into_closed(dir: &Path, cache_bytes: u64) -> Result<Option<ClosedViews>, StoreError> {
    if !dir.try_exists().map_err(io_error("look into", dir))? {
        return Ok(None);
    }
    let of = dir.to_owned();
    let look = move || {
        let (db, check) = look_into(&of, cache_bytes, u64::MAX, &Arc::default())?;
        Ok(Some(ClosedViews { state: view_state(db.as_ref()), check }))
    };
    in_time(dir, look)
}

/// Opens the views, and reads every row where there are at most so many. At the first doubt they are put out of the way, to
/// be made again from the journal.
///
/// # Errors
/// [`StoreError::Damaged`]: they show more than the journal has. They are all that is left to tell of it, and stay. Or there is
/// nothing wrong with them, and nothing to make them again with: the disk is full, or cannot be written.
pub(super) fn open(
    dir: &Path,
    cache_bytes: u64,
    most_rows: u64,
    journal: &Path,
    calls: &Arc<Calls>,
) -> Result<(Db, Meta), StoreError> {
    make_dir(dir)?;
    shrink::clean(dir)?;
    let (db, mut check) = look_into(dir, cache_bytes, most_rows, calls)?;
    let is_damaged = !check.problems.is_empty();
    if check.is_old {
        check.problems.push("they are of another version of this program".to_owned());
    } else if !holds(journal, &check.meta.checkpoint()) {
        check.problems.push(format!("the journal has something else at record {}", check.meta.n));
    }
    let db = match db {
        Some(db) if check.problems.is_empty() => return Ok((db, check.meta)),
        db => db,
    };
    let state = view_state(db.as_ref());
    calls.within(|| drop(db));
    let why = check.problems.join("; ");
    refuse_lost_end(journal, &state)?;
    let kept = if is_damaged { Some(move_aside(dir)?) } else { None };
    let kept = kept.map(|to| to.display().to_string());
    tracing::warn!(why, kept, "rebuilding the views from the journal");
    remove_dir(dir)?;
    make_dir(dir)?;
    Ok((guarded(|| Db::open(dir, cache_bytes, calls))?, Meta::default()))
}

/// Calls into sled from a thread of their own, which is left behind when they do not come back.
pub(super) fn in_time<T: Send + 'static>(
    dir: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (tell, done) = sync_channel(1);
    let work = move || drop(tell.send(work()));
    let spawned = thread::Builder::new().name("open views".to_owned()).spawn(work);
    spawned.map_err(io_error("start a thread for", dir))?;
    done.recv_timeout(OPEN_LIMIT).unwrap_or_else(|error| {
        Err(view_error(match error {
            RecvTimeoutError::Timeout => "it does not open in time",
            RecvTimeoutError::Disconnected => "opening it panicked; the log says where",
        }))
    })
}

fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(view_error("it panicked while it was opened; the log says where")))
}

/// What the rows show of the journal; what cannot be read of them is not told.
fn view_state(db: Option<&Db>) -> ViewState {
    let look = |db: &Db| {
        let Some(meta) = db.meta_of_any_version() else { return ViewState::default() };
        ViewState { last: vec![meta.checkpoint()], channels: channels(db).unwrap_or_default() }
    };
    db.and_then(|db| guarded(|| Ok(look(db))).ok()).unwrap_or_default()
}

fn channels(db: &Db) -> Result<Vec<KnownChannel>, StoreError> {
    let mut found = Vec::new();
    for item in db.scan(&Key::table(Table::Channel)) {
        let (key, payload) = item?;
        let state: ChannelState = decode(&payload)?;
        let channel = channel_of(&key)?;
        found.push(KnownChannel { channel, n: state.last_n, at: state.last_at, next_seq: state.next_seq });
    }
    Ok(found)
}
