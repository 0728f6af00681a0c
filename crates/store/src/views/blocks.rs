//! Rows in few bytes: numbers take as many bytes as they need, each written as its distance to the one before. What a channel
//! has many of stands in blocks, so that a row is not mostly its key.

use cairn_types::ids::{ArtifactId, Generation, MessageId, Seq, TurnId};
use cairn_types::ports::StoreError;

use super::codec::view_error;
use super::rows::{MessageRow, Offset, SeqRow, SummaryRow};
use crate::journal::segment::Position;

/// Most ids of messages of a block: they take some 24 bytes each.
pub(crate) const IDS_BLOCK: usize = 64;

/// Most record offsets of a block: they take about five bytes each, and a message has several.
pub(crate) const OFFSETS_BLOCK: usize = 256;

/// What is written in few bytes, as how it differs from what stands before it.
pub(crate) trait Packed: Sized {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>);

    /// `None`: these bytes say nothing.
    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self>;
}

pub(crate) fn pack<T: Packed>(items: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before = None;
    for item in items {
        item.put(before, &mut out);
        before = Some(item);
    }
    out
}

pub(crate) fn unpack<T: Packed>(mut payload: &[u8]) -> Result<Vec<T>, StoreError> {
    let mut items: Vec<T> = Vec::new();
    while !payload.is_empty() {
        let item = T::take(&mut payload, items.last());
        items.push(item.ok_or_else(|| view_error("a row cannot be read"))?);
    }
    Ok(items)
}

impl Packed for Offset {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        let from = before.copied().unwrap_or_default();
        put_step(out, from.n, self.n);
        let follows = before.is_some_and(|before| before.is_followed_by(&self.at));
        put_number(out, u64::from(self.at.len) << 1 | u64::from(follows));
        if !follows {
            put_step(out, from.at.segment, self.at.segment);
            put_step(out, from.at.offset, self.at.offset);
        }
    }

    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self> {
        let from = before.copied().unwrap_or_default();
        let n = take_step(bytes, from.n)?;
        let len = take_number(bytes)?;
        let (segment, offset) = if len & 1 == 1 {
            (from.at.segment, from.end()?)
        } else {
            (take_step(bytes, from.at.segment)?, take_step(bytes, from.at.offset)?)
        };
        let at = Position { segment, offset, len: u32::try_from(len >> 1).ok()? };
        Some(Self { n, at })
    }
}

/// Times are written as seconds since the first of January 2026.
const EPOCH: i64 = 1_767_225_600;

const TAKEN: u64 = 1;
const EDITED: u64 = 2;
const DELETED: u64 = 4;
const EXPIRED: u64 = 8;
const LOST: u64 = 16;
const HAS_SEQ: u64 = 32;
const ENDED: u64 = 64;
const COPIED: u64 = 128;
const LAST: u64 = 256;
const REACTED: u64 = 512;

fn flags(of: &[(u64, bool)]) -> u64 {
    of.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum()
}

impl Packed for SeqRow {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_step(out, before.map_or(0, |before| before.seq.0), self.seq.0);
        put_step(out, before.map_or(0, |before| before.n), self.n);
        let of = [
            (TAKEN, self.taken.is_some()),
            (EDITED, self.edited.is_some()),
            (DELETED, self.deleted),
            (EXPIRED, self.expired),
            (LOST, self.lost),
            (COPIED, self.copy.is_some()),
            (LAST, self.end.is_some()),
            (REACTED, !self.reactions.is_empty()),
        ];
        put_number(out, flags(&of));
        if let Some((turn, generation)) = &self.taken {
            put_text(out, turn.as_str());
            put_number(out, u64::from(generation.0));
        }
        if let Some(edited) = self.edited {
            put_step(out, self.n, edited);
        }
        if let Some(copy) = &self.copy {
            put_text(out, copy.as_str());
        }
        if let Some(end) = self.end {
            put_step(out, self.n, end);
        }
        if !self.reactions.is_empty() {
            put_number(out, self.reactions.len() as u64);
            self.reactions.iter().for_each(|n| put_step(out, self.n, *n));
        }
    }

    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self> {
        let seq = Seq(take_step(bytes, before.map_or(0, |before| before.seq.0))?);
        let n = take_step(bytes, before.map_or(0, |before| before.n))?;
        let flags = take_number(bytes)?;
        let has = |flag| flags & flag != 0;
        let taken = if has(TAKEN) {
            let turn = TurnId::from(take_text(bytes)?);
            Some((turn, Generation(u32::try_from(take_number(bytes)?).ok()?)))
        } else {
            None
        };
        let edited = if has(EDITED) { Some(take_step(bytes, n)?) } else { None };
        let copy = if has(COPIED) { Some(ArtifactId::from(take_text(bytes)?)) } else { None };
        let end = if has(LAST) { Some(take_step(bytes, n)?) } else { None };
        let n_reactions = if has(REACTED) { take_number(bytes)? } else { 0 };
        let reactions = (0..n_reactions).map(|_| take_step(bytes, n)).collect::<Option<_>>()?;
        Some(Self {
            seq,
            n,
            taken,
            edited,
            deleted: has(DELETED),
            expired: has(EXPIRED),
            lost: has(LOST),
            copy,
            end,
            reactions,
        })
    }
}

