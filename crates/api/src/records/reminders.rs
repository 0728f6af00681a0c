//! The records of reminders: `cairn reminder`.

use cairn_types::ids::ChannelId;
use cairn_types::reminder::Reminder;
use serde::{Deserialize, Serialize};

/// A reminder that is to fire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReminderRecord {
    pub channel: ChannelId,
    #[serde(flatten)]
    pub reminder: Reminder,
}

impl From<(ChannelId, Reminder)> for ReminderRecord {
    fn from((channel, reminder): (ChannelId, Reminder)) -> Self {
        Self { channel, reminder }
    }
}

/// Sets a reminder.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReminderRequest {
    /// A time and a text, as after `/remind`.
    pub words: String,
}
