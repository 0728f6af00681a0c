//! What was missed: how old it may be, how much of it counts, and that one turn a channel answers it.

use std::collections::{HashMap, HashSet};

use cairn_core::access::Verdict;
use jiff::{SignedDuration, Timestamp};

use super::poll::place_of;
use super::sent::Place;
use super::wire::{Message, Update, User};
use super::words::{self, Given};
use super::{Telegram, content};

/// What Telegram gives so long after it was said was missed: while nobody ran, or while the connection was broken.
const LIVE: SignedDuration = SignedDuration::from_secs(10);

/// When a message is answered, if it asks for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// As its channel comes to it.
    Now,
    /// With a later one that was missed with it.
    WithLater,
    /// Not: it is too old, or one of too many, and kept as context.
    Never,
}

/// When each of some updates that came together is answered. Of a chat's missed messages the newest count, and the
/// last that asks for an answer is answered with all before it.
pub(super) fn dues(telegram: &Telegram, me: &User, started: Timestamp, fresh: &[(i64, Update)]) -> Vec<Due> {
    let (catch_up, now) = (telegram.settings.catch_up, telegram.now());
    let (mut missed, mut answered) = (HashMap::<Place, usize>::new(), HashSet::<Place>::new());
    let mut seen = HashSet::<(i64, i64)>::new();
    // A message that Telegram gives twice is what its first copy is; the second is dropped by the house.
    let repeats: Vec<bool> = fresh
        .iter()
        .map(|(_, update)| match update {
            Update::Message(message) => {
                asks(telegram, me, message) && !seen.insert((message.chat.id, message.message_id))
            }
            _ => false,
        })
        .collect();
    let mut dues: Vec<Due> = fresh
        .iter()
        .zip(repeats)
        .rev()
        .map(|((_, update), is_repeat)| {
            let Update::Message(message) = update else { return Due::Now };
            if is_repeat {
                return Due::WithLater;
            }
            let Ok(at) = Timestamp::from_second(message.date) else { return Due::Now };
            let age = now.duration_since(at);
            if at >= started && age <= LIVE {
                return Due::Now;
            }
            let place = place_of(update);
            let count = missed.entry(place).or_default();
            *count += 1;
            if *count > catch_up.max_messages || age > catch_up.max_age {
                return Due::Never;
            }
            if asks(telegram, me, message) && !answered.insert(place) { Due::WithLater } else { Due::Now }
        })
        .collect();
    dues.reverse();
    let count = dues.iter().filter(|due| **due == Due::Never).count();
    if count > 0 {
        metrics::counter!("cairn_telegram_late_total").increment(count as u64);
        tracing::info!(
            count,
            "missed telegram messages are too old or too many; they are kept without an answer"
        );
    }
    dues
}

/// It asks for an answer of the model.
fn asks(telegram: &Telegram, me: &User, message: &Message) -> bool {
    let Some(speaker) = content::speaker(message) else { return false };
    let served = matches!(telegram.judge(me, message, &speaker).0, Verdict::Serve { addressed: true, .. });
    let says = || !content::words(message, me, true).is_empty() || !content::attached(message).is_empty();
    served && words::command(message, me) == Given::Nothing && says()
}
