//! Backfill: decides which messages from a downtime are answered, by age and number, and gives each channel one answer
//! for all of them.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::handler::{Due, judge, topic_of};
use super::offset_tracker::{MessageKey, OffsetTracker};
use super::send::ChatTopic;
use super::wire::{Message, Update, User};
use super::words::{self, Given};
use super::{Telegram, content};
use crate::inbound::{Access, Admitted, InboundPath};

/// A message delivered later than this after it was sent was missed, in a downtime or an outage.
const LIVE: SignedDuration = SignedDuration::from_secs(10);

/// The context for judging a batch of updates.
pub(super) struct Reader<'a> {
    pub(super) telegram: &'a Telegram,
    pub(super) me: &'a User,
    pub(super) path: &'a InboundPath,
    pub(super) started: Timestamp,
}

impl Reader<'_> {
    /// Decides for each update of a batch when it is answered. Per chat the newest missed messages count, and the last
    /// of them that asks for an answer is answered for all. Messages that were already taken in count for nothing.
    pub(super) async fn dues(&self, offset_tracker: &OffsetTracker, fresh: &[(i64, Update)]) -> Vec<Due> {
        let catch_up = self.path.chat.get().catch_up;
        let (mut missed, mut answered) = (HashMap::<ChatTopic, usize>::new(), HashSet::<ChatTopic>::new());
        let mut dues = Vec::with_capacity(fresh.len());
        for (n, (_, update)) in fresh.iter().enumerate().rev() {
            // A copy of a message, in an update with another number.
            let is_copy = |key, earlier: &Update| {
                message_key(earlier) == Some(key)
                    && matches!(earlier, Update::Message(message) if self.asks(message))
            };
            let again = |key| {
                offset_tracker.is_under_way(key)
                    || fresh[..n].iter().any(|(_, earlier)| is_copy(key, earlier))
            };
            dues.push(match self.missed(update) {
                None => Due::Now,
                Some(_) if message_key(update).is_some_and(again) => Due::WithLater,
                Some((message, _)) if self.was_taken_in(message).await => Due::WithLater,
                Some((message, age)) => {
                    let count = missed.entry(topic_of(message)).or_default();
                    *count += 1;
                    match self.asks(message) {
                        _ if *count > catch_up.max_messages || age > catch_up.max_age => Due::Never,
                        true if !answered.insert(topic_of(message)) => Due::WithLater,
                        _ => Due::Now,
                    }
                }
            });
        }
        dues.reverse();
        let count = dues.iter().filter(|due| **due == Due::Never).count();
        if count > 0 {
            metrics::counter!("cairn_telegram_late_total").increment(count as u64);
            tracing::info!(
                count,
                "missed Telegram messages are too old or too many; they are kept and not answered"
            );
        }
        dues
    }

    /// The message of an update and its age, if it was missed. Telegram's times are whole seconds; the second of the
    /// start counts as missed.
    fn missed<'a>(&self, update: &'a Update) -> Option<(&'a Message, SignedDuration)> {
        let Update::Message(message) = update else { return None };
        let at = Timestamp::from_second(message.date).ok()?;
        let age = self.telegram.now().duration_since(at);
        (at <= self.started || age > LIVE).then_some((message, age))
    }

    async fn was_taken_in(&self, message: &Message) -> bool {
        let Some(speaker) = content::speaker(message) else { return false };
        let Access::Admitted(admitted) = judge(self.path, self.me, message, &speaker) else { return false };
        !self.path.is_new(&admitted.channel, &self.telegram.message_id(message)).await
    }

    /// Whether a message asks the model for an answer.
    fn asks(&self, message: &Message) -> bool {
        let Some(speaker) = content::speaker(message) else { return false };
        let access = judge(self.path, self.me, message, &speaker);
        let says =
            || !content::words(message, self.me, true).is_empty() || !content::attached(message).is_empty();
        matches!(access, Access::Admitted(Admitted { addressed: true, .. }))
            && words::command(message, self.me) == Given::Nothing
            && says()
    }
}

/// The chat and number of an update's message.
pub(super) fn message_key(update: &Update) -> Option<MessageKey> {
    match update {
        Update::Message(message) => Some((message.chat.id, message.message_id)),
        Update::Edited(_) | Update::Membership(_) | Update::Callback(_) | Update::Reaction(_) => None,
    }
}
