//! Which messages the bot sent of late: a reply to its newest need not quote it.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// So many messages of a place are remembered.
const PER_PLACE: usize = 16;

/// So many places; past it all are forgotten, and replies are quoted once more.
const PLACES_MAX: usize = 2048;

pub(super) type Place = (i64, Option<i64>);

/// The bot's newest messages by place.
#[derive(Default)]
pub(super) struct Sent(Mutex<HashMap<Place, VecDeque<i64>>>);

impl Sent {
    pub(super) fn note(&self, place: Place, message: i64) {
        let mut places = self.0.lock();
        if places.len() >= PLACES_MAX && !places.contains_key(&place) {
            places.clear();
        }
        let messages = places.entry(place).or_default();
        if messages.len() == PER_PLACE {
            messages.pop_front();
        }
        messages.push_back(message);
    }

    /// `replied` was the bot's newest message when `message` was written. The same at any later time, as long as both
    /// are remembered.
    pub(super) fn was_latest(&self, place: Place, replied: i64, message: i64) -> bool {
        let places = self.0.lock();
        let Some(messages) = places.get(&place) else { return false };
        messages.iter().filter(|sent| **sent < message).max() == Some(&replied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_before_a_message_stays_so_when_more_is_sent() {
        let (sent, place) = (Sent::default(), (-7, Some(2)));
        assert!(!sent.was_latest(place, 10, 11));
        sent.note(place, 10);
        assert!(sent.was_latest(place, 10, 11));
        sent.note(place, 12);
        assert!(sent.was_latest(place, 10, 11), "an edit of 11 reads as 11 did");
        assert!(!sent.was_latest(place, 10, 13));
        assert!(!sent.was_latest((-7, None), 12, 13));
    }
}
