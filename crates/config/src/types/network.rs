//! `[discord]`, `[telegram]` and `[[bridges]]`: which bots there are, who is served where, and what is taken in.
//!
//! Each bot is a platform: `discord`, or `discord-NAME` for one that has a name; a bridge is the platform NAME. Everything else
//! goes by that.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;

use cairn_types::ids::{AgentId, LOCAL_PLATFORM, OPENAI_PLATFORM};
use cairn_types::people::access::{AccessPolicy, DirectPolicy, PlaceRule, Respond};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Which chat network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    Discord,
    Telegram,
    /// Any other one, which a program beside the daemon connects.
    Bridge,
}

impl NetworkKind {
    /// Those that Cairn itself connects to.
    pub const ALL: [Self; 2] = [Self::Discord, Self::Telegram];

    /// That of its table in the file, and of the platform of a bot without a name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discord => "discord",
            Self::Telegram => "telegram",
            Self::Bridge => "bridges",
        }
    }

    /// The network whose bots stand in a table of that name.
    pub fn of_table(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Bridge]).find(|kind| kind.name() == name)
    }

    /// The platform of a bot of that name.
    pub fn platform(self, name: Option<&str>) -> String {
        match name {
            None => self.name().to_owned(),
            Some(name) if self == Self::Bridge => name.to_owned(),
            Some(name) => format!("{}-{name}", self.name()),
        }
    }

    /// The network of a platform, whether such a bot is configured or not; `None` for bridges, whose names are free.
    pub fn of_platform(platform: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let rest = platform.strip_prefix(kind.name());
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_name))
        })
    }
}

/// Longest name of a bot.
const NAME_MAX: usize = 32;

/// Whether a text may be the name of a bot.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    text.len() <= NAME_MAX && text.bytes().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether a text may be the name of a bridge, and so of a platform: no other platform has it.
pub(crate) fn is_bridge_name(text: &str) -> bool {
    let is_taken = [LOCAL_PLATFORM, OPENAI_PLATFORM].contains(&text)
        || NetworkKind::ALL.into_iter().any(|kind| text.starts_with(kind.name()));
    is_name(text) && !is_taken
}

/// A bot of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Bot<'c> {
    pub kind: NetworkKind,
    pub network: &'c Network,
}

impl Bot<'_> {
    /// Its platform, in ids of channels and people and wherever bots are told apart.
    pub fn platform(&self) -> String {
        self.kind.platform(self.network.name.as_deref())
    }

    /// Its table, for messages.
    pub fn table(&self) -> String {
        match &self.network.name {
            None => format!("[{}]", self.kind.name()),
            Some(name) => format!("[{}] `{name}`", self.kind.name()),
        }
    }
}

/// The bots of a network: a table, or a list of tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bots {
    bots: Vec<Network>,
    is_list: bool,
}

impl Bots {
    /// The tables of all bots, each changed.
    pub fn map(self, change: impl FnMut(Network) -> Network) -> Self {
        Self { bots: self.bots.into_iter().map(change).collect(), ..self }
    }
}

impl Deref for Bots {
    type Target = [Network];

    fn deref(&self) -> &[Network] {
        &self.bots
    }
}

impl Serialize for Bots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.bots {
            [bot] if !self.is_list => bot.serialize(serializer),
            bots => bots.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BotsVisitor)
    }
}

struct BotsVisitor;

