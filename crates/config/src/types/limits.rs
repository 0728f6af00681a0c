//! `[limits]`, and what of them the actors keep.

use std::time::Duration;

use cairn_core::agent::RuntimeLimits;
use cairn_core::chain::CoolDowns;
use cairn_core::limits::TalkLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Maximum size of a message's text, in bytes; longer ones are refused with 413.
    #[schemars(range(min = 1, max = 67_108_864))]
    pub max_message_bytes: usize,
    /// Maximum number of messages being written to the journal, over all channels; further ones are refused with 429.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub admitted_messages: usize,
    /// Maximum number of messages waiting for an answer in one channel; further ones are refused with 429.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub channel_queue: usize,
    /// Maximum number of answers generated at a time for one person, over all channels, while other people are being
    /// answered or were within the last minute; further ones wait in order. 0: no limit.
    #[schemars(range(max = 1_000_000))]
    pub user_calls_at_once: usize,
    /// Seconds without an event after which a channel goes to sleep; its next message wakes it.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub idle_secs: u64,
    /// Approximate maximum of memory for channels that are awake, in MiB. Above it, the least recently used ones go to
    /// sleep, unless they have work; the next message wakes them. 0: no limit, only idle_secs applies.
    #[schemars(range(max = 1_048_576))]
    pub awake_mib: u64,
    /// Time limit of a turn, with all model calls and tools, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub turn_timeout_secs: u64,
    /// Maximum number of quick attempts at a model call that fails temporarily. After that the turn waits for the
    /// model.
    #[schemars(range(min = 1, max = 100))]
    pub model_attempts: u32,
    /// Time limit of a tool call, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub tool_timeout_secs: u64,
    /// Seconds that running turns get to finish when the daemon stops.
    #[schemars(range(max = 3_600))]
    pub shutdown_secs: u64,
    /// Maximum number of group messages that are not addressed to the bot and wait as context for the next turn. Above
    /// it they become a turn without an answer, which is compacted like any other.
    #[schemars(range(min = 1, max = 10_000))]
    pub unaddressed_queue: usize,
    /// When no model answers: seconds until people in a chat are told that their message is kept and will be answered
    /// later, and the longest pause between two attempts after that, in seconds. A local message also waits, for at
    /// most turn_timeout_secs, and its stream says so; if a model's server asks for a wait of more than a minute,
    /// the message fails immediately.
    #[schemars(range(min = 1, max = 3_600))]
    pub model_down_tell_secs: u64,
    #[schemars(range(min = 1, max = 86_400))]
    pub model_down_pause_max_secs: u64,
    /// In a model chain: seconds for which a model is skipped after a failure (overloaded, silent, unreachable), and
    /// after it refused a request for rate limits without giving a time. They double with each failure in a row, up to
    /// the third value. Meanwhile the next model of the chain answers; then the first one is tried again.
    #[schemars(range(max = 86_400))]
    pub model_cool_down_secs: u64,
    #[schemars(range(max = 86_400))]
    pub model_limited_secs: u64,
    #[schemars(range(max = 86_400))]
    pub model_cool_down_max_secs: u64,
    /// On chat networks: maximum messages per hour, of one person and in one channel, and maximum tokens per hour (of
    /// requests and answers) that one person and one channel may cause. People over a limit are told once. 0: no limit.
    pub user_messages_per_hour: u64,
    pub channel_messages_per_hour: u64,
    pub user_tokens_per_hour: u64,
    pub channel_tokens_per_hour: u64,
    /// Maximum spend of the whole bot per day (UTC), in the currency of the models' prices. Running calls count at
    /// their likely price: while they may use up the rest, further turns wait for them. 0: no limit.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub spend_per_day: f64,
    /// The currency of the models' prices, such as "EUR": `cairn status` and the page show it with amounts. Empty:
    /// none.
    #[schemars(length(max = 8))]
    pub currency: String,
}

impl Default for Limits {
    fn default() -> Self {
        let runtime = RuntimeLimits::default();
        Self {
            max_message_bytes: 256 * 1024,
            admitted_messages: runtime.admitted_messages,
            channel_queue: runtime.channel_queue,
            user_calls_at_once: runtime.user_calls_at_once,
            idle_secs: runtime.idle_after.as_secs(),
            awake_mib: runtime.awake_bytes >> 20,
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
            currency: String::new(),
        }
    }
}

impl Limits {
    /// The part of them that the actors keep.
    pub fn runtime(&self) -> RuntimeLimits {
        RuntimeLimits {
            admitted_messages: self.admitted_messages,
            channel_queue: self.channel_queue,
            user_calls_at_once: self.user_calls_at_once,
            idle_after: Duration::from_secs(self.idle_secs),
            awake_bytes: self.awake_mib << 20,
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
            ..RuntimeLimits::default()
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
