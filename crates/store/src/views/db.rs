//! The rows: in sled, with its pitfalls handled, or in memory for as long as sled does not answer. Checked reads, and
//! batches that carry the applied position.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_types::ports::StoreError;
use parking_lot::{Mutex, RwLock};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use super::blocks::{Packed, unpack};
use super::codec::{Key, Table, decode, encode, seal, unseal, view_error};
use super::rows::{FORMAT, Meta};
use crate::files::disk::{Calls, io_error};

const META: &[u8] = b"\0meta";

/// How often sled is made durable: what a crash loses of it is applied again from the journal.
const FLUSH_EVERY_MS: u64 = 1000;

/// Key and bytes of a row.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

pub(crate) struct Db {
    rows: Rows,
    /// Those into sled that have not returned.
    calls: Arc<Calls>,
    doubt: Doubt,
    /// A check of all rows that is under way beside the writing.
    sweep: Mutex<Option<Sweep>>,
    /// The copy of the views that is under way.
    copy: Mutex<Option<Copy>>,
}

/// A copy of all rows up to and including that key.
struct Copy {
    to: sled::Db,
    upto: Vec<u8>,
}

/// How far a check beside the writing has come: up to and including that key.
struct Sweep {
    upto: Vec<u8>,
    found: Check,
}

impl Sweep {
    /// Counts a row that is written, or goes, where the check has been.
    fn note(&mut self, key: &[u8], was_there: bool, is_there: bool) {
        if key > self.upto.as_slice() || was_there == is_there {
            return;
        }
        let count = self.found.rows.entry(char::from(key[0])).or_default();
        *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
    }
}

/// Set when something that was read of these rows is wrong: they are closed, and opened again through the checks.
pub(crate) type Doubt = Arc<AtomicBool>;

enum Rows {
    Sled(sled::Db),
    Memory(Arc<Memory>),
}

/// Rows in memory, without checksums.
type Memory = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Check {
    /// The applied position when the check began.
    pub(crate) meta: Meta,
    /// Sound rows by the letter of their table.
    pub(crate) rows: BTreeMap<char, u64>,
    pub(crate) bad: u64,
    pub(crate) problems: Vec<String>,
    /// The rows are of another version of this program: nothing is wrong with them, and they are of no use.
    pub(crate) is_old: bool,
}

impl Check {
    /// Counts a row as it is stored. False: there is no going on.
    fn take(&mut self, item: Result<Row, StoreError>) -> bool {
        match item {
            Ok((key, value)) if unseal(&key, &value).is_none() => self.bad += 1,
            Ok((key, _)) if key == META => {}
            Ok((key, _)) => *self.rows.entry(char::from(key[0])).or_default() += 1,
            Err(error) => {
                self.bad += 1;
                self.problems.push(format!("sled: {error}"));
                return false;
            }
        }
        true
    }

    fn told(mut self) -> Self {
        if self.bad > 0 {
            self.problems.push(format!("{} rows of the views have a wrong checksum", self.bad));
        }
        self
    }

    /// Compares the rows with the number that was written with the last of them. Only for rows that nobody writes.
    pub(crate) fn compare(&mut self) {
        let mut expected = self.meta.rows.clone();
        expected.retain(|_, rows| *rows > 0);
        self.rows.retain(|_, rows| *rows > 0);
        if !self.is_old && self.bad == 0 && self.rows != expected {
            self.problems.push(format!("rows are missing: {:?} instead of {expected:?}", self.rows));
        }
    }
}

/// sled panics where its file cannot be synced when it is closed; the error that has it closed is the one to be told.
impl Drop for Db {
    fn drop(&mut self) {
        let rows = mem::replace(&mut self.rows, Rows::Memory(Arc::default()));
        let copy = self.copy.get_mut().take();
        if catch_unwind(AssertUnwindSafe(|| drop((rows, copy)))).is_err() {
            tracing::warn!("the views were not closed cleanly; the next start applies the missing records");
        }
    }
}

