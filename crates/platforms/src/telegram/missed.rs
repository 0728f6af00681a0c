//! What was missed: how old it may be, how much of it counts, and that one turn a channel answers it.

use std::collections::{HashMap, HashSet};

use cairn_core::access::Verdict;
use cairn_core::ids::ChannelId;
use cairn_core::ports::Intake;
use jiff::{SignedDuration, Timestamp};

use super::offset_tracker::{OffsetTracker, Said};
use super::poll::place_of;
use super::sent::Place;
use super::wire::{Message, Update, User};
use super::words::{self, Given};
use super::{NAME, Telegram, content};

/// What Telegram gives so long after it was said was missed: while nobody ran, or while the connection was broken.
const LIVE: SignedDuration = SignedDuration::from_secs(10);

/// When a message is answered, if it asks for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    /// With a later one that was missed with it.
    WithLater,
    /// Not: it is too old, or one of too many, and kept as context.
    Never,
}

/// What is known of the time of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Live,
    /// It was said in the second in which the adapter started, before or after: Telegram tells whole seconds. No limit
    /// leaves it out, and like what was missed it is answered with what came with it.
    AtStart,
    Missed(SignedDuration),
}

/// Who reads what was missed, and since when.
pub(super) struct Reader<'a> {
    pub(super) telegram: &'a Telegram,
    pub(super) me: &'a User,
    pub(super) intake: &'a dyn Intake,
    pub(super) started: Timestamp,
}

impl Reader<'_> {
    /// When each of some updates that came together is answered. Of a chat's missed messages the newest count, and the
    /// last that asks for an answer is answered with all before it. What was taken in before is no news, and neither
    /// counts nor stands for others.
    pub(super) async fn dues(&self, offset_tracker: &OffsetTracker, fresh: &[(i64, Update)]) -> Vec<Due> {
        let catch_up = self.telegram.chat.get().catch_up;
        let (mut missed, mut answered) = (HashMap::<Place, usize>::new(), HashSet::<Place>::new());
        let old = self.old(offset_tracker, fresh).await;
        let mut dues: Vec<Due> = fresh
            .iter()
            .zip(old)
            .rev()
            .map(|((_, update), is_old)| {
                let Update::Message(message) = update else { return Due::Now };
                if is_old {
                    return Due::WithLater;
                }
                let place = place_of(update);
                match self.came(message) {
                    Came::Live => return Due::Now,
                    Came::AtStart => {}
                    Came::Missed(age) => {
                        let count = missed.entry(place).or_default();
                        *count += 1;
                        if *count > catch_up.max_messages || age > catch_up.max_age {
                            return Due::Never;
                        }
                    }
                }
                if self.asks(message) && !answered.insert(place) { Due::WithLater } else { Due::Now }
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

    fn came(&self, message: &Message) -> Came {
        let Ok(at) = Timestamp::from_second(message.date) else { return Came::Live };
        let (age, started) = (self.telegram.now().duration_since(at), self.started.as_second());
        match at.as_second() {
            at if at < started || age > LIVE => Came::Missed(age),
            at if at == started => Came::AtStart,
            _ => Came::Live,
        }
    }

    /// Which of the updates are messages that came before: in this batch, in an earlier one that is under way, or in an
    /// earlier life. The runtime drops them.
    async fn old(&self, offset_tracker: &OffsetTracker, fresh: &[(i64, Update)]) -> Vec<bool> {
        let mut old = Vec::with_capacity(fresh.len());
        let mut batch = HashSet::<Said>::new();
        for (_, update) in fresh {
            let is_old = match said(update) {
                Some((said, message)) => {
                    (self.asks(message) && !batch.insert(said))
                        || offset_tracker.is_under_way(said)
                        || self.was_taken_in(message).await
                }
                None => false,
            };
            old.push(is_old);
        }
        old
    }

    /// Whether the runtime has a message that was missed.
    async fn was_taken_in(&self, message: &Message) -> bool {
        if self.came(message) == Came::Live {
            return false;
        }
        let Some(channel) = self.channel(message) else { return false };
        let id = self.telegram.house_id(message.chat.id, message.message_id);
        match self.intake.has_seen(&channel, &id).await {
            Ok(seen) => seen,
            Err(error) => {
                // The runtime drops it if it has; it is only not known here.
                tracing::debug!(%error, "cannot tell whether a telegram message was taken in before");
                false
            }
        }
    }

    /// Where a message is heard, if it is.
    fn channel(&self, message: &Message) -> Option<ChannelId> {
        let speaker = content::speaker(message)?;
        let (Verdict::Serve { agent, .. }, home) = self.telegram.judge(self.me, message, &speaker) else {
            return None;
        };
        let thread = message.topic().map(|topic| topic.to_string());
        ChannelId::new(&agent, NAME, &home, thread.as_deref()).ok()
    }

    /// It asks for an answer of the model.
    fn asks(&self, message: &Message) -> bool {
        let (telegram, me) = (self.telegram, self.me);
        let Some(speaker) = content::speaker(message) else { return false };
        let served =
            matches!(telegram.judge(me, message, &speaker).0, Verdict::Serve { addressed: true, .. });
        let says = || !content::words(message, me, true).is_empty() || !content::attached(message).is_empty();
        served && words::command(message, me) == Given::Nothing && says()
    }
}

/// The message that an update brings.
pub(super) fn said(update: &Update) -> Option<(Said, &Message)> {
    match update {
        Update::Message(message) => Some(((message.chat.id, message.message_id), message)),
        Update::Edited(_) | Update::Membership(_) | Update::Pressed(_) => None,
    }
}
