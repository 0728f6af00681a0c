//! Who may talk to the bot where, and when it answers. Fails closed: what no list names is not served.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::AgentId;
use crate::people::pairing::PairingStatus;

#[cfg(test)]
mod tests;

/// Why a message of a group that is on no list is ignored.
pub const UNLISTED: &str = "place not on a list";

/// Who may write to the bot privately, and whether an operator lets groups in by a code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectPolicy {
    /// Those on the list, and whom an operator lets in by a code. A group that is on no list gets a code, too, when the bot is
    /// called there.
    #[default]
    Pairing,
    Allowlist,
    Open,
    Off,
}

/// When the bot answers in a group that it serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Respond {
    /// When it is mentioned or replied to; the rest is context.
    #[default]
    Mention,
    All,
    Never,
}

/// A place with rules of its own. Everything that it names must fit: a server, a chat, a thread. A thread alone names a place
/// only on platforms with servers: elsewhere other chats have threads with the same number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The language of the bot's own texts there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respond: Option<Respond>,
    /// Ids of the only people who are served there. An empty list: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessPolicy {
    /// The agent that answers where no place says otherwise.
    pub agent: AgentId,
    pub direct: DirectPolicy,
    /// People who may write privately; ids.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<String>,
    /// Servers that are served, with all their channels; ids.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<String>,
    /// Chats (channels) that are served, with their threads; ids. On platforms with servers also threads by themselves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub chats: BTreeSet<String>,
    /// Ids of the only people who are served in groups; empty: everybody there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub members: BTreeSet<String>,
    pub respond: Respond,
    pub bots: bool,
    /// Places with rules of their own; a place that is named is served. Each key is taken from the most specific rule
    /// that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceRule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatPlace<'a> {
    Direct,
    Group {
        /// The server, where the platform has such.
        server: Option<&'a str>,
        /// The chat or channel; for a thread, the one it belongs to.
        chat: &'a str,
        thread: Option<&'a str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// The person's id on the platform, without its name.
    pub user: &'a str,
    /// Whether they are paired or banned, by the registry.
    pub standing: PairingStatus,
    /// Whether the group is paired, by the registry; of no meaning in a private chat.
    pub standing_of_group: PairingStatus,
    pub myself: bool,
    pub bot: bool,
    /// The bot is mentioned, replied to, or given a command.
    pub calls_me: bool,
    pub place: ChatPlace<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessVerdict {
    Serve {
        agent: AgentId,
        addressed: bool,
    },
    /// A stranger in a private chat, or a group that is on no list: a pairing code is sent.
    Pair,
    /// The message is ignored; the text says why, for the log.
    Ignore(&'static str),
}

impl AccessPolicy {
    /// Whether a message is served, by which agent, and whether it gets an answer.
    pub fn judge(&self, approach: &AccessRequest<'_>) -> AccessVerdict {
        if approach.myself {
            return AccessVerdict::Ignore("own message");
        }
        if approach.standing == PairingStatus::Banned {
            return AccessVerdict::Ignore("banned");
        }
        if approach.bot && !self.bots {
            return AccessVerdict::Ignore("message of a bot");
        }
        match approach.place {
            ChatPlace::Direct => self.judge_direct(approach),
            ChatPlace::Group { server, chat, thread } => self.judge_group(approach, server, chat, thread),
        }
    }

    /// The language of a place, where a rule of its own names one.
    pub fn language_at(&self, place: ChatPlace<'_>) -> Option<&str> {
        let ChatPlace::Group { server, chat, thread } = place else { return None };
        self.rules_of(server, chat, thread).iter().find_map(|rule| rule.language.as_deref())
    }

    fn judge_direct(&self, approach: &AccessRequest<'_>) -> AccessVerdict {
        let serve = AccessVerdict::Serve { agent: self.agent.clone(), addressed: true };
        let listed = self.users.contains(approach.user);
        match self.direct {
            DirectPolicy::Off => AccessVerdict::Ignore("private chats are off"),
            DirectPolicy::Open => serve,
            DirectPolicy::Allowlist | DirectPolicy::Pairing if listed => serve,
            DirectPolicy::Allowlist => AccessVerdict::Ignore("not on the list of users"),
            DirectPolicy::Pairing if approach.standing == PairingStatus::Paired => serve,
            DirectPolicy::Pairing if approach.standing == PairingStatus::Revoked => {
                AccessVerdict::Ignore("its pairing was revoked")
            }
            // Bots do not read codes to operators.
            DirectPolicy::Pairing if approach.bot => AccessVerdict::Ignore("bots are not paired"),
            DirectPolicy::Pairing => AccessVerdict::Pair,
        }
    }

    fn judge_group(
        &self,
        approach: &AccessRequest<'_>,
        server: Option<&str>,
        chat: &str,
        thread: Option<&str>,
    ) -> AccessVerdict {
        let rules = self.rules_of(server, chat, thread);
        let served = !rules.is_empty()
            || self.chats.contains(chat)
            || (server.is_some() && thread.is_some_and(|thread| self.chats.contains(thread)))
            || server.is_some_and(|server| self.servers.contains(server));
        let let_in =
            self.direct == DirectPolicy::Pairing && approach.standing_of_group == PairingStatus::Paired;
        if !served && !let_in {
            return self.judge_unlisted(approach, server.is_some());
        }
        let heard = match rules.iter().find_map(|rule| rule.members.as_ref()) {
            Some(members) => members.contains(approach.user),
            None => self.members.is_empty() || self.members.contains(approach.user),
        };
        if !heard {
            return AccessVerdict::Ignore("not on the list of members");
        }
        let addressed = match rules.iter().find_map(|rule| rule.respond).unwrap_or(self.respond) {
            Respond::Never => return AccessVerdict::Ignore("the bot never answers there"),
            Respond::All => true,
            Respond::Mention => approach.calls_me,
        };
        let agent = rules.iter().find_map(|rule| rule.agent.as_ref()).unwrap_or(&self.agent).clone();
        AccessVerdict::Serve { agent, addressed }
    }

    /// A group that neither a list nor an operator lets in. Only a member who would be heard there gets a code. On servers lists
    /// may leave out channels on purpose, so that codes are told there only where nothing is listed.
    fn judge_unlisted(&self, approach: &AccessRequest<'_>, on_server: bool) -> AccessVerdict {
        let is_member = self.members.is_empty() || self.members.contains(approach.user);
        let has_lists = !(self.servers.is_empty() && self.chats.is_empty() && self.places.is_empty());
        let is_open = self.direct == DirectPolicy::Pairing && !(on_server && has_lists);
        let may_ask = is_open && is_member && !approach.bot && approach.calls_me;
        match approach.standing_of_group {
            PairingStatus::Revoked => AccessVerdict::Ignore("the pairing of the group was revoked"),
            _ if may_ask => AccessVerdict::Pair,
            _ => AccessVerdict::Ignore(UNLISTED),
        }
    }

    /// The rules that fit, the most specific first: those that name the thread before those that name the chat before
    /// those that name the server; equals in their order.
    fn rules_of(&self, server: Option<&str>, chat: &str, thread: Option<&str>) -> Vec<&PlaceRule> {
        let fits = |rule: &&PlaceRule| {
            let same = |wanted: &Option<String>, is: Option<&str>| {
                wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
            };
            let named =
                rule.server.is_some() || rule.chat.is_some() || (rule.thread.is_some() && server.is_some());
            named && same(&rule.server, server) && same(&rule.chat, Some(chat)) && same(&rule.thread, thread)
        };
        let mut rules: Vec<&PlaceRule> = self.places.iter().filter(fits).collect();
        rules.sort_by_key(|rule| {
            std::cmp::Reverse((rule.thread.is_some(), rule.chat.is_some(), rule.server.is_some()))
        });
        rules
    }
}
