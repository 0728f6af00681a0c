//! Bounds and times that hold for all channels.

use std::time::Duration;

use crate::chain::CoolDowns;

/// Bounds and times that hold for all channels.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeLimits {
    /// Messages that may be on their way to the journal at once, over all channels: mailboxes have no bound of
    /// their own. One more is refused as busy.
    pub admitted_messages: usize,
    /// Messages that may be pending in one channel. One more is refused as busy.
    pub channel_queue: usize,
    /// Messages not addressed to the bot that wait in one channel before they become a turn without an answer.
    pub unaddressed_queue: usize,
    /// Calls of models that one person may have at work at once while others are about; further ones wait. 0: any number.
    pub user_calls_at_once: usize,
    /// A channel in which nothing happened for so long falls asleep.
    pub idle_after: Duration,
    /// Bytes that the channels awake take together, about; over it, those that were used least recently fall asleep. 0: any
    /// number.
    pub awake_bytes: u64,
    /// Longest that one turn may take, all model calls and tools together; in a chat without the time in which no model
    /// answers.
    pub turn_timeout: Duration,
    /// Most calls of the model for one answer, when it fails in passing.
    pub model_attempts: u32,
    /// Pause after the first failed call; doubles with each further one.
    pub model_retry_base: Duration,
    /// Longest pause between the first calls. A server that asks for more than that fails a local turn at once.
    pub model_retry_max: Duration,
    /// Longest that one call of a tool may take.
    pub tool_timeout: Duration,
    /// Pause before an actor that failed is started again; doubles with each further failure within a minute.
    pub restart_pause: Duration,
    /// Pause before something that the store refused is tried again.
    pub store_retry_pause: Duration,
    /// Longest pause between attempts at a delivery, unless the platform asks for more.
    pub delivery_retry_max: Duration,
    /// People in a chat are told after so long that no model answers, and that their message is kept.
    pub tell_after: Duration,
    /// Longest pause between calls of a model that does not answer, once people in a chat were told.
    pub patience_max: Duration,
    /// How long a model of a chain that failed is skipped.
    pub cool_downs: CoolDowns,
}

impl Default for RuntimeLimits {
    fn default() -> Self {
        Self {
            admitted_messages: 1024,
            channel_queue: 256,
            unaddressed_queue: 64,
            user_calls_at_once: 4,
            idle_after: Duration::from_secs(15 * 60),
            awake_bytes: 64 << 20,
            turn_timeout: Duration::from_secs(15 * 60),
            model_attempts: 4,
            model_retry_base: Duration::from_millis(500),
            model_retry_max: Duration::from_secs(60),
            tool_timeout: Duration::from_secs(60),
            restart_pause: Duration::from_millis(100),
            store_retry_pause: Duration::from_secs(1),
            delivery_retry_max: Duration::from_secs(60),
            tell_after: Duration::from_secs(5),
            patience_max: Duration::from_secs(60),
            cool_downs: CoolDowns::default(),
        }
    }
}