impl<'de> Visitor<'de> for BotsVisitor {
    type Value = Bots;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, or a list of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Bots, A::Error> {
        let bot = Network::deserialize(MapAccessDeserializer::new(table))?;
        Ok(Bots { bots: vec![bot], is_list: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Bots, A::Error> {
        Ok(Bots { bots: Vec::deserialize(SeqAccessDeserializer::new(list))?, is_list: true })
    }
}

impl JsonSchema for Bots {
    fn schema_name() -> Cow<'static, str> {
        "Bots".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Network::json_schema(generator)
    }
}

/// A bot on a chat network. Keys marked `x-discord` are Discord's alone, those marked `x-telegram-only` Telegram's, those
/// marked `x-bridges-only` of bridges; `x-no-bridge` marks what bridges do not have. `x-telegram` and `x-bridges` are
/// the examples there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {
    /// For a further bot on the same network: write one table [[discord]] for each, and give all but one a name. The bot is
    /// then the platform discord-NAME: in ids of channels and people (discord-work/123), in status, log and metrics. Without
    /// a name it is the platform discord. Up to 32 of a-z, 0-9, _ and -. People of different bots are different people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"work", extend("x-bridges" = "matrix", "pattern" = "^[a-z0-9][a-z0-9_-]{0,31}$"))]
    pub name: Option<String>,
    /// false keeps the table and leaves the bot out.
    pub enabled: bool,
    /// The bot's token: an environment variable that holds it, or a file (found among systemd's credentials by its bare
    /// name). One of the two. The token itself never stands in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"DISCORD_TOKEN", extend("x-telegram" = "TELEGRAM_TOKEN", "x-bridges" = "MATRIX_BRIDGE_TOKEN"))]
    pub token_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"discord.token", extend("x-telegram" = "telegram.token", "x-bridges" = "matrix-bridge.token", "x-alternative" = true))]
    pub token_file: Option<PathBuf>,
    /// A TCP address at which the bridge may reach the daemon, beside the daemon's socket; plain HTTP, so that other machines
    /// need a proxy with TLS in front. Several bridges may share one. Changing it needs a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"127.0.0.1:9466", extend("x-bridges-only" = true))]
    pub listen: Option<String>,
    /// The server, without /api and what follows. Set it for a server of your own: then the token goes nowhere else, and a
    /// gateway on another host is refused. gateway_url: where its gateway is, whatever the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://discord.com", extend("x-telegram" = "https://api.telegram.org", "x-no-bridge" = true))]
    pub api_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"wss://discord.com", extend("x-discord" = true, "x-alternative" = true))]
    pub gateway_url: Option<String>,
    /// Where files that people attach come from, and nowhere else. Not set: Discord's own hosts, and that of api_url.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://cdn.discordapp.com", extend("x-discord" = true))]
    pub cdn_url: Option<String>,
    /// A webhook: Telegram sends updates to this address instead of being asked for them. https, with a name that everybody
    /// can resolve, on port 443, 80, 88 or 8443. It must lead, through a reverse proxy or balancer with TLS, to
    /// webhook_listen (127.0.0.1:9465 unless set), where its path is served over plain HTTP; several bots may share an address if their paths differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://bot.example.net/telegram", extend("x-telegram-only" = true))]
    pub webhook_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"127.0.0.1:9465", extend("x-telegram-only" = true))]
    pub webhook_listen: Option<String>,
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
    /// code; `cairn pair approve CODE`); "allowlist": those of `users`; "open": everybody; "off": nobody. With "pairing" a group
    /// that is not listed gets a code, too, when the bot is mentioned there; a Discord server only while nothing is listed.
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
    /// When the bot answers in groups. "mention": when it is mentioned or replied to; the rest is context. "all": every
    /// message is put to the model, which may stay silent. "never": not at all, and nothing is kept.
    pub respond: Respond,
    /// Messages of other bots are heard, too. So many of them a minute get an answer in each chat, so that two bots do not talk
    /// to each other without end; the rest is context. 0: no limit.
    pub bots: bool,
    #[schemars(range(max = 600))]
    pub bots_per_minute: u32,
    /// Longer answers are shown while they are written, by edits of one message: one every so many milliseconds, and after the
    /// tenth half as often. false: answers are sent when they are complete.
    pub drafts: bool,
    #[schemars(range(min = 500, max = 60_000))]
    pub draft_interval_ms: u64,
    /// A code block of an answer that alone would need more messages than these is sent as a file, named by its language. 0:
    /// code is never sent as a file. A change takes effect with the next answer.
    #[schemars(range(max = 100))]
    pub long_code_parts: u32,
    /// Reactions that mark a message to the bot: when it was accepted, when its answer begins, and when its turn failed. After
    /// an answer the mark goes. An emoji or a name such as "eyes"; on Discord also "name:id" of one of the server's own. Telegram
    /// takes only some emoji, and says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"eyes")]
    pub reaction_seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"hourglass", extend("x-telegram" = "writing"))]
    pub reaction_working: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"cross", extend("x-telegram" = "sob"))]
    pub reaction_failed: Option<String>,
    /// Messages of one person that follow each other within so many milliseconds are answered together, since clients split a
    /// long paste. 0: a message waits for no other. Parts of an album always wait for each other.
    #[schemars(range(max = 10_000))]
    pub gather_ms: u64,
    /// After downtime what was missed is fetched and answered, as one turn a channel: up to this age in hours, and so many
    /// messages a channel.
    #[schemars(range(max = 8_760))]
    pub catch_up_hours: u64,
    #[schemars(range(max = 10_000))]
    pub catch_up_messages: u64,
    /// Largest image that goes to a model that takes images, largest text file and largest document (PDF, docx, xlsx, pptx,
    /// odt, ods, odp) whose text is read, in KiB. Larger ones are only named, as are all other files.
    #[schemars(range(max = 20_480))]
    pub image_kib: u64,
    #[schemars(range(max = 4_096))]
    pub text_file_kib: u64,
    #[schemars(range(max = 16_384))]
    pub document_kib: u64,
    /// Places with rules of their own, one table each; a place that is named is served. What a table names must all fit (a
    /// server, a chat, a thread; on Telegram a thread needs its chat). Where several fit, each key is taken from the most
    /// specific one that has it. What none of them sets is taken from the table above. An empty list of members: nobody is heard there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceKeys>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            name: None,
            enabled: true,
            token_env: None,
            token_file: None,
            listen: None,
            api_url: None,
            gateway_url: None,
            cdn_url: None,
            webhook_url: None,
            webhook_listen: None,
            shards: None,
            agent: None,
            direct: DirectPolicy::default(),
            users: Vec::new(),
            servers: Vec::new(),
            chats: Vec::new(),
            members: Vec::new(),
            respond: Respond::default(),
            bots: false,
            bots_per_minute: 4,
            drafts: true,
            draft_interval_ms: 2_000,
            long_code_parts: 3,
            reaction_seen: None,
            reaction_working: None,
            reaction_failed: None,
            gather_ms: 1_500,
            catch_up_hours: 24,
            catch_up_messages: 200,
            image_kib: 4_096,
            text_file_kib: 64,
            document_kib: 4_096,
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
    #[schemars(example = 1_122_334_455_667_788_991_u64, extend("x-telegram" = -1_001_234_567_890_i64, "x-bridges" = "!room:example.org"))]
    pub chat: Option<PlatformId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1_122_334_455_667_788_992_u64, extend("x-telegram" = 7, "x-bridges" = "$thread"))]
    pub thread: Option<PlatformId>,
    /// Who talks there, when it answers, and who alone is heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"main")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"all")]
    pub respond: Option<Respond>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = [1_122_334_455_667_788_993_u64], extend("x-telegram" = [123_456_789], "x-bridges" = ["@ann:example.org"]))]
    pub members: Option<Vec<PlatformId>>,
    /// The language of what the bot itself says there, as `language` of agents. Not set: the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"de")]
    pub language: Option<String>,
}

