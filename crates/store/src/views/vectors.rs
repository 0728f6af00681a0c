//! Vectors of entries: how near what they say is to what is asked. A model makes them behind the journal, so they are no function
//! of it alone: views that are made again begin without any.

use std::collections::{BTreeMap, HashMap, HashSet};

use cairn_types::ids::{ChannelId, Seq};
use cairn_types::ports::StoreError;
use serde::{Deserialize, Serialize};

use super::archive::channel_of;
use super::blocks::{Packed, put_number, take_number};
use super::changes::Changes;
use super::codec::{Key, Table, VECTORS, view_error};
use super::db::Db;
use super::rows::SeqRow;
use crate::journal::open::Checkpoint;
use crate::journal::segment::Position;

/// Rows that go together when another model takes over.
const REMOVED_AT_ONCE: usize = 500;

/// Which model made the vectors, and how far it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct VectorState {
    pub(crate) model: String,
    /// The last record whose entries have theirs, and where it is.
    pub(crate) n: u64,
    at: (u64, u64, u32),
    /// How many there are.
    pub(crate) count: u64,
}

impl VectorState {
    pub(crate) fn of(db: &Db) -> Result<Option<Self>, StoreError> {
        db.get(&Key::table(Table::VectorState))
    }

    pub(crate) fn begin(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let (segment, offset, len) = self.at;
        Checkpoint { n: self.n, position: Position { segment, offset, len } }
    }

    pub(crate) fn advance(&mut self, at: Checkpoint) {
        self.n = at.n;
        self.at = (at.position.segment, at.position.offset, at.position.len);
    }
}

/// The vector of an entry, each number in a byte.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vector {
    pub(crate) seq: Seq,
    pub(crate) numbers: Vec<i8>,
}

impl Packed for Vector {
    fn put(&self, _before: Option<&Self>, out: &mut Vec<u8>) {
        put_number(out, self.seq.0);
        put_number(out, self.numbers.len() as u64);
        out.extend(self.numbers.iter().map(|number| number.cast_unsigned()));
    }

