//! `[discord]` and `[telegram]`: which bot it is, who is served where, and what is taken in.

mod check;
mod id;

use std::collections::BTreeSet;
use std::path::PathBuf;

use cairn_core::access::{AccessPolicy, DirectPolicy, PlaceRule, Respond};
use cairn_core::ids::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use check::{check_operator, resolve};
pub use id::PlatformId;
pub(super) use id::is_id;

/// Which chat network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// Discord.
    Discord,
    /// Telegram.
    Telegram,
}

impl NetworkKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Discord, Self::Telegram];

    /// Its name in channel ids, and of its table in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discord => "discord",
            Self::Telegram => "telegram",
        }
    }

    /// Keys of [`Network`] that this network does not have.
    pub(super) fn foreign_keys(self) -> &'static [&'static str] {
        match self {
            Self::Discord => &[],
            Self::Telegram => &["gateway_url", "servers"],
        }
    }
}

/// `[discord]`, `[telegram]`: a bot on a chat network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {
    /// It is used; false keeps the table without its bot.
    pub enabled: bool,
    /// The environment variable that holds the bot's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The file that holds the bot's token; a relative one is looked for among systemd's credentials first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The server, without a path's end that calls add themselves; none: the network's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// Discord's gateway, on the host of `api_url`; none: the one that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_url: Option<String>,
    /// The agent that talks where no place says otherwise; none: the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who may write privately.
    #[schemars(with = "String")]
    pub direct: DirectPolicy,
    /// People who may write privately without a code.
    pub users: Vec<PlatformId>,
    /// Servers that are served, with all their channels; Discord alone has such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<PlatformId>,
    /// Chats (channels) that are served, with their threads.
    pub chats: Vec<PlatformId>,
    /// Who alone is heard in groups; empty: everybody there.
    pub members: Vec<PlatformId>,
    /// When the bot answers in groups.
    #[schemars(with = "String")]
    pub respond: Respond,
    /// Other bots are heard, too.
    pub bots: bool,
    /// Answers are shown while they are written, by edits of one message.
    pub drafts: bool,
    /// Least time between two such edits, in milliseconds.
    pub draft_interval_ms: u64,
    /// After downtime, messages up to this age are fetched and answered, in hours.
    pub catch_up_hours: u64,
    /// After downtime, so many messages of a channel at most are fetched.
    pub catch_up_messages: u64,
    /// Largest image that is handed to the model, in KiB; larger ones are only named.
    pub image_kib: u64,
    /// Largest text file whose words are taken in, in KiB; larger ones are only named.
    pub text_file_kib: u64,
    /// Places with rules of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceKeys>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            enabled: true,
            token_env: None,
            token_file: None,
            api_url: None,
            gateway_url: None,
            agent: None,
            direct: DirectPolicy::default(),
            users: Vec::new(),
            servers: Vec::new(),
            chats: Vec::new(),
            members: Vec::new(),
            respond: Respond::default(),
            bots: false,
            drafts: false,
            draft_interval_ms: 2_000,
            catch_up_hours: 24,
            catch_up_messages: 200,
            image_kib: 4_096,
            text_file_kib: 64,
            places: Vec::new(),
        }
    }
}

/// `[[discord.places]]`, `[[telegram.places]]`: a place with rules of its own. What it names must all fit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlaceKeys {
    /// A server; Discord alone has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<PlatformId>,
    /// A chat (channel).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<PlatformId>,
    /// A thread or topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<PlatformId>,
    /// The agent that talks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When it answers there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub respond: Option<Respond>,
    /// Who alone is heard there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<PlatformId>>,
}

impl Network {
    /// Who may talk where. `default_agent`: the agent that talks where the table names none.
    pub fn policy(&self, default_agent: &AgentId) -> AccessPolicy {
        AccessPolicy {
            agent: self.agent.as_deref().map_or_else(|| default_agent.clone(), AgentId::from),
            direct: self.direct,
            users: texts(&self.users),
            servers: texts(&self.servers),
            chats: texts(&self.chats),
            members: texts(&self.members),
            respond: self.respond,
            bots: self.bots,
            places: self.places.iter().map(PlaceKeys::rule).collect(),
        }
    }
}

impl PlaceKeys {
    fn rule(&self) -> PlaceRule {
        let text = |id: &Option<PlatformId>| id.as_ref().map(|id| id.as_str().to_owned());
        PlaceRule {
            server: text(&self.server),
            chat: text(&self.chat),
            thread: text(&self.thread),
            agent: self.agent.as_deref().map(AgentId::from),
            respond: self.respond,
            members: self.members.as_deref().map(texts),
        }
    }
}

fn texts(ids: &[PlatformId]) -> BTreeSet<String> {
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
