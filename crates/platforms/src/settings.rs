//! What the adapters of all chat networks are told alike.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::AgentId;
use cairn_types::people::access::AccessPolicy;
use jiff::SignedDuration;
use parking_lot::RwLock;

use crate::attach::AttachLimits;

/// Whom an adapter hears, what it takes in, and how it shows answers.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    pub access: AccessPolicy,
    /// Agents with a model that takes pictures; for the others pictures are only named.
    pub images: BTreeSet<AgentId>,
    /// Largest picture that is taken in, in bytes; larger ones are only named.
    pub image_max_bytes: usize,
    /// Largest text file whose words are taken in, in bytes; larger ones are only named.
    pub text_max_bytes: usize,
    /// Least time between two edits of a draft; none: drafts are not shown.
    pub draft_every: Option<Duration>,
    /// What is still answered after downtime.
    pub catch_up: CatchUp,
}

impl ChatSettings {
    /// These rules, all else by default.
    pub fn new(access: AccessPolicy) -> Self {
        let attach = AttachLimits::default();
        Self {
            access,
            images: BTreeSet::new(),
            image_max_bytes: attach.image_bytes,
            text_max_bytes: attach.text_bytes,
            draft_every: None,
            catch_up: CatchUp::default(),
        }
    }

    /// What is read of attachments; `images`: for an agent with a model that takes pictures.
    pub(crate) fn attach_limits(&self, images: bool) -> AttachLimits {
        AttachLimits { image_bytes: self.image_max_bytes, text_bytes: self.text_max_bytes, images }
    }
}

/// These settings as they are now: who has it sees what is set again. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveChat(Arc<RwLock<Arc<ChatSettings>>>);

impl LiveChat {
    pub fn new(settings: ChatSettings) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(settings))))
    }

    pub fn get(&self) -> Arc<ChatSettings> {
        Arc::clone(&self.0.read())
    }

    /// From here on these hold, for everything that is taken in or shown next. What is under way ends as it began.
    pub fn set(&self, settings: ChatSettings) {
        *self.0.write() = Arc::new(settings);
    }
}

/// What is still answered of what was said while the daemon was away. Telegram gives the rest all the same: it is kept
/// as context. From Discord no more is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    pub max_age: SignedDuration,
    /// So many of a channel, the newest; of Telegram's, among those that come in together.
    pub max_messages: usize,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { max_age: SignedDuration::from_hours(24), max_messages: 200 }
    }
}
