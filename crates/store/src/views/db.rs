//! The rows: in sled, with its pitfalls handled, or in memory for as long as sled does not answer. Checked reads, and
//! batches that carry the applied position.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use cairn_core::ports::StoreError;
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{Key, Table, decode, encode, seal, unseal, view_error};
use super::rows::{FORMAT, Meta};
use crate::calls::Calls;
use crate::disk::io_error;

const META: &[u8] = b"\0meta";

/// How often sled is made durable: what a crash loses of it is applied again from the journal.
const FLUSH_EVERY_MS: u64 = 1000;

/// Key and bytes of a row.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Rows that a check reads while nothing is written.
const CHECKED_AT_ONCE: usize = 256;

pub(crate) struct Db {
    rows: Rows,
    /// Those into sled that have not returned.
    calls: Arc<Calls>,
    /// Held while a batch is written, and while a check reads some rows.
    count: Mutex<Option<Count>>,
    checking: Mutex<()>,
}

/// How far a check has counted. What is written behind it is counted by the writer, so that at the end it has the rows of
/// one moment, without a pause in the writing.
#[derive(Default)]
struct Count {
    last: Vec<u8>,
    /// Rows up to that, by the letter of their table.
    rows: BTreeMap<char, u64>,
}

enum Rows {
    Sled(sled::Db),
    Memory(Arc<Memory>),
}

/// Rows in memory, without checksums.
type Memory = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Check {
    /// The applied position at the moment whose rows were counted.
    pub(crate) meta: Meta,
    pub(crate) records: u64,
    pub(crate) bad: u64,
    pub(crate) problems: Vec<String>,
}