impl Packed for SummaryRow {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_step(out, before.map_or(0, |before| before.ordinal), self.ordinal);
        put_step(out, before.map_or(0, |before| before.n), self.n);
    }

    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self> {
        let ordinal = take_step(bytes, before.map_or(0, |before| before.ordinal))?;
        Some(Self { ordinal, n: take_step(bytes, before.map_or(0, |before| before.n))? })
    }
}

impl Packed for MessageRow {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_text_behind(out, before.map_or("", |before| before.id.as_str()), self.id.as_str());
        put_step(out, before.map_or(0, |before| before.n), self.n);
        put_step(
            out,
            before.map_or(EPOCH, |before| before.second).cast_unsigned(),
            self.second.cast_unsigned(),
        );
        let of = [
            (EDITED, self.edited.is_some()),
            (DELETED, self.deleted),
            (HAS_SEQ, self.seq.is_some()),
            (ENDED, self.end.is_some()),
        ];
        put_number(out, flags(&of));
        if let Some(edited) = self.edited {
            put_step(out, self.n, edited);
        }
        if let Some(seq) = self.seq {
            put_number(out, seq.0);
        }
        if let Some(end) = self.end {
            put_step(out, self.n, end);
        }
    }

    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self> {
        let id = MessageId::from(take_text_behind(bytes, before.map_or("", |before| before.id.as_str()))?);
        let n = take_step(bytes, before.map_or(0, |before| before.n))?;
        let second =
            take_step(bytes, before.map_or(EPOCH, |before| before.second).cast_unsigned())?.cast_signed();
        let flags = take_number(bytes)?;
        let has = |flag| flags & flag != 0;
        let edited = if has(EDITED) { Some(take_step(bytes, n)?) } else { None };
        let seq = if has(HAS_SEQ) { Some(Seq(take_number(bytes)?)) } else { None };
        let end = if has(ENDED) { Some(take_step(bytes, n)?) } else { None };
        Some(Self { id, n, second, edited, deleted: has(DELETED), seq, end })
    }
}

/// Seven bits to a byte, the lowest first; the highest bit says that more follow.
pub(super) fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

/// How far it is from one number to another, in either direction.
fn put_step(out: &mut Vec<u8>, from: u64, to: u64) {
    let step = to.wrapping_sub(from).cast_signed();
    put_number(out, ((step << 1) ^ (step >> 63)).cast_unsigned());
}

fn take_step(bytes: &mut &[u8], from: u64) -> Option<u64> {
    let step = take_number(bytes)?;
    Some(from.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg()))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// A text that begins as the one before it does.
fn put_text_behind(out: &mut Vec<u8>, before: &str, text: &str) {
    let shared: usize = text
        .chars()
        .zip(before.chars())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one.len_utf8())
        .sum();
    put_number(out, shared as u64);
    put_text(out, &text[shared..]);
}

