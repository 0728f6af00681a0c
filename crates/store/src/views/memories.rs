//! Memories in the views: what journal records do to them, and reading them through their scopes.

use cairn_core::memory::Tombstone;
use cairn_types::event::{CompactionEvent, Event, MemoryEvent, Record};
use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::{Fingerprint, Memory, MemoryChange, MemorySave, Reach, Scope, merge};
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::changed::ChangedMemory;
use super::changes::Changes;
use super::codec::{Key, Table, decode, view_error};
use super::db::Db;
use super::rows::{MemoryRow, Offset};
use super::trail;
use crate::journal::segment::Position;

/// Most forgotten memories of a scope that are known in other words, too; the oldest are known in their own words alone.
const FORGOTTEN_MAX: usize = 512;

/// Applies what a record says of memories.
pub(crate) fn apply(
    changes: &mut Changes<'_>,
    record: &Record,
    position: Position,
) -> Result<(), StoreError> {
    let offset = Offset { n: record.n, at: position };
    match &record.event {
        Event::Memory(MemoryEvent::Saved(memory)) => save(changes, record, offset, (memory, 0)),
        Event::Compaction(CompactionEvent::RunEnded(end)) => {
            for (idx, memory) in end.memories.iter().enumerate() {
                save(changes, record, offset, (memory, idx as u32))?;
            }
            Ok(())
        }
        Event::Memory(MemoryEvent::Edited { id, text, kind, importance }) => {
            let Some((key, mut row)) = find(changes, id)? else { return Ok(()) };
            let memory = &mut row.memory;
            memory.kind = kind.unwrap_or(memory.kind);
            memory.importance = importance.unwrap_or(memory.importance);
            memory.updated_at = record.at;
            if let Some(text) = text {
                memory.text.clone_from(text);
                reword(changes, &mut row)?;
            }
            changes.memories.push(ChangedMemory::of(&row.memory));
            trail::add(changes, id, offset, 0)?;
            changes.put(key, &row)
        }
        Event::Memory(MemoryEvent::Forgotten { id, wished }) => forget(changes, id, *wished),
        Event::Memory(MemoryEvent::Recalled { ids, .. }) => {
            for id in ids {
                if let Some((key, mut row)) = find(changes, id)? {
                    row.memory.recalled_at = Some(record.at);
                    row.memory.uses += 1;
                    changes.put(key, &row)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn find(changes: &Changes<'_>, id: &MemoryId) -> Result<Option<(Key, MemoryRow)>, StoreError> {
    let Some((agent, scope)) = changes.get::<(AgentId, Scope)>(&Key::memory_key(id))? else {
        return Ok(None);
    };
    let key = Key::memory(&agent, &scope, id);
    Ok(changes.get(&key)?.map(|row| (key, row)))
}

fn save(
    changes: &mut Changes<'_>,
    record: &Record,
    offset: Offset,
    (save, idx): (&MemorySave, u32),
) -> Result<(), StoreError> {
    let fingerprint = save.fingerprint().0;
    let id: Option<MemoryId> = changes.get(&Key::fingerprint(&fingerprint))?;
    let existing = match &id {
        Some(id) => find(changes, id)?.map(|(_, row)| row),
        None => None,
    };
    let entombed = changes.has(&Key::tombstone(&fingerprint))?;
    let blocked = entombed || (existing.is_none() && is_in_other_words(changes, save)?);
    let sighted = match &id {
        Some(id) => changes.has(&Key::sighting(id, &save.sighting))?,
        None => false,
    };
    let row = match merge(existing.as_ref().map(|row| &row.memory), blocked, sighted, save, record.at) {
        MemoryChange::Known | MemoryChange::Blocked => return Ok(()),
        MemoryChange::Created(memory) => {
            MemoryRow { memory, made: (record.n, idx), first: fingerprint.clone(), now: fingerprint.clone() }
        }
        MemoryChange::Sighted(memory) => match existing {
            Some(row) => MemoryRow { memory, ..row },
            None => return Ok(()),
        },
    };
    let memory = &row.memory;
    changes.remove(Key::tombstone(&fingerprint));
    changes.put_bytes(Key::sighting(&memory.id, &save.sighting), Vec::new());
    changes.put(Key::fingerprint(&fingerprint), &memory.id)?;
    changes.put(Key::memory_key(&memory.id), &(&memory.agent, &memory.scope))?;
    if row.made == (record.n, idx) {
        trail::begin(changes, &memory.id, offset, idx);
        changes.put(
            Key::memory_order(memory.created_at, &memory.id),
            &(&memory.agent, &memory.scope, &memory.id),
        )?;
        note_recent(changes, memory, Reach::Scope(memory.scope.clone()));
        count_one(changes, &memory.agent, 1)?;
    } else {
        trail::add(changes, &memory.id, offset, idx)?;
    }
    if let Some(person) = memory.follows() {
        changes.put_bytes(Key::own(&memory.agent, person, &memory.id), Vec::new());
        note_recent(changes, memory, Reach::Own(person.to_owned()));
    }
    // A forgotten one that comes back has the id that it had.
    let made = (row.made == (record.n, idx) && !entombed).then_some(record.n);
    changes.memories.push(ChangedMemory::made(made, memory));
    changes.put(Key::memory(&memory.agent, &memory.scope, &memory.id), &row)?;
    let until = save.replaces.from.or(save.source.said_at).unwrap_or(record.at);
    for id in &save.replaces.ids {
        supersede(changes, record, offset, (id, &row.memory, until))?;
    }
    Ok(())
}

/// Whether a save says nearly what somebody wished to be forgotten. An explicit save lifts these tombstones.
fn is_in_other_words(changes: &mut Changes<'_>, save: &MemorySave) -> Result<bool, StoreError> {
    let key = Key::forgotten(&save.agent, &save.scope);
    let Some(mut forgotten) = changes.get::<Vec<Tombstone>>(&key)? else { return Ok(false) };
    let before = forgotten.len();
    forgotten.retain(|tombstone| !tombstone.covers(save));
    let is_covered = forgotten.len() < before;
    if is_covered && save.explicit {
        changes.put(key, &forgotten)?;
    }
    Ok(is_covered)
}

/// Whether a tombstone would block a save that nobody asked for.
pub(crate) fn is_forgotten(db: &Db, save: &MemorySave) -> Result<bool, StoreError> {
    let fingerprint = save.fingerprint().0;
    if db.get::<MemoryId>(&Key::fingerprint(&fingerprint))?.is_some() {
        return Ok(false);
    }
    let forgotten: Vec<Tombstone> = db.get(&Key::forgotten(&save.agent, &save.scope))?.unwrap_or_default();
    Ok(db.has(&Key::tombstone(&fingerprint).0)? || forgotten.iter().any(|tombstone| tombstone.covers(save)))
}

/// A memory of the same agent and scope took the place of another.
fn supersede(
    changes: &mut Changes<'_>,
    record: &Record,
    offset: Offset,
    (id, new, until): (&MemoryId, &Memory, Timestamp),
) -> Result<(), StoreError> {
    let Some((key, mut row)) = find(changes, id)? else { return Ok(()) };
    let old = &mut row.memory;
    if old.id == new.id || (&old.agent, &old.scope) != (&new.agent, &new.scope) {
        return Ok(());
    }
    old.supersede(&new.id, until, record.at);
    changes.memories.push(ChangedMemory::of(old));
    trail::add(changes, id, offset, 0)?;
    changes.put(key, &row)
}

/// A memory got another text: it is found by the fingerprint of that and of its first one.
fn reword(changes: &mut Changes<'_>, row: &mut MemoryRow) -> Result<(), StoreError> {
    if row.now != row.first {
        unpoint(changes, &row.now, &row.memory.id)?;
    }
    row.now = row.memory.fingerprint().0;
    let key = Key::fingerprint(&row.now);
    if !changes.has(&key)? {
        changes.put(key, &row.memory.id)?;
    }
    Ok(())
}

fn unpoint(changes: &mut Changes<'_>, fingerprint: &str, id: &MemoryId) -> Result<(), StoreError> {
    let key = Key::fingerprint(fingerprint);
    if changes.get::<MemoryId>(&key)?.is_some_and(|other| other == *id) {
        changes.remove(key);
    }
    Ok(())
}

fn forget(changes: &mut Changes<'_>, id: &MemoryId, wished: bool) -> Result<(), StoreError> {
    let Some((key, row)) = find(changes, id)? else { return Ok(()) };
    let memory = &row.memory;
    for fingerprint in [&row.first, &row.now] {
        unpoint(changes, fingerprint, id)?;
        changes.put_bytes(Key::tombstone(fingerprint), Vec::new());
    }
    if memory.source.is_of_member() {
        // Nor does it come back as a model's.
        let plain = Fingerprint::of(&memory.agent, &memory.scope, &memory.text).0;
        changes.put_bytes(Key::tombstone(&plain), Vec::new());
    }
    if wished {
        let key = Key::forgotten(&memory.agent, &memory.scope);
        let mut forgotten: Vec<Tombstone> = changes.get(&key)?.unwrap_or_default();
        forgotten.push(Tombstone::of(memory));
        forgotten.drain(..forgotten.len().saturating_sub(FORGOTTEN_MAX));
        changes.put(key, &forgotten)?;
    }
    let mut places = vec![Reach::Scope(memory.scope.clone())];
    if let Some(person) = memory.speaker() {
        changes.remove(Key::own(&memory.agent, person, id));
        places.push(Reach::Own(person.to_owned()));
    }
    for place in places.iter().filter_map(|place| Key::recents(&memory.agent, place)) {
        changes.remove(place.made_at(memory.created_at, id));
    }
    for sighting in changes.first(&Key::sightings(id), usize::MAX)? {
        changes.remove(sighting);
    }
    changes.remove(Key::memory_key(id));
    trail::end(changes, id);
    changes.memories.push(ChangedMemory::gone(memory));
    changes.remove(Key::memory_order(memory.created_at, id));
    changes.remove(key);
    count_one(changes, &memory.agent, -1)
}

/// Adds a memory to the order of those of its scope, or of what a person said of themselves.
fn note_recent(changes: &mut Changes<'_>, memory: &Memory, place: Reach) {
    if let Some(place) = Key::recents(&memory.agent, &place) {
        changes.put_bytes(place.made_at(memory.created_at, &memory.id), Vec::new());
    }
}

/// Counts one more memory of an agent, or one less.
fn count_one(changes: &mut Changes<'_>, agent: &AgentId, more: i64) -> Result<(), StoreError> {
    let key = Key::memory_count(agent);
    let n: u64 = changes.get(&key)?.unwrap_or_default();
    changes.put(key, &n.saturating_add_signed(more))
}

/// Where the keys of what is within reach begin.
fn prefix(agent: &AgentId, reach: &Reach) -> Key {
    match reach {
        Reach::Scope(scope) => Key::scope(agent, scope),
        Reach::Own(person) => Key::owns(agent, person),
        Reach::All => Key::agent(agent),
    }
}

/// All memories within reach, oldest first.
pub(crate) fn within(db: &Db, agent: &AgentId, reach: &Reach) -> Result<Vec<MemoryRow>, StoreError> {
    let mut rows: Vec<MemoryRow> = Vec::new();
    each_within(db, agent, reach, |row| rows.push(row))?;
    rows.sort_by_key(|row| row.made);
    Ok(rows)
}

/// The newest memories within reach, at most so many, newest first. No others are read.
pub(crate) fn newest(
    db: &Db,
    agent: &AgentId,
    reach: &[Reach],
    limit: usize,
) -> Result<Vec<Memory>, StoreError> {
    let mut found: Vec<MemoryRow> = Vec::new();
    for reach in reach {
        let prefix = Key::recents(agent, reach).unwrap_or_else(|| Key::table(Table::MemoryOrder));
        let before = found.len();
        for item in db.scan(&prefix).rev() {
            if found.len() - before == limit {
                break;
            }
            let (key, _) = item?;
            let id = key.get(prefix.0.len() + size_of::<u64>()..).unwrap_or_default();
            let id = std::str::from_utf8(id).map_err(|error| view_error(error.to_string()))?;
            let row = row_of(db, &id.into())?;
            found.extend(row.filter(|row| row.memory.agent == *agent && reach.holds(&row.memory)));
        }
    }
    found.sort_by_key(|row| std::cmp::Reverse(row.made));
    found.dedup_by(|a, b| a.memory.id == b.memory.id);
    found.truncate(limit);
    Ok(found.into_iter().map(|row| row.memory).collect())
}

/// Each memory within reach, in no order.
pub(crate) fn each_within(
    db: &Db,
    agent: &AgentId,
    reach: &Reach,
    mut each: impl FnMut(MemoryRow),
) -> Result<(), StoreError> {
    let prefix = prefix(agent, reach);
    for item in db.scan(&prefix) {
        let (key, row) = item?;
        let row = if matches!(reach, Reach::Own(_)) {
            let id = key[prefix.0.len()..].strip_suffix(&[0]).and_then(|id| std::str::from_utf8(id).ok());
            let id = id.ok_or_else(|| view_error("a key of what a person said cannot be read"))?;
            row_of(db, &id.into())?
        } else {
            Some(decode(&row)?)
        };
        row.into_iter().filter(|row| reach.holds(&row.memory)).for_each(&mut each);
    }
    Ok(())
}

/// Memories of all agents, with the keys of their places in the order of their making: those after one, at most so many.
pub(crate) fn page(db: &Db, after: Option<&Key>, limit: usize) -> Result<Vec<(Key, MemoryRow)>, StoreError> {
    let mut found = Vec::new();
    for item in db.scan_after(&Key::table(Table::MemoryOrder), after.cloned()) {
        if found.len() == limit {
            break;
        }
        let (key, place) = item?;
        let (agent, scope, id): (AgentId, Scope, MemoryId) = decode(&place)?;
        // It went away since its place was read.
        let row: Option<MemoryRow> = db.get(&Key::memory(&agent, &scope, &id))?;
        found.extend(row.map(|row| (Key(key), row)));
    }
    Ok(found)
}

pub(crate) fn count(db: &Db, agent: &AgentId) -> Result<u64, StoreError> {
    Ok(db.get(&Key::memory_count(agent))?.unwrap_or_default())
}

pub(crate) fn get(db: &Db, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
    Ok(row_of(db, id)?.map(|row| row.memory))
}

pub(crate) fn row_of(db: &Db, id: &MemoryId) -> Result<Option<MemoryRow>, StoreError> {
    let Some((agent, scope)) = db.get::<(AgentId, Scope)>(&Key::memory_key(id))? else { return Ok(None) };
    db.get(&Key::memory(&agent, &scope, id))
}

/// The memories that a record changes, as the rows know them by now.
pub(crate) fn changed_by(db: &Db, record: &Record) -> Result<Vec<ChangedMemory>, StoreError> {
    let saves = match &record.event {
        Event::Memory(MemoryEvent::Saved(save)) => std::slice::from_ref(save),
        Event::Compaction(CompactionEvent::RunEnded(end)) => &end.memories,
        Event::Memory(MemoryEvent::Edited { id, .. } | MemoryEvent::Forgotten { id, .. }) => {
            return Ok(vec![ChangedMemory::known(id.clone(), get(db, id)?.as_ref())]);
        }
        _ => &[],
    };
    let mut changed = Vec::new();
    for save in saves {
        // Without an id it is gone, or never was: the record that took it away follows.
        if let Some(id) = by_text(db, save)? {
            changed.push(ChangedMemory::known(id.clone(), get(db, &id)?.as_ref()));
        }
    }
    Ok(changed)
}

/// The id of the memory that has, or first had, that fingerprint.
pub(crate) fn by_text(db: &Db, save: &MemorySave) -> Result<Option<MemoryId>, StoreError> {
    db.get(&Key::fingerprint(&save.fingerprint().0))
}
