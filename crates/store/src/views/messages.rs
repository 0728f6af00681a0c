//! How messages stand, by their ids. A channel has many of them, so they stand in blocks in the order of the ids: a block has
//! those from the id of its key up to the key of the next. The key of a channel's first block has no id.

use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::StoreError;

use super::blocks::IDS_BLOCK;
use super::changes::Changes;
use super::codec::{Key, view_error};
use super::rows::MessageRow;

pub(super) fn get(
    changes: &Changes<'_>,
    channel: &ChannelId,
    id: &MessageId,
) -> Result<Option<MessageRow>, StoreError> {
    let Some(key) = block_of(changes, channel, id)? else { return Ok(None) };
    let find = |rows: &[MessageRow]| Some(rows[at(rows, id).ok()?].clone());
    Ok(changes.look(&key, find)?.flatten())
}

/// Returns whether there was none of that id.
pub(super) fn put(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    row: MessageRow,
) -> Result<bool, StoreError> {
    let key = block_of(changes, channel, &row.id)?;
    let rows = key.map(|key| changes.items_mut::<MessageRow>(&key)).transpose()?.flatten();
    let Some(rows) = rows else {
        changes.put_items(first_block(channel), vec![row]);
        return Ok(true);
    };
    let place = at(rows, &row.id);
    match place {
        Ok(at) => rows[at] = row,
        Err(at) => rows.insert(at, row),
    }
    if rows.len() > IDS_BLOCK {
        // Ids that rise leave full blocks behind them.
        let rest = rows.split_off(if place == Err(IDS_BLOCK) { IDS_BLOCK } else { IDS_BLOCK / 2 });
        changes.put_items(Key::message(channel, &rest[0].id), rest);
    }
    Ok(place.is_err())
}

/// Where an id stands, or would stand.
fn at(rows: &[MessageRow], id: &MessageId) -> Result<usize, usize> {
    rows.binary_search_by(|there| there.id.cmp(id))
}

/// The corrections of a message.
pub(super) fn corrections(
    changes: &Changes<'_>,
    channel: &ChannelId,
    message: &MessageId,
) -> Result<Vec<MessageRow>, StoreError> {
    let begin = message.corrections();
    let mut key = block_of(changes, channel, &begin.as_str().into())?.unwrap_or_else(|| first_block(channel));
    let mut found = Vec::new();
    loop {
        let rows = changes.items::<MessageRow>(&key)?.unwrap_or_default();
        let is_beyond = |row: &MessageRow| *row.id.as_str() > *begin && !row.id.as_str().starts_with(&begin);
        let ends_here = rows.last().is_some_and(is_beyond);
        found.extend(rows.into_iter().filter(|row| row.id.as_str().starts_with(&begin)));
        if ends_here {
            return Ok(found);
        }
        let Some(next) = block_after(changes, channel, &key)? else { return Ok(found) };
        key = next;
    }
}

/// Forgets those of the next block that are old. Returns the id of its key, for the next call to go on behind, and how many
/// were forgotten. `None`: there is no further block; the next call begins again.
pub(super) fn forget_next(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    after: Option<&MessageId>,
    is_old: impl Fn(&MessageRow) -> bool,
) -> Result<(Option<MessageId>, u64), StoreError> {
    let all = Key::messages(channel);
    let after = after.map_or_else(|| all.clone(), |id| Key::message(channel, id));
    let Some(key) = block_after(changes, channel, &after)? else { return Ok((None, 0)) };
    let id = key.0[all.0.len()..].strip_suffix(&[0]).and_then(|id| std::str::from_utf8(id).ok());
    let id = id.ok_or_else(|| view_error("a key of messages cannot be read"))?.into();
    let mut rows = changes.items::<MessageRow>(&key)?.unwrap_or_default();
    let n_before = rows.len();
    rows.retain(|row| !is_old(row));
    let n_forgotten = n_before - rows.len();
    if rows.is_empty() {
        changes.remove(key);
    } else if n_forgotten > 0 {
        changes.put_items(key, rows);
    }
    Ok((Some(id), n_forgotten as u64))
}

fn first_block(channel: &ChannelId) -> Key {
    Key::message(channel, &"".into())
}

/// The key of the block that has an id, or would have it, if there is one.
fn block_of(changes: &Changes<'_>, channel: &ChannelId, id: &MessageId) -> Result<Option<Key>, StoreError> {
    changes.last_upto(&first_block(channel), &Key::message(channel, id))
}

