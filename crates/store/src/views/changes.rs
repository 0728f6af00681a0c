//! Changes of the rows that are written together: read as they will be, each encoded once, however often it changes.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;

use cairn_types::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::blocks::{Packed, pack, unpack};
use super::changed::ChangedMemory;
use super::codec::{Key, decode, encode};
use super::db::Db;
use super::rows::Meta;

/// Changes that are not written yet, over the rows that are.
pub(crate) struct Changes<'a> {
    db: &'a Db,
    changes: BTreeMap<Vec<u8>, Change>,
    pub(crate) memories: Vec<ChangedMemory>,
}

enum Change {
    Removed,
    Bytes(Vec<u8>),
    Decoded(Box<dyn Decoded>),
}

/// A row that changes several times before it is written.
trait Decoded: Any {
    fn payload(&self) -> Result<Vec<u8>, StoreError>;
}

struct One<T>(T);

struct Block<T>(Vec<T>);

impl<T: Serialize + 'static> Decoded for One<T> {
    fn payload(&self) -> Result<Vec<u8>, StoreError> {
        encode(&self.0)
    }
}

impl<T: Packed + 'static> Decoded for Block<T> {
    fn payload(&self) -> Result<Vec<u8>, StoreError> {
        Ok(pack(&self.0))
    }
}

impl Change {
    /// None: the row goes.
    fn payload(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Removed => Ok(None),
            Self::Bytes(payload) => Ok(Some(payload.clone())),
            Self::Decoded(row) => row.payload().map(Some),
        }
    }

    /// The row, if it was put with this type.
    fn decoded<D: Decoded>(&self) -> Option<&D> {
        match self {
            Self::Decoded(row) => (row.as_ref() as &dyn Any).downcast_ref(),
            Self::Removed | Self::Bytes(_) => None,
        }
    }

    fn decoded_mut<D: Decoded>(&mut self) -> Option<&mut D> {
        match self {
            Self::Decoded(row) => (row.as_mut() as &mut dyn Any).downcast_mut(),
            Self::Removed | Self::Bytes(_) => None,
        }
    }

    fn is_removed(&self) -> bool {
        matches!(self, Self::Removed)
    }
}

impl<'a> Changes<'a> {
    /// None yet.
    pub(crate) fn new(db: &'a Db) -> Self {
        Self { db, changes: BTreeMap::new(), memories: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn get<T: Serialize + DeserializeOwned + Clone + 'static>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let Some(change) = self.changes.get(&key.0) else { return self.db.get(key) };
        match change.decoded::<One<T>>() {
            Some(One(row)) => Ok(Some(row.clone())),
            None => change.payload()?.map(|payload| decode(&payload)).transpose(),
        }
    }

    /// What a block holds.
    pub(crate) fn items<T: Packed + Clone + 'static>(&self, key: &Key) -> Result<Option<Vec<T>>, StoreError> {
        self.look(key, <[T]>::to_vec)
    }

    /// Looks into a block, if there is one.
    pub(crate) fn look<T: Packed + 'static, R>(
        &self,
        key: &Key,
        look: impl FnOnce(&[T]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let Some(change) = self.changes.get(&key.0) else {
            return Ok(self.db.items(key)?.map(|items: Vec<T>| look(&items)));
        };
        match change.decoded::<Block<T>>() {
            Some(Block(items)) => Ok(Some(look(items))),
            None => change.payload()?.map(|payload| Ok(look(&unpack(&payload)?))).transpose(),
        }
    }

