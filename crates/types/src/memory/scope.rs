//! Scopes: who may read a memory. A scope is part of a memory's key, and each place reads by its [`Reach`] alone.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Memory;
use crate::ids::{ChannelId, LOCAL_PLATFORM};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Everybody who talks to the agent. Only operators add to it.
    Agent,
    Chat {
        platform: String,
        /// The chat; all its threads share the scope.
        chat: String,
    },
    /// One person, in private chats only.
    User { platform: String, user: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope; write `agent`, `chat:PLATFORM/CHAT` or `user:PLATFORM/USER`")]
pub struct BadScope(pub String);

impl Scope {
    /// The scope of memories that are learnt in a channel. A local channel counts as a group. A private chat on a chat
    /// network gives the person's own scope; `direct_with` names them by `PLATFORM/USER`, as authors are.
    pub fn learnt_in(channel: &ChannelId, direct_with: Option<&str>) -> Self {
        match direct_with {
            Some(person) if channel.platform() != LOCAL_PLATFORM => {
                let platform = channel.platform();
                let bare = person.strip_prefix(platform).and_then(|rest| rest.strip_prefix('/'));
                Self::User { platform: platform.to_owned(), user: bare.unwrap_or(person).to_owned() }
            }
            _ => Self::Chat { platform: channel.platform().to_owned(), chat: channel.chat().to_owned() },
        }
    }
}

/// How far what was learnt in a chat is recalled: `memory.share`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    Chat,
    /// What people said of themselves also in their own private chats.
    #[default]
    Person,
    Agent,
}

/// A set of memories that may be read. [`Reach::of`] alone decides which sets a channel may read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    Scope(Scope),
    /// What a person, `PLATFORM/USER`, said about themselves in chats with others.
    Own(String),
    All,
}

impl Reach {
    /// The sets that may be recalled in a channel, widest first. [`Reach::Own`] occurs only in that person's private chats.
    pub fn of(channel: &ChannelId, direct_with: Option<&str>, share: Share) -> Vec<Self> {
        if share == Share::Agent {
            return vec![Self::All];
        }
        let chat = Scope::Chat { platform: channel.platform().to_owned(), chat: channel.chat().to_owned() };
        let mut reach = vec![Self::Scope(Scope::Agent), Self::Scope(chat)];
        if let learnt @ Scope::User { .. } = Scope::learnt_in(channel, direct_with) {
            if let (Share::Person, Scope::User { platform, user }) = (share, &learnt) {
                reach.push(Self::Own(format!("{platform}/{user}")));
            }
            reach.push(Self::Scope(learnt));
        }
        reach
    }

    /// Whether a memory is in the set. Its agent is not checked.
    pub fn holds(&self, memory: &Memory) -> bool {
        match self {
            Self::Scope(scope) => memory.scope == *scope,
            Self::Own(person) => memory.follows() == Some(person),
            Self::All => true,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            Self::Chat { platform, chat } => write!(f, "chat:{platform}/{chat}"),
            Self::User { platform, user } => write!(f, "user:{platform}/{user}"),
        }
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let bad = || BadScope(text.chars().take(80).collect());
        if text == "agent" {
            return Ok(Self::Agent);
        }
        let (kind, place) = text.split_once(':').ok_or_else(bad)?;
        let (platform, id) = place.split_once('/').ok_or_else(bad)?;
        let fine = |part: &str| {
            !part.is_empty()
                && part.len() <= 128
                && !part.chars().any(|c| c == '/' || c.is_whitespace() || c.is_control())
        };
        if !fine(platform) || !fine(id) {
            return Err(bad());
        }
        let platform = platform.to_owned();
        match kind {
            "chat" => Ok(Self::Chat { platform, chat: id.to_owned() }),
            "user" => Ok(Self::User { platform, user: id.to_owned() }),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = BadScope;

    fn try_from(text: String) -> Result<Self, BadScope> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::memory::{Source, TYPED_BY_MEMBER};
    use crate::testing;

    const GROUP: &str = "main/telegram/-100";
    const TOPIC: &str = "main/telegram/-100/5";
    const OTHER: &str = "main/telegram/-200";
    const ANN: &str = "main/telegram/7";
    const BOB: &str = "main/telegram/8";
    const ANN_ELSEWHERE: &str = "main/discord/7";
    const LOCAL: &str = "main/local/desk";

    fn with(channel: &str) -> Option<String> {
        [ANN, BOB, ANN_ELSEWHERE]
            .contains(&channel)
            .then(|| channel.strip_prefix("main/").unwrap().to_owned())
    }

    fn learnt(text: &str, scope: Scope, by: Option<&str>, subject: Option<&str>) -> Memory {
        let by = by.map(|id| testing::author(id, "somebody"));
        let source = Source { by, ..testing::source(Some(GROUP), TYPED_BY_MEMBER) };
        let subject = subject.map(ToOwned::to_owned);
        Memory { subject, source, ..testing::memory(&scope.to_string(), text) }
    }

    fn canaries() -> Vec<Memory> {
        let scope = |channel: &str| Scope::learnt_in(&channel.parse().unwrap(), with(channel).as_deref());
        let (ann, bob) = (Some("telegram/7"), Some("telegram/8"));
        vec![
            learnt("operator", Scope::Agent, None, None),
            learnt("ann-of-herself", scope(GROUP), ann, ann),
            learnt("bob-of-himself", scope(GROUP), bob, bob),
            learnt("bob-of-ann", scope(GROUP), bob, ann),
            learnt("group", scope(GROUP), None, None),
            learnt("other", scope(OTHER), None, ann),
            learnt("ann-private", scope(ANN), ann, ann),
            learnt("bob-private", scope(BOB), bob, bob),
            learnt("local", scope(LOCAL), Some("local/ann"), Some("local/ann")),
        ]
    }

    const GROUP_SEES: &str = "operator ann-of-herself bob-of-himself bob-of-ann group";
    const ALL: &str =
        "operator ann-of-herself bob-of-himself bob-of-ann group other ann-private bob-private local";

    #[rstest]
    #[case(Share::Chat, GROUP, GROUP_SEES)]
    #[case(Share::Chat, TOPIC, GROUP_SEES)]
    #[case(Share::Chat, OTHER, "operator other")]
    #[case(Share::Chat, ANN, "operator ann-private")]
    #[case(Share::Chat, BOB, "operator bob-private")]
    #[case(Share::Chat, LOCAL, "operator local")]
    #[case(Share::Person, GROUP, GROUP_SEES)]
    #[case(Share::Person, TOPIC, GROUP_SEES)]
    #[case(Share::Person, OTHER, "operator other")]
    #[case(Share::Person, ANN, "operator ann-of-herself ann-private")]
    #[case(Share::Person, BOB, "operator bob-of-himself bob-private")]
    #[case(Share::Person, ANN_ELSEWHERE, "operator")]
    #[case(Share::Person, LOCAL, "operator local")]
    #[case(Share::Agent, GROUP, ALL)]
    #[case(Share::Agent, BOB, ALL)]
    #[case(Share::Agent, LOCAL, ALL)]
    fn a_channel_reads_what_is_shared_with_it_and_nothing_else(
        #[case] share: Share,
        #[case] channel: &str,
        #[case] expected: &str,
    ) {
        let reach = Reach::of(&channel.parse().unwrap(), with(channel).as_deref(), share);
        let memories = canaries();
        let read = memories.iter().filter(|memory| reach.iter().any(|one| one.holds(memory)));
        let read: Vec<&str> = read.map(|memory| memory.text.as_str()).collect();
        assert_eq!(read.join(" "), expected);
    }
}
