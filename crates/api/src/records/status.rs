//! The records of the daemon as a whole: `cairn status`, `cairn outbox`.

use std::path::PathBuf;

use cairn_core::agent::WindowSource;
use cairn_core::chain::ModelState;
use cairn_core::spend::money;
use cairn_types::ids::{AgentId, ChannelId, OutboxId, Seq, TurnId};
use cairn_types::ports::{NodeRow, OutboxCounts, PlatformStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state folder, config file and socket of a daemon, or of a command that has opened the store itself.
#[derive(Debug, Clone)]
pub struct Identity {
    pub state_dir: PathBuf,
    /// The config file; none: built-in defaults.
    pub config_file: Option<PathBuf>,
    /// The socket that it listens at; `None`: it serves only its own process.
    pub socket: Option<PathBuf>,
    pub started_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusRecord {
    /// A daemon runs. False when a command has opened the store itself.
    pub running: bool,
    /// `ready`, `starting`, `stopping`; `stopped` if no daemon runs; on a node that changes its role [`CHANGING`], on one
    /// that follows a phrase that says whom it follows.
    pub state: String,
    pub version: String,
    pub pid: u32,
    pub state_dir: String,
    /// The config file; none: built-in defaults.
    pub config_file: Option<String>,
    pub socket: Option<String>,
    pub started_at: Timestamp,
    /// Seconds since `started_at`.
    pub uptime_seconds: u64,
    /// The agents, in the order of the configuration; the first is the default one.
    pub agents: Vec<AgentStatus>,
    pub channels: u64,
    /// When anything last happened in a channel.
    #[serde(default)]
    pub last_at: Option<Timestamp>,
    pub awake: u64,
    pub turns: u64,
    pub runs: u64,
    /// Actors that were restarted after a failure, since the daemon started.
    pub restarts: u64,
    pub store: StoreStatus,
    /// Deliveries that chat networks have not confirmed.
    #[serde(default)]
    pub outbox: OutboxCounts,
    /// Strangers who wait for approval.
    #[serde(default)]
    pub pairings: PairingCounts,
    /// The chat networks that are used.
    #[serde(default)]
    pub platforms: Vec<PlatformStatus>,
    /// What the day has cost; `None`: no daemon runs, or no model has a price.
    #[serde(default)]
    pub spend: Option<SpendStatus>,
    /// This node, if several machines share a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeStatus>,
}

/// The state of a node that changes its role, and the code of all its answers.
pub const CHANGING: &str = "changing";

/// The error code of a node that follows, for requests that only the leader can answer.
pub const STANDBY: &str = "standby";

/// A node counts as awake if it was seen within this many seconds.
pub const AWAKE_SECS: u64 = 5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub name: String,
    /// It is the leader and answers people; otherwise it is a standby.
    pub leads: bool,
    /// The leading node; `None`: none leads at the moment.
    pub leader: Option<String>,
    /// All nodes that the database knows, as far as it answers.
    pub nodes: Vec<NodeRow>,
}

/// A node that hands its role over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrainRecord {
    pub node: String,
    /// The nodes of which one leads next.
    pub standbys: Vec<String>,
}

/// Requests for approval by strangers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingCounts {
    pub waiting: u64,
    /// Requests that lost their place to newer ones, since the daemon started.
    pub displaced: u64,
}

/// What the day has cost, in the currency of the models' prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendStatus {
    /// Since midnight UTC.
    pub today: f64,
    /// The cap of a day, if there is one.
    pub per_day: Option<f64>,
    /// The currency, if the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

