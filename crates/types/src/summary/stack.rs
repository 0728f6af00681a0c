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

    pub fn summary(&self, id: &SummaryId) -> Option<&Summary> {
        self.summaries().find(|summary| summary.id == *id)
    }

    /// The item that covers an entry.
    pub fn item_at(&self, seq: Seq) -> Option<&StackItem> {
        let idx = self.items.partition_point(|item| item.range().1 < seq);
        self.items.get(idx).filter(|item| item.range().0 <= seq)
    }

    /// The last entry that the stack covers.
    pub fn to_seq(&self) -> Option<Seq> {
        self.items.last().map(|item| item.range().1)
    }

    /// Estimated tokens of all items as the window renders them, before correction.
    pub fn tokens(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.tokens())).sum()
    }

    /// Puts an item at its place in time. Items within its range are removed; markers and provisional summaries that overlap
    /// it in part are narrowed to the rest.
    pub fn place(&mut self, item: StackItem) {
        let (from, to) = item.range();
        let start = self.items.partition_point(|old| old.range().1 < from);
        let end = self.items.partition_point(|old| old.range().0 <= to).max(start);
        let mut fresh = Vec::with_capacity(3);
        if let Some(first) = self.items[start..end].first().filter(|first| first.range().0 < from) {
            fresh.extend(first.narrowed(first.range().0, Seq(from.0 - 1)));
        }
        fresh.push(item);
        if let Some(last) = self.items[start..end].last().filter(|last| last.range().1 > to) {
            fresh.extend(last.narrowed(to.next(), last.range().1));
        }
        self.items.splice(start..end, fresh);
    }

    /// Updates the message counts of items that may have been narrowed.
    pub fn recount(&mut self, count: impl Fn(Seq, Seq) -> u64) {
        for item in &mut self.items {
            let (from, to) = item.range();
            match item {
                StackItem::Marker(marker) => {
                    let messages = count(from, to);
                    if marker.messages != messages {
                        *marker = marker.counting(messages);
                    }
                }
                StackItem::Summary(summary) if summary.provisional => {
                    let messages = count(from, to);
                    if summary.messages != messages {
                        summary.messages = messages;
                        summary.tokens = super::summary_tokens(summary);
                    }
                }
                StackItem::Summary(_) => {}
            }
        }
    }

    /// Removes lines that quote such entries from the digests of markers.
    pub fn unquote(&mut self, is_gone: impl Fn(Seq) -> bool) {
        for marker in self.markers_mut() {
            let before = marker.digest.len();
            marker.digest.retain(|line| !is_gone(line.seq));
            if marker.digest.len() != before {
                *marker = marker.counting(marker.messages);
            }
        }
    }

    pub fn summaries_mut(&mut self) -> impl Iterator<Item = &mut Summary> {
        self.items.iter_mut().filter_map(|item| match item {
            StackItem::Summary(summary) => Some(summary),
            StackItem::Marker(_) => None,
        })
    }

    fn markers_mut(&mut self) -> impl Iterator<Item = &mut Marker> {
        self.items.iter_mut().filter_map(|item| match item {
            StackItem::Summary(_) => None,
            StackItem::Marker(marker) => Some(marker),
        })
    }

    /// Empties the stack, for a new generation.
    pub fn clear(&mut self) {
        self.items.clear();
    }
}
