//! How the shards are: of what is known of each, what `cairn status` says of all of them.

use std::sync::Arc;

use cairn_core::ports::{AdapterFailure, LinkState, Shards};
use parking_lot::Mutex;

use super::Shard;
use crate::link::Link;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// It has not been connected yet.
    Waiting,
    Up,
    Down(AdapterFailure),
}

pub(super) struct Board {
    link: Arc<Link>,
    shards: Mutex<Box<[Standing]>>,
}

impl Board {
    pub(super) fn new(link: Arc<Link>, n_shards: u32) -> Self {
        let shards: Box<[Standing]> = (0..n_shards).map(|_| Standing::Waiting).collect();
        show(&link, &shards);
        Self { link, shards: Mutex::new(shards) }
    }

    /// True: with this all shards are up.
    pub(super) fn set(&self, shard: Shard, standing: Standing) -> bool {
        let mut shards = self.shards.lock();
        shards[shard.id as usize] = standing;
        show(&self.link, &shards) == LinkState::Connected
    }
}

fn show(link: &Link, shards: &[Standing]) -> LinkState {
    let (state, failure) = all_of(shards);
    link.set_sharded(state, failure.as_ref(), counted(shards));
    state
}

/// The state of all of them: connected only when each is.
fn all_of(shards: &[Standing]) -> (LinkState, Option<AdapterFailure>) {
    let down = || {
        shards.iter().enumerate().filter_map(|(id, standing)| match standing {
            Standing::Down(failure) => Some((id, failure)),
            Standing::Waiting | Standing::Up => None,
        })
    };
    let Some((id, failure)) = down().next() else {
        let up = shards.iter().all(|standing| *standing == Standing::Up);
        return (if up { LinkState::Connected } else { LinkState::Connecting }, None);
    };
    let which = match (shards.len(), down().count() - 1) {
        (1, _) => String::new(),
        (_, 0) => format!("shard {id}: "),
        (_, more) => format!("shard {id} and {more} more: "),
    };
    (LinkState::Reconnecting, Some(AdapterFailure { reason: which + &failure.reason, ..failure.clone() }))
}

/// What is told of their number; nothing of a single one.
fn counted(shards: &[Standing]) -> Option<Shards> {
    let is_down = |(id, standing): (u32, &Standing)| (*standing != Standing::Up).then_some(id);
    let down: Vec<u32> = (0..).zip(shards).filter_map(is_down).collect();
    let total = u32::try_from(shards.len()).unwrap_or(u32::MAX);
    (total > 1).then_some(Shards { total, down })
}

#[cfg(test)]
mod tests {
    use super::Standing::{Down, Up, Waiting};
    use super::*;

    fn down(reason: &str) -> Standing {
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
}
