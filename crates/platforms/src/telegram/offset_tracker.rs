//! Tracks which updates are done, and which may be confirmed to Telegram.
//!
//! Telegram has one offset for all chats: a poll confirms all updates below it, and returns at most a hundred from
//! there on. The offset is therefore the oldest update that is not done. Updates after it are delivered again with each
//! poll and recognised by their id. So at most [`WINDOW`] updates are in progress.
//!
//! Ids are stored in a set, not compared: after a week without updates Telegram continues with a random id, which may
//! be lower. For the same reason an offset is only sent while there is something to confirm.

use std::collections::{BTreeMap, HashSet, VecDeque};

/// Most updates per poll.
pub(super) const WINDOW: usize = 100;

/// How many ids of finished updates are remembered.
const REMEMBERED: usize = 4096;

/// A message: its chat's id and its number there.
pub(super) type MessageKey = (i64, i64);

/// The updates in progress, and recently finished ones.
#[derive(Debug, Default)]
pub(super) struct OffsetTracker {
    /// Updates in progress, with the message of each.
    open: BTreeMap<i64, Option<MessageKey>>,
    done: HashSet<i64>,
    order: VecDeque<i64>,
    /// The highest id of the last batch, until it is confirmed.
    last: Option<i64>,
}

impl OffsetTracker {
    /// Whether an update is new.
    pub(super) fn is_new(&self, id: i64) -> bool {
        !self.done.contains(&id) && !self.open.contains_key(&id)
    }

    /// Whether an update is in progress.
    pub(super) fn is_open(&self, id: i64) -> bool {
        self.open.contains_key(&id)
    }

    /// Records an update. Returns false if it is known.
    pub(super) fn take(&mut self, id: i64) -> bool {
        self.last = Some(self.last.map_or(id, |last| last.max(id)));
        let is_new = self.is_new(id);
        if is_new {
            self.open.insert(id, None);
        }
        is_new
    }

    /// Records the message of an update in progress.
    pub(super) fn brings(&mut self, id: i64, message: MessageKey) {
        if let Some(open) = self.open.get_mut(&id) {
            *open = Some(message);
        }
    }

    /// Whether an update with this message is in progress.
    pub(super) fn is_under_way(&self, message: MessageKey) -> bool {
        self.open.values().any(|open| *open == Some(message))
    }

    /// Marks an update as done: its content is durable, or it was ignored.
    pub(super) fn finish(&mut self, id: i64) {
        self.open.remove(&id);
        if self.done.insert(id) {
            self.order.push_back(id);
        }
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|old| self.done.remove(&old));
        }
    }

    /// The offset for the next poll; `None`: there is nothing to confirm.
    pub(super) fn offset(&self) -> Option<i64> {
        self.oldest().or_else(|| self.last.map(|last| last.saturating_add(1)))
    }

    /// The poll with that offset was answered; its batch is not recorded yet.
    pub(super) fn confirmed(&mut self) {
        self.last = None;
    }

    /// The oldest update in progress, which holds back the offset.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.open.first_key_value().map(|(id, _)| *id)
    }

    pub(super) fn under_way(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_stands_at_the_oldest_update_that_is_not_done() {
        let mut offset_tracker = OffsetTracker::default();
        assert_eq!(offset_tracker.offset(), None);
        assert!(offset_tracker.take(10) && offset_tracker.take(11) && offset_tracker.take(12));
        offset_tracker.finish(10);
        offset_tracker.finish(12);
        assert_eq!(offset_tracker.offset(), Some(11));
        offset_tracker.confirmed();
        assert!(!offset_tracker.take(11) && !offset_tracker.take(12), "both are known");
        offset_tracker.finish(11);
        assert_eq!(offset_tracker.offset(), Some(13));
    }

    #[test]
    fn nothing_is_compared_with_a_confirmed_number() {
        let mut offset_tracker = OffsetTracker::default();
        assert!(offset_tracker.take(900));
        offset_tracker.finish(900);
        assert_eq!(offset_tracker.offset(), Some(901));
        offset_tracker.confirmed();
        assert_eq!(offset_tracker.offset(), None, "a lower number that follows is not confirmed unseen");
        assert!(offset_tracker.take(5));
        offset_tracker.finish(5);
        assert_eq!(offset_tracker.offset(), Some(6));
    }

    #[test]
    fn a_double_of_what_is_done_is_confirmed_and_not_taken_in() {
        let mut offset_tracker = OffsetTracker::default();
        assert!(offset_tracker.take(7));
        offset_tracker.finish(7);
        offset_tracker.confirmed();
        assert!(!offset_tracker.take(7));
        assert_eq!(offset_tracker.offset(), Some(8));
    }

    #[test]
    fn a_message_is_known_while_its_update_is_under_way() {
        let mut offset_tracker = OffsetTracker::default();
        assert!(offset_tracker.take(7));
        assert!(!offset_tracker.is_under_way((1, 5)));
        offset_tracker.brings(7, (1, 5));
        assert!(offset_tracker.is_under_way((1, 5)) && !offset_tracker.is_under_way((2, 5)));
        offset_tracker.finish(7);
        assert!(!offset_tracker.is_under_way((1, 5)), "the archive has it now");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut offset_tracker = OffsetTracker::default();
        for id in 0..(2 * REMEMBERED as i64) {
            assert!(offset_tracker.take(id));
            offset_tracker.finish(id);
        }
        assert_eq!((offset_tracker.done.len(), offset_tracker.order.len()), (REMEMBERED, REMEMBERED));
    }
}
