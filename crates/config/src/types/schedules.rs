//! `[[schedules]]`: turns that start by the clock.

use cairn_types::ids::{BadChannel, ChannelId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;

/// A turn that an agent starts by itself, again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleConfig {
    /// Its name: 1 to 24 of A-Z a-z 0-9 -
    #[schemars(example = &"morning", regex(pattern = "^[A-Za-z0-9-]{1,24}$"))]
    pub id: String,
    /// The channel where it fires: AGENT/PLATFORM/CHAT as listed by `cairn channels`, or the name of a local channel.
    #[schemars(example = &"main/telegram/-1001234567890")]
    pub channel: String,
    /// The time: "day 7:00", "weekday 7:00", "monday 9:00", "hour", or five cron fields such as "0 9 1 * *". At least
    /// 10 minutes apart.
    #[schemars(example = &"weekday 7:00")]
    pub every: String,
    /// The instruction for the agent, which may also say nothing. 1 to 1000 characters.
    #[schemars(example = &"Say what is open from yesterday, in three lines.")]
    pub prompt: String,
    /// The time zone of `every`, as an IANA name. Not set: the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"Europe/Berlin")]
    pub timezone: Option<String>,
}

impl ScheduleConfig {
    /// # Errors
    /// `channel` names none.
    pub fn channel(&self, config: &Config) -> Result<ChannelId, BadChannel> {
        ChannelId::resolve(&self.channel, &config.default_agent())
    }
}
