//! Lanes: what waits to be taken in, channel by channel, each in order, none in another's way.
//!
//! A lane is bounded. What does not fit is not lost but left to Discord: the lane notes a gap after the last thing it
//! holds, takes nothing newer, and when it has worked off what it holds, the channel is read from there by REST. The
//! same gap is noted for every known channel when a session restarts, so that what was missed comes before what is
//! said now. Nothing here waits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serenity::all::{ChannelId, GuildId, MessageId};

use crate::discord::wire::Said;
use crate::link::Link;

const LANE_MAX: usize = 64;

const ALL_MAX: usize = 4096;

/// Something that happened in a channel.
#[derive(Debug, Clone)]
pub(in crate::discord) enum Item {
    Said(Box<Said>),
    /// Somebody changed what they had said.
    Edited(Box<Said>),
    Gone {
        id: MessageId,
        guild: Option<GuildId>,
    },
}

#[derive(Debug)]
pub(in crate::discord) enum Work {
    Take(Item),
    /// Reads the channel after this id.
    Read(u64),
    /// Ends: the lane is empty and gone.
    Rest,
}

#[derive(Default)]
struct ChatQueue {
    queue: VecDeque<Item>,
    /// What came after this id is missing, and comes after the queue.
    gap: Option<u64>,
}

#[derive(Default)]
struct State {
    chat_queues: HashMap<ChannelId, ChatQueue>,
    n_waiting: usize,
}

pub(in crate::discord) struct ChatQueues {
    state: Mutex<State>,
    link: Arc<Link>,
}

impl ChatQueues {
    pub(in crate::discord) fn new(link: Arc<Link>) -> Self {
        link.set_queue(0);
        Self { state: Mutex::new(State::default()), link }
    }

    /// Puts something at the end of a channel's lane. True: the lane is new and wants a worker.
    #[must_use]
    pub(in crate::discord) fn push(&self, channel: ChannelId, item: Item) -> bool {
        let mut state = self.state.lock();
        let full = state.n_waiting >= ALL_MAX;
        let new = !state.chat_queues.contains_key(&channel);
        let chat_queue = state.chat_queues.entry(channel).or_default();
        let full = full || chat_queue.queue.len() >= LANE_MAX;
        match item {
            // It is read with the rest of the gap.
            Item::Said(_) if chat_queue.gap.is_some() => {}
            Item::Said(said) if full => {
                chat_queue.gap = Some(said.id.get() - 1);
                metrics::counter!("cairn_discord_lane_full_total").increment(1);
                tracing::warn!(
                    platform = "discord",
                    channel = channel.get(),
                    "more is said than can be taken in; the channel is read again in a moment"
                );
            }
            Item::Edited(_) | Item::Gone { .. } if full => {
                metrics::counter!("cairn_discord_changes_dropped_total").increment(1);
                tracing::warn!(
                    platform = "discord",
                    channel = channel.get(),
                    "a change of an older message was dropped: more happens than can be taken in"
                );
            }
            item => {
                chat_queue.queue.push_back(item);
                state.n_waiting += 1;
            }
        }
        self.link.set_queue(state.n_waiting as u64);
        new
    }

    /// Something after this id was missed; it comes after what waits already. True: the lane is new and wants a
    /// worker.
    #[must_use]
    pub(in crate::discord) fn miss(&self, channel: ChannelId, after: u64) -> bool {
        let mut state = self.state.lock();
        let new = !state.chat_queues.contains_key(&channel);
        let chat_queue = state.chat_queues.entry(channel).or_default();
        chat_queue.gap = Some(chat_queue.gap.map_or(after, |known| known.min(after)));
        new
    }

    /// What the worker of a lane does next.
    pub(in crate::discord) fn next(&self, channel: ChannelId) -> Work {
        let mut state = self.state.lock();
        let Some(chat_queue) = state.chat_queues.get_mut(&channel) else { return Work::Rest };
        if let Some(item) = chat_queue.queue.pop_front() {
            state.n_waiting -= 1;
            self.link.set_queue(state.n_waiting as u64);
            return Work::Take(item);
        }
        // What comes from now on waits until the gap is filled.
        if let Some(after) = chat_queue.gap.take() {
            return Work::Read(after);
        }
        state.chat_queues.remove(&channel);
        Work::Rest
    }
}

#[cfg(test)]
mod tests {
    use cairn_testkit::clock::TestClock;
    use serde_json::json;

    use super::*;

    const ONE: ChannelId = ChannelId::new(1);
    const TWO: ChannelId = ChannelId::new(2);

    fn chat_queues() -> ChatQueues {
        ChatQueues::new(Arc::new(Link::new("discord", Arc::new(TestClock::default()))))
    }

    fn said(id: u64) -> Item {
        let said = json!({"id": id.to_string(), "channel_id": "1", "author": {"id": "9"}});
        Item::Said(Box::new(serde_json::from_value(said).expect("is a message")))
    }

    /// Ids of what is taken, `after` of what is read.
    fn drain(chat_queues: &ChatQueues, channel: ChannelId) -> (Vec<u64>, Option<u64>) {
        let mut ids = Vec::new();
        loop {
            match chat_queues.next(channel) {
                Work::Take(Item::Said(said)) => ids.push(said.id.get()),
                Work::Take(other) => panic!("only messages are pushed: {other:?}"),
                Work::Read(after) => return (ids, Some(after)),
                Work::Rest => return (ids, None),
            }
        }
    }

    #[test]
    fn a_lane_wants_a_worker_once_and_again_when_it_has_rested() {
        let chat_queues = chat_queues();
        assert!(chat_queues.push(ONE, said(10)));
        assert!(!chat_queues.push(ONE, said(11)));
        assert!(chat_queues.push(TWO, said(12)));
        assert_eq!(drain(&chat_queues, ONE), (vec![10, 11], None));
        assert!(chat_queues.push(ONE, said(13)));
    }

    #[test]
    fn what_does_not_fit_is_read_from_discord_and_nothing_newer_overtakes_it() {
        let chat_queues = chat_queues();
        for id in 1000..1000 + LANE_MAX as u64 + 10 {
            let _ = chat_queues.push(ONE, said(id));
        }
        let last = 1000 + LANE_MAX as u64 - 1;
        let (ids, gap) = drain(&chat_queues, ONE);
        assert_eq!((ids.last(), gap), (Some(&last), Some(last)));
        assert!(!chat_queues.push(ONE, said(5000)), "the worker that reads the gap goes on with it");
        assert_eq!(drain(&chat_queues, ONE), (vec![5000], None));
    }

    #[test]
    fn what_was_missed_comes_after_what_waited_and_before_what_is_said_next() {
        let chat_queues = chat_queues();
        let _ = chat_queues.push(ONE, said(10));
        assert!(!chat_queues.miss(ONE, 9));
        let _ = chat_queues.push(ONE, said(20));
        assert_eq!(drain(&chat_queues, ONE), (vec![10], Some(9)));
        assert_eq!(drain(&chat_queues, ONE), (vec![], None), "20 was left to the gap");
    }

    #[test]
    fn the_queue_counts_what_waits_in_all_lanes() {
        let chat_queues = chat_queues();
        let _ = chat_queues.push(ONE, said(10));
        let _ = chat_queues.push(TWO, said(11));
        assert_eq!(chat_queues.link.status().queue, 2);
        drain(&chat_queues, ONE);
        assert_eq!(chat_queues.link.status().queue, 1);
    }
}
