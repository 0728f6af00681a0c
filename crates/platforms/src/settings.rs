//! Settings that the adapters of all chat networks share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::AgentId;
use cairn_types::message::Gather;
use cairn_types::people::access::AccessPolicy;
use cairn_types::ports::Mark;
use cairn_types::texts::{Languages, Texts};
use jiff::SignedDuration;
use parking_lot::RwLock;

use crate::attach::{AttachLimits, Transcriber};
use crate::split::code::LongCode;

/// Access rules, attachment limits and display settings of an adapter.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    pub access: AccessPolicy,
    /// What the bot itself says, by its agents; English where one is missing.
    pub languages: BTreeMap<AgentId, Languages>,
    /// Most messages of other bots that are answered in one chat within a minute; 0: no limit.
    pub bots_per_minute: u32,
    /// Agents whose model takes pictures; for others pictures are only named.
    pub images: BTreeSet<AgentId>,
    /// Largest picture that is taken in, in bytes; larger ones are only named.
    pub image_max_bytes: usize,
    /// Largest text file that is taken in, in bytes; larger ones are only named.
    pub text_max_bytes: usize,
    /// Largest PDF or office document whose text is taken in, in bytes; larger ones are only named.
    pub document_max_bytes: usize,
    /// The daemon's binary, which reads documents in a process of its own; `None`: they are read in this one.
    pub document_reader: Option<&'static str>,
    /// What turns recordings into words; `None`: they are only named.
    pub transcriber: Option<Arc<Transcriber>>,
    /// Least time between two edits of a draft; `None`: no drafts are shown.
    pub draft_every: Option<Duration>,
    /// A code block that needs more messages than these is sent as a file; 0: none is.
    pub long_code_parts: usize,
    pub marks: Marks,
    /// How long a person's next message is waited for before they are answered; zero: not at all.
    pub gather: Duration,
    /// Limits on the messages that are answered after downtime.
    pub catch_up: CatchUp,
}

impl ChatSettings {
    /// Default settings with these access rules.
    pub fn new(access: AccessPolicy) -> Self {
        let attach = AttachLimits::default();
        Self {
            access,
            languages: BTreeMap::new(),
            bots_per_minute: 0,
            images: BTreeSet::new(),
            image_max_bytes: attach.image_bytes,
            text_max_bytes: attach.text_bytes,
            document_max_bytes: attach.document_bytes,
            document_reader: attach.document_reader,
            transcriber: None,
            draft_every: None,
            long_code_parts: 0,
            marks: Marks::default(),
            gather: Duration::ZERO,
            catch_up: CatchUp::default(),
        }
    }

    /// The texts of an agent, in a place that has a language of its own, or has none.
    pub(crate) fn texts(&self, agent: &AgentId, language: Option<&str>) -> Arc<Texts> {
        let texts = self.languages.get(agent).map(|languages| Arc::clone(languages.of(language)));
        texts.unwrap_or_else(|| Arc::clone(Texts::english()))
    }

    /// The texts of the agent that answers where no place says otherwise.
    pub(crate) fn own_texts(&self) -> Arc<Texts> {
        self.texts(&self.access.agent, None)
    }

    /// What may follow a message. `answers`: the words of the bot that it answers. An answer to a question is whole.
    pub(crate) fn gather(&self, answers: Option<&str>) -> Gather {
        let asked = answers.is_some_and(|words| words.contains(['?', '？', '؟']));
        Gather { wait: if asked { Duration::ZERO } else { self.gather }, ..Gather::default() }
    }

    /// When a code block is sent as a file, on a network that takes files of up to so many bytes, or none.
    pub(crate) fn long_code(&self, file_max: Option<u64>) -> LongCode {
        let parts = if file_max.is_some() { self.long_code_parts } else { 0 };
        LongCode { parts, bytes: file_max.unwrap_or_default() }
    }

    /// The limits for attachments. `images`: whether the agent's model takes pictures.
    pub(crate) fn attach_limits(&self, images: bool) -> AttachLimits {
        AttachLimits {
            image_bytes: self.image_max_bytes,
            text_bytes: self.text_max_bytes,
            document_bytes: self.document_max_bytes,
            document_reader: self.document_reader,
            images,
        }
    }
}

/// The reactions that mark people's messages, as the network takes them; none of one: it changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    pub seen: Option<String>,
    pub working: Option<String>,
    pub failed: Option<String>,
}

impl Marks {
    pub(crate) fn any(&self) -> bool {
        self.seen.is_some() || self.working.is_some() || self.failed.is_some()
    }

    fn of(&self, mark: Option<Mark>) -> Option<&str> {
        match mark? {
            Mark::Seen => self.seen.as_deref(),
            Mark::Working => self.working.as_deref().or(self.seen.as_deref()),
            Mark::Failed => self.failed.as_deref(),
        }
    }

    /// The reaction that goes and the one that comes; `None`: it is the same one.
    pub(crate) fn step(&self, from: Option<Mark>, to: Option<Mark>) -> Option<(Option<&str>, Option<&str>)> {
        let (from, to) = (self.of(from), self.of(to));
        (from != to).then_some((from, to))
    }
}

/// Settings that can be replaced at run time. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveChat(Arc<RwLock<Arc<ChatSettings>>>);

impl LiveChat {
    pub fn new(settings: ChatSettings) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(settings))))
    }

    pub fn get(&self) -> Arc<ChatSettings> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the settings for everything taken in or shown from now on. Work in progress keeps the old ones.
    pub fn set(&self, settings: ChatSettings) {
        *self.0.write() = Arc::new(settings);
    }
}

/// Limits on the messages that are answered after downtime. Older ones are kept as context on Telegram, which delivers
/// them anyway; on Discord they are not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    pub max_age: SignedDuration,
    /// Most messages per channel, the newest ones; on Telegram, per batch of updates.
    pub max_messages: usize,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { max_age: SignedDuration::from_hours(24), max_messages: 200 }
    }
}
