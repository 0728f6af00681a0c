//! The memory that awake channels take, and which of them fall asleep early to keep it within a limit.

use crate::conversation::Conversation;
use cairn_types::message::{Entry, Part, Pending};

/// Bytes of a channel without a conversation: its actors, queues and timers.
const CHANNEL_BYTES: u64 = 16 * 1024;

/// Bytes of an entry beside its text: ids, author and frame.
const ENTRY_BYTES: u64 = 1024;

/// Most bytes of a token that is neither text nor picture (call arguments).
const TOKEN_BYTES: u64 = 4;

/// Share of the limit that is freed in addition, so that the next channels that wake find room.
const FREED_SHARE: u64 = 8;

/// A channel that is awake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awake<T> {
    pub channel: T,
    pub bytes: u64,
    /// Order of the last use; higher is later.
    pub used: u64,
    /// Whether nothing is under way there.
    pub is_idle: bool,
}

/// The channels that fall asleep, so that the others take less than `most` bytes: idle ones, least recently used first.
/// Empty while all fit.
pub fn to_sleep<T>(mut awake: Vec<Awake<T>>, most: u64) -> Vec<T> {
    let mut left: u64 = awake.iter().map(|one| one.bytes).sum();
    if left <= most {
        return Vec::new();
    }
    let enough = most - most / FREED_SHARE;
    awake.retain(|one| one.is_idle);
    awake.sort_unstable_by_key(|one| one.used);
    let mut asleep = Vec::new();
    for one in awake {
        if left <= enough {
            break;
        }
        left = left.saturating_sub(one.bytes);
        asleep.push(one.channel);
    }
    asleep
}

/// Bytes of memory that a channel with this conversation takes while it is awake, estimated.
pub fn bytes(conversation: &Conversation) -> u64 {
    let live = conversation.live.iter().map(|entry| entry_bytes(entry));
    let pending = conversation.pending.iter().map(pending_bytes);
    let stack = conversation.stack.summaries().map(|summary| ENTRY_BYTES + summary.text.len() as u64);
    CHANNEL_BYTES + live.chain(pending).chain(stack).sum::<u64>()
}

/// Bytes of memory that a pending message takes, estimated.
pub fn pending_bytes(pending: &Pending) -> u64 {
    ENTRY_BYTES + parts_bytes(&pending.parts)
}

fn entry_bytes(entry: &Entry) -> u64 {
    ENTRY_BYTES + parts_bytes(&entry.parts).max(u64::from(entry.tokens) * TOKEN_BYTES)
}

fn parts_bytes(parts: &[Part]) -> u64 {
    let bytes = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Image { data, .. } => data.len(),
        Part::File { text, .. } => text.as_ref().map_or(0, String::len),
    };
    parts.iter().map(|part| bytes(part) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its name, its bytes, and whether it is idle.
    type Channel = (&'static str, u64, bool);

    fn awake(channels: &[Channel]) -> Vec<Awake<&'static str>> {
        let one = |(used, (channel, bytes, is_idle)): (usize, &Channel)| Awake {
            channel: *channel,
            bytes: *bytes,
            used: used as u64,
            is_idle: *is_idle,
        };
        channels.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_least_recently_used_idle_channels_sleep_until_the_rest_fits() {
        let cases: [(&[Channel], u64, &[&str]); 6] = [
            (&[("a", 40, true), ("b", 40, true)], 80, &[]),
            (&[("a", 40, true), ("b", 41, true)], 80, &["a"]),
            (&[("a", 10, true), ("b", 10, true), ("c", 100, true)], 80, &["a", "b", "c"]),
            (&[("a", 50, false), ("b", 50, true), ("c", 10, true)], 80, &["b"]),
            (&[("a", 50, false), ("b", 50, false)], 80, &[]),
            (&[], 0, &[]),
        ];
        for (channels, most, asleep) in cases {
            assert_eq!(to_sleep(awake(channels), most), asleep, "{channels:?}");
        }
    }

    #[test]
    fn a_batch_sleeps_so_that_the_next_wake_finds_room() {
        let channels: Vec<_> = (0..100).map(|_| ("c", 10, true)).collect();
        assert_eq!(to_sleep(awake(&channels), 1_000), Vec::<&str>::new());
        assert_eq!(to_sleep(awake(&channels), 990).len(), 14);
    }
}
