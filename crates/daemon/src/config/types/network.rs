//! `[discord]` and `[telegram]`: which bot it is, who is served where, and what is taken in.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use cairn_core::access::{AccessPolicy, DirectPolicy, PlaceRule, Respond};
use cairn_core::ids::AgentId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Which chat network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    Discord,
    Telegram,
}

impl NetworkKind {
    pub const ALL: [Self; 2] = [Self::Discord, Self::Telegram];

    /// Its name in channel ids, and of its table in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discord => "discord",
            Self::Telegram => "telegram",
        }
    }
}

/// A bot on a chat network. Keys marked `x-discord` are Discord's alone; `x-telegram` is the example for Telegram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {
    /// false keeps the table and leaves the bot out.
    pub enabled: bool,
    /// The bot's token: an environment variable that holds it, or a file (found among systemd's credentials by its bare
    /// name). One of the two. The token itself never stands in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"DISCORD_TOKEN", extend("x-telegram" = "TELEGRAM_TOKEN"))]
    pub token_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"discord.token", extend("x-telegram" = "telegram.token", "x-alternative" = true))]
    pub token_file: Option<PathBuf>,
    /// The server, without /api and what follows. Set it for a server of your own: then the token goes nowhere else, and a
    /// gateway on another host is refused. gateway_url: where its gateway is, whatever the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://discord.com", extend("x-telegram" = "https://api.telegram.org"))]
    pub api_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"wss://discord.com", extend("x-discord" = true, "x-alternative" = true))]
    pub gateway_url: Option<String>,
    /// Where files that people attach come from, and nowhere else. Not set: Discord's own hosts, and that of api_url.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://cdn.discordapp.com", extend("x-discord" = true))]
    pub cdn_url: Option<String>,
    /// Connections among which Discord divides the servers of the bot. Not set: as many as it recommends. One serves up to
    /// 2,500 servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_384), example = 4, extend("x-discord" = true))]
    pub shards: Option<u32>,
    /// The agent that talks there. Not set: the first of [[agents]].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"main")]
    pub agent: Option<String>,
    /// Who may write to the bot privately. "pairing": those of `users`, and whom an operator lets in (a stranger gets a
    /// code; `cairn pair approve CODE`); "allowlist": those of `users`; "open": everybody; "off": nobody.
    pub direct: DirectPolicy,
    /// Ids, as numbers or in quotes: people who may write privately; servers that are served with all their channels;
    /// channels that are served with their threads; people who alone are heard in groups (empty: everybody there). What no
    /// list and no place below names is not served.
    pub users: Vec<PlatformId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("default" = [], "x-discord" = true))]
    pub servers: Vec<PlatformId>,
    pub chats: Vec<PlatformId>,
    pub members: Vec<PlatformId>,
    /// When the bot answers in groups. "mention": when it is mentioned or replied to; the rest is context. "all": always.
    /// "never": not at all, and nothing is kept.
    pub respond: Respond,
    /// Messages of other bots are heard, too.
    pub bots: bool,
    /// Answers are shown while they are written, by edits of one message, so many milliseconds apart.
    pub drafts: bool,
    #[schemars(range(min = 500, max = 60_000))]
    pub draft_interval_ms: u64,
    /// After downtime what was missed is fetched and answered, as one turn a channel: up to this age in hours, and so many
    /// messages a channel.
    #[schemars(range(max = 8_760))]
    pub catch_up_hours: u64,
    #[schemars(range(max = 10_000))]
    pub catch_up_messages: u64,
    /// Largest image that goes to a model that takes images, and largest text file whose words are taken in, in KiB. Larger
    /// ones are only named, as are all other files.
    #[schemars(range(max = 20_480))]
    pub image_kib: u64,
    #[schemars(range(max = 4_096))]
    pub text_file_kib: u64,
    /// Places with rules of their own, one table each; a place that is named is served. What a table names must all fit (a
    /// server, a chat, a thread; on Telegram a thread needs its chat). Where several fit, each key is taken from the most
    /// specific one that has it. What they all leave out is as above. An empty list of members: nobody is heard there.
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
            cdn_url: None,
            shards: None,
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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlaceKeys {
    /// What it names: a server, a chat (channel), a thread or topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1_122_334_455_667_788_990_u64, extend("x-discord" = true))]
    pub server: Option<PlatformId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1_122_334_455_667_788_991_u64, extend("x-telegram" = -1_001_234_567_890_i64))]
    pub chat: Option<PlatformId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1_122_334_455_667_788_992_u64, extend("x-telegram" = 7))]
    pub thread: Option<PlatformId>,
    /// Who talks there, when it answers, and who alone is heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"main")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"all")]
    pub respond: Option<Respond>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = [1_122_334_455_667_788_993_u64], extend("x-telegram" = [123_456_789]))]
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

/// An id of a person, a chat or a server, as it is written in the file: a number, or its digits in quotes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlatformId(String);

impl PlatformId {
    /// Its digits, with a sign where it is negative.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text may be an id on that network: a whole number, not 0; on Discord above it.
pub(in crate::config) fn is_id(text: &str, network: NetworkKind) -> bool {
    let digits = match network {
        NetworkKind::Discord => text,
        NetworkKind::Telegram => text.strip_prefix('-').unwrap_or(text),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain && digits.parse::<u64>().is_ok_and(|id| network == NetworkKind::Discord || id <= i64::MAX as u64)
}

impl Serialize for PlatformId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PlatformId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlatformIdVisitor)
    }
}

struct PlatformIdVisitor;

impl Visitor<'_> for PlatformIdVisitor {
    type Value = PlatformId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id, as a number or as its digits in quotes")
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<PlatformId, E> {
        Ok(PlatformId(id.to_string()))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<PlatformId, E> {
        Ok(PlatformId(id.to_string()))
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<PlatformId, E> {
        Ok(PlatformId(id.trim().to_owned()))
    }
}

impl JsonSchema for PlatformId {
    fn schema_name() -> Cow<'static, str> {
        "PlatformId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "pattern": "^ *-?[0-9]+ *$" })
    }
}