    /// What a block holds, if there is one, to be changed: it is written again in any case.
    pub(crate) fn items_mut<T: Packed + Clone + 'static>(
        &mut self,
        key: &Key,
    ) -> Result<Option<&mut Vec<T>>, StoreError> {
        if self.changes.get(&key.0).is_none_or(|change| change.decoded::<Block<T>>().is_none()) {
            let Some(items) = self.items::<T>(key)? else { return Ok(None) };
            self.put_items(key.clone(), items);
        }
        let block = self.changes.get_mut(&key.0).and_then(Change::decoded_mut::<Block<T>>);
        Ok(block.map(|Block(items)| items))
    }

    pub(crate) fn put_items<T: Packed + 'static>(&mut self, key: Key, items: Vec<T>) {
        self.changes.insert(key.0, Change::Decoded(Box::new(Block(items))));
    }

    /// Whether there is a row.
    pub(crate) fn has(&self, key: &Key) -> Result<bool, StoreError> {
        match self.changes.get(&key.0) {
            Some(change) => Ok(!change.is_removed()),
            None => self.db.has(&key.0),
        }
    }

    pub(crate) fn put(&mut self, key: Key, row: &impl Serialize) -> Result<(), StoreError> {
        let payload = encode(row)?;
        self.put_bytes(key, payload);
        Ok(())
    }

    /// Puts a row that is likely to change again before it is written.
    pub(crate) fn put_decoded<T: Serialize + 'static>(&mut self, key: Key, row: T) {
        self.changes.insert(key.0, Change::Decoded(Box::new(One(row))));
    }

    /// Sets the bytes of a row.
    pub(crate) fn put_bytes(&mut self, key: Key, payload: Vec<u8>) {
        self.changes.insert(key.0, Change::Bytes(payload));
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.changes.insert(key.0, Change::Removed);
    }

    /// The key of the last row from one key up to and including another.
    pub(crate) fn last_upto(&self, from: &Key, to: &Key) -> Result<Option<Key>, StoreError> {
        let between = (Bound::Included(&from.0), Bound::Included(&to.0));
        let mut changed = self.changes.range::<Vec<u8>, _>(between).rev();
        let changed = changed.find(|(_, change)| !change.is_removed()).map(|(key, _)| Key(key.clone()));
        // A row that changed is behind the last one that did not, or stands for itself.
        for item in self.db.range(changed.as_ref().unwrap_or(from), to).rev() {
            let (key, _) = item?;
            if !self.changes.contains_key(&key) {
                return Ok(Some(Key(key)));
            }
        }
        Ok(changed)
    }

    /// Keys of the first rows whose key begins so, in order.
    pub(crate) fn first(&self, prefix: &Key, limit: usize) -> Result<Vec<Key>, StoreError> {
        self.first_after(prefix, prefix, limit)
    }

    /// Keys of the first rows behind a key, which may be what they begin with.
    pub(crate) fn first_after(
        &self,
        prefix: &Key,
        after: &Key,
        limit: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let mut found = Vec::new();
        for item in self.db.scan_after(prefix, Some(after.clone())) {
            let (key, _) = item?;
            if !self.changes.contains_key(&key) {
                found.push(key);
                if found.len() == limit {
                    break;
                }
            }
        }
        let behind = (Bound::Excluded(after.0.clone()), Bound::Unbounded);
        let changed =
            self.changes.range::<Vec<u8>, _>(behind).take_while(|(key, _)| key.starts_with(&prefix.0));
        let changed = changed.filter(|(_, change)| !change.is_removed()).map(|(key, _)| key.clone());
        found.extend(changed.take(limit));
        found.sort();
        found.truncate(limit);
        Ok(found.into_iter().map(Key).collect())
    }

    /// Writes them, with the applied position. Returns the memories that changed.
    pub(crate) fn write(self, meta: &mut Meta) -> Result<Vec<ChangedMemory>, StoreError> {
        let payload = |(key, change): (Vec<u8>, Change)| {
            let payload = match change {
                Change::Bytes(payload) => Some(payload),
                change => change.payload()?,
            };
            Ok((key, payload))
        };
        let changes: Result<_, StoreError> = self.changes.into_iter().map(payload).collect();
        self.db.write(changes?, meta)?;
        Ok(self.memories)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::SummaryRow;
    use super::*;

    fn key(text: &str) -> Key {
        Key(format!("k{text}").into_bytes())
    }

    fn rows(numbers: &[u64]) -> Vec<SummaryRow> {
        numbers.iter().map(|n| SummaryRow { ordinal: *n, n: *n }).collect()
    }

    #[test]
    fn what_was_put_is_read_as_it_will_be_written() {
        let db = Db::in_memory();
        let mut changes = Changes::new(&db);
        changes.put_items(key("a"), rows(&[1]));
        changes.put_items(key("b"), rows(&[1]));
        changes.write(&mut Meta::default()).unwrap();

        let mut changes = Changes::new(&db);
        changes.items_mut(&key("a")).unwrap().unwrap().extend(rows(&[2]));
        changes.items_mut(&key("a")).unwrap().unwrap().extend(rows(&[3]));
        changes.remove(key("b"));
        changes.put_decoded(key("c"), 7_u64);
        changes.put_bytes(key("d"), pack(&rows(&[4])));
        assert!(changes.items_mut::<SummaryRow>(&key("b")).unwrap().is_none());
        assert!(changes.items_mut::<SummaryRow>(&key("e")).unwrap().is_none());
        changes.items_mut(&key("d")).unwrap().unwrap().extend(rows(&[5]));
        // Another type reads what the row is written as.
        assert!(changes.get::<String>(&key("c")).is_err());
        let there = |changes: &Changes<'_>| {
            let items = ["a", "b", "d", "e"].map(|of| changes.items::<SummaryRow>(&key(of)).unwrap());
            let has = ["a", "b", "c", "e"].map(|of| changes.has(&key(of)).unwrap());
            let first = changes.first(&key(""), 3).unwrap().into_iter().map(|key| key.0).collect::<Vec<_>>();
            let last =
                ["a", "b", "z"].map(|to| changes.last_upto(&key("a"), &key(to)).unwrap().map(|key| key.0));
            (items, changes.get::<u64>(&key("c")).unwrap(), has, first, last)
        };
        let before = there(&changes);
        assert_eq!(before.0, [Some(rows(&[1, 2, 3])), None, Some(rows(&[4, 5])), None]);
        assert_eq!((before.1, before.2), (Some(7), [true, false, true, false]));
        assert_eq!(before.3, ["a", "c", "d"].map(|of| key(of).0));
        assert_eq!(before.4, ["a", "a", "d"].map(|of| Some(key(of).0)));
        changes.write(&mut Meta::default()).unwrap();
        assert_eq!(there(&Changes::new(&db)), before);
    }
}
