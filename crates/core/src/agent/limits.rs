//! Limits and times of the runtime.

use std::time::Duration;

use crate::chain::CoolDowns;

/// Limits and times that hold for all channels together or for each of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeLimits {
    /// Messages that may be on their way to the journal at the same time, in all channels: mailboxes have no limit of their
    /// own. Further ones are refused as busy.
    pub admitted_messages: usize,
    /// Messages that may be pending in one channel. Further ones are refused as busy.
    pub channel_queue: usize,
    /// Messages not addressed to the bot that may wait in one channel before they become a turn without an answer.
    pub unaddressed_queue: usize,
    /// Model calls that one person may have at work while others are active; further ones wait. 0: no limit.
    pub user_calls_at_once: usize,
    /// A channel falls asleep after this time without activity.
    pub idle_after: Duration,
    /// Memory in bytes that all awake channels may take; beyond it, the least recently used ones fall asleep. 0: no limit.
    pub awake_bytes: u64,
    /// Time limit of a turn with all its model and tool calls; in a chat without the time in which no model answers.
    pub turn_timeout: Duration,
    /// Most calls of a model for one answer, if it fails temporarily.
    pub model_attempts: u32,
    /// Pause after the first failed call; doubles with each further one.
    pub model_retry_base: Duration,
    /// Longest pause between the first calls. If a server asks for more, a local turn fails immediately.
    pub model_retry_max: Duration,
    /// Time limit of a tool call.
    pub tool_timeout: Duration,
    /// Pause before a failed actor restarts; doubles with each further failure within a minute.
    pub restart_pause: Duration,
    /// Pause before something that the store refused is retried.
    pub store_retry_pause: Duration,
    /// Longest pause between attempts at a delivery, unless the platform asks for more.
    pub delivery_retry_max: Duration,
    /// Time after which a chat is told that no model answers and that its message is kept.
    pub tell_after: Duration,
    /// Longest pause between calls of a model that does not answer, after the chat was told.
    pub patience_max: Duration,
    /// How long a failed model of a chain is skipped.
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