impl Db {
    /// Opens sled. [`super::opening`] guards it: sled may panic, or not come back.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, calls: &Arc<Calls>) -> Result<Self, StoreError> {
        remove_half_made_snapshots(dir)?;
        let config =
            sled::Config::new().path(dir).cache_capacity(cache_bytes).flush_every_ms(Some(FLUSH_EVERY_MS));
        calls.within(|| wait_until_unlocked(dir))?;
        let sled = calls.within(|| config.open()).map_err(|error| sled_error(&error))?;
        Ok(Self::of(Rows::Sled(sled), Arc::clone(calls)))
    }

    /// Begins a copy of all rows into that folder. What is written from here on goes there, too.
    pub(crate) fn begin_copy(&self, dir: &Path, cache_bytes: u64) -> Result<(), StoreError> {
        if let Rows::Sled(to) = &Self::open(dir, cache_bytes, &self.calls)?.rows {
            *self.copy.lock() = Some(Copy { to: to.clone(), upto: Vec::new() });
        }
        Ok(())
    }

    pub(crate) fn is_copied(&self) -> bool {
        self.copy.lock().is_some()
    }

    /// Copies the next rows. False: there are no more.
    pub(crate) fn copy_next(&self, n_rows: usize) -> Result<bool, StoreError> {
        let mut under_way = self.copy.lock();
        let Some(copy) = under_way.as_mut() else { return Ok(false) };
        let mut batch = sled::Batch::default();
        let mut rows = self.all_behind(Bound::Excluded(copy.upto.clone()));
        let mut n_copied = 0;
        while n_copied < n_rows
            && let Some(row) = rows.step(true).transpose()?
        {
            let (key, value) = row;
            // A bad one must not get a second home.
            unseal(&key, &value).ok_or_else(|| bad_row(&key))?;
            copy.upto.clone_from(&key);
            batch.insert(key, value);
            n_copied += 1;
        }
        self.calls.within(|| copy.to.apply_batch(batch)).map_err(|error| sled_error(&error))?;
        Ok(n_copied == n_rows)
    }

    /// Ends a copy; `None`: there is none. It is durable, and has all rows.
    pub(crate) fn end_copy(&self) -> Result<Option<Self>, StoreError> {
        let Some(Copy { to, .. }) = self.copy.lock().take() else { return Ok(None) };
        self.calls.within(|| to.flush()).map_err(|error| sled_error(&error))?;
        Ok(Some(Self::of(Rows::Sled(to), Arc::clone(&self.calls))))
    }

    pub(crate) fn give_up_copy(&self) {
        let copy = self.copy.lock().take();
        self.calls.within(|| drop(copy));
    }

    /// Bytes of sled's files.
    pub(crate) fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        match &self.rows {
            Rows::Sled(sled) => self.calls.within(|| sled.size_on_disk()).map_err(|error| sled_error(&error)),
            Rows::Memory(_) => Ok(0),
        }
    }

    /// No rows yet, and none of them ever on a disk.
    pub(crate) fn in_memory() -> Self {
        Self::of(Rows::Memory(Arc::default()), Arc::default())
    }

    fn of(rows: Rows, calls: Arc<Calls>) -> Self {
        Self { rows, calls, doubt: Doubt::default(), sweep: Mutex::default(), copy: Mutex::default() }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.rows, Rows::Memory(_))
    }

    pub(crate) fn doubt(&self) -> Doubt {
        Arc::clone(&self.doubt)
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubt.load(Ordering::Acquire)
    }

    /// The applied position; `None` for views that were never written.
    pub(crate) fn meta(&self) -> Result<Option<Meta>, StoreError> {
        let Some(payload) = self.payload(META)? else { return Ok(None) };
        let meta: Meta = decode(&payload)?;
        if meta.format != FORMAT {
            return Err(view_error(format!(
                "its rows have format {}, this program's is {FORMAT}",
                meta.format
            )));
        }
        Ok(Some(meta))
    }

    /// The applied position, also of rows of another version. `None`: there is none, or it cannot be read.
    pub(crate) fn meta_of_any_version(&self) -> Option<Meta> {
        self.payload(META).ok().flatten().and_then(|payload| decode(&payload).ok())
    }

    /// Reads the applied position alone.
    pub(crate) fn check_position(&self) -> Check {
        let mut check = Check::default();
        if self.meta_of_any_version().is_some_and(|meta| meta.format != FORMAT) {
            return Check { is_old: true, ..check };
        }
        match self.meta() {
            Ok(meta) => check.meta = meta.unwrap_or_default(),
            Err(error) => check.problems.push(error.to_string()),
        }
        check
    }

    /// Reads every row. Writing may go on meanwhile.
    pub(crate) fn check(&self) -> Check {
        self.check_until(&mut |_| true)
    }

    /// Reads every row until `goes_on`, which is given how many rows were read, says no.
    pub(crate) fn check_until(&self, goes_on: &mut dyn FnMut(u64) -> bool) -> Check {
        let mut check = self.check_position();
        if check.is_old {
            return check;
        }
        let mut all = self.all_behind(Bound::Unbounded);
        let mut n_rows = 0;
        while let Some(item) = all.step(true) {
            n_rows += 1;
            if !goes_on(n_rows) || !check.take(item) {
                break;
            }
        }
        check.told()
    }

    /// Checks the next rows, beginning with the first, while writing goes on between two calls. `None`: not all have been
    /// read yet. Then what was found in all, with the rows that are missing; the next call begins again.
    pub(crate) fn check_next(&self, n_rows: usize) -> Option<Check> {
        let mut sweep = self.sweep.lock();
        let under_way = sweep.get_or_insert_with(|| Sweep { upto: Vec::new(), found: self.check_position() });
        let mut rows = self.all_behind(Bound::Excluded(under_way.upto.clone()));
        for _ in 0..n_rows {
            let Some(item) = rows.step(true) else { return self.end_check(&mut sweep) };
            if let Ok((key, _)) = &item {
                under_way.upto.clone_from(key);
            }
            if !under_way.found.take(item) {
                return self.end_check(&mut sweep);
            }
        }
        None
    }

    fn end_check(&self, sweep: &mut Option<Sweep>) -> Option<Check> {
        let mut found = sweep.take()?.found;
        // Nobody writes while the check is locked: the number written last is that of the rows that were counted.
        let now = self.check_position();
        found.problems.extend(now.problems);
        found.meta = now.meta;
        let mut found = found.told();
        found.compare();
        Some(found)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        self.payload(&key.0)?.map(|payload| decode(&payload)).transpose()
    }

    /// What a block holds.
    pub(crate) fn items<T: Packed>(&self, key: &Key) -> Result<Option<Vec<T>>, StoreError> {
        self.payload(&key.0)?.map(|payload| unpack(&payload)).transpose()
    }

    /// The bytes of a key.
    pub(crate) fn payload(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let sled = match &self.rows {
            Rows::Sled(sled) => sled,
            Rows::Memory(rows) => return Ok(rows.read().get(key).cloned()),
        };
        let found = self.calls.within(|| sled.get(key)).map_err(|error| sled_error(&error))?;
        let Some(value) = found else { return Ok(None) };
        let payload = unseal(key, &value).ok_or_else(|| bad_row(key))?;
        Ok(Some(payload.to_vec()))
    }

    /// Whether there is a row; its value is not read.
    pub(crate) fn has(&self, key: &[u8]) -> Result<bool, StoreError> {
        match &self.rows {
            Rows::Sled(sled) => {
                self.calls.within(|| sled.contains_key(key)).map_err(|error| sled_error(&error))
            }
            Rows::Memory(rows) => Ok(rows.read().contains_key(key)),
        }
    }

    /// Keys and bytes of all rows whose key begins so, in order.
    pub(crate) fn scan(&self, prefix: &Key) -> Range {
        self.scan_after(prefix, None)
    }

    /// Those of them after a key, or all.
    pub(crate) fn scan_after(&self, prefix: &Key, after: Option<Key>) -> Range {
        let from = after.map_or(Bound::Included(prefix.0.clone()), |after| Bound::Excluded(after.0));
        self.between(from, end_of(prefix))
    }

    /// How many rows a table has, as they were counted when they were written.
    pub(crate) fn count(&self, table: Table) -> Result<u64, StoreError> {
        if self.is_in_memory() {
            return Ok(self.scan(&Key::table(table)).count() as u64);
        }
        let counted = self.meta()?.and_then(|meta| meta.rows.get(&char::from(table.letter())).copied());
        Ok(counted.unwrap_or_default())
    }

    /// Keys and bytes of all rows from one key up to and including another, in order.
    pub(crate) fn range(&self, from: &Key, to: &Key) -> Range {
        self.between(Bound::Included(from.0.clone()), Bound::Included(to.0.clone()))
    }

    /// All rows behind a key, for checks and copies, which read every row.
    fn all_behind(&self, from: Bound<Vec<u8>>) -> Range {
        let mut rows = self.between(from, Bound::Unbounded);
        if let (Range::Sled { again, .. }, Rows::Sled(sled)) = (&mut rows, &self.rows) {
            *again = Some(sled.clone());
        }
        rows
    }

    fn between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Range {
        match &self.rows {
            Rows::Sled(sled) => {
                let rows = Box::new(sled.range((from, to)));
                Range::Sled { rows, again: None, calls: Arc::clone(&self.calls) }
            }
            Rows::Memory(rows) => Range::Memory(Arc::clone(rows), from, to),
        }
    }

    /// Writes changes and the applied position, all or nothing. A check beside it begins again when this fails.
    pub(crate) fn write(
        &self,
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        meta: &mut Meta,
    ) -> Result<(), StoreError> {
        let sled = match &self.rows {
            Rows::Sled(sled) => sled,
            Rows::Memory(rows) => return remember(&mut rows.write(), changes, meta),
        };
        let mut under_way = self.sweep.lock();
        let mut sweep = under_way.take();
        let mut copy = self.copy.lock();
        let mut batch = Writes { upto: copy.as_ref().map(|copy| copy.upto.as_slice()), ..Writes::default() };
        for (key, payload) in changes {
            let count = meta.rows.entry(char::from(key[0])).or_default();
            let before = self.calls.within(|| sled.get(&key)).map_err(|error| sled_error(&error))?;
            let was_there = before.is_some();
            let bytes_before = before.map_or(0, |value| key.len() + value.len());
            meta.bytes = meta.bytes.saturating_sub(bytes_before as u64);
            if let Some(sweep) = sweep.as_mut() {
                sweep.note(&key, was_there, payload.is_some());
            }
            match payload {
                Some(payload) => {
                    *count += u64::from(!was_there);
                    let value = seal(&key, &payload);
                    meta.bytes += (key.len() + value.len()) as u64;
                    batch.put(key, Some(value));
                }
                None => {
                    *count = count.saturating_sub(u64::from(was_there));
                    batch.put(key, None);
                }
            }
        }
        meta.format = FORMAT;
        batch.put(META.to_vec(), Some(seal(META, &encode(meta)?)));
        let Writes { own, of_copy, .. } = batch;
        self.calls.within(|| sled.apply_batch(own)).map_err(|error| sled_error(&error))?;
        if let Some(beside) = copy.as_ref()
            && let Err(error) = self.calls.within(|| beside.to.apply_batch(of_copy))
        {
            tracing::warn!(%error, "a copy of the views cannot be written and was abandoned");
            let given_up = copy.take();
            self.calls.within(|| drop(given_up));
        }
        *under_way = sweep;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn sled(&self) -> &sled::Db {
        match &self.rows {
            Rows::Sled(sled) => sled,
            Rows::Memory(_) => panic!("these rows are in memory"),
        }
    }

    /// Makes the rows those of an earlier version.
    #[cfg(test)]
    pub(crate) fn age(&self) {
        let meta = Meta { format: FORMAT - 1, ..self.meta().unwrap().unwrap() };
        self.sled().insert(META, seal(META, &encode(&meta).unwrap())).unwrap();
    }

    /// Makes what was written durable. Returns the bytes written.
    pub(crate) fn flush(&self) -> Result<usize, StoreError> {
        match &self.rows {
            Rows::Sled(sled) => self.calls.within(|| sled.flush()).map_err(|error| sled_error(&error)),
            Rows::Memory(_) => Ok(0),
        }
    }
}

