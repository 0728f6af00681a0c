//! Lists a page at a time, each in the order of an index, and how long they are. No conversation is restored for them.

use cairn_core::store_port::ChannelLine;
use cairn_types::event::{Event, Record, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId, MemoryId, OutboxId};
use cairn_types::memory::{Memory, Scope};
use cairn_types::ports::{MemoryFilter, OutboxCounts, OutboxItem, StoreError};
use cairn_types::tool::ToolLogQuery;
use jiff::Timestamp;

use super::archive::{Reads, channel_of};
use super::codec::{Key, Table, decode, trailing_number, view_error};
use super::db::{Range, Row};
use super::rows::{CallRow, ChannelState, MemoryRow, OutboxRow};

/// How long lists are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pub channels: u64,
    pub outbox: OutboxCounts,
    /// The latest time at which anything happened in a channel.
    pub last_at: Option<Timestamp>,
}

/// The place of a memory in the order of lists: when it was created, and its id.
pub type MadeAt = (Timestamp, MemoryId);

impl Reads<'_> {
    /// Channels by name: those after one, at most so many.
    pub(crate) fn channel_lines(
        &self,
        after: Option<&ChannelId>,
        limit: usize,
    ) -> Result<Vec<ChannelLine>, StoreError> {
        let rows = self.db.scan_after(&Key::table(Table::Channel), after.map(Key::channel));
        let line = |row: Result<Row, StoreError>| {
            let (key, payload) = row?;
            let state: ChannelState = decode(&payload)?;
            let (last_at, outline) = (state.last_at, state.current_outline().cloned());
            let entries = state.next_seq.0.saturating_sub(1);
            Ok(ChannelLine { channel: channel_of(&key)?, last_at, entries, outline })
        };
        rows.take(limit).map(line).collect()
    }

    /// Deliveries neither settled nor dropped, oldest first, with the records that said so: those after one, at most so many.
    pub(crate) fn delivery_page(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxItem)>, StoreError> {
        self.delivery_rows(after).take(limit).map(|row| row.map(|row| (row.n, row.item))).collect()
    }

    /// The delivery of that id, if it is neither settled nor dropped.
    pub(crate) fn delivery(&self, id: &OutboxId) -> Result<Option<OutboxItem>, StoreError> {
        for channel in id.channels() {
            if let Some(item) = self.delivery_of(&channel, id)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    pub(crate) fn delivery_of(
        &self,
        channel: &ChannelId,
        id: &OutboxId,
    ) -> Result<Option<OutboxItem>, StoreError> {
        Ok(self.db.get::<OutboxRow>(&Key::outbox(channel, id))?.map(|row| row.item))
    }

    /// The deliveries that are owed to a channel, or to all, oldest first. No others are read.
    pub(crate) fn owed(&self, channel: Option<&ChannelId>) -> Result<Vec<OutboxItem>, StoreError> {
        let places = self.db.scan(&channel.map_or_else(|| Key::table(Table::Owed), Key::owed_to));
        let mut rows = self.rows_at(places).collect::<Result<Vec<_>, _>>()?;
        rows.sort_by_key(|row| row.n);
        Ok(rows.into_iter().map(|row| row.item).filter(OutboxItem::is_owed).collect())
    }

    /// When the oldest delivery that is owed was.
    pub(crate) fn oldest_owed(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.owed(None)?.first().map(|item| item.at))
    }

    fn delivery_rows(&self, after: Option<u64>) -> impl Iterator<Item = Result<OutboxRow, StoreError>> {
        self.rows_at(self.db.scan_after(&Key::table(Table::OutboxOrder), after.map(Key::outbox_order)))
    }

    /// The deliveries at these places.
    fn rows_at(&self, places: Range) -> impl Iterator<Item = Result<OutboxRow, StoreError>> {
        // Nothing holds the rows still: one that was settled since its place was read is passed over.
        places.filter_map(|item| {
            let row = || -> Result<Option<OutboxRow>, StoreError> {
                let (key, payload) = item?;
                let (channel, id): (ChannelId, OutboxId) = decode(&payload)?;
                let row: Option<OutboxRow> = self.db.get(&Key::outbox(&channel, &id))?;
                Ok(row.filter(|row| trailing_number(&key) == Some(row.n)))
            };
            row().transpose()
        })
    }

    /// Calls of tools that fit, oldest first, with their records.
    pub(crate) fn calls(&self, query: &ToolLogQuery) -> Result<Vec<Record>, StoreError> {
        let from = query.after.map_or(0, |n| n.saturating_add(1));
        let to = query.before.map_or(u64::MAX, |n| n.saturating_sub(1));
        if from > to {
            return Ok(Vec::new());
        }
        let mut rows = self.db.range(&Key::call(from), &Key::call(to));
        let mut records = Vec::new();
        while records.len() < query.limit {
            let next = if query.after.is_some() { rows.next() } else { rows.next_back() };
            let Some(item) = next else { break };
            let (key, payload) = item?;
            let CallRow { channel, tool, outcome } = decode(&payload)?;
            if !query.fits(&channel, &tool, outcome) {
                continue;
            }
            let n = trailing_number(&key).ok_or_else(|| view_error("a call has no number"))?;
            let record = self.record(&channel, n)?;
            let is_call = |record: &Record| matches!(record.event, Event::Turn(TurnEvent::ToolUsed(_)));
            records.extend(record.filter(is_call));
        }
        if query.after.is_none() {
            records.reverse();
        }
        Ok(records)
    }

    /// Memories of agents, in one scope or in all, that fit, oldest first: those after one, at most so many.
    pub(crate) fn memory_page(
        &self,
        agents: &[AgentId],
        scope: Option<&Scope>,
        filter: &MemoryFilter,
        after: Option<&MadeAt>,
    ) -> Result<Vec<(MadeAt, Memory)>, StoreError> {
        let after = after.map(|(created_at, id)| Key::memory_order(*created_at, id));
        let mut found = Vec::new();
        for item in self.db.scan_after(&Key::table(Table::MemoryOrder), after) {
            if found.len() == filter.limit {
                break;
            }
            let (agent, of, id): (AgentId, Scope, MemoryId) = decode(&item?.1)?;
            if !agents.contains(&agent) || scope.is_some_and(|scope| *scope != of) {
                continue;
            }
            let row: Option<MemoryRow> = self.db.get(&Key::memory(&agent, &of, &id))?;
            // It went away since its place was read.
            let Some(row) = row else { continue };
            if filter.fits(&row.memory) {
                found.push(((row.memory.created_at, id), row.memory));
            }
        }
        Ok(found)
    }

    pub(crate) fn totals(&self) -> Result<Totals, StoreError> {
        Ok(Totals {
            channels: self.db.count(Table::Channel)?,
            outbox: self.db.get(&Key::table(Table::OutboxCounts))?.unwrap_or_default(),
            last_at: self.db.meta()?.and_then(|meta| meta.last_at),
        })
    }
}
