//! Telegram's limits on sending: one message a second per chat with short bursts, twenty a minute per group, thirty a
//! second in all, and Telegram's own `retry_after`. Nothing here waits; callers get the time to wait.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const CHAT_GAP: Duration = Duration::from_secs(1);
/// Writes that a chat may get in a burst after a pause: Telegram allows it, and command answers are not delayed.
const CHAT_BURST: u32 = 3;
const GROUP_WINDOW: Duration = Duration::from_secs(60);
const GROUP_MAX: usize = 20;
const ALL_WINDOW: Duration = Duration::from_secs(1);
const ALL_MAX: usize = 30;

/// Above this many chats, those that were quiet for a minute are forgotten.
const CHATS_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    Message,
    Edit,
}

#[derive(Default)]
struct ChatPace {
    /// When the writes so far would be sent, at one per gap.
    through: Option<Instant>,
    /// Times of the new messages within the last minute.
    messages: VecDeque<Instant>,
    blocked: Option<Instant>,
}

impl ChatPace {
    fn is_quiet(&self, now: Instant) -> bool {
        let past = |at: Instant| now.saturating_duration_since(at) > GROUP_WINDOW;
        self.through.is_none_or(past) && self.blocked.is_none_or(|until| until <= now)
    }
}

#[derive(Default)]
struct Cell {
    chats: HashMap<i64, ChatPace>,
    all: VecDeque<Instant>,
}

#[derive(Default)]
pub(super) struct Pace(Mutex<Cell>);

impl Pace {
    /// Reserves a write now, or returns the time to wait.
    pub(super) fn take(&self, chat: i64, write: Write, now: Instant) -> Result<(), Duration> {
        let mut cell = self.0.lock();
        let Cell { chats, all } = &mut *cell;
        if chats.len() > CHATS_MAX {
            chats.retain(|_, pace| !pace.is_quiet(now));
        }
        let pace = chats.entry(chat).or_default();
        forget(&mut pace.messages, now, GROUP_WINDOW);
        forget(all, now, ALL_WINDOW);
        // Groups have negative ids.
        let grouped = chat < 0 && write == Write::Message && pace.messages.len() >= GROUP_MAX;
        let free = [
            pace.blocked,
            pace.through.and_then(|through| through.checked_sub(CHAT_GAP * (CHAT_BURST - 1))),
            pace.messages.front().filter(|_| grouped).map(|first| *first + GROUP_WINDOW),
            all.front().filter(|_| all.len() >= ALL_MAX).map(|first| *first + ALL_WINDOW),
        ];
        match free.into_iter().flatten().max().filter(|free| *free > now) {
            Some(free) => Err(free - now),
            None => {
                pace.through = Some(pace.through.map_or(now, |through| through.max(now)) + CHAT_GAP);
                if write == Write::Message {
                    pace.messages.push_back(now);
                }
                all.push_back(now);
                Ok(())
            }
        }
    }

    /// Telegram refuses writes to this chat for this long.
    pub(super) fn block(&self, chat: i64, wait: Duration, now: Instant) {
        self.0.lock().chats.entry(chat).or_default().blocked = Some(now + wait);
    }

    /// How long Telegram still refuses writes to this chat.
    pub(super) fn blocked(&self, chat: i64, now: Instant) -> Option<Duration> {
        let blocked = self.0.lock().chats.get(&chat)?.blocked?;
        (blocked > now).then(|| blocked - now)
    }
}

fn forget(times: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while times.front().is_some_and(|at| now.saturating_duration_since(*at) >= window) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_chat_gets_a_few_at_once_then_one_a_second_and_holds_no_other_up() {
        let (pace, now) = (Pace::default(), Instant::now());
        for _ in 0..CHAT_BURST {
            assert_eq!(pace.take(1, Write::Message, now), Ok(()));
        }
        assert_eq!(pace.take(1, Write::Edit, now + 400 * MS), Err(600 * MS));
        assert_eq!(pace.take(2, Write::Message, now), Ok(()));
        assert_eq!(pace.take(1, Write::Message, now + CHAT_GAP), Ok(()));
        assert_eq!(pace.take(1, Write::Message, now + CHAT_GAP), Err(CHAT_GAP));
    }

    #[test]
    fn a_group_gets_twenty_messages_a_minute_and_edits_beside_them() {
        let (pace, start) = (Pace::default(), Instant::now());
        let mut sent = Vec::new();
        for second in 0..60 {
            if pace.take(-5, Write::Message, start + CHAT_GAP * second).is_ok() {
                sent.push(second);
            }
        }
        assert_eq!(sent.len(), GROUP_MAX);
        assert_eq!(pace.take(-5, Write::Message, start + CHAT_GAP * 30), Err(CHAT_GAP * 30));
        assert_eq!(pace.take(-5, Write::Edit, start + CHAT_GAP * 30), Ok(()));
        assert_eq!(pace.take(-5, Write::Message, start + GROUP_WINDOW), Ok(()));
    }

    #[test]
    fn all_chats_together_get_thirty_a_second() {
        let (pace, now) = (Pace::default(), Instant::now());
        for chat in 1..=30 {
            assert_eq!(pace.take(chat, Write::Message, now), Ok(()));
        }
        assert_eq!(pace.take(31, Write::Message, now + 250 * MS), Err(750 * MS));
        assert_eq!(pace.take(31, Write::Message, now + ALL_WINDOW), Ok(()));
    }

    #[test]
    fn what_telegram_says_counts_for_its_chat_alone() {
        let (pace, now) = (Pace::default(), Instant::now());
        pace.block(1, 35 * CHAT_GAP, now);
        assert_eq!(pace.take(1, Write::Message, now + CHAT_GAP), Err(34 * CHAT_GAP));
        assert_eq!(pace.blocked(1, now), Some(35 * CHAT_GAP));
        assert_eq!(pace.take(2, Write::Message, now), Ok(()));
        assert_eq!(pace.blocked(1, now + 35 * CHAT_GAP), None);
    }
}