/// Where a webhook is served unless configured.
const WEBHOOK_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9465);

impl Network {
    /// Its reactions by their keys.
    pub(crate) fn reactions(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("reaction_seen", self.reaction_seen.as_deref()),
            ("reaction_working", self.reaction_working.as_deref()),
            ("reaction_failed", self.reaction_failed.as_deref()),
        ]
    }

    /// Where its webhook is served, if it has one.
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.webhook_url.as_ref()?;
        match &self.webhook_listen {
            Some(listen) => listen.trim().parse().ok(),
            None => Some(WEBHOOK_ADDRESS),
        }
    }

    /// Where a bridge may reach the daemon beside its socket; `None` also for what is no address.
    pub fn bridge_address(&self) -> Option<SocketAddr> {
        self.listen.as_deref()?.trim().parse().ok()
    }

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
            language: self.language.clone(),
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

/// Longest id that a bridge may give, in bytes.
const BRIDGE_ID_MAX: usize = 255;

/// Whether a text may be an id on that network: a whole number, not 0; on Discord above it. Bridges have their own ids.
pub(crate) fn is_id(text: &str, network: NetworkKind) -> bool {
    let digits = match network {
        NetworkKind::Bridge => {
            let fits = !text.is_empty() && text.len() <= BRIDGE_ID_MAX;
            return fits && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/');
        }
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
