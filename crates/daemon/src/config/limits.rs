//! `[limits]`.

use std::time::Duration;

use cairn_actors::HouseLimits;
use cairn_core::chain::CoolDowns;
use cairn_core::limits::TalkLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[limits]`: bounds of what is taken in and of how long things take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Longest text of a message, in bytes.
    pub max_message_bytes: usize,
    /// Messages that may be on their way to the journal at once, over all channels; further ones are refused.
    pub admitted_messages: usize,
    /// Messages of one channel that may wait for their answer; further ones are refused.
    pub channel_queue: usize,
    /// Seconds without an event after which a channel falls asleep; it wakes with the next message.
    pub idle_secs: u64,
    /// Longest that one turn may take, all model calls and tools together, in seconds.
    pub turn_timeout_secs: u64,
    /// Most calls of the model for one answer, when it fails in passing.
    pub model_attempts: u32,
    /// Longest that one call of a tool may take, in seconds.
    pub tool_timeout_secs: u64,
    /// Seconds that turns under way get to end when the daemon stops.
    pub shutdown_secs: u64,
    /// Messages not addressed to the bot that wait in a group before they become a turn without an answer.
    pub unaddressed_queue: usize,
    /// Seconds without an answer of any model after which people in a chat are told that their message is kept.
    pub model_down_tell_secs: u64,
    /// Longest pause between two calls of a model that does not answer, once people were told, in seconds.
    pub model_down_pause_max_secs: u64,
    /// Seconds for which a model of a chain is skipped after it failed; they double with each failure in a row.
    pub model_cool_down_secs: u64,
    /// The same after a refusal for too many requests, when the model's server names no time itself.
    pub model_limited_secs: u64,
    /// Longest that both grow to, in seconds.
    pub model_cool_down_max_secs: u64,
    /// On chat networks: messages that one person may send within an hour; 0: no limit.
    pub user_messages_per_hour: u64,
    /// On chat networks: messages taken in from one channel within an hour; 0: no limit.
    pub channel_messages_per_hour: u64,
    /// On chat networks: tokens that one person may cause within an hour; 0: no limit.
    pub user_tokens_per_hour: u64,
    /// On chat networks: tokens that one channel may cause within an hour; 0: no limit.
    pub channel_tokens_per_hour: u64,
    /// Money that the whole bot may spend on a day (UTC), in the currency of the models' prices; 0: no cap.
    pub spend_per_day: f64,
}

impl Default for Limits {
    fn default() -> Self {
        let runtime = HouseLimits::default();
        Self {
            max_message_bytes: 256 * 1024,
            admitted_messages: runtime.admitted_messages,
            channel_queue: runtime.channel_queue,
            idle_secs: runtime.idle_after.as_secs(),
            turn_timeout_secs: runtime.turn_timeout.as_secs(),
            model_attempts: runtime.model_attempts,
            tool_timeout_secs: runtime.tool_timeout.as_secs(),
            shutdown_secs: 30,
            unaddressed_queue: runtime.unaddressed_queue,
            model_down_tell_secs: runtime.tell_after.as_secs(),
            model_down_pause_max_secs: runtime.patience_max.as_secs(),
            model_cool_down_secs: runtime.cool_downs.failing.as_secs(),
            model_limited_secs: runtime.cool_downs.limited.as_secs(),
            model_cool_down_max_secs: runtime.cool_downs.max.as_secs(),
            user_messages_per_hour: 0,
            channel_messages_per_hour: 0,
            user_tokens_per_hour: 0,
            channel_tokens_per_hour: 0,
            spend_per_day: 0.0,
        }
    }
}

impl Limits {
    /// The part of them that the actors keep.
    pub fn runtime(&self) -> HouseLimits {
        HouseLimits {
            admitted_messages: self.admitted_messages,
            channel_queue: self.channel_queue,
            idle_after: Duration::from_secs(self.idle_secs),
            turn_timeout: Duration::from_secs(self.turn_timeout_secs),
            model_attempts: self.model_attempts,
            tool_timeout: Duration::from_secs(self.tool_timeout_secs),
            unaddressed_queue: self.unaddressed_queue,
            tell_after: Duration::from_secs(self.model_down_tell_secs),
            patience_max: Duration::from_secs(self.model_down_pause_max_secs),
            cool_downs: CoolDowns {
                failing: Duration::from_secs(self.model_cool_down_secs),
                limited: Duration::from_secs(self.model_limited_secs),
                max: Duration::from_secs(self.model_cool_down_max_secs),
                ..CoolDowns::default()
            },
            ..HouseLimits::default()
        }
    }

    /// The part of them that bounds how much people talk.
    pub fn talk(&self) -> TalkLimits {
        TalkLimits {
            user_messages_per_hour: self.user_messages_per_hour,
            channel_messages_per_hour: self.channel_messages_per_hour,
            user_tokens_per_hour: self.user_tokens_per_hour,
            channel_tokens_per_hour: self.channel_tokens_per_hour,
            spend_per_day: self.spend_per_day,
        }
    }
}