impl SpendStatus {
    /// As in `0.12 of 5.00 EUR`.
    pub fn described(&self) -> String {
        let cap = self.per_day.map(|cap| format!(" of {}", money(cap))).unwrap_or_default();
        let currency = self.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
        format!("{}{cap}{currency}", money(self.today))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    pub id: AgentId,
    /// The model that answers the next turn.
    pub model: String,
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    /// Its models, in the order in which they are tried.
    #[serde(default)]
    pub chain: Vec<ChainStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStatus {
    /// Its id in the configuration.
    pub model: String,
    /// Tokens of request and answer together.
    pub window_tokens: u64,
    pub window_source: WindowSource,
    pub state: ModelState,
    /// The end of its cool-down, if it is skipped.
    pub until: Option<Timestamp>,
    /// Why it answers, is not used, or is skipped.
    pub why: Option<String>,
    /// The code of the error of its last failed call; `None`: no call failed since it last answered.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Bytes of the journal.
    pub journal_bytes: u64,
    pub segments: u64,
    /// Bytes of the views.
    #[serde(default)]
    pub views_bytes: u64,
    /// Number of the last durable event.
    pub last: u64,
    /// Number of the last event that the views show.
    pub applied: u64,
    /// Number of the last event in the search index.
    #[serde(default)]
    pub indexed: u64,
    /// The vectors of entries, where a model is configured for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<EmbeddedStatus>,
    /// Why the journal or the views cannot be written or read (a full disk makes the daemon refuse messages until there is
    /// room), or what the background check found damaged.
    pub error: Option<String>,
}

/// Vectors of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedStatus {
    /// The model that makes them.
    pub model: String,
    /// How many entries have one.
    pub entries: u64,
    /// Number of the last event whose entries have theirs.
    pub upto: u64,
}

impl StoreStatus {
    /// The status of a store that cannot be read.
    pub fn unknown(error: Option<String>) -> Self {
        Self {
            journal_bytes: 0,
            segments: 0,
            views_bytes: 0,
            last: 0,
            applied: 0,
            indexed: 0,
            embedded: None,
            error,
        }
    }
}

impl ChainStatus {
    /// Its state in words, as in `cooling until 2026-11-21 12:30:05 UTC because …`.
    pub fn described(&self) -> String {
        self.words(self.why.as_deref())
    }

    /// Its state in words for chats, without what servers said.
    pub fn described_in_public(&self) -> String {
        match self.state {
            ModelState::Answers | ModelState::PassedOver => self.words(self.why.as_deref()),
            ModelState::Ready | ModelState::Cooling | ModelState::Down => {
                self.words(self.error.as_deref().map(|code| code.replace('_', " ")).as_deref())
            }
        }
    }

    fn words(&self, why: Option<&str>) -> String {
        let until = self.until.map(|until| format!(" until {}", until.strftime("%Y-%m-%d %H:%M:%S UTC")));
        let state = format!("{}{}", self.state.name(), until.unwrap_or_default());
        match (why, self.state) {
            (None, _) => state,
            (Some(why), ModelState::Answers) => format!("{state}: {why}"),
            (Some(why), ModelState::Ready) => format!("{state}; its last call failed: {why}"),
            (Some(why), _) => format!("{state} because {why}"),
        }
    }
}

impl StatusRecord {
    /// The status of a state on which no daemon runs.
    pub fn of_stopped(identity: &Identity, agents: Vec<AgentStatus>, store: StoreStatus) -> Self {
        Self {
            running: false,
            state: "stopped".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state_dir: identity.state_dir.display().to_string(),
            config_file: identity.config_file.as_ref().map(|path| path.display().to_string()),
            socket: identity.socket.as_ref().map(|path| path.display().to_string()),
            started_at: identity.started_at,
            uptime_seconds: 0,
            agents,
            channels: 0,
            last_at: None,
            awake: 0,
            turns: 0,
            runs: 0,
            restarts: 0,
            store,
            outbox: OutboxCounts::default(),
            pairings: PairingCounts::default(),
            platforms: Vec::new(),
            spend: None,
            node: None,
        }
    }
}

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRecord {
    pub id: OutboxId,
    pub channel: ChannelId,
    /// What people see as the name of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub turn: TurnId,
    /// The reply's entry; for a note, the newest entry that it is about.
    pub seq: Seq,
    pub at: Timestamp,
    /// Seconds since `at`.
    pub age_seconds: u64,
    /// `owed`, `dead`, `unknown`.
    pub state: String,
    /// The platform's reason, unless it is `owed`.
    pub reason: Option<String>,
    pub parts_sent: u64,
    pub text: String,
}