impl Db {
    /// Opens sled, without a check of its rows.
    ///
    /// # Errors
    /// It does not open; it may have panicked, which counts as the same.
    pub(crate) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        Self::open_within(dir, cache_bytes, Arc::default())
    }

    /// The same, with its calls among those.
    pub(crate) fn open_within(dir: &Path, cache_bytes: u64, calls: Arc<Calls>) -> Result<Self, StoreError> {
        remove_half_made_snapshots(dir)?;
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .flush_every_ms(Some(FLUSH_EVERY_MS))
            .mode(sled::Mode::HighThroughput);
        let opened = calls.within(|| catch_unwind(AssertUnwindSafe(|| config.open())));
        match opened {
            Ok(Ok(sled)) => Ok(Self::of(Rows::Sled(sled), calls)),
            Ok(Err(error)) => Err(sled_error(&error)),
            Err(_) => Err(view_error("it panicked while it was opened")),
        }
    }

    /// No rows yet, and none of them ever on a disk.
    pub(crate) fn in_memory() -> Self {
        Self::of(Rows::Memory(Arc::default()), Arc::default())
    }

    fn of(rows: Rows, calls: Arc<Calls>) -> Self {
        Self { rows, calls, count: Mutex::default(), checking: Mutex::default() }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.rows, Rows::Memory(_))
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

    /// The rows are of another version of this program: nothing is wrong with them, and they are of no use.
    pub(crate) fn is_of_another_version(&self) -> bool {
        self.meta_of_any_version().is_some_and(|meta| meta.format != FORMAT)
    }

    /// The applied position, also of rows of another version. `None`: there is none, or it cannot be read.
    pub(crate) fn meta_of_any_version(&self) -> Option<Meta> {
        self.payload(META).ok().flatten().and_then(|payload| decode(&payload).ok())
    }

    /// Reads every row: checksums, and the number of rows of each table at one moment. Writing goes on meanwhile.
    pub(crate) fn check(&self) -> Check {
        self.check_with(&mut || {})
    }

    /// The same; `between` is called where the writer has its turn.
    pub(crate) fn check_with(&self, between: &mut dyn FnMut()) -> Check {
        let _one = self.checking.lock();
        let walked = catch_unwind(AssertUnwindSafe(|| self.walk(between)));
        *self.count.lock() = None;
        walked.unwrap_or_else(|_| Check {
            bad: 1,
            problems: vec!["sled panicked while its rows were read".to_owned()],
            ..Check::default()
        })
    }

    fn walk(&self, between: &mut dyn FnMut()) -> Check {
        let mut check = Check::default();
        *self.count.lock() = Some(Count::default());
        let rows = loop {
            let mut counting = self.count.lock();
            let count = counting.get_or_insert_default();
            let from = match count.last.is_empty() {
                true => Bound::Unbounded,
                false => Bound::Excluded(count.last.clone()),
            };
            let mut n_read = 0;
            let mut all = self.between(from, Bound::Unbounded);
            while n_read < CHECKED_AT_ONCE
                && let Some(item) = all.step(true)
            {
                n_read += 1;
                match item {
                    Ok((key, value)) => count_row(&mut check, count, &key, &value),
                    Err(error) => {
                        check.bad += 1;
                        check.problems.push(format!("sled: {error}"));
                        n_read = 0;
                        break;
                    }
                }
            }
            if n_read < CHECKED_AT_ONCE {
                // What is counted and the position belong together only as long as nothing is written.
                match self.meta() {
                    Ok(meta) => check.meta = meta.unwrap_or_default(),
                    Err(error) => check.problems.push(error.to_string()),
                }
                break counting.take().unwrap_or_default().rows;
            }
            // Whoever waits to write is next.
            MutexGuard::unlock_fair(counting);
            between();
        };
        check.records = rows.values().sum();
        if check.bad > 0 {
            check.problems.push(format!("{} rows of the views have a wrong checksum", check.bad));
        }
        for table in Table::ALL {
            let letter = char::from(table.letter());
            let (has, wants) = (rows.get(&letter), check.meta.rows.get(&letter));
            let (has, wants) = (has.copied().unwrap_or(0), wants.copied().unwrap_or(0));
            if has != wants {
                check.problems.push(format!("view {table:?} has {has} rows, it should have {wants}"));
            }
        }
        check
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        self.payload(&key.0)?.map(|payload| decode(&payload)).transpose()
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
        let mut end = prefix.0.clone();
        let to = match end.last_mut() {
            // The bytes of a key are those of UTF-8, a letter or zero: never the highest.
            Some(last) => {
                *last = last.saturating_add(1);
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        self.between(Bound::Included(prefix.0.clone()), to)
    }

    /// Keys and bytes of all rows from one key up to and including another, in order.
    pub(crate) fn range(&self, from: &Key, to: &Key) -> Range {
        self.between(Bound::Included(from.0.clone()), Bound::Included(to.0.clone()))
    }

    fn between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Range {
        match &self.rows {
            Rows::Sled(sled) => Range::Sled(Box::new(sled.range((from, to))), Arc::clone(&self.calls)),
            Rows::Memory(rows) => Range::Memory(Arc::clone(rows), from, to),
        }
    }

    /// Writes changes and the applied position, all or nothing.
    pub(crate) fn write(
        &self,
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        meta: &mut Meta,
    ) -> Result<(), StoreError> {
        let sled = match &self.rows {
            Rows::Sled(sled) => sled,
            Rows::Memory(rows) => return remember(&mut rows.write(), changes, meta),
        };
        let mut batch = sled::Batch::default();
        let mut counting = self.count.lock();
        let mut counted: BTreeMap<char, i64> = BTreeMap::new();
        for (key, payload) in changes {
            let count = meta.rows.entry(char::from(key[0])).or_default();
            let was_there = self.has(&key)?;
            if counting.as_ref().is_some_and(|count| key <= count.last) {
                let more = i64::from(payload.is_some()) - i64::from(was_there);
                *counted.entry(char::from(key[0])).or_default() += more;
            }
            match payload {
                Some(payload) => {
                    *count += u64::from(!was_there);
                    let value = seal(&key, &payload);
                    batch.insert(key, value);
                }
                None => {
                    *count = count.saturating_sub(u64::from(was_there));
                    batch.remove(key);
                }
            }
        }
        meta.format = FORMAT;
        batch.insert(META, seal(META, &encode(meta)?));
        self.calls.within(|| sled.apply_batch(batch)).map_err(|error| sled_error(&error))?;
        if let Some(count) = counting.as_mut() {
            for (letter, more) in counted {
                let rows = count.rows.entry(letter).or_default();
                *rows = rows.saturating_add_signed(more);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    fn sled(&self) -> &sled::Db {
        match &self.rows {
            Rows::Sled(sled) => sled,
            Rows::Memory(_) => panic!("these rows are in memory"),
        }
    }

    /// Spoils a row, as a flipped bit would. Returns what it was.
    #[cfg(test)]
    pub(crate) fn garble(&self, key: &Key) -> sled::IVec {
        self.sled().insert(&key.0, b"garbled").unwrap().unwrap()
    }

    /// Makes the rows those of an earlier version.
    #[cfg(test)]
    pub(crate) fn age(&self) {
        let meta = Meta { format: FORMAT - 1, ..self.meta().unwrap().unwrap() };
        self.sled().insert(META, seal(META, &encode(&meta).unwrap())).unwrap();
    }

    /// Makes a spoiled row what it was.
    #[cfg(test)]
    pub(crate) fn mend(&self, key: &Key, value: sled::IVec) {
        self.sled().insert(&key.0, value).unwrap();
    }

    /// Makes what was written durable. Returns the bytes written.
    pub(crate) fn flush(&self) -> Result<usize, StoreError> {
        match &self.rows {
            Rows::Sled(sled) => self.calls.within(|| sled.flush()).map_err(|error| sled_error(&error)),
            Rows::Memory(_) => Ok(0),
        }
    }
}

/// Counts a row; a bad one, which nobody knows to be a row, is only told.
fn count_row(check: &mut Check, count: &mut Count, key: &[u8], value: &[u8]) {
    count.last = key.to_vec();
    if unseal(key, value).is_none() {
        check.bad += 1;
    } else if key != META {
        *count.rows.entry(char::from(key[0])).or_default() += 1;
    }
}

/// The same for rows in memory, which nobody counts.
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

/// Rows in the order of their keys, from both ends.
pub(crate) enum Range {
    Sled(Box<sled::Iter>, Arc<Calls>),
    /// Of memory: what is left between two keys.
    Memory(Arc<Memory>, Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Range {
    /// The next row as it is stored: the first, or the last.
    fn step(&mut self, first: bool) -> Option<Result<Row, StoreError>> {
        match self {
            Self::Sled(iter, calls) => {
                let item = calls.within(|| if first { iter.next() } else { iter.next_back() })?;
                let row = item.map(|(key, value)| (key.to_vec(), value.to_vec()));
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
            tracing::warn!(file = %entry.path().display(), "removed a half-made sled snapshot");
        }
    }
    Ok(())
}

/// Changes that are not written yet, over the rows that are.
pub(crate) struct Changes<'a> {
    db: &'a Db,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Changes<'a> {
    /// None yet.
    pub(crate) fn new(db: &'a Db) -> Self {
        Self { db, changes: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        match self.changes.get(&key.0) {
            Some(Some(payload)) => decode(payload).map(Some),
            Some(None) => Ok(None),
            None => self.db.get(key),
        }
    }

    /// Whether there is a row, as changed.
    pub(crate) fn has(&self, key: &Key) -> Result<bool, StoreError> {
        match self.changes.get(&key.0) {
            Some(change) => Ok(change.is_some()),
            None => self.db.has(&key.0),
        }
    }

    pub(crate) fn put(&mut self, key: Key, row: &impl Serialize) -> Result<(), StoreError> {
        let payload = encode(row)?;
        self.put_bytes(key, payload);
        Ok(())
    }

    /// Sets the bytes of a row.
    pub(crate) fn put_bytes(&mut self, key: Key, payload: Vec<u8>) {
        self.changes.insert(key.0, Some(payload));
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.changes.insert(key.0, None);
    }

    /// The first rows whose key begins so, in order, as changed.
    pub(crate) fn first(&self, prefix: &Key, limit: usize) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        for item in self.db.scan(prefix) {
            let (key, payload) = item?;
            if !self.changes.contains_key(&key) {
                found.push((key, payload));
                if found.len() == limit {
                    break;
                }
            }
        }
        let changed =
            self.changes.range(prefix.0.clone()..).take_while(|(key, _)| key.starts_with(&prefix.0));
        found.extend(changed.filter_map(|(key, payload)| Some((key.clone(), payload.clone()?))));
        found.sort();
        found.truncate(limit);
        Ok(found)
    }

    /// Writes them, with the applied position.
    pub(crate) fn write(self, meta: &mut Meta) -> Result<(), StoreError> {
        self.db.write(self.changes, meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(keys: &[&str]) -> (tempfile::TempDir, Db, Db) {
        let dir = tempfile::tempdir().unwrap();
        let (sled, memory) = (Db::open(dir.path(), 1 << 20).unwrap(), Db::in_memory());
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
