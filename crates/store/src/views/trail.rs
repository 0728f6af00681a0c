//! What became of a memory, and where it was recalled: places in the journal, so many of each memory and no more. The rows of
//! a memory do not grow with its age, and what it said before an edit stands in the journal alone.

use cairn_types::event::{Event, Record, TurnEnd, TurnEvent};
use cairn_types::ids::MemoryId;
use cairn_types::ports::{MemoryTrail, StoreError, TrailStep};

use super::archive::Reads;
use super::blocks::{Packed, put_number, take_number};
use super::changes::Changes;
use super::codec::{Key, Table};
use super::rows::Offset;
use crate::journal::segment::Position;

/// Most records that are kept of what made and changed a memory: the first, and the newest.
const STEPS: usize = 16;

/// Most turns that are kept of those that it was recalled in: the newest.
const USES: usize = 32;

/// A record that made or changed a memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Step {
    offset: Offset,
    /// Which of the memories of a run's end it is.
    idx: u64,
    /// How many before it are not kept.
    left_out: u64,
}

impl Packed for Step {
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        self.offset.put(before.map(|before| &before.offset), out);
        put_number(out, self.idx);
        put_number(out, self.left_out);
    }

    fn take(bytes: &mut &[u8], before: Option<&Self>) -> Option<Self> {
        let offset = Offset::take(bytes, before.map(|before| &before.offset))?;
        Some(Self { offset, idx: take_number(bytes)?, left_out: take_number(bytes)? })
    }
}

/// Notes the turn whose end a record is with the memories that were in its window.
pub(super) fn apply(
    changes: &mut Changes<'_>,
    record: &Record,
    position: Position,
) -> Result<(), StoreError> {
    let Event::Turn(TurnEvent::Ended(TurnEnd { recalled, .. })) = &record.event else { return Ok(()) };
    for id in recalled {
        // It may have been forgotten meanwhile.
        if !changes.has(&Key::memory_key(id))? {
            continue;
        }
        let key = Key::trail(Table::Use, id);
        let mut uses: Vec<Offset> = changes.items(&key)?.unwrap_or_default();
        uses.push(Offset { n: record.n, at: position });
        let gone = uses.len().saturating_sub(USES);
        uses.drain(..gone);
        changes.put_items(key, uses);
    }
    Ok(())
}

/// A record made a memory; `idx`: which of the memories of a run's end it is.
pub(super) fn begin(changes: &mut Changes<'_>, id: &MemoryId, offset: Offset, idx: u32) {
    changes.put_items(Key::trail(Table::Trail, id), vec![Step { offset, idx: u64::from(idx), left_out: 0 }]);
}

/// A record changed a memory, or found it again.
pub(super) fn add(
    changes: &mut Changes<'_>,
    id: &MemoryId,
    offset: Offset,
    idx: u32,
) -> Result<(), StoreError> {
    let key = Key::trail(Table::Trail, id);
    let mut steps: Vec<Step> = changes.items(&key)?.unwrap_or_default();
    steps.push(Step { offset, idx: u64::from(idx), left_out: 0 });
    if steps.len() > STEPS {
        let gone = steps.remove(1);
        steps[1].left_out += gone.left_out + 1;
    }
    changes.put_items(key, steps);
    Ok(())
}

/// A memory was forgotten.
pub(super) fn end(changes: &mut Changes<'_>, id: &MemoryId) {
    changes.remove(Key::trail(Table::Trail, id));
    changes.remove(Key::trail(Table::Use, id));
}

impl Reads<'_> {
    pub(crate) fn memory_trail(&self, id: &MemoryId) -> Result<MemoryTrail, StoreError> {
        let steps: Vec<Step> = self.db.items(&Key::trail(Table::Trail, id))?.unwrap_or_default();
        let uses: Vec<Offset> = self.db.items(&Key::trail(Table::Use, id))?.unwrap_or_default();
        let step = |step: Step| {
            let record = self.journal.read(step.offset.at)?;
            Ok(TrailStep { record, idx: step.idx as usize, left_out: step.left_out })
        };
        Ok(MemoryTrail {
            steps: steps.into_iter().map(step).collect::<Result<_, StoreError>>()?,
            uses: uses.into_iter().map(|offset| self.journal.read(offset.at)).collect::<Result<_, _>>()?,
        })
    }
}