/// What is written together, also to a copy where that has been.
#[derive(Default)]
struct Writes<'a> {
    own: sled::Batch,
    of_copy: sled::Batch,
    upto: Option<&'a [u8]>,
}

impl Writes<'_> {
    /// No value: the row goes.
    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let is_copied = self.upto.is_some_and(|upto| key.as_slice() <= upto);
        match value {
            Some(value) => {
                if is_copied {
                    self.of_copy.insert(key.clone(), value.clone());
                }
                self.own.insert(key, value);
            }
            None => {
                if is_copied {
                    self.of_copy.remove(key.clone());
                }
                self.own.remove(key);
            }
        }
    }
}

/// Where the keys end that begin so.
fn end_of(prefix: &Key) -> Bound<Vec<u8>> {
    let mut end = prefix.0.clone();
    match end.last_mut() {
        // The bytes of a key are those of UTF-8, a letter or zero: never the highest.
        Some(last) => {
            *last = last.saturating_add(1);
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    }
}

/// Writes rows in memory, which nobody counts.
fn remember(
    rows: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    meta: &mut Meta,
) -> Result<(), StoreError> {
    meta.format = FORMAT;
    for (key, payload) in changes.into_iter().chain([(META.to_vec(), Some(encode(meta)?))]) {
        match payload {
            Some(payload) => drop(rows.insert(key, payload)),
            None => drop(rows.remove(&key)),
        }
    }
    Ok(())
}

/// How often [`Db::all_behind`] looks at each row again. Sled (0.34) divides its cache into 256 parts, and a part evicts nothing
/// until its pages were looked at 64 times in all: a scan that looks at each page once, with some 8 rows, would keep up to 16,384
/// pages in memory beyond the cache.
const LOOKS: usize = 4;

/// Rows in the order of their keys, from both ends.
pub(crate) enum Range {
    Sled {
        rows: Box<sled::Iter>,
        /// Set where each row is looked at [`LOOKS`] times more.
        again: Option<sled::Db>,
        calls: Arc<Calls>,
    },
    /// Of memory: what is left between two keys.
    Memory(Arc<Memory>, Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Range {
    /// The next row as it is stored: the first, or the last.
    fn step(&mut self, first: bool) -> Option<Result<Row, StoreError>> {
        match self {
            Self::Sled { rows, again, calls } => {
                let row = calls.within(|| {
                    let row = if first { rows.next() } else { rows.next_back() }?;
                    Some(row.and_then(|(key, value)| {
                        if let Some(sled) = again {
                            (0..LOOKS).try_for_each(|_| sled.contains_key(&key).map(drop))?;
                        }
                        Ok((key.to_vec(), value.to_vec()))
                    }))
                })?;
                Some(row.map_err(|error| sled_error(&error)))
            }
            Self::Memory(rows, from, to) => {
                if is_empty(from, to) {
                    return None;
                }
                let rows = rows.read();
                let mut left = rows.range::<Vec<u8>, _>((from.as_ref(), to.as_ref()));
                let (key, payload) = if first { left.next() } else { left.next_back() }?;
                let end = Bound::Excluded(key.clone());
                let row = (key.clone(), payload.clone());
                *(if first { from } else { to }) = end;
                Some(Ok(row))
            }
        }
    }

    fn checked(&mut self, first: bool) -> Option<Result<Row, StoreError>> {
        let item = self.step(first)?;
        if matches!(self, Self::Memory(..)) {
            return Some(item);
        }
        Some(item.and_then(|(key, value)| {
            let payload = unseal(&key, &value).ok_or_else(|| bad_row(&key))?.to_vec();
            Ok((key, payload))
        }))
    }
}

/// Whether nothing can be between: a map panics over such bounds.
fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
    }
}

impl Iterator for Range {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.checked(true)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.checked(false)
    }
}

