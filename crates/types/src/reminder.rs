//! Reminders: requests that the agent takes up at a time, in the channel where they were set.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, ReminderId};
use crate::message::{Author, Provenance};

/// A request that becomes a message of its channel at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reminder {
    pub id: ReminderId,
    /// Who set it. Its message holds their text.
    pub by: Author,
    pub text: String,
    /// When it fires next.
    pub due: Timestamp,
    /// The recurrence, as five cron fields; `None`: it fires once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The IANA time zone of the recurrence, in which people read its times.
    pub zone: String,
    pub set_at: Timestamp,
    /// Whose text the request may hold besides its setter's: the window's, for a reminder that a model set.
    #[serde(default, rename = "voices", skip_serializing_if = "Provenance::is_empty")]
    pub provenance: Provenance,
}

impl Reminder {
    /// The id of the message that it becomes when it fires. The same time always gives the same id.
    pub fn message(&self) -> MessageId {
        MessageId::new(format!("{MESSAGE}{}@{}", self.id, self.due.as_millisecond()))
    }
}

/// Which reminder a message is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fired {
    pub id: ReminderId,
    /// When it fires again; `None`: it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
}

/// The prefix of the ids of messages that reminders become.
const MESSAGE: &str = "reminder#";

/// The prefix of the ids of reminders that the configuration sets.
const SCHEDULE: &str = "schedule:";

impl ReminderId {
    /// The id of a schedule, by its name in the configuration.
    pub fn of_schedule(name: &str) -> Self {
        Self::new(format!("{SCHEDULE}{name}"))
    }

    /// Whether the configuration set it.
    pub fn is_schedule(&self) -> bool {
        self.as_str().starts_with(SCHEDULE)
    }
}

impl MessageId {
    /// Whether a reminder became this message. Such an id names no message of the platform.
    pub fn is_reminder(&self) -> bool {
        self.as_str().starts_with(MESSAGE)
    }

    /// Whether a schedule of the configuration became this message.
    pub fn is_schedule(&self) -> bool {
        self.as_str().strip_prefix(MESSAGE).is_some_and(|rest| rest.starts_with(SCHEDULE))
    }
}