fn take_text_behind(bytes: &mut &[u8], before: &str) -> Option<String> {
    let shared = usize::try_from(take_number(bytes)?).ok()?;
    Some(format!("{}{}", before.get(..shared)?, take_text(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs and unpacks; returns the bytes. Every shorter row must be refused, or be one of fewer items.
    fn there_and_back<T: Packed + PartialEq + std::fmt::Debug>(items: &[T]) -> usize {
        let bytes = pack(items);
        assert_eq!(unpack::<T>(&bytes).unwrap(), items);
        for len in 0..bytes.len() {
            let cut = unpack::<T>(&bytes[..len]);
            assert!(cut.is_err() || cut.is_ok_and(|cut| cut.len() < items.len()), "{len} of {items:?}");
        }
        bytes.len()
    }

    #[test]
    fn numbers_take_the_bytes_that_they_need() {
        for (n, len) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut out = Vec::new();
            put_number(&mut out, n);
            assert_eq!((out.len(), take_number(&mut out.as_slice())), (len, Some(n)), "{n}");
        }
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0xff; 20]] {
            assert!(take_number(&mut &*bytes).is_none_or(|n| n == u64::MAX), "{bytes:?}");
        }
        for (from, to, len) in
            [(5, 5, 1), (5, 6, 1), (6, 5, 1), (0, u64::MAX, 1), (0, 1 << 40, 6), (9, 1 << 63, 10)]
        {
            let mut out = Vec::new();
            put_step(&mut out, from, to);
            assert_eq!((out.len(), take_step(&mut out.as_slice(), from)), (len, Some(to)), "{from} to {to}");
        }
    }

    #[test]
    fn places_of_an_append_take_three_bytes_each_behind_the_first() {
        let at = |n, segment, offset, len| Offset { n, at: Position { segment, offset, len } };
        assert_eq!(there_and_back::<Offset>(&[]), 0);
        let append = [at(7, 1, 1000, 500), at(8, 1, 1501, 200), at(9, 1, 1702, 90)];
        assert_eq!(there_and_back(&append), 1 + 2 + 1 + 2 + 3 + 3);
        there_and_back(&[at(7, 1, 1000, 500), at(9, 1, 1501, 200)]);
        // Another segment, another place in the same one, a place before.
        there_and_back(&[at(7, 1, 1000, 500), at(8, 8, 0, 1), at(30, 8, 77, 1), at(31, 8, 5, 1)]);
        there_and_back(&[at(u64::MAX, u64::MAX, u64::MAX, u32::MAX), at(1, 0, 0, u32::MAX)]);
    }

    #[test]
    fn a_row_of_each_kind_comes_back_as_it_was() {
        let row = SeqRow::of(Seq(33), 7);
        let taken = Some((TurnId::from("t12"), Generation(3)));
        let rows = [
            row.clone(),
            SeqRow { seq: Seq(34), taken: taken.clone(), ..SeqRow::of(Seq(34), 5) },
            SeqRow { taken: taken.clone(), edited: Some(9), deleted: true, ..SeqRow::of(Seq(35), 8) },
            SeqRow { taken, lost: true, expired: true, ..SeqRow::of(Seq(36), u64::MAX) },
            SeqRow { end: Some(12), reactions: vec![14, 90, 15], ..SeqRow::of(Seq(37), 11) },
            SeqRow { edited: Some(0), ..SeqRow::of(Seq(u64::MAX), 1) },
        ];
        there_and_back(&rows);
        assert_eq!(there_and_back(&[row.clone(), SeqRow { seq: Seq(34), ..row }]), 6);

        let second = 1_767_225_600 + 86_400;
        let id = MessageId::from("1234");
        let row = MessageRow { id, n: 70_000, second, edited: None, deleted: false, seq: None, end: None };
        there_and_back(std::slice::from_ref(&row));
        there_and_back(&[MessageRow { deleted: true, edited: Some(70_001), ..row.clone() }]);
        for second in [i64::MIN, -1, 0, i64::MAX] {
            there_and_back(&[MessageRow { second, ..row.clone() }]);
        }
        let row = MessageRow { seq: Some(Seq(5)), end: Some(70_004), ..row };
        let alone = there_and_back(std::slice::from_ref(&row));
        let next = MessageRow {
            id: "1235".into(),
            n: 70_005,
            second: second + 60,
            end: Some(70_009),
            ..row.clone()
        };
        assert_eq!((alone, there_and_back(&[row.clone(), next])), (15, 15 + 8));
        // What two ids share ends between two characters.
        let [one, other] = ["zo\u{e9}", "zo\u{ea}"].map(|id| MessageRow { id: id.into(), ..row.clone() });
        there_and_back(&[one, other]);
    }

    #[test]
    fn a_place_of_a_summary_takes_a_few_bytes() {
        let rows = [(1, 30), (2, 61), (4, 70_000), (5, 70_020)].map(|(ordinal, n)| SummaryRow { ordinal, n });
        assert_eq!(there_and_back(&rows), 2 + 2 + 4 + 2);
    }

    #[test]
    fn a_row_that_says_nothing_is_an_error() {
        for bytes in [&[0x80][..], &[2, 1, 255], &[0xff; 30]] {
            assert!(unpack::<Offset>(bytes).is_err(), "{bytes:?}");
            assert!(unpack::<SeqRow>(bytes).is_err(), "{bytes:?}");
            assert!(unpack::<MessageRow>(bytes).is_err(), "{bytes:?}");
            assert!(unpack::<SummaryRow>(bytes).is_err(), "{bytes:?}");
        }
        assert!(unpack::<SeqRow>(&[2, 2, 1, 2, 0xff, 0xfe, 1]).is_err(), "no text");
    }
}