    fn take(bytes: &mut &[u8], _before: Option<&Self>) -> Option<Self> {
        let seq = Seq(take_number(bytes)?);
        let len = usize::try_from(take_number(bytes)?).ok()?;
        let (numbers, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(Self { seq, numbers: numbers.iter().map(|byte| byte.cast_signed()).collect() })
    }
}

/// A vector in bytes: its largest number is 127. What only points somewhere keeps where.
pub(crate) fn quantized(vector: &[f32]) -> Vec<i8> {
    let most = vector.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    vector.iter().map(|x| (x / most * 127.0).round() as i8).collect()
}

/// How near two vectors are: 1, where they point the same way.
fn cosine(a: &[i8], b: &[i8]) -> f64 {
    let dot = |a: &[i8], b: &[i8]| a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>();
    f64::from(dot(a, b)) / (f64::from(dot(a, a)) * f64::from(dot(b, b))).sqrt().max(1.0)
}

/// Keeps vectors of entries that still have their words, or begins anew with another model: then a few rows go each time, and the
/// state is that of the new model only when none of the old one are left.
pub(super) fn keep(
    changes: &mut Changes<'_>,
    mut state: VectorState,
    vectors: Vec<(ChannelId, Vector)>,
) -> Result<(), StoreError> {
    let before: Option<VectorState> = changes.get(&Key::table(Table::VectorState))?;
    let Some(before) = before.filter(|before| before.model == state.model) else {
        let rows = changes.first(&Key::table(Table::Vector), REMOVED_AT_ONCE)?;
        if rows.len() < REMOVED_AT_ONCE {
            let fresh = VectorState::begin(&state.model);
            changes.put(Key::table(Table::VectorState), &fresh)?;
        }
        rows.into_iter().for_each(|row| changes.remove(row));
        return Ok(());
    };
    state.count = before.count;
    for (channel, vector) in vectors {
        let has_words = |rows: &[SeqRow]| {
            rows.iter().any(|row| row.seq == vector.seq && !row.deleted && !row.expired && !row.lost)
        };
        if !changes.look(&Key::seq(&channel, vector.seq), has_words)?.unwrap_or(false) {
            continue;
        }
        let key = Key::vector(&channel, vector.seq);
        let mut block: Vec<Vector> = changes.items(&key)?.unwrap_or_default();
        if block.iter().all(|other| other.seq != vector.seq) {
            block.push(vector);
            block.sort_by_key(|vector| vector.seq);
            state.count += 1;
            changes.put_items(key, block);
        }
    }
    changes.put(Key::table(Table::VectorState), &state)
}

/// Entries that lose their words lose what points at their meaning.
pub(super) fn remove(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    ranges: impl IntoIterator<Item = (Seq, Seq)>,
) -> Result<(), StoreError> {
    let Some(mut state) = changes.get::<VectorState>(&Key::table(Table::VectorState))? else { return Ok(()) };
    let before = state.count;
    for (from, to) in ranges {
        let mut first = from.0.saturating_sub(1) / VECTORS * VECTORS + 1;
        while first <= to.0 {
            let key = Key::vector(channel, Seq(first));
            if let Some(mut block) = changes.items::<Vector>(&key)? {
                let n = block.len();
                block.retain(|vector| !(from..=to).contains(&vector.seq));
                state.count = state.count.saturating_sub((n - block.len()) as u64);
                if block.is_empty() {
                    changes.remove(key);
                } else {
                    changes.put_items(key, block);
                }
            }
            first += VECTORS;
        }
    }
    if state.count == before { Ok(()) } else { changes.put(Key::table(Table::VectorState), &state) }
}

/// Whether an entry has a vector.
pub(crate) fn has(db: &Db, channel: &ChannelId, seq: Seq) -> Result<bool, StoreError> {
    let block: Option<Vec<Vector>> = db.items(&Key::vector(channel, seq))?;
    Ok(block.is_some_and(|block| block.iter().any(|vector| vector.seq == seq)))
}

/// An entry of a channel.
pub(crate) type At = (ChannelId, Seq);

/// How near entries are to what is asked: so many of the nearest, and those that are asked for, in a channel or in all.
pub(crate) fn nearest(
    db: &Db,
    channel: Option<&ChannelId>,
    asked: &[i8],
    (most, wanted): (usize, &HashSet<At>),
) -> Result<HashMap<At, f64>, StoreError> {
    let prefix = channel.map_or_else(|| Key::table(Table::Vector), Key::vectors);
    let mut found = HashMap::new();
    // By nearness, in whole numbers, so that they have an order.
    let mut best: BTreeMap<(i64, u64), At> = BTreeMap::new();
    for (idx, row) in (0_u64..).zip(db.scan(&prefix)) {
        let (key, payload) = row?;
        let name = key.len().checked_sub(8).and_then(|end| key.get(..end));
        let of = channel_of(name.ok_or_else(|| view_error("a vector's key cannot be read"))?)?;
        for vector in super::blocks::unpack::<Vector>(&payload)? {
            if vector.numbers.len() != asked.len() {
                continue;
            }
            let near = cosine(&vector.numbers, asked);
            let at = (of.clone(), vector.seq);
            if wanted.contains(&at) {
                found.insert(at, near);
                continue;
            }
            let rank = ((near * 1e9) as i64, idx * VECTORS + vector.seq.0 % VECTORS);
            if best.len() < most || best.first_key_value().is_some_and(|(last, _)| rank > *last) {
                best.insert(rank, at);
                if best.len() > most {
                    best.pop_first();
                }
            }
        }
    }
    found.extend(best.into_iter().map(|((near, _), at)| (at, near as f64 / 1e9)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::rows::Meta;
    use super::*;

    fn channel(name: &str) -> ChannelId {
        format!("main/local/{name}").parse().unwrap()
    }

    /// Rows with entries, some of them without words.
    fn rows() -> Db {
        let db = Db::in_memory();
        let mut changes = Changes::new(&db);
        for name in ["a", "b"] {
            let row = |seq| SeqRow { deleted: seq == 3, ..SeqRow::of(Seq(seq), seq) };
            changes.put_items(Key::seq(&channel(name), Seq(1)), (1..=40).map(row).collect());
        }
        changes.write(&mut Meta::default()).unwrap();
        db
    }

    fn write(db: &Db, change: impl FnOnce(&mut Changes<'_>)) -> VectorState {
        let mut changes = Changes::new(db);
        change(&mut changes);
        changes.write(&mut Meta::default()).unwrap();
        VectorState::of(db).unwrap().unwrap()
    }

    fn vectors(name: &str, seqs: &[u64]) -> Vec<(ChannelId, Vector)> {
        let vector = |seq: &u64| {
            let angle = *seq as f32 / 40.0;
            Vector { seq: Seq(*seq), numbers: quantized(&[angle.cos(), angle.sin(), 0.0]) }
        };
        seqs.iter().map(|seq| (channel(name), vector(seq))).collect()
    }

    fn near(db: &Db, of: Option<&str>, most: usize, wanted: &[(&str, u64)]) -> Vec<(String, u64)> {
        let wanted = wanted.iter().map(|(name, seq)| (channel(name), Seq(*seq))).collect();
        let channel = of.map(channel);
        let found = nearest(db, channel.as_ref(), &quantized(&[1.0, 0.0, 0.0]), (most, &wanted)).unwrap();
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.0.as_str().cmp(b.0.0.as_str())));
        found.into_iter().map(|((channel, seq), _)| (channel.as_str()[11..].to_owned(), seq.0)).collect()
    }

    #[test]
    fn the_nearest_are_found_in_a_channel_or_in_all_and_lose_their_vectors_with_their_words() {
        let db = rows();
        let state = VectorState::begin("m1");
        let keep_all = |changes: &mut Changes<'_>, vectors| keep(changes, state.clone(), vectors).unwrap();
        // The first time it begins.
        assert_eq!(write(&db, |changes| keep_all(changes, Vec::new())).count, 0);
        let kept = write(&db, |changes| {
            keep_all(changes, vectors("a", &[1, 3, 17, 40]));
            keep_all(changes, vectors("b", &[2, 18]));
            // Twice is once.
            keep_all(changes, vectors("a", &[17]));
        });
        assert_eq!((kept.count, has(&db, &channel("a"), Seq(3)).unwrap()), (5, false), "one has no words");
        assert_eq!(near(&db, Some("a"), 2, &[]), [("a".to_owned(), 1), ("a".to_owned(), 17)]);
        assert_eq!(near(&db, None, 2, &[]), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(near(&db, Some("a"), 1, &[("a", 40)]), [("a".to_owned(), 1), ("a".to_owned(), 40)]);
        let ranges = [(Seq(1), Seq(1)), (Seq(16), Seq(39))];
        let left = write(&db, |changes| remove(changes, &channel("a"), ranges).unwrap());
        assert_eq!((left.count, near(&db, Some("a"), 9, &[])), (3, vec![("a".to_owned(), 40)]));
    }

    #[test]
    fn another_model_begins_without_vectors() {
        let db = rows();
        write(&db, |changes| keep(changes, VectorState::begin("m1"), Vec::new()).unwrap());
        write(&db, |changes| keep(changes, VectorState::begin("m1"), vectors("a", &[1, 2])).unwrap());
        let other = VectorState::begin("m2");
        let begun = write(&db, |changes| keep(changes, other.clone(), vectors("a", &[1])).unwrap());
        assert_eq!((begun, near(&db, None, 9, &[])), (other, Vec::new()));
    }
}