fn bad_row(key: &[u8]) -> StoreError {
    let letter = key.first().copied().map(char::from).unwrap_or('?');
    view_error(format!("a row of table `{letter}` has a wrong checksum"))
}

fn sled_error(error: &sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) if error.kind() == ErrorKind::StorageFull => {
            StoreError::DiskFull { path: "the views".to_owned() }
        }
        // Nothing is wrong with the rows.
        sled::Error::Io(error) if is_of_the_machine(error) => {
            StoreError::Io { action: "open", path: "the views".to_owned(), message: error.to_string() }
        }
        _ => view_error(error.to_string()),
    }
}

/// sled's threads hold the lock of its file for a moment after it was dropped, and it does not wait for them itself.
fn wait_until_unlocked(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join("db");
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive));
    locked.map_err(|error| io_error("lock", &path)(error.into()))
}

/// Whether it says nothing about a file: the machine had no more of something.
pub(crate) fn is_of_the_machine(error: &std::io::Error) -> bool {
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| scarce.contains(&error))
}

/// A snapshot that a crash left half made stops sled from opening; it is only a cache.
fn remove_half_made_snapshots(dir: &Path) -> Result<(), StoreError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path()).map_err(io_error("remove", &entry.path()))?;
            tracing::warn!(file = %entry.path().display(), "removed an incomplete sled snapshot");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::changes::Changes;
    use super::*;

    fn both(keys: &[&str]) -> (tempfile::TempDir, Db, Db) {
        let dir = tempfile::tempdir().unwrap();
        let (sled, memory) = (Db::open(dir.path(), 1 << 20, &Arc::default()).unwrap(), Db::in_memory());
        for db in [&sled, &memory] {
            let mut changes = Changes::new(db);
            keys.iter()
                .for_each(|key| changes.put_bytes(Key(key.as_bytes().to_vec()), key.as_bytes().to_vec()));
            changes.write(&mut Meta::default()).unwrap();
            let mut changes = Changes::new(db);
            changes.remove(Key(b"ax".to_vec()));
            changes.write(&mut Meta { n: 7, ..Meta::default() }).unwrap();
        }
        (dir, sled, memory)
    }

    fn keys(rows: impl Iterator<Item = Result<Row, StoreError>>) -> Vec<String> {
        rows.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
    }

    #[test]
    fn a_check_beside_the_writing_counts_what_is_written_before_and_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let sled = Db::open(dir.path(), 1 << 20, &Arc::default()).unwrap();
        let mut meta = Meta::default();
        let mut write = |key: &str, is_there: bool| {
            let mut changes = Changes::new(&sled);
            let key = Key(key.as_bytes().to_vec());
            if is_there {
                changes.put_bytes(key, Vec::new())
            } else {
                changes.remove(key)
            }
            changes.write(&mut meta).unwrap();
        };
        ["b", "d", "f", "h"].into_iter().for_each(|key| write(key, true));
        // The applied position is a row, too.
        assert_eq!(sled.check_next(3), None);
        for (key, is_there) in [("a", true), ("b", false), ("d", true), ("g", true), ("h", false)] {
            write(key, is_there);
            assert_eq!(sled.check_next(0), None);
        }
        let found = sled.check_next(usize::MAX).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        assert_eq!(found.rows.values().sum::<u64>(), 4, "{found:?}");
        assert_eq!(sled.check_next(2), None);
        sled.sled().remove(b"g").unwrap().unwrap();
        sled.sled().insert(b"f", b"garbled").unwrap().unwrap();
        let found = sled.check_next(usize::MAX).unwrap();
        assert!(found.bad == 1 && found.problems.len() == 1, "{found:?}");
        write("f", true);
        let found = sled.check_next(usize::MAX).unwrap();
        assert!(found.problems[0].contains("rows are missing"), "{found:?}");
    }

    #[test]
    fn rows_that_are_just_being_closed_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let held = Db::open(&path, 1 << 20, &Arc::default()).unwrap();
        let calls = Arc::new(Calls::default());
        let known = Arc::clone(&calls);
        let opening = std::thread::spawn(move || Db::open(&path, 1 << 20, &known).map(drop));
        while calls.longest().is_zero() && !opening.is_finished() {
            std::thread::yield_now();
        }
        drop(held);
        opening.join().unwrap().unwrap();
    }

    fn all(db: &Db) -> Vec<Row> {
        let mut rows = db.between(Bound::Unbounded, Bound::Unbounded);
        std::iter::from_fn(|| rows.step(true)).map(Result::unwrap).collect()
    }

    #[test]
    fn a_copy_has_what_was_written_before_and_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let sled = Db::open(&dir.path().join("own"), 1 << 20, &Arc::default()).unwrap();
        let mut meta = Meta::default();
        let mut write = |keys: &[(&str, Option<&str>)]| {
            let mut changes = Changes::new(&sled);
            for (key, row) in keys {
                let key = Key(key.as_bytes().to_vec());
                match row {
                    Some(row) => changes.put_bytes(key, row.as_bytes().to_vec()),
                    None => changes.remove(key),
                }
            }
            changes.write(&mut meta).unwrap();
            meta.bytes
        };
        write(&[("b", Some("1")), ("d", Some("1")), ("f", Some("1")), ("h", Some("1"))]);
        sled.begin_copy(&dir.path().join("copy"), 1 << 20).unwrap();
        let mut changes = [
            [("a", Some("2")), ("b", None)],
            [("b", Some("3")), ("d", Some("longer"))],
            [("c", Some("4")), ("h", None)],
            [("a", None), ("g", Some("5"))],
        ]
        .iter();
        while sled.copy_next(1).unwrap() {
            if let Some(changes) = changes.next() {
                write(changes);
            }
        }
        assert_eq!(changes.next(), None);
        let bytes = write(&[("z", Some("at the end")), ("e", Some("6"))]);
        while sled.copy_next(2).unwrap() {}
        let copy = sled.end_copy().unwrap().unwrap();
        assert!(!sled.is_copied());
        assert_eq!(all(&copy), all(&sled));
        let live = all(&sled).into_iter().filter(|(key, _)| key != META);
        assert_eq!(bytes, live.map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>());
        let mut check = copy.check();
        check.compare();
        assert_eq!(check.problems, Vec::<String>::new());

        sled.begin_copy(&dir.path().join("another"), 1 << 20).unwrap();
        sled.sled().insert(b"d", b"garbled").unwrap().unwrap();
        let error = sled.copy_next(usize::MAX).unwrap_err();
        assert!(error.to_string().contains("wrong checksum"), "{error}");
    }

    #[test]
    fn rows_in_memory_are_those_of_sled() {
        let (_dir, sled, memory) = both(&["a", "aa", "ab", "ax", "b", "ba", "c"]);
        assert_eq!([&memory, &sled].map(|db| db.meta().unwrap().unwrap().n), [7, 7]);
        for key in ["a", "ax", "z"] {
            assert_eq!(
                memory.payload(key.as_bytes()).unwrap(),
                sled.payload(key.as_bytes()).unwrap(),
                "{key}"
            );
            assert_eq!(memory.has(key.as_bytes()).unwrap(), sled.has(key.as_bytes()).unwrap(), "{key}");
        }
        let key = |text: &str| Key(text.as_bytes().to_vec());
        for prefix in ["a", "b", "ba", "x"] {
            assert_eq!(keys(memory.scan(&key(prefix))), keys(sled.scan(&key(prefix))), "{prefix}");
            assert_eq!(
                keys(memory.scan(&key(prefix)).rev()),
                keys(sled.scan(&key(prefix)).rev()),
                "{prefix}"
            );
        }
        for (from, to) in [("a", "b"), ("aa", "aa"), ("b", "zz"), ("x", "zz")] {
            assert_eq!(
                keys(memory.range(&key(from), &key(to))),
                keys(sled.range(&key(from), &key(to))),
                "{from}"
            );
        }
        let mut ends = memory.range(&key("aa"), &key("b"));
        let step = |row: Option<Result<Row, StoreError>>| row.map(|row| row.unwrap().0);
        assert_eq!(step(ends.next()), Some(b"aa".to_vec()));
        assert_eq!(step(ends.next_back()), Some(b"b".to_vec()));
        assert_eq!(step(ends.next()), Some(b"ab".to_vec()));
        assert_eq!((step(ends.next()), step(ends.next_back())), (None, None));
    }
}