fn block_after(changes: &Changes<'_>, channel: &ChannelId, after: &Key) -> Result<Option<Key>, StoreError> {
    Ok(changes.first_after(&Key::messages(channel), after, 1)?.pop())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cairn_testkit::random::Random;

    use super::super::blocks::unpack;
    use super::super::db::Db;
    use super::super::rows::Meta;
    use super::*;

    fn row(id: &str, n: u64) -> MessageRow {
        MessageRow { id: id.into(), n, second: 0, edited: None, deleted: false, seq: None, end: Some(n) }
    }

    fn blocks(db: &Db, channel: &ChannelId) -> Vec<usize> {
        let rows = db.scan(&Key::messages(channel));
        rows.map(|row| unpack::<MessageRow>(&row.unwrap().1).unwrap().len()).collect()
    }

    /// Puts rows into changes over rows, which are written now and then.
    fn put_all(db: &Db, channel: &ChannelId, rows: &[MessageRow]) -> u64 {
        let (mut meta, mut n_new) = (Meta::default(), 0);
        for some in rows.chunks(7) {
            let mut changes = Changes::new(db);
            for row in some {
                n_new += u64::from(put(&mut changes, channel, row.clone()).unwrap());
                assert_eq!(get(&changes, channel, &row.id).unwrap().as_ref(), Some(row));
            }
            changes.write(&mut meta).unwrap();
        }
        n_new
    }

    #[test]
    fn ids_that_rise_leave_full_blocks_behind() {
        let (db, channel) = (Db::in_memory(), "main/telegram/1".parse().unwrap());
        let rows: Vec<_> = (0..100).map(|n| row(&format!("{}", 5_000 + n), n)).collect();
        assert_eq!(put_all(&db, &channel, &rows), 100);
        assert_eq!(blocks(&db, &channel), [IDS_BLOCK, 100 - IDS_BLOCK]);
    }

    #[test]
    fn blocks_hold_what_a_map_holds_whatever_the_order_of_ids() {
        for seed in 0..20 {
            let (db, mut random) = (Db::in_memory(), Random::new(seed));
            let channels: [ChannelId; 2] =
                ["main/local/c", "main/local/c2"].map(|name| name.parse().unwrap());
            let mut maps: [BTreeMap<MessageId, MessageRow>; 2] = Default::default();
            for (channel, map) in channels.iter().zip(&mut maps) {
                let rows: Vec<_> = (0..400).map(|n| row(&format!("m{}", random.below(300)), n)).collect();
                map.extend(rows.iter().map(|row| (row.id.clone(), row.clone())));
                assert_eq!(put_all(&db, channel, &rows), map.len() as u64);
            }
            for (channel, map) in channels.iter().zip(&mut maps) {
                let mut changes = Changes::new(&db);
                let (mut after, mut n_forgotten, n_before) = (None, 0, map.len());
                // Twice around: what stays is looked at again.
                for _ in 0..2 {
                    loop {
                        let (at, n) =
                            forget_next(&mut changes, channel, after.as_ref(), |row| row.n % 3 > 0).unwrap();
                        n_forgotten += n;
                        after = at;
                        if after.is_none() {
                            break;
                        }
                    }
                }
                map.retain(|_, row| row.n % 3 == 0);
                assert_eq!(n_forgotten as usize, n_before - map.len());
                changes.write(&mut Meta::default()).unwrap();
                let changes = Changes::new(&db);
                for id in (0..300).map(|n| MessageId::from(format!("m{n}"))) {
                    assert_eq!(get(&changes, channel, &id).unwrap().as_ref(), map.get(&id), "{seed}: {id}");
                }
            }
        }
    }

    #[test]
    fn corrections_are_found_in_all_blocks_that_have_some() {
        let (db, channel) = (Db::in_memory(), "main/telegram/1".parse().unwrap());
        let message = MessageId::from("50");
        let mut ids: Vec<String> = (0..200).map(|n| format!("{}{n}", message.corrections())).collect();
        ids.extend(["50", "5", "51", "500", "6"].map(str::to_owned));
        let rows: Vec<_> = ids.iter().zip(0..).map(|(id, n)| row(id, n)).collect();
        put_all(&db, &channel, &rows);
        assert!(blocks(&db, &channel).len() > 3);
        let found = corrections(&Changes::new(&db), &channel, &message).unwrap();
        assert_eq!(found.len(), 200);
        assert_eq!(corrections(&Changes::new(&db), &channel, &"51".into()).unwrap(), []);
        assert_eq!(corrections(&Changes::new(&db), &channel, &"7".into()).unwrap(), []);
    }
}
