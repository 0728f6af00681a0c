//! Known keys, taken from the types themselves, and the one that a mistyped key comes nearest to.

use serde::de::{Deserialize, Deserializer, Visitor, value::Error};

/// The keys of a struct with derived `Deserialize`, as they are written in a file.
pub(super) fn fields_of<T: Deserialize<'static>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // The probe hands no value out, so this always "fails" once it has seen the names.
    let _seen = T::deserialize(Probe { fields: &mut fields });
    fields
}

/// A deserializer that notes the names of the fields it is asked for.
struct Probe<'a> {
    fields: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.fields = fields;
        Err(serde::de::Error::custom("only a probe"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The known key nearest to what was written, when it is near enough to be meant.
pub(super) fn nearest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    let scored = known.iter().map(|key| (distance(&written, key), *key));
    let (steps, key) = scored.min_by_key(|(steps, _)| *steps)?;
    let longer = written.chars().count().max(key.len());
    (steps <= (longer / 3).max(1) && steps < longer).then_some(key)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}
