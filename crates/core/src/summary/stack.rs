//! The stack: summaries and markers in order of time, contiguous.

use serde::{Deserialize, Serialize};

use super::{Marker, StackItem, Summary};
use crate::ids::{Seq, SummaryId};

/// Summaries and markers, oldest first. Ranges are contiguous and in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stack {
    items: Vec<StackItem>,
}

impl Stack {
    /// The items, oldest first.
    pub fn items(&self) -> &[StackItem] {
        &self.items
    }

    /// The summaries, oldest first.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.items.iter().filter_map(|item| match item {
            StackItem::Summary(summary) => Some(summary),
            StackItem::Marker(_) => None,
        })
    }

    /// The markers, oldest first.
    pub fn markers(&self) -> impl Iterator<Item = &Marker> {
        self.items.iter().filter_map(|item| match item {
            StackItem::Summary(_) => None,
            StackItem::Marker(marker) => Some(marker),
        })
    }

    /// The summary of that id.
    pub fn summary(&self, id: &SummaryId) -> Option<&Summary> {
        self.summaries().find(|summary| summary.id == *id)
    }

    /// The last entry that the stack stands for.
    pub fn to_seq(&self) -> Option<Seq> {
        self.items.last().map(|item| item.range().1)
    }

    /// Estimated tokens of all items as the window renders them, before correction.
    pub fn tokens(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.tokens())).sum()
    }

    /// Replaces the items within `[from, to]` by `item`, which stands for at least all of them; items that
    /// overlap the range in part must have been narrowed before.
    pub(crate) fn replace(&mut self, from: Seq, to: Seq, item: StackItem) {
        let start = self.items.partition_point(|old| old.range().1 < from);
        let end = self.items.partition_point(|old| old.range().0 <= to);
        self.items.splice(start..end.max(start), [item]);
    }

    /// Puts `items` in the place of all that lies within or overlaps `[from, to]`.
    pub(crate) fn splice(&mut self, from: Seq, to: Seq, items: Vec<StackItem>) {
        let start = self.items.partition_point(|old| old.range().1 < from);
        let end = self.items.partition_point(|old| old.range().0 <= to);
        self.items.splice(start..end.max(start), items);
    }

    /// Empties the stack: a new generation begins.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }
}
