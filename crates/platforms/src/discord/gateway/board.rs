//! The state of each shard, and the combined state that `cairn status` shows.

use std::sync::Arc;

use cairn_types::ports::{AdapterFailure, LinkState, Shards};
use parking_lot::Mutex;

use super::Shard;
use crate::link::Link;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ShardState {
    /// Not connected yet.
    Waiting,
    Up,
    Down(AdapterFailure),
}

pub(super) struct Board {
    link: Arc<Link>,
    shards: Mutex<Box<[ShardState]>>,
}

impl Board {
    pub(super) fn new(link: Arc<Link>, n_shards: u32) -> Self {
        let shards: Box<[ShardState]> = (0..n_shards).map(|_| ShardState::Waiting).collect();
        show(&link, &shards);
        Self { link, shards: Mutex::new(shards) }
    }

    /// Sets the state of a shard. Returns whether all shards are up now.
    pub(super) fn set(&self, shard: Shard, state: ShardState) -> bool {
        let mut shards = self.shards.lock();
        shards[shard.id as usize] = state;
        show(&self.link, &shards) == LinkState::Connected
    }
}

fn show(link: &Link, shards: &[ShardState]) -> LinkState {
    let (state, failure) = all_of(shards);
    link.set_sharded(state, failure.as_ref(), counted(shards));
    state
}

/// The combined state: connected only if every shard is up.
fn all_of(shards: &[ShardState]) -> (LinkState, Option<AdapterFailure>) {
    let down = || {
        shards.iter().enumerate().filter_map(|(id, state)| match state {
            ShardState::Down(failure) => Some((id, failure)),
            ShardState::Waiting | ShardState::Up => None,
        })
    };
    let Some((id, failure)) = down().next() else {
        let up = shards.iter().all(|state| *state == ShardState::Up);
        return (if up { LinkState::Connected } else { LinkState::Connecting }, None);
    };
    let which = match (shards.len(), down().count() - 1) {
        (1, _) => String::new(),
        (_, 0) => format!("shard {id}: "),
        (_, more) => format!("shard {id} and {more} more: "),
    };
    (LinkState::Reconnecting, Some(AdapterFailure { reason: which + &failure.reason, ..failure.clone() }))
}

/// The shard counts for the status; `None` for a single shard.
fn counted(shards: &[ShardState]) -> Option<Shards> {
    let is_down = |(id, state): (u32, &ShardState)| (*state != ShardState::Up).then_some(id);
    let down: Vec<u32> = (0..).zip(shards).filter_map(is_down).collect();
    let total = u32::try_from(shards.len()).unwrap_or(u32::MAX);
    (total > 1).then_some(Shards { total, down })
}

#[cfg(test)]
mod tests {
    use cairn_testkit::clock::TestClock;

    use super::ShardState::{Down, Up, Waiting};
    use super::*;

    fn down(reason: &str) -> ShardState {
        Down(AdapterFailure { reason: reason.to_owned(), hint: "wait".to_owned(), lasting: false })
    }

    #[test]
    fn the_state_is_that_of_the_shard_that_is_worst_and_names_it() {
        let cases = [
            (vec![Waiting], LinkState::Connecting, None, None),
            (vec![Up], LinkState::Connected, None, None),
            (vec![down("cut")], LinkState::Reconnecting, Some("cut"), None),
            (vec![Up, Up], LinkState::Connected, None, Some(vec![])),
            (vec![Up, Waiting], LinkState::Connecting, None, Some(vec![1])),
            (vec![Up, down("cut"), Up], LinkState::Reconnecting, Some("shard 1: cut"), Some(vec![1])),
            (
                vec![Waiting, down("cut"), down("mute")],
                LinkState::Reconnecting,
                Some("shard 1 and 1 more: cut"),
                Some(vec![0, 1, 2]),
            ),
        ];
        for (shards, state, reason, not_up) in cases {
            let (found, failure) = all_of(&shards);
            assert_eq!(
                (found, failure.as_ref().map(|one| one.reason.as_str())),
                (state, reason),
                "{shards:?}"
            );
            assert_eq!(counted(&shards).map(|shards| shards.down), not_up, "{shards:?}");
        }
    }

    #[test]
    fn while_shards_wait_the_bot_is_connecting_and_tells_which() {
        let link = Arc::new(Link::new("discord", Arc::new(TestClock::default())));
        let board = Board::new(link.clone(), 4);
        let shown = || {
            let status = link.status();
            let shards = status.shards.map(|shards| (shards.total, shards.down));
            (status.state, shards, status.connected_since.is_some())
        };
        assert_eq!(shown(), (LinkState::Connecting, Some((4, vec![0, 1, 2, 3])), false));
        for id in [0, 1] {
            assert!(!board.set(Shard { id, of: 4 }, Up));
        }
        assert_eq!(shown(), (LinkState::Connecting, Some((4, vec![2, 3])), false));
        assert!(!board.set(Shard { id: 2, of: 4 }, Up));
        assert!(board.set(Shard { id: 3, of: 4 }, Up));
        assert_eq!(shown(), (LinkState::Connected, Some((4, vec![])), true));
    }
}
